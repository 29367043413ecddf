//! Actions of users that last: A1, A2, A5, A6, A11.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::OnViolation;
use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    goal::{Goal, StartMode},
    workload::{ActionGoal, NodeOrder, Task, UserAction},
};

use super::simulated::*;
use crate::user_action::{Progress, UnitView, progress};

impl World {
    /// A user begins an action.
    pub fn begin(&mut self, goal: ActionGoal, is_forced: bool) {
        let action = UserAction {
            id: "1".into(),
            name: "test".into(),
            actor: "o/ann".into(),
            unit_name: None,
            accepted_at: self.now(),
            is_forced,
            goals: vec![(None, goal)],
        };
        for one in &mut self.nodes {
            if action.goals[0].1.has_destination(&one.id) {
                (one.marks.start_failed, one.marks.stop_failed) = (None, None);
            }
        }
        self.edit(|workload| workload.action = Some(action));
    }

    /// Returns how far the action is.
    pub fn progress(&self) -> Progress {
        let action = self.workload.action.as_ref().expect("an action is in progress");
        let (table, tasks) = (self.table(), self.tasks.values().collect());
        let view = UnitView { workload: &self.workload, table: &table, tasks };
        progress(action, &action.goals[0].1, &view, self.now())
    }

    /// Runs until the action is over, and takes it out of the row.
    pub fn finish(&mut self, seconds: u64) -> Progress {
        self.run_until(seconds, |world| !matches!(world.progress(), Progress::Open { .. }));
        let over = self.progress();
        self.edit(|workload| workload.action = None);
        over
    }

    fn instances(&self) -> usize {
        self.tasks.values().filter(|task| task.is_running()).count()
    }
}

fn ranked(goal: Goal, node_count: usize) -> World {
    let mut world = World::new(goal, node_count);
    world.edit(|workload| workload.placement.order = NodeOrder::Listed);
    world
}

fn failover(start: StartMode) -> World {
    ranked(Goal::failover(start, 16), 2)
}

fn placed(names: &[&str], is_pinned: bool) -> ActionGoal {
    let nodes: BTreeSet<_> = names.iter().map(|name| node(name)).collect();
    let pinned = if is_pinned { nodes.clone() } else { BTreeSet::new() };
    ActionGoal::Placed { nodes, pinned }
}

/// A1-S1, the start by a user.
#[test]
fn user_starts_on_the_natural_leader_what_start_mode_never_leaves() {
    let mut world = failover(StartMode::Never);
    world.run(120);
    assert!(world.tasks.is_empty());
    world.begin(ActionGoal::Started, false);
    assert_eq!(world.finish(5), Progress::Done);
    assert_eq!(world.running_nodes(), ["n1"]);
    // Its node is lost: nothing happens, and what still runs there is not stopped.
    world.take_down("n1");
    world.run(60);
    world.bring_back("n1");
    world.run(60);
    assert_eq!((world.running_nodes(), world.history.len()), (vec!["n1"], 1));
}

/// A1-S4.
#[test]
fn moved_instance_stays_until_it_is_given_back() {
    let mut world = failover(StartMode::NaturalLeader);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    world.begin(placed(&["n2"], true), false);
    assert_eq!(world.finish(10), Progress::Done);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n2"]);
    world.begin(placed(&["n1"], false), false);
    assert_eq!(world.finish(10), Progress::Done);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n1"]);
}

/// A2-S3.
#[test]
fn forced_second_instance_stays_until_a_user_stops_one() {
    let mut world = failover(StartMode::BestAvailable);
    world.run(30);
    world.begin(ActionGoal::StartedOn { node: node("n2") }, true);
    assert_eq!(world.finish(10), Progress::Done);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    world.begin(ActionGoal::StoppedOn { nodes: [node("n1")].into() }, false);
    world
        .change_node("n1", |node| node.frozen = Some(evenkeel_planner_record::report::FrozenLevel::Instance));
    assert_eq!(world.finish(10), Progress::Done);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// A6.
#[test]
fn unit_that_a_user_stopped_stays_stopped_until_it_is_started() {
    let mut world = failover(StartMode::BestAvailable);
    world.run(30);
    let nodes: Vec<_> = world.nodes.iter().map(|row| row.id.clone()).collect();
    world.begin(ActionGoal::StoppedOn { nodes: nodes.iter().cloned().collect() }, false);
    for node in &nodes {
        world.change_node(node.name(), |row| {
            row.frozen = Some(evenkeel_planner_record::report::FrozenLevel::Instance);
        });
    }
    assert_eq!(world.finish(20), Progress::Done);
    let created = world.tasks.len();
    world.run(300);
    assert_eq!((world.running_nodes().len(), world.tasks.len()), (0, created), "nothing is tried meanwhile");
    world.begin(ActionGoal::Started, false);
    for node in &nodes {
        world.change_node(node.name(), |row| row.frozen = None);
    }
    assert_eq!(world.finish(40), Progress::Done);
    assert_eq!(world.running_nodes(), ["n1"]);
}

/// A6, A12: a workload that was stopped is taken over by one node, and gets its other instance when that is done.
#[test]
fn takeover_of_a_stopped_workload_starts_the_other_instance_afterwards() {
    let mut world = ranked(Goal::replicated(2).stopped(), 3);
    world.run(2);
    world.edit(|workload| workload.goal.is_stopped = false);
    world.begin(placed(&["n3"], true), false);
    assert_eq!(world.finish(30), Progress::Done);
    assert_eq!(world.running_nodes(), ["n3"]);
    world.run(30);
    assert_eq!((world.instances(), world.running_nodes().len()), (2, 2));
    assert!(world.tasks.len() <= 4, "{} tasks", world.tasks.len());
}

/// A12, P0: a freeze holds a move in progress, also when the new instances run already.
#[test]
fn move_stops_nothing_while_the_workload_is_frozen() {
    let mut world = ranked(Goal::replicated(2), 4);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    world.begin(placed(&["n3", "n4"], true), false);
    world.run(1);
    world.edit(|workload| workload.is_frozen = true);
    world.run(60);
    assert!(["n1", "n2"].iter().all(|node| world.running_nodes().contains(node)));
    world.edit(|workload| workload.is_frozen = false);
    assert_eq!(world.finish(60), Progress::Done);
    assert_eq!(world.running_nodes(), ["n3", "n4"]);
}

/// A12, P0: a freeze holds a restart in progress.
#[test]
fn restart_rests_while_the_workload_is_frozen() {
    let mut world = ranked(Goal::replicated(3), 3);
    world.run(30);
    world.begin(ActionGoal::Restarted { node: None }, false);
    world.edit(|workload| workload.is_frozen = true);
    let tasks = world.tasks.len();
    world.run(60);
    assert_eq!((world.running_nodes().len(), world.tasks.len()), (3, tasks));
    assert!(matches!(world.progress(), Progress::Open { .. }));
    world.edit(|workload| workload.is_frozen = false);
    assert_eq!(world.finish(60), Progress::Done);
    assert!(world.tasks.len() > tasks);
}

/// A5-S7.
#[test]
fn instance_placed_by_a_user_is_not_moved_back_for_the_expression() {
    let mut world = failover(StartMode::BestAvailable);
    world.edit(|workload| workload.placement.on_violation = OnViolation::Move);
    world.change_node("n2", |node| node.expression = Verdict::Failed("it is false".into()));
    world.run(30);
    world.begin(placed(&["n2"], true), false);
    assert_eq!(world.finish(10), Progress::Done);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n2"]);
    assert!(world.nodes[1].is_pinned);
    // The mark ends with the instance that it is about.
    world.edit(|workload| workload.action = None);
    world.begin(placed(&["n1"], true), false);
    assert_eq!(world.finish(20), Progress::Done);
    assert!(world.nodes[0].is_pinned && !world.nodes[1].is_pinned);
}

/// A6-S1.
#[test]
fn takeover_creates_the_new_task_after_the_old_one_is_confirmed_stopped() {
    let mut world = failover(StartMode::BestAvailable);
    world.run(30);
    world.stop_secs = 7;
    world.begin(placed(&["n2"], true), false);
    let over = |world: &World| !matches!(world.progress(), Progress::Open { .. });
    let passed = world.run_until(20, |world| {
        let on_second = |task: &&Task| task.node == Some(node("n2"));
        let first_runs = world.tasks.values().any(|task| task.node == Some(node("n1")) && task.is_running());
        assert!(!(first_runs && world.tasks.values().any(|task| on_second(&task))), "{:#?}", world.summary());
        over(world)
    });
    assert!((8..=10).contains(&passed), "{passed} s");
    world.edit(|workload| workload.action = None);
    assert_eq!(world.running_nodes(), ["n2"]);
    world.begin(placed(&["n1"], false), false);
    assert_eq!(world.finish(20), Progress::Done);
    assert_eq!(world.running_nodes(), ["n1"]);
}

/// A6-S3.
#[test]
fn flex_starts_the_new_instance_before_it_stops_the_old_one() {
    let mut world = ranked(Goal::flex((1, 3, 2), StartMode::BestAvailable, 0), 3);
    world.run(10);
    world.start_secs = 5;
    world.begin(placed(&["n2", "n3"], true), false);
    world.run_until(20, |world| {
        assert!(world.instances() >= 2, "{:#?}", world.summary());
        !matches!(world.progress(), Progress::Open { .. })
    });
    assert_eq!(world.running_nodes(), ["n2", "n3"]);
}

/// A6-S6.
#[test]
fn instance_that_does_not_stop_ends_the_move_and_nothing_starts() {
    for start in [StartMode::Never, StartMode::BestAvailable] {
        let mut world = failover(start);
        world.begin(ActionGoal::Started, false);
        assert_eq!(world.finish(30), Progress::Done);
        world.stuck.insert(node("n1"));
        world.begin(placed(&["n2"], true), false);
        let over = world.finish(130);
        assert!(
            matches!(&over, Progress::Failed(why) if why.contains("the stop on o/n1 failed")),
            "{over:?}"
        );
        assert!(world.nodes[0].marks.stop_failed.is_some());
        world.run(120);
        let has_started = |task: &Task| task.node == Some(node("n2")) && task.is_running();
        assert!(!world.history.values().any(has_started), "{start:?}: {:#?}", world.summary());
        let takes_over = |task: &Task| task.node == Some(node("n2")) && task.is_live();
        assert!(!world.tasks.values().any(takes_over), "{start:?}: {:#?}", world.summary());
    }
}

/// A6, rule 5.
#[test]
fn failed_start_ends_the_move_and_ha_starts_it_on_the_best_node() {
    for (start, expected) in [(StartMode::BestAvailable, vec!["n1"]), (StartMode::Never, vec![])] {
        let mut world = failover(start);
        world.begin(ActionGoal::Started, false);
        assert_eq!(world.finish(30), Progress::Done);
        world.node_behaviors.insert(node("n2"), Behavior::Rejected);
        world.begin(placed(&["n2"], true), false);
        let over = world.finish(30);
        assert!(matches!(&over, Progress::Failed(why) if why.contains("no such image")), "{over:?}");
        world.run(60);
        assert_eq!(world.running_nodes(), expected, "{start:?}");
    }
}

/// A6, rule 6.
#[test]
fn start_ends_when_it_failed_on_every_node() {
    let mut world = failover(StartMode::Never);
    world.behaviors.insert(1, Behavior::Rejected);
    world.begin(ActionGoal::Started, false);
    let over = world.finish(60);
    assert!(matches!(&over, Progress::Failed(why) if why.contains("no node is left")), "{over:?}");
    world.run(60);
    assert_eq!(world.history.len(), 2, "each node is tried once: {:#?}", world.summary());
}

/// A6-S7, the end of what waited.
#[test]
fn aborted_move_leaves_nothing_that_waits() {
    let mut world = failover(StartMode::Never);
    world.begin(ActionGoal::Started, false);
    assert_eq!(world.finish(30), Progress::Done);
    world.stop_secs = 30;
    world.begin(placed(&["n2"], true), false);
    world.run(5);
    world.edit(|workload| workload.action = None);
    world.run(60);
    assert!(world.running().is_empty() && world.last.blocked.is_empty(), "{:#?}", world.summary());
}

#[test]
fn restart_replaces_one_instance_at_a_time() {
    let mut world = ranked(Goal::replicated(3), 3);
    world.group(&["n1", "n2", "n3"]);
    world.run(10);
    let before: Vec<_> = world.running().into_iter().map(|task| task.id.clone()).collect();
    world.begin(ActionGoal::Restarted { node: None }, false);
    world.run_until(60, |world| {
        assert!(world.instances() >= 2, "{:#?}", world.summary());
        !matches!(world.progress(), Progress::Open { .. })
    });
    assert_eq!(world.progress(), Progress::Done);
    let running = world.running();
    assert_eq!(running.len(), 3);
    assert!(running.iter().all(|task| !before.contains(&task.id)));
}

#[test]
fn one_instance_of_a_global_workload_is_stopped_and_started() {
    let mut world = World::new(Goal::global(), 3);
    world.run(5);
    world.edit(|workload| workload.goal = workload.goal.stopped());
    world.begin(ActionGoal::Stopped, false);
    assert_eq!(world.finish(10), Progress::Done);
    world.run(60);
    assert!(world.running().is_empty());
    world.edit(|workload| workload.goal = Goal { start: StartMode::Never, ..Goal::global() });
    world.begin(ActionGoal::Started, false);
    assert_eq!(world.finish(10), Progress::Done);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n3"]);
}

/// A11-S1.
#[test]
fn cleared_node_alone_is_tried_again() {
    let mut world = failover(StartMode::BestAvailable);
    for name in ["n1", "n2"] {
        world.change_node(name, |node| node.marks.start_failed = Some("exit 1".into()));
    }
    world.run(60);
    assert!(world.tasks.values().all(|task| task.node.is_none()));
    world.change_node("n1", |node| node.marks.start_failed = None);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert!(world.nodes[1].marks.start_failed.is_some());
}

/// A11-S2.
#[test]
fn leader_starts_when_all_nodes_are_cleared() {
    let mut world = failover(StartMode::BestAvailable);
    for name in ["n1", "n2"] {
        world.change_node(name, |node| node.marks.start_failed = Some("exit 1".into()));
    }
    world.run(30);
    for name in ["n1", "n2"] {
        world.change_node(name, |node| node.marks.start_failed = None);
    }
    let passed = world.run_until(30, |world| world.running_nodes() == ["n1"]);
    assert!((16..=20).contains(&passed), "{passed} s");
}

/// A11-S3.
#[test]
fn node_of_a_failed_stop_is_a_candidate_after_it_is_cleared() {
    let mut world = failover(StartMode::Never);
    world.begin(ActionGoal::Started, false);
    assert_eq!(world.finish(30), Progress::Done);
    world.stuck.insert(node("n1"));
    world.begin(ActionGoal::StoppedOn { nodes: [node("n1")].into() }, false);
    assert!(matches!(world.finish(130), Progress::Failed(_)));
    // Its containers are removed by hand.
    world.stuck.clear();
    world.run(5);
    assert!(world.tasks.values().all(Task::is_stopped) && world.nodes[0].marks.stop_failed.is_some());
    world.change_node("n1", |node| node.marks.stop_failed = None);
    world.begin(ActionGoal::Started, false);
    assert_eq!(world.finish(10), Progress::Done);
    assert_eq!(world.running_nodes(), ["n1"]);
}
