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
use serde_json::{Map, Value, json};

use super::{Api, Refusal};
use crate::step::{Agreement, Instance, State as Steps, WorkloadName};

/// The default log driver of the container engine.
const ENGINE_LOG_DRIVER: &str = "json-file";

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/service", get(list))
        .route("/service/config", get(|| async { Json(json!({"config": []})) }))
        .route("/service/configstate", get(config_states).post(set_config_state))
        .route("/service/policy", get(policies))
}

fn containers(key: &str, state: &Steps) -> Vec<Value> {
    state.observed.get(key).map_or_else(Vec::new, |observation| {
        let container = |one: &crate::step::ContainerState| {
            json!({"Names": [format!("/{key}-{}", one.name)], "Image": one.image,
                   "Created": one.created_at, "State": one.state.word()})
        };
        observation.containers.iter().map(container).collect()
    })
}

fn instance(agreement: &Agreement, state: &Steps) -> Value {
    let workload = &agreement.workload;
    json!({
        "ref_url": workload.url,
        "organization": workload.org,
        "version": workload.version,
        "arch": workload.arch,
        "instance_id": agreement.id,
        "archived": agreement.is_archived(),
        "instance_creation_time": agreement.accepted_at.unwrap_or(0),
        "execution_start_time": agreement.started_at.unwrap_or(0),
        "execution_failure_code": 0,
        "execution_failure_desc": "",
        "cleanup_start_time": agreement.ending.map_or(0, |ending| ending.at),
        "associated_agreements": [agreement.id],
        "microservicedef_id": agreement.service_id,
        "service_instance_path": [[{"url": workload.url, "org": workload.org, "version": workload.version}]],
        "agreement_less": false,
        "max_retries": 0,
        "max_retry_duration": 0,
        "current_retry_count": 0,
        "retry_start_time": 0,
        "env_vars": {},
        "top_level_service": true,
        "containers": containers(&agreement.id, state),
    })
}

/// Describes a service that others need.
fn needed_instance(key: &str, instance: &Instance, state: &Steps) -> Value {
    let service = &instance.dependency.service;
    let path: Vec<Value> = state
        .needing(key)
        .map(|agreement| {
            let top = &agreement.workload;
            json!([{"url": top.url, "org": top.org, "version": top.version},
                   {"url": service.url, "org": service.org, "version": service.version}])
        })
        .collect();
    json!({
        "ref_url": service.url,
        "organization": service.org,
        "version": service.version,
        "arch": service.arch,
        "instance_id": key,
        "archived": false,
        "instance_creation_time": 0,
        "execution_start_time": instance.started_at.unwrap_or(0),
        "execution_failure_code": 0,
        "execution_failure_desc": "",
        "cleanup_start_time": 0,
        "associated_agreements": state.needing(key).map(|agreement| &agreement.id).collect::<Vec<_>>(),
        "microservicedef_id": instance.dependency.service_id,
        "service_instance_path": path,
        "agreement_less": false,
        "max_retries": 0,
        "max_retry_duration": 0,
        "current_retry_count": 0,
        "retry_start_time": 0,
        "env_vars": {},
        "top_level_service": false,
        "containers": containers(key, state),
    })
}

fn definition(agreement: &Agreement) -> Value {
    let required = agreement.dependencies.iter().map(|one| {
        json!({"url": one.service.url, "org": one.service.org, "versionRange": one.service.version, "arch": one.service.arch})
    });
    let mut found = defined(&agreement.service_id, &agreement.workload, &agreement.deployment);
    found["archived"] = Value::Bool(!agreement.is_live());
    found["requiredServices"] = required.collect();
    found
}

/// Describes a definition by id, name and deployment.
fn defined(id: &str, service: &WorkloadName, deployment: &str) -> Value {
    json!({
        "record_id": id,
        "specRef": service.url,
        "organization": service.org,
        "version": service.version,
        "arch": service.arch,
        "deployment": shown_deployment(deployment),
        "archived": false,
        "name": "",
        "userInput": [],
        "requiredServices": [],
    })
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

async fn list(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
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
    let definitions = |list: &[&Agreement]| list.iter().map(|one| definition(one)).collect::<Vec<Value>>();
    let active_definitions = definitions(&live).into_iter().chain(needed);
    Ok(Json(json!({
        "config": [],
        "instances": {"active": active, "archived": instances(&ended)},
        "definitions": {
            "active": without_repeats(active_definitions),
            "archived": without_repeats(definitions(&ended).into_iter()),
        },
    })))
}

async fn config_states(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    let registered = match api.hub().await {
        Ok(hub) => {
            let node = hub.exchange.node(&hub.org, &hub.id).await;
            let node = node.map_err(|error| Refusal::Unavailable(error.to_string()))?;
            let services = node.unwrap_or_default().registered_services();
            services.map_err(|error| Refusal::Unavailable(ClientError::from(error).to_string()))?
        }
        Err(_) => Vec::new(),
    };
    let states: Vec<Value> = registered
        .iter()
        .map(|service| {
            let (org, url) = service.url.split_once('/').unwrap_or_default();
            let word = if service.config_state.is_empty() { "active" } else { &service.config_state };
            json!({"url": url, "org": org, "version": service.version, "configState": word})
        })
        .collect();
    Ok(Json(json!({"configstates": states})))
}

async fn set_config_state(
    State(api): State<Api>,
    body: Result<Json<RawJson>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(wanted) = body.map_err(|error| Refusal::Input(error.body_text(), "configstate"))?;
    let hub = api.hub().await?;
    match hub.exchange.set_service_config_state(&hub.org, &hub.id, &wanted).await {
        Ok(_) => Ok(StatusCode::OK),
        Err(error) if matches!(error.status(), Some(400 | 404)) => {
            Err(Refusal::Input(error.to_string(), "configstate"))
        }
        Err(error) => Err(Refusal::Unavailable(error.to_string())),
    }
}

/// Returns each definition once, in the order of the services' ids.
fn without_repeats(definitions: impl Iterator<Item = Value>) -> Vec<Value> {
    let by_id: BTreeMap<String, Value> =
        definitions.map(|one| (one["record_id"].as_str().unwrap_or_default().to_owned(), one)).collect();
    by_id.into_values().collect()
}

/// Lists the policies of live agreements, by name.
async fn policies(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    let journal = api.journal().await?;
    let found: Map<String, Value> = journal
        .state
        .live()
        .filter_map(|agreement| {
            Some((agreement.name.clone(), serde_json::from_str(&agreement.producer_policy).ok()?))
        })
        .collect();
    Ok(Json(Value::Object(found)))
}

#[cfg(test)]
mod tests {
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
        let one = |id: &str| json!({ "record_id": id });
        let listed = without_repeats([one("b"), one("a"), one("b")].into_iter());
        assert_eq!(listed, [one("a"), one("b")]);
    }
}
