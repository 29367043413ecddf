//! The form of states on the wire.

use evenkeel_agbot_store::history::StateRow;
use evenkeel_planner_record::agreement::CancelReason;
use evenkeel_wire::agbot::history::{HistoryChange, HistoryState};
use serde_json::Value;

use super::workload_shape::time;

/// Returns a state as it is shown.
pub(crate) fn state(kind: &str, row: &StateRow) -> HistoryState {
    let StateRow { key, node, state, detail, began_at, ended_at, .. } = row;
    let text = |name: &str| detail.get(name).and_then(Value::as_str).map(str::to_owned);
    let common = HistoryState {
        kind: kind.to_owned(),
        state: state.clone(),
        since: time(*began_at),
        until: ended_at.map(time),
        next: text("next"),
        node: node.as_ref().map(ToString::to_string),
        ..HistoryState::default()
    };
    match kind {
        "task" => HistoryState {
            error: text("error").filter(|error| !error.is_empty()),
            policy: Some(key.first.clone()),
            unit: Some(key.second.rsplit('/').next().unwrap_or_default().to_owned()),
            slot: Some(key.third.clone()),
            task_id: Some(key.subject.clone()),
            desired_state: text("desired"),
            cause: text("cause"),
            spec_version: detail.get("specVersion").and_then(Value::as_u64),
            ..common
        },
        "agreement" => HistoryState {
            error: reason(detail),
            policy: Some(key.second.clone()),
            agreement_id: Some(key.subject.clone()),
            task_id: text("task"),
            version: text("version"),
            ..common
        },
        "claim" => HistoryState {
            group: Some(key.first.clone()),
            policy: Some(key.second.clone()).filter(|scope| scope.contains('/')),
            version: text("version"),
            purpose: text("purpose"),
            ..common
        },
        _ => common,
    }
}

fn reason(detail: &Value) -> Option<String> {
    let code = detail.get("reason").and_then(Value::as_u64)?;
    Some(CancelReason(u32::try_from(code).ok()?).text().to_owned())
}

/// Returns the change of one subject between two instants; none if its states differ in their times only.
pub(crate) fn change(rows: &[(&'static str, StateRow)]) -> Option<HistoryChange> {
    let shown = |holds: fn(&StateRow) -> bool| {
        rows.iter().find(|(_, row)| holds(row)).map(|(kind, row)| state(kind, row))
    };
    let (before, after) = (shown(|row| row.was), shown(|row| row.is));
    let timeless = |state: &Option<HistoryState>| {
        let state = state.clone()?;
        Some(HistoryState { since: String::new(), until: None, next: None, error: None, ..state })
    };
    (timeless(&before) != timeless(&after)).then_some(HistoryChange { before, after })
}

#[cfg(test)]
mod tests {
    use evenkeel_agbot_store::history::StateKey;
    use evenkeel_ids::NodeId;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn row(state: &str, detail: Value, (was, is): (bool, bool)) -> StateRow {
        let key = StateKey {
            first: "o/p".to_owned(),
            second: "o/g".to_owned(),
            third: "2".to_owned(),
            subject: "t1".to_owned(),
        };
        let (began_at, ended_at) = (Timestamp::UNIX_EPOCH, None);
        StateRow {
            key,
            node: Some(NodeId::new("o", "n")),
            state: state.to_owned(),
            detail,
            began_at,
            ended_at,
            was,
            is,
        }
    }

    #[test]
    fn task_is_shown_with_its_slot_and_how_it_ended() {
        let detail = json!({"desired": "running", "specVersion": 4, "cause": "update", "next": "failed", "error": "exit 3"});
        let shown = state("task", &row("running", detail, (true, true)));
        let expected = json!({
            "kind": "task", "state": "running", "since": "1970-01-01T00:00:00.000Z", "next": "failed", "error": "exit 3",
            "node": "o/n", "policy": "o/p", "unit": "g", "slot": "2", "taskId": "t1", "desiredState": "running",
            "cause": "update", "specVersion": 4,
        });
        assert_eq!(json!(shown), expected);
    }

    #[test]
    fn end_of_an_agreement_is_stated_in_words() {
        let detail = json!({"version": "1.0.0", "task": null, "next": "ended", "reason": 204});
        let shown = state("agreement", &row("finalized", detail, (true, true)));
        assert_eq!(shown.error.as_deref(), Some(CancelReason::POLICY_CHANGED.text()));
        assert_eq!((shown.policy.as_deref(), shown.task_id), (Some("o/g"), None));
    }

    #[test]
    fn claim_for_an_agent_names_no_policy() {
        let mut claim = row("stopping", json!({"purpose": "drain", "version": "2"}), (true, true));
        assert_eq!(state("claim", &claim).policy.as_deref(), Some("o/g"));
        claim.key.second = "agent".to_owned();
        assert_eq!(state("claim", &claim).policy, None);
    }

    #[test]
    fn state_that_came_back_is_no_change() {
        let running = |holds| ("task", row("running", json!({"specVersion": 1}), holds));
        assert_eq!(change(&[running((true, false)), running((false, true))]), None);
        let ended = change(&[running((true, false))]).expect("a change");
        assert!(ended.before.is_some() && ended.after.is_none());
        let ready = ("task", row("ready", json!({"specVersion": 1}), (true, false)));
        let started = change(&[ready, running((false, true))]).expect("a change");
        assert_eq!(started.after.map(|state| state.state).as_deref(), Some("running"));
    }
}
