//! Actions of the root user.

use axum::Json;
use evenkeel_access::{Permission, ROOT_NAME, ROOT_ORG, right};
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::{account, organization, seed};
use evenkeel_wire::exchange::administration::{ConfigurationChange, EmptyToken};

use crate::error::{Created, created};
use crate::extract::Body;
use crate::notice::{forget_login, reload_everywhere, set_everywhere};
use crate::operation::Op;
use crate::{ApiError, configuration};

/// Writes a row that every running exchange obeys, including this one, before the response.
async fn record_for_all(
    op: &Op,
    permission: &Permission<right::AdminAction>,
    row: Change,
) -> Result<(), ApiError> {
    op.write(permission, "administration.notify_all", async |tx| tx.finish([row.clone()])).await
}

pub async fn set_configuration(
    op: Op,
    permission: Permission<right::AdminAction>,
    Body(request): Body<ConfigurationChange>,
) -> Result<Created, ApiError> {
    let mut settings = (*op.exchange.settings()).clone();
    configuration::set(&mut settings, &request.var_path, &request.value)?;
    record_for_all(&op, &permission, set_everywhere(&request.var_path, request.value.trim())).await?;
    Ok(created("Config value set successfully"))
}

pub async fn reload_configuration(
    op: Op,
    permission: Permission<right::AdminAction>,
) -> Result<Created, ApiError> {
    record_for_all(&op, &permission, reload_everywhere()).await?;
    Ok(created("Reload successful"))
}

pub async fn clear_caches(op: Op, permission: Permission<right::AdminAction>) -> Result<Created, ApiError> {
    record_for_all(&op, &permission, forget_login("*", "*")).await?;
    Ok(created("cache cleared"))
}

pub async fn get_drop_token(_: Op, _: Permission<right::AdminAction>) -> Result<Json<EmptyToken>, ApiError> {
    Ok(Json(EmptyToken { token: String::new() }))
}

/// Empties the exchange, but for the root user, who could not ask for the first rows otherwise.
pub async fn drop_database(op: Op, permission: Permission<right::AdminAction>) -> Result<Created, ApiError> {
    op.write(&permission, "administration.drop_database", async |mut tx| {
        let root_org = organization::lock_organization(&mut tx, ROOT_ORG).await?;
        let root = account::lock_account(&mut tx, ROOT_ORG, ROOT_NAME).await?;
        let dropped = seed::delete_everything(&mut tx).await?;
        if let (Some(root_org), Some(root)) = (root_org, root) {
            organization::insert_organization(&mut tx, &root_org).await?;
            account::insert_account(&mut tx, &root).await?;
        }
        let mut changes: Vec<Change> =
            dropped.iter().filter(|org| *org != ROOT_ORG).map(|org| gone(org)).collect();
        changes.push(forget_login("*", "*"));
        tx.finish(changes)
    })
    .await?;
    Ok(created("db deleted successfully"))
}

fn gone(org: &str) -> Change {
    Change {
        org: org.to_owned(),
        id: org.to_owned(),
        category: "org",
        resource: "org",
        operation: "deleted",
        is_public: false,
    }
}

pub async fn init_database(op: Op, _: Permission<right::AdminAction>) -> Result<Created, ApiError> {
    op.exchange.seed().await?;
    Ok(created("db initialized successfully"))
}
