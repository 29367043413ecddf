//! The simulated agbot process: the effects around [`decide`], with everything that can go wrong around them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    agent::ToAgent,
    agent_tasks,
    database::Row,
    exchange::Resource,
    tail::{Tail, catch_up},
    world::{ScheduledEvent, World},
};
use evenkeel_explain::placements::Placements;
use evenkeel_ids::{AgreementId, GroupId, NodeId};
use evenkeel_planner::decide::decide;
use evenkeel_planner_model::{
    command::{Action, Command, MessageFate},
    event::{Event, Outcome},
    model::Model,
};
use evenkeel_planner_record::agreement::Agreement;

const POLL_MILLIS: u64 = 800;
const LEASE_SECS: u64 = 6;

/// An agbot process.
pub(crate) struct Agbot {
    pub is_up: bool,
    pub incarnation: u32,
    /// Until then the process is suspended, and then continues with its old state.
    pub paused_until_millis: u64,
    pub model: Model,
    /// The placements that it shows.
    pub placements: Placements,
    leases: BTreeMap<u32, u64>,
    feed_position: usize,
    pub tail: Tail,
    /// Messages whose commands are in flight, with the number of remaining commands.
    in_work: BTreeMap<u64, usize>,
}

impl Agbot {
    pub fn new(world: &World) -> Self {
        Self {
            is_up: true,
            incarnation: 0,
            paused_until_millis: 0,
            model: Model::new(world.deliberate.settings(&world.settings)),
            placements: Placements::default(),
            leases: BTreeMap::new(),
            feed_position: 0,
            tail: Tail::default(),
            in_work: BTreeMap::new(),
        }
    }
}

/// Starts or restarts a process: it has no state and reads everything.
pub(crate) fn start(world: &mut World, index: usize) {
    let now = world.now();
    let (deliberate, fresh) = (world.deliberate, Agbot::new(world));
    let read = world.exchange.read_all().into_iter();
    let alive = world.database.alive_at.map(|at| Event::HubWasAlive { at });
    let seen = alive.into_iter().chain(read.filter_map(|event| deliberate.seen(event, &fresh.model)));
    let events: Vec<Event> = seen.chain(world.database.read_all(now)).collect();
    let (feed, tail) = (world.exchange.feed.len(), Tail::at(world.database.log.len()));
    let Some(agbot) = world.agbots.get_mut(index) else { return };
    let incarnation = agbot.incarnation + 1;
    *agbot = Agbot { incarnation, feed_position: feed, tail, ..fresh };
    for event in &events {
        agbot.model.apply(event, now);
    }
    world.trace_line(format!("agbot {index} starts"));
    world.schedule(100, ScheduledEvent::Poll { agbot: index, incarnation });
    world.schedule(100, ScheduledEvent::Tail { agbot: index, incarnation });
}

pub(crate) fn kill(world: &mut World, index: usize) {
    if let Some(agbot) = world.agbots.get_mut(index) {
        agbot.is_up = false;
        agbot.incarnation += 1;
        world.trace_line(format!("agbot {index} dies"));
    }
    if world.deliberate.loses_messages {
        let leases = &world.database.leases;
        let is_lost = |partition| leases.get(&partition).is_some_and(|lease| lease.owner == index);
        world.database.outbox.retain(|row| !is_lost(row.partition));
    }
}

/// Reads all changes and decides about them.
pub(crate) fn poll(world: &mut World, index: usize, incarnation: u32) {
    let Some(agbot) = world.agbots.get(index).filter(|one| one.is_up && one.incarnation == incarnation)
    else {
        return;
    };
    if world.millis < agbot.paused_until_millis {
        let wait = agbot.paused_until_millis - world.millis;
        return world.schedule(wait, ScheduledEvent::Poll { agbot: index, incarnation });
    }
    for event in world.deliberate.assumed_statuses(&world.agbots[index].model, world.now()) {
        handle(world, index, &event, None);
    }
    renew_leases(world, index);
    read_awaited_statuses(world, index);
    read(world, index);
    request_unknown_records(world, index);
    read_mail(world, index);
    deliver(world, index, incarnation);
    // It may have crashed while sending.
    if !world.agbots.get(index).is_some_and(|one| one.is_up && one.incarnation == incarnation) {
        return;
    }
    let now = world.now();
    let is_due = world.agbots[index].model.next_watch_at().is_none_or(|at| at <= now);
    if is_due || world.chance(0.1) {
        handle(world, index, &Event::Tick, None);
    }
    let jitter = world.between(0, 400);
    world.schedule(POLL_MILLIS + jitter, ScheduledEvent::Poll { agbot: index, incarnation });
}

/// Reads what has changed in the exchange, and decides about it.
pub(crate) fn read(world: &mut World, index: usize) {
    for event in new_events(world, index) {
        handle(world, index, &event, None);
    }
}

fn renew_leases(world: &mut World, index: usize) {
    let now = world.now();
    let count = world.agbots.len().max(1);
    let mut leases = BTreeMap::new();
    for partition in 0..world.settings.partition_count {
        let is_free = world.database.leases.get(&partition).is_none_or(|row| row.until <= now);
        // Each agbot prefers certain partitions, and waits a little before taking another one's.
        let is_preferred = partition as usize % count == index;
        if is_free && !is_preferred && !world.chance(0.3) {
            continue;
        }
        if let Some(fencing) = world.database.lease(partition, index, now, LEASE_SECS) {
            leases.insert(partition, fencing);
        }
    }
    let held = world.agbots[index].leases.clone();
    let is_held = |partition: &u32, fencing: &u64| held.get(partition) == Some(fencing);
    // Nothing is decided about a partition before its records are read, and before it is known which nodes are silent: the agbot may
    // have stood still.
    if leases.iter().any(|(partition, fencing)| !is_held(partition, fencing)) {
        let heartbeats = world.exchange.heartbeats();
        handle(world, index, &heartbeats, None);
        if !catch_up(world, index) {
            leases.retain(|partition, fencing| is_held(partition, fencing));
        }
    }
    if leases != held {
        world.agbots[index].leases.clone_from(&leases);
        handle(world, index, &Event::PartitionsChanged { leases }, None);
    }
}

/// Reads the status of nodes again that was read while another agbot looked after them.
fn read_awaited_statuses(world: &mut World, index: usize) {
    let model = &world.agbots[index].model;
    let nodes = model.nodes_awaiting_status().cloned();
    let read = nodes.map(|node| world.exchange.read(&Resource::NodeStatus(node)));
    let events: Vec<Event> = read.filter_map(|event| world.deliberate.seen(event, model)).collect();
    events.iter().for_each(|event| handle(world, index, event, None));
}

fn new_events(world: &mut World, index: usize) -> Vec<Event> {
    let agbot = &world.agbots[index];
    let resources: BTreeSet<&Resource> = world.exchange.feed[agbot.feed_position..].iter().collect();
    let has_group = resources.iter().any(|resource| matches!(resource, Resource::Group(_)));
    let read = resources.into_iter().map(|resource| world.exchange.read(resource));
    let model = &world.agbots[index].model;
    // Instances that may still run on a deleted node are recorded before the node disappears.
    let departures = std::iter::once(world.exchange.departures());
    let read = read.filter_map(|event| world.deliberate.seen(event, model));
    let mut events: Vec<Event> = departures.chain(read).collect();
    let feed = world.exchange.feed.len();
    // A node that joins a group moves to the group's partition: records that other agbots wrote about it must be known first.
    if has_group && !catch_up(world, index) {
        events.clear();
    } else {
        world.agbots[index].feed_position = feed;
    }
    events.push(world.exchange.heartbeats());
    world.database.alive_at = Some(world.now());
    events
}

/// Reads the records of unknown agreements that nodes report or send messages about.
fn request_unknown_records(world: &mut World, index: usize) {
    let model = &world.agbots[index].model;
    let of_mail = world.mailbox.iter().map(|mail| &mail.message.agreement);
    let of_mail = of_mail.filter(|id| model.agreement(id).is_none());
    let unknown: BTreeSet<AgreementId> = model.unknown_agreements().chain(of_mail).cloned().collect();
    for id in unknown {
        if let Some(event) = world.database.read(&Row::Agreement(id)) {
            handle(world, index, &event, None);
        }
    }
}

fn read_mail(world: &mut World, index: usize) {
    let now_millis = world.millis;
    world.mailbox.retain(|mail| now_millis < mail.expires_millis);
    let in_work = &world.agbots[index].in_work;
    let mails: Vec<_> =
        world.mailbox.iter().filter(|mail| !in_work.contains_key(&mail.id)).cloned().collect();
    for mail in mails {
        handle(world, index, &Event::Message { message: Box::new(mail.message) }, Some(mail.id));
    }
}

/// Applies an event, decides, and schedules the commands.
pub(crate) fn handle(world: &mut World, index: usize, event: &Event, mail: Option<u64>) {
    let (now, seed) = (world.now(), world.number());
    let agbot = &mut world.agbots[index];
    let decision = world.effort.measure(|| {
        agbot.model.apply(event, now);
        let decision = decide(&agbot.model, event, now, seed ^ (index as u64) << 48);
        agbot.model.note(&decision, now);
        decision
    });
    agbot.placements.forget(event);
    agbot.placements.note(decision.report.pairs.clone(), now);
    let incarnation = agbot.incarnation;
    let mail = mail.filter(|_| decision.message == Some(MessageFate::Delete));
    match mail {
        Some(id) if decision.message_commands == 0 => world.mailbox.retain(|mail| mail.id != id),
        Some(id) => {
            agbot.in_work.insert(id, decision.message_commands);
        }
        None => {}
    }
    for event in &decision.report.events {
        let line = format!("agbot {index}: {} {}", event.kind, event.text);
        world.trace_line(line);
        if event.kind == "rollout.paused" {
            world.checker.held_count += 1;
        }
    }
    for (number, command) in decision.commands.into_iter().enumerate() {
        if matches!(command.action, Action::ReportHealth { .. } | Action::DropHealth { .. }) {
            report_health(world, index, command);
            continue;
        }
        let delay = world.between(5, 300);
        let mail = mail.filter(|_| number < decision.message_commands);
        let command = Box::new(command);
        world.schedule(delay, ScheduledEvent::Execute { agbot: index, incarnation, command, mail });
    }
}

/// Carries out a command about health at once: what is reported decides about nothing else, so its schedule is not drawn.
fn report_health(world: &mut World, index: usize, command: Command) {
    let now = world.now();
    let outcome = world.database.execute(&command, None, &|_| false, now);
    let entities = match &command.action {
        Action::ReportHealth { entity, .. } => vec![entity.clone()],
        Action::DropHealth { entities, .. } => entities.clone(),
        _ => Vec::new(),
    };
    // Every agbot reads it in the log, here at once.
    let stored: Vec<Event> =
        entities.into_iter().filter_map(|entity| world.database.read(&Row::Health(entity))).collect();
    for agbot in world.agbots.iter_mut().filter(|agbot| agbot.is_up) {
        stored.iter().for_each(|event| agbot.model.apply(event, now));
    }
    let event = Event::CommandOutcome { command: Box::new(command), outcome };
    world.agbots[index].model.apply(&event, now);
}

/// Records the outcome of a message's command: the message is deleted when all of them succeeded, else handled again.
fn note_for_mail(world: &mut World, index: usize, id: u64, outcome: &Outcome) {
    let in_work = &mut world.agbots[index].in_work;
    let is_done = matches!(outcome, Outcome::Done | Outcome::ClaimTaken { .. });
    match in_work.get_mut(&id) {
        Some(left) if is_done && *left > 1 => *left -= 1,
        Some(_) => {
            in_work.remove(&id);
            if is_done {
                world.mailbox.retain(|mail| mail.id != id);
            }
        }
        None => {}
    }
}

/// Sends the outbox messages of this agbot's partitions, in order.
pub(crate) fn deliver(world: &mut World, index: usize, incarnation: u32) {
    let Some(agbot) = world.agbots.get(index).filter(|one| one.is_up && one.incarnation == incarnation)
    else {
        return;
    };
    if world.millis < agbot.paused_until_millis {
        return;
    }
    let now = world.now();
    let mut rows = world.database.take_deliverable(index, now).into_iter();
    while let Some(row) = rows.next() {
        // A deleted node gets nothing.
        match &row.message {
            _ if !world.exchange.nodes.contains_key(&row.node) => {}
            ToAgent::Task { task, .. } => agent_tasks::publish(world, &row.node, task),
            message => world.send_to_agent(&row.node, message),
        }
        if world.chance(world.faults.crash_after_commit / 4.0) {
            world.database.outbox =
                std::iter::once(row).chain(rows).chain(world.database.outbox.drain(..)).collect();
            kill(world, index);
            return world
                .trace_line(format!("agbot {index} died after it sent a message, before it recorded that"));
        }
    }
}

/// Carries out a command: the transaction first, then the network effects.
pub(crate) fn execute(
    world: &mut World,
    index: usize,
    incarnation: u32,
    command: Command,
    mail: Option<u64>,
) {
    let Some(agbot) = world.agbots.get(index).filter(|one| one.is_up && one.incarnation == incarnation)
    else {
        return;
    };
    if world.millis < agbot.paused_until_millis {
        let wait = agbot.paused_until_millis - world.millis;
        let command = Box::new(command);
        return world.schedule(wait, ScheduledEvent::Execute { agbot: index, incarnation, command, mail });
    }
    let now = world.now();
    let group = group_of(&command.action).and_then(|group| agbot.model.group(group)).cloned();
    let was_live = cancelled(&command.action).and_then(|id| world.database.agreements.get(id)).cloned();
    let is_capable = |node: &NodeId| agbot.model.is_capable(node);
    let outcome = world.database.execute(&command, group.as_ref(), &is_capable, now);
    world.trace_line(format!("agbot {index}: {} -> {}", text(&command.action), outcome_text(&outcome)));
    if let Some(agreement) = was_live.filter(Agreement::is_live) {
        super::invariants::cancel_committed(world, &command.action, &agreement, &outcome);
    }
    if world.chance(world.faults.crash_after_commit) {
        kill(world, index);
        world.trace_line(format!("agbot {index} died after a commit, before any other effect"));
        return;
    }
    if let Some(id) = mail {
        note_for_mail(world, index, id, &outcome);
    }
    let delay = world.between(1, 100);
    world.schedule(delay, ScheduledEvent::DeliverOutbox { agbot: index, incarnation });
    let event = Event::CommandOutcome { command: Box::new(command), outcome };
    handle(world, index, &event, None);
}

fn group_of(action: &Action) -> Option<&GroupId> {
    match action {
        Action::TakeClaim { request } => Some(&request.group),
        _ => None,
    }
}

fn cancelled(action: &Action) -> Option<&AgreementId> {
    match action {
        Action::Cancel { agreement, .. } => Some(agreement),
        _ => None,
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::PlanApplied { claims } => format!("applied, {} claims taken", claims.len()),
        Outcome::ClaimTaken { claim } => format!("taken, number {}", claim.fencing),
        Outcome::Refused { why } => format!("refused: {why}"),
        Outcome::Failed { why } => format!("failed: {why}"),
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::Propose { agreement, .. } => {
            format!(
                "propose {:?} {} {} to {}",
                agreement.id, agreement.policy, agreement.version, agreement.node
            )
        }
        Action::Cancel { agreement, node, policy, reason, claim, .. } => {
            let planned = if claim.is_some() { " under claim" } else { "" };
            format!("cancel {agreement:?} {policy} on {node}, {}{planned}", reason.0)
        }
        Action::TakeClaim { request } => {
            format!(
                "claim {} for {} ({}), seen running {:?}",
                request.scope, request.node, request.version, request.seen_running
            )
        }
        Action::AdvanceClaim { claim, phase, .. } => format!("advance {} to {phase:?}", claim.scope),
        Action::ReleaseClaim { claim, why, .. } => {
            format!("release {} number {}: {why}", claim.scope, claim.fencing)
        }
        Action::RecordRollout { rollout } => format!("record rollout {} {:?}", rollout.target, rollout.state),
        other => other.key().as_str().to_owned(),
    }
}
