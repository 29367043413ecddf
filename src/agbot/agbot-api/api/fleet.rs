//! Nodes and deployment policies of an organization at a glance, page by page, from the index of the model.
//!
//! What a page costs does not depend on the number of nodes, apart from counts, which visit each node of the organization once.

use std::collections::BTreeMap;

use axum::Json;
use evenkeel_agbot::{EngineHandle, InertPolicy};
use evenkeel_api::{MAX_EXAMINED, OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_domain::policy::ListFilter;
use evenkeel_explain::explain::status_of;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::{
    FleetCounts, FleetFilter, FleetGroups, FleetRow, Liveness, Model, Reach,
};
use evenkeel_planner_record::facts::{Availability, DeploymentPolicyFacts, VersionChoice};
use evenkeel_planner_record::rollout::{Rollout, RolloutState};
use evenkeel_planner_record::workload::{UpdateState, WorkloadRecord};
use evenkeel_status::status::{PartStatus, Window, WorkloadStatus};
use evenkeel_wire::agbot::fleet::{
    FleetGroupCounts, FleetInstanceCounts, FleetMatter, FleetNode, FleetNodeCounts, FleetNodes,
    FleetNodesQuery, FleetOverview, FleetPolicies, FleetPoliciesQuery, FleetPolicy, FleetRolloutCounts,
};
use evenkeel_wire::page::DEFAULT_LIMIT;
use jiff::Timestamp;
use serde_json::json;

use super::attention;
use super::list_page;
use super::orchestration::node_of;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use super::status::questionable;
use crate::shown::workload_shape::{Shape, time};
use crate::shown::{SeenNodes, hidden};

const MOST_POLICIES: i64 = 100;
const POLICIES: u16 = 25;
/// Matters of an overview.
pub(super) const MATTERS: usize = 100;

impl NamedQuery for FleetNodesQuery {
    const KNOWN: Members =
        known(&["state", "availability", "group", "node", "filter", "after", "limit", "count"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self {
            state: parameters.word("state", &Reach::NAMES)?,
            availability: parameters.word("availability", &Availability::NAMES)?,
            group: parameters.text("group")?,
            node: parameters.text("node")?,
            filter: list_page::filter(parameters)?,
            after: parameters.text("after")?,
            limit: list_page::limit(parameters)?,
            count: parameters.boolean("count")?,
        })
    }
}

impl NamedQuery for FleetPoliciesQuery {
    const KNOWN: Members = known(&["filter", "after", "limit", "count"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_POLICIES)?;
        Ok(Self {
            filter: list_page::filter(parameters)?,
            after: parameters.text("after")?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
            count: parameters.boolean("count")?,
        })
    }
}

/// Lists the nodes of an organization that a query selects.
pub(super) async fn list_fleet_nodes(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<FleetNodesQuery>,
) -> Result<Json<FleetNodes>, Refusal> {
    let Op { request: AgbotRequest { context, kept, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let filter = filter_of(&org, &query)?;
    let after = query.after.as_deref().map(|name| node_of(&org, name));
    if let Some(after) = after.as_ref().filter(|after| after.org() != org) {
        let text = format!("after: {after} is no node of the organization {org}");
        return Err(Refusal::invalid_input(text));
    }
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_LIMIT));
    let make = || {
        let (model, now) = (context.model(), context.now());
        let is_shown = |node: &NodeId| seen.shows(node);
        let page = model.fleet_page(&org, &filter, (after.as_ref(), limit), is_shown, now);
        let count = || match filter.is_of_all() && seen.is_all() {
            true => model.set_of_org(&org).len(),
            false => model.fleet_count(&org, &filter, is_shown, now),
        };
        Ok(FleetNodes {
            nodes: page.nodes.iter().map(shown_node).collect(),
            next: page.next.map(|last| last.name().to_owned()),
            count: (query.count == Some(true)).then(count),
        })
    };
    kept.nodes.get(&seen, format!("{org} {query:?}"), make).map(Json)
}

/// Returns the selection of a query.
///
/// # Errors
/// 400 when the constraint cannot be read.
pub(super) fn filter_of(org: &str, query: &FleetNodesQuery) -> Result<FleetFilter, Refusal> {
    let filter = query.filter.as_deref().map(list_page::parsed).transpose()?;
    Ok(FleetFilter {
        reach: query.state.as_deref().and_then(Reach::from_word),
        availability: query.availability.as_deref().and_then(Availability::from_word),
        group: query.group.as_deref().map(|group| group.rsplit('/').next().unwrap_or(group).to_owned()),
        node: query.node.as_deref().map(|node| node_of(org, node)),
        properties: filter.map(|filter| filter.tree().clone()),
    })
}

fn shown_node(node: &FleetRow<'_>) -> FleetNode {
    let facts = &node.record.facts;
    FleetNode {
        node: facts.id.to_string(),
        state: Reach::from(node.liveness).word().to_owned(),
        last_heartbeat: facts.last_heartbeat.map(time),
        monitor_state: facts.monitor_state.word().to_owned(),
        availability: facts.availability.word().to_owned(),
        frozen: facts.is_frozen,
        group: node.record.group().map(str::to_owned),
        arch: facts.arch.clone(),
        agent_version: facts.agent_version.clone(),
        pattern: facts.pattern.as_ref().map(ToString::to_string),
        instances: node.instances,
        running: node.running,
    }
}

/// Returns an organization at a glance.
pub(super) async fn get_fleet_overview(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
) -> Result<Json<FleetOverview>, Refusal> {
    let Op { request: AgbotRequest { context, kept, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let mut found = kept.overview.get(&seen, org.clone(), || Ok(overview(&context, &org, &seen)))?;
    let shown = std::mem::take(&mut found.attention);
    found.attention = attention::acknowledged(&context, &org, (shown, &seen)).await?;
    Ok(Json(found))
}

/// Returns the problems of an organization that a caller sees, at most [`MATTERS`].
pub(super) fn matters(context: &EngineHandle, org: &str, seen: &SeenNodes) -> Vec<FleetMatter> {
    let inert = context.inert.of_org(org);
    let questionable = questionable(context, org);
    let (model, now) = (context.model(), context.now());
    let view = View { model: &model, org, seen, now };
    let mut attention = view.paused_rollouts();
    attention.extend(view.paused_updates());
    attention.extend(view.policies_in_trouble());
    attention.extend(documents("policy-without-effect", inert, seen));
    attention.extend(documents("policy-questionable", questionable, seen));
    attention.extend(view.lost_nodes());
    attention.truncate(MATTERS);
    attention
}

fn overview(context: &EngineHandle, org: &str, seen: &SeenNodes) -> FleetOverview {
    let attention = matters(context, org, seen);
    let (model, now) = (context.model(), context.now());
    let counts = model.fleet_counts(org, |node| seen.shows(node), now);
    let groups = model.fleet_group_counts(org, |node| seen.shows(node), now);
    let tasks = model.fleet_task_counts(org).into_iter();
    let view = View { model: &model, org, seen, now };
    FleetOverview {
        nodes: node_counts(&counts),
        instances: FleetInstanceCounts { total: counts.instances, running: counts.running },
        policies: view.policies().count() as u64,
        groups: model.groups().filter(|group| group.id.org() == org).count() as u64,
        group_states: group_counts(groups),
        tasks: tasks.map(|(state, count)| (state.to_owned(), count)).collect(),
        rollouts: view.rollout_counts(),
        attention,
    }
}

fn group_counts(FleetGroups { up, degraded, down, empty }: FleetGroups) -> FleetGroupCounts {
    FleetGroupCounts { up, degraded, down, empty }
}

fn node_counts(counts: &FleetCounts) -> FleetNodeCounts {
    let [up, away, down, never_heard] = counts.by_reach;
    let FleetCounts { draining, paused, frozen, .. } = *counts;
    FleetNodeCounts { total: counts.nodes(), up, away, down, never_heard, draining, paused, frozen }
}

/// An organization as one caller sees it.
struct View<'a> {
    model: &'a Model,
    org: &'a str,
    seen: &'a SeenNodes,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn policies(&self) -> impl Iterator<Item = &'a DeploymentPolicyFacts> {
        let org = self.org;
        // The services of patterns are no policies of the organization.
        self.model.policies().filter(move |facts| facts.id.org() == org && facts.pattern.is_none())
    }

    /// Rollouts through groups of which the caller may read a member, as it may see them.
    fn rollouts(&self) -> impl Iterator<Item = (&'a Rollout, evenkeel_wire::agbot::rollout::Rollout)> {
        let of_org = self.model.rollouts().filter(|rollout| rollout.group.org() == self.org);
        of_org.filter_map(|rollout| {
            let members = self.model.group(&rollout.group).map(|group| group.members.iter().cloned());
            let members: Vec<NodeId> = members.into_iter().flatten().collect();
            Some((rollout, hidden::rollout(rollout, &members, self.seen)?))
        })
    }

    fn updates(&self) -> impl Iterator<Item = &'a WorkloadRecord> {
        self.model.workloads().filter(|record| record.policy.org() == self.org)
    }

    fn rollout_counts(&self) -> FleetRolloutCounts {
        let of_groups = self.rollouts().filter_map(|(rollout, _)| rollout.update_state());
        let states = of_groups.chain(self.updates().map(|record| record.update.state));
        states.fold(FleetRolloutCounts::default(), |counts, state| match state {
            UpdateState::Updating | UpdateState::RollbackStarted => {
                FleetRolloutCounts { updating: counts.updating + 1, ..counts }
            }
            UpdateState::Paused | UpdateState::RollbackPaused => {
                FleetRolloutCounts { paused: counts.paused + 1, ..counts }
            }
            UpdateState::None | UpdateState::Completed | UpdateState::RollbackCompleted => counts,
        })
    }

    fn paused_rollouts(&self) -> Vec<FleetMatter> {
        let paused = self.rollouts().filter_map(|(rollout, shown)| match &rollout.state {
            RolloutState::Held { since, .. } => Some((rollout, shown, *since)),
            _ => None,
        });
        let matters = paused.map(|(rollout, shown, since)| FleetMatter {
            group: Some(rollout.group.name().to_owned()),
            since: Some(time(since)),
            ..matter("rollout-paused", rollout.policy.as_str(), shown.text, "administrator")
        });
        matters.take(MATTERS).collect()
    }

    fn paused_updates(&self) -> Vec<FleetMatter> {
        let paused = self.updates().filter(|record| record.update.is_paused());
        let matters = paused.map(|record| {
            let update =
                Shape { policy: &record.policy, seen: self.seen, now: self.now }.workload_update(record);
            matter("update-paused", record.policy.as_str(), update.text, "owner")
        });
        matters.take(MATTERS).collect()
    }

    /// Policies whose version was rolled back, whose rollout is blocked, or that miss instances.
    fn policies_in_trouble(&self) -> Vec<FleetMatter> {
        let of_groups =
            self.rollouts().filter_map(|(one, _)| Some((&one.policy, one.update_state()?, ended_at(one))));
        let of_workloads =
            self.updates().map(|record| (&record.policy, record.update.state, record.update.completed_at));
        let mut states: BTreeMap<&PolicyId, BTreeMap<UpdateState, Option<Timestamp>>> = BTreeMap::new();
        for (policy, state, at) in of_groups.chain(of_workloads) {
            let last = states.entry(policy).or_default().entry(state).or_default();
            *last = (*last).max(at);
        }
        let mut found = Vec::new();
        for facts in self.policies() {
            let id = &facts.id;
            let of = |state| states.get(id).and_then(|states| states.get(&state));
            let is_open = of(UpdateState::Updating).or(of(UpdateState::RollbackStarted)).is_some();
            if let Some(at) = of(UpdateState::RollbackCompleted) {
                let text =
                    "the version that the policy wants failed, and the one before runs again".to_owned();
                let rolled_back = matter("version-rolled-back", id.as_str(), text, "owner");
                found.push(FleetMatter { since: at.map(time), ..rolled_back });
            }
            if !is_open && !self.model.may_miss_instances(id, self.now) {
                continue;
            }
            let Some(status) = status_of(self.model, id, &Window::default(), self.now) else { continue };
            let shown = Shape { policy: id, seen: self.seen, now: self.now }.status(&status);
            if let Some(blocked) = shown.update.blocked.filter(|_| is_open) {
                let first = blocked.slots.first().map(|slot| slot.detail.clone()).unwrap_or_default();
                let since = Some(blocked.since);
                found.push(FleetMatter {
                    since,
                    ..matter("rollout-blocked", id.as_str(), first, "administrator")
                });
            }
            let (up, target) = instances_of(&status);
            if up < target && !is_open {
                let warning = shown.warnings.first().map(|text| format!(": {text}")).unwrap_or_default();
                let text = format!("{up} of {target} wanted instances run{warning}");
                found.push(matter("instances-missing", id.as_str(), text, "owner"));
            }
            if found.len() >= MATTERS {
                break;
            }
        }
        found
    }

    /// Nodes with agreements whose heartbeats are missing.
    fn lost_nodes(&self) -> Vec<FleetMatter> {
        let down = FleetFilter { reach: Some(Reach::Down), ..FleetFilter::default() };
        let is_shown = |node: &NodeId| self.seen.shows(node);
        let page = self.model.fleet_page(self.org, &down, (None, MATTERS), is_shown, self.now);
        let with_instances = page.nodes.iter().filter(|node| node.instances > 0);
        let matters = with_instances.filter_map(|node| {
            let Liveness::Down { since } = node.liveness else { return None };
            let text = format!("no heartbeat; agreements: {}", node.instances);
            let id = node.record.facts.id.as_str();
            Some(FleetMatter { since: Some(time(since)), ..matter("node-down", id, text, "operator") })
        });
        matters.collect()
    }
}

/// Returns when a rollout was completed; none for one that was not.
fn ended_at(rollout: &Rollout) -> Option<Timestamp> {
    match rollout.state {
        RolloutState::Completed { at } => Some(at),
        _ => None,
    }
}

fn matter(kind: &str, subject: &str, text: String, role: &str) -> FleetMatter {
    FleetMatter {
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        text,
        role: role.to_owned(),
        ..FleetMatter::default()
    }
}

/// Documents of which a part has no effect, without those of nodes that the caller may not read.
fn documents(kind: &str, found: Vec<InertPolicy>, seen: &SeenNodes) -> Vec<FleetMatter> {
    let is_shown = |one: &InertPolicy| !one.kind.is_of_node() || seen.shows(&NodeId::from_text(&one.id));
    let shown = found.into_iter().filter(is_shown).take(MATTERS);
    shown.map(|one| matter(kind, &one.id, one.errors.join("; "), "owner")).collect()
}

/// Lists the deployment policies of an organization that the agbot serves.
pub(super) async fn list_fleet_policies(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<FleetPoliciesQuery>,
) -> Result<Json<FleetPolicies>, Refusal> {
    let Op { request: AgbotRequest { context, kept, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let after = query.after.as_deref().map(|name| policy_of(&org, name));
    if after.as_ref().is_some_and(|after| after.org() != org) {
        return Err(list_page::of_other_list());
    }
    let limit = usize::from(query.limit.unwrap_or(POLICIES));
    let filter = query.filter.as_deref().map(list_page::parsed).transpose()?;
    let make = || {
        let (model, now) = (context.model(), context.now());
        let view = View { model: &model, org: &org, seen: &seen, now };
        let is_later = |facts: &&DeploymentPolicyFacts| after.as_ref().is_none_or(|after| facts.id > *after);
        let show = |facts: &_| shown_policy(&context, &view, facts);
        let (policies, next) = selected(view.policies().filter(is_later), filter.as_ref(), limit, show);
        let (count, count_is_minimum) = match &filter {
            _ if query.count != Some(true) => (None, false),
            None => (Some(view.policies().count() as u64), false),
            Some(_) => {
                let (all, next) = selected(view.policies(), filter.as_ref(), usize::MAX, show);
                (Some(all.len() as u64), next.is_some())
            }
        };
        Ok(FleetPolicies { policies, next, count, count_is_minimum })
    };
    kept.policies.get(&seen, format!("{org} {query:?}"), make).map(Json)
}

/// Returns the policies of a page that a filter selects, and the name of the last examined one if there are more. The status of a policy is
/// computed to examine it, so that a request examines a limited number.
fn selected<'f>(
    policies: impl Iterator<Item = &'f DeploymentPolicyFacts>,
    filter: Option<&ListFilter>,
    limit: usize,
    show: impl Fn(&DeploymentPolicyFacts) -> Option<FleetPolicy>,
) -> (Vec<FleetPolicy>, Option<String>) {
    let (mut found, mut last) = (Vec::new(), None);
    for (examined, facts) in policies.enumerate() {
        if found.len() == limit || examined == MAX_EXAMINED {
            return (found, last);
        }
        last = Some(facts.id.name().to_owned());
        let is_selected =
            |policy: &FleetPolicy| filter.is_none_or(|filter| filter.selects(&policy.policy, &json!(policy)));
        found.extend(show(facts).filter(is_selected));
    }
    (found, None)
}

/// Returns a policy by its name in a request about an organization.
pub(super) fn policy_of(org: &str, name: &str) -> PolicyId {
    if name.contains('/') { PolicyId::from_text(name) } else { PolicyId::new(org, name) }
}

/// Returns the numbers of running and of wanted instances.
fn instances_of(status: &WorkloadStatus) -> (u64, u64) {
    let sum = |count: fn(&PartStatus) -> u32| status.parts.iter().map(|part| u64::from(count(part))).sum();
    (sum(|part| part.up), sum(|part| part.target))
}

fn shown_policy(
    engine: &EngineHandle,
    view: &View<'_>,
    facts: &DeploymentPolicyFacts,
) -> Option<FleetPolicy> {
    // Only numbers are shown: no instance is listed.
    let status = status_of(view.model, &facts.id, &Window::default(), view.now)?;
    let (up, target) = instances_of(&status);
    let shape = Shape { policy: &facts.id, seen: view.seen, now: view.now };
    let shown = shape.status(&status);
    // Priority 0 means that there is none.
    let by_priority = |one: &VersionChoice| (one.priority == 0, one.priority, one.version.clone());
    let mut versions: Vec<_> = facts.versions.iter().map(by_priority).collect();
    versions.sort_unstable();
    versions.dedup();
    let unreadable = super::orchestration::unreadable(engine, &facts.id);
    Some(FleetPolicy {
        policy: facts.id.to_string(),
        service: facts.service.to_string(),
        versions: versions.into_iter().map(|(.., version)| version).collect(),
        mode: shown.mode,
        orchestrated: facts.orchestration.document.is_some(),
        avail: shown.avail,
        overall: shown.overall,
        frozen: shown.frozen,
        target,
        up,
        update: shown.update,
        warnings: shown.warnings.into_iter().chain(unreadable).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(query: FleetNodesQuery) -> Result<FleetFilter, String> {
        filter_of("o", &query).map_err(|refusal| refusal.message().to_owned())
    }

    #[test]
    fn filter_is_a_constraint_of_policies() {
        let query =
            FleetNodesQuery { filter: Some("site == \"north\"".into()), ..FleetNodesQuery::default() };
        assert!(read(query).unwrap().properties.is_some());
        let query = FleetNodesQuery { filter: Some("site = = north".into()), ..FleetNodesQuery::default() };
        let error = read(query).unwrap_err();
        assert!(error.starts_with("filter: ") && error.contains("character"), "{error}");
    }

    #[test]
    fn group_may_be_named_with_its_organization() {
        let query = FleetNodesQuery { group: Some("o/gate".into()), ..FleetNodesQuery::default() };
        assert_eq!(read(query).unwrap().group.as_deref(), Some("gate"));
    }

    #[test]
    fn matters_name_who_can_end_them() {
        let found = json!(matter("node-down", "o/n", "no heartbeat".into(), "operator"));
        assert_eq!((&found["kind"], &found["role"]), (&json!("node-down"), &json!("operator")));
    }
}
