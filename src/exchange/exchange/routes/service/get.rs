//! Reading services.
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Permission, RowFilter, organization_rows, right, service_rows};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_exchange_store::service::{self, ServiceFilter, ServiceRow};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::service::{RequiredService, ServiceResponse, ServicesQuery, ServicesResponse};
use evenkeel_wire::exchange::shared::{CatalogQuery, filled};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::AttributeResponse;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::node::get::node_type;
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::reference::require_version;
use crate::routes::shape::{attribute_of, pattern_or_exact, show_absent_lists};
use crate::{ApiError, Exchange};

/// Members that clients fill as they like.
const AS_GIVEN: &[&str] = &["imageStore", "matchHardware", "userInput"];

pub(super) async fn list_services(
    op: Op<OrgPath, (Query<ServicesQuery>, Paging)>,
    _: Permission<right::ServicesList>,
) -> Result<List<ServicesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    if let Some(version) = &query.version {
        require_version("the query parameter version", version)?;
    }
    if let Some(text) = &query.nodetype {
        node_type(text)?;
    }
    let filter = ServiceFilter { org: Some(org), ..filter(query) };
    list(exchange, (filter, service_rows(&caller)), paging).await
}

/// The selection of services of all organizations.
type CatalogParameters = (Query<ServicesQuery>, Query<CatalogQuery>);

pub(super) async fn list_catalog_services(
    op: Op<(), (CatalogParameters, Paging)>,
    _: Permission<right::ServicesList>,
) -> Result<List<ServicesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        parameters: ((Query(query), Query(catalog)), paging),
        ..
    } = op;
    let filter = ServiceFilter { organization: catalog.organization.map(pattern_or_exact), ..filter(query) };
    list(exchange, (filter, organization_rows(&caller)), paging).await
}

fn filter(query: ServicesQuery) -> ServiceFilter {
    let node_type = query.nodetype.as_deref();
    ServiceFilter {
        org: None,
        organization: None,
        owner: query.owner.map(pattern_or_exact),
        url: query.url.map(pattern_or_exact),
        arch: query.arch.map(pattern_or_exact),
        version: query.version.map(pattern_or_exact),
        is_public: query.public,
        // Other words restrict nothing: where they are wrong was checked before.
        for_devices: node_type == Some("device"),
        for_clusters: node_type == Some("cluster"),
        required_url: query.requiredurl,
    }
}

async fn list(
    exchange: Exchange,
    wanted: (ServiceFilter, RowFilter),
    paging: Paging,
) -> Result<List<ServicesResponse>, ApiError> {
    let shape = pages::object(r#"{"services":{"#, LARGE_PAGE_ROWS);
    let org = wanted.0.org.clone();
    let wanted = Arc::new(wanted);
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, org.as_deref()), paging, load, |most| count(counted, most)).await
}

async fn count(
    (exchange, wanted): (Exchange, Arc<(ServiceFilter, RowFilter)>),
    most: i64,
) -> Result<i64, ApiError> {
    let (filter, rows) = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| service::count(connection, filter, rows, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(ServiceFilter, RowFilter)>,
    after: Option<ResourceKey>,
    limit: i64,
) -> Result<Page<ResourceKey>, ApiError> {
    let (filter, rows) = &*wanted;
    let found = exchange
        .database()
        .read(async |connection| service::list(connection, filter, rows, after.as_ref(), limit).await)
        .await?;
    let key = |row: &ServiceRow| ResourceKey { org: row.org.clone(), id: row.service.clone() };
    Ok(Page::object(found, limit, key, keyed_response)?)
}

pub(super) async fn get_service(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    _: Permission<right::ServiceRead>,
) -> Result<Either<Json<ServicesResponse>, Json<AttributeResponse>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = op;
    let row = exchange
        .database()
        .read(async |connection| service::find(connection, &org, &id).await)
        .await?
        .filter(|row| is_seen(&service_rows(&caller), row))
        .ok_or_else(|| absent(&org, &id))?;
    if let Some(name) = &query.attribute
        && let Some(response) = attribute_of(&stored_response(row.clone()), name, AS_GIVEN)
    {
        return Ok(Either::Second(response));
    }
    let (key, response) = keyed_response(row);
    Ok(Either::First(Json(ServicesResponse {
        services: BTreeMap::from([(key, response)]),
        ..Default::default()
    })))
}

fn is_seen(rows: &RowFilter, row: &ServiceRow) -> bool {
    let owner = UserId::new(&row.owner_org, &row.owner);
    // Callers from elsewhere that passed access control may read the row.
    rows.org() != row.org || rows.shows(&row.org, &owner, row.is_public)
}

pub(super) fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("service '{org}/{id}' not found"))
}

fn keyed_response(row: ServiceRow) -> (String, ServiceResponse) {
    let key = format!("{}/{}", row.org, row.service);
    let mut response = stored_response(row);
    response.required_services = required_services(response.required_services);
    show_absent_lists([&mut response.required_services, &mut response.user_input]);
    for object in [&mut response.match_hardware, &mut response.image_store] {
        if object.is_null() {
            *object = Value::Object(Map::new());
        }
    }
    (key, response)
}

/// The required services with both names of the range: the older one fills in for the newer one.
fn required_services(stored: Value) -> Value {
    let Ok(mut required) = Vec::<RequiredService>::deserialize(&stored) else { return stored };
    for required in &mut required {
        required.version_range = required.version_range.take().or_else(|| required.version.clone());
    }
    json!(required)
}

/// The service with what was never given as `null`.
fn stored_response(row: ServiceRow) -> ServiceResponse {
    ServiceResponse {
        arch: row.arch,
        cluster_deployment: row.cluster_deployment,
        cluster_deployment_signature: row.cluster_deployment_signature,
        deployment: row.deployment,
        deployment_signature: row.deployment_signature,
        description: row.description,
        documentation: row.documentation,
        image_store: row.image_store,
        label: row.label,
        last_updated: wire_time(row.updated_at),
        match_hardware: row.match_hardware,
        organization: row.org,
        owner: format!("{}/{}", row.owner_org, row.owner),
        public: row.is_public,
        required_services: filled::<Vec<RequiredService>>(row.required_services),
        sharable: row.sharable,
        url: row.url,
        user_input: row.user_input,
        version: row.version,
    }
}
