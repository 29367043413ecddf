//! Removing an agbot.

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::Access;
use evenkeel_exchange_store::agbot;
use evenkeel_exchange_store::facts::FactKind;

use super::agbot_change;
use crate::extract::{CurrentCaller, Path};
use crate::notice::forget_login;
use crate::routes::shape::no_content;
use crate::{ApiError, Exchange};

/// Removes an agbot; agreements, served patterns and policies, search sessions and messages both ways go with it.
pub(super) async fn delete_agbot(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::AgbotWrite, FactKind::Agbot, &org, Some(&id)).await?;
    exchange
        .write("agbot.delete", async |mut tx| {
            if !agbot::delete_agbot(&mut tx, &org, &id).await? {
                return Err(ApiError::not_found(format!("agbot '{org}/{id}' not found")));
            }
            tx.finish([agbot_change(&org, &id, "agbot", "deleted"), forget_login(&org, &id)])
        })
        .await?;
    Ok(no_content())
}
