//! A small model for tests: an HA group whose members each run one service.

use evenkeel_domain::policy::ExternalPolicy;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId, ServiceKey};
use jiff::{SignedDuration, Timestamp};

use crate::{
    agreement::{Agreement, AgreementState},
    event::Event,
    facts::{
        DeploymentOverrides, DeploymentPolicyFacts, HaGroupFacts, NodeFacts, NodeStatusFacts,
        ObservedService, PolicyOrchestration, ServiceFacts, VersionChoice,
    },
    model::Model,
    settings::PlannerSettings,
};

/// Returns an instant, in seconds from the beginning of the test.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// Returns a proposed agreement of node `o/<node>` with policy `o/p` about service `o/s` 1.0.0.
pub(crate) fn agreement(node: &str) -> Agreement {
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

/// Returns a model of group `o/g`, in which every member has a final agreement and reports that its service runs, and the time.
pub(crate) fn running_group(members: &[&str]) -> (Model, Timestamp) {
    let mut model = Model::new(PlannerSettings::default());
    let now = at(100);
    let nodes = members.iter().map(|name| NodeId::new("o", name));
    let group = HaGroupFacts::new(GroupId::from_text("o/g"), nodes);
    model.apply(&Event::HaGroupChanged { group: Box::new(group) }, at(0));
    let hear = |model: &mut Model, now: Timestamp| {
        for name in members {
            let node = node(&NodeId::new("o", name), now);
            model.apply(&Event::NodeChanged { node: Box::new(node) }, now);
        }
    };
    hear(&mut model, at(0));
    hear(&mut model, at(50));
    for name in members {
        let agreement = agreement(name).finalize(at(1)).expect("a proposed agreement becomes final");
        let status = NodeStatusFacts {
            services: vec![ObservedService {
                agreement: Some(agreement.id.clone()),
                service: agreement.service_key.clone(),
                version: agreement.version.clone(),
                is_running: true,
            }],
            reported_at: Some(at(50)),
            ..NodeStatusFacts::default()
        };
        let node = agreement.node.clone();
        model.apply(&Event::AgreementRecorded { agreement: Box::new(agreement) }, at(50));
        model.apply(&Event::NodeStatusChanged { node, status: Some(Box::new(status)) }, at(50));
    }
    hear(&mut model, now);
    (model, now)
}

fn node(id: &NodeId, last_heartbeat: Timestamp) -> NodeFacts {
    NodeFacts {
        arch: "amd64".into(),
        public_key: "key".into(),
        last_heartbeat: Some(last_heartbeat),
        ..NodeFacts::new(id.clone())
    }
}

/// Returns deployment policy `o/p`, which deploys service `o/s` 1.0.0 to all nodes of organization `o`.
pub(crate) fn deployment_policy() -> DeploymentPolicyFacts {
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
pub(crate) fn service(name: &str, version: &str) -> ServiceFacts {
    let key = ServiceKey::new("o", name);
    ServiceFacts::of_device(key, version, "amd64", r#"{"services":{"c":{"image":"i"}}}"#)
}
