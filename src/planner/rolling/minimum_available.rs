//! Minimum available: may this instance stop without leaving too few others?
//!
//! "Intended" and "running" are computed per service, not per policy, so that two policies that deploy one service protect
//! each other, and members that the service is not intended for do not count. Only an instance that is *seen* running
//! counts. Source: orchestration E3, E4.

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    agreement::Agreement,
    change::GroupState,
    claims::Phase,
    facts::{Availability, HaGroupFacts},
    matching,
    model::{Liveness, Model, Observed},
    pass::Pass,
    report::Blocked,
    settings::OfflinePeerPolicy,
};

/// Returns whether an instance may be stopped for a planned change, and the other members that run the service.
///
/// `wanted`: the service that replaces it, usually the same; instances of either count, so that replacing a policy's service
/// by another one is a rolling change too.
/// # Errors
/// [`Blocked::HaMinimum`] with every other intended member and what keeps it from counting.
pub(crate) fn may_stop(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    agreement: &Agreement,
    wanted: &ServiceKey,
) -> Result<Vec<NodeId>, Blocked> {
    let running = running_elsewhere(pass, group, agreement, wanted);
    if is_lost(pass, agreement) {
        return Ok(running.running);
    }
    // |intended| - 1, because this instance is one of them.
    let others = running.running.len() + running.missing.len();
    let min_running = pass.model.update_settings(&agreement.policy).min_running;
    let minimum = (min_running as usize).min(others);
    if running.running.len() >= minimum {
        return Ok(running.running);
    }
    Err(Blocked::HaMinimum {
        group: group.id.clone(),
        service: agreement.service_key.clone(),
        wanted: u32::try_from(minimum).unwrap_or(u32::MAX),
        running: running.running,
        missing: running.missing,
    })
}

/// Returns whether nothing is lost when an instance stops: it is broken, or reported to be in error.
fn is_lost(pass: &Pass<'_>, agreement: &Agreement) -> bool {
    let (model, now) = (pass.model, pass.now);
    model.is_broken(agreement, now) || model.is_unhealthy(&agreement.policy, &agreement.node, now)
}

/// Returns why stopping an instance that its policy no longer selects would leave a gap now: another member is about to run
/// the service.
pub(crate) fn replacement_expected(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    agreement: &Agreement,
) -> Option<Blocked> {
    if is_lost(pass, agreement) {
        return None;
    }
    let elsewhere = running_elsewhere(pass, group, agreement, &agreement.service_key);
    let can_run = |node: &NodeId| {
        pass.model.may_start_on(node, pass.now)
            && is_selected(pass, node, &BTreeSet::from([&agreement.service_key]))
    };
    if !elsewhere.running.is_empty() || !elsewhere.missing.keys().any(can_run) {
        return None;
    }
    Some(Blocked::HaMinimum {
        group: group.id.clone(),
        service: agreement.service_key.clone(),
        wanted: 1,
        running: Vec::new(),
        missing: elsewhere.missing,
    })
}

/// The other intended members, running and not running.
struct Elsewhere {
    running: Vec<NodeId>,
    missing: BTreeMap<NodeId, String>,
}

fn running_elsewhere(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    agreement: &Agreement,
    wanted: &ServiceKey,
) -> Elsewhere {
    let keys = BTreeSet::from([&agreement.service_key, wanted]);
    let offline = pass.model.update_settings(&agreement.policy).offline_peers;
    let mut elsewhere = Elsewhere { running: Vec::new(), missing: BTreeMap::new() };
    for member in group.members.iter().filter(|member| **member != agreement.node) {
        if !is_intended(pass, member, &keys, offline) {
            continue;
        }
        match counts(pass, group, member, &keys) {
            Ok(()) => elsewhere.running.push(member.clone()),
            Err(why) => {
                elsewhere.missing.insert(member.clone(), why);
            }
        }
    }
    elsewhere
}

/// A member is intended when a policy selects it for the service, or while it still has the service from one.
fn is_intended(
    pass: &Pass<'_>,
    member: &NodeId,
    keys: &BTreeSet<&ServiceKey>,
    offline: OfflinePeerPolicy,
) -> bool {
    let model = pass.model;
    if model.node(member).is_none() {
        return false;
    }
    if offline == OfflinePeerPolicy::Proceed
        && matches!(model.liveness(member, pass.now), Liveness::Down { .. })
    {
        return false;
    }
    model.live_on(member).any(|agreement| keys.contains(&agreement.service_key))
        || is_selected(pass, member, keys)
}

fn is_selected(pass: &Pass<'_>, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> bool {
    let policies = keys.iter().flat_map(|key| pass.model.policies_of(key));
    policies.into_iter().any(|policy| matching::is_intended(pass.model, member, policy, pass.now))
}

/// Returns whether another agbot makes the agreements for one of the services on the member.
fn is_left_to_another(model: &Model, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> bool {
    let policies = keys.iter().flat_map(|key| model.policies_of(key));
    policies.into_iter().any(|policy| model.other_agbot_of(member, policy).is_some())
}

/// Returns a group as to the service of a policy: which of the intended members run it.
///
/// Members that are being disrupted count here; their claims are part of the state.
pub(crate) fn state_of(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    policy: &PolicyId,
    service: &ServiceKey,
) -> GroupState {
    let keys = BTreeSet::from([service]);
    let offline = pass.model.update_settings(policy).offline_peers;
    let mut state = GroupState {
        facts: group.clone(),
        service: service.clone(),
        running: BTreeSet::new(),
        missing: BTreeMap::new(),
        claims: pass.model.claims_of(&group.id).cloned().collect(),
    };
    for member in &group.members {
        if is_intended(pass, member, &keys, offline) {
            match runs(pass, member, &keys) {
                Ok(()) => {
                    state.running.insert(member.clone());
                }
                Err(why) => {
                    state.missing.insert(member.clone(), why);
                }
            }
        }
    }
    state
}

/// A member counts when it is alive, holds a final agreement for the service that is not being stopped, is seen running it,
/// and is not itself being disrupted.
fn counts(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    member: &NodeId,
    keys: &BTreeSet<&ServiceKey>,
) -> Result<(), String> {
    let claim = pass.model.claims_of(&group.id).find(|claim| claim.node == *member);
    if let Some(claim) = claim.filter(|_| pass.model.liveness(member, pass.now) == Liveness::Alive) {
        let doing = match claim.phase {
            Phase::Stopping | Phase::Starting => "being disrupted by the",
            Phase::Verifying => "not yet verified in the",
        };
        return Err(format!("{doing} {}", claim.task()));
    }
    runs(pass, member, keys)
}

/// Returns why a member is not seen running one of the services.
fn runs(pass: &Pass<'_>, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> Result<(), String> {
    let (model, now) = (pass.model, pass.now);
    match model.liveness(member, now) {
        Liveness::Alive => {}
        Liveness::NeverHeard => return Err("never heard of".to_owned()),
        // Whether its services survive is not known before it is back.
        Liveness::Away { monitor_state, since } => {
            return Err(Blocked::NodeAway { monitor_state, since }.to_string());
        }
        Liveness::Down { since } => return Err(format!("down; last heard {since}")),
    }
    let mut why = match model.availability(member) {
        Availability::Active if is_left_to_another(model, member, keys) => {
            if model.runs_for_another_agbot(member, keys, now) {
                return Ok(());
            }
            "is not seen running it for the other agbot".to_owned()
        }
        Availability::Active => "has no agreement for it".to_owned(),
        Availability::Pause => "has no agreement for it; paused".to_owned(),
        Availability::Drain => "has no agreement for it; drained".to_owned(),
    };
    for agreement in model.live_on(member).filter(|agreement| keys.contains(&agreement.service_key)) {
        if pass.is_stopping(agreement) {
            why = "its agreement is being ended".to_owned();
        } else if agreement.finalized_at().is_none() {
            why = "its agreement is not final yet".to_owned();
        } else {
            match model.observed(agreement, now) {
                Observed::Running if model.is_unhealthy(&agreement.policy, member, now) => {
                    why = "is reported to be in error".to_owned();
                }
                Observed::Running => return Ok(()),
                Observed::Absent => why = format!("does not run {}", agreement.version),
                Observed::Unknown => why = "has not reported whether it runs".to_owned(),
            }
        }
    }
    Err(why)
}
