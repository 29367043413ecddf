//! Recorded results of the reference, compared with the model: the same verdict as the compatibility check's, and the same
//! version as the priority rule's.

use std::collections::BTreeMap;

use evenkeel_domain::{
    policy::{
        DeploymentPolicy, ExternalPolicy, NodePolicy, compatibility::ServiceDefinition,
        reference_json::from_value,
    },
    vectors_reader::{expect_same, for_each_line},
};
use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::{
    facts::{
        DeploymentPolicyFacts, NodeFacts, NodePolicyFacts, ServiceFacts, ServicePolicyFacts, VersionChoice,
    },
    settings::PlannerSettings,
    usage::{WorkloadUsage, choose_version},
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    event::Event,
    model::{Model, selection::select},
};

#[test]
fn vectors_of_compatibility_give_the_same_verdict_on_the_model() {
    let mut compared = 0;
    for_each_line("compatibility", |vector| {
        // The model holds what the exchange accepted, of devices with an architecture: nothing unreadable.
        let is_device = vector["node"]["type"] == "device" && vector["node"]["arch"] != "";
        if !is_device || vector["node_policy"].is_null() || !vector["compatible"].is_boolean() {
            return Ok(());
        }
        compared += 1;
        let model = model_of(vector)?;
        let verdict = select(&model, &node(), &policy(), Timestamp::UNIX_EPOCH);
        expect_same("compatible", &vector["compatible"], &json!(verdict.is_ok())).map_err(|text| {
            format!("{text}; {}", verdict.map_or_else(|blocked| blocked.to_string(), |_| String::new()))
        })
    });
    println!("{compared} verdicts compared");
}

#[test]
fn vectors_of_priorities_choose_the_same_version() {
    for_each_line("priorities", |vector| {
        if vector["kind"] != "next_highest" || vector.get("fault").is_some() {
            return Ok(());
        }
        let number = |name: &str| vector[name].as_u64().unwrap_or_default();
        let Ok(priority) = u32::try_from(number("current_priority")) else { return Ok(()) };
        let (Some(first), Some(now)) = (instant(number("first_try_time")), instant(number("now"))) else {
            return Ok(());
        };
        if now < first || number("retry_count") == 0 && priority != 0 {
            // Times that run backwards and counts that the bookkeeping never produces.
            return Ok(());
        }
        let usage = (priority != 0).then(|| WorkloadUsage {
            priority,
            retry_count: u32::try_from(number("retry_count")).unwrap_or(u32::MAX) - 1,
            retry_secs: 0,
            first_try_at: first,
            latest_retry_at: None,
            has_unmet_requirements: false,
            spec: 0,
        });
        let versions: Vec<VersionChoice> =
            vector["workloads"].as_array().into_iter().flatten().map(version_choice).collect();
        let chosen = choose_version(&versions, usage.as_ref(), now).map(|entry| entry.version.clone());
        expect_same("selected_version", &vector["selected_version"], &json!(chosen))
    });
}

fn instant(secs: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(secs).ok()?).ok()
}

fn version_choice(entry: &Value) -> VersionChoice {
    let number = |name: &str| entry[name].as_u64().unwrap_or_default();
    let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
    VersionChoice {
        version: entry["version"].as_str().unwrap_or_default().to_owned(),
        priority: small("priority_value"),
        retries: small("retries"),
        retry_secs: number("retry_durations"),
        ..VersionChoice::default()
    }
}

fn node() -> NodeId {
    NodeId::new("acme", "node")
}

fn policy() -> PolicyId {
    PolicyId::new("acme", "policy")
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    from_value(value).map_err(|error| error.to_string())
}

fn model_of(vector: &Value) -> Result<Model, String> {
    let mut model = Model::new(PlannerSettings::default());
    let mut apply = |event: Event| model.apply(&event, Timestamp::UNIX_EPOCH);
    let deployment: DeploymentPolicy = read(&vector["deployment_policy"])?;
    let facts = node_facts(&vector["node"]);
    apply(Event::NodeChanged { node: Box::new(facts) });
    let own: NodePolicy = read(&vector["node_policy"])?;
    let mut effective = own.deployment_policy();
    effective.validate_and_normalize().map_err(|error| error.to_string())?;
    let effective = NodePolicyFacts { policy: effective, ..NodePolicyFacts::default() };
    apply(Event::NodePolicyChanged { node: node(), policy: Some(Box::new(effective)) });
    let by_id: BTreeMap<String, ExternalPolicy> = read(&vector["service_policies"])?;
    let for_all: Option<ExternalPolicy> = read(&vector["service_policy"])?;
    let services: Vec<ServiceDefinition> = read(&vector["services"])?;
    for service in services {
        let service = service.into_exchange_form();
        let org = if service.org.is_empty() { deployment.service.org.clone() } else { service.org.clone() };
        let definition = ServiceDefinition { org, ..service };
        let facts = service_facts(&definition);
        let policy = by_id.get(facts.id.as_str()).or(for_all.as_ref()).cloned();
        let policy =
            policy.map(|policy| Box::new(ServicePolicyFacts { policy, ..ServicePolicyFacts::default() }));
        let id = facts.id.clone();
        apply(Event::ServiceChanged { service: Box::new(facts) });
        apply(Event::ServicePolicyChanged { service: id, policy });
    }
    apply(Event::DeploymentPolicyChanged { policy: Box::new(policy_facts(&deployment)) });
    Ok(model)
}

fn node_facts(node_vector: &Value) -> NodeFacts {
    NodeFacts {
        arch: node_vector["arch"].as_str().unwrap_or_default().to_owned(),
        public_key: "key".into(),
        ..NodeFacts::new(node())
    }
}

fn service_facts(service: &ServiceDefinition) -> ServiceFacts {
    ServiceFacts {
        id: service.id(),
        key: ServiceKey::new(&service.org, &service.url),
        version: service.version.clone(),
        arch: service.arch.clone(),
        deployment: service.deployment.as_str().unwrap_or_default().to_owned(),
        deployment_signature: String::new(),
        cluster_deployment: service.cluster_deployment.as_str().unwrap_or_default().to_owned(),
        cluster_deployment_signature: String::new(),
        required_services: service.required_services.iter().map(|need| json!(need)).collect(),
        user_input: Vec::new(),
    }
}

fn policy_facts(policy_document: &DeploymentPolicy) -> DeploymentPolicyFacts {
    let service = &policy_document.service;
    DeploymentPolicyFacts {
        id: policy(),
        pattern: None,
        orchestration: evenkeel_planner_record::facts::PolicyOrchestration::default(),
        label: String::new(),
        service: ServiceKey::new(&service.org, &service.name),
        arch: service.arch.clone(),
        cluster_namespace: String::new(),
        versions: service
            .versions
            .iter()
            .map(|entry| VersionChoice {
                version: entry.version.clone(),
                priority: u32::try_from(entry.priority.value).unwrap_or(0),
                retries: u32::try_from(entry.priority.retries).unwrap_or(0),
                retry_secs: u64::try_from(entry.priority.retry_secs).unwrap_or(0),
                ..VersionChoice::default()
            })
            .collect(),
        missing_heartbeat_secs: 0,
        agreement_check_secs: 0,
        policy: ExternalPolicy {
            properties: policy_document.properties.clone(),
            constraints: policy_document.constraints.clone(),
        },
        user_input: Vec::new(),
        secret_binding: Vec::new(),
        node_orgs: ["acme".parse().unwrap()].into(),
        last_updated: None,
    }
}
