//! Members that examine each other: who examines whom.
//!
//! The running members of a workload unit form a ring in the order of their tasks; each is examined by a few before it. Edge sites have no
//! common load balancer, so that peers take its place. Source: orchestration C3 (`LB_STATUS_POLLING`, `LB_STATUS_EVENTS`).

use std::collections::BTreeMap;

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

/// Returns what the agent of a member examines; none when nothing.
pub(super) fn watch(pass: &UnitPass<'_>, policy: &HealthPolicy, task: &Task) -> Option<PeerWatch> {
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
fn after(pass: &UnitPass<'_>, task: &Task) -> Vec<Peer> {
    let (mut later, mut earlier): (BTreeMap<TaskId, Peer>, BTreeMap<TaskId, Peer>) = Default::default();
    // A slot that is new has nothing that runs.
    for slot in pass.facts.slots.keys() {
        for other in pass.tasks(slot).wanted().filter(|other| takes_part(pass, other)) {
            let Some(node) = other.node.clone().filter(|node| Some(node) != task.node.as_ref()) else {
                continue;
            };
            let side = if other.id > task.id { &mut later } else { &mut earlier };
            if side.len() == MOST_PEERS && side.last_key_value().is_some_and(|(last, _)| *last < other.id) {
                continue;
            }
            let address = pass.facts.health.get(&other.id).and_then(|found| found.address.clone());
            side.insert(other.id.clone(), Peer { task: other.id.clone(), node, address });
            if side.len() > MOST_PEERS {
                side.pop_last();
            }
        }
    }
    later.into_values().chain(earlier.into_values()).take(MOST_PEERS).collect()
}
