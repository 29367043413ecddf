//! Status of instances and of policies: A9.1 to A9.4.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{Metric, NodeRoom, NodeState, NodeTable, UnitNode, Verdict};
use evenkeel_planner_record::{
    facts::NodeMonitorState,
    fixture::{at, task},
    workload::{DesiredState, Ending, Task, TaskState},
};

use super::{instance::Instance, *};

fn shown(row: &UnitNode, tasks: &[&Task]) -> (Avail, MonitorState, &'static str, String) {
    let waits = BTreeMap::new();
    let table = NodeTable::new(vec![row.clone()], 1);
    let instance = Instance {
        row,
        version: None,
        table: &table,
        tasks,
        waits: &waits,
        expression: "",
        is_leader: true,
        is_placing: false,
        is_frozen: false,
        is_unhealthy: false,
        has_better_neighbors: false,
        now: at(10),
    };
    let found = instance.status();
    (found.avail, found.monitor, found.local_expect, found.flags)
}

#[test]
fn instance_shows_what_was_seen_and_what_is_under_way() {
    let row = UnitNode::new(NodeId::new("o", "n1"));
    let running = task(2, DesiredState::Running, TaskState::RUNNING);
    let l = "L".to_owned();
    assert_eq!(shown(&row, &[&running]), (Avail::Up, MonitorState::Idle, "started", l.clone()));
    let stopping = task(1, DesiredState::Shutdown, TaskState::RUNNING);
    assert_eq!(shown(&row, &[&stopping]), (Avail::Up, MonitorState::Stopping, "none", l.clone()));
    let ready = task(2, DesiredState::Ready, TaskState::Assigned);
    assert_eq!(shown(&row, &[&ready]), (Avail::Down, MonitorState::Ready, "started", l.clone()));
    let failed = Ending::Failed { exit_code: Some(1), error: String::new() };
    let failed = task(1, DesiredState::Running, TaskState::Ended(failed));
    assert_eq!(shown(&row, &[&ready, &failed]).1, MonitorState::Restarting);
    assert_eq!(shown(&row, &[]), (Avail::Down, MonitorState::Idle, "none", l));
}

#[test]
fn node_that_is_silent_refused_or_violates_a_constraint_is_shown_as_such() {
    let row = UnitNode::new(NodeId::new("o", "n1"));
    let running = task(1, DesiredState::Running, TaskState::RUNNING);
    let silent = UnitNode { state: NodeState::Down { since: at(1) }, ..row.clone() };
    assert_eq!(shown(&silent, &[&running]).0, Avail::Unknown);
    let away = |monitor_state| NodeState::Away { monitor_state, since: at(1) };
    let avail = |state| shown(&UnitNode { state, ..row.clone() }, &[&running]).0;
    assert_eq!(avail(away(NodeMonitorState::Maintenance)), Avail::Up);
    assert_eq!(avail(away(NodeMonitorState::Idle)), Avail::Unknown, "it was not heard since a gap");
    let other = UnitNode { eligibility: Verdict::Failed("no".into()), ..row.clone() };
    assert_eq!(shown(&other, &[]).0, Avail::NotApplicable);
    let mut failed = row.clone();
    failed.marks.start_failed = Some("exit 1".into());
    assert_eq!(shown(&failed, &[]).1, MonitorState::StartFailed);
    let violated = UnitNode { expression: Verdict::Failed("false".into()), ..row };
    assert_eq!(shown(&violated, &[]).3, "CL");
}

/// The table of service monitor states of seed 000, row by row. Freezing and thawing are one write each, so that no instance is ever seen in
/// between: what they lead to is the flag.
#[test]
fn monitor_states_are_those_of_the_table_in_every_row() {
    let row = || UnitNode::new(NodeId::new("o", "n1"));
    let marked = |change: fn(&mut UnitNode)| {
        let mut row = row();
        change(&mut row);
        row
    };
    let exited = TaskState::Ended(Ending::Failed { exit_code: Some(1), error: "exit 1".into() });
    let running = task(1, DesiredState::Running, TaskState::RUNNING);
    let claim = task(2, DesiredState::Ready, TaskState::Assigned);
    let starting = task(2, DesiredState::Running, TaskState::Starting);
    let ended = task(1, DesiredState::Running, exited.clone());
    let refused = task(1, DesiredState::Remove, exited);
    let stopping = task(1, DesiredState::Shutdown, TaskState::RUNNING);
    let start_failed = marked(|row| row.marks.start_failed = Some("exit 1".into()));
    let stop_failed = marked(|row| row.marks.stop_failed = Some("it hangs".into()));
    let frozen = marked(|row| row.frozen = Some(evenkeel_planner_record::report::FrozenLevel::Instance));
    let table: [(&str, &str, UnitNode, Vec<&Task>, &str); 11] = [
        ("idle", "nothing runs", row(), vec![], "L"),
        ("idle", "it runs", row(), vec![&running], "L"),
        ("ready", "it waits to be contested", row(), vec![&claim], "L"),
        ("starting", "nobody contested", row(), vec![&starting], "L"),
        ("start-failed", "the start failed", start_failed.clone(), vec![], "L"),
        ("start-failed", "the start failed, and its record is kept", start_failed, vec![&refused], "L"),
        ("restarting", "it starts again", row(), vec![&starting, &ended], "L"),
        ("stopping", "it is to stop", row(), vec![&stopping], "L"),
        ("stop-failed", "the stop failed", stop_failed, vec![&stopping], "L"),
        ("idle", "freezing: it is frozen", frozen, vec![&running], "FL"),
        ("idle", "thawing: it is thawed", row(), vec![&running], "L"),
    ];
    for (word, case, row, tasks, flags) in table {
        let found = shown(&row, &tasks);
        assert_eq!((found.1.word(), found.3.as_str()), (word, flags), "{case}");
    }
}

#[test]
fn frozen_is_said_of_all_some_or_no_instances() {
    let words: Vec<&str> =
        [(0, 0), (0, 2), (1, 2), (2, 2)].map(|(frozen, all)| FrozenState::of(frozen, all).word()).into();
    assert_eq!(words, ["n/a", "thawed", "mixed", "frozen"]);
}

/// A9.4.
#[test]
fn overloaded_node_is_flagged_as_violated_constraint() {
    let mut row = UnitNode::new(NodeId::new("o", "n1"));
    let metric = Metric { name: "memoryMb".into(), used: 800.0, load: 400.0, capacity: 500.0, usable: 500.0 };
    row.room = Some(Box::new(NodeRoom { metrics: vec![metric], surplus: None }));
    let running = task(1, DesiredState::Running, TaskState::RUNNING);
    assert_eq!(shown(&row, &[&running]).3, "CL");
}
