//! The rules of the exchange for writes of deployment policies, so that the plan of an invalid write is
//! rejected as well.
//!
//! The exchange decides on its own rows; these are the same rules on what the agbot knows. Source: orchestration 1.2, D3; exchange-api 4.8
//! (validation).

use evenkeel_api::Refusal;
use evenkeel_domain::orchestration::form::{FormConflict, changes_form};
use evenkeel_domain::orchestration::lifecycle::check_lifecycles;
use evenkeel_domain::policy::MissingService;
use evenkeel_ids::{PolicyId, ServiceKey};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::workload::{SlotTasks, Task};
use evenkeel_wire::exchange::deployment_policy::{DeployedService, DeploymentPolicyResponse};
use http::StatusCode;
use serde_json::{Value, json};

pub(super) struct PlannedWrite<'a> {
    pub(super) policy: &'a PolicyId,
    /// Its stored `orchestration`.
    pub(super) before: Option<&'a Value>,
    pub(super) document: &'a DeploymentPolicyResponse,
}

/// Refuses a write as the exchange would; `read`: the services of the document, as events.
///
/// # Errors
/// 400 when a version of the service does not exist or has an unknown word for the time when it replaces
/// others, 409 when mode or kind of scope would change under tasks.
pub(super) fn check(model: &Model, write: &PlannedWrite<'_>, read: &[Event]) -> Result<(), Refusal> {
    let service = write.document.service().map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not a deployment policy: {error}"))
    })?;
    require_services(&service, read)?;
    if write.document.orchestration.is_some() {
        check_lifecycles(&json!(service))
            .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    }
    let is_other = changes_form(write.before, write.document.orchestration.as_ref());
    if is_other && has_published_task(model, write.policy) {
        let conflict = FormConflict { policy: write.policy.clone() };
        return Err(Refusal::new(StatusCode::CONFLICT, conflict.to_string()));
    }
    Ok(())
}

/// Requires every version of the deployed service, in any architecture when none is named.
///
/// The agbot finds services by their url. One that the exchange knows under another spelling of it would never be deployed, and does not
/// exist here.
fn require_services(service: &DeployedService, read: &[Event]) -> Result<(), Refusal> {
    let key = ServiceKey::new(&service.org, &service.name);
    let arch = Some(service.arch.as_str()).filter(|arch| !matches!(*arch, "" | "*"));
    let exists = |version: &str| {
        read.iter().any(|event| match event {
            Event::ServiceChanged { service: found } => {
                found.key == key && found.version == version && arch.is_none_or(|arch| found.arch == arch)
            }
            _ => false,
        })
    };
    let Some(missing) = service.service_versions.iter().find(|wanted| !exists(&wanted.version)) else {
        return Ok(());
    };
    let missing =
        MissingService { org: &service.org, url: &service.name, version: Some(&missing.version), arch };
    Err(Refusal::new(StatusCode::BAD_REQUEST, missing.to_string()))
}

/// Returns whether the exchange has a live task of a policy: those with an agreement are published.
fn has_published_task(model: &Model, policy: &PolicyId) -> bool {
    let has_agreement = |task: &Task| {
        task.agreement.is_some()
            || task.node.as_ref().is_some_and(|node| {
                model.live_on(node).any(|agreement| agreement.task.as_ref() == Some(&task.id))
            })
    };
    model
        .workload_units_of(policy)
        .flat_map(|(_, unit)| unit.slots.values())
        .any(|tasks| SlotTasks::iter(tasks).any(|task| task.is_live() && has_agreement(task)))
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::ServiceId;
    use evenkeel_planner_record::facts::ServiceFacts;
    use serde_json::json;

    use super::*;

    fn published(version: &str, arch: &str) -> Event {
        let service = ServiceFacts {
            id: ServiceId::new("o", &format!("s_{version}_{arch}")),
            key: ServiceKey::new("o", "s"),
            version: version.to_owned(),
            arch: arch.to_owned(),
            deployment: String::new(),
            deployment_signature: String::new(),
            cluster_deployment: String::new(),
            cluster_deployment_signature: String::new(),
            required_services: Vec::new(),
            user_input: Vec::new(),
        };
        Event::ServiceChanged { service: Box::new(service) }
    }

    #[test]
    fn every_version_must_exist_in_the_named_architecture() {
        let read = [published("1.0.0", "amd64"), published("2.0.0", "arm64")];
        let missing = |arch: &str, versions: &[&str]| {
            let versions: Vec<Value> = versions.iter().map(|version| json!({"version": version})).collect();
            let service = json!({"name": "s", "org": "o", "arch": arch, "serviceVersions": versions});
            let service: DeployedService = serde_json::from_value(service).expect("a service");
            match require_services(&service, &read) {
                Ok(()) => String::new(),
                Err(refusal) if refusal.status() == StatusCode::BAD_REQUEST => refusal
                    .message()
                    .rsplit_once("exchange: ")
                    .map(|(_, named)| named.to_owned())
                    .unwrap_or_default(),
                Err(_) => "another refusal".to_owned(),
            }
        };
        assert_eq!(missing("amd64", &["1.0.0"]), "");
        assert_eq!(missing("*", &["1.0.0", "2.0.0"]), "");
        assert_eq!(missing("amd64", &["1.0.0", "2.0.0"]), "org=o, url=s, version=2.0.0, arch=amd64");
        assert_eq!(missing("", &["3.0.0"]), "org=o, url=s, version=3.0.0, arch=any");
    }
}
