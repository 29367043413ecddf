//! Status of management policies on a node.
//!
//! Source: exchange-api 4.4.1.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{List, NoContent};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node_part::{self, JsonRow};
use evenkeel_wire::exchange::node_part::{
    ManagementStatus, ManagementStatusResponse, PutManagementStatus, UpgradeStatus,
};
use evenkeel_wire::exchange::time::wire_time;

use super::{json, missing_node};
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{MAX_PART, require_length, require_parts_below};
use crate::{ApiError, Exchange};

/// Maximum number of statuses of one node: an agbot reads all of them when one changes.
const MAX_STATUSES: i64 = 1_000;

const TAG: &str = "node management status";
const ALL: &str = "/orgs/{organization}/nodes/{node}/managementStatus";
const ONE: &str = "/orgs/{organization}/nodes/{node}/managementStatus/{managementpolicy}";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_management_statuses", list_statuses)
            .doc(TAG, "Lists the statuses of management policies on a node")
            .success("the statuses")
            .empty("there is none"),
        get(ONE, "get_management_status", get_status)
            .doc(TAG, "Returns the status of a management policy on a node")
            .success("the status")
            .empty("it is not there"),
        put(ONE, "replace_management_status", replace_status)
            .doc(TAG, "Records the status of a management policy on a node")
            .audit(Subject::NodeManagementStatus)
            .success("recorded"),
        delete(ONE, "delete_management_status", delete_status)
            .doc(TAG, "Removes the status of a management policy on a node")
            .audit(Subject::NodeManagementStatus)
            .success("removed"),
    ]
}

async fn list_statuses(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<List<ManagementStatusResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    read(exchange, org, id, None).await
}

async fn get_status(
    op: Op<PartPath>,
    _: Permission<right::NodeRead>,
) -> Result<List<ManagementStatusResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: policy }, .. } = op;
    read(exchange, org, id, Some(policy)).await
}

async fn read(
    exchange: Exchange,
    org: String,
    id: String,
    policy: Option<String>,
) -> Result<List<ManagementStatusResponse>, ApiError> {
    let wanted = Arc::new((org, id, policy));
    pages::list(r#"{"managementStatus":{"#, r#"},"lastIndex":0}"#, move |after: Option<String>| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, String, Option<String>)>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (org, id, policy) = &*wanted;
    let (one, after) = (policy.as_deref(), after.as_deref());
    let rows = exchange
        .database()
        .read(async |connection| {
            node_part::list_management_statuses(connection, org, id, one, after, PAGE_ROWS).await
        })
        .await?;
    let status = |(policy, status): (String, _)| {
        (format!("{org}/{policy}"), ManagementStatus { agent_upgrade_policy_status: status })
    };
    Ok(Page::object(rows, PAGE_ROWS, |(policy, _)| policy.clone(), status)?)
}

async fn replace_status(
    op: Op<PartPath>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutManagementStatus>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: policy }, .. } = &op;
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
    require_length("agentUpgradePolicyStatus", row.value.get().len(), MAX_PART)?;
    op.write(&permission, "management_status.replace", async |mut tx| {
        let others = node_part::count_other_management_statuses(&mut tx, org, id, policy).await?;
        require_parts_below("statuses of management policies of a node", others, MAX_STATUSES)?;
        node_part::upsert_management_status(&mut tx, org, id, policy, &row).await.map_err(|error| {
            ApiError::from(error)
                .explain("node_management_status_node_fk", || missing_node(org, id))
                .explain("node_management_status_policy_fk", || {
                    ApiError::not_found(format!("management policy '{org}/{policy}' not found"))
                })
        })?;
        tx.finish([node_change(org, id, "nodemgmtpolstatus", "created/modified")])
    })
    .await?;
    Ok(created(format!("management policy '{policy}' status added or updated for node '{org}/{id}'")))
}

async fn delete_status(
    op: Op<PartPath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: PartPath { org, id, part: policy }, .. } = &op;
    op.write(&permission, "management_status.delete", async |mut tx| {
        if !node_part::delete_management_status(&mut tx, org, id, policy).await? {
            return Err(ApiError::not_found(format!(
                "status of management policy '{org}/{policy}' on node '{org}/{id}' not found"
            )));
        }
        tx.finish([node_change(org, id, "nodemgmtpolstatus", "deleted")])
    })
    .await?;
    Ok(NoContent)
}
