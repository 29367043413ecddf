//! `/service`: services that run on the node.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::{State, rejection::JsonRejection},
    http::StatusCode,
    routing::get,
};
use evenkeel_client::ClientError;
use evenkeel_wire::RawJson;
use evenkeel_wire::agent::ByAge;
use evenkeel_wire::agent::service::{
    ConfigStates, Container, InstancePathElement, LocalServices, NeededService, ServiceConfigState,
    ServiceConfigurations, ServiceDefinition, ServiceInstance,
};
use serde_json::Value;

use super::{Api, Refusal};
use crate::step::{Agreement, ContainerState, Dependency, Instance, State as Steps, WorkloadName};

/// The default log driver of the container engine.
const ENGINE_LOG_DRIVER: &str = "json-file";

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/service", get(list))
        .route("/service/config", get(|| async { Json(ServiceConfigurations::default()) }))
        .route("/service/configstate", get(config_states).post(set_config_state))
        .route("/service/policy", get(policies))
}

fn containers(key: &str, state: &Steps) -> Vec<Container> {
    state.observed.get(key).map_or_else(Vec::new, |observation| {
        let container = |one: &ContainerState| Container {
            names: vec![format!("/{key}-{}", one.name)],
            image: one.image.clone(),
            created: one.created_at,
            state: one.state.word().to_owned(),
        };
        observation.containers.iter().map(container).collect()
    })
}

fn path_element(service: &WorkloadName) -> InstancePathElement {
    let WorkloadName { url, org, version, .. } = service.clone();
    InstancePathElement { url, org, version }
}

/// Returns the members of an instance that do not depend on the reason why it runs.
fn service_instance(key: &str, service: &WorkloadName, state: &Steps) -> ServiceInstance {
    ServiceInstance {
        ref_url: service.url.clone(),
        organization: service.org.clone(),
        version: service.version.clone(),
        arch: service.arch.clone(),
        instance_id: key.to_owned(),
        containers: containers(key, state),
        ..ServiceInstance::default()
    }
}

fn instance(agreement: &Agreement, state: &Steps) -> ServiceInstance {
    ServiceInstance {
        archived: agreement.is_archived(),
        instance_creation_time: agreement.accepted_at.unwrap_or(0),
        execution_start_time: agreement.started_at.unwrap_or(0),
        cleanup_start_time: agreement.ending.map_or(0, |ending| ending.at),
        associated_agreements: vec![agreement.id.clone()],
        microservicedef_id: agreement.service_id.clone(),
        service_instance_path: vec![vec![path_element(&agreement.workload)]],
        top_level_service: true,
        ..service_instance(&agreement.id, &agreement.workload, state)
    }
}

/// Describes a service that others need.
fn needed_instance(key: &str, instance: &Instance, state: &Steps) -> ServiceInstance {
    let service = &instance.dependency.service;
    let path = |agreement: &Agreement| vec![path_element(&agreement.workload), path_element(service)];
    ServiceInstance {
        execution_start_time: instance.started_at.unwrap_or(0),
        associated_agreements: state.needing(key).map(|agreement| agreement.id.clone()).collect(),
        microservicedef_id: instance.dependency.service_id.clone(),
        service_instance_path: state.needing(key).map(path).collect(),
        ..service_instance(key, service, state)
    }
}

fn definition(agreement: &Agreement) -> ServiceDefinition {
    let required = |one: &Dependency| {
        let WorkloadName { url, org, version, arch } = one.service.clone();
        NeededService { url, org, version_range: version, arch }
    };
    ServiceDefinition {
        archived: !agreement.is_live(),
        required_services: agreement.dependencies.iter().map(required).collect(),
        ..defined(&agreement.service_id, &agreement.workload, &agreement.deployment)
    }
}

/// Describes a definition by id, name and deployment.
fn defined(id: &str, service: &WorkloadName, deployment: &str) -> ServiceDefinition {
    ServiceDefinition {
        record_id: id.to_owned(),
        spec_ref: service.url.clone(),
        organization: service.org.clone(),
        version: service.version.clone(),
        arch: service.arch.clone(),
        deployment: shown_deployment(deployment),
        ..ServiceDefinition::default()
    }
}

/// Returns the deployment with the default log driver filled in: a client that shows output needs to know it.
fn shown_deployment(text: &str) -> String {
    let Ok(mut deployment) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    for container in deployment.get_mut("services").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some(members) = container.1.as_object_mut() {
            let driver = members.entry("log_driver").or_insert_with(|| Value::from(""));
            if driver == "" {
                *driver = Value::from(ENGINE_LOG_DRIVER);
            }
        }
    }
    deployment.to_string()
}

async fn list(
    State(api): State<Api>,
) -> Result<Json<LocalServices<ServiceInstance, ServiceDefinition>>, Refusal> {
    let journal = api.journal().await?;
    if journal.registration.is_none() {
        return Err(Refusal::NotRegistered);
    }
    let observed = api.handle.with(|journal| journal.state.observed.clone()).await?;
    let state = Steps { observed, ..journal.state };
    let (live, ended): (Vec<_>, Vec<_>) =
        state.agreements.values().partition(|agreement| agreement.is_live());
    let instances = |list: &[&Agreement]| list.iter().map(|one| instance(one, &state)).collect::<Vec<_>>();
    let mut active = instances(&live);
    active.extend(state.instances.iter().map(|(key, instance)| needed_instance(key, instance, &state)));
    let needed = state.instances.values().map(|instance| {
        let needed = &instance.dependency;
        defined(&needed.service_id, &needed.service, &needed.deployment)
    });
    let definitions = |list: &[&Agreement]| list.iter().map(|one| definition(one)).collect::<Vec<_>>();
    let active_definitions = definitions(&live).into_iter().chain(needed);
    Ok(Json(LocalServices {
        config: Vec::new(),
        instances: ByAge { active, archived: instances(&ended) },
        definitions: ByAge {
            active: without_repeats(active_definitions),
            archived: without_repeats(definitions(&ended).into_iter()),
        },
    }))
}

async fn config_states(State(api): State<Api>) -> Result<Json<ConfigStates>, Refusal> {
    let registered = match api.hub().await {
        Ok(hub) => {
            let node = hub.exchange.node(&hub.node).await;
            let node = node.map_err(|error| Refusal::Unavailable(error.to_string()))?;
            let services = node.unwrap_or_default().registered_services();
            services.map_err(|error| Refusal::Unavailable(ClientError::from(error).to_string()))?
        }
        Err(_) => Vec::new(),
    };
    let configstates = registered
        .into_iter()
        .map(|service| {
            let (org, url) = service.url.split_once('/').unwrap_or_default();
            let state =
                if service.config_state.is_empty() { "active".to_owned() } else { service.config_state };
            ServiceConfigState {
                url: url.to_owned(),
                org: org.to_owned(),
                version: service.version,
                config_state: state,
            }
        })
        .collect();
    Ok(Json(ConfigStates { configstates }))
}

async fn set_config_state(
    State(api): State<Api>,
    body: Result<Json<RawJson>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(wanted) = body.map_err(|error| Refusal::Input(error.body_text(), "configstate"))?;
    let hub = api.hub().await?;
    match hub.exchange.set_service_config_state(&hub.node, &wanted).await {
        Ok(_) => Ok(StatusCode::OK),
        Err(error) if matches!(error.status(), Some(400 | 404)) => {
            Err(Refusal::Input(error.to_string(), "configstate"))
        }
        Err(error) => Err(Refusal::Unavailable(error.to_string())),
    }
}

/// Returns each definition once, in the order of the services' ids.
fn without_repeats(definitions: impl Iterator<Item = ServiceDefinition>) -> Vec<ServiceDefinition> {
    let by_id: BTreeMap<String, ServiceDefinition> =
        definitions.map(|one| (one.record_id.clone(), one)).collect();
    by_id.into_values().collect()
}

/// Returns the policies of live agreements, by name.
async fn policies(State(api): State<Api>) -> Result<Json<BTreeMap<String, RawJson>>, Refusal> {
    let journal = api.journal().await?;
    let found = journal.state.live().filter_map(|agreement| {
        Some((agreement.name.clone(), serde_json::from_str(&agreement.producer_policy).ok()?))
    });
    Ok(Json(found.collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn log_driver_is_named_where_the_deployment_names_none() {
        let shown = |text: &str| serde_json::from_str::<Value>(&shown_deployment(text)).expect("JSON");
        let deployment =
            json!({"services": {"a": {"image": "x"}, "b": {"image": "y", "log_driver": "journald"}}});
        let shown = shown(&deployment.to_string());
        assert_eq!(shown["services"]["a"], json!({"image": "x", "log_driver": "json-file"}));
        assert_eq!(shown["services"]["b"]["log_driver"], "journald");
        assert_eq!(shown_deployment(""), "");
    }

    #[test]
    fn service_that_several_need_is_defined_once() {
        let one = |id: &str| ServiceDefinition { record_id: id.to_owned(), ..ServiceDefinition::default() };
        let listed = without_repeats([one("b"), one("a"), one("b")].into_iter());
        assert_eq!(listed, [one("a"), one("b")]);
    }
}
