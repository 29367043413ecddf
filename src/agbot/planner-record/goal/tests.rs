//! Numbers of slots, leaders and availability: A1, A2, A6, A9, A12, B2, B7.

use super::*;

#[test]
fn natural_leaders_are_the_first_of_all_and_available_ones_of_the_rest() {
    let goal = Goal::flex((1, 3, 2), StartMode::BestAvailable, 0);
    // The first node is frozen: it stays a natural leader, and is not available.
    let found = leaders(&goal, &[0, 1, 2], &[1, 2]);
    assert_eq!((found.natural.clone(), found.available.clone()), ([0, 1].into(), [1, 2].into()));
    assert_eq!(found.of_giveback(&goal), found.available);
    let goal = Goal::flex((1, 3, 2), StartMode::NaturalLeader, 0);
    assert_eq!(found.of_giveback(&goal), found.natural);
}

fn instance(avail: Avail, is_leader: bool) -> InstanceState {
    InstanceState { avail, is_leader, is_frozen: false }
}

/// A9-S41.
#[test]
fn availability_of_a_workload_unit_follows_its_mode() {
    let (up, down) = (instance(Avail::Up, false), instance(Avail::Down, false));
    let (warn, none) = (instance(Avail::Warn, false), instance(Avail::NotApplicable, false));
    let failover = Goal::failover(StartMode::BestAvailable, 0);
    let flex = Goal::flex((2, 3, 2), StartMode::BestAvailable, 0);
    let table = [
        (failover, vec![up, up], Avail::Warn),
        (failover, vec![up, down], Avail::Up),
        (failover, vec![down, warn], Avail::Warn),
        (failover, vec![down, down], Avail::Down),
        (flex, vec![up, down], Avail::Warn),
        (flex, vec![down, down], Avail::Down),
        (flex, vec![up; 4], Avail::Warn),
        (flex, vec![up; 3], Avail::Up),
        (Goal::replicated(2), vec![up, up], Avail::Up),
        (Goal::replicated(2), vec![up, warn], Avail::Warn),
        (Goal::global(), vec![up, up], Avail::Up),
        (Goal::global(), vec![up, down], Avail::Warn),
        (Goal::global(), vec![none, none], Avail::NotApplicable),
        (Goal::global(), vec![], Avail::NotApplicable),
    ];
    for (goal, instances, expected) in table {
        assert_eq!(avail_of(&goal, &instances, 2, false), expected, "{goal:?} {instances:?}");
    }
    assert_eq!(avail_of(&Goal::replicated(2), &[up; 3], 0, true), Avail::Up);
}

#[test]
fn availability_of_a_workload_is_that_of_its_parts() {
    use Avail::{Down, NotApplicable, Up, Warn};
    assert_eq!(workload_avail(&[Up, NotApplicable, Up]), Up);
    assert_eq!(workload_avail(&[Up, Down]), Warn);
    assert_eq!(workload_avail(&[NotApplicable]), NotApplicable);
}

#[test]
fn placement_is_optimal_when_the_leaders_run_and_nothing_else() {
    let flex = Goal::flex((1, 3, 2), StartMode::BestAvailable, 0);
    let (up, down) = (|leader| instance(Avail::Up, leader), |leader| instance(Avail::Down, leader));
    let frozen = InstanceState { is_frozen: true, ..up(false) };
    let table = [
        (vec![up(true), up(true), down(false)], PlacementState::Optimal),
        (vec![up(true), down(true), up(false)], PlacementState::NonOptimal),
        (vec![down(true), down(false)], PlacementState::NotApplicable),
        (vec![frozen, down(true)], PlacementState::Optimal),
    ];
    for (instances, expected) in table {
        assert_eq!(placement_state(&flex, &instances, true), expected, "{instances:?}");
    }
    let states = [up(true), up(true)];
    assert_eq!(placement_state(&flex, &states, false), PlacementState::NotApplicable);
    let optional = Goal::flex((0, 3, 2), StartMode::BestAvailable, 0);
    assert_eq!(placement_state(&optional, &states, true), PlacementState::NotApplicable);
}
