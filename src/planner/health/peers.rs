//! Members that examine each other: who examines whom.
//!
//! The running members of a workload unit form a ring in the order of their tasks; each is examined by a few before it. Edge sites have no
//! common load balancer, so that peers take its place. Source: orchestration C3 (`LB_STATUS_POLLING`, `LB_STATUS_EVENTS`).

use std::{collections::BTreeMap, ops::Bound};

use evenkeel_domain::orchestration::health_policy::{DetectionType, HealthPolicy};
use evenkeel_ids::TaskId;

use crate::{
    reconcile::UnitPass,
    workload::{Peer, PeerWatch, Probe, Task},
};

/// Members that one agent examines at most.
const MOST_PEERS: usize = 4;
/// Time between two checks when the policy names none, because peers push what they see.
const EVENTS_INTERVAL_SECS: u64 = 5;

/// The members that take part.
pub(crate) type Ring = BTreeMap<TaskId, Peer>;

/// Returns what the agent of a member examines; none when nothing.
pub(super) fn watch(pass: &mut UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> Option<PeerWatch> {
    let mode = policy.peer_mode().filter(|_| policy.enabled && takes_part(pass, task))?;
    let members = after(pass, task);
    if members.is_empty() {
        return None;
    }
    let interval = match mode.kind {
        DetectionType::LbStatusEvents => EVENTS_INTERVAL_SECS,
        _ => policy.detection.interval.min(pass.facts.settings.health_interval_max_secs),
    };
    let interval_secs = u32::try_from(interval).unwrap_or(u32::MAX);
    Some(PeerWatch {
        members,
        port: mode.peer_options.map(|options| options.port),
        probe: mode.options.as_ref().map(|options| Probe::of(options, interval_secs)),
        interval_secs,
    })
}

fn takes_part(pass: &UnitPass<'_>, task: &Task) -> bool {
    task.is_wanted() && task.is_running() && pass.node_of(task).is_some_and(|node| node.is_capable)
}

/// Returns the members that follow one in the ring, those on its own node left out.
fn after(pass: &mut UnitPass<'_>, task: &Task) -> Vec<Peer> {
    let ring = pass.ring.take().unwrap_or_else(|| members(pass));
    let later = ring.range((Bound::Excluded(&task.id), Bound::Unbounded));
    let others = later.chain(ring.range(..&task.id)).map(|(_, peer)| peer);
    let found =
        others.filter(|peer| Some(&peer.node) != task.node.as_ref()).take(MOST_PEERS).cloned().collect();
    pass.ring = Some(ring);
    found
}

/// Returns the members of the workload unit that take part. A slot that is new has nothing that runs.
fn members(pass: &UnitPass<'_>) -> Ring {
    let tasks = pass.facts.slots.keys().flat_map(|slot| pass.tasks(slot).wanted());
    let peers = tasks.filter(|task| takes_part(pass, task)).filter_map(|task| {
        let address = pass.facts.health.get(&task.id).and_then(|found| found.address.clone());
        Some((task.id.clone(), Peer { task: task.id.clone(), node: task.node.clone()?, address }))
    });
    peers.collect()
}
