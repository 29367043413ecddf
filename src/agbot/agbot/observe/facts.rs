//! Converts responses of the exchange into the planner's facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_domain::orchestration::lifecycle::UpgradeLifecycle;
use evenkeel_domain::policy::external::PolicyError;
use evenkeel_domain::policy::internal::Workload;
use evenkeel_domain::policy::reference_json::{DecodeError, from_value};
use evenkeel_domain::policy::{ExternalPolicy, NodePolicy, Pattern};
use evenkeel_ids::{AgreementId, GroupId, NodeId, OrgId, PatternId, PolicyId, ServiceId, ServiceKey};
use evenkeel_planner_record::facts::{
    AgentFacts, AgentName, Availability, DeploymentOverrides, DeploymentPolicyFacts, Guardian, HaGroupFacts,
    NodeFacts, NodeMonitorState, NodePolicyFacts, NodeStatusFacts, NodeType, ObservedFailure,
    ObservedService, PolicyOrchestration, RegisteredService, ServiceFacts, ServicePolicyFacts, VersionChoice,
};
use evenkeel_planner_record::statistics::{EngineReport, NodeMachine, NodeStatistics, Space};
use evenkeel_wire::exchange::agent_run::{AgentRun, GuardianState, NodeAgent};
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use evenkeel_wire::exchange::ha_group::HaGroupResponse;
use evenkeel_wire::exchange::node::{AgentState, NodeResponse};
use evenkeel_wire::exchange::node_orchestration::Availability as Word;
use evenkeel_wire::exchange::node_part::{
    ContainerStatus, NodeStatusResponse, RunningService, ServiceFailure,
};
use evenkeel_wire::exchange::node_report::{
    EngineState, EngineStatus, NodeMonitorState as Monitor, NodeStatistics as Reported, ReportedMachine,
};
use evenkeel_wire::exchange::node_task::TASKS_SOFTWARE;
use evenkeel_wire::exchange::pattern::PatternResponse;
use evenkeel_wire::exchange::service::ServiceResponse;
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::orchestration::orchestration;

/// Parses an instant of the wire; `None` for a text of another form.
pub fn instant(text: &str) -> Option<Timestamp> {
    text.strip_suffix("[UTC]").unwrap_or(text).parse().ok()
}

/// Returns the entries of a stored list; anything but a list is one entry, which has no shape that is wanted.
fn entries(stored: &Value) -> Vec<Value> {
    match stored {
        Value::Null => Vec::new(),
        Value::Array(entries) => entries.clone(),
        other => vec![Value::String(other.to_string())],
    }
}

fn stored(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn text(members: &Value, name: &str) -> String {
    members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Converts a node. Members of another shape than the API's count as absent, except those that the planner reads itself.
pub fn node(id: &NodeId, node: NodeResponse) -> NodeFacts {
    let software = stored(&node.software_versions);
    let orchestration = node.orchestration.clone().unwrap_or_default();
    let reported = node.orchestration_status.clone().unwrap_or_default();
    NodeFacts {
        id: id.clone(),
        registered_services: entries(&stored(&node.registered_services))
            .iter()
            .map(|entry| RegisteredService {
                service: ServiceKey::from_text(&text(entry, "url")),
                version: text(entry, "version"),
                is_suspended: text(entry, "configState") == "suspended",
            })
            .collect(),
        user_input: entries(&stored(&node.user_input)),
        agent_version: text(&software, "horizon"),
        is_capable: text(&software, TASKS_SOFTWARE.0) == TASKS_SOFTWARE.1,
        arch: node.arch,
        node_type: if node.node_type.eq_ignore_ascii_case("cluster") {
            NodeType::Cluster
        } else {
            NodeType::Device
        },
        public_key: node.public_key,
        pattern: Some(node.pattern).filter(|id| !id.is_empty()).map(|id| PatternId::from_text(&id)),
        cluster_namespace: node.cluster_namespace,
        is_namespace_scoped: node.is_namespace_scoped,
        availability: match orchestration.availability {
            Word::Active => Availability::Active,
            Word::Pause => Availability::Pause,
            Word::Drain => Availability::Drain,
        },
        is_drain_forced: orchestration.force,
        is_frozen: orchestration.frozen,
        capacities: orchestration.capacities,
        fault_domain: orchestration.fault_domain.map(Into::into),
        is_in_upgrade: orchestration.upgrade,
        upgrade_domain: orchestration.upgrade_domain.map(Into::into),
        spec_updated_by: node.orchestration_updated_by.map(Into::into),
        is_stopped: node.agent_state == Some(AgentState::Stopped),
        monitor_state: match reported.monitor_state {
            Monitor::Idle => NodeMonitorState::Idle,
            Monitor::Init => NodeMonitorState::Init,
            Monitor::Maintenance => NodeMonitorState::Maintenance,
            Monitor::Upgrade => NodeMonitorState::Upgrade,
            Monitor::Shutting => NodeMonitorState::Shutting,
        },
        monitor_state_since: reported.monitor_state_since.as_deref().and_then(instant),
        compat_version: reported.compat_version,
        agent: reported.agent.map(|agent| Arc::new(agent_of(agent))),
        last_heartbeat: node.last_heartbeat.as_deref().and_then(instant),
        statistics: None,
    }
}

fn agent_of(found: NodeAgent) -> AgentFacts {
    let name = |run: AgentRun| AgentName { boot: run.boot.into(), journal: run.journal.into() };
    let refused_at = found.refused_at.as_deref().and_then(instant);
    AgentFacts {
        name: name(found.current),
        guardian: match found.guardian {
            GuardianState::Running => Guardian::Running,
            GuardianState::Absent => Guardian::Absent,
            GuardianState::Silent => Guardian::Silent,
        },
        refused: found.refused.map(name).zip(refused_at),
    }
}

/// Converts the statistics of a node; `None` without the time at which the exchange received them.
pub fn statistics(found: &Reported) -> Option<NodeStatistics> {
    let space =
        |available: Option<u64>, total: Option<u64>| Some(Space { available: available?, total: total? });
    let memory = space(found.mem_avail_mb, found.mem_total_mb);
    let swap = space(found.swap_avail_mb, found.swap_total_mb);
    Some(NodeStatistics::new(found.load15, memory, swap, instant(found.at.as_deref()?)?))
}

/// Converts what a node reported of its machine.
pub fn machine(found: &ReportedMachine) -> NodeMachine {
    let engine = found.engine.as_ref().and_then(|engine| {
        let is_usable = engine.state == EngineState::Up && engine.status == EngineStatus::Enabled;
        Some(EngineReport { is_usable, at: instant(engine.at.as_deref()?)? })
    });
    NodeMachine { engine, address: found.statistics.address.as_deref().map(Into::into) }
}

/// Converts a node's policy.
///
/// An invalid one is kept with its error: no new policy fits the node, with that reason, and running services continue.
pub fn node_policy(document: &Value) -> NodePolicyFacts {
    let last_updated = document.get("lastUpdated").and_then(Value::as_str).and_then(instant);
    match effective_node_policy(document) {
        Ok(policy) => NodePolicyFacts { policy, unreadable: None, last_updated },
        Err(error) => NodePolicyFacts { unreadable: Some(error), last_updated, ..NodePolicyFacts::default() },
    }
}

/// Returns the policy for the deployment of services; its constraints may be invalid.
fn effective_node_policy(document: &Value) -> Result<ExternalPolicy, String> {
    let mut policy: NodePolicy = from_value(document).map_err(|error| error.reason())?;
    match policy.validate_and_normalize() {
        Ok(()) => Ok(policy.deployment_policy()),
        Err(PolicyError::Constraint(_)) => {
            let ExternalPolicy { properties, constraints } = policy.deployment_policy();
            let mut bare = ExternalPolicy { properties, ..ExternalPolicy::default() };
            bare.validate_and_normalize().map_err(|error| error.to_string())?;
            Ok(ExternalPolicy { constraints, ..bare })
        }
        Err(error @ (PolicyError::Property(_) | PolicyError::UnknownVersion { .. })) => {
            Err(error.to_string())
        }
    }
}

/// Converts a node's status report.
///
/// # Errors
/// When a part of it does not have the API's shape.
pub fn status(status: &NodeStatusResponse) -> Result<NodeStatusFacts, serde_json::Error> {
    Ok(NodeStatusFacts {
        services: status.services()?.into_iter().flat_map(observed).collect(),
        failures: status.failures()?.into_iter().map(failure).collect(),
        reported_at: instant(&status.last_updated),
    })
}

/// Returns what a node reports of a service: one instance for each agreement.
///
/// Agents of the reference list all containers of a service under one of its agreements. The name of each begins with its own.
fn observed(service: RunningService) -> Vec<ObservedService> {
    let agreement = service.agreement_id.filter(|agreement| !agreement.is_empty());
    let key = ServiceKey::new(
        service.orgid.as_deref().unwrap_or_default(),
        service.service_url.as_deref().unwrap_or_default(),
    );
    let mut containers: BTreeMap<Option<String>, Vec<ContainerStatus>> = BTreeMap::new();
    containers.entry(agreement.clone()).or_default();
    for container in service.container_status.unwrap_or_default() {
        let named = container.name.as_deref().and_then(agreement_in).filter(|_| agreement.is_some());
        let owner = named.map(str::to_owned).or_else(|| agreement.clone());
        containers.entry(owner).or_default().push(container);
    }
    let runs = |state: &str| state.eq_ignore_ascii_case("running");
    let instance = |(agreement, containers): (Option<String>, Vec<ContainerStatus>)| ObservedService {
        agreement: agreement.map(|agreement| AgreementId::from_text(&agreement)),
        service: key.clone(),
        version: service.version.clone().unwrap_or_default(),
        is_running: !containers.is_empty()
            && containers.iter().all(|one| one.state.as_deref().is_some_and(runs)),
    };
    containers.into_iter().map(instance).collect()
}

/// Returns the agreement with which the name of a container begins.
fn agreement_in(name: &str) -> Option<&str> {
    let (agreement, _) = name.trim_start_matches('/').split_once('-')?;
    let is_id = agreement.len() == 64 && agreement.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(agreement)
}

fn failure(failure: ServiceFailure) -> ObservedFailure {
    ObservedFailure {
        text: failure.text(),
        agreement: (!failure.agreement_id.is_empty()).then(|| AgreementId::from_text(&failure.agreement_id)),
        service: ServiceKey::new(&failure.orgid, &failure.service_url),
        version: failure.version,
        recent_exits: failure.recent_exits,
    }
}

/// Converts a service definition.
pub fn service(id: &ServiceId, service: ServiceResponse) -> ServiceFacts {
    ServiceFacts {
        id: id.clone(),
        required_services: entries(&service.required_services),
        user_input: entries(&service.user_input),
        key: ServiceKey::new(id.org(), &service.url),
        version: service.version,
        arch: service.arch,
        deployment: service.deployment,
        deployment_signature: service.deployment_signature,
        cluster_deployment: service.cluster_deployment,
        cluster_deployment_signature: service.cluster_deployment_signature,
    }
}

/// Converts a service's policy; an invalid one is kept with its error.
pub fn service_policy(document: &Value) -> ServicePolicyFacts {
    let last_updated = document.get("lastUpdated").and_then(Value::as_str).and_then(instant);
    match from_value(document) {
        Ok(policy) => ServicePolicyFacts { policy, unreadable: None, last_updated },
        Err(error) => ServicePolicyFacts {
            unreadable: Some(error.reason()),
            last_updated,
            ..ServicePolicyFacts::default()
        },
    }
}

/// Converts a deployment policy served for nodes of the given organizations.
///
/// # Errors
/// The unreadable members, in words.
pub fn deployment_policy(
    id: &PolicyId,
    policy: &DeploymentPolicyResponse,
    node_orgs: BTreeSet<OrgId>,
) -> Result<DeploymentPolicyFacts, String> {
    let service = &policy.service;
    let text = |name: &str| text(service, name);
    let health =
        |name: &str| service.pointer(&format!("/nodeHealth/{name}")).and_then(Value::as_u64).unwrap_or(0);
    if id.pattern().is_some() {
        return Err("its name is reserved for services of patterns".to_owned());
    }
    let unreadable = |member: &'static str| move |error: DecodeError| format!("{member}: {}", error.reason());
    Ok(DeploymentPolicyFacts {
        id: id.clone(),
        pattern: None,
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
        policy: ExternalPolicy {
            properties: from_value(&policy.properties).map_err(unreadable("properties"))?,
            constraints: from_value(&policy.constraints).map_err(unreadable("constraints"))?,
        },
        orchestration: orchestration(id, policy.orchestration.as_ref(), &node_orgs)?,
        user_input: entries(&policy.user_input),
        secret_binding: entries(&policy.secret_binding),
        node_orgs,
        last_updated: instant(&policy.last_updated),
    })
}

/// Converts the services of a pattern served for nodes of the given organizations.
///
/// # Errors
/// The unreadable members, in words.
pub fn pattern(
    org: &str,
    name: &str,
    pattern: &PatternResponse,
    node_orgs: &BTreeSet<OrgId>,
) -> Result<Vec<DeploymentPolicyFacts>, String> {
    let id = PatternId::new(org, name);
    let document = serde_json::to_value(pattern).map_err(|error| error.to_string())?;
    let read: Pattern = from_value(&document).map_err(|error| error.reason())?;
    let policies = read.to_internal(id.as_str()).map_err(|error| error.to_string())?;
    let facts = policies.into_iter().filter_map(|policy| {
        let first = policy.workloads.first()?;
        Some(DeploymentPolicyFacts {
            id: PolicyId::of_pattern(org, name, &policy.header.name),
            pattern: Some(id.clone()),
            label: pattern.label.clone(),
            service: ServiceKey::new(&first.org, &first.url),
            arch: first.arch.clone(),
            cluster_namespace: policy.cluster_namespace.clone(),
            versions: policy.workloads.iter().map(choice).collect(),
            missing_heartbeat_secs: policy.node_health.missing_heartbeat_secs.try_into().unwrap_or(0),
            agreement_check_secs: policy.node_health.check_agreement_secs.try_into().unwrap_or(0),
            policy: ExternalPolicy::default(),
            orchestration: PolicyOrchestration::default(),
            user_input: entries(&pattern.user_input),
            secret_binding: entries(&pattern.secret_binding),
            node_orgs: node_orgs.clone(),
            last_updated: instant(&pattern.last_updated),
        })
    });
    Ok(facts.collect())
}

fn choice(workload: &Workload) -> VersionChoice {
    let priority = &workload.priority;
    VersionChoice {
        version: workload.version.clone(),
        priority: priority.value.try_into().unwrap_or(0),
        retries: priority.retries.try_into().unwrap_or(0),
        retry_secs: priority.retry_secs.try_into().unwrap_or(0),
        verified_secs: priority.verified_secs.try_into().unwrap_or(0),
        overrides: DeploymentOverrides {
            text: workload.deployment_overrides.clone(),
            signature: workload.deployment_overrides_signature.clone(),
        },
        // Instances of patterns have no tasks.
        keeps_running: false,
    }
}

fn version(entry: &Value) -> VersionChoice {
    let number =
        |name: &str| entry.pointer(&format!("/priority/{name}")).and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| text(entry, name);
    VersionChoice {
        version: text("version"),
        priority: u32::try_from(number("priority_value")).unwrap_or(u32::MAX),
        retries: u32::try_from(number("retries")).unwrap_or(u32::MAX),
        retry_secs: number("retry_durations"),
        verified_secs: number("verified_durations"),
        overrides: DeploymentOverrides {
            text: text("deployment_overrides"),
            signature: text("deployment_overrides_signature"),
        },
        // Another word is refused where it counts.
        keeps_running: UpgradeLifecycle::of_version(entry).unwrap_or_default().keeps_running(),
    }
}

/// Converts an HA group of an organization, whose members are named with or without it.
pub fn ha_group(org: &str, group: HaGroupResponse) -> HaGroupFacts {
    let mut facts = HaGroupFacts::new(
        GroupId::new(org, &group.name),
        group
            .members
            .iter()
            .map(|member| NodeId::new(org, member.strip_prefix(&format!("{org}/")).unwrap_or(member))),
    );
    facts.last_updated = instant(&group.last_updated);
    if let Some(orchestration) = group.orchestration {
        facts.is_exclusive = orchestration.exclusive_disruption;
        facts.max_unavailable = orchestration.max_unavailable;
        facts.lock_stale_secs = Some(orchestration.lock_stale_seconds);
        facts.health = orchestration.health_policy.map(|policy| Arc::new(*policy));
    }
    facts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_that_are_listed_under_one_agreement_belong_to_those_in_their_names() {
        let [first, second] = ["a", "b"].map(|letter| letter.repeat(64));
        let container =
            |agreement: &str, state: &str| json!({"name": format!("/{agreement}-main"), "state": state});
        let service = json!({
            "agreementId": first, "serviceUrl": "s", "orgid": "o", "version": "1.0.0",
            "containerStatus": [container(&first, "running"), container(&second, "restarting")],
        });
        let found = observed(serde_json::from_value(service).unwrap());
        let found: Vec<(&str, bool)> = found
            .iter()
            .map(|one| (one.agreement.as_ref().map_or("", AgreementId::as_str), one.is_running))
            .collect();
        assert_eq!(found, [(first.as_str(), true), (second.as_str(), false)]);
        let alone = json!({"agreementId": first, "serviceUrl": "s", "containerStatus": [{"name": "web", "state": "running"}]});
        assert!(observed(serde_json::from_value(alone).unwrap())[0].is_running);
    }

    #[test]
    fn node_policy_with_an_invalid_constraint_is_kept_to_explain_it() {
        let wrong = json!({
            "properties": [{"name": "openhorizon.allowPrivileged", "value": "true"}], "constraints": ["camera = = true"],
        });
        let facts = node_policy(&wrong);
        assert_eq!(facts.policy.constraints.len(), 1);
        assert!(facts.policy.properties.allows_privileged(), "properties are normalized all the same");
        let unreadable = node_policy(&json!({"properties": [{"name": "a"}]})).unreadable.unwrap();
        assert!(unreadable.contains("\"a\""), "{unreadable}");
    }

    #[test]
    fn overrides_of_policies_and_patterns_are_read() {
        let entry =
            json!({"version": "1.0.0", "deployment_overrides": "{}", "deployment_overrides_signature": "s"});
        let choice = version(&entry);
        assert_eq!((choice.overrides.text.as_str(), choice.overrides.signature.as_str()), ("{}", "s"));
        assert!(version(&json!({"version": "1.0.0"})).overrides.is_empty());
        let document = json!({"services": [{
            "serviceUrl": "s", "serviceOrgid": "o", "serviceArch": "amd64", "serviceVersions": [entry],
        }]});
        let document = serde_json::from_value(document).unwrap();
        let found = pattern("o", "p", &document, &BTreeSet::from(["o".parse().unwrap()])).unwrap();
        assert_eq!(found[0].versions[0].overrides, choice.overrides);
    }

    #[test]
    fn pattern_is_read_as_the_exchange_returns_it() {
        let document = json!({
            "owner": "o/u", "label": "l", "description": "d", "public": false,
            "services": [
                {"serviceUrl": "s", "serviceOrgid": "o", "serviceArch": "amd64", "agreementLess": null,
                 "serviceVersions": [{"version": "1.0.0", "deployment_overrides": null, "deployment_overrides_signature": null,
                                      "priority": null, "upgradePolicy": null}],
                 "dataVerification": null,
                 "nodeHealth": {"check_agreement_status": 120, "missing_heartbeat_interval": 600}},
                {"serviceUrl": "t", "serviceOrgid": "o", "serviceArch": "*", "agreementLess": true,
                 "serviceVersions": [{"version": "1.0.0"}]},
            ],
            "userInput": [], "secretBinding": [], "agreementProtocols": [{"name": "Basic"}],
            "lastUpdated": "2026-03-01T08:15:30.123456Z", "clusterNamespace": "",
        });
        let document = serde_json::from_value(document).unwrap();
        let found = pattern("o", "p", &document, &BTreeSet::from(["o".parse().unwrap()])).unwrap();
        assert_eq!(found.len(), 1, "what nodes run by themselves needs no agreement");
        let one = &found[0];
        assert_eq!(
            (one.id.as_str(), &one.pattern),
            ("o/pattern/p/p_s_o_amd64", &Some(PatternId::new("o", "p")))
        );
        assert_eq!(one.internal_name(), "p_s_o_amd64");
        assert_eq!(
            (one.versions[0].version.as_str(), one.missing_heartbeat_secs, one.agreement_check_secs),
            ("1.0.0", 600, 120)
        );
        assert!(one.last_updated.is_some());
        let unusable = serde_json::from_value(json!({"services": [{"serviceUrl": "s"}]})).unwrap();
        assert!(pattern("o", "p", &unusable, &BTreeSet::new()).is_err());
    }
}
