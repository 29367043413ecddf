//! Suspending and resuming registered services of a node.
//!
//! Source: exchange-api 4.4.

use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node::RegisteredService;
use evenkeel_wire::exchange::node_part::PostConfigState;

use super::json;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/nodes/{node}/services_configstate",
            "change_service_config_state",
            change_config_state,
        )
        .doc(super::TAG, "Suspends or resumes registered services of a node")
        .audit(Subject::Node)
        .success("changed, or nothing to change"),
    ]
}

async fn change_config_state(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PostConfigState>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    check(&request)?;
    let now = exchange.now();
    let has_changed = op
        .write(&permission, "node.change_config_state", async |mut tx| {
            let mut row = node::lock_node(&mut tx, org, id)
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
            tx.finish_with([node_change(org, id, "services_configstate", "created")], has_changed)
        })
        .await?;
    if has_changed {
        exchange.heartbeats().touch_node(org, id, now).await?;
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
