//! Reading services.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::{Access, Account, RowFilter, organization_rows, service_rows};
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::service::{self, ServiceFilter, ServiceRow};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::service::{
    CatalogServicesQuery, RequiredService, ServiceAnswer, ServicesAnswer, ServicesQuery,
};
use evenkeel_wire::exchange::shared::filled;
use evenkeel_wire::exchange::time::wire_time;
use http::StatusCode;

use crate::extract::{CurrentCaller, Path, Query};
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::reference::require_version;
use crate::routes::shape::{attribute_of, found};
use crate::{ApiError, Exchange};

/// Members that clients fill as they like.
const AS_GIVEN: &[&str] = &["imageStore", "matchHardware", "userInput"];

pub(super) async fn list_services(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    Query(query): Query<ServicesQuery>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServicesList, FactKind::Service, &org, None).await?;
    if let Some(version) = &query.version {
        require_version("the query parameter version", version)?;
    }
    let filter = ServiceFilter { org: Some(org), ..filter(query)? };
    list(exchange, filter, service_rows(&caller)).await
}

pub(super) async fn list_catalog_services(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Query(query): Query<ServicesQuery>,
    Query(catalog): Query<CatalogServicesQuery>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServicesList, FactKind::Service, &caller.org, None).await?;
    let filter = ServiceFilter { organization: catalog.organization, ..filter(query)? };
    list(exchange, filter, organization_rows(&caller)).await
}

fn filter(query: ServicesQuery) -> Result<ServiceFilter, ApiError> {
    let (for_devices, for_clusters) = match query.nodetype.as_deref() {
        None => (false, false),
        Some("device") => (true, false),
        Some("cluster") => (false, true),
        Some(other) => {
            return Err(ApiError::invalid_input(format!("nodetype '{other}' is neither device nor cluster")));
        }
    };
    Ok(ServiceFilter {
        org: None,
        organization: None,
        owner: query.owner,
        url: query.url,
        arch: query.arch,
        version: query.version,
        is_public: query.public,
        for_devices,
        for_clusters,
        required_url: query.requiredurl,
    })
}

async fn list(exchange: Exchange, filter: ServiceFilter, rows: RowFilter) -> Result<Response, ApiError> {
    let wanted = Arc::new((filter, rows));
    pages::answer(StatusCode::OK, r#"{"services":{"#, r#"},"lastIndex":0}"#, move |after| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(ServiceFilter, RowFilter)>,
    after: Option<(String, String)>,
) -> Result<Page<(String, String)>, ApiError> {
    let (filter, rows) = &*wanted;
    let mut connection = exchange.database().acquire().await?;
    let rows = service::list(&mut connection, filter, rows, after.as_ref(), LARGE_PAGE_ROWS).await?;
    connection.release();
    Ok(Page::object(rows, LARGE_PAGE_ROWS, |row| (row.org.clone(), row.service.clone()), keyed_answer)?)
}

pub(super) async fn get_service(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    Query(query): Query<AttributeQuery>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceRead, FactKind::Service, &org, Some(&id)).await?;
    let (key, answer) = service::find(&mut *exchange.database().acquire().await?, &org, &id)
        .await?
        .filter(|row| is_seen(&service_rows(&caller), row))
        .map(keyed_answer)
        .ok_or_else(|| absent(&org, &id))?;
    if let Some(name) = &query.attribute
        && let Some(response) = attribute_of(&answer, name, AS_GIVEN)
    {
        return Ok(response);
    }
    Ok(found(ServicesAnswer { services: BTreeMap::from([(key, answer)]), last_index: 0 }))
}

fn is_seen(rows: &RowFilter, row: &ServiceRow) -> bool {
    let owner = Account { org: row.owner_org.clone(), name: row.owner.clone() };
    // Whoever passed access control from elsewhere may read the row.
    rows.org() != row.org || rows.shows(&row.org, &owner, row.is_public)
}

pub(super) fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("service '{org}/{id}' not found"))
}

fn keyed_answer(row: ServiceRow) -> (String, ServiceAnswer) {
    let key = format!("{}/{}", row.org, row.service);
    let answer = ServiceAnswer {
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
    };
    (key, answer)
}
