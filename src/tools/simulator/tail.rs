//! The record reader of a simulated agbot: as in production, through the log of changed records.
//!
//! Read events reach the engine later, and the record may have changed meanwhile. The log keeps the newest rows only; an agbot that
//! falls behind reads all records. A read may fail.

use std::collections::BTreeSet;

use super::{
    agbot::handle,
    database::Row,
    world::{ScheduledEvent, World},
};
use evenkeel_planner_model::{event::Event, model::Model};

/// Rows that the log keeps.
const KEPT_ROWS: usize = 60;

/// The read position of an agbot in the log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// `None`: the next read is in bulk.
    position: Option<usize>,
    /// Events that were read and have not reached the engine.
    unapplied: Vec<Event>,
}

impl Tail {
    /// Creates a tail that has read everything up to a position.
    pub fn at(position: usize) -> Self {
        Self { position: Some(position), unapplied: Vec::new() }
    }
}

/// Sends the events of the last read to the engine, and reads on.
pub(crate) fn tail(world: &mut World, index: usize, incarnation: u32) {
    let Some(agbot) = world.agbots.get(index).filter(|one| one.is_up && one.incarnation == incarnation)
    else {
        return;
    };
    if world.millis < agbot.paused_until_millis {
        let wait = agbot.paused_until_millis - world.millis;
        return world.schedule(wait, ScheduledEvent::Tail { agbot: index, incarnation });
    }
    apply(world, index);
    read(world, index);
    let pause = world.between(50, 800);
    world.schedule(pause, ScheduledEvent::Tail { agbot: index, incarnation });
}

/// Updates the model with everything committed; false when the read fails.
pub(crate) fn catch_up(world: &mut World, index: usize) -> bool {
    apply(world, index);
    let is_read = read(world, index);
    apply(world, index);
    is_read
}

fn apply(world: &mut World, index: usize) {
    for event in std::mem::take(&mut world.agbots[index].tail.unapplied) {
        handle(world, index, &event, None);
    }
}

fn read(world: &mut World, index: usize) -> bool {
    if world.chance(world.faults.lost) {
        world.agbots[index].tail.position = None;
        return false;
    }
    let end = world.database.log.len();
    let (agbot, now) = (&world.agbots[index], world.now());
    let position = agbot.tail.position.filter(|position| position + KEPT_ROWS >= end);
    let rows: BTreeSet<Row> = match position {
        Some(position) => world.database.log[position..].iter().cloned().collect(),
        None => world.database.recent_rows(now).into_iter().chain(held_rows(&agbot.model)).collect(),
    };
    let events = rows.iter().filter_map(|row| world.database.read(row));
    let unapplied = events.filter(|event| !agbot.model.is_recorded(event)).collect();
    world.agbots[index].tail = Tail { position: Some(end), unapplied };
    true
}

fn held_rows(model: &Model) -> Vec<Row> {
    let held = model.record_keys();
    let agreements = held.agreements.into_iter().map(Row::Agreement);
    let usage = held.usage.into_iter().map(|(node, policy)| Row::Usage(node, policy));
    let claims = held.claims.into_iter().map(Row::Claim);
    let rollouts = held.rollouts.into_iter().map(|(group, policy)| Row::Rollout(group, policy));
    let workloads = held.workloads.into_iter().map(Row::Workload);
    let tasks = held.tasks.into_iter().map(Row::Task);
    let instances = held.instances.into_iter().map(|(policy, node)| Row::Instance(policy, node));
    let health = held.health.into_iter().map(Row::Health);
    let blocklist = held.blocklist.into_iter().map(Row::Blocklist);
    let registrations = held.registrations.into_iter().map(Row::Registration);
    let of_workloads = workloads.chain(tasks).chain(instances).chain(health).chain(blocklist);
    let of_workloads = of_workloads.chain(registrations);
    agreements.chain(usage).chain(claims).chain(rollouts).chain(of_workloads).collect()
}
