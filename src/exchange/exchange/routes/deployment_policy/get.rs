//! Reading deployment policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::deployment_policy::{self, DeploymentPolicyFilter, DeploymentPolicyRow};
use evenkeel_wire::exchange::deployment_policy::{
    DeployedService, DeploymentPoliciesQuery, DeploymentPoliciesResponse, DeploymentPolicyResponse,
};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::shared::{OneProperty, OneSecretBinding, filled};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user_input::UserInputService;

use super::absent;
use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::shape::{OneOrAttribute, attribute_of, pattern_or_exact, show_absent_lists};
use crate::{ApiError, Exchange};

pub(super) async fn list_deployment_policies(
    op: Op<OrgPath, (Query<DeploymentPoliciesQuery>, Paging)>,
    _: Permission<right::DeploymentPolicyRead>,
) -> Result<List<DeploymentPoliciesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let filter = DeploymentPolicyFilter {
        id: query.idfilter.map(pattern_or_exact),
        owner: query.owner.map(pattern_or_exact),
        label: query.label.map(pattern_or_exact),
        description: query.description.map(pattern_or_exact),
    };
    let shape = pages::object(r#"{"businessPolicy":{"#, LARGE_PAGE_ROWS);
    let wanted = Arc::new((org.clone(), filter));
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, Some(&org)), paging, load, |most| count(counted, most)).await
}

async fn count(
    (exchange, wanted): (Exchange, Arc<(String, DeploymentPolicyFilter)>),
    most: i64,
) -> Result<i64, ApiError> {
    let (org, filter) = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| deployment_policy::count(connection, org, filter, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, DeploymentPolicyFilter)>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let (org, filter) = &*wanted;
    let found = exchange
        .database()
        .read(async |connection| {
            deployment_policy::list(connection, org, filter, after.as_deref(), rows).await
        })
        .await?;
    Ok(Page::object(found, rows, |row| row.policy.clone(), keyed_response)?)
}

pub(super) async fn get_deployment_policy(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    _: Permission<right::DeploymentPolicyRead>,
) -> Result<OneOrAttribute<DeploymentPoliciesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = op;
    let row = exchange
        .database()
        .read(async |connection| deployment_policy::find(connection, &org, &id).await)
        .await?;
    let Some(row) = row else {
        let business_policy = BTreeMap::new();
        return match query.attribute {
            Some(_) => Err(absent(&org, &id)),
            None => Ok(Either::First(List::of(
                true,
                DeploymentPoliciesResponse { business_policy, ..Default::default() },
            ))),
        };
    };
    if let Some(name) = &query.attribute
        && let Some(response) = attribute_of(&stored_response(row.clone()), name, &[])
    {
        return Ok(Either::Second(response));
    }
    let (key, response) = keyed_response(row);
    let business_policy = BTreeMap::from([(key, response)]);
    Ok(Either::First(List::of(false, DeploymentPoliciesResponse { business_policy, ..Default::default() })))
}

fn keyed_response(row: DeploymentPolicyRow) -> (String, DeploymentPolicyResponse) {
    let key = format!("{}/{}", row.org, row.policy);
    let mut response = stored_response(row);
    show_absent_lists([
        &mut response.constraints,
        &mut response.properties,
        &mut response.secret_binding,
        &mut response.user_input,
    ]);
    (key, response)
}

/// The policy with what was never given as `null`.
fn stored_response(row: DeploymentPolicyRow) -> DeploymentPolicyResponse {
    DeploymentPolicyResponse {
        constraints: row.constraints,
        created: wire_time(row.created_at),
        description: row.description,
        label: row.label,
        last_updated: wire_time(row.updated_at),
        orchestration: row.orchestration,
        owner: format!("{}/{}", row.owner_org, row.owner),
        properties: filled::<Vec<OneProperty>>(row.properties),
        secret_binding: filled::<Vec<OneSecretBinding>>(row.secret_binding),
        service: filled::<DeployedService>(row.service),
        user_input: filled::<Vec<UserInputService>>(row.user_input),
    }
}
