//! The patterns that an agbot serves.
//!
//! Source: exchange-api 4.5.

use evenkeel_access::{Permission, right};
use evenkeel_api::List;
use evenkeel_exchange_store::audit_state;
use evenkeel_exchange_store::served_entry::{ServedFilter, ServedRow, Subject};
use evenkeel_wire::exchange::agbot::{
    PostServedPattern, ServedPattern, ServedPatternsQuery, ServedPatternsResponse,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;

use super::served_entry::{self, Kind, require_addable};
use crate::ApiError;
use crate::error::Created;
use crate::extract::{Body, Query};
use crate::operation::row::{delete, get, post};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::shape::pattern_or_exact;

const TAG: &str = "agbot pattern";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/patterns";
const ALL_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/patterns";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/patterns/{entry}";
const ONE_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/patterns/{entry}";

struct ServedPatterns;

impl Kind for ServedPatterns {
    const SUBJECT: Subject = Subject::Pattern;
    const OPEN: &'static str = r#"{"patterns":{"#;
    const WORDS: [&'static str; 2] = ["pattern", "patterns"];
    const RESOURCE: &'static str = "agbotpatterns";
    const TRANSACTIONS: [&'static str; 2] = ["served_pattern.create", "served_pattern.delete"];
    const CONSTRAINTS: [&'static str; 2] = ["agbot_pattern_org_agbot_entry_key", "agbot_pattern_agbot_fk"];
    type List = ServedPatternsResponse;
    type Entry = ServedPattern;

    fn shape(row: ServedRow) -> ServedPattern {
        ServedPattern {
            last_updated: wire_time(row.updated_at),
            node_orgid: row.node_org,
            pattern: row.subject,
            pattern_orgid: row.subject_org,
        }
    }
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_served_patterns", list_patterns)
            .alias(ALL_ALIAS)
            .doc(TAG, "Lists the patterns that an agbot serves")
            .success("the patterns")
            .empty("there is none"),
        post(ALL, "create_served_pattern", create_pattern)
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve a pattern")
            .audit(audit_state::Subject::AgbotPattern)
            .success("added")
            .response::<ApiResponse>(409, "it is served already"),
        delete(ALL, "delete_served_patterns", served_entry::delete_entries::<ServedPatterns>)
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve no patterns")
            .audit(audit_state::Subject::AgbotPattern)
            .success("removed"),
        get(ONE, "get_served_pattern", served_entry::get_entry::<ServedPatterns>)
            .alias(ONE_ALIAS)
            .doc(TAG, "Returns one of the patterns that an agbot serves")
            .success("the entry")
            .empty("it is not there"),
        delete(ONE, "delete_served_pattern", served_entry::delete_entry::<ServedPatterns>)
            .alias(ONE_ALIAS)
            .doc(TAG, "Makes an agbot no longer serve one of the patterns")
            .audit(audit_state::Subject::AgbotPattern)
            .success("removed"),
    ]
}

async fn list_patterns(
    op: Op<ResourcePath, (Query<ServedPatternsQuery>, Paging)>,
    _: Permission<right::AgbotRead>,
) -> Result<List<ServedPatternsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path, parameters: (Query(query), paging) } =
        op;
    let filter = ServedFilter {
        entry: None,
        subject: query.deployment_pattern.map(pattern_or_exact),
        subject_org: query.deployment_pattern_organization.map(pattern_or_exact),
        node_org: query.node_organization.map(pattern_or_exact),
        is_confirmed: query.confirmed == Some(true),
    };
    served_entry::read::<ServedPatterns>(exchange, &caller, path, filter, paging).await
}

async fn create_pattern(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PostServedPattern>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, .. }, .. } = &op;
    require_addable(caller, org)?;
    let node_org = request.node_orgid.unwrap_or_else(|| request.pattern_orgid.clone());
    let row = ServedRow {
        entry: format!("{}_{}_{node_org}", request.pattern_orgid, request.pattern),
        subject_org: request.pattern_orgid,
        subject: request.pattern,
        confirmed_by: None,
        node_org,
        updated_at: exchange.now(),
    };
    served_entry::create::<ServedPatterns>(&op, &permission, &row, &row.node_org).await
}
