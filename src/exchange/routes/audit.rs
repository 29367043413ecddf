//! The audit record of an organization: reading it, and checking its chain.

use axum::Json;
use evenkeel_access::{Permission, Role, right};
use evenkeel_exchange_store::audit_chain::{self, AuditFilter, Chain};
use evenkeel_wire::exchange::audit::{
    AuditQuery, AuditResponse, AuditVerifyQuery, AuditVerifyResponse, BrokenRecord, ChainPlace, ChainWalk,
    NO_HASH, hex,
};
use jiff::Timestamp;

use crate::audit::seal::{seal_all, shown};
use crate::extract::Query;
use crate::operation::row::get;
use crate::operation::{Op, Operation, OrgPath};
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
            .doc(TAG, "Lists who did what in an organization, in pages, oldest or newest first")
            .success("the records; none when there are no more"),
        get("/orgs/{organization}/audit/verify", "verify_audit_records", verify_records)
            .doc(TAG, "Walks the chain of audit records and names the first one that is wrong or missing")
            .success("whether the chain holds"),
    ]
}

async fn list_records(
    op: Op<OrgPath, Query<AuditQuery>>,
    _: Permission<right::AuditRead>,
) -> Result<Json<AuditResponse>, ApiError> {
    let Op { exchange, caller, path: OrgPath { org }, parameters: Query(query), .. } = op;
    let limit = within("limit", query.limit.unwrap_or(USUAL_LIMIT), 1, MOST_LISTED)?;
    let mut after = within("after", query.after.unwrap_or(0), 0, i64::MAX)?;
    let (since, until) =
        (instant("since", query.since.as_deref())?, instant("until", query.until.as_deref())?);
    for (name, text) in [("caller", &query.caller), ("resource", &query.resource)] {
        if text.as_deref().is_some_and(|text| text.contains('\0')) {
            return Err(ApiError::invalid_input(format!("{name}: it holds a NUL character")));
        }
    }
    // Whoever reads after a write finds it.
    seal_all(exchange.database()).await?;
    let database = exchange.database();
    if caller.role == Role::OrgAdmin {
        // What was done to another organization of the same name is not theirs to read.
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
    let Op { exchange, path: OrgPath { org }, parameters: Query(query), .. } = op;
    let limit = within("limit", query.limit.unwrap_or(MOST_CHECKED), 1, MOST_CHECKED)?;
    let after = query.after.map(|after| within("after", after, 0, i64::MAX)).transpose()?;
    seal_all(exchange.database()).await?;
    let mut outcome = verify(&exchange, &org, after, limit).await?;
    if outcome.broken.is_some() {
        // Records may have been pruned meanwhile: then the chain begins elsewhere, and the second look finds it whole.
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
