//! Signing keys of services and patterns: plain text under a name.
//!
//! Source: exchange-api 4.6, 4.7 (rows `…/keys`).

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use evenkeel_access::{Permission, Right, right};
use evenkeel_api::{Documented, List, ListOf, NoContent};
use evenkeel_exchange_store::audit_state::Subject as AuditSubject;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::permitted::WritesKeys;
use evenkeel_exchange_store::signing_key::{self, KeyHolder};
use evenkeel_exchange_store::{pattern, service};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{StatusCode, header};

use super::pages::{self, PAGE_ROWS, Page};
use super::shape::{MAX_PART, require_length, require_parts_below};
use crate::error::{Created, created};
use crate::extract::RawBody;
use crate::operation::row::{delete, get, put};
use crate::operation::{Content, ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::{ApiError, Exchange};

/// Maximum number of keys of one service or pattern.
const MAX_KEYS: i64 = 1_000;

/// Differences between the key routes of services and of patterns.
pub(super) trait Keys: Send + Sync + 'static {
    const HOLDER: KeyHolder;
    type Read: Right;
    type Write: WritesKeys;
    const SUBJECT: AuditSubject;
    /// Noun in messages and category of changes.
    const WORD: &'static str;
    const RESOURCE: &'static str;
    /// Operation ids: list, delete all, get, put, delete.
    const OPERATIONS: [&'static str; 5];
}

pub(super) struct ServiceKeys;

impl Keys for ServiceKeys {
    const HOLDER: KeyHolder = KeyHolder::Service;
    type Read = right::ServiceRead;
    type Write = right::ServiceWrite;
    const SUBJECT: AuditSubject = AuditSubject::ServiceKey;
    const WORD: &'static str = "service";
    const RESOURCE: &'static str = "servicekeys";
    const OPERATIONS: [&'static str; 5] = [
        "list_service_keys",
        "delete_service_keys",
        "get_service_key",
        "replace_service_key",
        "delete_service_key",
    ];
}

pub(super) struct PatternKeys;

impl Keys for PatternKeys {
    const HOLDER: KeyHolder = KeyHolder::Pattern;
    type Read = right::PatternRead;
    type Write = right::PatternWrite;
    const SUBJECT: AuditSubject = AuditSubject::PatternKey;
    const WORD: &'static str = "pattern";
    const RESOURCE: &'static str = "patternkeys";
    const OPERATIONS: [&'static str; 5] = [
        "list_pattern_keys",
        "delete_pattern_keys",
        "get_pattern_key",
        "replace_pattern_key",
        "delete_pattern_key",
    ];
}

/// The routes of the keys of services or patterns; `aliases` pairs other paths of the collection and of one key.
pub(super) fn key_operations<K: Keys>(
    tag: &'static str,
    all: &'static str,
    one: &'static str,
    aliases: &[(&'static str, &'static str)],
) -> Vec<Operation> {
    let [list_name, delete_all_name, get_name, put_name, delete_name] = K::OPERATIONS;
    let of_all = vec![
        get(all, list_name, list_keys::<K>)
            .doc(tag, "Lists the names of signing keys")
            .success("the names")
            .response_with(404, "there is none", Content::list::<String>().or::<ApiResponse>()),
        delete(all, delete_all_name, delete_keys::<K>)
            .doc(tag, "Removes all signing keys")
            .audit(K::SUBJECT)
            .success("removed"),
    ];
    let of_one = vec![
        get(one, get_name, get_key::<K>).doc(tag, "Reads a signing key as text").success("the key"),
        put(one, put_name, replace_key::<K>)
            .doc(tag, "Stores a signing key; the body is stored unchanged, regardless of its type")
            .audit(K::SUBJECT)
            .success("stored"),
        delete(one, delete_name, delete_key::<K>)
            .doc(tag, "Removes a signing key")
            .audit(K::SUBJECT)
            .success("removed"),
    ];
    let with = |endpoint: Operation, pick: fn(&(&'static str, &'static str)) -> &'static str| {
        aliases.iter().fold(endpoint, |endpoint, alias| endpoint.alias(pick(alias)))
    };
    let of_all = of_all.into_iter().map(|endpoint| with(endpoint, |alias| alias.0));
    of_all.chain(of_one.into_iter().map(|endpoint| with(endpoint, |alias| alias.1))).collect()
}

async fn list_keys<K: Keys>(
    op: Op<ResourcePath>,
    _: Permission<K::Read>,
) -> Result<List<ListOf<String>>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path, .. } = op;
    let holder = Arc::new(path);
    pages::list("[", "]", move |after: Option<String>| page::<K>(exchange.clone(), holder.clone(), after))
        .await
}

async fn page<K: Keys>(
    exchange: Exchange,
    holder: Arc<ResourcePath>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let ResourcePath { org, id } = &*holder;
    let names = exchange
        .database()
        .read(async |connection| {
            signing_key::list_names(connection, K::HOLDER, org, id, after.as_deref(), PAGE_ROWS).await
        })
        .await?;
    Ok(Page::array(names, PAGE_ROWS, String::clone, |name| name)?)
}

async fn get_key<K: Keys>(op: Op<PartPath>, _: Permission<K::Read>) -> Result<KeyText, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: key }, .. } = op;
    let content = exchange
        .database()
        .read(async |connection| signing_key::find_content(connection, K::HOLDER, &org, &id, &key).await)
        .await?;
    Ok(KeyText(content))
}

/// A key as text; without one, 404 with an empty text.
struct KeyText(Option<Vec<u8>>);

impl IntoResponse for KeyText {
    fn into_response(self) -> Response {
        let status = if self.0.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let text_type = [(header::CONTENT_TYPE, "text/plain; charset=UTF-8")];
        (status, text_type, self.0.unwrap_or_default()).into_response()
    }
}

impl Documented for KeyText {
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::TEXT)]
    }
}

async fn replace_key<K: Keys>(
    op: Op<PartPath>,
    permission: Permission<K::Write>,
    RawBody(content): RawBody,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: key }, .. } = &op;
    require_length("the key", content.len(), MAX_PART)?;
    op.write(&permission, "signing_key.replace", async |mut tx| {
        let is_public = visibility::<K>(&mut tx, org, id).await?;
        let others = signing_key::count_others(&mut tx, K::HOLDER, (org, id, key)).await?;
        require_parts_below(&format!("keys of the {}", K::WORD), others, MAX_KEYS)?;
        signing_key::upsert(&mut tx, K::HOLDER, (org, id, key), &content, exchange.now()).await?;
        tx.finish([change::<K>(org, id, "created/modified", is_public)])
    })
    .await?;
    Ok(created("key added or updated"))
}

async fn delete_keys<K: Keys>(
    op: Op<ResourcePath>,
    permission: Permission<K::Write>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    remove::<K, _>(&op, &permission, (org, id), None).await
}

async fn delete_key<K: Keys>(
    op: Op<PartPath>,
    permission: Permission<K::Write>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id, part } = &op.path;
    remove::<K, _>(&op, &permission, (org, id), Some(part)).await
}

async fn remove<K: Keys, P>(
    op: &Op<P>,
    permission: &Permission<K::Write>,
    (org, id): (&str, &str),
    key: Option<&str>,
) -> Result<NoContent, ApiError> {
    op.write(permission, "signing_key.delete", async |mut tx| {
        let is_public = visibility::<K>(&mut tx, org, id).await?;
        if signing_key::delete(&mut tx, K::HOLDER, org, id, key).await? == 0 {
            let which = key.map_or_else(|| "any key".to_owned(), |key| format!("key '{key}'"));
            return Err(ApiError::not_found(format!("{which} of {} '{org}/{id}' not found", K::WORD)));
        }
        tx.finish([change::<K>(org, id, "deleted", is_public)])
    })
    .await?;
    Ok(NoContent)
}

async fn visibility<K: Keys>(tx: &mut PgConnection, org: &str, id: &str) -> Result<bool, ApiError> {
    let is_public = match K::HOLDER {
        KeyHolder::Service => service::lock_visibility(tx, org, id).await?,
        KeyHolder::Pattern => pattern::lock_visibility(tx, org, id).await?,
    };
    is_public.ok_or_else(|| ApiError::not_found(format!("{} '{org}/{id}' not found", K::WORD)))
}

fn change<K: Keys>(org: &str, id: &str, operation: &'static str, is_public: bool) -> Change {
    Change {
        org: org.to_owned(),
        id: id.to_owned(),
        category: K::WORD,
        resource: K::RESOURCE,
        operation,
        is_public,
    }
}
