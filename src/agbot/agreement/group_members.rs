//! Members of an HA group that run a service, from the model.
//!
//! "Intended" and "running" are computed per service, not per policy, so that two policies that deploy one service protect
//! each other, and members that the service is not intended for do not count. Only an instance that is *seen* running
//! counts. Source: orchestration E3, E4.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::{self as change, GroupState};
use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_model::{
    model::{Liveness, Model, Observed, selection},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::Claim,
    facts::{Availability, HaGroupFacts},
    health::is_unhealthy_member,
    report::Blocked,
    settings::OfflinePeerPolicy,
    workload::Task,
};

/// Returns a group as to the service of a policy: which of the intended members run it.
///
/// Members that are being disrupted count as running here; their claims are part of the state.
/// # Shape
/// `replacement`: the service that replaces it, usually the same; instances of either count, so that replacing a policy's service
/// by another one is a rolling change too.
pub(crate) fn group_state(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    policy: &PolicyId,
    service: &ServiceKey,
    replacement: &ServiceKey,
) -> GroupState {
    let keys = BTreeSet::from([service, replacement]);
    let offline = pass.model.update_settings(policy).offline_peers;
    let claims: Vec<_> = pass.model.claims_of(&group.id).cloned().collect();
    let (mut running, mut missing, mut down) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let mut failing = BTreeSet::new();
    for member in group.members.iter().filter(|member| is_intended(pass, member, &keys, offline)) {
        let claim = claims.iter().find(|claim| claim.node == *member);
        match runs(pass, member, &keys) {
            Ok(()) => {
                running.insert(member.clone());
                failing.extend(is_failing(pass, member, &keys).then(|| member.clone()));
            }
            Err(why) => {
                if pass.model.is_down(member, pass.now) {
                    down.insert(member.clone());
                }
                let claim = claim.filter(|_| pass.model.liveness(member, pass.now) == Liveness::Alive);
                missing.insert(member.clone(), claim.map_or(why, Claim::disruption));
            }
        }
    }
    GroupState { facts: group.clone(), service: service.clone(), running, failing, missing, down, claims }
}

/// Returns whether nothing is lost when an instance stops: it is broken, or reported to be in error.
pub(crate) fn is_lost(pass: &Pass<'_>, agreement: &Agreement) -> bool {
    let (model, now) = (pass.model, pass.now);
    model.is_broken(agreement, now) || model.is_unhealthy(&agreement.policy, &agreement.node, now)
}

/// Returns the instance that a node must not lose now, if all of them are away for a while: fewer than the minimum available would run.
pub(crate) fn missing_without(pass: &Pass<'_>, node: &NodeId) -> Option<Blocked> {
    let model = pass.model;
    let group = model.group_of(node)?;
    model.live_on(node).find_map(|agreement| {
        // The only instance of a failover policy is away with its node anyway.
        let is_single = model.workload_of(&agreement.policy).is_some_and(|one| one.goal.is_exclusive());
        let (policy, service) = (&agreement.policy, &agreement.service_key);
        let state = group_state(pass, group, policy, service, service);
        if is_single || !state.running.contains(node) {
            return None;
        }
        change::may_stop(&state, node, (model.update_settings(policy).min_running, true)).err()
    })
}

/// Returns the wait for members of the group that are to run the service of a policy, while too few others than `node` do.
pub(crate) fn missing_successor(
    pass: &Pass<'_>,
    group: &HaGroupFacts,
    policy: &PolicyId,
    (node, service): (&NodeId, &ServiceKey),
) -> Option<Blocked> {
    let is_selected = |node: &NodeId| is_selected(pass, node, &BTreeSet::from([service]));
    let minimum = pass.model.update_settings(policy).min_running;
    group_state(pass, group, policy, service, service).missing_successor((node, minimum), is_selected)
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
    if offline == OfflinePeerPolicy::Proceed && model.is_down(member, pass.now) {
        return false;
    }
    model.live_on(member).any(|agreement| keys.contains(&agreement.service_key))
        || is_selected(pass, member, keys)
}

fn is_selected(pass: &Pass<'_>, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> bool {
    let policies = keys.iter().flat_map(|key| pass.model.policies_of(key));
    policies.into_iter().any(|policy| selection::is_intended(pass.model, member, policy, pass.now))
}

/// Returns whether another agbot makes the agreements for one of the services on the member.
fn is_left_to_another(model: &Model, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> bool {
    let policies = keys.iter().flat_map(|key| model.policies_of(key));
    policies.into_iter().any(|policy| model.other_agbot_of(member, policy).is_some())
}

/// Returns whether all instances of the services that run on a member fail the health policies of their workloads.
fn is_failing(pass: &Pass<'_>, member: &NodeId, keys: &BTreeSet<&ServiceKey>) -> bool {
    let model = pass.model;
    let fails = |task: &Task| {
        let health = model.workload_of(&task.unit_id.policy).and_then(|workload| workload.health.as_ref());
        let reported = model.node(member).and_then(|record| record.health.get(&task.id));
        health.is_some_and(|policy| policy.enabled && is_unhealthy_member(policy, task, reported, pass.now))
    };
    let of_services = model.live_on(member).filter(|agreement| keys.contains(&agreement.service_key));
    let mut running =
        of_services.filter_map(|one| model.task_of(one)).filter(|task| task.is_running()).peekable();
    running.peek().is_some() && running.all(fails)
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
        Liveness::Unheard { since } => return Err(format!("not heard since {since}")),
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
        let task = model.task_of(agreement);
        let is_ending = pass.is_stopping(agreement) || task.is_some_and(|task| !task.is_wanted());
        // A node that reports tasks speaks of them before it speaks of its services.
        let is_reported = model.is_capable(member)
            && task.is_some_and(|task| task.is_running() && model.is_current(member, task.state_at, now));
        let observed = if is_reported { Observed::Running } else { model.observed(agreement, now) };
        why = match observed {
            _ if is_ending => "its agreement is being ended".to_owned(),
            _ if !is_reported && agreement.finalized_at().is_none() => {
                "its agreement is not final yet".to_owned()
            }
            Observed::Running if model.is_unhealthy(&agreement.policy, member, now) => {
                "is reported to be in error".to_owned()
            }
            Observed::Running => return Ok(()),
            Observed::Absent => format!("does not run {}", agreement.version),
            Observed::Unknown => "has not reported whether it runs".to_owned(),
        };
    }
    Err(why)
}
