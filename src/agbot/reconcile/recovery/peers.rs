//! Members that examine each other: who examines whom.
//!
//! The running members of a workload unit form a circle in the order of their tasks; each is examined by a few before it. Edge sites have no
//! common load balancer, so that peers take its place. Source: orchestration C3 (`LB_STATUS_POLLING`, `LB_STATUS_EVENTS`).

use std::ops::Bound;

use evenkeel_domain::orchestration::health_policy::{DetectionMode, DetectionType, HealthPolicy};
use evenkeel_ids::GroupId;
use evenkeel_planner_record::workload::{Peer, PeerWatch, Probe, Task};

use crate::unit_pass::{Circle, UnitPass};

/// Members that one agent examines at most.
const MOST_PEERS: usize = 4;
/// Time between two checks when the policy names none, because peers push what they see.
const EVENTS_INTERVAL_SECS: u64 = 5;

/// Returns what the agent of a member examines; none when nothing. The policy of its workload goes before that of the HA group of its node.
pub(super) fn watch(pass: &mut UnitPass<'_>, task: &Task) -> Option<PeerWatch> {
    if !takes_part(pass, task) {
        return None;
    }
    let own = pass.facts.workload.health.as_ref().filter(|policy| policy.enabled);
    if let Some((policy, mode)) = own.and_then(|policy| Some((policy, policy.peer_mode()?))) {
        let members = after(pass, task, None);
        return watch_by(pass, policy, mode, members);
    }
    let group = &pass.facts.recovery.nodes.get(task.node.as_ref()?)?.group;
    let policy = pass.facts.recovery.policies.get(group).filter(|policy| policy.enabled)?;
    let mode = policy.node_peer_mode()?;
    let members = after(pass, task, Some(group));
    watch_by(pass, policy, mode, members)
}

fn watch_by(
    pass: &UnitPass<'_>,
    policy: &HealthPolicy,
    mode: &DetectionMode,
    members: Vec<Peer>,
) -> Option<PeerWatch> {
    let interval = match mode.kind {
        DetectionType::LbStatusEvents => EVENTS_INTERVAL_SECS,
        _ => policy.detection.interval.min(pass.facts.settings.health_interval_max_secs),
    };
    let interval_secs = u32::try_from(interval).unwrap_or(u32::MAX);
    (!members.is_empty()).then(|| PeerWatch {
        members,
        port: mode.peer_options.map(|options| options.port),
        probe: mode.options.as_ref().map(|options| Probe::of(options, interval_secs)),
        interval_secs,
    })
}

fn takes_part(pass: &UnitPass<'_>, task: &Task) -> bool {
    task.is_wanted() && task.is_running() && pass.node_of(task).is_some_and(|node| node.is_capable)
}

/// Returns the members that follow one in the circle, those on its own node left out; only those in a group, if one is given.
fn after(pass: &mut UnitPass<'_>, task: &Task, group: Option<&GroupId>) -> Vec<Peer> {
    let circle = pass.circle.take().unwrap_or_else(|| members(pass));
    let later = circle.range((Bound::Excluded(&task.id), Bound::Unbounded));
    let others = later.chain(circle.range(..&task.id)).map(|(_, member)| member);
    let is_meant = |(peer, of): &&(Peer, Option<GroupId>)| {
        Some(&peer.node) != task.node.as_ref() && (group.is_none() || of.as_ref() == group)
    };
    let found = others.filter(is_meant).take(MOST_PEERS).map(|(peer, _)| peer.clone()).collect();
    pass.circle = Some(circle);
    found
}

/// Returns the members of the workload unit that take part. A slot that is new has nothing that runs.
fn members(pass: &UnitPass<'_>) -> Circle {
    let tasks = pass.facts.slots.keys().flat_map(|slot| pass.tasks(slot).wanted());
    let members = tasks.filter(|task| takes_part(pass, task)).filter_map(|task| {
        let node = task.node.clone()?;
        let address = pass.facts.recovery.addresses.get(&node).cloned();
        let group = pass.node_of(task)?.group.clone();
        Some((task.id.clone(), (Peer { task: task.id.clone(), node, address }, group)))
    });
    members.collect()
}
