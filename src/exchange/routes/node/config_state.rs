//! Suspending and resuming registered services of a node.
//!
//! Source: exchange contract 4.4.

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node::RegisteredService;
use evenkeel_wire::exchange::node_part::PostConfigState;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::{json, node_change};
use crate::endpoint::{Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::{ApiError, Exchange};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(
            Method::POST,
            "/orgs/{organization}/nodes/{node}/services_configstate",
            "change_service_config_state",
            post(change_config_state),
        )
        .doc(super::TAG, "Suspends or resumes registered services of a node")
        .body::<PostConfigState>()
        .answer::<ApiResponse>(201, "changed, or nothing to change"),
    ]
}

async fn change_config_state(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PostConfigState>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    let request = request.read()?;
    check(&request)?;
    let now = exchange.now();
    let has_changed = exchange
        .write("node.change_config_state", async |mut tx| {
            let mut row = node::lock_node(&mut tx, &org, &id)
                .await?
                .ok_or_else(|| ApiError::invalid_input(format!("node '{org}/{id}' not found")))?;
            let mut services: Vec<RegisteredService> = serde_json::from_str(row.registered_services.get())
                .map_err(|error| ApiError::internal(format!("registered services of {org}/{id}: {error}")))?;
            let has_changed = apply(&request, &mut services)?;
            if has_changed {
                row.registered_services = json(&services)?;
                row.updated_at = now;
                node::update_node(&mut tx, &row, None).await?;
            }
            tx.finish_with([node_change(&org, &id, "services_configstate", "created")], has_changed)
        })
        .await?;
    if has_changed {
        exchange.heartbeats().touch_node(&org, &id, now).await?;
    }
    Ok(created(format!("registeredServices of node '{org}/{id}' updated")))
}

fn check(request: &PostConfigState) -> Result<(), ApiError> {
    let has_version = request.version.as_deref().is_some_and(|version| !version.is_empty());
    if request.config_state != "suspended" && request.config_state != "active" {
        return Err(ApiError::invalid_input("configState must be 'suspended' or 'active'"));
    }
    if request.org.is_empty() && (!request.url.is_empty() || has_version) {
        return Err(ApiError::invalid_input("org must be given together with url or version"));
    }
    if request.url.is_empty() && has_version {
        return Err(ApiError::invalid_input("url must be given together with version"));
    }
    Ok(())
}

/// Sets the state of the services that are meant; true when one of them had another state.
fn apply(request: &PostConfigState, services: &mut [RegisteredService]) -> Result<bool, ApiError> {
    let wanted = request.version.as_deref().unwrap_or_default();
    let (mut is_meant, mut has_changed) = (false, false);
    for service in services {
        let Some((org, url)) = service.url.split_once('/') else { continue };
        if !(request.org.is_empty() || request.org == org) || !(request.url.is_empty() || request.url == url)
        {
            continue;
        }
        is_meant = true;
        if (wanted.is_empty() || wanted == service.version) && service.config_state != request.config_state {
            service.config_state.clone_from(&request.config_state);
            has_changed = true;
        }
    }
    if !is_meant {
        return Err(ApiError::not_found(
            "did not find any registeredServices that matched the given org and url criteria",
        ));
    }
    Ok(has_changed)
}
