//! The table of state transitions of two nodes, row by row as the requirement names them: seed 000, "State transitions".
//!
//! A state is `<instance status> <service monitor state> <flags>`; `*` stands for any combination of the flags, and for any monitor state where
//! there is no other. Where A is not the leader, B is.

use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    report::FrozenLevel,
    workload::{DesiredState, Ending, Impairment, Task, TaskState},
};

use super::{
    contest::{failover, ready_on},
    simulated::*,
};

/// Node A, node B, and which of them becomes ready.
const ROWS: [(&str, &str, Option<char>); 36] = [
    ("down idle L", "down idle", Some('A')),
    ("down idle L", "down idle A", Some('A')),
    ("down idle L", "down idle C", Some('A')),
    ("down idle L", "down idle F", Some('A')),
    ("down idle AL", "down idle", Some('B')),
    ("down idle AL", "down idle A", None),
    ("down idle AL", "down idle C", None),
    ("down idle AL", "down idle F", None),
    ("down idle CL", "down idle", Some('B')),
    ("down idle CL", "down idle A", None),
    ("down idle CL", "down idle C", None),
    ("down idle CL", "down idle F", None),
    ("down idle FL", "down idle", Some('B')),
    ("down idle FL", "down idle A", None),
    ("down idle FL", "down idle C", None),
    ("down idle FL", "down idle F", None),
    ("down idle", "down start-failed *", Some('A')),
    ("down idle L", "down start-failed *", Some('A')),
    ("down idle AL", "down start-failed *", None),
    ("down idle CL", "down start-failed *", None),
    ("down idle FL", "down start-failed *", None),
    ("down idle", "down stop-failed *", Some('A')),
    ("down idle L", "down stop-failed *", Some('A')),
    ("down idle AL", "down stop-failed *", None),
    ("down idle CL", "down stop-failed *", None),
    ("down idle FL", "down stop-failed *", None),
    ("down idle", "down *ing *", None),
    ("down idle L", "down *ing *", None),
    ("down idle AL", "down *ing *", None),
    ("down idle CL", "down *ing *", None),
    ("down idle FL", "down *ing *", None),
    ("down idle", "warn * *", None),
    ("down idle L", "warn * *", None),
    ("down idle AL", "warn * *", None),
    ("down idle CL", "warn * *", None),
    ("down idle FL", "warn * *", None),
];

/// The states that are meant by `*ing`: others last for no time.
const CHANGING: [&str; 3] = ["starting", "restarting", "stopping"];
/// Every combination of the flags that are set on a node.
const FLAGS: [&str; 8] = ["", "A", "C", "F", "AC", "AF", "CF", "ACF"];

/// Returns every state that a state of the table stands for: availability, monitor state and flags.
fn meant(state: &str) -> Vec<(String, String, String)> {
    let mut parts = state.split(' ');
    let (avail, monitor, flags) = (parts.next(), parts.next(), parts.next());
    let avail = avail.expect("an availability").to_owned();
    let monitors: Vec<&str> = match monitor.expect("a monitor state") {
        "*ing" => CHANGING.to_vec(),
        // What runs impaired may be left alone or stopped, and a start or stop on the node may have failed.
        "*" => vec!["idle", "stopping", "start-failed", "stop-failed"],
        one => vec![one],
    };
    let flags = match flags {
        Some("*") => FLAGS.to_vec(),
        one => vec![one.unwrap_or_default()],
    };
    let all = monitors.iter().flat_map(|monitor| flags.iter().map(move |flags| (monitor, flags)));
    all.map(|(monitor, flags)| (avail.clone(), (*monitor).to_owned(), (*flags).to_owned())).collect()
}

fn set(world: &mut World, name: &str, (avail, monitor, flags): &(String, String, String)) {
    world.change_node(name, |row| {
        if flags.contains('A') {
            row.affinity.hard = Some("a partner is missing".into());
        }
        if flags.contains('C') {
            row.expression = Verdict::Failed("false".into());
        }
        if flags.contains('F') {
            row.frozen = Some(FrozenLevel::Instance);
        }
        match monitor.as_str() {
            "start-failed" => row.marks.start_failed = Some("exit 1".into()),
            "stop-failed" => row.marks.stop_failed = Some("it hangs".into()),
            _ => {}
        }
    });
    let is_running = avail == "warn" || monitor == "stopping";
    let impaired = (avail == "warn").then_some(Impairment::Unhealthy);
    let state = if is_running { TaskState::Running { impaired } } else { TaskState::Starting };
    let desired = if monitor == "stopping" { DesiredState::Shutdown } else { DesiredState::Running };
    if monitor == "restarting" {
        let ended = TaskState::Ended(Ending::Failed { exit_code: Some(1), error: "exit 1".into() });
        let earlier = |task: Task| Task {
            id: evenkeel_ids::TaskId::from_text("earlier"),
            node: Some(node(name)),
            desired: DesiredState::Running,
            state: ended,
            ..task
        };
        world.put_task(earlier);
    }
    if is_running || CHANGING.contains(&monitor.as_str()) {
        world.stuck.insert(node(name));
        world.put_task(|task| Task { node: Some(node(name)), desired, state, generation: 2, ..task });
    }
}

#[test]
fn state_transitions_of_two_nodes_are_those_of_the_table_in_every_row() {
    let mut cases = 0;
    for (number, (a, b, expected)) in (1..).zip(ROWS) {
        for (of_a, of_b) in meant(a).iter().flat_map(|a| meant(b).into_iter().map(move |b| (a.clone(), b))) {
            let is_leader = of_a.2.contains('L');
            let (first, second) = if is_leader { ("n1", "n2") } else { ("n2", "n1") };
            let mut world = failover(2);
            set(&mut world, first, &of_a);
            set(&mut world, second, &of_b);
            world.run(2);
            let expected = expected.map(|name| if name == 'A' { first } else { second });
            let case = format!("row {number}: A {a}, B {b}, that is {of_b:?}: {:#?}", world.summary());
            if of_b.1 == "stopping" {
                // Its replacement may be ready, on either node, and nothing starts before it has stopped.
                let mut all = world.tasks.values();
                assert!(all.all(|task| task.desired != DesiredState::Running || task.is_running()), "{case}");
            } else {
                assert_eq!(ready_on(&world), expected, "{case}");
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 16 + 2 * 5 * 8 + 5 * 3 * 8 + 5 * 4 * 8);
}
