//! Revisions of the documents that persons write: who changed what, when and why.
//!
//! They are read only: to restore a document, a client writes that of a revision again, so that every check of a write applies.

use axum::Json;
use evenkeel_access::{Caller, Permission, Right, Role, right, seen_members, sees_admin_descriptions};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::document_revision::{self, RevisedDocument, RevisionRow};
use evenkeel_exchange_store::ha_group;
use evenkeel_wire::exchange::revision::{
    Revision, RevisionQuery, RevisionResponse, RevisionsQuery, RevisionsResponse,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use serde_json::Value;

use super::patch::patch;
use crate::extract::Query;
use crate::operation::row::get;
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, PartPath, ResourcePath};
use crate::permission::{authorize, target};
use crate::{ApiError, Exchange};

const TAG: &str = "revisions";
const USUAL_LIMIT: i64 = 20;
const MOST_LISTED: i64 = 100;
/// Audience of the descriptions of HA groups that administrators created.
const ADMINISTRATORS: &str = "administrators";

/// A kind of document with revisions.
trait Revised: Send + Sync + 'static {
    /// Kind of the document.
    const KIND: Subject;
    /// The right to read the revisions of one that exists.
    type Read: Right;
    /// The right to write such a document, by which the revisions of one that was removed are read.
    type Write: Right;
}

/// Declares kinds with their rights and rows: path of the document, and the names of the operations that list revisions and read one.
macro_rules! revised {
    ($($kind:ident: $read:ident, $write:ident, $noun:literal, $path:literal $(or $alias:literal)?, $list:literal, $get:literal;)+) => {
        $(
            struct $kind;

            impl Revised for $kind {
                const KIND: Subject = Subject::$kind;
                type Read = right::$read;
                type Write = right::$write;
            }
        )+

        fn of_resources() -> Vec<Operation> {
            vec![$(
                get(concat!($path, "/revisions"), $list, list_revisions::<$kind>)
                    $(.alias(concat!($alias, "/revisions")))?
                    .doc(TAG, concat!("Lists the revisions of ", $noun, ", newest first")),
                get(concat!($path, "/revisions/{revision}"), $get, get_revision::<$kind>)
                    $(.alias(concat!($alias, "/revisions/{revision}")))?
                    .doc(TAG, concat!("Reads a revision of ", $noun, ", and compares it with another one")),
            )+]
        }
    };
}

revised! {
    DeploymentPolicy: DeploymentPolicyRead, DeploymentPolicyWrite, "a deployment policy", "/orgs/{organization}/business/policies/{policy}"
        or "/orgs/{organization}/deployment/policies/{policy}", "list_deployment_policy_revisions", "get_deployment_policy_revision";
    ManagementPolicy: ManagementPolicyRead, ManagementPolicyWrite, "a management policy",
        "/orgs/{organization}/managementpolicies/{policy}", "list_management_policy_revisions", "get_management_policy_revision";
    Service: ServiceRevisionsRead, ServiceWrite, "a service", "/orgs/{organization}/services/{service}", "list_service_revisions",
        "get_service_revision";
    ServicePolicy: ServiceRevisionsRead, ServiceWrite, "the policy of a service", "/orgs/{organization}/services/{service}/policy",
        "list_service_policy_revisions", "get_service_policy_revision";
    Pattern: PatternRevisionsRead, PatternWrite, "a pattern", "/orgs/{organization}/patterns/{pattern}", "list_pattern_revisions",
        "get_pattern_revision";
    HaGroup: NodesRead, HaGroupWrite, "an HA group", "/orgs/{organization}/hagroups/{hagroup}", "list_ha_group_revisions",
        "get_ha_group_revision";
    NodePolicy: NodeRead, NodeWrite, "the policy of a node", "/orgs/{organization}/nodes/{node}/policy", "list_node_policy_revisions",
        "get_node_policy_revision";
    NodeOrchestration: NodeRead, NodeOrchestrationWrite, "the orchestration settings of a node",
        "/orgs/{organization}/nodes/{node}/orchestration/spec", "list_node_orchestration_revisions", "get_node_orchestration_revision";
}

const SETTINGS: &str = "/orgs/{organization}/orchestration/revisions";
const ONE_OF_SETTINGS: &str = "/orgs/{organization}/orchestration/revisions/{revision}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut all = of_resources();
    all.extend([
        get(SETTINGS, "list_org_orchestration_revisions", list_settings_revisions)
            .doc(TAG, "Lists the revisions of the settings of an organization, newest first"),
        get(ONE_OF_SETTINGS, "get_org_orchestration_revision", get_settings_revision).doc(
            TAG,
            "Reads a revision of the settings of an organization, and compares it with another one",
        ),
    ]);
    all.into_iter()
        .map(|operation| {
            operation
                .success("what was asked for")
                .response::<ApiResponse>(404, "there is no such document or revision")
        })
        .collect()
}

/// Describes the header with the reason of a write of a document that has revisions.
pub fn with_reason(operation: Operation) -> Operation {
    let is_revised = operation.subject.and_then(Subject::named).is_some_and(Subject::has_revisions);
    if is_revised || operation.operation.ends_with("_ha_group_document") && operation.is_audited() {
        let text =
            "Reason for the write, which its revision shows: at most 1,000 printable characters of UTF-8.";
        operation.header("X-Reason", text, "ticket 4711")
    } else {
        operation
    }
}

async fn list_revisions<K: Revised>(
    op: Op<ResourcePath, Query<RevisionsQuery>>,
    _: Permission<K::Read>,
) -> Result<Json<RevisionsResponse>, ApiError> {
    let Op { request, path: ResourcePath { org, id }, parameters: Query(query) } = op;
    list::<K::Write>(&request, K::KIND, (&org, &id), &query).await
}

async fn get_revision<K: Revised>(
    op: Op<PartPath, Query<RevisionQuery>>,
    _: Permission<K::Read>,
) -> Result<Json<RevisionResponse>, ApiError> {
    let Op { request, path: PartPath { org, id, part }, parameters: Query(query) } = op;
    find::<K::Write>(&request, K::KIND, (&org, &id), (&part, &query)).await
}

async fn list_settings_revisions(
    op: Op<OrgPath, Query<RevisionsQuery>>,
    _: Permission<right::OrgRead>,
) -> Result<Json<RevisionsResponse>, ApiError> {
    let Op { request, path: OrgPath { org }, parameters: Query(query) } = op;
    list::<right::OrgChange>(&request, Subject::Organization, (&org, &org), &query).await
}

async fn get_settings_revision(
    op: Op<ResourcePath, Query<RevisionQuery>>,
    _: Permission<right::OrgRead>,
) -> Result<Json<RevisionResponse>, ApiError> {
    let Op { request, path: ResourcePath { org, id: number }, parameters: Query(query) } = op;
    find::<right::OrgChange>(&request, Subject::Organization, (&org, &org), (&number, &query)).await
}

async fn list<W: Right>(
    request: &ExchangeRequest,
    kind: Subject,
    (org, name): (&str, &str),
    query: &RevisionsQuery,
) -> Result<Json<RevisionsResponse>, ApiError> {
    let limit = within("limit", query.limit.unwrap_or(USUAL_LIMIT), MOST_LISTED)?;
    let after = query.after.map(|after| within("after", after, i64::MAX)).transpose()?;
    let seen = Seen::of(&request.caller, kind);
    let document = seen.document((org, name));
    let exists = require_readable::<W>(request, document).await?;
    let database = request.exchange.database();
    let rows = database
        .read(async |connection| document_revision::list(connection, document, after, limit + 1).await)
        .await?;
    if rows.is_empty() && !exists && after.is_none() {
        return Err(absent((org, name)));
    }
    let next = rows.get(usize::try_from(limit).unwrap_or(usize::MAX) - 1).map(|row| row.revision);
    let next = next.filter(|_| rows.len() as i64 > limit);
    let revisions = rows.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).map(shown).collect();
    Ok(Json(RevisionsResponse { revisions, next }))
}

async fn find<W: Right>(
    request: &ExchangeRequest,
    kind: Subject,
    id: (&str, &str),
    (number, query): (&str, &RevisionQuery),
) -> Result<Json<RevisionResponse>, ApiError> {
    let not_a_number = |_| not_within("revision", i64::MAX);
    let number = within("revision", number.parse().map_err(not_a_number)?, i64::MAX)?;
    let from = query.from.map(|from| within("from", from, i64::MAX)).transpose()?;
    let seen = Seen::of(&request.caller, kind);
    require_readable::<W>(request, seen.document(id)).await?;
    let (about, document) = seen.read(request, id, number).await?;
    let patch = match from {
        None => None,
        Some(from) => {
            let (_, before) = seen.read(request, id, from).await?;
            Some(patch(&before, &document))
        }
    };
    Ok(Json(RevisionResponse { about, document, patch }))
}

/// Asks for the right to write a document that does not exist: then nobody owns it whose reads could decide. Returns whether it exists.
async fn require_readable<W: Right>(
    request: &ExchangeRequest,
    document: RevisedDocument<'_>,
) -> Result<bool, ApiError> {
    let ExchangeRequest { exchange, caller, .. } = request;
    let exists = exchange
        .database()
        .read(async |connection| document_revision::exists(connection, document).await)
        .await?;
    if !exists {
        let target = target::<W>(caller, Some(document.org), Some(document.name));
        authorize::<W>(exchange, caller, target).await.map(drop)?;
    }
    Ok(exists)
}

/// The part of revisions that a caller sees.
struct Seen {
    kind: Subject,
    audience: Option<String>,
}

impl Seen {
    fn of(caller: &Caller, kind: Subject) -> Seen {
        let account = match (kind, caller.role) {
            (Subject::Service | Subject::ServicePolicy, _) => caller.visible_owner(),
            (Subject::NodePolicy | Subject::NodeOrchestration, Role::Node) => Some(caller.account()),
            (Subject::NodePolicy | Subject::NodeOrchestration, _) => caller.visible_owner(),
            _ => None,
        };
        Seen { kind, audience: account.map(|account| account.to_string()) }
    }

    fn document<'a>(&'a self, (org, name): (&'a str, &'a str)) -> RevisedDocument<'a> {
        RevisedDocument { kind: self.kind, org, name, audience: self.audience.as_deref() }
    }

    /// Reads a revision as the caller sees it.
    ///
    /// # Errors
    /// 404 when there is none, or none that the caller sees.
    async fn read(
        &self,
        request: &ExchangeRequest,
        id: (&str, &str),
        number: i64,
    ) -> Result<(Revision, Value), ApiError> {
        let ExchangeRequest { exchange, caller, .. } = request;
        let document = self.document(id);
        let found = exchange
            .database()
            .read(async |connection| document_revision::find(connection, document, number).await)
            .await?;
        let (org, name) = id;
        let (row, document) = found
            .ok_or_else(|| ApiError::not_found(format!("revision {number} of '{org}/{name}' not found")))?;
        let mut document = document.unwrap_or_default();
        if self.kind == Subject::HaGroup {
            hide_of_group(exchange, (caller, org), row.audience == ADMINISTRATORS, &mut document).await?;
        }
        Ok((shown(row), document))
    }
}

/// Hides what a read of the HA group does not show the caller: nodes of others, and the descriptions of administrators.
async fn hide_of_group(
    exchange: &Exchange,
    (caller, org): (&Caller, &str),
    is_of_administrator: bool,
    document: &mut Value,
) -> Result<(), ApiError> {
    let Some(members) = document.as_object_mut() else { return Ok(()) };
    if is_of_administrator && !sees_admin_descriptions(caller, org) {
        members.insert("description".to_owned(), Value::from(""));
    }
    let (Some(owner), Some(nodes)) = (seen_members(caller), members.get_mut("members")) else {
        return Ok(());
    };
    let named: Vec<String> =
        nodes.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let owned = exchange
        .database()
        .read(async |connection| ha_group::list_owned(connection, org, &named, &owner).await)
        .await?;
    *nodes = Value::from(owned);
    Ok(())
}

fn shown(row: RevisionRow) -> Revision {
    Revision {
        revision: row.revision,
        time: wire_time(row.recorded_at),
        author: row.author,
        reason: row.reason,
        operation: row.operation,
        bytes: row.bytes,
    }
}

fn within(name: &str, value: i64, most: i64) -> Result<i64, ApiError> {
    if (1..=most).contains(&value) { Ok(value) } else { Err(not_within(name, most)) }
}

fn not_within(name: &str, most: i64) -> ApiError {
    ApiError::invalid_input(format!("{name}: it must be an integer from 1 to {most}"))
}

fn absent((org, name): (&str, &str)) -> ApiError {
    ApiError::not_found(format!("'{org}/{name}' has no revisions"))
}
