//! Where management policies stand on a node.
//!
//! Source: exchange contract 4.4.1.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, put};
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node_part::{self, JsonRow};
use evenkeel_wire::exchange::node_part::{
    ManagementStatus, ManagementStatusAnswer, PutManagementStatus, UpgradeStatus,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{Method, StatusCode};

use super::{json, missing_node, node_change};
use crate::endpoint::{Content, Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::no_content;
use crate::{ApiError, Exchange};

const TAG: &str = "node management status";
const ALL: &str = "/orgs/{organization}/nodes/{node}/managementStatus";
const ONE: &str = "/orgs/{organization}/nodes/{node}/managementStatus/{managementpolicy}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, ALL, "list_management_statuses", get(list_statuses))
            .doc(TAG, "Lists where management policies stand on a node")
            .answer::<ManagementStatusAnswer>(200, "the statuses")
            .answer::<ManagementStatusAnswer>(404, "there is none"),
        endpoint(Method::GET, ONE, "get_management_status", get(get_status))
            .doc(TAG, "Answers where a management policy stands on a node")
            .answer::<ManagementStatusAnswer>(200, "the status")
            .answer::<ManagementStatusAnswer>(404, "it is not there"),
        endpoint(Method::PUT, ONE, "replace_management_status", put(replace_status))
            .doc(TAG, "Records where a management policy stands on a node")
            .body::<PutManagementStatus>()
            .answer::<ApiResponse>(201, "recorded"),
        endpoint(Method::DELETE, ONE, "delete_management_status", delete(delete_status))
            .doc(TAG, "Removes the status of a management policy on a node")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn list_statuses(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    read(exchange, caller, org, id, None).await
}

async fn get_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, policy)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    read(exchange, caller, org, id, Some(policy)).await
}

async fn read(
    exchange: Exchange,
    caller: CurrentCaller,
    org: String,
    id: String,
    policy: Option<String>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeRead, FactKind::Node, &org, Some(&id)).await?;
    let wanted = Arc::new((org, id, policy));
    pages::answer(
        StatusCode::OK,
        r#"{"managementStatus":{"#,
        r#"},"lastIndex":0}"#,
        move |after: Option<String>| page(exchange.clone(), wanted.clone(), after),
    )
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, String, Option<String>)>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (org, id, policy) = &*wanted;
    let mut connection = exchange.database().acquire().await?;
    let (one, after) = (policy.as_deref(), after.as_deref());
    let rows = node_part::list_management_statuses(&mut connection, org, id, one, after, PAGE_ROWS).await?;
    connection.release();
    let status = |(policy, status): (String, _)| {
        (format!("{org}/{policy}"), ManagementStatus { agent_upgrade_policy_status: status })
    };
    Ok(Page::object(rows, PAGE_ROWS, |(policy, _)| policy.clone(), status)?)
}

async fn replace_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, policy)): Path<(String, String, String)>,
    request: Body<PutManagementStatus>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    let request = request.read()?;
    let now = exchange.now();
    let given = request.agent_upgrade_policy_status;
    let status = UpgradeStatus {
        scheduled_time: given.scheduled_time,
        start_time: given.start_time.unwrap_or_default(),
        end_time: given.end_time.unwrap_or_default(),
        upgraded_versions: given.upgraded_versions.unwrap_or_default(),
        status: given.status.unwrap_or_default(),
        error_message: given.error_message.unwrap_or_default(),
        last_updated: wire_time(now),
    };
    let row = JsonRow { value: json(&status)?, updated_at: now };
    exchange
        .write("management_status.replace", async |mut tx| {
            node_part::upsert_management_status(&mut tx, &org, &id, &policy, &row).await.map_err(
                |error| {
                    ApiError::from(error)
                        .explain("node_management_status_node_fk", || missing_node(&org, &id))
                        .explain("node_management_status_policy_fk", || {
                            ApiError::not_found(format!("management policy '{org}/{policy}' not found"))
                        })
                },
            )?;
            tx.finish([node_change(&org, &id, "nodemgmtpolstatus", "created/modified")])
        })
        .await?;
    Ok(created(format!("management policy '{policy}' status added or updated for node '{org}/{id}'")))
}

async fn delete_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id, policy)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    exchange
        .write("management_status.delete", async |mut tx| {
            if !node_part::delete_management_status(&mut tx, &org, &id, &policy).await? {
                return Err(ApiError::not_found(format!(
                    "status of management policy '{org}/{policy}' on node '{org}/{id}' not found"
                )));
            }
            tx.finish([node_change(&org, &id, "nodemgmtpolstatus", "deleted")])
        })
        .await?;
    Ok(no_content())
}
