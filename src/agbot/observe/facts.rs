//! Turns answers of the exchange into the planner's facts.

use std::collections::BTreeSet;

use evenkeel_client::model::{DeploymentPolicy, HaGroup, Node, NodeStatus, Service};
use evenkeel_domain::policy::{ExternalPolicy, NodePolicy};
use evenkeel_planner::facts::{
    DeploymentPolicyFacts, HaGroupFacts, NodeFacts, NodePolicyFacts, NodeStatusFacts, NodeType,
    ObservedService, RegisteredService, ServiceFacts, ServicePolicyFacts, VersionChoice,
};
use evenkeel_planner::ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId, ServiceKey};
use jiff::Timestamp;
use serde_json::Value;

/// Reads an instant of the wire.
pub fn instant(text: &str) -> Option<Timestamp> {
    text.strip_suffix("[UTC]").unwrap_or(text).parse().ok()
}

/// Facts of a node.
pub fn node(id: &NodeId, node: Node) -> NodeFacts {
    NodeFacts {
        id: id.clone(),
        arch: node.arch,
        node_type: if node.node_type == "cluster" { NodeType::Cluster } else { NodeType::Device },
        public_key: node.public_key,
        pattern: node.pattern,
        registered_services: node
            .registered_services
            .into_iter()
            .map(|entry| RegisteredService {
                service: ServiceKey::from_text(&entry.url),
                version: entry.version,
                is_suspended: entry.config_state == "suspended",
            })
            .collect(),
        user_input: node.user_input,
        agent_version: node.software_versions.get("horizon").cloned().unwrap_or_default(),
        cluster_namespace: node.cluster_namespace,
        is_namespace_scoped: node.is_namespace_scoped,
        last_heartbeat: node.last_heartbeat.as_deref().and_then(instant),
    }
}

/// Facts of a node's policy; `None` when it cannot be read as one.
pub fn node_policy(document: &Value) -> Option<NodePolicyFacts> {
    let mut policy: NodePolicy = serde_json::from_value(document.clone()).ok()?;
    policy.validate_and_normalize().ok()?;
    let last_updated = document.get("lastUpdated").and_then(Value::as_str).and_then(instant);
    Some(NodePolicyFacts { policy: policy.deployment_policy(), last_updated })
}

/// Facts of a node's status report.
pub fn status(status: NodeStatus) -> NodeStatusFacts {
    let services = status
        .services
        .into_iter()
        .map(|service| ObservedService {
            agreement: (!service.agreement_id.is_empty())
                .then(|| AgreementId::from_text(&service.agreement_id)),
            service: ServiceKey::new(&service.orgid, &service.service_url),
            version: service.version,
            is_running: !service.container_status.is_empty()
                && service.container_status.iter().all(|one| one.state.eq_ignore_ascii_case("running")),
        })
        .collect();
    NodeStatusFacts { services, reported_at: None }
}

/// Facts of a service definition.
pub fn service(id: &ServiceId, service: Service) -> ServiceFacts {
    ServiceFacts {
        id: id.clone(),
        key: ServiceKey::new(id.org(), &service.url),
        version: service.version,
        arch: service.arch,
        deployment: service.deployment,
        deployment_signature: service.deployment_signature,
        cluster_deployment: service.cluster_deployment,
        cluster_deployment_signature: service.cluster_deployment_signature,
        required_services: service
            .required_services
            .iter()
            .filter_map(|required| serde_json::to_value(required).ok())
            .collect(),
        user_input: service.user_input,
    }
}

/// Facts of a service's policy; `None` when it cannot be read as one.
pub fn service_policy(document: &Value) -> Option<ServicePolicyFacts> {
    let policy: ExternalPolicy = serde_json::from_value(document.clone()).ok()?;
    let last_updated = document.get("lastUpdated").and_then(Value::as_str).and_then(instant);
    Some(ServicePolicyFacts { policy, last_updated })
}

/// Facts of a deployment policy served for nodes of the given organizations.
pub fn deployment_policy(
    id: &PolicyId,
    policy: &DeploymentPolicy,
    node_orgs: BTreeSet<String>,
) -> Option<DeploymentPolicyFacts> {
    let service = &policy.service;
    let text = |name: &str| service.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let health =
        |name: &str| service.pointer(&format!("/nodeHealth/{name}")).and_then(Value::as_u64).unwrap_or(0);
    let external = serde_json::json!({"properties": policy.properties, "constraints": policy.constraints});
    Some(DeploymentPolicyFacts {
        id: id.clone(),
        label: policy.label.clone(),
        service: ServiceKey::new(&text("org"), &text("name")),
        arch: text("arch"),
        cluster_namespace: text("clusterNamespace"),
        versions: service
            .get("serviceVersions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(version)
            .collect(),
        missing_heartbeat_secs: health("missing_heartbeat_interval"),
        agreement_check_secs: health("check_agreement_status"),
        policy: serde_json::from_value(external).ok()?,
        user_input: policy.user_input.clone(),
        secret_binding: policy.secret_binding.clone(),
        node_orgs,
        last_updated: instant(&policy.last_updated),
    })
}

fn version(entry: &Value) -> VersionChoice {
    let number =
        |name: &str| entry.pointer(&format!("/priority/{name}")).and_then(Value::as_u64).unwrap_or(0);
    VersionChoice {
        version: entry.get("version").and_then(Value::as_str).unwrap_or_default().to_owned(),
        priority: u32::try_from(number("priority_value")).unwrap_or(u32::MAX),
        retries: u32::try_from(number("retries")).unwrap_or(u32::MAX),
        retry_secs: number("retry_durations"),
        verified_secs: number("verified_durations"),
    }
}

/// Facts of an HA group.
pub fn ha_group(org: &str, group: HaGroup) -> HaGroupFacts {
    let mut facts = HaGroupFacts::new(
        GroupId::new(org, &group.name),
        group
            .members
            .iter()
            .map(|member| NodeId::new(org, member.strip_prefix(&format!("{org}/")).unwrap_or(member))),
    );
    facts.last_updated = instant(&group.last_updated);
    facts
}
