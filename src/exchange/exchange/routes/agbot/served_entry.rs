//! Common code of the routes of served patterns and of served deployment policies.
//!
//! Source: exchange-api 4.5.

use std::sync::Arc;

use evenkeel_access::{Caller, MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::{DocumentedBody, List, ListShape, NoContent};
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::agbot_approval;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node_limit::lock_agbot_parts;
use evenkeel_exchange_store::served_entry::{self, ServedFilter, ServedRow, Subject};
use evenkeel_store::PgConnection;
use serde::Serialize;

use crate::error::{Created, created};
use crate::feed::row::agbot_change;
use crate::operation::{ExchangeRequest, Op, PartPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{MAX_TEXT, require_length};
use crate::{ApiError, Exchange};

/// Differences between the two kinds of routes.
pub(super) trait Kind: Send + Sync + 'static {
    const SUBJECT: Subject;
    /// Opening text of a list.
    const OPEN: &'static str;
    /// Singular and plural in messages.
    const WORDS: [&'static str; 2];
    /// Name of the resource in the change feed.
    const RESOURCE: &'static str;
    /// Names of the transactions: create, delete.
    const TRANSACTIONS: [&'static str; 2];
    /// Constraints: the entry is there, the agbot is not.
    const CONSTRAINTS: [&'static str; 2];
    /// The body of a list.
    type List: DocumentedBody + Send + 'static;
    type Entry: Serialize;

    fn shape(row: ServedRow) -> Self::Entry;
}

pub(super) async fn read<K: Kind>(
    exchange: Exchange,
    caller: &Caller,
    ResourcePath { org, id }: ResourcePath,
    filter: ServedFilter,
    paging: Paging,
) -> Result<List<K::List>, ApiError> {
    let is_seen = sees_served(&exchange, caller, &org, &id).await?;
    let shape = ListShape { open: K::OPEN, close: "}}", key: "", rows: PAGE_ROWS };
    let wanted = Arc::new(Wanted { org, id, filter, is_seen });
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page::<K>(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, None), paging, load, |most| count::<K>(counted, most)).await
}

/// Selection of entries of an agbot.
struct Wanted {
    org: String,
    id: String,
    filter: ServedFilter,
    /// False if the caller may not see what the agbot serves.
    is_seen: bool,
}

async fn count<K: Kind>((exchange, wanted): (Exchange, Arc<Wanted>), most: i64) -> Result<i64, ApiError> {
    let Wanted { org, id, filter, is_seen } = &*wanted;
    if !is_seen {
        return Ok(0);
    }
    let count = exchange
        .database()
        .read(async |connection| served_entry::count(connection, K::SUBJECT, (org, id), filter, most).await);
    Ok(count.await?)
}

async fn page<K: Kind>(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let Wanted { org, id, filter, is_seen } = &*wanted;
    if !is_seen {
        return Ok(Page::new());
    }
    let place = after.as_deref();
    let found = exchange.database().read(async |connection| {
        served_entry::list(connection, K::SUBJECT, (org, id), filter, place, rows).await
    });
    let keyed_response = |row: ServedRow| (row.entry.clone(), K::shape(row));
    Ok(Page::object(found.await?, rows, |row| row.entry.clone(), keyed_response)?)
}

pub(super) async fn get_entry<K: Kind>(
    op: Op<PartPath>,
    _: Permission<right::AgbotRead>,
) -> Result<List<K::List>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: PartPath { org, id, part: entry }, ..
    } = op;
    let filter = ServedFilter { entry: Some(entry), ..ServedFilter::default() };
    read::<K>(exchange, &caller, ResourcePath { org, id }, filter, Paging::default()).await
}

/// Adds an entry for a caller who may, confirmed if the caller may do that as well.
pub(super) async fn create<K: Kind>(
    op: &Op<ResourcePath>,
    permission: &Permission<right::AgbotWrite>,
    row: &ServedRow,
    nodes_of: &str,
) -> Result<Created, ApiError> {
    let ResourcePath { org, id } = &op.path;
    let [word, _] = K::WORDS;
    let [is_there, no_agbot] = K::CONSTRAINTS;
    for (field, text) in
        [(word, &row.subject), ("organization", &row.subject_org), ("nodeOrgid", &row.node_org)]
    {
        require_length(field, text.len(), MAX_TEXT)?;
    }
    op.write(permission, K::TRANSACTIONS[0], async |mut tx| {
        let agbot = agbot_approval::find(&mut tx, org, id).await?;
        if nodes_of != org && agbot.is_some_and(|agbot| agbot.approved.is_none()) {
            return Err(ApiError::access_denied(format!(
                "nodeOrgid: agbot '{org}/{id}' serves nodes of other organizations than its own only after an administrator approved it"
            )));
        }
        let limit = op.exchange.settings().limits.served_entries;
        // The agbots of the shared organization serve every organization.
        if limit > 0
            && org != MULTI_TENANT_ORG
            && lock_agbot_parts(&mut tx, org, id).await?
            && served_entry::count_of_agbot(&mut tx, org, id).await? >= limit
        {
            return Err(ApiError::access_denied(format!(
                "an agbot may serve {limit} patterns and deployment policies together, no more"
            )));
        }
        let confirmed_by = confirmed_by(&mut tx, &op.caller, &row.node_org).await?;
        let row = &ServedRow { confirmed_by, ..row.clone() };
        served_entry::insert(&mut tx, K::SUBJECT, org, id, row).await.map_err(|error| {
            ApiError::from(error)
                .explain(is_there, || {
                    ApiError::conflict(format!("{word} '{}' of agbot '{org}/{id}' already exists", row.entry))
                })
                .explain(no_agbot, || {
                    ApiError::access_denied(format!(
                        "{word} '{}' not inserted: agbot '{org}/{id}' not found",
                        row.entry
                    ))
                })
        })?;
        tx.finish([agbot_change(org, id, K::RESOURCE, "created")])
    })
    .await?;
    Ok(created(format!("{word} {} added", row.entry)))
}

pub(super) async fn delete_entries<K: Kind>(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    remove::<K, _>(&op, &permission, (org, id), None).await
}

pub(super) async fn delete_entry<K: Kind>(
    op: Op<PartPath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id, part } = &op.path;
    remove::<K, _>(&op, &permission, (org, id), Some(part)).await
}

async fn remove<K: Kind, P>(
    op: &Op<P>,
    permission: &Permission<right::AgbotWrite>,
    (org, id): (&str, &str),
    entry: Option<&str>,
) -> Result<NoContent, ApiError> {
    let [word, words] = K::WORDS;
    op.write(permission, K::TRANSACTIONS[1], async |mut tx| {
        if served_entry::delete(&mut tx, K::SUBJECT, org, id, entry).await? == 0 {
            return Err(ApiError::not_found(match entry {
                Some(entry) => format!("{word} '{entry}' of agbot '{org}/{id}' not found"),
                None => format!("no {words} of agbot '{org}/{id}' found"),
            }));
        }
        tx.finish([agbot_change(org, id, K::RESOURCE, "deleted")])
    })
    .await?;
    Ok(NoContent)
}

/// Returns the confirmer of an entry that the caller writes: an administrator of the nodes' organization or of the hub. An agbot writes
/// for its owner, whatever administrator approved it.
async fn confirmed_by(
    connection: &mut PgConnection,
    caller: &Caller,
    node_org: &str,
) -> Result<Option<String>, ApiError> {
    if caller.role != Role::Agbot {
        return Ok(caller.may_approve_in(node_org).then(|| caller.to_string()));
    }
    let owner = caller.account();
    let account = account::lock_account(connection, owner.org(), owner.name()).await?;
    let is_administrator = |one: &AccountRow| one.is_hub_admin || (one.is_admin && owner.org() == node_org);
    Ok(account.filter(is_administrator).map(|_| owner.to_string()))
}

/// Refuses to let administrators of the hub add to what agbots of ordinary organizations serve.
///
/// They may take away from it, and change the agbot itself.
/// # Source
/// Exchange-api 3.2 (a rule of the reference for these two routes, beside the matrix).
pub(super) fn require_addable(caller: &Caller, org: &str) -> Result<(), ApiError> {
    if caller.role == Role::HubAdmin && !is_own_or_shared(caller, org) {
        return Err(ApiError::access_denied(format!(
            "administrators of the hub cannot add to what agbots of organization '{org}' serve"
        )));
    }
    Ok(())
}

fn is_own_or_shared(caller: &Caller, org: &str) -> bool {
    org == caller.org || org == MULTI_TENANT_ORG
}

/// Returns whether the caller may see what an agbot serves: users, their nodes and their unapproved agbots see it of their own agbots,
/// administrators of theirs and the shared ones.
async fn sees_served(exchange: &Exchange, caller: &Caller, org: &str, agbot: &str) -> Result<bool, ApiError> {
    match caller.role {
        Role::User | Role::Node | Role::UnapprovedAgbot => {
            let facts = exchange.facts(FactKind::Agbot, org, agbot).await?;
            Ok(facts.and_then(|facts| facts.owner) == Some(caller.account()))
        }
        Role::HubAdmin => Ok(is_own_or_shared(caller, org)),
        Role::Root | Role::OrgAdmin | Role::Viewer | Role::Deployer | Role::Agbot => Ok(true),
    }
}
