//! API keys of users.
use axum::Json;
use evenkeel_access::{Caller, Permission, right};
use evenkeel_api::{Created, NoContent};
use evenkeel_exchange_store::account;
use evenkeel_exchange_store::api_key::{self, ApiKey};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user::{ApiKeyResponse, NewApiKey};
use uuid::Uuid;

use super::find_visible;
use crate::extract::Body;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, PartPath, ResourcePath};
use crate::routes::shape::{MAX_TEXT, require_length, require_parts_below};
use crate::transaction::WriteTx;
use crate::{ApiError, Exchange};

/// Maximum number of API keys of one account.
const MAX_KEYS: i64 = 1_000;

pub async fn create_api_key(
    op: Op<ResourcePath>,
    permission: Permission<right::UserWrite>,
    Body(request): Body<NewApiKey>,
) -> Result<Created<ApiKeyResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    require_user(exchange, caller, org, name).await?;
    require_length("label", request.label.as_ref().map_or(0, String::len), MAX_TEXT)?;
    require_length("description", request.description.as_ref().map_or(0, String::len), MAX_TEXT)?;
    let value = new_value();
    let hash = exchange.credentials().hasher().keyed(&value);
    let key = ApiKey {
        id: Uuid::new_v4(),
        org: org.clone(),
        account: name.clone(),
        label: request.label,
        description: request.description,
        creator: None,
        updated_at: exchange.now(),
    };
    let key = op
        .write(&permission, "api_key.create", async |mut tx| {
            let creator = require_creator(&mut tx, caller, &UserId::new(org, name)).await?;
            let count = api_key::count_of_account(&mut tx, org, name).await?;
            require_parts_below("API keys of the user", count, MAX_KEYS)?;
            let key = ApiKey { creator: Some(creator), ..key.clone() };
            api_key::insert_api_key(&mut tx, &key, &hash)
                .await
                .map_err(|error| ApiError::from(error).explain("api_key_account_fk", no_user))?;
            tx.finish_with([], key)
        })
        .await?;
    Ok(Created(response(key, Some(value))))
}

pub async fn get_api_key(
    op: Op<PartPath>,
    _: Permission<right::UserRead>,
) -> Result<Json<ApiKeyResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: PartPath { org, id: name, part: id },
        ..
    } = op;
    let id = parse_id(&id)?;
    require_user(&exchange, &caller, &org, &name).await?;
    let key = exchange
        .database()
        .read(async |connection| api_key::find_api_key(connection, &org, &name, id).await)
        .await?
        .ok_or_else(no_key)?;
    Ok(Json(response(key, None)))
}

pub async fn delete_api_key(
    op: Op<PartPath>,
    permission: Permission<right::UserWrite>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: PartPath { org, id: name, part: id },
        ..
    } = &op;
    let id = parse_id(id)?;
    require_user(exchange, caller, org, name).await?;
    op.write(&permission, "api_key.delete", async |mut tx| {
        if !api_key::delete_api_key(&mut tx, org, name, id).await? {
            return Err(no_key());
        }
        tx.finish([forget_login(org, name)])
    })
    .await?;
    Ok(NoContent)
}

async fn require_user(exchange: &Exchange, caller: &Caller, org: &str, name: &str) -> Result<(), ApiError> {
    find_visible(exchange, caller, org, name).await?.map(|_| ()).ok_or_else(no_user)
}

/// Returns the account that counts as the creator of a key for an account: the caller, or the creator of the key that the caller logged in with,
/// who must not keep rights by creating more.
///
/// A creator for another account is still an administrator, and remains one until the end of the transaction: its demotion deletes such keys,
/// and must not miss this one.
async fn require_creator(
    tx: &mut WriteTx<right::UserWrite>,
    caller: &Caller,
    account: &UserId,
) -> Result<UserId, ApiError> {
    let withdrawn = || ApiError::access_denied(format!("the rights of '{caller}' were withdrawn"));
    let used = caller.api_key.as_deref().and_then(|id| Uuid::try_parse(id).ok());
    let creator = match used {
        Some(key) => api_key::find_creator(tx, key).await?.ok_or_else(withdrawn)?,
        None => None,
    };
    let creator = creator.unwrap_or_else(|| caller.account());
    if creator != *account {
        let stored = account::lock_account(tx, creator.org(), creator.name()).await?;
        stored.filter(|stored| stored.is_admin || stored.is_hub_admin).ok_or_else(withdrawn)?;
    }
    Ok(creator)
}

/// 256 random bits as 64 hexadecimal digits.
fn new_value() -> String {
    let bits: [u8; 32] = rand::random();
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(text).map_err(|_| ApiError::invalid_input(format!("keyid: '{text}' is not a UUID")))
}

fn no_user() -> ApiError {
    ApiError::not_found("User not found")
}

fn no_key() -> ApiError {
    ApiError::not_found("API key not found")
}

fn response(key: ApiKey, value: Option<String>) -> ApiKeyResponse {
    ApiKeyResponse {
        created_by: key.other_creator().map(ToString::to_string),
        description: key.description.unwrap_or_default(),
        id: key.id.to_string(),
        label: key.label.unwrap_or_default(),
        last_updated: wire_time(key.updated_at),
        owner: format!("{}/{}", key.org, key.account),
        value,
    }
}
