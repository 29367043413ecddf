//! API keys of users.
use axum::Json;
use evenkeel_access::{AssignedRole, Caller, Permission, ROOT_ORG, right};
use evenkeel_api::{Created, NoContent};
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::api_key::{self, ApiKey, KeyOrigin};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user::{ApiKeyResponse, NewApiKey, SESSION_LABEL};
use jiff::{SignedDuration, Timestamp};
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
/// Shortest and longest life of a key that expires, in seconds.
const LIFE_SECS: std::ops::RangeInclusive<i64> = 60..=31_536_000;

pub async fn create_api_key(
    op: Op<ResourcePath>,
    permission: Permission<right::ApiKeyWrite>,
    Body(request): Body<NewApiKey>,
) -> Result<Created<ApiKeyResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    let user = require_user(exchange, caller, org, name).await?;
    let role = key_role(caller, &user, request.role.as_deref(), request.policies.as_deref())?;
    require_length("label", request.label.as_ref().map_or(0, String::len), MAX_TEXT)?;
    require_length("description", request.description.as_ref().map_or(0, String::len), MAX_TEXT)?;
    let now = exchange.now();
    let expires_at = request.expires_in.map(|secs| end_of_life(now, secs)).transpose()?;
    let value = new_value();
    let hash = exchange.credentials().hasher().keyed(&value);
    let key = ApiKey {
        id: Uuid::new_v4(),
        org: org.clone(),
        account: name.clone(),
        label: request.label,
        description: request.description,
        creator: None,
        updated_at: now,
        expires_at,
        role,
        is_of_session: false,
    };
    let key = op
        .write(&permission, "api_key.create", async |mut tx| {
            let origin = require_origin(&mut tx, caller, &UserId::new(org, name)).await?;
            let count = api_key::count_of_account(&mut tx, org, name).await?;
            require_parts_below("API keys of the user", count, MAX_KEYS)?;
            let expires_at = key.expires_at.into_iter().chain(origin.expires_at).min();
            let KeyOrigin { creator, is_of_session, .. } = origin;
            let key = ApiKey { creator, expires_at, is_of_session, ..key.clone() };
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
    _: Permission<right::ApiKeyRead>,
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
        .filter(|key| is_within_login(&caller, key))
        .ok_or_else(no_key)?;
    Ok(Json(response(key, None)))
}

pub async fn delete_api_key(
    op: Op<PartPath>,
    permission: Permission<right::ApiKeyWrite>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: PartPath { org, id: name, part: id },
        ..
    } = &op;
    let id = parse_id(id)?;
    require_user(exchange, caller, org, name).await?;
    op.write(&permission, "api_key.delete", async |mut tx| {
        let found = api_key::find_api_key(&mut tx, org, name, id).await?;
        let may_delete = found.is_some_and(|key| is_within_login(caller, &key));
        if !may_delete || !api_key::delete_api_key(&mut tx, org, name, id).await? {
            return Err(no_key());
        }
        tx.finish([forget_login(org, name)])
    })
    .await?;
    Ok(NoContent)
}

async fn require_user(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    name: &str,
) -> Result<AccountRow, ApiError> {
    find_visible(exchange, caller, org, name).await?.ok_or_else(no_user)
}

/// Returns whether the caller sees an API key: with a key that has a role only keys within that role.
pub(super) fn is_within_login(caller: &Caller, key: &ApiKey) -> bool {
    caller.key_role().is_none_or(|own| key.role.as_ref().is_some_and(|role| own.covers(role)))
}

/// Returns the role of a new API key: the one that is wanted, or that of the key that the caller logged in with.
///
/// A login has the rights that both its account and the role of its key allow, whatever is stored. A key that promises more is refused, so
/// that its creator learns of it.
fn key_role(
    caller: &Caller,
    user: &AccountRow,
    name: Option<&str>,
    policies: Option<&[String]>,
) -> Result<Option<AssignedRole>, ApiError> {
    let wanted = super::read_role(name, policies)?.flatten();
    let (Some(wanted), limits) = (wanted, [caller.key_role(), user.role.as_ref()]) else {
        return Ok(caller.key_role().cloned());
    };
    if user.org == ROOT_ORG {
        return Err(ApiError::invalid_input("role: API keys of the organization root have no role"));
    }
    let narrower = limits.into_iter().flatten().find(|limit| !limit.covers(&wanted));
    match narrower {
        None => Ok(Some(wanted)),
        Some(limit) => Err(ApiError::access_denied(format!(
            "role: the key would exceed the role {} of {}",
            described(limit),
            if caller.key_role() == Some(limit) { "the key of the caller" } else { "its user" },
        ))),
    }
}

/// Describes a role with its policies.
fn described(role: &AssignedRole) -> String {
    match role {
        AssignedRole::Viewer => role.name().to_owned(),
        AssignedRole::Deployer(_) => format!("{} of {}", role.name(), role.policies().join(", ")),
    }
}

/// Returns when a key ends that is to live this long.
fn end_of_life(now: Timestamp, secs: i64) -> Result<Timestamp, ApiError> {
    let end = now.checked_add(SignedDuration::from_secs(secs)).ok();
    end.filter(|_| LIFE_SECS.contains(&secs)).ok_or_else(|| {
        let (least, most) = (LIFE_SECS.start(), LIFE_SECS.end());
        ApiError::invalid_input(format!("expiresIn must be from {least} to {most} seconds"))
    })
}

/// Returns the account that counts as the creator of a key for an account: the caller, or the creator of the key that the caller logged in with,
/// who must not keep rights by creating more. A key that was created with an expiring one ends with it.
///
/// A creator for another account is still an administrator, and remains one until the end of the transaction: its demotion deletes such keys,
/// and must not miss this one.
async fn require_origin(
    tx: &mut WriteTx<right::ApiKeyWrite>,
    caller: &Caller,
    account: &UserId,
) -> Result<KeyOrigin, ApiError> {
    let withdrawn = || ApiError::access_denied(format!("the rights of '{caller}' were withdrawn"));
    let used = caller.api_key.as_deref().and_then(|id| Uuid::try_parse(id).ok());
    let origin = match used {
        Some(key) => api_key::find_origin(tx, key, SESSION_LABEL).await?.ok_or_else(withdrawn)?,
        None => KeyOrigin::default(),
    };
    let creator = origin.creator.unwrap_or_else(|| caller.account());
    if creator != *account {
        let stored = account::lock_account(tx, creator.org(), creator.name()).await?;
        stored.filter(|stored| stored.is_admin || stored.is_hub_admin).ok_or_else(withdrawn)?;
    }
    Ok(KeyOrigin { creator: Some(creator), ..origin })
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
        expires_at: key.expires_at.map(wire_time),
        id: key.id.to_string(),
        label: key.label.unwrap_or_default(),
        last_updated: wire_time(key.updated_at),
        policies: super::shown_policies(key.role.as_ref()),
        role: super::shown_role(key.role.as_ref()),
        owner: format!("{}/{}", key.org, key.account),
        value,
    }
}
