//! The document `orchestration` of a deployment policy as it is stored.

use std::collections::BTreeMap;

use evenkeel_domain::object::without_nulls;
use evenkeel_domain::orchestration::form::{FormConflict, changes_form};
use evenkeel_domain::orchestration::health_policy::Target;
use evenkeel_domain::orchestration::lifecycle::check_lifecycles;
use evenkeel_domain::orchestration::relations::find_cycle;
use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_domain::orchestration::{HealthPolicy, MembersError, Orchestration};
use evenkeel_domain::review::{self, Finding};
use evenkeel_exchange_store::deployment_policy::DeploymentPolicyRow;
use evenkeel_exchange_store::{deployment_policy, node_task, organization};
use evenkeel_ids::PolicyId;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::node_task::TASKS_SOFTWARE;
use serde_json::{Value, json};

use crate::org_settings::stored_settings;
use crate::{ApiError, Exchange};

/// Checks a document and returns it without the members that are `null`.
///
/// # Errors
/// 400 with the path of the first member that breaks a rule or is not supported.
///
/// # Source
/// Orchestration 1.2.
pub(super) fn stored_orchestration(org: &str, id: &str, document: &Value) -> Result<Value, ApiError> {
    let read = supported_orchestration(&PolicyId::new(org, id), document.clone())
        .map_err(|error| ApiError::invalid_input(error.to_string()))?;
    if let Some(error) = review::orchestration(&read).into_iter().find(Finding::is_error) {
        return Err(ApiError::invalid_input(error.to_string()));
    }
    let mut stored = without_nulls(document);
    if let Some(policy) = read.health_policy {
        // Its defaults are shown, whatever form it was written in.
        stored["healthPolicy"] = json!(policy);
    }
    Ok(stored)
}

/// Returns what can never work, or is probably not meant, in a policy or in attributes of one.
///
/// # Errors
/// When the store does not respond.
pub(super) async fn findings(
    exchange: &Exchange,
    (org, id): (&str, &str),
    document: &Value,
) -> Result<Vec<Finding>, ApiError> {
    let policy = PolicyId::new(org, id);
    let mut found = review::deployment_policy(&policy, document);
    let settings = document.get("orchestration").filter(|document| !document.is_null());
    let settings = settings.and_then(|document| Orchestration::of_policy(&policy, document.clone()).ok());
    let named = settings.map(|settings| review::named_policies(&policy, &settings)).unwrap_or_default();
    if named.is_empty() {
        return Ok(found);
    }
    let names: Vec<String> = named.iter().map(|(_, policy)| policy.name().to_owned()).collect();
    let missing = exchange
        .database()
        .read(async |connection| deployment_policy::list_missing(connection, org, &names).await)
        .await?;
    let is_missing = |(_, policy): &&(String, PolicyId)| missing.iter().any(|name| name == policy.name());
    found.extend(named.iter().filter(is_missing).map(|(at, policy)| review::missing_policy(at, policy)));
    Ok(found)
}

/// Rejects unknown words in `upgradePolicy.lifecycle` of a policy with an `orchestration`; without one they
/// are not used.
///
/// # Errors
/// 400 with the member.
///
/// # Source
/// Orchestration B11.10.
pub(super) fn require_lifecycles(row: &DeploymentPolicyRow) -> Result<(), ApiError> {
    let checked = if row.orchestration.is_some() { check_lifecycles(&row.service) } else { Ok(()) };
    checked.map_err(|error| ApiError::invalid_input(error.to_string()))
}

/// Refuses the health policy in a document `orchestration` when it polls more often than the organization allows.
///
/// # Errors
/// 400 with the member and the least interval.
///
/// # Source
/// Orchestration C2.
pub(in crate::routes) async fn require_interval(
    conn: &mut PgConnection,
    org: &str,
    next: Option<&Value>,
    target: Target,
) -> Result<(), ApiError> {
    let Some(document) = next.and_then(|next| next.get("healthPolicy")) else { return Ok(()) };
    let policy = HealthPolicy::read("orchestration.healthPolicy", document.clone(), target);
    let stored = organization::find_settings(conn, org).await?.flatten();
    let least_secs = stored_settings(org, stored)?.health_interval_min_secs();
    let checked = policy.and_then(|policy| policy.check_interval(least_secs));
    checked.map_err(|error| ApiError::invalid_input(error.to_string()))
}

/// Refuses a health policy whose actions none of the agents that have instances of the policy now can carry out.
///
/// # Errors
/// 400 with the member and the action.
///
/// # Source
/// Orchestration C6.
pub(super) async fn require_agents(
    conn: &mut PgConnection,
    (org, id): (&str, &str),
    next: Option<&Value>,
) -> Result<(), ApiError> {
    const PATH: &str = "orchestration.healthPolicy";
    let Some(document) = next.and_then(|next| next.get("healthPolicy")) else { return Ok(()) };
    let refused = |error: MembersError| ApiError::invalid_input(error.to_string());
    let policy = HealthPolicy::read(PATH, document.clone(), Target::Workload).map_err(refused)?;
    let id = PolicyId::new(org, id);
    let counts = node_task::count_agents_of_policy(conn, id.as_str(), TASKS_SOFTWARE.1).await?;
    let count = |number: i64| usize::try_from(number).unwrap_or_default();
    policy.check_commands(PATH, count(counts.0), count(counts.1)).map_err(refused)
}

/// Refuses another mode, or another kind of scope, while nodes have tasks of the policy.
///
/// The agbot owns tasks; the exchange knows those that have an agreement, whether the agent of their node
/// reads tasks or not. Adding and removing the whole document is not a change of mode.
///
/// # Errors
/// 409 with code `conflict`.
///
/// # Source
/// Orchestration 1.2, 1.1-6; engine 6.
pub(super) async fn require_same_form(
    conn: &mut PgConnection,
    (org, id): (&str, &str),
    stored: Option<&Value>,
    next: Option<&Value>,
) -> Result<(), ApiError> {
    let policy = PolicyId::new(org, id);
    if !changes_form(stored, next) || !node_task::has_live_of_policy(conn, policy.as_str()).await? {
        return Ok(());
    }
    Err(ApiError::state_conflict(FormConflict { policy }.to_string()))
}

/// Refuses parents and children that could never all be up, or down.
///
/// The policies of an organization that name others are written one after the other, so that no two of them close a cycle together.
///
/// # Errors
/// 400 with the cycle.
///
/// # Source
/// Orchestration 1.2, A8.7.
pub(super) async fn require_no_cycle(
    conn: &mut PgConnection,
    (org, id): (&str, &str),
    next: Option<&Value>,
) -> Result<(), ApiError> {
    let names_others = |document: &&Value| {
        ["parents", "children"]
            .iter()
            .any(|name| document[name].as_array().is_some_and(|list| !list.is_empty()))
    };
    let Some(next) = next.filter(names_others) else { return Ok(()) };
    deployment_policy::lock_relations(conn, org).await?;
    let stored = deployment_policy::list_relations(conn, org).await?;
    let own = PolicyId::new(org, id);
    let relations = json!({"parents": next["parents"], "children": next["children"]});
    let documents = stored.into_iter().map(|(policy, relations)| (PolicyId::new(org, &policy), relations));
    let mut policies = BTreeMap::new();
    for (policy, relations) in documents.chain([(own.clone(), relations)]) {
        let read = Orchestration::of_policy(&policy, relations)
            .map_err(|error| ApiError::internal(format!("the stored relations of {policy}: {error}")))?;
        policies.insert(policy, read);
    }
    match find_cycle(&own, &policies) {
        Some(cycle) => Err(ApiError::invalid_input(cycle.to_string())),
        None => Ok(()),
    }
}
