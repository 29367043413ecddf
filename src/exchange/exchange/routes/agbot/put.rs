//! Creating an agbot or replacing its attributes.

use evenkeel_access::{LoginKind, Permission, is_reserved_name, right};
use evenkeel_exchange_store::agbot::{self, AgbotRow};
use evenkeel_exchange_store::agbot_approval;
use evenkeel_exchange_store::identity::{IdentityKind, find_identity, lock_name};
use evenkeel_exchange_store::node_limit::{count_agbots, lock_owner};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::agbot::PutAgbot;

use super::approval::withdraw_if_replaced;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::agbot_change;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::reference::{check_new_name, check_new_secret};
use crate::routes::shape::{MAX_PART, MAX_TEXT, require_length};
use crate::transaction::WriteTx;
use crate::{ApiError, Exchange};

pub(super) async fn replace_agbot(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PutAgbot>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    if request.token.is_empty() {
        return Err(ApiError::invalid_input("the token specified must not be blank"));
    }
    check_lengths([
        ("name", Some(&request.name)),
        ("msgEndPoint", request.msg_end_point.as_ref()),
        ("publicKey", Some(&request.public_key)),
    ])?;
    check_new_secret(exchange, "token", Some(&request.token))?;
    let token_hash = exchange.credentials().hasher().hash(&request.token).await?;
    let owner = caller.account();
    let now = exchange.now();
    op.write(&permission, "agbot.replace", async |mut tx| {
        let mut row = AgbotRow {
            org: org.clone(),
            agbot: id.clone(),
            name: request.name.clone(),
            owner_org: owner.org().to_owned(),
            owner: owner.name().to_owned(),
            msg_end_point: request.msg_end_point.clone().unwrap_or_default(),
            public_key: request.public_key.clone(),
            seen_at: now,
        };
        let mut existing = agbot::lock_agbot(&mut tx, org, id).await?;
        if existing.is_none() {
            lock_name(&mut tx, org, id).await?;
            existing = agbot::lock_agbot(&mut tx, org, id).await?;
        }
        let mut changes = vec![agbot_change(org, id, "agbot", "created/modified")];
        match existing {
            Some(existing) => {
                if caller.role.is_agbot() {
                    (row.owner_org, row.owner) = (existing.owner_org, existing.owner);
                }
                changes.extend(withdraw_if_replaced(&mut tx, caller, &row, Some(&token_hash)).await?);
                agbot::update_agbot(&mut tx, &row, Some(&token_hash)).await?;
            }
            None => {
                check_new(exchange, &mut tx, &row, &owner).await?;
                agbot::insert_agbot(&mut tx, &row, &token_hash).await.map_err(|error| {
                    ApiError::from(error)
                        .explain("agbot_org_fk", || ApiError::not_found(format!("org '{org}' not found")))
                })?;
            }
        }
        if caller.may_approve_in(org) {
            agbot_approval::approve(&mut tx, org, id, &**caller, now).await?;
        }
        changes.push(forget_login(org, id));
        tx.finish(changes)
    })
    .await?;
    Ok(created("agbot added or updated"))
}

/// Checks the lengths of what the record would hold: agbots read the records of all agbots of an organization.
pub(super) fn check_lengths(fields: [(&str, Option<&String>); 3]) -> Result<(), ApiError> {
    fields.into_iter().filter_map(|(field, text)| Some((field, text?))).try_for_each(|(field, text)| {
        require_length(field, text.len(), if field == "publicKey" { MAX_PART } else { MAX_TEXT })
    })
}

async fn check_new(
    exchange: &Exchange,
    tx: &mut WriteTx<right::AgbotWrite>,
    row: &AgbotRow,
    owner: &UserId,
) -> Result<(), ApiError> {
    check_new_name(exchange, "agbot id", &row.agbot)?;
    if is_reserved_name(LoginKind::Agbot, &row.agbot) {
        return Err(ApiError::invalid_input(format!(
            "agbot id '{}' is reserved: choose another one",
            row.agbot
        )));
    }
    let limit = exchange.settings().limits.agbots;
    lock_owner(tx, owner.org(), owner.name()).await?;
    if limit > 0 && count_agbots(tx, owner.org(), owner.name()).await? >= limit {
        return Err(ApiError::access_denied(format!(
            "you own {limit} agbots, no more are allowed for each user"
        )));
    }
    match find_identity(tx, &row.org, &row.agbot).await? {
        Some(other) if other.kind != IdentityKind::Agbot => Err(ApiError::conflict(format!(
            "'{}/{}' is already the name of a user or node",
            row.org, row.agbot
        ))),
        _ => Ok(()),
    }
}
