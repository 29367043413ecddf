//! Agreements, claims and waits of the agbot, restricted to the nodes that the caller may read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot_store::event::{self, EventFilter, EventRow};
use evenkeel_agbot_store::{agreement, claim};
use evenkeel_api::{OrgPath, Page, PageError, Refusal, WholeList};
use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::claims::{Claim, Scope};
use evenkeel_planner::explain::{Waits, blocked_task, held_task, waiting_drain, why_no_task};
use evenkeel_planner::report::{Blocked, Placement};
use evenkeel_planner::workload::UpdateState;
use evenkeel_store::StoreError;
use evenkeel_wire::agbot::agreement::AgreementsResponse;
use evenkeel_wire::agbot::event::{AgbotEvent, EventsQuery, EventsResponse};
use evenkeel_wire::agbot::reason::ReasonsResponse;
use evenkeel_wire::agbot::rollout::{Rollout, RolloutsResponse};
use evenkeel_wire::agbot::status::AgbotStatus;
use evenkeel_wire::agbot::upgrade::{UpgradesResponse, WaitingMember};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::caller::SeenStatus;
use super::health;
use super::path::GroupPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, KnownQuery, Op, Query, unreadable};
use crate::context::{Context, EngineHandle};
use crate::inert::{InertPolicy, PolicyKind};
use crate::shown::blocked_upgrades::{self, Asking};
use crate::shown::workload_shape::Shape;
use crate::shown::{SeenNodes, hidden, shape};

const NEWEST: i64 = 500;

/// Elements of one page of a long list.
const PAGE: usize = 500;

/// Returns the health of the agbot; needs no credentials. Counts are shown to users to whom the exchange
/// shows its own, and entries of other agbots to those of the nodes' organization.
pub(super) async fn get_agbot_status(
    op: Op<()>,
    permission: Permission<right::HealthRead>,
) -> Result<Json<AgbotStatus>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, .. } = op;
    let mut status = AgbotStatus {
        agbot: context.name(),
        loaded: context.reading.is_loaded(),
        dropped_messages: context.mailbox.dropped(),
        node_down_after_secs: context.settings.planner.node_down_after_secs,
        nodes: None,
        policies: None,
        agreements: None,
        left_to_other_agbots: None,
    };
    let seen = permission.into_proof();
    if !matches!(seen, SeenStatus::Health) {
        let model = context.model();
        let (nodes, policies, agreements) = model.counts();
        (status.nodes, status.policies, status.agreements) = (Some(nodes), Some(policies), Some(agreements));
        let left = model.other_agbots().entries().filter(|entry| seen.shows(entry.node_org));
        let left: Vec<_> = left.map(shape::served_elsewhere).collect();
        status.left_to_other_agbots = Some(left).filter(|left| !left.is_empty());
    }
    Ok(Json(status))
}

/// Claims of a group and the members that wait for them.
pub(super) async fn list_upgrades(
    op: Op<GroupPath>,
    permission: Permission<right::NodesRead>,
) -> Result<Json<UpgradesResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path, .. } = op;
    let seen = permission.into_proof();
    let group = GroupId::new(&path.org, &path.hagroup);
    let (claims, members): (Vec<Claim>, BTreeSet<NodeId>) = {
        let model = context.model();
        let claims = model.claims_of(&group).filter(|claim| seen.shows(&claim.node));
        let claims = claims.map(|claim| model.claim_in_progress(claim));
        let members = model.group(&group).map(|group| group.members.clone()).unwrap_or_default();
        (claims.collect(), members.into_iter().filter(|node| seen.shows(node)).collect())
    };
    // Claims may outlive their group until they are freed.
    if claims.is_empty() {
        require_group(&context, &path).await?;
    }
    let rows = context
        .database
        .read(async |connection| claim::read_groups(connection, &[&group]).await)
        .await
        .map_err(|error| unreadable(&error))?;
    let waits = rows.into_iter().flat_map(|row| row.waits).filter(|wait| seen.shows(&wait.node));
    let asking = Asking { group: &group, members: &members, claims: &claims, waits: waits.collect() };
    let blocked = blocked_upgrades::blocked(&context, &asking, &seen);
    let (agent, workloads): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| claim.scope == Scope::Agent);
    let mut waiting = Vec::new();
    for node in &members {
        for (policy, placement) in context.placements_of(node) {
            if let Placement::Waiting { blocked, .. } = hidden::placement(placement, &seen) {
                let (policy, node, reason) = (policy.clone(), node.clone(), blocked.to_string());
                waiting.push(WaitingMember { policy, node, reason });
            }
        }
    }
    for one in Waits::new(&context.model(), context.now()).on_nodes(&members) {
        let reason = hidden::reason(one.blocked, &seen).to_string();
        waiting.push(WaitingMember { policy: one.policy, node: one.node, reason });
    }
    Ok(Json(UpgradesResponse {
        members: members.iter().cloned().collect(),
        agent: agent.first().map(|claim| shape::claim(claim).into()),
        workloads: workloads.iter().map(|claim| shape::claim(claim).into()).collect(),
        waiting,
        blocked,
    }))
}

/// Refuses an HA group that does not exist; one that the agbot may not read may exist.
async fn require_group(context: &Context, path: &GroupPath) -> Result<(), Refusal> {
    match health::has_group(context, path).await {
        Ok(true) | Err(ClientError::Status { status: 403, .. }) => Ok(()),
        Ok(false) => Err(health::missing_group(&GroupId::new(&path.org, &path.hagroup))),
        Err(error) => Err(health::unavailable(&error)),
    }
}

/// Agreements of an organization's nodes, live and ended.
pub(super) async fn list_agreements(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
) -> Result<WholeList<AgreementsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let nodes = permission.into_proof().ids().map(Arc::new);
    let ended = context.database.read(async |connection| {
        agreement::list_ended(connection, &org, nodes.as_deref().map(Vec::as_slice), NEWEST).await
    });
    let archived = Value::Array(ended.await.map_err(|error| unreadable(&error))?);
    let open = format!("{{\"agreements\":{{\"archived\":{archived},\"active\":[");
    let load = move |after| live_page(context.clone(), org.clone(), nodes.clone(), after);
    WholeList::paged(open, "]}}", load).await.map_err(|error: ListError| unreadable(&error))
}

/// End of a page of agreements: node and policy.
type Pair = (NodeId, PolicyId);

async fn live_page(
    context: Arc<Context>,
    org: String,
    nodes: Option<Arc<Vec<NodeId>>>,
    after: Option<Pair>,
) -> Result<Page<Pair>, ListError> {
    let nodes = nodes.as_deref().map(Vec::as_slice);
    let rows = context.database.read(async |connection| {
        agreement::list_live_of_org(connection, &org, nodes, after.as_ref(), PAGE as i64).await
    });
    let rows = rows.await?;
    let pair = |(node, policy, _): &(NodeId, PolicyId, Value)| (node.clone(), policy.clone());
    Ok(Page::array(rows, PAGE as i64, pair, |(_, _, record)| record)?)
}

/// State of each pair of node and policy, in words.
pub(super) async fn list_reasons(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
) -> Result<WholeList<ReasonsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = Arc::new(permission.into_proof());
    let policies: BTreeMap<PolicyId, Timestamp> = context.model().policy_times(&org).collect();
    let mut inert = context.inert.of_org(&org);
    inert.retain(|one| !one.kind.is_of_node() || seen.shows(&NodeId::from_text(&one.id)));
    let questionable = questionable(&context, &org);
    let open = format!(
        "{{\"policies\":{},\"inertPolicies\":{},\"questionablePolicies\":{},\"reasons\":[",
        json!(policies),
        json!(inert),
        json!(questionable)
    );
    let load = move |after: Option<(NodeId, PolicyId)>| {
        let pairs = context.placements(&org, after.as_ref(), PAGE);
        std::future::ready(reasons_page(&context, pairs, &seen))
    };
    WholeList::paged(open, "]}", load).await.map_err(|error: ListError| unreadable(&error))
}

/// Returns the policies in which something can never work; what they name may be gone since they were written.
fn questionable(engine: &EngineHandle, org: &str) -> Vec<InertPolicy> {
    let mut found = engine.inert.findings_of_org(org);
    let missing = engine.model().missing_policies_of_org(org);
    for (policy, findings) in missing {
        let texts = findings.iter().map(ToString::to_string);
        match found.iter_mut().find(|one| one.kind == PolicyKind::Deployment && one.id == policy.as_str()) {
            Some(known) => known.errors.extend(texts),
            None => found.push(InertPolicy {
                kind: PolicyKind::Deployment,
                id: policy.to_string(),
                errors: texts.collect(),
            }),
        }
    }
    found
}

fn reasons_page(
    engine: &EngineHandle,
    pairs: Vec<((NodeId, PolicyId), Placement)>,
    seen: &SeenNodes,
) -> Result<Page<(NodeId, PolicyId)>, ListError> {
    let mut page = Page::after(&pairs, PAGE as i64, |(pair, _)| pair.clone());
    let model = engine.model();
    let waits = Waits::new(&model, engine.now());
    for ((node, policy), mut placement) in pairs.into_iter().filter(|((node, _), _)| seen.shows(node)) {
        let mut has_no_task = matches!(
            &placement,
            Placement::Waiting { blocked: Blocked::NoTask, .. }
                | Placement::NotPlaced { blocked: Blocked::NoTask }
        );
        if has_no_task && let Some(blocked) = blocked_task(&model, &waits, (&node, &policy)) {
            placement = Placement::NotPlaced { blocked };
            has_no_task = false;
        }
        if let Placement::Placed { agreement, is_running: false, .. } | Placement::Waiting { agreement, .. } =
            &placement
            && let Some(blocked) = held_task(&model, &waits, (&node, &policy))
        {
            placement = Placement::Waiting { agreement: agreement.clone(), blocked };
        }
        if let Placement::Placed { agreement, .. } = &placement
            && let Some(blocked) = waiting_drain(&waits, &node, &policy)
        {
            placement = Placement::Waiting { agreement: agreement.clone(), blocked };
        }
        let mut reason = shape::reason(&node, &policy, &hidden::placement(placement, seen));
        if has_no_task && let Some(why) = why_no_task(&model, &node, &policy) {
            reason.text = why;
        }
        page.push(&reason)?;
    }
    Ok(page)
}

/// Rollouts through the organization's groups.
pub(super) async fn list_rollouts(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
) -> Result<Json<RolloutsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let model = context.model();
    let rollouts: Vec<Rollout> = model
        .rollouts()
        .filter(|rollout| rollout.group.org() == org)
        .filter_map(|rollout| {
            let members: Vec<NodeId> = match model.group(&rollout.group) {
                Some(group) => group.members.iter().cloned().collect(),
                None => Vec::new(),
            };
            let mut shown = hidden::rollout(rollout, &members, &seen)?;
            // The settings in force: the policy's own settings override the hub's.
            shown.update = Some(json!(model.update_settings(&rollout.policy)));
            Some(shown)
        })
        .collect();
    let now = context.now();
    let workloads = model.workloads().filter(|record| record.policy.org() == org);
    let workloads = workloads
        .filter(|record| record.update.state != UpdateState::None)
        .map(|record| Shape { policy: &record.policy, seen: &seen, now }.workload_update(record))
        .collect();
    drop(model);
    Ok(Json(RolloutsResponse { rollouts, workloads }))
}

impl KnownQuery for EventsQuery {
    const REFUSAL: &'static str = "the query may hold group, node, policy and limit only, each once";
}

/// Lists recent events of the agbot, newest first.
pub(super) async fn list_events(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Query(of): Query<EventsQuery>,
) -> Result<Json<EventsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    // The database has no such character in its texts.
    if [&of.group, &of.node, &of.policy].into_iter().flatten().any(|name| name.contains('\0')) {
        let message = "group, node and policy must not hold a NUL character";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    }
    let limit = of.limit.unwrap_or(NEWEST);
    if !(1..=NEWEST).contains(&limit) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("limit must be from 1 to {NEWEST}")));
    }
    let qualified = |name: Option<String>| {
        name.map(|name| if name.contains('/') { name } else { format!("{org}/{name}") })
    };
    let filter = EventFilter {
        ha_group: qualified(of.group).map(|id| GroupId::from_text(&id)),
        node: qualified(of.node).map(|id| NodeId::from_text(&id)),
        policy: qualified(of.policy).map(|id| PolicyId::from_text(&id)),
    };
    let rows = context.database.read(async |connection| {
        event::list_newest(connection, &org, seen.ids_in(&org).as_deref(), &filter, limit).await
    });
    let rows = rows.await.map_err(|error| unreadable(&error))?;
    // Policies of the organization may be served to nodes of others.
    let is_seen = |row: &EventRow| match (&row.node, &row.ha_group) {
        (Some(node), _) => seen.shows(node),
        (None, Some(group)) => seen.is_all() || group.org() == org,
        (None, None) => true,
    };
    let shown = rows.into_iter().filter(is_seen).map(|row| AgbotEvent {
        at: row.happened_at.to_string(),
        kind: row.kind,
        ha_group: row.ha_group.map(|id| id.to_string()),
        node: row.node.map(|id| id.to_string()),
        policy: row.policy.map(|id| id.to_string()),
        detail: hidden::detail(row.detail, &seen),
    });
    Ok(Json(EventsResponse { events: shown.collect() }))
}

/// Reason why a page of a list cannot be had.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Page(#[from] PageError),
}
