//! Records for tests: a deployment policy, its service, and an agreement of a node with it.

use evenkeel_domain::policy::ExternalPolicy;
use evenkeel_ids::{AgreementId, NodeId, PolicyId, ServiceId, ServiceKey, TaskId};
use jiff::{SignedDuration, Timestamp};

use crate::{
    agreement::{Agreement, AgreementState},
    facts::{DeploymentOverrides, DeploymentPolicyFacts, PolicyOrchestration, ServiceFacts, VersionChoice},
    workload::{Cause, DesiredState, NodeRestarts, Slot, SpecVersion, Task, TaskHealth, TaskState, UnitId},
};

/// Returns an instant, in seconds from the beginning of the test.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// Returns a proposed agreement of node `o/<node>` with policy `o/p` about service `o/s` 1.0.0.
pub fn agreement(node: &str) -> Agreement {
    Agreement {
        id: AgreementId::from_text(&format!("agreement of {node}")),
        node: NodeId::new("o", node),
        policy: PolicyId::from_text("o/p"),
        service: ServiceId::from_text("o/s_1.0.0_amd64"),
        service_key: ServiceKey::from_text("o/s"),
        version: "1.0.0".into(),
        priority: 0,
        best_version: "1.0.0".into(),
        terms_digest: 0,
        overrides: DeploymentOverrides::default(),
        pending_update: None,
        ha_group: None,
        created_at: at(0),
        reply_by: at(0),
        verified_at: None,
        task: None,
        is_side_by_side: false,
        is_single: false,
        awaits_stop: false,
        state: AgreementState::Proposed,
    }
}

/// Returns deployment policy `o/p`, which deploys service `o/s` 1.0.0 to all nodes of organization `o`.
pub fn deployment_policy() -> DeploymentPolicyFacts {
    DeploymentPolicyFacts {
        id: PolicyId::from_text("o/p"),
        pattern: None,
        label: String::new(),
        service: ServiceKey::from_text("o/s"),
        arch: String::new(),
        cluster_namespace: String::new(),
        versions: vec![VersionChoice { version: "1.0.0".into(), ..VersionChoice::default() }],
        missing_heartbeat_secs: 0,
        agreement_check_secs: 0,
        policy: ExternalPolicy::default(),
        user_input: Vec::new(),
        secret_binding: Vec::new(),
        node_orgs: ["o".parse().expect("an organization")].into(),
        orchestration: PolicyOrchestration::default(),
        last_updated: None,
    }
}

/// A version of a service of the organization `o`, for devices.
pub fn service(name: &str, version: &str) -> ServiceFacts {
    let key = ServiceKey::new("o", name);
    ServiceFacts::of_device(key, version, "amd64", r#"{"services":{"c":{"image":"i"}}}"#)
}

/// Returns a task of the only slot of `o/w` on node `o/n1`.
pub fn task(generation: u64, desired: DesiredState, state: TaskState) -> Task {
    Task {
        id: TaskId::from_text(&format!("t{generation}")),
        unit_id: UnitId::all(PolicyId::new("o", "w")),
        slot: Slot::Number(1),
        generation,
        spec: SpecVersion { number: 1, digest: 1 },
        node: Some(NodeId::new("o", "n1")),
        agreement: None,
        desired,
        state,
        seq: 0,
        cause: Cause::Scale,
        origin: None,
        created_at: at(0),
        start_at: at(20),
        desired_at: None,
        state_at: at(1),
        running_at: None,
        ended_at: None,
        health: TaskHealth::default(),
        is_end_requested: None,
        restarts: NodeRestarts::default(),
    }
}
