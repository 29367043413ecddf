//! The invariant checker: what must be true at every instant, and the bookkeeping that distinguishes planned disruptions from faults.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    agent::{Container, Held},
    agent_tasks, workload,
    world::World,
};
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceKey};
use evenkeel_planner_model::{command::Action, event::Outcome};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::{Purpose, Scope},
    facts::DeploymentPolicyFacts,
};

/// The true state when the transaction that takes a member down committed.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    at_millis: u64,
    keys: Vec<ServiceKey>,
    was_running: bool,
    /// True if the service is intended for another member.
    others_can_run: bool,
    running_elsewhere: Vec<NodeId>,
}

#[derive(Debug, Default)]
pub(crate) struct InvariantChecker {
    pub violation: Option<String>,
    pub replaced_count: u64,
    pub held_count: u64,
    planned: BTreeMap<AgreementId, Planned>,
    /// Instances that went down without a claim: faults, failures, policies that no longer want them.
    unplanned: Vec<(u64, NodeId, ServiceKey)>,
    /// When each agent was started last.
    started: BTreeMap<NodeId, u64>,
    /// When each node joined or left a group last.
    moved: BTreeMap<NodeId, u64>,
    /// When each node sent its last heartbeat, regardless of the hub's clock.
    heard: BTreeMap<NodeId, u64>,
    tasks: workload::TaskWatch,
}

impl InvariantChecker {
    pub fn note_unplanned(&mut self, millis: u64, node: &NodeId, service: &ServiceKey) {
        self.unplanned.push((millis, node.clone(), service.clone()));
    }

    /// Records that a node joins or leaves a group.
    pub fn note_moved(&mut self, millis: u64, node: &NodeId) {
        self.moved.insert(node.clone(), millis);
    }

    /// Records the start of an agent, which changes which nodes count as silent. A jump of the clock does not.
    pub fn note_start(&mut self, millis: u64, node: &NodeId) {
        self.started.insert(node.clone(), millis);
    }

    /// Records a heartbeat.
    pub fn note_heard(&mut self, node: &NodeId, millis: u64) {
        self.heard.insert(node.clone(), millis);
    }

    pub fn broke(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

/// After an edit a decision may be based on the old state for this long: one poll and the delivery of the command.
const READ_LAG_MILLIS: u64 = 2_000;

/// Returns whether the agbots cannot have read the last edit yet.
pub(crate) fn was_just_edited(world: &World) -> bool {
    let edited_at = world.edited_at_millis;
    // One that is suspended reads it afterwards.
    let pauses = world.agbots.iter().filter(|agbot| agbot.is_up).map(|agbot| agbot.paused_until_millis);
    let read_at = pauses.filter(|until| *until > edited_at).max().unwrap_or(edited_at);
    world.millis <= read_at.max(edited_at) + READ_LAG_MILLIS
}

/// After an instance went down by a fault the hub may assume for this long that it runs: silence, clock jumps, late reports.
fn blindness_millis(world: &World) -> u64 {
    (world.settings.node_down_after_secs * 2 + 10) * 1000
}

/// Records the true state when the transaction of a planned cancel commits.
pub(crate) fn cancel_committed(world: &mut World, action: &Action, agreement: &Agreement, outcome: &Outcome) {
    let Action::Cancel { claim: Some(_), .. } = action else { return };
    if *outcome != Outcome::Done {
        return;
    }
    let mut keys = vec![agreement.service_key.clone()];
    keys.extend(world.exchange.policies.get(&agreement.policy).map(|policy| policy.service.clone()));
    let running_elsewhere = world.running_elsewhere(&agreement.node, &keys);
    let was_running = world.agents.get(&agreement.node).is_some_and(|agent| agent.runs_any(&keys));
    let others_can_run = !was_just_edited(world) && others_can_run(world, &agreement.node, &keys);
    let planned = Planned { was_running, others_can_run, at_millis: world.millis, keys, running_elsewhere };
    world.checker.planned.insert(agreement.id.clone(), planned);
}

/// After a disturbance a command may be based on the old state for this long: a lease, a poll, and the delivery of the command.
const COMMAND_LAG_MILLIS: u64 = 10_000;

/// Returns whether an agbot may have counted a node as down a moment ago.
pub(crate) fn counts_as_lost(world: &World, node: &NodeId) -> bool {
    let is_recent = |at: Option<u64>| at.is_some_and(|at| world.millis < at + COMMAND_LAG_MILLIS);
    let heard = world.checker.heard.get(node);
    heard.is_none_or(|at| world.millis > at + world.settings.node_down_after_secs * 1000)
        || is_recent(world.checker.started.get(node).copied())
}

/// Checks a stopped instance.
///
/// Taken down under a claim, it must not have been the last one of its group, unless the others went down by a fault that
/// the hub could not know, or no other member could run the service.
pub(crate) fn instance_stopped(
    world: &mut World,
    node: &NodeId,
    agreement: &AgreementId,
    held: &Held,
    by_hub: bool,
) {
    let planned = world.checker.planned.get(agreement).filter(|_| by_hub).cloned();
    let Some(planned) = planned else {
        return world.checker.note_unplanned(world.millis, node, &held.service);
    };
    world.checker.replaced_count += 1;
    // An instance that did not run at the decision may have started while the message was in flight, and a member that could
    // run it may have joined.
    let could_know = planned.was_running
        && planned.others_can_run
        && others_can_run(world, node, &planned.keys)
        // Nothing blocks the stop of an instance that no policy wants on the node.
        && is_selected(world, node, &planned.keys);
    if !could_know || !world.running_elsewhere(node, &planned.keys).is_empty() {
        return;
    }
    let excused = peer_failed_since(world, planned.at_millis, node, &planned.keys)
        // A member that was out of the group in between did not keep the others from being replaced.
        || world.checker.moved.get(node).is_some_and(|at| *at >= planned.at_millis)
        // A peer that was moved out of the group no longer counts for it.
        || planned.running_elsewhere.iter().any(|peer| {
            world.exchange.group_of(peer).map(|group| &group.id) != world.exchange.group_of(node).map(|group| &group.id)
        });
    if !excused {
        let text = world.agreement_text(agreement);
        let what = format!(
            "the last running instance of {} in its group was taken down on {node}, agreement {text}; running elsewhere when \
             that was decided: {:?}",
            held.service, planned.running_elsewhere
        );
        world.trace_line(format!("VIOLATION {what}"));
        world.checker.broke(what);
    }
}

/// Returns whether an instance of another node went down by a fault of which the hub could not know at a time.
fn peer_failed_since(world: &World, decided_at: u64, node: &NodeId, keys: &[ServiceKey]) -> bool {
    let since = decided_at.saturating_sub(blindness_millis(world));
    let mut faults = world.checker.unplanned.iter().rev().take_while(|(at, ..)| *at >= since);
    faults.any(|(_, peer, service)| peer != node && keys.contains(service))
}

/// Returns whether the hub may not know of the last change of who runs a service beside a node: a fault, or a member that came or left.
pub(crate) fn is_excused(world: &World, node: &NodeId, keys: &[ServiceKey]) -> bool {
    let since = world.millis.saturating_sub(blindness_millis(world));
    let is_moved = || world.checker.moved.values().any(|at| *at >= since);
    peer_failed_since(world, world.millis, node, keys) || is_moved()
}

/// Returns whether another member of the group is one that the service is meant for.
fn others_can_run(world: &World, node: &NodeId, keys: &[ServiceKey]) -> bool {
    let Some(group) = world.exchange.group_of(node) else { return false };
    group.members.iter().any(|member| member != node && is_selected(world, member, keys))
}

/// Returns whether a policy selects a node for one of the services, as the exchange has it now.
fn is_selected(world: &World, node: &NodeId, keys: &[ServiceKey]) -> bool {
    let Some(stored) = world.exchange.nodes.get(node) else { return false };
    let mut properties = stored.policy.policy.properties.clone();
    properties.set_ha_group(world.exchange.group_of(node).map(|group| group.id.name()));
    // A policy with one instance in the group guarantees none to the others.
    let counts = |policy: &&DeploymentPolicyFacts| {
        keys.contains(&policy.service) && policy.orchestration.document.is_none()
    };
    let mut policies = world.exchange.policies.values().filter(counts);
    policies.any(|policy| policy.policy.constraints.is_satisfied_by(&properties).unwrap_or(false))
}

/// Tests what must be true at every instant.
pub(crate) fn check(world: &mut World) {
    if world.checker.violation.is_some() {
        return;
    }
    let mut tasks = std::mem::take(&mut world.checker.tasks);
    let of_tasks = tasks.check(world);
    world.checker.tasks = tasks;
    let found = of_tasks.or_else(|| two_versions(world)).or_else(|| too_many_groups(world));
    if let Some(what) = found.or_else(|| workload::broken(world)) {
        world.trace_line(format!("VIOLATION {what}"));
        world.checker.broke(what);
    }
}

/// Returns a violation when a node holds agreements for two versions of one service of one policy, or the
/// records do.
fn two_versions(world: &World) -> Option<String> {
    for (node, agent) in &world.agents {
        let mut versions: BTreeMap<(&PolicyId, &ServiceKey), &str> = BTreeMap::new();
        // The hub orders the starts and stops of tasks.
        let has_task = |id: &AgreementId| {
            let record = world.database.agreements.get(id);
            agent_tasks::task_of(&agent.tasks, id).is_some() || record.is_some_and(|one| one.task.is_some())
        };
        let is_ordinary = |id: &AgreementId| !has_task(id);
        let ordinary = agent.held.iter().filter(|(id, _)| is_ordinary(id)).map(|(_, held)| held);
        for held in ordinary.filter(|held| held.container != Container::None) {
            let other = versions.insert((&held.policy, &held.service), &held.version);
            if let Some(other) = other {
                return Some(format!(
                    "{node} is in agreements for {} {other} and {}",
                    held.service, held.version
                ));
            }
        }
    }
    None
}

/// Returns a violation when a policy is updated in more groups at once than its update parallelism allows, across all agbots.
fn too_many_groups(world: &World) -> Option<String> {
    let limit = world.settings.update.parallelism as usize;
    if limit == 0 {
        return None;
    }
    let mut groups: BTreeMap<&Scope, Vec<&GroupId>> = BTreeMap::new();
    for ((group, scope), claim) in &world.database.claims {
        // Workloads have limits of their own.
        let is_of_workload =
            matches!(scope, Scope::Policy(policy) if world.database.workloads.contains_key(policy));
        if claim.purpose == Purpose::ServiceUpgrade && !is_of_workload {
            groups.entry(scope).or_default().push(group);
        }
    }
    groups
        .into_iter()
        .find(|(_, groups)| groups.len() > limit)
        .map(|(scope, groups)| format!("the {scope} is in progress in more than {limit} groups: {groups:?}"))
}

/// Returns everything that is not as wanted yet.
pub(crate) fn waiting(world: &World) -> Vec<String> {
    let mut waiting = Vec::new();
    for (node, stored) in &world.exchange.nodes {
        let mut policies = world.exchange.policies.values();
        while let Some(policy) = policies.find(|policy| policy.orchestration.document.is_none()) {
            let best =
                policy.versions.iter().min_by_key(|entry| entry.priority).map(|entry| entry.version.clone());
            let mut properties = stored.policy.policy.properties.clone();
            let group = world.exchange.group_of(node);
            properties.set_ha_group(group.map(|group| group.id.name()));
            let is_wanted = policy.policy.constraints.is_satisfied_by(&properties).unwrap_or(false);
            let running = world.running_version(node, &policy.id);
            if is_wanted && running != best {
                waiting.push(format!("{node} should run {} {best:?} and runs {running:?}", policy.id));
            }
            if !is_wanted && running.is_some() {
                waiting.push(format!("{node} runs {} {running:?} and should not", policy.id));
            }
        }
    }
    waiting.extend(workload::waiting(world));
    waiting.extend(unowned(world));
    waiting.extend(world.database.claims.values().map(|claim| format!("a claim stayed: {claim:?}")));
    let open = world.database.rollouts.values().filter(|rollout| {
        use evenkeel_planner_record::rollout::RolloutState as State;
        matches!(rollout.state, State::Updating | State::Held { .. })
    });
    waiting.extend(open.map(|rollout| format!("a rollout stayed open: {rollout:?}")));
    waiting
}

/// Returns instances without an agreement of the agbot, and agreements of the agbot that nodes do not know.
fn unowned(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for (node, agent) in &world.agents {
        for (id, held) in
            agent.held.iter().filter(|(_, held)| held.container != Container::None && !held.is_foreign)
        {
            let record = world.database.agreements.get(id);
            if !record.is_some_and(|agreement| agreement.is_live() && agreement.node == *node) {
                found.push(format!("{node} runs {} {} without an owner", held.policy, held.version));
            }
        }
    }
    let is_final = |agreement: &&Agreement| agreement.finalized_at().is_some();
    for agreement in world.database.agreements.values().filter(is_final) {
        let agent = world.agents.get(&agreement.node);
        if !agent.is_some_and(|agent| agent.held.contains_key(&agreement.id)) {
            found.push(format!("{} does not hold {}", agreement.node, world.agreement_text(&agreement.id)));
        }
    }
    found
}

/// Checks the settled world after the end of all faults: everything wanted runs, and nothing else.
pub(crate) fn check_settled(world: &mut World) {
    let mut waiting = waiting(world);
    if waiting.is_empty() {
        return;
    }
    waiting.extend(workload::records(world));
    let now = world.now();
    if let Some(agbot) = world.agbots.iter().find(|agbot| agbot.is_up) {
        let pairs = world
            .exchange
            .nodes
            .keys()
            .flat_map(|node| world.exchange.policies.keys().map(move |policy| (node, policy)));
        waiting.extend(pairs.map(|(node, policy)| {
            format!(
                "({node}, {policy}): {}",
                evenkeel_explain::explain::explain(&agbot.model, node, policy, now).text()
            )
        }));
    }
    if !waiting.is_empty() {
        let what = format!("the world did not settle after all faults ended: {}", waiting.join("; "));
        world.trace_line(format!("VIOLATION {what}"));
        world.checker.broke(what);
    }
}

/// Number and distance of the comparisons of reasons: together longer than the time until the next decision about what waits.
const REASON_ROUNDS: u32 = 3;
const REASON_SECS: u64 = 11;

/// Checks that no reason, warning or `blocked` of an agbot names a cause that does not hold. What still changes may be behind; what is wrong
/// each time stays wrong.
pub(crate) fn check_reasons(world: &mut World) {
    if world.checker.violation.is_some() {
        return;
    }
    let mut wrong = outdated(world);
    for _ in 1..REASON_ROUNDS {
        if wrong.is_empty() {
            return;
        }
        world.run_for(REASON_SECS);
        let now = outdated(world);
        wrong.retain(|one| now.contains(one));
    }
    if !wrong.is_empty() && world.checker.violation.is_none() {
        let texts: Vec<String> = wrong.into_iter().collect();
        let what = format!("what is reported does not hold: {}", texts.join("; "));
        world.trace_line(format!("VIOLATION {what}"));
        world.checker.broke(what);
    }
}

/// Returns what the agbots report and would not report by a new decision.
fn outdated(world: &World) -> BTreeSet<String> {
    let now = world.now();
    let up = world.agbots.iter().enumerate().filter(|(_, agbot)| agbot.is_up);
    let found = up.flat_map(|(index, agbot)| {
        let found = evenkeel_planner::outdated::outdated(&agbot.model, &agbot.placements, now);
        found.into_iter().map(move |text| format!("agbot {index}: {text}"))
    });
    found.collect()
}

/// Checks that everything unmet has a reason, and that every claim ends.
pub(crate) fn check_explained(world: &mut World) {
    let now = world.now();
    let mut silent = Vec::new();
    for claim in world.database.claims.values() {
        if evenkeel_planner_record::time::secs_since(claim.deadline, now) > 30 {
            silent.push(format!("a claim outlived its deadline: {claim:?}"));
        }
    }
    let model = world.agbots.iter().find(|agbot| agbot.is_up).map(|agbot| &agbot.model);
    let pairs = world
        .exchange
        .nodes
        .keys()
        .flat_map(|node| world.exchange.policies.keys().map(move |policy| (node, policy)));
    for (node, policy) in pairs {
        let explained = model.map(|model| evenkeel_explain::explain::explain(model, node, policy, now));
        if explained.is_none_or(|explanation| explanation.text().is_empty()) {
            silent.push(format!("nothing says why {node} does not have {policy} as wanted"));
        }
    }
    if !silent.is_empty() {
        let what = silent.join("; ");
        world.trace_line(format!("VIOLATION {what}"));
        world.checker.broke(what);
    }
}
