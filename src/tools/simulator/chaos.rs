//! Builds a world from the seed, injects faults, ends all faults and checks that the world settles.

use evenkeel_domain::policy::{ExternalPolicy, Property};

use serde_json::json;

use super::{
    agbot::{self, Agbot},
    agent::{self, Agent},
    exchange::StoredNode,
    invariants, planned, polling, task_health, workload_chaos,
    world::{Faults, Quality, ScheduledEvent, World},
};
use evenkeel_agreement::agent_upgrade::{GroupView, decide_agent_upgrade};
use evenkeel_change::Grant;
use evenkeel_ids::{GroupId, NmpId, NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::{
    claims::{Claim, Scope},
    facts::{
        Availability, DeploymentPolicyFacts, HaGroupFacts, NodeFacts, NodePolicyFacts, PolicyOrchestration,
        ServiceFacts, VersionChoice,
    },
    settings::FailureAction,
    workload::{Requester, RolloutAction},
};

/// Time to settle after repairs, and again after the operator published a good version, seconds.
const SETTLE_SECS: u64 = 120;
const CONVERGE_SECS: u64 = 600;
/// Number of times that the world may continue after a pause.
const SETTLING_ROUNDS: u32 = 6;

/// Runs a whole schedule.
pub(crate) fn run(world: &mut World, steps: u32) {
    build(world);
    world.run_for(20);
    world.faults = Faults {
        lost: world.between(0, 10) as f64 / 100.0,
        doubled: world.between(0, 10) as f64 / 100.0,
        late_millis: world.between(0, 12_000),
        crash_after_commit: world.between(0, 4) as f64 / 100.0,
    };
    world.schedule(1_000, ScheduledEvent::Chaos);
    for _ in 0..steps {
        if world.checker.violation.is_some() || !world.step() {
            return;
        }
    }
    repair(world);
    world.run_for(SETTLE_SECS);
    if world.checker.violation.is_some() {
        return;
    }
    invariants::check_explained(world);
    invariants::check_reasons(world);
    if world.checker.violation.is_some() {
        return;
    }
    publish_good_versions(world);
    // Instances that waited for another workload, or return one after the other, may continue only when
    // something else has come to rest.
    for _ in 0..SETTLING_ROUNDS {
        world.run_until(CONVERGE_SECS, is_settled);
        if world.checker.violation.is_some() {
            return;
        }
        world.run_for(5);
        if invariants::waiting(world).is_empty() {
            break;
        }
    }
    invariants::check_settled(world);
    polling::check(world);
    invariants::check_reasons(world);
    if world.checker.violation.is_none() {
        planned::check(world);
    }
}

fn is_settled(world: &World) -> bool {
    world.steps.is_multiple_of(64) && invariants::waiting(world).is_empty()
}

/// Creates a node with the property `site`.
pub(crate) fn add_node(world: &mut World, name: &str, site: &str, start_millis: u64) {
    let id = NodeId::new("o", name);
    let facts = NodeFacts {
        arch: "amd64".into(),
        public_key: "key".into(),
        last_heartbeat: Some(world.now()),
        ..NodeFacts::new(id.clone())
    };
    let policy = node_policy(world, site);
    world.exchange.put_node(StoredNode { facts, policy, status: None });
    world.agents.entry(id.clone()).or_insert_with(|| Agent::new(start_millis));
    agent::start(world, &id);
}

fn node_policy(world: &World, site: &str) -> NodePolicyFacts {
    let properties = [Property::new("site", site)].into_iter().collect();
    let policy = ExternalPolicy { properties, ..ExternalPolicy::default() };
    NodePolicyFacts { policy, last_updated: Some(world.now()), ..NodePolicyFacts::default() }
}

/// Publishes a service definition.
pub(crate) fn add_service(world: &mut World, service: &str, version: &str, quality: Quality) {
    let key = ServiceKey::new("o", service);
    world.quality.insert((key.clone(), version.to_owned()), quality);
    let deployment = r#"{"services":{"c":{"image":"i"}}}"#;
    world.exchange.put_service(ServiceFacts::of_device(key, version, "amd64", deployment));
}

/// Writes a deployment policy for one version.
pub(crate) fn put_policy(world: &mut World, policy: &str, service: &str, version: &str, constraint: &str) {
    put_policy_versions(world, policy, service, &[(version, 0)], constraint);
}

/// Writes a deployment policy for several versions with priorities.
pub(crate) fn put_policy_versions(
    world: &mut World,
    policy: &str,
    service: &str,
    versions: &[(&str, u32)],
    constraint: &str,
) {
    let constraints = [constraint].into_iter().collect();
    let entry = |(version, priority): &(&str, u32)| VersionChoice {
        version: (*version).to_owned(),
        priority: *priority,
        retries: u32::from(*priority > 0),
        retry_secs: if *priority > 0 { 3600 } else { 0 },
        ..VersionChoice::default()
    };
    let facts = DeploymentPolicyFacts {
        id: PolicyId::new("o", policy),
        pattern: None,
        orchestration: PolicyOrchestration::default(),
        label: policy.into(),
        service: ServiceKey::new("o", service),
        arch: "*".into(),
        cluster_namespace: String::new(),
        versions: versions.iter().map(entry).collect(),
        missing_heartbeat_secs: 0,
        agreement_check_secs: 0,
        policy: ExternalPolicy { constraints, ..ExternalPolicy::default() },
        user_input: Vec::new(),
        secret_binding: Vec::new(),
        node_orgs: ["o".parse().expect("an organization")].into(),
        last_updated: Some(world.now()),
    };
    world.exchange.put_policy(facts);
}

/// Writes a group.
pub(crate) fn put_group(world: &mut World, group: &str, members: &[&str]) {
    let members = members.iter().map(|member| NodeId::new("o", member));
    world.exchange.put_group(HaGroupFacts::new(GroupId::new("o", group), members));
}

/// Starts a number of agbots.
pub(crate) fn add_agbots(world: &mut World, count: usize) {
    for _ in 0..count {
        let agbot = Agbot::new(world);
        world.agbots.push(agbot);
    }
    for index in 0..count {
        agbot::start(world, index);
    }
}

fn build(world: &mut World) {
    // Every mode of the engine is exercised.
    world.settings.update.failure_action = match world.seed % 4 {
        1 => FailureAction::Rollback,
        2 => FailureAction::Continue,
        _ => FailureAction::Pause,
    };
    // Both limits of two groups: one at a time, and any number.
    world.settings.update.parallelism = u32::from(matches!(world.seed % 7, 0 | 6));
    let group_count = world.between(1, 2);
    for group in 0..group_count {
        let size = world.between(2, 3);
        let names: Vec<String> = (0..size).map(|member| format!("g{group}n{member}")).collect();
        for (number, name) in names.iter().enumerate() {
            let start_millis = world.between(500, 4_000);
            add_node(world, name, if number == 2 { "south" } else { "north" }, start_millis);
        }
        put_group(world, &format!("g{group}"), &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if world.chance(0.5) {
        add_node(world, "solo", "north", 1_000);
    }
    for service in ["a", "b"] {
        add_service(world, service, "1.0.0", Quality::Good);
    }
    put_policy(world, "pa", "a", "1.0.0", "site == north");
    if world.chance(0.5) {
        // Two policies that deploy one service to different members protect each other.
        put_policy(world, "pa-south", "a", "1.0.0", "site == south");
    }
    put_policy(world, "pb", "b", "1.0.0", "openhorizon.hagroup in \"g0,g1\"");
    if world.seed % 3 == 1 {
        add_service(world, "c", "1.0.0", Quality::Good);
        put_policy(world, "pc", "c", "1.0.0", "site in \"north,south\"");
        let document = json!({
            "mode": "failover",
            "orchestrate": "ha",
            "scope": {"type": "hagroups", "haGroups": ["*"]},
            "timers": {"readyPeriodSeconds": 1},
        });
        workload_chaos::put_document(world, &PolicyId::new("o", "pc"), document);
    }
    workload_chaos::build(world);
    let agbot_count = world.between(1, 3);
    add_agbots(world, usize::try_from(agbot_count).unwrap_or(1));
}

/// Draws one of several items.
pub(crate) fn pick<T: Clone>(world: &mut World, items: &[T]) -> Option<T> {
    if items.is_empty() {
        return None;
    }
    let index = usize::try_from(world.between(0, items.len() as u64 - 1)).unwrap_or(0);
    items.get(index).cloned()
}

fn some_node(world: &mut World) -> Option<NodeId> {
    let nodes: Vec<NodeId> = world.exchange.nodes.keys().cloned().collect();
    pick(world, &nodes)
}

fn some_agbot(world: &mut World) -> usize {
    let last = world.agbots.len().saturating_sub(1) as u64;
    usize::try_from(world.between(0, last)).unwrap_or(0)
}

/// Injects the next fault or change.
pub(crate) fn strike(world: &mut World) {
    let wait = world.between(1_000, 9_000);
    world.schedule(wait, ScheduledEvent::Chaos);
    match world.between(0, 99) {
        0..=20 => publish(world),
        21..=24 => change_availability(world),
        25..=34 => with_some_node(world, agent::kill_machine),
        35..=42 if draws_lost_contact(world) => with_some_node(world, agent::cut_off),
        35..=42 => with_some_node(world, agent::kill_process),
        43..=57 => revive_agents(world),
        58..=64 => {
            let index = some_agbot(world);
            agbot::kill(world, index);
        }
        65..=71 => pause_agbot(world),
        72..=76 => jump_clock(world),
        77..=81 => move_node(world),
        82..=84 => change_node_policy(world),
        85..=86 => change_policy(world),
        87..=91 => upgrade_agent(world),
        92..=93 => forget_policy(world),
        94..=95 => reinstall_node(world),
        _ => resume(world),
    }
    workload_chaos::strike(world);
    revive_agbots(world);
}

/// A quarter of the seeds draw agents that run without contact to the hub. The others draw nothing here.
fn draws_lost_contact(world: &mut World) -> bool {
    world.seed % 4 == 3 && world.chance(0.6)
}

fn with_some_node(world: &mut World, act: fn(&mut World, &NodeId)) {
    if let Some(node) = some_node(world) {
        act(world, &node);
    }
}

fn publish(world: &mut World) {
    let policies: Vec<DeploymentPolicyFacts> = world.exchange.policies.values().cloned().collect();
    let Some(mut policy) = pick(world, &policies) else { return };
    let quality = match world.between(0, 9) {
        0 => Quality::NeverStarts,
        1 => Quality::EndsAfter(world.between(1, 8)),
        2 | 3 if task_health::draws_gates(world) => Quality::FailsCheck,
        _ => Quality::Good,
    };
    let version = format!("{}.0.0", world.number());
    world.trace_line(format!("policy {} wants {version} ({quality:?})", policy.id));
    add_service(world, policy.service.name(), &version, quality);
    policy.versions.truncate(1);
    if let Some(entry) = policy.versions.first_mut() {
        entry.version = version;
    }
    policy.last_updated = Some(world.now());
    world.exchange.put_policy(policy);
}

fn revive_agents(world: &mut World) {
    let down: Vec<NodeId> =
        world.agents.iter().filter(|(_, agent)| !agent.is_up).map(|(id, _)| id.clone()).collect();
    if let Some(node) = pick(world, &down) {
        world.trace_line(format!("{node} comes back"));
        agent::start(world, &node);
    }
}

fn revive_agbots(world: &mut World) {
    for index in 0..world.agbots.len() {
        if !world.agbots[index].is_up && world.chance(0.4) {
            agbot::start(world, index);
        }
    }
}

fn pause_agbot(world: &mut World) {
    let (index, pause) = (some_agbot(world), world.between(3_000, 30_000));
    world.agbots[index].paused_until_millis = world.millis + pause;
    world.trace_line(format!("agbot {index} is suspended for {pause} ms"));
}

fn jump_clock(world: &mut World) {
    // A clock without a battery is wrong by hours until it is set.
    let (least, most) = if world.chance(0.4) { (600_000, 7_200_000) } else { (1_000, 15_000) };
    let (size, forward) = (world.between(least, most), world.chance(0.5));
    let size = i64::try_from(size).unwrap_or(0);
    world.clock_offset_millis += if forward { size } else { -size };
    world.trace_line(format!("the clock jumps {} by {size} ms", if forward { "ahead" } else { "back" }));
}

fn move_node(world: &mut World) {
    world.edited_at_millis = world.millis;
    let groups: Vec<HaGroupFacts> = world.exchange.groups.values().cloned().collect();
    let (Some(mut group), Some(node)) = (pick(world, &groups), some_node(world)) else { return };
    world.checker.note_moved(world.millis, &node);
    if group.members.contains(&node) {
        group.members.remove(&node);
        world.trace_line(format!("{node} leaves {}", group.id));
    } else {
        group.members.insert(node.clone());
        world.trace_line(format!("{node} joins {}", group.id));
    }
    world.exchange.put_group(group);
}

fn change_node_policy(world: &mut World) {
    world.edited_at_millis = world.millis;
    let Some(node) = some_node(world) else { return };
    let site = if world.chance(0.5) { "north" } else { "south" };
    let policy = node_policy(world, site);
    if let Some(stored) = world.exchange.nodes.get_mut(&node) {
        stored.policy = policy;
        world.exchange.feed.push(super::exchange::Resource::NodePolicy(node.clone()));
        world.trace_line(format!("{node} moves to site {site}"));
    }
}

fn change_availability(world: &mut World) {
    let Some(node) = some_node(world) else { return };
    let availability = match world.between(0, 3) {
        0 => Availability::Pause,
        1 => Availability::Drain,
        _ => Availability::Active,
    };
    set_availability(world, &node, availability);
}

/// An operator changes the availability of a node.
pub(crate) fn set_availability(world: &mut World, node: &NodeId, availability: Availability) {
    if let Some(stored) = world.exchange.nodes.get_mut(node) {
        stored.facts.availability = availability;
        // In some worlds nodes are drained for upgrades, after which their instances return.
        stored.facts.is_in_upgrade = availability == Availability::Drain && world.seed.is_multiple_of(2);
        world.exchange.feed.push(super::exchange::Resource::Node(node.clone()));
        world.trace_line(format!("{node} is to be {availability:?}"));
    }
}

fn change_policy(world: &mut World) {
    world.edited_at_millis = world.millis;
    let policies: Vec<DeploymentPolicyFacts> = world.exchange.policies.values().cloned().collect();
    let Some(mut policy) = pick(world, &policies) else { return };
    let constraint = match world.between(0, 2) {
        0 => "site == north",
        1 => "site == south",
        _ => "site in \"north,south\"",
    };
    policy.policy.constraints = [constraint].into_iter().collect();
    policy.last_updated = Some(world.now());
    world.trace_line(format!("policy {} now requires {constraint}", policy.id));
    world.exchange.put_policy(policy);
}

fn forget_policy(world: &mut World) {
    world.edited_at_millis = world.millis;
    let policies: Vec<PolicyId> = world.exchange.policies.keys().cloned().collect();
    if policies.len() > 1
        && let Some(policy) = pick(world, &policies)
    {
        world.trace_line(format!("policy {policy} is deleted"));
        world.exchange.remove_policy(&policy);
    }
}

/// The node is deleted and registers again, with an empty disk. Its agent may be alive when it is deleted.
fn reinstall_node(world: &mut World) {
    world.edited_at_millis = world.millis;
    let Some(node) = some_node(world) else { return };
    if world.agents.get(&node).is_some_and(|agent| agent.is_up) && world.chance(0.6) {
        world.trace_line(format!("{node} is deleted while its agent is alive"));
        let now = world.now();
        world.exchange.remove_live_node(&node, now);
        return agent::refuse(world, &node);
    }
    agent::kill_machine(world, &node);
    world.trace_line(format!("{node} is deleted and registers anew"));
    register_anew(world, &node);
}

/// An agent whose node was deleted stops everything, confirms it, and registers again.
pub(crate) fn leave(world: &mut World, node: &NodeId) {
    if world.exchange.nodes.contains_key(node) {
        return;
    }
    let held = world.agents.get(node).map(|agent| agent.held.keys().cloned().collect::<Vec<_>>());
    for agreement in held.unwrap_or_default() {
        agent::end(world, node, &agreement, None, "its node was deleted");
    }
    world.exchange.confirm_departure(node);
    world.trace_line(format!("{node} has stopped everything and registers anew"));
    register_anew(world, node);
}

fn register_anew(world: &mut World, node: &NodeId) {
    let start_millis = world.agents.remove(node).map_or(1_000, |agent| agent.start_millis);
    world.exchange.remove_node(node);
    let site = if world.chance(0.5) { "north" } else { "south" };
    add_node(world, node.name(), site, start_millis);
}

fn resume(world: &mut World) {
    let policies: Vec<PolicyId> = world.exchange.policies.keys().cloned().collect();
    let Some(policy) = pick(world, &policies) else { return };
    let action = match (world.chance(0.2), world.seed % 3) {
        (true, 2) => RolloutAction::Rollback,
        (true, _) => RolloutAction::Pause,
        (false, _) => RolloutAction::Resume,
    };
    request_action(world, &policy, action);
    if world.seed % 5 == 4 {
        free_claims(world);
    }
}

/// A user requests an action on the rollouts of a policy.
pub(crate) fn request_action(world: &mut World, policy: &PolicyId, action: RolloutAction) {
    let requester = Requester { actor: "o/operator", now: world.now() };
    let count = world.database.act_on_rollouts(policy, action, requester);
    if count > 0 {
        world.trace_line(format!("the operator requests {action:?} of {count} rollouts of {policy}"));
    }
}

/// An administrator releases all claims of a group.
fn free_claims(world: &mut World) {
    let groups: Vec<GroupId> = world.exchange.groups.keys().cloned().collect();
    if let Some(group) = pick(world, &groups) {
        world.trace_line(format!("the operator frees the claims of {group}"));
        world.database.free_claims(&group);
    }
}

/// A node requests its agent upgrade; the decision is one transaction.
fn upgrade_agent(world: &mut World) {
    let Some(node) = some_node(world) else { return };
    let Some(group) = world.exchange.group_of(&node).cloned() else { return };
    let (now, nmp) = (world.now(), NmpId::new("o", "m"));
    let rows: Vec<Claim> = world.database.claims.values().cloned().collect();
    let view = GroupView {
        group: &group,
        rows: &rows,
        members: &std::collections::BTreeMap::new(),
        refusals: &[],
        released_at: None,
        drains: false,
    };
    if let Ok((Grant::Insert, request)) = decide_agent_upgrade(view, &node, &nmp, now, &world.settings) {
        let number = world.number() + 1_000_000;
        let claim = request.into_claim(number, now);
        let key = (group.id.clone(), Scope::Agent);
        world.trace_line(format!("{node} may upgrade its agent"));
        world.database.claims.insert(key.clone(), claim);
        world.database.log.push(super::database::Row::Claim(key));
        agent::kill_process(world, &node);
    }
}

/// Ends all faults: all processes run, messages arrive.
fn repair(world: &mut World) {
    world.trace_line("faults are over; everything is repaired".to_owned());
    world.faults = Faults::default();
    world.stop_chaos();
    world.is_repaired = true;
    for index in 0..world.agbots.len() {
        world.agbots[index].paused_until_millis = 0;
        if !world.agbots[index].is_up {
            agbot::start(world, index);
        }
    }
    let down: Vec<NodeId> =
        world.agents.iter().filter(|(_, agent)| !agent.is_up).map(|(id, _)| id.clone()).collect();
    for node in down {
        agent::start(world, &node);
    }
    let cut: Vec<NodeId> =
        world.agents.keys().filter(|node| !agent::has_contact(world, node)).cloned().collect();
    for node in cut {
        agent::restore_contact(world, &node);
    }
    let nodes: Vec<NodeId> = world.exchange.nodes.keys().cloned().collect();
    for node in nodes {
        set_availability(world, &node, Availability::Active);
    }
    workload_chaos::repair(world);
}

/// Publishes good versions and resumes, as an operator does for held rollouts.
fn publish_good_versions(world: &mut World) {
    let policies: Vec<DeploymentPolicyFacts> = world.exchange.policies.values().cloned().collect();
    for mut policy in policies {
        let version = format!("{}.0.0", world.number());
        add_service(world, policy.service.name(), &version, Quality::Good);
        if let Some(entry) = policy.versions.first_mut() {
            entry.version = version;
        }
        policy.last_updated = Some(world.now());
        world.trace_line(format!("the operator sets {} to a good version", policy.id));
        world.exchange.put_policy(policy);
    }
}
