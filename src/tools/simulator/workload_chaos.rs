//! Workloads in schedules with faults: policies with tasks that are drawn from the seed, and what users do to them.
//!
//! A third of the seeds have them. The others draw nothing here, so that their schedules stay as they are. Source: engine 8.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::{
    facts::{Mode, PolicyOrchestration},
    workload::{ActionGoal, Instance, InstanceSummary, Requester, RolloutAction, Task, WorkloadAction},
};
use serde_json::{Value, json};

use super::{
    chaos::{add_node, add_service, pick, put_policy},
    database::Row,
    domains,
    exchange::Resource,
    health_chaos, task_health, user_actions, workload,
    world::{Quality, World},
};

/// Share of the faults that come with a user's action on a workload.
const ACTION_SHARE: f64 = 0.4;

const MODES: [&str; 4] = ["global", "replicated", "failover", "flex"];
const PLACEMENT_POLICIES: [&str; 6] =
    ["nodes-order", "spread", "last-start", "shift", "least-instances", "none"];

/// Returns whether a seed draws workloads.
fn is_drawn(world: &World) -> bool {
    matches!(world.seed % 6, 3 | 4) || task_health::draws_gates(world)
}

/// Adds workloads, nodes outside of groups, and agents that read tasks.
pub(crate) fn build(world: &mut World) {
    if !is_drawn(world) {
        return;
    }
    for number in 0..world.between(0, 3) {
        let start_millis = world.between(500, 4_000);
        let site = choose(world, &["north", "south"]);
        add_node(world, &format!("x{number}"), site, start_millis);
    }
    domains::build(world);
    let shares: &[f64] = if task_health::draws_gates(world) { &[0.7, 1.0] } else { &[0.0, 0.5, 1.0] };
    let capable_share = choose(world, shares);
    for node in nodes(world) {
        let is_capable = world.chance(capable_share);
        world.exchange.set_capable(&node, is_capable);
    }
    health_chaos::build(world);
    for number in 0..world.between(1, 2) {
        let name = format!("w{number}");
        add_service(world, &name, "1.0.0", Quality::Good);
        put_policy(world, &name, &name, "1.0.0", "site in \"north,south\"");
        let mode = choose(world, &MODES);
        let policy = PolicyId::new("o", &name);
        let document = draw(world, &policy, mode);
        put_document(world, &policy, document);
    }
}

pub(crate) fn choose<T: Copy>(world: &mut World, items: &[T]) -> T {
    pick(world, items).unwrap_or(items[0])
}

pub(crate) fn nodes(world: &World) -> Vec<NodeId> {
    world.exchange.nodes.keys().cloned().collect()
}

/// A user writes the `orchestration` of a policy.
pub(crate) fn put_document(world: &mut World, policy: &PolicyId, document: Value) {
    world.trace_line(format!("workload {policy}: {document}"));
    let document = match Orchestration::of_policy(policy, document) {
        Ok(document) => document,
        Err(error) => return world.checker.broke(format!("the drawn document is refused: {error}")),
    };
    let now = world.now();
    if let Some(mut facts) = world.exchange.policies.get(policy).cloned() {
        facts.orchestration = PolicyOrchestration::of(policy, &document);
        facts.last_updated = Some(now);
        world.exchange.put_policy(facts);
    }
}

/// Draws a document of a mode; its restart delay is never the default one, so that it always has tasks.
fn draw(world: &mut World, policy: &PolicyId, mode: &str) -> Value {
    let mut document = json!({
        "mode": mode,
        "scope": draw_scope(world),
        "restart": draw_restart(world, mode),
        "update": draw_update(world, mode),
        "rollback": {"parallelism": world.between(0, 2), "monitorSeconds": 1, "startTimeoutSeconds": 40},
        "placement": draw_placement(world, mode),
    });
    match mode {
        "replicated" => {
            // Some ask for more than all nodes can hold.
            let (least, most) = if world.chance(0.15) { (20, 5_000) } else { (0, 4) };
            let replicas = world.between(least, most);
            if replicas > 20 {
                world
                    .trace_line(format!("{policy} wants {replicas} instances, more than all nodes can hold"));
            }
            document["replicas"] = json!(replicas);
            document["maxPerNode"] = json!(world.between(1, 2));
        }
        "flex" => {
            let target = world.between(1, 3);
            document["flex"] = json!({"min": world.between(0, 1), "max": 0, "target": target});
        }
        _ => {}
    }
    if matches!(mode, "failover" | "flex") {
        document["orchestrate"] = json!(choose(world, &["ha", "ha", "start"]));
        document["timers"] = json!({"readyPeriodSeconds": world.between(0, 6)});
    }
    domains::draw(world, &mut document);
    task_health::draw(world, &mut document);
    task_health::draw_gates(world, &mut document);
    draw_affinity(world, policy, &mut document);
    draw_dependencies(world, policy, &mut document);
    document
}

fn draw_scope(world: &mut World) -> Value {
    match world.between(0, 4) {
        0..=1 => json!({"type": "eligible"}),
        2 => json!({"type": "hagroups", "haGroups": ["*"]}),
        3 => json!({"type": "hagroups", "haGroups": ["g0"]}),
        _ => {
            let mut names: Vec<String> = nodes(world).iter().map(|node| node.name().to_owned()).collect();
            let last = usize::try_from(world.between(0, names.len() as u64 - 1)).unwrap_or(0);
            names.rotate_left(last);
            names.truncate(3);
            json!({"type": "nodes", "nodes": names})
        }
    }
}

fn draw_restart(world: &mut World, mode: &str) -> Value {
    let exhausted: &[&str] = if mode == "global" { &["none"] } else { &["none", "switch"] };
    json!({
        "condition": choose(world, &["any", "any", "on-failure", "none"]),
        "delaySeconds": world.between(0, 4),
        "maxAttempts": choose(world, &[0, 0, 1, 3]),
        "windowSeconds": choose(world, &[0, 60]),
        "onExhausted": choose(world, exhausted),
    })
}

fn draw_update(world: &mut World, mode: &str) -> Value {
    let orders: &[&str] = if mode == "failover" { &["stop-first"] } else { &["start-first", "stop-first"] };
    json!({
        "parallelism": world.between(0, 2),
        "delaySeconds": choose(world, &[0, 0, 5]),
        "monitorSeconds": world.between(1, 5),
        "startTimeoutSeconds": 40,
        "maxFailureRatio": choose(world, &[0.0, 0.3]),
        "order": choose(world, orders),
        "failureAction": choose(world, &["pause", "continue", "rollback"]),
    })
}

fn draw_placement(world: &mut World, mode: &str) -> Value {
    let mut placement = json!({"onViolation": choose(world, &["report", "move"])});
    if world.chance(0.25) {
        placement["expression"] =
            json!(choose(world, &["{node.site} == north", "{node.site} in (north, east)"]));
    }
    if mode != "global" && world.chance(0.6) {
        let policy = choose(world, &PLACEMENT_POLICIES);
        placement["policy"] = json!(policy);
        if matches!(policy, "nodes-order" | "shift") {
            placement["nodesOrder"] = json!(["g0n1", "x0"]);
        }
    }
    placement
}

/// In half of the schedules with workloads these name each other, or other policies, all in one kind of list: lists of several kinds can
/// contradict each other, so that instances would follow and flee each other without end.
fn draw_affinity(world: &mut World, policy: &PolicyId, document: &mut Value) {
    if world.seed % 6 != 4 || !world.chance(0.7) {
        return;
    }
    let list = ["hardAnti", "hard", "softAnti", "soft"][(world.seed / 6 % 4) as usize];
    let mut names: Vec<String> =
        world.exchange.policies.keys().map(|policy| policy.name().to_owned()).collect();
    names.extend(["w0", "w1"].map(str::to_owned));
    names.retain(|name| name != policy.name());
    let last = names.len() as u64 - 1;
    let name = &names[world.between(0, last) as usize];
    document["placement"]["affinity"] = json!({list: [name]});
    document["timers"]["affinityWaitSeconds"] = json!(world.between(1, 20));
}

/// In the other half of the schedules with workloads these have parents or children, those that come before them in the order of
/// their names, so that there is no cycle.
fn draw_dependencies(world: &mut World, policy: &PolicyId, document: &mut Value) {
    if world.seed % 6 != 3 || !world.chance(0.5) {
        return;
    }
    let relation = ["parents", "children"][(world.seed / 6 % 2) as usize];
    let known = world.exchange.policies.keys().map(|policy| policy.name().to_owned());
    let names: Vec<String> = known.filter(|name| name.as_str() < policy.name()).collect();
    if let Some(name) = pick(world, &names) {
        document[relation] = json!([name]);
    }
}

/// Sometimes a user acts on a workload.
pub(crate) fn strike(world: &mut World) {
    health_chaos::strike(world);
    task_health::strike(world);
    if !is_drawn(world) || !world.chance(ACTION_SHARE) {
        return;
    }
    let policies: Vec<PolicyId> = world.database.workloads.keys().cloned().collect();
    let Some(policy) = pick(world, &policies) else { return };
    match world.between(0, 14) {
        0..=2 => edit(world, &policy),
        3..=4 => act_on_workload(world, &policy),
        5..=6 => act_on_instance(world, &policy),
        7 => freeze_node(world),
        8..=9 => exchange_agent(world),
        10 => user_actions::exit(world, &policy),
        _ => user_actions::act(world, &policy),
    }
}

/// Another document of the same mode: another number, scope, order or supervisor.
fn edit(world: &mut World, policy: &PolicyId) {
    let facts = world.exchange.policies.get(policy);
    let Some(document) = facts.and_then(|facts| facts.orchestration.document.clone()) else { return };
    let written = serde_json::to_value(document.as_ref()).unwrap_or_default();
    let mode = written["mode"].as_str().unwrap_or("global").to_owned();
    world.edited_at_millis = world.millis;
    let mut next = draw(world, policy, &mode);
    // Groups stay groups: instances that were counted by group and are counted together then are for a user to decide about.
    let is_of_groups = |document: &Value| document["scope"]["type"] == "hagroups";
    if is_of_groups(&next) != is_of_groups(&written) || world.chance(0.5) {
        next["scope"] = written["scope"].clone();
    }
    put_document(world, policy, next);
}

/// An action of a user on a workload.
#[derive(Clone, Copy)]
enum Drawn {
    Start,
    Stop,
    AtOnce(WorkloadAction),
}

fn act_on_workload(world: &mut World, policy: &PolicyId) {
    let drawn = choose(
        world,
        &[
            Drawn::Start,
            Drawn::Stop,
            Drawn::AtOnce(WorkloadAction::Freeze),
            Drawn::AtOnce(WorkloadAction::Thaw),
            Drawn::AtOnce(WorkloadAction::Abort),
            Drawn::AtOnce(WorkloadAction::Clear),
            Drawn::AtOnce(WorkloadAction::Update(RolloutAction::Pause)),
            Drawn::AtOnce(WorkloadAction::Update(RolloutAction::Resume)),
            Drawn::AtOnce(WorkloadAction::Update(RolloutAction::Rollback)),
        ],
    );
    match drawn {
        Drawn::Start => start(world, policy),
        Drawn::Stop => {
            let goals = vec![(None, ActionGoal::Stopped)];
            user_actions::begin(world, policy, ("stop", false), goals, &BTreeMap::new());
        }
        Drawn::AtOnce(action) => request_action(world, policy, action),
    }
}

/// A user starts what a user stopped or froze.
fn start(world: &mut World, policy: &PolicyId) {
    let record = world.database.workloads.get(policy);
    if record.is_some_and(|record| record.is_stopped || record.is_frozen) {
        user_actions::start_again(world, policy);
    }
}

/// A user requests an action on a workload: one transaction on its row.
fn request_action(world: &mut World, policy: &PolicyId, action: WorkloadAction) {
    let requester = Requester { actor: "o/operator", now: world.now() };
    let Some(record) = world.database.workloads.get(policy) else { return };
    let mut tasks = world.database.tasks.values().filter(|task| task.unit_id.policy == *policy);
    let instances = InstanceSummary { is_any_frozen: false, is_any_wanted: tasks.any(Task::is_live) };
    if let Ok(next) = record.act(action, instances, requester) {
        world.trace_line(format!("the operator requests {} of {policy}", action.name()));
        world.database.workloads.insert(policy.clone(), next);
        world.database.log.push(Row::Workload(policy.clone()));
    }
}

fn act_on_instance(world: &mut World, policy: &PolicyId) {
    let nodes = nodes(world);
    let Some(node) = pick(world, &nodes) else { return };
    let action = choose(world, &[WorkloadAction::Freeze, WorkloadAction::Thaw, WorkloadAction::Clear]);
    request_action_on(world, policy, &node, action);
}

/// A user requests an action on a workload on one node.
fn request_action_on(world: &mut World, policy: &PolicyId, node: &NodeId, action: WorkloadAction) {
    let key = (policy.clone(), node.clone());
    let stored: Instance = world.database.instances.get(&key).cloned().unwrap_or_default();
    if let Ok(next) = stored.act(action, world.now()) {
        world.trace_line(format!("the operator requests {} of {policy} on {node}", action.name()));
        world.database.instances.insert(key, next);
        world.database.log.push(Row::Instance(policy.clone(), node.clone()));
    }
}

fn freeze_node(world: &mut World) {
    let nodes = nodes(world);
    if let Some(node) = pick(world, &nodes) {
        let is_frozen = world.chance(0.5);
        set_frozen(world, &node, is_frozen);
    }
}

fn set_frozen(world: &mut World, node: &NodeId, is_frozen: bool) {
    if let Some(stored) = world.exchange.nodes.get_mut(node)
        && stored.facts.is_frozen != is_frozen
    {
        stored.facts.is_frozen = is_frozen;
        world.exchange.feed.push(Resource::Node(node.clone()));
        world.trace_line(format!("{node} is frozen: {is_frozen}"));
    }
}

/// An agent is replaced by one that reads tasks, or by one that does not.
fn exchange_agent(world: &mut World) {
    let mut workloads =
        world.database.workloads.keys().filter_map(|policy| world.exchange.policies.get(policy));
    // An agent that does not know of tasks starts all that it has agreed to.
    if workloads.any(|facts| facts.orchestration.mode() == Mode::Failover) {
        return;
    }
    let nodes = nodes(world);
    let Some(node) = pick(world, &nodes) else { return };
    let is_capable = world.exchange.nodes.get(&node).is_some_and(|stored| stored.facts.is_capable);
    workload::replace_agent(world, &node, !is_capable);
}

/// The operator ends everything that keeps workloads from what their policies want.
pub(crate) fn repair(world: &mut World) {
    health_chaos::repair(world);
    task_health::repair(world);
    let policies: Vec<PolicyId> = world.database.workloads.keys().cloned().collect();
    for policy in &policies {
        request_action(world, policy, WorkloadAction::Abort);
    }
    let instances: Vec<(PolicyId, NodeId)> = world.database.instances.keys().cloned().collect();
    for (policy, node) in &instances {
        request_action_on(world, policy, node, WorkloadAction::Thaw);
        request_action_on(world, policy, node, WorkloadAction::Clear);
    }
    for node in nodes(world) {
        set_frozen(world, &node, false);
    }
    for policy in &policies {
        user_actions::start_again(world, policy);
    }
}
