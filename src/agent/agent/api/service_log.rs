//! `/service/log`: the output of a service that runs on the node, in parts.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::{Json, Router, extract::State, routing::get};
use evenkeel_wire::agent::service_log::{ServiceLog, ServiceLogQuery};

use super::{Api, Refusal};
use crate::deployment::Deployment;
use crate::drivers::{DriverError, LogStart};
use crate::step::State as Steps;

/// Lines of a part when the query names no number.
const USUAL_LINES: usize = 100;
/// Most lines of a part.
const MOST_LINES: usize = 10_000;

pub(super) fn routes() -> Router<Api> {
    Router::new().route("/service/log", get(read))
}

async fn read(
    State(api): State<Api>,
    query: Result<Query<ServiceLogQuery>, QueryRejection>,
) -> Result<Json<ServiceLog>, Refusal> {
    let Query(query) = query.map_err(|error| Refusal::Input(error.body_text(), "query"))?;
    let journal = api.journal().await?;
    if journal.registration.is_none() {
        return Err(Refusal::NotRegistered);
    }
    let instance = chosen(&journal.state, &query.service)?;
    let container = chosen_container(&instance, query.container)?;
    let start = match query.after {
        Some(position) => LogStart::After(position),
        None => LogStart::Last(query.lines.unwrap_or(USUAL_LINES).min(MOST_LINES)),
    };
    let part = api.driver.read_log(&instance.key, &container, start).await.map_err(|error| match error {
        DriverError::Unsuitable(why) => Refusal::Input(why, "after"),
        other => Refusal::Unavailable(other.to_string()),
    })?;
    Ok(Json(ServiceLog { instance_id: instance.key, container, text: part.text, position: part.position }))
}

/// A service that runs on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    key: String,
    org: String,
    url: String,
    containers: Vec<String>,
}

fn running(state: &Steps) -> Vec<Running> {
    let containers = |deployment: &str, overrides: &str| {
        let deployment = Deployment::parse(deployment, overrides).ok();
        deployment.map(|found| found.services.into_keys().collect()).unwrap_or_default()
    };
    let top = state.live().map(|agreement| Running {
        key: agreement.id.clone(),
        org: agreement.workload.org.clone(),
        url: agreement.workload.url.clone(),
        containers: containers(&agreement.deployment, &agreement.deployment_overrides),
    });
    let needed = state.instances.iter().map(|(key, instance)| Running {
        key: key.clone(),
        org: instance.dependency.service.org.clone(),
        url: instance.dependency.service.url.clone(),
        containers: containers(&instance.dependency.deployment, ""),
    });
    top.chain(needed).collect()
}

fn chosen(state: &Steps, name: &str) -> Result<Running, Refusal> {
    let all = running(state);
    let is_named =
        |one: &&Running| one.key == name || one.url == name || format!("{}/{}", one.org, one.url) == name;
    let mut found = all.iter().filter(is_named);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (None, _) if all.is_empty() => Err(Refusal::NotFound("the node runs no service".to_owned())),
        (None, _) => {
            let mut names: Vec<String> = all.iter().map(|one| format!("{}/{}", one.org, one.url)).collect();
            names.sort();
            names.dedup();
            Err(Refusal::NotFound(format!("the node runs no service \"{name}\", only {}", names.join(", "))))
        }
        (Some(_), Some(_)) => {
            let ids: Vec<&str> = all.iter().filter(is_named).map(|one| one.key.as_str()).collect();
            Err(Refusal::Input(
                format!("{} instances of \"{name}\" run; name one by its id: {}", ids.len(), ids.join(", ")),
                "service",
            ))
        }
    }
}

fn chosen_container(instance: &Running, wanted: Option<String>) -> Result<String, Refusal> {
    let all = instance.containers.join(", ");
    match (wanted, instance.containers.as_slice()) {
        (Some(name), containers) if containers.contains(&name) => Ok(name),
        (Some(name), _) => {
            Err(Refusal::Input(format!("the service has no container \"{name}\", only {all}"), "container"))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Refusal::Input(format!("the service has several containers: {all}"), "container")),
    }
}
