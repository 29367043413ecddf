//! The deployment policies that an agbot serves.
//!
//! Source: exchange contract 4.5.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, post};
use evenkeel_access::{Access, Caller, Role};
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::served::{self, ServedFilter, ServedRow};
use evenkeel_wire::exchange::agbot::{
    PostServedPolicy, ServedPoliciesAnswer, ServedPoliciesQuery, ServedPolicy,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{Method, StatusCode};

use super::{agbot_change, require_addable, sees_served};
use crate::endpoint::{Content, Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path, Query};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::no_content;
use crate::{ApiError, Exchange};

const TAG: &str = "agbot policy";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/businesspols";
const ALL_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/policy";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/businesspols/{entry}";
const ONE_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/policy/{entry}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, ALL, "list_served_policies", get(list_policies))
            .alias(ALL_ALIAS)
            .doc(TAG, "Lists the deployment policies that an agbot serves")
            .query::<ServedPoliciesQuery>()
            .answer::<ServedPoliciesAnswer>(200, "the deployment policies")
            .answer::<ServedPoliciesAnswer>(404, "there is none"),
        endpoint(Method::POST, ALL, "create_served_policy", post(create_policy))
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve a deployment policy")
            .body::<PostServedPolicy>()
            .answer::<ApiResponse>(201, "added")
            .answer::<ApiResponse>(409, "it is served already"),
        endpoint(Method::DELETE, ALL, "delete_served_policies", delete(delete_policies))
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve no deployment policies")
            .answer_with(204, "removed", Content::None),
        endpoint(Method::GET, ONE, "get_served_policy", get(get_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Answers one of the deployment policies that an agbot serves")
            .answer::<ServedPoliciesAnswer>(200, "the entry")
            .answer::<ServedPoliciesAnswer>(404, "it is not there"),
        endpoint(Method::DELETE, ONE, "delete_served_policy", delete(delete_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Makes an agbot no longer serve one of the deployment policies")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn list_policies(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    Query(query): Query<ServedPoliciesQuery>,
) -> Result<Response, ApiError> {
    let filter = ServedFilter {
        entry: None,
        subject: query.deployment_policy,
        subject_org: query.deployment_policy_organization,
        node_org: query.node_organization,
    };
    read(exchange, caller, org, id, filter).await
}

async fn get_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, entry)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    read(exchange, caller, org, id, ServedFilter { entry: Some(entry), ..ServedFilter::default() }).await
}

async fn read(
    exchange: Exchange,
    caller: CurrentCaller,
    org: String,
    id: String,
    filter: ServedFilter,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::AgbotRead, FactKind::Agbot, &org, Some(&id)).await?;
    let is_seen = sees_served(&exchange, &caller, &org, &id).await?;
    let wanted = Arc::new((org, id, filter, is_seen));
    pages::answer(StatusCode::OK, r#"{"businessPols":{"#, "}}", move |after: Option<String>| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, String, ServedFilter, bool)>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (org, id, filter, is_seen) = &*wanted;
    if !is_seen {
        return Ok(Page::new());
    }
    let mut connection = exchange.database().acquire().await?;
    let rows = served::list_policies(&mut connection, org, id, filter, after.as_deref(), PAGE_ROWS).await?;
    drop(connection);
    Ok(Page::object(rows, PAGE_ROWS, |row| row.entry.clone(), |row| (row.entry.clone(), shape(row)))?)
}

fn shape(row: ServedRow) -> ServedPolicy {
    ServedPolicy {
        business_pol_orgid: row.subject_org,
        business_pol: row.subject,
        last_updated: wire_time(row.updated_at),
        node_orgid: row.node_org,
    }
}

async fn create_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PostServedPolicy>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::AgbotWrite, FactKind::Agbot, &org, Some(&id)).await?;
    let request = request.read()?;
    require_addable(&caller, &org)?;
    check_orgs(&caller, &request)?;
    let (policy_org, policy) = (request.business_pol_orgid, request.business_pol);
    let key_org = request.node_orgid.as_deref().unwrap_or(&policy_org);
    let row = ServedRow {
        entry: format!("{policy_org}_{policy}_{key_org}"),
        // Without an organization of the nodes the reference shows the policy's name in its place, and so do the recorded
        // conversations; clients of the product always send it.
        node_org: request.node_orgid.clone().unwrap_or_else(|| policy.clone()),
        subject_org: policy_org.clone(),
        subject: policy.clone(),
        updated_at: exchange.now(),
    };
    evenkeel_store::retry("served_policy.create", || async {
        let mut tx = exchange.begin().await?;
        served::insert_policy(&mut tx, &org, &id, &row).await.map_err(|error| {
            ApiError::from(error)
                .explain("agbot_policy_org_agbot_entry_key", || {
                    ApiError::conflict(format!(
                        "businessPol '{}' of agbot '{org}/{id}' already exists",
                        row.entry
                    ))
                })
                .explain("agbot_policy_agbot_fk", || {
                    ApiError::access_denied(format!(
                        "businessPol '{}' not inserted: agbot '{org}/{id}' not found",
                        row.entry
                    ))
                })
        })?;
        tx.commit(&[agbot_change(&org, &id, "agbotbusinesspols", "created")]).await
    })
    .await?;
    Ok(created(format!("businessPol {} added", row.entry)))
}

/// Only those who look after every organization may name another one than their own.
fn check_orgs(caller: &Caller, request: &PostServedPolicy) -> Result<(), ApiError> {
    let is_everywhere = matches!(caller.role, Role::Root | Role::HubAdmin) || caller.is_multi_tenant();
    let is_own = |org: &str| org == caller.org;
    if is_everywhere
        || (is_own(&request.business_pol_orgid) && request.node_orgid.as_deref().is_none_or(is_own))
    {
        return Ok(());
    }
    Err(ApiError::access_denied(format!(
        "policies and nodes must be of your own organization '{}'",
        caller.org
    )))
}

async fn delete_policies(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    remove(&exchange, &caller, &org, &id, None).await
}

async fn delete_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, entry)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    remove(&exchange, &caller, &org, &id, Some(&entry)).await
}

async fn remove(
    exchange: &Exchange,
    caller: &CurrentCaller,
    org: &str,
    id: &str,
    entry: Option<&str>,
) -> Result<Response, ApiError> {
    exchange.authorize(caller, Access::AgbotWrite, FactKind::Agbot, org, Some(id)).await?;
    evenkeel_store::retry("served_policy.delete", || async {
        let mut tx = exchange.begin().await?;
        if served::delete_policies(&mut tx, org, id, entry).await? == 0 {
            return Err(ApiError::not_found(match entry {
                Some(entry) => format!("businessPol '{entry}' of agbot '{org}/{id}' not found"),
                None => format!("no deployment policies of agbot '{org}/{id}' found"),
            }));
        }
        tx.commit(&[agbot_change(org, id, "agbotbusinesspols", "deleted")]).await
    })
    .await?;
    Ok(no_content())
}
