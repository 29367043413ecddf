//! The event log of deployment policies and nodes, in the order of its numbers.
//!
//! Source: orchestration 2.6.

use axum::Json;
use evenkeel_agbot::EngineHandle;
use evenkeel_agbot_store::event::{self, NumberedEvent, PolicyEventFilter};
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{GroupId, PolicyId};
use evenkeel_store::StoreError;
use evenkeel_wire::agbot::orchestration::{
    OrchestrationEvents, OrchestrationEventsQuery, OrganizationEventsQuery,
};

use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::PolicyPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use crate::shown::SeenNodes;
use crate::shown::workload_shape::Shape;

/// Events that are listed if the caller names no number.
const EVENTS: u16 = 500;
const MOST_EVENTS: i64 = 1000;

impl NamedQuery for OrchestrationEventsQuery {
    const KNOWN: Members = known(&["since", "kind", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let since = parameters.number("since", 0..=i64::MAX)?;
        let limit = parameters.number("limit", 1..=MOST_EVENTS)?;
        let limit = limit.and_then(|limit| u16::try_from(limit).ok());
        Ok(Self { since, kind: parameters.text("kind")?, limit })
    }
}

impl NamedQuery for OrganizationEventsQuery {
    const KNOWN: Members = known(&["since", "kind", "group", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let group = parameters.text("group")?;
        let OrchestrationEventsQuery { since, kind, limit } = OrchestrationEventsQuery::take(parameters)?;
        Ok(Self { since, kind, group, limit })
    }
}

/// Lists the events about a policy.
pub(super) async fn list_policy_events(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<OrchestrationEventsQuery>,
) -> Result<Json<OrchestrationEvents>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let seen = permission.into_proof().seen;
    let policy = PolicyId::new(&org, &name);
    let filter = filter(query);
    let rows = context
        .database
        .read(async |connection| event::list_of_policy(connection, &policy, &filter).await)
        .await;
    Ok(Json(shown(&context, rows, &policy, &seen)?))
}

/// Lists the events about the policies of an organization, and about the conditions of its nodes.
pub(super) async fn list_orchestration_events(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<OrganizationEventsQuery>,
) -> Result<Json<OrchestrationEvents>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let OrganizationEventsQuery { since, kind, group, limit } = query;
    let filter = filter(OrchestrationEventsQuery { since, kind, limit });
    let group = group.map(|name| GroupId::new(&org, &name));
    let nodes = seen.ids_in(&org);
    let about = (nodes.as_deref(), group.as_ref());
    let rows = context
        .database
        .read(async |connection| event::list_of_org(connection, &org, about, &filter).await)
        .await;
    Ok(Json(shown(&context, rows, &PolicyId::new(&org, ""), &seen)?))
}

fn filter(query: OrchestrationEventsQuery) -> PolicyEventFilter {
    PolicyEventFilter {
        since: query.since,
        kind: query.kind.map(|kind| pattern(&kind)),
        limit: i64::from(query.limit.unwrap_or(EVENTS)),
    }
}

/// The pattern that a kind, or the beginning of kinds before `.*`, stands for.
pub(super) fn pattern(kind: &str) -> String {
    let (text, end) = match kind.strip_suffix(".*") {
        Some(beginning) => (format!("{beginning}."), "%"),
        None => (kind.to_owned(), ""),
    };
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    escaped + end
}

fn shown(
    engine: &EngineHandle,
    rows: Result<Vec<NumberedEvent>, StoreError>,
    policy: &PolicyId,
    seen: &SeenNodes,
) -> Result<OrchestrationEvents, Refusal> {
    let rows = rows.map_err(|error| unreadable(&error))?;
    let shape = Shape { policy, seen, now: engine.now() };
    Ok(OrchestrationEvents { events: rows.into_iter().map(|row| shape.event(row)).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_matched_as_a_whole_or_by_their_beginning() {
        assert_eq!(pattern("update.started"), "update.started");
        assert_eq!(pattern("update.*"), "update.%");
        assert_eq!(pattern("100%_\\"), "100\\%\\_\\\\");
    }
}
