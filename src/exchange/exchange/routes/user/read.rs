//! Reads of users.
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_access::{
    AccountRows, Caller, OWN_NAMES, Permission, Role, listed_accounts, right, sees_account,
};
use evenkeel_api::List;
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::api_key::{self, ApiKey};
use evenkeel_ids::UserId;
use evenkeel_store::StoreError;
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user::{ApiKeySummary, UserResponse, UsersResponse};

use super::api_key::is_within_login;
use super::{facts, shown_policies, shown_role};
use crate::operation::authorize::AskedLater;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

/// The text that precedes the users of a list.
const OPEN: &str = r#"{"users":{"#;

/// Text shown in place of a secret.
const MASK: &str = "***************";

pub async fn list_users(
    op: Op<OrgPath, Paging>,
    _: Permission<right::UsersList>,
) -> Result<List<UsersResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, parameters: paging } =
        op;
    let shape = pages::object(OPEN, PAGE_ROWS);
    let counted = (exchange.clone(), org.clone(), listed_accounts(&caller));
    let wanted = Arc::new((org.clone(), None));
    let load = move |after, rows| page(exchange.clone(), caller.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, Some(&org)), paging, load, |most| count(counted, most)).await
}

async fn count((exchange, org, rows): (Exchange, String, AccountRows), most: i64) -> Result<i64, ApiError> {
    let count = exchange
        .database()
        .read(async |connection| account::count_accounts(connection, (&org, rows), most).await)
        .await?;
    Ok(count)
}

pub async fn get_user(
    op: Op<ResourcePath>,
    right: AskedLater<right::UserRead>,
) -> Result<List<UsersResponse>, ApiError> {
    if OWN_NAMES.contains(&op.path.id.as_str()) {
        let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, .. }, .. } = op;
        return list_own_user(exchange, caller, org).await;
    }
    let _: Permission<right::UserRead> = right.authorize(&op).await?;
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = op;
    response(exchange, caller, org, Some(name)).await
}

pub async fn get_own_user(
    op: Op<OrgPath>,
    _: AskedLater<right::UserRead>,
) -> Result<List<UsersResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    list_own_user(exchange, caller, org).await
}

async fn list_own_user(
    exchange: Exchange,
    caller: Arc<Caller>,
    org: String,
) -> Result<List<UsersResponse>, ApiError> {
    if org != caller.org && matches!(caller.role, Role::Root | Role::HubAdmin) {
        return Err(ApiError::invalid_input("the organization in the path is not that of the caller"));
    }
    if org != caller.org || !caller.is_person() {
        return Err(ApiError::access_denied(format!(
            "Access denied: '{caller}' does not have authorization: READ user={org}/apikey"
        )));
    }
    // A hub admin sees its own record like any other user.
    let name = caller.id.clone();
    response(exchange, caller, org, Some(name)).await
}

async fn response(
    exchange: Exchange,
    caller: Arc<Caller>,
    org: String,
    name: Option<String>,
) -> Result<List<UsersResponse>, ApiError> {
    let wanted = Arc::new((org, name));
    let shape = pages::object(OPEN, PAGE_ROWS);
    let load = move |after| page(exchange.clone(), caller.clone(), wanted.clone(), after, PAGE_ROWS);
    pages::list(shape.open, shape.close, load).await
}

async fn page(
    exchange: Exchange,
    caller: Arc<Caller>,
    wanted: Arc<(String, Option<String>)>,
    after: Option<String>,
    limit: i64,
) -> Result<Page<String>, ApiError> {
    let (org, name) = &*wanted;
    let rows = exchange.database().read(async |connection| {
        let (name, after) = (name.as_deref(), after.as_deref());
        let seen = listed_accounts(&caller);
        let accounts = account::list_accounts(connection, (org, seen), name, after, limit).await?;
        let names: Vec<String> = accounts.iter().map(|account| account.name.clone()).collect();
        Ok::<_, StoreError>((accounts, api_key::list_api_keys(connection, org, &names).await?))
    });
    let (accounts, api_keys) = rows.await?;
    let mut keys: BTreeMap<String, Vec<ApiKeySummary>> = BTreeMap::new();
    for key in api_keys.into_iter().filter(|key| sees_key(&caller, key)) {
        keys.entry(key.account.clone()).or_default().push(summary(key));
    }
    let mut page = Page::after(&accounts, limit, |last| last.name.clone());
    for account in accounts.into_iter().filter(|account| sees_account(&caller, facts(account))) {
        let keys = keys.remove(&account.name).unwrap_or_default();
        page.insert(&format!("{}/{}", account.org, account.name), &user(&caller, account, keys))?;
    }
    Ok(page)
}

/// Returns whether the caller sees an API key in lists: viewers and deployers see their own, and a login with a key that has a role those
/// within that role.
fn sees_key(caller: &Caller, key: &ApiKey) -> bool {
    let is_own = (key.org.as_str(), key.account.as_str()) == (caller.org.as_str(), caller.id.as_str());
    (is_own || caller.assignment.is_none()) && is_within_login(caller, key)
}

/// Shows an account. About the caller itself it states what its login may: with an API key that has a role no more than that, so that
/// programs which decide by this record do not take the login for that of an administrator.
fn user(caller: &Caller, account: AccountRow, apikeys: Vec<ApiKeySummary>) -> UserResponse {
    let is_own = caller.is_account(&UserId::new(&account.org, &account.name));
    let limit = caller.assigned_role().filter(|_| is_own);
    let is_limited_user = caller.role == Role::User && limit.is_some();
    let role = limit.or(account.role.as_ref());
    UserResponse {
        admin: account.is_admin && limit.is_none(),
        apikeys,
        email: account.email,
        hub_admin: account.is_hub_admin && limit.is_none(),
        ordinary_user: is_limited_user.then_some(true),
        policies: shown_policies(role),
        role: shown_role(role),
        last_updated: wire_time(account.updated_at),
        password: if account.password_hash.is_some() { MASK } else { "" },
        updated_by: account.updated_by,
    }
}

fn summary(key: ApiKey) -> ApiKeySummary {
    ApiKeySummary {
        created_by: key.other_creator().map(ToString::to_string),
        description: key.description.unwrap_or_default(),
        expires_at: key.expires_at.map(wire_time),
        id: key.id.to_string(),
        label: key.label.unwrap_or_default(),
        last_updated: wire_time(key.updated_at),
        policies: shown_policies(key.role.as_ref()),
        role: shown_role(key.role.as_ref()),
    }
}
