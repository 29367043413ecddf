//! Approvals of agbots by administrators, and confirmations of what agbots serve to the nodes of an organization.
//!
//! An agbot reads, messages and tasks the nodes of an organization, and partly of others. Its creator may not
//! do so, unless the creator is an administrator: the rights of an identity are a subset of its creator's.

use axum::Json;
use evenkeel_access::{Caller, Permission, right};
use evenkeel_api::{NoContent, PathParameters};
use evenkeel_exchange_store::agbot::AgbotRow;
use evenkeel_exchange_store::agbot_approval::{self, ApprovalRow};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::served_entry::{self, ServedPlace, ServedTo, Subject as EntryKind};
use evenkeel_ids::AgbotId;
use evenkeel_store::StoreError;
use evenkeel_wire::exchange::agbot_approval::{
    AgbotApproval, AgbotApprovalsQuery, AgbotApprovalsResponse, MOST_APPROVALS, ServedConfirmation,
};
use evenkeel_wire::exchange::time::wire_time;

use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Query;
use crate::feed::row::agbot_change;
use crate::feed::visibility::AGBOT_APPROVAL;
use crate::notice::forget_login;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, ResourcePath};
use crate::transaction::WriteTx;

const TAG: &str = "agbot approval";
const ALL: &str = "/orgs/{organization}/agbot-approvals";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/approval";
const ENTRY: &str =
    "/orgs/{organization}/agbot-approvals/{agbotorganization}/{agreementbot}/{servedkind}/{entry}";

/// Kinds of entries in a path.
const PATTERN: &str = "pattern";
const POLICY: &str = "deploymentPolicy";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_agbot_approvals", list_approvals)
            .doc(TAG, "Lists the agbots of an organization with their approvals, and the entries that any agbot serves to its nodes")
            .success("the agbots and the entries"),
        put(ENTRY, "confirm_served_entry", confirm_entry)
            .doc(TAG, "Confirms an entry that an agbot serves to the nodes of the organization: the hub's own agbot yields to it")
            .success("confirmed"),
        delete(ENTRY, "withdraw_served_entry", withdraw_entry)
            .doc(TAG, "Withdraws the confirmation of an entry that an agbot serves: the hub's own agbot no longer yields to it")
            .success("withdrawn"),
        get(ONE, "get_agbot_approval", get_approval)
            .doc(TAG, "Returns the approval of an agbot")
            .success("the approval"),
        put(ONE, "approve_agbot", approve)
            .doc(TAG, "Approves an agbot: it gets the rights of agbots")
            .audit(Subject::AgbotApproval)
            .success("approved"),
        delete(ONE, "withdraw_agbot_approval", withdraw)
            .doc(TAG, "Withdraws the approval of an agbot: it has the rights of its owner only")
            .audit(Subject::AgbotApproval)
            .success("withdrawn"),
    ]
}

async fn list_approvals(
    op: Op<OrgPath, Query<AgbotApprovalsQuery>>,
    _: Permission<right::AgbotApprovalsRead>,
) -> Result<Json<AgbotApprovalsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, parameters: Query(query) } =
        op;
    let after_agbot = query.after_agbot.unwrap_or_default();
    let after_entry = query.after_entry.as_deref().map(place).transpose()?.unwrap_or_default();
    let limit = i64::from(MOST_APPROVALS);
    let (agbots, entries) = exchange
        .database()
        .read(async |connection| {
            let agbots = agbot_approval::list_of_org(connection, &org, &after_agbot, limit).await?;
            let entries = served_entry::list_served_to(connection, &org, &after_entry, limit).await?;
            Ok::<_, StoreError>((agbots, entries))
        })
        .await?;
    Ok(Json(AgbotApprovalsResponse {
        agbots: agbots.into_iter().map(|row| shown_agbot(&org, row)).collect(),
        entries: entries.into_iter().map(shown_entry).collect(),
    }))
}

/// Reads a place in the list of entries.
fn place(text: &str) -> Result<ServedPlace, ApiError> {
    let mut parts = text.splitn(4, '/').map(str::to_owned);
    let (Some(org), Some(agbot), Some(kind), Some(entry)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(ApiError::invalid_input(format!(
            "afterEntry: '{text}' is no agbot with kind and entry: organization/agbot/kind/entry"
        )));
    };
    Ok(ServedPlace { org, agbot, is_policy: kind_of(&kind)? == EntryKind::Policy, entry })
}

fn kind_of(word: &str) -> Result<EntryKind, ApiError> {
    match word {
        PATTERN => Ok(EntryKind::Pattern),
        POLICY => Ok(EntryKind::Policy),
        other => {
            Err(ApiError::invalid_input(format!("'{other}' is not a kind of entry: {PATTERN} or {POLICY}")))
        }
    }
}

async fn get_approval(
    op: Op<ResourcePath>,
    _: Permission<right::AgbotRead>,
) -> Result<Json<AgbotApproval>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let found = exchange
        .database()
        .read(async |connection| agbot_approval::find(connection, &org, &id).await)
        .await?;
    found.map(|row| Json(shown_agbot(&org, row))).ok_or_else(|| missing(&org, &id))
}

fn shown_agbot(org: &str, row: ApprovalRow) -> AgbotApproval {
    let (by, at) = row.approved.unzip();
    AgbotApproval {
        agbot: format!("{org}/{}", row.agbot),
        owner: row.owner,
        approved_by: by,
        approved_at: at.map(wire_time),
    }
}

fn shown_entry(entry: ServedTo) -> ServedConfirmation {
    let ServedTo { agbot, subject, row } = entry;
    ServedConfirmation {
        agbot: agbot.to_string(),
        kind: match subject {
            EntryKind::Pattern => PATTERN.to_owned(),
            EntryKind::Policy => POLICY.to_owned(),
        },
        entry: row.entry,
        subject: format!("{}/{}", row.subject_org, row.subject),
        confirmed_by: row.confirmed_by,
        last_updated: wire_time(row.updated_at),
    }
}

/// An entry of an agbot in a path below the organization of the nodes.
struct EntryPath {
    /// Organization of the nodes.
    org: String,
    agbot: AgbotId,
    kind: String,
    entry: String,
}

impl PathParameters for EntryPath {
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        let org = values.next()?.to_owned();
        let agbot = AgbotId::new(values.next()?, values.next()?);
        Some(EntryPath { org, agbot, kind: values.next()?.to_owned(), entry: values.next()?.to_owned() })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }
}

async fn confirm_entry(
    op: Op<EntryPath>,
    permission: Permission<right::AgbotApprove>,
) -> Result<Created, ApiError> {
    let by = op.caller.to_string();
    set_confirmed(&op, &permission, Some(&by)).await?;
    Ok(created(format!("entry '{}' of agbot '{}' confirmed", op.path.entry, op.path.agbot)))
}

async fn withdraw_entry(
    op: Op<EntryPath>,
    permission: Permission<right::AgbotApprove>,
) -> Result<NoContent, ApiError> {
    set_confirmed(&op, &permission, None).await?;
    Ok(NoContent)
}

async fn set_confirmed(
    op: &Op<EntryPath>,
    permission: &Permission<right::AgbotApprove>,
    by: Option<&str>,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: EntryPath { org, agbot, kind, entry }, .. } =
        op;
    let subject = kind_of(kind)?;
    op.write(permission, "served_entry.confirm", async |mut tx| {
        if !served_entry::confirm(&mut tx, (subject, agbot), entry, org, by, exchange.now()).await? {
            return Err(ApiError::not_found(format!(
                "entry '{entry}' of agbot '{agbot}' for nodes of organization '{org}' not found"
            )));
        }
        tx.finish([agbot_change(agbot.org(), agbot.name(), AGBOT_APPROVAL, "modified")])
    })
    .await
}

async fn approve(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotApprove>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "agbot.approve", async |mut tx| {
        if !agbot_approval::approve(&mut tx, org, id, &**caller, exchange.now()).await? {
            return Err(missing(org, id));
        }
        tx.finish([agbot_change(org, id, AGBOT_APPROVAL, "modified"), forget_login(org, id)])
    })
    .await?;
    Ok(created(format!("agbot '{org}/{id}' approved")))
}

async fn withdraw(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotApprove>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    op.write(&permission, "agbot.withdraw_approval", async |mut tx| {
        if !agbot_approval::withdraw(&mut tx, org, id).await? {
            return Err(missing(org, id));
        }
        tx.finish(withdrawn(org, id))
    })
    .await?;
    Ok(NoContent)
}

/// Ends the approval of an agbot that gets another owner or token from a caller who may not approve it: who has the new token would have
/// rights that no administrator gave. An agbot that replaces its own token has them already.
pub(super) async fn withdraw_if_replaced(
    tx: &mut WriteTx<right::AgbotWrite>,
    caller: &Caller,
    row: &AgbotRow,
    token_hash: Option<&str>,
) -> Result<Vec<Change>, ApiError> {
    let keeps = caller.may_approve_in(&row.org) || caller.role.is_agbot();
    if keeps || !agbot_approval::withdraw_if_replaced(tx, row, token_hash).await? {
        return Ok(Vec::new());
    }
    Ok(withdrawn(&row.org, &row.agbot).into())
}

fn withdrawn(org: &str, id: &str) -> [Change; 2] {
    [agbot_change(org, id, AGBOT_APPROVAL, "modified"), forget_login(org, id)]
}

fn missing(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("agbot '{org}/{id}' not found"))
}
