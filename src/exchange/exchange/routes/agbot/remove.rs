//! Removing an agbot.

use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::agbot;

use crate::ApiError;
use crate::feed::row::agbot_change;
use crate::notice::forget_login;
use crate::operation::{Op, ResourcePath};

/// Removes an agbot; agreements, served patterns and policies, search sessions and messages both ways go with it.
pub(super) async fn delete_agbot(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "agbot.delete", async |mut tx| {
        if !agbot::delete_agbot(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("agbot '{org}/{id}' not found")));
        }
        tx.finish([agbot_change(org, id, "agbot", "deleted"), forget_login(org, id)])
    })
    .await?;
    Ok(NoContent)
}
