//! The audit record of an organization: reading it, and checking its chain.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::Json;
use evenkeel_access::{Permission, Role, right};
use evenkeel_api::Refusal;
use evenkeel_exchange_store::audit::{self, NewAuditRecord};
use evenkeel_exchange_store::audit_chain::{self, AuditFilter, Chain};
use evenkeel_wire::exchange::audit::{
    AuditQuery, AuditResponse, AuditVerifyQuery, AuditVerifyResponse, BrokenRecord, ChainPlace, ChainWalk,
    NO_HASH, PostActionRecord, hex,
};
use evenkeel_wire::exchange::forwarded::FORWARDED_BY;
use http::request::Parts;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use uuid::Uuid;

use crate::audit::request::{cut, role_text};
use crate::audit::seal::{seal_all, shown};
use crate::auth::{ActingAgbot, ClientAddress};
use crate::error::{Created, created};
use crate::extract::{Body, Parameters, Query};
use crate::operation::row::{get, post};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath};
use crate::routes::plan_approval::gate::check_action as check_action_approval;
use crate::{ApiError, Exchange};

const TAG: &str = "audit";
const USUAL_LIMIT: i64 = 100;
const MOST_LISTED: i64 = 1_000;
const MOST_CHECKED: i64 = 100_000;

/// Operations by which nodes report how they are; they are most of the writes of a fleet.
const REPORTS: [&str; 6] = [
    "replace_node_status",
    "delete_node_status",
    "replace_node_errors",
    "delete_node_errors",
    "replace_management_status",
    "delete_management_status",
];

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get("/orgs/{organization}/audit", "list_audit_records", list_records)
            .doc(TAG, "Lists the audit records of an organization, in pages, oldest or newest first")
            .success("the records; none when there are no more"),
        get("/orgs/{organization}/audit/verify", "verify_audit_records", verify_records)
            .doc(TAG, "Verifies the chain of audit records and names the first one that is invalid or missing")
            .success("the result of the check"),
        post("/orgs/{organization}/audit/actions", "record_action", record_action)
            .doc(TAG, "Records an action that an approved agbot is about to carry out for the caller, or has refused")
            .unaudited("it is the record of another request")
            .success("recorded, now or before")
            .header(FORWARDED_BY, "Credentials of the agbot, in the form of `Authorization`.", "Basic b3JnL2FnYm90OnRva2Vu"),
    ]
}

/// Status of the record of an action that is about to be carried out.
const BEGUN: u16 = 202;

/// Longest name of an operation.
const LONGEST_NAME: usize = 64;
const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// The agbot that makes the request for the caller, and the address of the caller.
pub(crate) struct Acting {
    agbot: Option<ActingAgbot>,
    address: Option<IpAddr>,
}

impl Parameters for Acting {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let address = request.extensions.get::<ClientAddress>().and_then(|address| address.0);
        Ok(Acting { agbot: request.extensions.get::<ActingAgbot>().cloned(), address })
    }
}

async fn record_action(
    op: Op<OrgPath, Acting>,
    permission: Permission<right::ActionRecord>,
    Body(request): Body<PostActionRecord>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: Acting { agbot, address },
    } = &op;
    if !agbot.as_ref().is_some_and(|agbot| agbot.is_of(org)) {
        return Err(ApiError::access_denied(format!(
            "actions of organization '{org}' are recorded by approved agbots of it or of the hub"
        )));
    }
    let (action, status) = check_action(&request, org)?;
    if request.status == 403 && !exchange.limiter().admits_refusal(caller) {
        exchange.auditor().note_left_out();
        return Ok(created("too many refusals of this caller to record all of them"));
    }
    let record = NewAuditRecord {
        org: cut(org),
        recorded_at: exchange.now(),
        caller: caller.to_string(),
        caller_role: role_text(caller),
        address: address.map(|address| address.to_string()).unwrap_or_default(),
        request: cut(&request.request),
        method: request.method.clone(),
        operation: Cow::Owned(request.operation.clone()),
        resource: cut(&request.resource),
        status,
        state_before: None,
    };
    op.write(&permission, "audit.record_action", async |mut tx| {
        if request.status == BEGUN {
            let action = (request.operation.as_str(), request.resource.as_str());
            check_action_approval(&mut tx, (caller, org), action).await?;
        }
        if audit::insert_action(&mut tx, action, record.recorded_at).await? {
            audit::insert_records(&mut tx, std::slice::from_ref(&record)).await?;
        }
        tx.finish([])
    })
    .await?;
    exchange.auditor().note_written();
    Ok(created("recorded"))
}

/// Validates an agbot's description of an action.
fn check_action(request: &PostActionRecord, org: &str) -> Result<(Uuid, i16), ApiError> {
    let wrong = |text: &str| Err(ApiError::invalid_input(text));
    let is_name = |name: &str| {
        (1..=LONGEST_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
    };
    let Ok(action) = request.action.parse() else { return wrong("action: it is not a UUID") };
    if !is_name(&request.operation) {
        return wrong("operation: it is not the name of an operation");
    }
    if !METHODS.contains(&request.method.as_str()) {
        return wrong("method: it is none that changes something");
    }
    // The path is as the caller sent it, percent-encoded.
    let named = request.resource.strip_prefix("/orgs/").and_then(|rest| rest.split('/').next());
    if named.is_none_or(|named| percent_decode_str(named).decode_utf8().ok().as_deref() != Some(org)) {
        return wrong("resource: it is not a path of the organization");
    }
    match i16::try_from(request.status) {
        Ok(status @ 200..=599) => Ok((action, status)),
        _ => wrong("status: it is not from 200 to 599"),
    }
}

async fn list_records(
    op: Op<OrgPath, Query<AuditQuery>>,
    _: Permission<right::AuditRead>,
) -> Result<Json<AuditResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: Query(query),
    } = op;
    let limit = within("limit", query.limit.unwrap_or(USUAL_LIMIT), 1, MOST_LISTED)?;
    let mut after = within("after", query.after.unwrap_or(0), 0, i64::MAX)?;
    let (since, until) =
        (instant("since", query.since.as_deref())?, instant("until", query.until.as_deref())?);
    for (name, text) in [("caller", &query.caller), ("resource", &query.resource)] {
        if text.as_deref().is_some_and(|text| text.contains('\0')) {
            return Err(ApiError::invalid_input(format!("{name}: it holds a NUL character")));
        }
    }
    // A read after a write finds its record.
    seal_all(exchange.database()).await?;
    let database = exchange.database();
    if !matches!(caller.role, Role::Root | Role::HubAdmin) {
        // Records of an earlier organization with the same name are not readable.
        let chain = database.read(async |connection| audit_chain::find_chain(connection, &org).await).await?;
        after = after.max(chain.map_or(0, |chain| chain.opened_at - 1));
    }
    let filter = AuditFilter {
        after,
        caller: query.caller.as_deref(),
        resource: query.resource.as_deref(),
        since,
        until,
        limit: limit + 1,
    };
    let mut rows = match query.newest_first {
        Some(true) => {
            let before = within("before", query.before.unwrap_or(i64::MAX), 0, i64::MAX)?;
            let without = if query.without_reports == Some(true) { &REPORTS[..] } else { &[] };
            let rows = database.read(async |connection| {
                audit_chain::list_newest_records(connection, &org, &filter, before, without).await
            });
            rows.await?
        }
        _ => {
            let rows =
                database.read(async |connection| audit_chain::list_records(connection, &org, &filter).await);
            rows.await?
        }
    };
    let is_more = rows.len() as i64 > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = rows.last().filter(|_| is_more).map(|row| row.number);
    Ok(Json(AuditResponse { records: rows.iter().map(shown).collect(), next }))
}

async fn verify_records(
    op: Op<OrgPath, Query<AuditVerifyQuery>>,
    _: Permission<right::AuditRead>,
) -> Result<Json<AuditVerifyResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, parameters: Query(query) } =
        op;
    let limit = within("limit", query.limit.unwrap_or(MOST_CHECKED), 1, MOST_CHECKED)?;
    let after = query.after.map(|after| within("after", after, 0, i64::MAX)).transpose()?;
    seal_all(exchange.database()).await?;
    let mut outcome = verify(&exchange, &org, after, limit).await?;
    if outcome.broken.is_some() {
        // Records may have been pruned meanwhile: then the chain begins elsewhere, and the second read finds it whole.
        outcome = verify(&exchange, &org, after, limit).await?;
    }
    Ok(Json(outcome))
}

async fn verify(
    exchange: &Exchange,
    org: &str,
    after: Option<i64>,
    limit: i64,
) -> Result<AuditVerifyResponse, ApiError> {
    let database = exchange.database();
    let chain = database.read(async |connection| audit_chain::find_chain(connection, org).await).await?;
    let end = chain.as_ref().map_or_else(nothing, last_place);
    let chain_begin = chain.as_ref().map_or_else(nothing, begin_place);
    let begin = match after {
        Some(number) if number != chain_begin.number => {
            let filter = AuditFilter { after: number - 1, limit: 1, ..AuditFilter::default() };
            let rows = database
                .read(async |connection| audit_chain::list_records(connection, org, &filter).await)
                .await?;
            let record = rows.first().filter(|row| row.number == number);
            let record =
                record.ok_or_else(|| ApiError::not_found(format!("there is no audit record {number}")))?;
            ChainPlace { number, hash: hex(&record.hash) }
        }
        _ => chain_begin,
    };
    let mut walk = ChainWalk::after(begin.clone());
    let mut broken: Option<BrokenRecord> = None;
    while broken.is_none() {
        let checked = walk.place().number - begin.number;
        let wanted = MOST_LISTED.min(limit - checked).min(end.number - walk.place().number);
        if wanted <= 0 {
            break;
        }
        let filter = AuditFilter { after: walk.place().number, limit: wanted, ..AuditFilter::default() };
        let rows = database
            .read(async |connection| audit_chain::list_records(connection, org, &filter).await)
            .await?;
        if rows.is_empty() {
            break;
        }
        broken = rows.iter().try_for_each(|row| walk.step(&shown(row))).err();
    }
    let checked = walk.place().number - begin.number;
    let is_limited = broken.is_none() && checked >= limit && walk.place().number < end.number;
    if broken.is_none() && !is_limited {
        broken = walk.finish(&end).err();
    }
    Ok(AuditVerifyResponse {
        intact: broken.is_none(),
        checked,
        begin,
        next: is_limited.then_some(walk.place().number),
        end: walk.place().clone(),
        broken,
    })
}

fn nothing() -> ChainPlace {
    ChainPlace { number: 0, hash: NO_HASH.to_owned() }
}

fn begin_place(chain: &Chain) -> ChainPlace {
    ChainPlace { number: chain.begin_number, hash: hex(&chain.begin_hash) }
}

fn last_place(chain: &Chain) -> ChainPlace {
    ChainPlace { number: chain.last_number, hash: hex(&chain.last_hash) }
}

fn within(name: &str, value: i64, least: i64, most: i64) -> Result<i64, ApiError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(ApiError::invalid_input(format!("{name}: {value} is not from {least} to {most}")))
}

fn instant(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    text.map(|text| {
        text.parse()
            .map_err(|_| ApiError::invalid_input(format!("{name}: '{text}' is not an RFC 3339 instant")))
    })
    .transpose()
}
