//! The states of an update: B12.

use super::*;
use crate::fixture::at;

/// Returns the state of a letter; none for an action that is refused.
fn state_of(letter: char) -> Option<UpdateState> {
    Some(match letter {
        'n' => UpdateState::None,
        'u' => UpdateState::Updating,
        'p' => UpdateState::Paused,
        'c' => UpdateState::Completed,
        'U' => UpdateState::RollbackStarted,
        'P' => UpdateState::RollbackPaused,
        'C' => UpdateState::RollbackCompleted,
        _ => return None,
    })
}

/// B12-S1.
#[test]
fn every_state_and_event_of_an_update_follow_the_table() {
    let columns = [
        UpdateEvent::Dirty,
        UpdateEvent::Failed(FailureAction::Pause),
        UpdateEvent::Failed(FailureAction::Rollback),
        UpdateEvent::AllDone,
        UpdateEvent::Written,
        UpdateEvent::RollbackRequested,
        UpdateEvent::Pause,
        UpdateEvent::Resume,
    ];
    // From, and the state after each column; capitals are states of a rollback, a dash is a refused action.
    let rows =
        ["n unnnnU--", "c ucccnU--", "C uCCCnU--", "u upUcnUp-", "p ppppnU-u", "U UPPCn-P-", "P PPPPn--U"];
    for row in rows {
        let (from, cells) = row.split_once(' ').expect("a row has two parts");
        let from = from.chars().next().and_then(state_of).expect("a row starts with a state");
        for (event, cell) in columns.into_iter().zip(cells.chars()) {
            assert_eq!(next_state(from, event).ok(), state_of(cell), "{from:?} {event:?}");
        }
    }
}

#[test]
fn failures_that_are_to_be_ignored_change_no_state() {
    let event = UpdateEvent::Failed(FailureAction::Continue);
    for state in [UpdateState::Updating, UpdateState::RollbackStarted] {
        assert_eq!(next_state(state, event), Ok(state));
    }
}

#[test]
fn written_policy_keeps_slots_in_work_and_forgets_the_rest() {
    let mut status = UpdateStatus { state: UpdateState::Paused, ..UpdateStatus::default() };
    let part = status.part_mut(&Part::All);
    part.total = 4;
    let ticket = |done_at: Option<Timestamp>| Ticket { done_at, ..Ticket::new(at(0), None) };
    part.tickets.insert(Slot::Number(1), ticket(None));
    part.tickets.insert(Slot::Number(2), ticket(Some(at(1))));
    status.request(UpdateEvent::Written, "", at(5)).unwrap();
    assert_eq!((status.state, status.total(), status.tickets().count()), (UpdateState::None, 0, 1));
    assert!(status.request(UpdateEvent::Resume, "", at(6)).is_err());
}
