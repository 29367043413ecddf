//! API keys of users.
use axum::Json;
use evenkeel_access::{Caller, Permission, right};
use evenkeel_api::{Created, NoContent};
use evenkeel_exchange_store::api_key::{self, ApiKey};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user::{ApiKeyResponse, NewApiKey};
use uuid::Uuid;

use super::find_visible;
use crate::extract::Body;
use crate::notice::forget_login;
use crate::operation::{Op, PartPath, ResourcePath};
use crate::{ApiError, Exchange};

pub async fn create_api_key(
    op: Op<ResourcePath>,
    permission: Permission<right::UserWrite>,
    Body(request): Body<NewApiKey>,
) -> Result<Created<ApiKeyResponse>, ApiError> {
    let Op { exchange, caller, path: ResourcePath { org, id: name }, .. } = &op;
    require_user(exchange, caller, org, name).await?;
    let value = new_value();
    let hash = exchange.credentials().hasher().keyed(&value);
    let key = ApiKey {
        id: Uuid::new_v4(),
        org: org.clone(),
        account: name.clone(),
        label: request.label,
        description: request.description,
        updated_at: exchange.now(),
    };
    op.write(&permission, "api_key.create", async |mut tx| {
        api_key::insert_api_key(&mut tx, &key, &hash)
            .await
            .map_err(|error| ApiError::from(error).explain("api_key_account_fk", no_user))?;
        tx.finish([])
    })
    .await?;
    Ok(Created(response(key, Some(value))))
}

pub async fn get_api_key(
    op: Op<PartPath>,
    _: Permission<right::UserRead>,
) -> Result<Json<ApiKeyResponse>, ApiError> {
    let Op { exchange, caller, path: PartPath { org, id: name, part: id }, .. } = op;
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
    let Op { exchange, caller, path: PartPath { org, id: name, part: id }, .. } = &op;
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
        description: key.description.unwrap_or_default(),
        id: key.id.to_string(),
        label: key.label.unwrap_or_default(),
        last_updated: wire_time(key.updated_at),
        owner: format!("{}/{}", key.org, key.account),
        value,
    }
}
