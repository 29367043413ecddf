//! Agreements, claims and waits of the agbot, restricted to the nodes that the caller may read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot::{Context, EngineHandle, GroupUpgrades, InertPolicy, PolicyKind};
use evenkeel_agbot_store::claim;
use evenkeel_agbot_store::event::{self, EventFilter, EventRow};
use evenkeel_api::{ListShape, MAX_ID, OrgPath, Page, PageError, Refusal, WholeList};
use evenkeel_client::ClientError;
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_explain::explain::{Waits, blocked_task, held_task, waiting_drain, why_no_task};
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_record::claims::{Claim, Scope};
use evenkeel_planner_record::report::{Blocked, Placement};
use evenkeel_store::StoreError;
use evenkeel_wire::agbot::event::{AgbotEvent, EventsQuery, EventsResponse};
use evenkeel_wire::agbot::reason::{ReasonsQuery, ReasonsResponse};
use evenkeel_wire::agbot::status::AgbotStatus;
use evenkeel_wire::agbot::upgrade::{UpgradesResponse, WaitingMember};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;

use super::caller::SeenStatus;
use super::fleet::policy_of;
use super::health;
use super::list_page;
use super::orchestration::node_of;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::GroupPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, KnownQuery, Op, Query, unreadable};
use crate::shown::blocked_upgrades;
use crate::shown::{SeenNodes, hidden, shape};

/// Entries of a list of the newest.
pub(super) const NEWEST: i64 = 500;

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
    let upgrades =
        GroupUpgrades { group: &group, members: &members, claims: &claims, waits: waits.collect() };
    let blocked = blocked_upgrades::blocked(&context, &upgrades, &seen);
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

/// A node and a policy, also as the end of a page.
type Pair = (NodeId, PolicyId);

impl NamedQuery for ReasonsQuery {
    const KNOWN: Members = known(&["node", "policy", "after", "limit", "filter", "count"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self {
            node: parameters.text("node")?,
            policy: parameters.text("policy")?,
            // Two ids.
            after: parameters.text_of("after", 2 * MAX_ID + 1)?,
            limit: list_page::limit(parameters)?,
            filter: list_page::filter(parameters)?,
            count: parameters.boolean("count")?,
        })
    }
}

/// The pairs that a query is about.
struct WantedPairs {
    org: String,
    node: Option<NodeId>,
    policy: Option<PolicyId>,
}

impl WantedPairs {
    fn of(org: &str, query: &ReasonsQuery) -> Result<Self, Refusal> {
        let node = query.node.as_deref().map(|name| node_of(org, name));
        if let Some(node) = node.as_ref().filter(|node| node.org() != org) {
            let text = format!("node: {node} is no node of the organization {org}");
            return Err(Refusal::invalid_input(text));
        }
        let policy = query.policy.as_deref().map(|name| policy_of(org, name));
        Ok(Self { org: org.to_owned(), node, policy })
    }

    fn has(&self, (node, policy): &Pair) -> bool {
        self.node.as_ref().is_none_or(|one| one == node)
            && self.policy.as_ref().is_none_or(|one| one == policy)
    }

    /// Returns at most `limit` pairs after the given one, of nodes that the caller may read.
    fn read(
        &self,
        engine: &EngineHandle,
        (after, limit): (Option<&Pair>, usize),
        seen: &SeenNodes,
    ) -> Vec<(Pair, Placement)> {
        let is_wanted = |pair: &Pair| seen.shows(&pair.0) && self.has(pair);
        let Some(node) = &self.node else {
            return engine.placements(&self.org, (after, limit), is_wanted);
        };
        let of_node = engine.placements_of(node).into_iter();
        let pairs = of_node.map(|(policy, placement)| ((node.clone(), policy), placement));
        let following = pairs.filter(|(pair, _)| is_wanted(pair) && after.is_none_or(|after| pair > after));
        following.take(limit).collect()
    }

    /// Returns the number of pairs, up to a number.
    fn count(&self, engine: &EngineHandle, most: i64, seen: &SeenNodes) -> i64 {
        let limit = usize::try_from(most).unwrap_or(usize::MAX);
        let count = match &self.node {
            Some(_) => self.read(engine, (None, limit), seen).len(),
            None => engine.count_placements(&self.org, limit, |pair| seen.shows(&pair.0) && self.has(pair)),
        };
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

/// Reads the pair that ends the page before.
fn end_of_page(org: &str, query: &ReasonsQuery) -> Result<Option<Pair>, Refusal> {
    let Some(after) = &query.after else { return Ok(None) };
    let pair =
        after.split_once(' ').map(|(node, policy)| (NodeId::from_text(node), PolicyId::from_text(policy)));
    pair.filter(|(node, _)| node.org() == org).map(Some).ok_or_else(list_page::of_other_list)
}

/// State of each pair of node and policy, in words.
pub(super) async fn list_reasons(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<ReasonsQuery>,
) -> Result<WholeList<ReasonsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = Arc::new(permission.into_proof());
    let (wanted, from) = (WantedPairs::of(&org, &query)?, end_of_page(&org, &query)?);
    let selection = list_page::selection(query.limit, query.filter.as_deref(), query.count)?;
    let policies: BTreeMap<PolicyId, Timestamp> = context.model().policy_times(&org).collect();
    let mut inert = context.inert.of_org(&org);
    inert.retain(|one| !one.kind.is_of_node() || seen.shows(&NodeId::from_text(&one.id)));
    let mut questionable = questionable(&context, &org);
    questionable.retain(|one| !one.kind.is_of_node() || seen.shows(&NodeId::from_text(&one.id)));
    let open = format!(
        "{{\"policies\":{},\"inertPolicies\":{},\"questionablePolicies\":{},\"reasons\":[",
        json!(policies),
        json!(inert),
        json!(questionable)
    );
    let Some(selection) = selection else {
        let load = move |after: Option<Pair>| {
            let pairs = wanted.read(&context, (after.as_ref().or(from.as_ref()), PAGE), &seen);
            std::future::ready(reasons_page(&context, pairs, &seen, PAGE as i64))
        };
        return WholeList::paged(open, "]}", load).await.map_err(|error: ListError| unreadable(&error));
    };
    let shape = ListShape { open: &open, close: "]}", key: "", rows: PAGE as i64 };
    let load = |after: Option<Pair>, rows: i64| {
        let most = usize::try_from(rows).unwrap_or(PAGE);
        let pairs = wanted.read(&context, (after.as_ref(), most), &seen);
        std::future::ready(reasons_page(&context, pairs, &seen, rows))
    };
    let count = |most: i64| std::future::ready(Ok(wanted.count(&context, most, &seen)));
    let page = WholeList::selected(shape, selection, from, load, count).await;
    page.map_err(|error: ListError| unreadable(&error))
}

/// Returns the policies in which something can never work; what they name may be gone since they were written.
pub(super) fn questionable(engine: &EngineHandle, org: &str) -> Vec<InertPolicy> {
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
    pairs: Vec<(Pair, Placement)>,
    seen: &SeenNodes,
    limit: i64,
) -> Result<Page<Pair>, ListError> {
    let mut page = Page::after(&pairs, limit, |(pair, _)| pair.clone());
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
        page.set_key(format!("{node} {policy}"));
    }
    Ok(page)
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
pub(super) enum ListError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Page(#[from] PageError),
}
