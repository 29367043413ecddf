//! Plans one unit: the rollout of one policy through one HA group, step by step.
//!
//! A step is: take the group's claim, stop the old copy, start the new one, see it running and healthy for a while,
//! release the claim. A step that fails or stalls holds the rollout and leaves the others as they are. Every wait has the
//! claim's deadline and a reason in the report. Source: orchestration B11, E4, E5.

use super::gates::{just_started, parallelism_reached, recheck, request_for};
use super::{Rollout, RolloutState, drain, progress, step};
use crate::{
    agreement::Agreement,
    claims::{self, Purpose, Scope},
    command::{Action, Lease},
    facts::{DeploymentPolicyFacts, HaGroupFacts},
    focus::Focus,
    ids::{GroupId, NodeId, PolicyId, stable_hash},
    matching::{self, Choice, Fit},
    model::Observed,
    pass::Pass,
    report::Blocked,
    settings::UpdateSettings,
    usage::later,
};

/// Plans every unit in focus.
pub(crate) fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    for (group, policy) in &focus.units {
        plan(pass, group, policy);
    }
}

/// One copy that is to be replaced.
pub(super) struct Slot<'a> {
    pub(super) agreement: &'a Agreement,
    pub(super) choice: Choice,
}

/// A unit with everything its steps look at.
pub(super) struct Unit<'a> {
    pub(super) lease: Lease,
    pub(super) group: &'a HaGroupFacts,
    pub(super) policy: &'a DeploymentPolicyFacts,
    pub(super) digest: u64,
    pub(super) update: UpdateSettings,
    /// Copies that are to be replaced.
    pub(super) dirty: Vec<Slot<'a>>,
    /// Copies that are to leave nodes that are being drained.
    pub(super) leaving: Vec<&'a Agreement>,
    /// The rollout to the present target, if it has begun.
    pub(super) rollout: Option<&'a Rollout>,
}

fn plan(pass: &mut Pass<'_>, group: &GroupId, policy: &PolicyId) {
    let model = pass.model;
    let Some(lease) = pass.lease_for_group(group) else { return };
    let stored = model.rollouts.get(&(group.clone(), policy.clone()));
    let (Some(group), Some(policy)) = (model.group(group), model.policy(policy)) else {
        if let Some(rollout) = stored {
            progress::abandon(pass, lease, rollout);
        }
        return;
    };
    let digest = target_digest(policy);
    let rollout = stored.filter(|rollout| rollout.is_for(digest));
    let update = model.update_settings(&policy.id);
    let (dirty, leaving) = copies_to_change(pass, group, policy);
    let unit = Unit { lease, group, policy, digest, update, dirty, leaving, rollout };
    let claim = model.claims.get(&(group.id.clone(), Scope::Policy(policy.id.clone())));
    match claim {
        Some(claim) => {
            let copies = unit.dirty.iter().map(|slot| slot.agreement).chain(unit.leaving.iter().copied());
            for agreement in copies.filter(|agreement| agreement.node != claim.node) {
                pass.wait(agreement, claims::lock_of(claim));
            }
            step::work(pass, &unit, claim, stored);
        }
        None => match drain::next_step(pass, &unit) {
            Some(first) => wait_for(pass, &unit, &first),
            None if unit.dirty.is_empty() => progress::finish(pass, &unit, stored),
            None => next_step(pass, &unit, stored),
        },
    }
}

fn wait_for(pass: &mut Pass<'_>, unit: &Unit<'_>, first: &NodeId) {
    for slot in &unit.dirty {
        recheck(pass, slot.agreement);
        pass.wait(slot.agreement, Blocked::PeerFirst { node: first.clone() });
    }
}

/// Digest of what a rollout leads to: service and version list.
pub(crate) fn target_digest(policy: &DeploymentPolicyFacts) -> u64 {
    let versions: Vec<String> =
        policy.versions.iter().map(|entry| format!("{} {}", entry.version, entry.priority)).collect();
    stable_hash(&[policy.service.as_str(), &versions.join(",")])
}

/// The copies to be replaced and those to be taken off, in the order of their nodes.
fn copies_to_change<'a>(
    pass: &Pass<'a>,
    group: &HaGroupFacts,
    policy: &DeploymentPolicyFacts,
) -> (Vec<Slot<'a>>, Vec<&'a Agreement>) {
    let model = pass.model;
    let copies = group.members.iter().filter_map(|member| model.live_agreement(member, &policy.id));
    let (mut dirty, mut leaving) = (Vec::new(), Vec::new());
    for agreement in copies.filter(|one| one.finalized_at().is_some() && !pass.is_stopping(one)) {
        match matching::fit(model, agreement, pass.now) {
            Fit::Outdated(choice) => dirty.push(Slot { agreement, choice }),
            Fit::Leaving => leaving.push(agreement),
            Fit::Clean(_) | Fit::Lost(_) | Fit::Unclear(_) => {}
        }
    }
    (dirty, leaving)
}

/// Nobody holds the claim and copies are outdated: choose the next one and ask for the claim.
fn next_step(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
    let now = pass.now;
    let blocked = unit.rollout.and_then(|rollout| match &rollout.state {
        RolloutState::Held { hold, since } if !progress::has_caught_up(pass, unit, hold) => {
            Some(Blocked::RolloutHeld { hold: (**hold).clone(), since: *since })
        }
        _ => {
            let until = later(rollout.last_step_at?, unit.update.delay_secs);
            (now < until).then_some(Blocked::Delay { until })
        }
    });
    if let Some(blocked) =
        blocked.or_else(|| just_started(pass, unit.group)).or_else(|| parallelism_reached(pass, unit))
    {
        for slot in &unit.dirty {
            pass.wait(slot.agreement, blocked.clone());
            match blocked {
                // A wait with a known end is looked at again when it ends.
                Blocked::Delay { until } | Blocked::JustStarted { until } => {
                    pass.watch((&slot.agreement.node, &slot.agreement.policy), until);
                }
                _ => recheck(pass, slot.agreement),
            }
        }
        return;
    }
    progress::begin(pass, unit, stored);
    let mut order: Vec<&Slot<'_>> = unit.dirty.iter().collect();
    // Copies that do not run have nothing to lose.
    order.sort_by_key(|slot| {
        (pass.model.observed(slot.agreement, now) == Observed::Running, slot.agreement.node.clone())
    });
    let mut chosen: Option<NodeId> = None;
    for slot in order {
        recheck(pass, slot.agreement);
        if let Some(first) = &chosen {
            pass.wait(slot.agreement, Blocked::PeerFirst { node: first.clone() });
            continue;
        }
        let step = (Purpose::ServiceUpgrade, slot.choice.version.clone());
        match request_for(pass, unit, slot.agreement, &slot.choice.key, step) {
            Ok(request) => {
                chosen = Some(slot.agreement.node.clone());
                pass.wait(slot.agreement, Blocked::ClaimRequested);
                let pair = (&slot.agreement.node, &slot.agreement.policy);
                pass.issue(unit.lease, Action::TakeClaim { request: Box::new(request) }, pair);
            }
            Err(blocked) => pass.wait(slot.agreement, blocked),
        }
    }
}
