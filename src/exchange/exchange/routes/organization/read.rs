//! Reads of organizations.
use std::sync::Arc;

use evenkeel_access::{Caller, MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::organization::{self, Filter, Organization};
use evenkeel_wire::exchange::node::{AttributeQuery, HeartbeatIntervals};
use evenkeel_wire::exchange::organization::{
    CloudAccount, OrganizationLimits, OrganizationsQuery, OrganizationsResponse,
};
use evenkeel_wire::exchange::time::wire_time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{part, response, responses};
use crate::extract::{ListBody, Query};
use crate::operation::{ExchangeRequest, Op, OrgPath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{OneOrAttribute, attribute, pattern_or_exact};
use crate::{ApiError, Exchange};

const ATTRIBUTES: [&str; 7] =
    ["orgType", "label", "description", "lastUpdated", "tags", "limits", "heartbeatIntervals"];

pub async fn list_organizations(
    op: Op<(), (Query<OrganizationsQuery>, Paging)>,
    _: Permission<right::OrgRead>,
) -> Result<List<OrganizationsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, parameters: (Query(query), paging), .. } = op;
    if query.orgtype.as_deref().is_some_and(|wanted| wanted != MULTI_TENANT_ORG) {
        return Err(ApiError::invalid_input("orgtype: only the type IBM can be requested"));
    }
    let filter = Arc::new(Filter {
        only: visible_organizations(&caller),
        org_type: query.orgtype,
        org: query.organization.map(pattern_or_exact),
        label: query.label.map(pattern_or_exact),
        description: query.description.map(pattern_or_exact),
    });
    let shape = pages::object(r#"{"orgs":{"#, PAGE_ROWS);
    let counted = (exchange.clone(), filter.clone());
    let load = move |after, rows| page(exchange.clone(), filter.clone(), after, rows);
    pages::list_or_page((shape, None), paging, load, |most| count(counted, most)).await
}

async fn count((exchange, filter): (Exchange, Arc<Filter>), most: i64) -> Result<i64, ApiError> {
    let count = exchange
        .database()
        .read(async |connection| organization::count_organizations(connection, &filter, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    filter: Arc<Filter>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let found = exchange
        .database()
        .read(async |connection| {
            organization::list_organizations(connection, &filter, after.as_deref(), rows).await
        })
        .await?;
    shaped(found, rows)
}

fn shaped(found: Vec<Organization>, rows: i64) -> Result<Page<String>, ApiError> {
    Ok(Page::object(found, rows, |last| last.org.clone(), response)?)
}

/// Organizations that a list may show; none: all.
///
/// # Source
/// Exchange-api 3.4.
fn visible_organizations(caller: &Caller) -> Option<Vec<String>> {
    match caller.role {
        Role::Root | Role::HubAdmin => None,
        Role::OrgAdmin | Role::User | Role::Viewer | Role::Deployer => {
            Some(vec![caller.org.clone(), MULTI_TENANT_ORG.to_owned()])
        }
        Role::Node | Role::Agbot | Role::UnapprovedAgbot => Some(vec![caller.org.clone()]),
    }
}

pub async fn get_organization(
    op: Op<OrgPath, Query<AttributeQuery>>,
    _: Permission<right::OrgRead>,
) -> Result<OneOrAttribute<OrganizationsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, parameters: Query(query) } =
        op;
    if let Some(name) = query.attribute.as_deref().filter(|name| !ATTRIBUTES.contains(name)) {
        return Err(ApiError::invalid_input(format!("'{name}' is not an attribute of an organization")));
    }
    let found = exchange
        .database()
        .read(async |connection| organization::find_organization(connection, &org).await)
        .await?;
    match (query.attribute, found) {
        (Some(_), None) => Err(ApiError::not_found(format!("organization '{org}' not found"))),
        (Some(name), Some(found)) => Ok(Either::Second(attribute(&name, &attribute_value(&name, found)))),
        (None, found) => {
            let found = responses(found.into_iter().collect());
            Ok(Either::First(List::of(found.orgs.is_empty(), found)))
        }
    }
}

/// The value of one attribute; what was never set is the empty text, except tags.
fn attribute_value(name: &str, organization: Organization) -> Value {
    match name {
        "orgType" => json!(organization.org_type),
        "label" => json!(organization.label),
        "description" => json!(organization.description),
        "lastUpdated" => json!(wire_time(organization.updated_at)),
        "tags" => organization.tags.unwrap_or_else(|| Value::Object(Map::new())),
        "limits" => retyped::<OrganizationLimits>(organization.limits),
        _ => retyped::<HeartbeatIntervals>(organization.heartbeat_intervals),
    }
}

/// The stored part with its members in the order of the contract.
fn retyped<T: DeserializeOwned + Serialize + Default>(stored: Option<Value>) -> Value {
    match stored {
        Some(stored) => serde_json::to_value(part::<T>(Some(stored))).unwrap_or_default(),
        None => Value::Null,
    }
}

pub async fn list_my_organizations(
    op: Op,
    _: Permission<right::MyOrgs>,
    ListBody(accounts): ListBody<CloudAccount>,
) -> Result<List<OrganizationsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, .. } = op;
    let ids: Arc<Vec<String>> = Arc::new(accounts.into_iter().map(|account| account.id).collect());
    pages::list(r#"{"orgs":{"#, r#"},"lastIndex":0}"#, move |after: Option<String>| {
        page_of_accounts(exchange.clone(), ids.clone(), after)
    })
    .await
}

async fn page_of_accounts(
    exchange: Exchange,
    ids: Arc<Vec<String>>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let found = exchange
        .database()
        .read(async |connection| {
            organization::list_organizations_of_accounts(connection, &ids, after.as_deref(), PAGE_ROWS).await
        })
        .await?;
    shaped(found, PAGE_ROWS)
}
