//! Changing one attribute of an agbot.

use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::agbot::{self, AgbotRow};
use evenkeel_wire::exchange::agbot::PatchAgbot;

use super::approval::withdraw_if_replaced;
use super::put::check_lengths;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::agbot_change;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::reference::check_new_secret;

pub(super) async fn patch_agbot(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PatchAgbot>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    let attribute = first_attribute(&request)?;
    check_lengths([
        ("name", request.name.as_ref()),
        ("msgEndPoint", request.msg_end_point.as_ref()),
        ("publicKey", request.public_key.as_ref()),
    ])?;
    check_new_secret(exchange, "token", request.token.as_deref())?;
    let token_hash = match &request.token {
        Some(token) => Some(exchange.credentials().hasher().hash(token).await?),
        None => None,
    };
    let now = exchange.now();
    op.write(&permission, "agbot.patch", async |mut tx| {
        let mut row = agbot::lock_agbot(&mut tx, org, id)
            .await?
            .ok_or_else(|| ApiError::not_found(format!("agbot '{org}/{id}' not found")))?;
        apply(&mut row, attribute, &request);
        row.seen_at = now;
        let mut changes = vec![agbot_change(org, id, "agbot", "modified")];
        changes.extend(withdraw_if_replaced(&mut tx, caller, &row, token_hash.as_deref()).await?);
        agbot::update_agbot(&mut tx, &row, token_hash.as_deref()).await?;
        if token_hash.is_some() {
            changes.push(forget_login(org, id));
        }
        tx.finish(changes)
    })
    .await?;
    Ok(created(format!("attribute '{attribute}' of agbot '{org}/{id}' updated")))
}

fn first_attribute(request: &PatchAgbot) -> Result<&'static str, ApiError> {
    match request {
        PatchAgbot { token: Some(token), .. } if token.is_empty() => {
            Err(ApiError::invalid_input("the token specified must not be blank"))
        }
        PatchAgbot { token: Some(_), .. } => Ok("token"),
        PatchAgbot { name: Some(_), .. } => Ok("name"),
        PatchAgbot { msg_end_point: Some(_), .. } => Ok("msgEndPoint"),
        PatchAgbot { public_key: Some(_), .. } => Ok("publicKey"),
        _ => Err(ApiError::invalid_input("no valid agbot attribute specified")),
    }
}

fn apply(row: &mut AgbotRow, attribute: &str, request: &PatchAgbot) {
    let (place, value) = match attribute {
        "name" => (&mut row.name, &request.name),
        "msgEndPoint" => (&mut row.msg_end_point, &request.msg_end_point),
        "publicKey" => (&mut row.public_key, &request.public_key),
        _ => return,
    };
    if let Some(value) = value {
        place.clone_from(value);
    }
}
