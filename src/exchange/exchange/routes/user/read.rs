//! Reads of users.
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_access::{Caller, OWN_NAMES, Permission, Role, right, sees_account};
use evenkeel_api::List;
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::api_key::{self, ApiKey};
use evenkeel_store::StoreError;
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user::{ApiKeySummary, UserResponse, UsersResponse};

use super::facts;
use crate::operation::authorize::AskedLater;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

/// Text shown in place of a secret.
const MASK: &str = "***************";

pub async fn list_users(
    op: Op<OrgPath>,
    _: Permission<right::UsersList>,
) -> Result<List<UsersResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    response(exchange, caller, org, None).await
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
    pages::list(r#"{"users":{"#, r#"},"lastIndex":0}"#, move |after: Option<String>| {
        page(exchange.clone(), caller.clone(), wanted.clone(), after)
    })
    .await
}

async fn page(
    exchange: Exchange,
    caller: Arc<Caller>,
    wanted: Arc<(String, Option<String>)>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (org, name) = &*wanted;
    let rows = exchange.database().read(async |connection| {
        let (name, after) = (name.as_deref(), after.as_deref());
        let accounts = account::list_accounts(connection, org, name, after, PAGE_ROWS).await?;
        let names: Vec<String> = accounts.iter().map(|account| account.name.clone()).collect();
        Ok::<_, StoreError>((accounts, api_key::list_api_keys(connection, org, &names).await?))
    });
    let (accounts, api_keys) = rows.await?;
    let mut keys: BTreeMap<String, Vec<ApiKeySummary>> = BTreeMap::new();
    for key in api_keys {
        keys.entry(key.account.clone()).or_default().push(summary(key));
    }
    let mut page = Page::after(&accounts, PAGE_ROWS, |last| last.name.clone());
    for account in accounts.into_iter().filter(|account| sees_account(&caller, facts(account))) {
        let keys = keys.remove(&account.name).unwrap_or_default();
        page.insert(&format!("{}/{}", account.org, account.name), &user(account, keys))?;
    }
    Ok(page)
}

fn user(account: AccountRow, apikeys: Vec<ApiKeySummary>) -> UserResponse {
    UserResponse {
        admin: account.is_admin,
        apikeys,
        email: account.email,
        hub_admin: account.is_hub_admin,
        last_updated: wire_time(account.updated_at),
        password: if account.password_hash.is_some() { MASK } else { "" },
        updated_by: account.updated_by,
    }
}

fn summary(key: ApiKey) -> ApiKeySummary {
    ApiKeySummary {
        created_by: key.other_creator().map(ToString::to_string),
        description: key.description.unwrap_or_default(),
        id: key.id.to_string(),
        label: key.label.unwrap_or_default(),
        last_updated: wire_time(key.updated_at),
    }
}
