//! Actions of users on workloads, drawn from the seed: moves, starts and stops on nodes, restarts, with and
//! without force, and instances that exit.
//!
//! A request is accepted by the model of one agbot and stored in one transaction on the row of the workload, as the agbot's API does it.
//! Source: orchestration A6, A11, B10; engine 8.

use std::collections::BTreeMap;

use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use evenkeel_planner_record::workload::{
    ActionGoal, ActionGoals, Cause, Instance, LastingAction, Part, Task, UserAction,
};
use evenkeel_reconcile::user_action::{RequestedAction, RequestedRecovery, accept};

use super::{
    agent::{self, Container},
    agent_tasks,
    chaos::pick,
    database::Row,
    workload_chaos::{choose, nodes},
    world::World,
};

/// Share of the actions that lift the gates which a user may lift.
const FORCED_SHARE: f64 = 0.25;

/// A user requests an action that lasts.
pub(crate) fn act(world: &mut World, policy: &PolicyId) {
    let kind = choose(world, &LastingAction::ALL);
    let nodes = nodes(world);
    let named = pick(world, &nodes);
    let is_named = world.chance(0.6);
    let (node, destinations) = match kind {
        LastingAction::Takeover => (named, Vec::new()),
        LastingAction::Switch => (None, named.into_iter().filter(|_| is_named).collect()),
        LastingAction::Giveback => (None, Vec::new()),
        LastingAction::Start | LastingAction::Stop | LastingAction::Restart | LastingAction::Recover => {
            (named.filter(|_| is_named), Vec::new())
        }
    };
    let (is_forced, now) = (world.chance(FORCED_SHARE), world.now());
    let recovery = RequestedRecovery::default();
    let recovery = (kind == LastingAction::Recover).then_some(&recovery);
    let node = node.as_ref();
    let is_of_part = node.is_none() && world.chance(0.3);
    let index = usize::try_from(world.between(0, world.agbots.len() as u64 - 1)).unwrap_or(0);
    // An agbot that is down responds to no request.
    let Some(agbot) = world.agbots.get(index).filter(|agbot| agbot.is_up) else { return };
    let parts = agbot.model.parts_of(policy);
    let names = agbot.model.workload_units_of(policy).map(|(id, _)| id.name().to_owned());
    let names: Vec<String> = names.filter(|_| is_of_part).collect();
    let part = pick(world, &names);
    let part = part.as_deref();
    let request = RequestedAction { kind, part, node, destinations: &destinations, is_forced, recovery };
    let Some(agbot) = world.agbots.get(index) else { return };
    match accept(&agbot.model, policy, &request, now) {
        Ok(goals) => begin(world, policy, (kind.name(), is_forced), goals, &parts),
        Err(why) => {
            world.trace_line(format!(
                "{} of {policy} in {part:?} on {node:?} is refused: {why:?}",
                kind.name()
            ));
        }
    }
}

/// A user's action begins: one transaction on the rows of the workload and of its nodes.
pub(crate) fn begin(
    world: &mut World,
    policy: &PolicyId,
    (name, is_forced): (&str, bool),
    goals: ActionGoals,
    parts: &BTreeMap<NodeId, Part>,
) {
    let Some(record) = world.database.workloads.get(policy) else { return };
    let action = UserAction {
        id: format!("{policy} {}", record.revision),
        name: name.to_owned(),
        actor: "o/operator".to_owned(),
        unit_name: None,
        accepted_at: world.now(),
        is_forced,
        goals,
    };
    let Ok(next) = record.begin(action.clone()) else { return };
    world.trace_line(format!(
        "the operator requests {name} of {policy}, force: {is_forced}: {:?}",
        action.goals
    ));
    let rows = world.database.instances.iter().filter(|((of, _), _)| of == policy);
    let rows: BTreeMap<NodeId, Instance> = rows.map(|((_, node), row)| (node.clone(), row.clone())).collect();
    for (node, row) in action.changed_rows(&rows, parts) {
        world.database.instances.insert((policy.clone(), node.clone()), row);
        world.database.log.push(Row::Instance(policy.clone(), node));
    }
    world.database.workloads.insert(policy.clone(), next);
    world.database.log.push(Row::Workload(policy.clone()));
}

/// A user wants whatever the policy wants again, after all actions.
pub(crate) fn start_again(world: &mut World, policy: &PolicyId) {
    begin(world, policy, ("start", false), vec![(None, ActionGoal::Started)], &BTreeMap::new());
}

/// An instance of a workload exits.
pub(crate) fn exit(world: &mut World, policy: &PolicyId) {
    let running: Vec<(NodeId, AgreementId)> = world
        .agents
        .iter()
        .flat_map(|(node, agent)| agent.held.iter().map(move |(id, held)| (node, id, held)))
        .filter(|(.., held)| held.policy == *policy && held.container == Container::Running)
        .map(|(node, id, _)| (node.clone(), id.clone()))
        .collect();
    let Some((node, agreement)) = pick(world, &running) else { return };
    let code = choose(world, &[1, 1, 137, 255]);
    agent_tasks::note_exit(world, &node, &agreement, code);
    agent::end(world, &node, &agreement, Some(103), &format!("it exited with {code}"));
    agent_tasks::report_states(world, &node);
}

/// Returns whether a user lifted the gates for one of a workload's tasks, so that a second instance may run beside it.
pub(crate) fn is_forced<'t>(mut tasks: impl Iterator<Item = &'t Task>) -> bool {
    tasks.any(|task| task.cause == Cause::User { force: true })
}

/// Returns the actions in progress without a stated reason to wait.
pub(crate) fn unexplained(world: &World) -> Vec<String> {
    let is_explained = |policy: &PolicyId| {
        let mut of_policy = world.agbots.iter().flat_map(|one| one.model.workload_units_of(policy));
        of_policy.any(|(_, unit)| !unit.blocked.is_empty() || unit.unplaced.is_some())
    };
    let open = world.database.workloads.iter().filter_map(|(policy, record)| {
        let action = record.action.as_ref()?;
        (!is_explained(policy))
            .then(|| format!("{} of {policy} is in progress: {:?}", action.name, action.goals))
    });
    open.collect()
}
