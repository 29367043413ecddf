//! Recoveries: what no action may do that takes a running instance away.
//!
//! Never more at once than the policy allows, none for a cause that most members share, none of the last running member of an HA group, and none
//! because a check is broken. Source: orchestration C6; engine 8.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_planner_record::workload::{Part, Recovery, Slot, Task, UnitId, Workload};
use jiff::Timestamp;

use super::{
    agent::Container,
    agent_tasks::NodeTask,
    invariants, task_health,
    workload::{tasks_of, workload_of},
    world::World,
};

/// Age of a report that every agbot has read, and on which every command that was decided before it has been carried out.
const READ_MILLIS: u64 = 5_000;

type Place = (UnitId, Slot);

/// Recoveries as they were checked last, and for how long the nodes have reported what decides about them.
#[derive(Debug, Default)]
pub(crate) struct RecoveryWatch {
    in_progress: BTreeMap<Place, Timestamp>,
    failing: BTreeMap<TaskId, u64>,
    broken: BTreeMap<TaskId, u64>,
}

impl RecoveryWatch {
    /// Returns what the recoveries of a policy break whose actions have begun. `before`: its changed tasks as they were.
    pub fn check(&mut self, world: &World, policy: &PolicyId, before: &[Task]) -> Option<String> {
        let now: BTreeMap<Place, Timestamp> = tasks_of(world, policy)
            .filter(|task| task.is_wanted() && task.health.is_recovering())
            .filter_map(|task| Some((place_of(task), task.health.recovery.as_ref()?.action_since?)))
            .collect();
        let is_of_policy = |place: &Place| place.0.policy == *policy;
        let known: BTreeMap<Place, Timestamp> =
            self.in_progress.iter().filter(|(place, _)| is_of_policy(place)).map(copy).collect();
        self.in_progress.retain(|place, _| !is_of_policy(place));
        self.in_progress.extend(now.iter().map(copy));
        let is_begun = |task: &&Task| {
            let place = place_of(task);
            now.get(&place).is_some_and(|at| known.get(&place) != Some(at))
        };
        let begun: Vec<&Task> = before.iter().filter(is_begun).filter(|task| may_lose(world, task)).collect();
        if begun.is_empty() || invariants::was_just_edited(world) || was_just_suspended(world) {
            return None;
        }
        let (_, workload) = workload_of(world, policy)?;
        let stayed = known.keys().filter(|place| now.contains_key(*place)).cloned();
        let at_once: BTreeSet<Place> = stayed.chain(begun.iter().map(|task| place_of(task))).collect();
        too_many(&workload, &at_once).or_else(|| {
            begun.iter().find_map(|task| {
                let recovery = recovery_of(world, task)?;
                self.common_cause(world, &workload, (task, &recovery), &begun)
                    .or_else(|| self.broken_check(world, (task, &recovery)))
                    .or_else(|| below_minimum(world, &workload, (task, &recovery)))
            })
        })
    }

    /// Records since when nodes report failing and broken checks.
    pub fn note_reports(&mut self, world: &World) {
        if !task_health::is_drawn(world) {
            return;
        }
        let reported = || world.exchange.tasks.values().flatten();
        let is_failing = |task: &NodeTask| task.health.healthy == Some(false);
        // One that fails has come to a result.
        let is_broken = |task: &NodeTask| task.health.check_error.is_some() && task.health.healthy.is_none();
        update_since(
            &mut self.failing,
            reported().filter(|(_, task)| is_failing(task)).map(|(id, _)| id),
            world,
        );
        update_since(
            &mut self.broken,
            reported().filter(|(_, task)| is_broken(task)).map(|(id, _)| id),
            world,
        );
    }

    fn common_cause(
        &self,
        world: &World,
        workload: &Workload,
        (task, recovery): (&Task, &Recovery),
        begun: &[&Task],
    ) -> Option<String> {
        let policy = workload.health.as_ref().filter(|policy| policy.poll_options().is_some())?;
        if recovery.order.is_some() || recovery.of_group.is_some() {
            return None;
        }
        let is_begun = |task: &&Task| begun.iter().any(|one| place_of(one) == place_of(task));
        let stored = tasks_of(world, &workload.policy).filter(|task| !is_begun(task));
        let members = stored.filter(|one| one.is_wanted() && one.is_running()).chain(begun.iter().copied());
        let members: Vec<&Task> = members.filter(|one| one.unit_id == task.unit_id).collect();
        let is_failing =
            |one: &&&Task| is_old(self.failing.get(&one.id), world) && !is_on_lost_node(world, one);
        let failing = members.iter().filter(is_failing).count();
        policy.recovery.is_common_cause(failing, members.len()).then(|| {
            format!(
                "the instance of {} is recovered although {failing} of {} fail",
                task_text(task),
                members.len()
            )
        })
    }

    fn broken_check(&self, world: &World, (task, recovery): (&Task, &Recovery)) -> Option<String> {
        let is_ordered = recovery.order.is_some() || recovery.of_group.is_some();
        let is_first = recovery.step == 0 && recovery.failures == 0;
        (is_first && !is_ordered && is_old(self.broken.get(&task.id), world))
            .then(|| format!("the instance of {} is recovered although its check is broken", task_text(task)))
    }
}

fn copy((place, at): (&Place, &Timestamp)) -> (Place, Timestamp) {
    (place.clone(), *at)
}

fn update_since<'t>(
    since: &mut BTreeMap<TaskId, u64>,
    reported: impl Iterator<Item = &'t TaskId>,
    world: &World,
) {
    let reported: BTreeSet<&TaskId> = reported.collect();
    since.retain(|id, _| reported.contains(id));
    for id in reported {
        since.entry(id.clone()).or_insert(world.millis);
    }
}

fn is_old(since: Option<&u64>, world: &World) -> bool {
    since.is_some_and(|since| world.millis >= since + READ_MILLIS)
}

/// Returns whether an agbot may act on what it read before it was suspended.
fn was_just_suspended(world: &World) -> bool {
    world.agbots.iter().any(|agbot| agbot.paused_until_millis + READ_MILLIS > world.millis)
}

fn place_of(task: &Task) -> Place {
    (task.unit_id.clone(), task.slot.clone())
}

fn task_text(task: &Task) -> String {
    let node = task.node.as_ref().map_or("no node", NodeId::as_str);
    format!("task {} on {node}", task.id.as_str())
}

fn is_on_lost_node(world: &World, task: &Task) -> bool {
    task.node.as_ref().is_some_and(|node| invariants::counts_as_lost(world, node))
}

/// Returns whether an action takes an instance away that runs, as the hub knows it. One that its node reported as down is no loss.
fn may_lose(world: &World, task: &Task) -> bool {
    let is_known = task.is_wanted() && task.is_running() && !is_on_lost_node(world, task);
    let found = task.node.as_ref().and_then(|node| world.agents.get(node)).and_then(|agent| {
        let held = agent.tasks.get(&task.id)?;
        let runs = agent.held.get(&held.agreement)?.container == Container::Running;
        Some(runs && held.condition.report.lifecycle.is_none())
    });
    is_known && found == Some(true)
}

/// Returns the recovery of a member; the task that took its place continues with it.
fn recovery_of(world: &World, task: &Task) -> Option<Recovery> {
    let mut tasks = tasks_of(world, &task.unit_id.policy).filter(|one| place_of(one) == place_of(task));
    tasks.find_map(|one| one.health.recovery.as_deref().filter(|_| one.is_wanted()).cloned())
}

/// Returns a violation when more recoveries are in progress than the policy allows. In an HA group one member is recovered at a time anyway.
fn too_many(workload: &Workload, at_once: &BTreeSet<Place>) -> Option<String> {
    let limit =
        workload.health.as_ref().map_or(1, |policy| policy.recovery.limit(workload.update.parallelism));
    let is_limited = at_once.iter().all(|(unit_id, _)| unit_id.part == Part::All);
    (is_limited && at_once.len() > limit as usize).then(|| {
        let slots: Vec<String> = at_once.iter().map(|(_, slot)| slot.to_string()).collect();
        format!("{} of {} are recovered at once, {limit} may be", slots.join(", "), workload.policy)
    })
}

/// Returns a violation when the recovery of a member of an HA group leaves none that runs, although another one was to.
fn below_minimum(world: &World, workload: &Workload, (task, recovery): (&Task, &Recovery)) -> Option<String> {
    let node = task.node.as_ref()?;
    let group = world.exchange.group_of(node)?;
    let facts = world.exchange.policies.get(&workload.policy)?;
    // An instance on a node that is reported to be in error counts as lost already.
    let counts = recovery.of_group.is_none() && !workload.goal.is_exclusive();
    if !counts || workload.update.min_running == 0 {
        return None;
    }
    let is_other = |one: &&Task| {
        let is_member = one.node.as_ref().is_some_and(|one| one != node && group.members.contains(one));
        is_member && one.is_live() && place_of(one) != place_of(task) && !is_on_lost_node(world, one)
    };
    let others = tasks_of(world, &workload.policy).filter(is_other).count();
    let keys = [facts.service.clone()];
    let is_excused = invariants::is_excused(world, node, &keys);
    (others > 0 && !is_excused && world.running_elsewhere(node, &keys).is_empty()).then(|| {
        format!(
            "the last running instance of {} in its group, {}, is recovered",
            facts.service,
            task_text(task)
        )
    })
}
