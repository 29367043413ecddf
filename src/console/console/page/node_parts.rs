//! Parts of the page of a node: its instances, its statistics and its timeline.

use std::collections::BTreeMap;

use evenkeel_wire::agbot::event::AgbotEvent;
use evenkeel_wire::agbot::history::{HistoryChange, HistoryState};
use evenkeel_wire::exchange::node_part::{NodeStatusResponse, RunningService, ServiceFailure};
use evenkeel_wire::exchange::node_report::{EngineState, NodeReportResponse};
use evenkeel_wire::exchange::node_task::NodeTask;
use jiff::Timestamp;

use super::events::EventRow;
use super::moment::Moment;
use crate::command_line::word;
use crate::layout::bare_name;
use crate::progress::Progress;

/// Instances on the page.
const INSTANCES: usize = 100;

/// Lines of the output of a failed service.
const OUTPUT: usize = 20;

/// An instance: a service that the node runs, or a task of it that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeInstance {
    /// The service, or the policy of a task.
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its state: a word of the report.
    pub(crate) state: String,
    /// Its containers with their states.
    pub(crate) containers: Vec<String>,
    /// Exit code or signal, how often it exited, and why it cannot be started.
    pub(crate) exit: String,
    /// Last lines of its output, if it failed.
    pub(crate) output: String,
    /// The command that shows its log on the node; empty for what does not run there.
    pub(crate) log: String,
    /// True if it is as it should be.
    pub(crate) is_good: bool,
}

/// Returns the instances of a node: what its status names, failures, and the tasks that are not among these.
pub(crate) fn instances(
    org: &str,
    status: Option<&NodeStatusResponse>,
    tasks: &[NodeTask],
) -> Vec<NodeInstance> {
    let services = status.and_then(|status| status.services().ok()).unwrap_or_default();
    let failures = status.and_then(|status| status.failures().ok()).unwrap_or_default();
    let by_agreement: BTreeMap<&str, &NodeTask> =
        tasks.iter().filter_map(|task| Some((task.agreement_id.as_deref()?, task))).collect();
    let mut found: Vec<NodeInstance> =
        services.iter().map(|service| running(org, service, &by_agreement)).collect();
    for failure in &failures {
        let is_it = |one: &&mut NodeInstance| {
            one.name == named(org, &failure.orgid, &failure.service_url) && one.version == failure.version
        };
        match found.iter_mut().find(is_it) {
            Some(known) => note_failure(known, failure),
            None => {
                let name = named(org, &failure.orgid, &failure.service_url);
                let mut instance = NodeInstance {
                    log: log_of(&failure.service_url),
                    version: failure.version.clone(),
                    state: "failed".to_owned(),
                    name,
                    ..NodeInstance::default()
                };
                note_failure(&mut instance, failure);
                found.push(instance);
            }
        }
    }
    let agreements: Vec<&str> =
        services.iter().filter_map(|service| service.agreement_id.as_deref()).collect();
    let is_shown = |task: &&NodeTask| task.agreement_id.as_deref().is_some_and(|id| agreements.contains(&id));
    found.extend(tasks.iter().filter(|task| !is_shown(task)).map(|task| of_task(org, task)));
    found.truncate(INSTANCES);
    found
}

fn named(org: &str, of: &str, url: &str) -> String {
    if of == org || of.is_empty() { url.to_owned() } else { format!("{of}/{url}") }
}

fn log_of(url: &str) -> String {
    format!("hzn service log {}", word(url))
}

fn running(org: &str, service: &RunningService, tasks: &BTreeMap<&str, &NodeTask>) -> NodeInstance {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let containers: Vec<String> = service
        .container_status
        .iter()
        .flatten()
        .map(|container| {
            let name = text(&container.name);
            let shown = short_name(&name, service.agreement_id.as_deref().unwrap_or_default());
            format!("{shown} {}", text(&container.state)).trim().to_owned()
        })
        .collect();
    let are_up = service.container_status.iter().flatten().all(|one| one.state.as_deref() == Some("running"));
    let task = service.agreement_id.as_deref().and_then(|id| tasks.get(id));
    let state = match (task, are_up) {
        (Some(task), _) => task.state.word().to_owned(),
        (None, true) => "running".to_owned(),
        (None, false) => "not running".to_owned(),
    };
    let url = text(&service.service_url);
    NodeInstance {
        name: named(org, service.orgid.as_deref().unwrap_or_default(), &url),
        version: text(&service.version),
        is_good: state == "running",
        exit: task.map(|task| exit_of(task)).unwrap_or_default(),
        log: log_of(&url),
        state,
        containers,
        output: String::new(),
    }
}

/// Returns the name of a container without the agreement, with which agents begin it.
fn short_name<'n>(name: &'n str, agreement: &str) -> &'n str {
    let plain = name.trim_start_matches('/');
    plain.strip_prefix(agreement).map_or(plain, |rest| rest.trim_start_matches('-'))
}

fn of_task(org: &str, task: &NodeTask) -> NodeInstance {
    let slot = task.slot.map(|slot| format!(", slot {slot}")).unwrap_or_default();
    NodeInstance {
        name: format!("{}{slot}", bare_name(org, &task.policy)),
        version: format!("spec {}", task.spec_version),
        state: task.state.word().to_owned(),
        exit: exit_of(task),
        is_good: task.exit_code.is_none_or(|code| code == 0) && task.err.is_none(),
        ..NodeInstance::default()
    }
}

fn exit_of(task: &NodeTask) -> String {
    let code = task.exit_code.map(|code| format!("exit code {code}"));
    [code, task.err.clone()].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

fn note_failure(instance: &mut NodeInstance, failure: &ServiceFailure) {
    let code = failure.exit_code.map(|code| format!("exit code {code}"));
    let signal = failure.signal.map(|signal| format!("signal {signal}"));
    let exits = (failure.exits > 0).then(|| format!("{} exits", failure.exits));
    let parts = [code, signal, exits, failure.error.clone()];
    instance.exit = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let first = failure.output.len().saturating_sub(OUTPUT);
    instance.output = failure.output.iter().skip(first).cloned().collect::<Vec<_>>().join("\n");
    instance.is_good = false;
}

/// Statistics of a node: names with values in words, and its use of memory.
#[derive(Default)]
pub(crate) struct NodeFigures {
    pub(crate) rows: Vec<(&'static str, String)>,
    pub(crate) memory: Option<Progress>,
    pub(crate) at: Option<Moment>,
}

/// Returns the statistics that a node reported; none before its first report.
pub(crate) fn figures(report: &NodeReportResponse, now: Timestamp) -> NodeFigures {
    let mut rows = Vec::new();
    if let Some(engine) = &report.engine {
        let state = if engine.state == EngineState::Up { "up" } else { "down" };
        rows.push(("Container engine", state.to_owned()));
    }
    if let Some(version) = report.compat_version {
        rows.push(("Compatibility version", version.to_string()));
    }
    let Some(stats) = &report.stats else { return NodeFigures { rows, ..NodeFigures::default() } };
    let loads = [stats.load1, stats.load5, stats.load15].into_iter().flatten();
    let loads: Vec<String> = loads.map(|load| format!("{load:.2}")).collect();
    if !loads.is_empty() {
        rows.push(("Load over 1, 5 and 15 minutes", loads.join(", ")));
    }
    for (name, total, available) in [
        ("Memory", stats.mem_total_mb, stats.mem_avail_mb),
        ("Swap", stats.swap_total_mb, stats.swap_avail_mb),
    ] {
        if let (Some(total @ 1..), Some(available)) = (total, available) {
            rows.push((name, format!("{available} of {total} MB available")));
        }
    }
    if let Some(address) = &stats.address {
        rows.push(("Address", address.clone()));
    }
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let used = stats.mem_total_mb.zip(stats.mem_avail_mb);
    let memory = used
        .map(|(total, available)| Progress::new(number(total.saturating_sub(available)), number(total), 0));
    NodeFigures { rows, memory, at: Moment::known(stats.at.as_deref(), now) }
}

/// Returns what happened on a node, the newest first: its events, and the states that began or ended.
pub(crate) fn timeline(
    org: &str,
    events: Vec<AgbotEvent>,
    changes: &[HistoryChange],
    most: usize,
    now: Timestamp,
) -> Vec<EventRow> {
    let of_changes = changes.iter().flat_map(|change| {
        let began = change.after.as_ref().map(|state| (state, state.since.clone(), "began"));
        let ended = change.before.as_ref().filter(|_| change.after.is_none());
        let ended = ended.and_then(|state| Some((state, state.until.clone()?, "ended")));
        [began, ended].into_iter().flatten().map(|(state, at, how)| state_event(state, at, how))
    });
    let mut all: Vec<AgbotEvent> = events.into_iter().chain(of_changes).collect();
    let at = |event: &AgbotEvent| event.at.parse::<Timestamp>().unwrap_or(Timestamp::MIN);
    all.sort_by_key(|event| std::cmp::Reverse(at(event)));
    all.truncate(most);
    all.into_iter().map(|event| EventRow::new(org, event, now)).collect()
}

/// Returns the begin or the end of a state as an event.
fn state_event(state: &HistoryState, at: String, how: &str) -> AgbotEvent {
    let followed = [state.next.clone(), state.error.clone()].into_iter().flatten();
    let followed: Vec<String> = followed.filter(|_| how == "ended").collect();
    let then = if followed.is_empty() { String::new() } else { format!(": {}", followed.join(": ")) };
    let text = format!("{} {how}{then}", state.state);
    AgbotEvent {
        at,
        kind: format!("state of {}", state.kind),
        ha_group: state.group.clone(),
        node: None,
        policy: state.policy.clone(),
        detail: serde_json::json!({ "text": text }),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::exchange::node_report::NodeStatistics;
    use serde_json::json;

    use super::*;

    fn status() -> NodeStatusResponse {
        let services = json!([
            {"agreementId": "a1", "serviceUrl": "watch", "orgid": "o", "version": "1.0.0", "arch": "amd64",
             "containerStatus": [{"name": "/a1-watch", "image": "i", "created": 1, "state": "running"}]},
            {"agreementId": "a2", "serviceUrl": "it's", "orgid": "p", "version": "2.0.0", "arch": "amd64",
             "containerStatus": [{"name": "x", "image": "i", "created": 1, "state": "exited"}]},
        ]);
        let failures = json!([
            {"agreementId": "a3", "serviceUrl": "broken", "orgid": "o", "version": "3.0.0", "arch": "amd64", "container": "broken", "exits": 4,
             "recentExits": [1], "exitCode": 7, "signal": null, "output": ["one", "two"], "error": null},
        ]);
        serde_json::from_value(json!({
            "connectivity": {}, "services": services, "runningServices": "", "failures": failures, "lastUpdated": "t",
        }))
        .expect("a status")
    }

    fn task(agreement: &str, state: &str) -> NodeTask {
        serde_json::from_value(json!({
            "taskId": "t", "policy": "o/p", "unit": "all", "slot": 2, "specVersion": 4, "desiredState": "running", "agreementId": agreement,
            "fencing": 0, "health": null, "state": state, "seq": 1, "at": null, "message": null, "err": "no image", "exitCode": 3, "lastUpdated": "t",
        }))
        .expect("a task")
    }

    #[test]
    fn instances_have_version_exit_and_the_command_of_their_log() {
        let tasks = [task("a1", "running"), task("gone", "failed")];
        let found = instances("o", Some(&status()), &tasks);
        let short: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.version.as_str(), one.state.as_str(), one.exit.as_str()))
            .collect();
        assert_eq!(
            short,
            [
                ("watch", "1.0.0", "running", "exit code 3: no image"),
                ("p/it's", "2.0.0", "not running", ""),
                ("broken", "3.0.0", "failed", "exit code 7, 4 exits"),
                ("p, slot 2", "spec 4", "failed", "exit code 3: no image"),
            ]
        );
        assert_eq!(found[0].containers, ["watch running"]);
        assert_eq!(found[1].log, r"hzn service log 'it'\''s'");
        assert_eq!((found[2].output.as_str(), found[3].log.as_str()), ("one\ntwo", ""));
        assert!(found[0].is_good && !found[2].is_good);
        assert!(instances("o", None, &[]).is_empty());
    }

    #[test]
    fn figures_are_those_that_were_reported() {
        let stats = NodeStatistics {
            load1: Some(0.5),
            mem_total_mb: Some(1000),
            mem_avail_mb: Some(250),
            ..NodeStatistics::default()
        };
        let report = NodeReportResponse { stats: Some(stats), ..NodeReportResponse::default() };
        let found = figures(&report, Timestamp::UNIX_EPOCH);
        assert_eq!(found.rows[1], ("Memory", "250 of 1000 MB available".to_owned()));
        assert_eq!(found.memory.map(|memory| (memory.done, memory.total)), Some((750, 1000)));
        assert!(figures(&NodeReportResponse::default(), Timestamp::UNIX_EPOCH).rows.is_empty());
    }

    #[test]
    fn timeline_has_events_and_states_newest_first() {
        let event = AgbotEvent {
            at: "2026-03-01T08:30:00Z".into(),
            kind: "node.frozen".into(),
            ha_group: None,
            node: Some("o/n".into()),
            policy: None,
            detail: json!({}),
        };
        let state = |state: &str, since: &str, until: Option<&str>| HistoryState {
            kind: "task".into(),
            state: state.into(),
            since: since.into(),
            until: until.map(str::to_owned),
            next: Some("failed".into()),
            policy: Some("o/p".into()),
            ..HistoryState::default()
        };
        let changes = [
            HistoryChange { before: None, after: Some(state("running", "2026-03-01T09:00:00Z", None)) },
            HistoryChange {
                before: Some(state("starting", "2026-03-01T07:00:00Z", Some("2026-03-01T08:00:00Z"))),
                after: None,
            },
        ];
        let now = "2026-03-01T10:00:00Z".parse().expect("an instant");
        let found = timeline("o", vec![event], &changes, 10, now);
        let texts: Vec<_> = found.iter().map(|row| (row.kind.as_str(), row.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                ("state of task", "running began"),
                ("node.frozen", ""),
                ("state of task", "starting ended: failed")
            ]
        );
        assert_eq!(timeline("o", Vec::new(), &changes, 1, now).len(), 1);
    }
}
