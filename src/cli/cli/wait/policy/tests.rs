use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_wire::agbot::orchestration::UpdateProgress;
use serde_json::{Value, json};

use super::*;
use crate::wait::rollout::tests::{completed, rollout};

fn wanted() -> WantedPolicy {
    let document = json!({
        "service": {"name": "s", "org": "o", "arch": "*", "serviceVersions": [{"version": "2.0.0"}]},
        "lastUpdated": "2026-01-01T00:00:05.000Z[UTC]",
    });
    let policy: DeploymentPolicyResponse = serde_json::from_value(document).expect("a policy");
    let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
    assert_eq!(wanted.versions, ["2.0.0"]);
    wanted
}

fn pair(node: &str, text: String, state: Value) -> Reason {
    Reason { node: NodeId::from_text(node), policy: PolicyId::from_text("o/p"), state, text }
}

fn placed(node: &str, version: &str, is_running: bool) -> Reason {
    let state = json!({"placement": "placed", "version": version, "is_running": is_running});
    pair(node, format!("runs version {version}"), state)
}

fn left_out(blocked: &str) -> Reason {
    let state = json!({"placement": "not-placed", "blocked": {"blocked": blocked}});
    pair("o/n9", blocked.to_owned(), state)
}

fn reasons(read_at: Option<&str>, pairs: &[Reason]) -> ReasonsResponse {
    let policies = read_at.map(|at| BTreeMap::from([("o/p".to_owned(), at.to_owned())]));
    let none = Vec::new;
    ReasonsResponse {
        policies,
        inert_policies: none(),
        questionable_policies: none(),
        reasons: pairs.to_vec(),
        next: None,
        count: None,
        count_is_minimum: None,
    }
}

fn judge(pairs: &[Reason], rollouts: &[Rollout]) -> Progress {
    wanted().judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), rollouts, None)
}

#[test]
fn policy_is_deployed_when_every_selected_node_runs_a_wanted_version() {
    let new = placed("o/n1", "2.0.0", true);
    let done = judge(&[new.clone(), left_out("constraints")], &[]);
    assert_eq!(done, Progress::Done("policy o/p is deployed on 1 node".to_owned()));
    let pending = judge(&[new.clone(), placed("o/n2", "1.0.0", true)], &[]);
    assert_eq!(pending, Progress::Pending("1 of 2 nodes done; o/n2: runs version 1.0.0".to_owned()));
    assert!(matches!(judge(&[placed("o/n1", "2.0.0", false)], &[]), Progress::Pending(_)));
    assert!(matches!(judge(&[new.clone(), left_out("node-down")], &[]), Progress::Pending(_)));
    assert!(matches!(judge(&[], &[]), Progress::Done(_)));
    let updating = rollout("o/g", json!({"state": "updating"}), "updating");
    assert!(matches!(judge(&[new], &[updating]), Progress::Pending(_)));
}

#[test]
fn policy_whose_instances_are_counted_is_deployed_when_all_run() {
    let least = |orchestration: Value| {
        let policy = json!({"orchestration": orchestration, "lastUpdated": ""});
        let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
        WantedPolicy::of("o/p".to_owned(), &policy).least_instances
    };
    assert_eq!(least(json!({"mode": "replicated", "replicas": 2})), 2);
    assert_eq!(least(json!({"mode": "replicated", "replicas": 0})), 0);
    let flex = json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 5, "target": 3}});
    assert_eq!(least(flex), 3);
    assert_eq!(least(json!({"mode": "failover", "orchestrate": "ha"})), 1);
    assert_eq!(least(json!({"update": {"parallelism": 2}})), 1);
    let wanted = WantedPolicy { least_instances: 2, ..wanted() };
    let judge = |pairs: &[Reason]| wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), &[], None);
    let none = judge(&[left_out("not-chosen")]);
    assert_eq!(none, Progress::Pending("0 of 2 instances run".to_owned()));
    let new = placed("o/n1", "2.0.0", true);
    assert!(matches!(judge(&[new.clone(), left_out("not-chosen")]), Progress::Pending(_)));
    let all = judge(&[new, placed("o/n2", "2.0.0", true), left_out("not-chosen")]);
    assert_eq!(all, Progress::Done("policy o/p is deployed on 2 nodes".to_owned()));
}

#[test]
fn instances_are_counted_where_a_node_may_run_several() {
    let of = |orchestration: Value| {
        let policy = json!({"orchestration": orchestration, "lastUpdated": ""});
        let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
        WantedPolicy::of("o/p".to_owned(), &policy)
    };
    assert!(!of(json!({"mode": "global", "orchestrate": "ha"})).is_counted);
    assert!(!of(json!({"mode": "replicated", "orchestrate": "no"})).is_counted);
    let wanted = of(json!({"mode": "replicated", "replicas": 5, "maxPerNode": 3}));
    assert!(wanted.is_counted);
    let judge = |pairs: &[Reason], running: u64, difference: Option<&str>| {
        let count = InstanceCount {
            running,
            wanted: 5,
            difference: difference.map(str::to_owned),
            is_given_up: false,
            is_stopped: false,
        };
        wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), &[], Some(&count))
    };
    let nodes = ["o/n1", "o/n2", "o/n3"].map(|node| placed(node, "1.0.0", true));
    let done = "policy o/p is deployed with 5 instances on 3 nodes".to_owned();
    assert_eq!(judge(&nodes, 5, None), Progress::Done(done));
    let some = "3 of 5 instances run".to_owned();
    assert_eq!(judge(&nodes, 3, Some(&some)), Progress::Pending(some.clone()));
    let starting = judge(&[placed("o/n1", "1.0.0", false)], 3, Some(&some));
    assert_eq!(starting, Progress::Pending(format!("{some}; o/n1: runs version 1.0.0")));
    assert!(matches!(judge(&[], 0, None), Progress::Done(text) if text.ends_with("no instance is wanted")));
}

#[test]
fn failover_waits_until_every_group_has_its_instance() {
    let policy = json!({"orchestration": {"mode": "failover", "orchestrate": "ha"}, "lastUpdated": ""});
    let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
    let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
    assert!(wanted.is_counted);
    let missing = "1 of 2 instances run; line-2: 0 of 1 instances run".to_owned();
    let count = InstanceCount {
        running: 1,
        wanted: 2,
        difference: Some(missing.clone()),
        is_given_up: false,
        is_stopped: false,
    };
    // The nodes of the other group are paused, and no further node is to do anything.
    let pairs = [placed("o/n1", "1.0.0", true), left_out("node-paused")];
    let found = wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), &pairs), &[], Some(&count));
    assert_eq!(found, Progress::Pending(missing));
}

#[test]
fn write_of_a_stopped_policy_says_how_to_start_it() {
    let of = |orchestrate: &str| {
        let policy =
            json!({"orchestration": {"mode": "global", "orchestrate": orchestrate}, "lastUpdated": ""});
        let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
        WantedPolicy::of("o/p".to_owned(), &policy)
    };
    let count =
        InstanceCount { running: 0, wanted: 0, difference: None, is_given_up: false, is_stopped: true };
    let found = of("ha").stopped(Some(&count));
    let Some(Progress::Held { why, advice }) = found else { panic!("{found:?}") };
    assert!(
        why.contains("stopped by a user") && advice.ends_with("orchestration start o/p"),
        "{why} {advice}"
    );
    assert_eq!(of("no").stopped(Some(&count)), None);
    assert_eq!(of("ha").stopped(Some(&InstanceCount { is_stopped: false, ..count })), None);
}

#[test]
fn policy_that_users_start_is_deployed_when_it_is_read() {
    let policy = json!({"orchestration": {"mode": "failover"}, "lastUpdated": ""});
    let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
    let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
    let found = wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), &[left_out("not-chosen")]), &[], None);
    assert!(matches!(&found, Progress::Done(text) if text.contains("orchestration start o/p")), "{found:?}");
}

fn update(state: &str, started_at: &str) -> WorkloadUpdate {
    WorkloadUpdate {
        policy: PolicyId::from_text("o/p"),
        target: "o/s 2.0.0".to_owned(),
        rolled_back_from: None,
        update: UpdateProgress {
            state: state.to_owned(),
            started_at: Some(started_at.to_owned()),
            message: "too many failed".to_owned(),
            ..UpdateProgress::default()
        },
        text: String::new(),
    }
}

#[test]
fn update_by_tasks_that_was_rolled_back_or_is_held_ends_the_wait() {
    let reasons = RollbackReasons::default();
    let found = |state, started_at| wanted().update(&[update(state, started_at)], &reasons);
    let (before, after) = ("2026-01-01T00:00:04Z", "2026-01-01T00:00:06Z");
    assert!(
        matches!(found("rollback-completed", after), Some(Progress::Failed(text)) if text.contains("too many"))
    );
    assert!(matches!(found("paused", after), Some(Progress::Held { .. })));
    assert_eq!(found("completed", after), None);
    assert_eq!(found("rollback-completed", before), None);
    assert_eq!(wanted().update(&[], &reasons), None);
}

#[test]
fn version_that_was_rolled_back_before_is_known() {
    let of = |state: &str, version: Option<&str>| {
        let target = "o/s 1.0.0".to_owned();
        let rolled_back_from = version.map(|version| format!("o/s {version}"));
        [WorkloadUpdate { target, rolled_back_from, ..update(state, "2026-01-01T00:00:04Z") }]
    };
    assert_eq!(wanted().rolled_back(&of("rollback-completed", Some("2.0.0"))), Some("2.0.0"));
    assert_eq!(wanted().rolled_back(&of("rollback-completed", Some("3.0.0"))), None, "it is not wanted");
    assert_eq!(wanted().rolled_back(&of("completed", None)), None);
    assert_eq!(wanted().rolled_back(&[]), None);
}

#[test]
fn update_by_tasks_in_progress_is_waited_for() {
    let found =
        |state, started_at| wanted().update(&[update(state, started_at)], &RollbackReasons::default());
    for started_at in ["2026-01-01T00:00:04Z", "2026-01-01T00:00:06Z"] {
        assert!(matches!(found("updating", started_at), Some(Progress::Pending(_))));
        assert!(matches!(found("rollback-started", started_at), Some(Progress::Pending(_))));
    }
}

#[test]
fn change_that_is_about_no_version_is_deployed_with_any() {
    let wanted = WantedPolicy { versions: Vec::new(), ..wanted() };
    let found = reasons(Some("2026-01-01T00:00:05Z"), &[placed("o/n1", "1.0.0", true)]);
    assert!(matches!(wanted.judge(&found, &[], None), Progress::Done(_)));
}

#[test]
fn state_of_the_agbot_before_the_change_does_not_count() {
    let pairs = [placed("o/n1", "2.0.0", true)];
    let judge = |reasons: &ReasonsResponse| wanted().judge(reasons, &[], None);
    assert!(matches!(judge(&reasons(Some("2026-01-01T00:00:04Z"), &pairs)), Progress::Unread(_)));
    let absent = ReasonsResponse { policies: Some(BTreeMap::new()), ..reasons(None, &pairs) };
    assert!(matches!(judge(&absent), Progress::Unread(_)));
    assert!(matches!(judge(&reasons(None, &pairs)), Progress::Done(_)));
}

#[test]
fn held_rollout_and_one_that_went_back_end_the_wait() {
    let pairs = [placed("o/n1", "1.0.0", true)];
    let held = rollout("o/g", json!({"state": "paused", "hold": {}, "since": "t"}), "paused by o/ann");
    let found = judge(&pairs, std::slice::from_ref(&held));
    assert!(matches!(&found, Progress::Held { why, .. } if why == "o/g: paused by o/ann"), "{found:?}");
    let old = Rollout { target: "o/s 1.5.0".to_owned(), ..held };
    assert!(matches!(judge(&pairs, &[old]), Progress::Pending(_)), "it is of the policy before the change");
    let back = completed("o/g", true, "was rolled back");
    assert_eq!(judge(&pairs, &[back]), Progress::Failed("o/g: was rolled back".to_owned()));
}
