//! The patterns that an agbot serves.
//!
//! Source: exchange contract 4.5.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, post};
use evenkeel_access::Access;
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::served::{self, ServedFilter, ServedRow};
use evenkeel_wire::exchange::agbot::{
    PostServedPattern, ServedPattern, ServedPatternsAnswer, ServedPatternsQuery,
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

const TAG: &str = "agbot pattern";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/patterns";
const ALL_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/patterns";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/patterns/{entry}";
const ONE_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/patterns/{entry}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, ALL, "list_served_patterns", get(list_patterns))
            .alias(ALL_ALIAS)
            .doc(TAG, "Lists the patterns that an agbot serves")
            .query::<ServedPatternsQuery>()
            .answer::<ServedPatternsAnswer>(200, "the patterns")
            .answer::<ServedPatternsAnswer>(404, "there is none"),
        endpoint(Method::POST, ALL, "create_served_pattern", post(create_pattern))
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve a pattern")
            .body::<PostServedPattern>()
            .answer::<ApiResponse>(201, "added")
            .answer::<ApiResponse>(409, "it is served already"),
        endpoint(Method::DELETE, ALL, "delete_served_patterns", delete(delete_patterns))
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve no patterns")
            .answer_with(204, "removed", Content::None),
        endpoint(Method::GET, ONE, "get_served_pattern", get(get_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Answers one of the patterns that an agbot serves")
            .answer::<ServedPatternsAnswer>(200, "the entry")
            .answer::<ServedPatternsAnswer>(404, "it is not there"),
        endpoint(Method::DELETE, ONE, "delete_served_pattern", delete(delete_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Makes an agbot no longer serve one of the patterns")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn list_patterns(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    Query(query): Query<ServedPatternsQuery>,
) -> Result<Response, ApiError> {
    let filter = ServedFilter {
        entry: None,
        subject: query.deployment_pattern,
        subject_org: query.deployment_pattern_organization,
        node_org: query.node_organization,
    };
    read(exchange, caller, org, id, filter).await
}

async fn get_pattern(
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
    pages::answer(StatusCode::OK, r#"{"patterns":{"#, "}}", move |after: Option<String>| {
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
    let rows = served::list_patterns(&mut connection, org, id, filter, after.as_deref(), PAGE_ROWS).await?;
    drop(connection);
    Ok(Page::object(rows, PAGE_ROWS, |row| row.entry.clone(), |row| (row.entry.clone(), shape(row)))?)
}

fn shape(row: ServedRow) -> ServedPattern {
    ServedPattern {
        last_updated: wire_time(row.updated_at),
        node_orgid: row.node_org,
        pattern: row.subject,
        pattern_orgid: row.subject_org,
    }
}

async fn create_pattern(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PostServedPattern>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::AgbotWrite, FactKind::Agbot, &org, Some(&id)).await?;
    let request = request.read()?;
    require_addable(&caller, &org)?;
    let node_org = request.node_orgid.unwrap_or_else(|| request.pattern_orgid.clone());
    let row = ServedRow {
        entry: format!("{}_{}_{node_org}", request.pattern_orgid, request.pattern),
        subject_org: request.pattern_orgid,
        subject: request.pattern,
        node_org,
        updated_at: exchange.now(),
    };
    evenkeel_store::retry("served_pattern.create", || async {
        let mut tx = exchange.begin().await?;
        served::insert_pattern(&mut tx, &org, &id, &row).await.map_err(|error| {
            ApiError::from(error)
                .explain("agbot_pattern_org_agbot_entry_key", || {
                    ApiError::conflict(format!(
                        "pattern '{}' of agbot '{org}/{id}' already exists",
                        row.entry
                    ))
                })
                .explain("agbot_pattern_agbot_fk", || {
                    ApiError::access_denied(format!(
                        "pattern '{}' not inserted: agbot '{org}/{id}' not found",
                        row.entry
                    ))
                })
        })?;
        tx.commit(&[agbot_change(&org, &id, "agbotpatterns", "created")]).await
    })
    .await?;
    Ok(created(format!("pattern {} added", row.entry)))
}

async fn delete_patterns(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    remove(&exchange, &caller, &org, &id, None).await
}

async fn delete_pattern(
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
    evenkeel_store::retry("served_pattern.delete", || async {
        let mut tx = exchange.begin().await?;
        if served::delete_patterns(&mut tx, org, id, entry).await? == 0 {
            return Err(ApiError::not_found(match entry {
                Some(entry) => format!("pattern '{entry}' of agbot '{org}/{id}' not found"),
                None => format!("no patterns of agbot '{org}/{id}' found"),
            }));
        }
        tx.commit(&[agbot_change(org, id, "agbotpatterns", "deleted")]).await
    })
    .await?;
    Ok(no_content())
}
