//! Removing a node.

use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::node;

use super::node_change;
use crate::ApiError;
use crate::notice::forget_login;
use crate::operation::{Op, ResourcePath};

/// Removes a node; agreements, messages, policy, status and group membership go with it.
pub(super) async fn delete_node(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "node.delete", async |mut tx| {
        if !node::delete_node(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("node '{org}/{id}' not found")));
        }
        tx.finish([node_change(org, id, "node", "deleted"), forget_login(org, id)])
    })
    .await?;
    Ok(NoContent)
}
