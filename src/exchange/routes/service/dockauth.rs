//! Registry credentials of a service.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::service::lock_visibility;
use evenkeel_exchange_store::service_part::{self, DockAuthRow};
use evenkeel_wire::exchange::service::{DockAuthAnswer, PutDockAuth};
use evenkeel_wire::exchange::time::wire_time;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;

use super::change;
use super::get::absent;
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::shape::{found, no_content};
use crate::{ApiError, Exchange};

/// Name to log in with when none is given.
const DEFAULT_USERNAME: &str = "token";

pub(super) async fn list_dockauths(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceSecretsRead, FactKind::Service, &org, Some(&id)).await?;
    let wanted = Arc::new((org, id));
    pages::answer(StatusCode::OK, "[", "]", move |after: Option<i32>| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, String)>,
    after: Option<i32>,
) -> Result<Page<i32>, ApiError> {
    let (org, id) = &*wanted;
    let mut connection = exchange.database().acquire().await?;
    let rows = service_part::list_dockauths(&mut connection, org, id, after, LARGE_PAGE_ROWS).await?;
    connection.release();
    Ok(Page::array(rows, LARGE_PAGE_ROWS, |row| row.id, answer)?)
}

pub(super) async fn get_dockauth(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, number)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceSecretsRead, FactKind::Service, &org, Some(&id)).await?;
    let number = parse_number(&number)?;
    let mut connection = exchange.database().acquire().await?;
    match service_part::find_dockauth(&mut connection, &org, &id, number).await? {
        Some(row) => Ok(found(answer(row))),
        None => Err(ApiError::empty(json!([]))),
    }
}

pub(super) async fn create_dockauth(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PutDockAuth>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceWrite, FactKind::Service, &org, Some(&id)).await?;
    let request = request.read()?;
    let row = row(0, request, exchange.now());
    let added = exchange
        .write("dockauth.create", async |mut tx| {
            let is_public = lock_visibility(&mut tx, &org, &id).await?.ok_or_else(|| absent(&org, &id))?;
            let added = match service_part::touch_dockauth(&mut tx, &org, &id, &row).await? {
                Some(_) => None,
                None => Some(service_part::insert_dockauth(&mut tx, &org, &id, &row).await?),
            };
            tx.finish_with([change(&org, &id, "servicedockauths", "created", is_public)], added)
        })
        .await?;
    Ok(created(match added {
        Some(number) => format!("dockauth {number} added"),
        None => "dockauth resource updated".to_owned(),
    }))
}

pub(super) async fn replace_dockauth(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, number)): Path<(String, String, String)>,
    request: Body<PutDockAuth>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceWrite, FactKind::Service, &org, Some(&id)).await?;
    let request = request.read()?;
    let row = row(parse_number(&number)?, request, exchange.now());
    exchange
        .write("dockauth.replace", async |mut tx| {
            let is_public = lock_visibility(&mut tx, &org, &id).await?.ok_or_else(|| absent(&org, &id))?;
            if !service_part::update_dockauth(&mut tx, &org, &id, &row).await? {
                return Err(absent_dockauth(&number, &org, &id));
            }
            tx.finish([change(&org, &id, "servicedockauths", "created/modified", is_public)])
        })
        .await?;
    Ok(created(format!("dockauth {number} updated")))
}

pub(super) async fn delete_dockauths(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceWrite, FactKind::Service, &org, Some(&id)).await?;
    delete(&exchange, &org, &id, None).await
}

pub(super) async fn delete_dockauth(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, number)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::ServiceWrite, FactKind::Service, &org, Some(&id)).await?;
    delete(&exchange, &org, &id, Some(parse_number(&number)?)).await
}

async fn delete(exchange: &Exchange, org: &str, id: &str, number: Option<i32>) -> Result<Response, ApiError> {
    exchange
        .write("dockauth.delete", async |mut tx| {
            let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
            if service_part::delete_dockauths(&mut tx, org, id, number).await? == 0 {
                let which = number.map_or_else(|| "any".to_owned(), |number| number.to_string());
                return Err(absent_dockauth(&which, org, id));
            }
            tx.finish([change(org, id, "servicedockauths", "deleted", is_public)])
        })
        .await?;
    Ok(no_content())
}

fn parse_number(text: &str) -> Result<i32, ApiError> {
    text.parse().map_err(|_| ApiError::invalid_input(format!("'{text}' is not the number of a dockauth")))
}

fn absent_dockauth(number: &str, org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("dockauth '{number}' of service '{org}/{id}' not found"))
}

fn row(id: i32, request: PutDockAuth, now: Timestamp) -> DockAuthRow {
    DockAuthRow {
        id,
        registry: request.registry,
        username: request.username.unwrap_or_else(|| DEFAULT_USERNAME.to_owned()),
        token: request.token,
        updated_at: now,
    }
}

fn answer(row: DockAuthRow) -> DockAuthAnswer {
    DockAuthAnswer {
        dock_auth_id: row.id,
        registry: row.registry,
        username: row.username,
        token: row.token,
        last_updated: wire_time(row.updated_at),
    }
}
