//! Agent upgrades: which member of a group may upgrade its agent now.
//!
//! A pure function over the group's rows, its members and what is known of them; the row is inserted if the group's rows are
//! still the same (the locked table of requirement 004). Members of no group never need to ask. Source: orchestration E6; agbot 3.3.

use std::collections::BTreeMap;

use evenkeel_change::{Grant, may_take};
use evenkeel_ids::{NmpId, NodeId};
use evenkeel_planner_model::model::Liveness;
use evenkeel_planner_record::{
    claims::{Claim, ClaimRequest, Purpose, Scope},
    facts::{HaGroupFacts, NodeMonitorState},
    report::Blocked,
    settings::PlannerSettings,
    time::later,
};
use jiff::Timestamp;

/// Refused requests are remembered this long.
pub const REFUSAL_MEMORY_SECS: u64 = 180;

/// After a release the member refused longest ago is preferred this long.
const TURN_SECS: u64 = 120;

/// The known state of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Its liveness.
    pub liveness: Liveness,
    /// True while its operator keeps services off it: the node is paused or being drained.
    pub is_away: bool,
    /// Status it reports for the management policy in question.
    pub nmp_status: Option<String>,
}

/// A member whose request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The member.
    pub node: NodeId,
    /// First refusal since its last grant.
    pub first_at: Timestamp,
    /// Latest refusal.
    pub last_at: Timestamp,
}

/// The inputs of the decision.
///
/// # Shape
/// `rows`: all claims of the group at the revision that the insert expects. `members`: known states by node; a missing member
/// counts as never heard of. `refusals`, `released_at`: empty and none when turns are not kept.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    /// The group.
    pub group: &'a HaGroupFacts,
    /// Its claims.
    pub rows: &'a [Claim],
    /// Its members.
    pub members: &'a BTreeMap<NodeId, MemberView>,
    /// Members whose requests were refused.
    pub refusals: &'a [Refusal],
    /// When an agent claim of the group was released last.
    pub released_at: Option<Timestamp>,
    /// True if the management policy requires that the member is drained first.
    pub drains: bool,
}

/// Returns whether `node` may upgrade its agent now.
///
/// Granted when no other member holds a claim of any kind (agent or service, E5.4), some other member's agent is not known to
/// be away, no other member failed with the same management policy, and no member has waited longer. The same node with the
/// same policy is granted again.
/// # Shape
/// [`Grant::Insert`] comes with the row to insert; [`Grant::Held`] changes nothing.
/// # Errors
/// The reason for the refusal (409), to be shown and logged.
/// # Source
/// Requirements 004 ("Agbot APIs"); orchestration E6.2, E6.7; agbot 3.3, 6.2.
pub fn decide_agent_upgrade(
    view: GroupView<'_>,
    node: &NodeId,
    nmp: &NmpId,
    now: Timestamp,
    settings: &PlannerSettings,
) -> Result<(Grant, ClaimRequest), Blocked> {
    let request = ClaimRequest {
        group: view.group.id.clone(),
        scope: Scope::Agent,
        node: node.clone(),
        purpose: Purpose::AgentUpgrade { nmp: nmp.clone(), drains: view.drains },
        version: String::new(),
        deadline: later(now, view.group.lock_stale_secs.unwrap_or(settings.lock_stale_secs)),
        seen_running: others_alive(view, node),
        parallelism: 0,
    };
    match may_take(view.rows, &request, view.group)? {
        Grant::Held => Ok((Grant::Held, request)),
        Grant::Insert => {
            check_failed_peers(view, node, settings)?;
            check_peers_away(view, node)?;
            check_turn(view, node, now)?;
            Ok((Grant::Insert, request))
        }
    }
}

fn others<'a>(view: GroupView<'a>, node: &'a NodeId) -> impl Iterator<Item = &'a NodeId> {
    view.group.members.iter().filter(move |member| *member != node)
}

fn others_alive(view: GroupView<'_>, node: &NodeId) -> Vec<NodeId> {
    let is_alive = |member: &&NodeId| {
        view.members.get(*member).is_some_and(|known| known.liveness == Liveness::Alive && !known.is_away)
    };
    others(view, node).filter(is_alive).cloned().collect()
}

/// A version that failed on one member is not tried on the others.
fn check_failed_peers(view: GroupView<'_>, node: &NodeId, settings: &PlannerSettings) -> Result<(), Blocked> {
    if !settings.hold_agents_after_failure {
        return Ok(());
    }
    let failed = others(view, node).find_map(|member| {
        let status = view.members.get(member)?.nmp_status.as_deref()?;
        is_failed(status).then(|| (member.clone(), status.to_owned()))
    });
    match failed {
        Some((node, status)) => {
            Err(Blocked::AgentPeer { node, state: format!("\"{status}\" with the same policy") })
        }
        None => Ok(()),
    }
}

/// Only members *known* to be away count; members never heard of do not. One that announced its absence is waited for; of those that are down
/// or drained, which may last, one other member is enough.
fn check_peers_away(view: GroupView<'_>, node: &NodeId) -> Result<(), Blocked> {
    let announced = others(view, node).find_map(|member| match view.members.get(member)?.liveness {
        Liveness::Away {
            monitor_state: monitor_state @ (NodeMonitorState::Maintenance | NodeMonitorState::Upgrade),
            since,
        } => Some((member, monitor_state, since)),
        _ => None,
    });
    if let Some((member, monitor_state, since)) = announced {
        let state = format!("in {} since {since}", monitor_state.word());
        return Err(Blocked::AgentPeer { node: member.clone(), state });
    }
    let mut away = None;
    for member in others(view, node) {
        match view.members.get(member) {
            Some(known) if known.is_away => {
                away.get_or_insert((member, "away for maintenance or an upgrade".to_owned()));
            }
            Some(MemberView { liveness: Liveness::Down { since }, .. }) => {
                away.get_or_insert((member, format!("down; last heard {since}")));
            }
            _ => return Ok(()),
        }
    }
    match away {
        Some((node, state)) => Err(Blocked::AgentPeer { node: node.clone(), state }),
        None => Ok(()),
    }
}

fn check_turn(view: GroupView<'_>, node: &NodeId, now: Timestamp) -> Result<(), Blocked> {
    let Some(until) = view.released_at.map(|at| later(at, TURN_SECS)).filter(|until| now < *until) else {
        return Ok(());
    };
    // One that has upgraded meanwhile, or failed, waits no longer.
    let is_over = |member: &NodeId| {
        let known = view.members.get(member).and_then(|known| known.nmp_status.as_deref());
        known.is_some_and(|status| !is_active(status))
    };
    let waiting = view.refusals.iter().filter(|one| {
        let is_remembered = now < later(one.last_at, REFUSAL_MEMORY_SECS);
        view.group.members.contains(&one.node) && is_remembered && !is_over(&one.node)
    });
    match waiting.min_by_key(|one| (one.first_at, one.node.clone())) {
        Some(first) if first.node != *node => Err(Blocked::AgentTurn { node: first.node.clone(), until }),
        _ => Ok(()),
    }
}

/// Returns whether a status means that the node is still upgrading under its claim.
///
/// # Source
/// Orchestration E6.5.
pub fn is_active(status: &str) -> bool {
    matches!(status, "download started" | "downloaded" | "initiated" | "rollback started" | "ha node waiting")
}

/// Returns whether a status means that the upgrade has ended, whatever the result.
pub fn is_over(status: &str) -> bool {
    is_failed(status)
        || matches!(status, "successful" | "no action required" | "download failed" | "precheck failed")
}

/// Returns whether a status means that the upgrade failed.
pub fn is_failed(status: &str) -> bool {
    matches!(status, "failed" | "rollback failed" | "rollback successful")
}

#[cfg(test)]
#[path = "agent_upgrade_tests.rs"]
mod tests;
