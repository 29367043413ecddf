//! Plans one group rollout: the rollout of one policy through one HA group, step by step.
//!
//! A step is: take the group's claim, stop the old instance, start the new one, see it running and healthy for a while,
//! release the claim. A step that fails or stalls holds the rollout and leaves the others as they are. Every wait has the
//! claim's deadline and a reason in the report. Source: orchestration B11, E4, E5.

use evenkeel_change as change;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_placement::matching::{Choice, Fit};
use evenkeel_planner_model::{focus::Focus, model::selection, pass::Pass};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::{Purpose, Scope},
    facts::{DeploymentPolicyFacts, HaGroupFacts},
    lease::Lease,
    report::Blocked,
    rollout::{Rollout, target_digest},
    settings::UpdateSettings,
};

use super::{
    drain, progress, step,
    stop::{self, Candidate, recheck},
};

/// Plans every group rollout in focus.
pub fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    for (group, policy) in &focus.group_rollouts {
        plan(pass, group, policy);
    }
}

/// One instance that is to be replaced.
pub(super) struct Slot<'a> {
    pub(super) agreement: &'a Agreement,
    pub(super) choice: Choice,
}

impl Slot<'_> {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            agreement: self.agreement,
            wanted: &self.choice.key,
            purpose: Purpose::ServiceUpgrade,
            version: &self.choice.version,
        }
    }
}

/// A group rollout with the inputs of its steps.
pub(super) struct GroupRollout<'a> {
    pub(super) lease: Lease,
    pub(super) group: &'a HaGroupFacts,
    pub(super) policy: &'a DeploymentPolicyFacts,
    pub(super) digest: u64,
    pub(super) update: UpdateSettings,
    /// Instances to be replaced.
    pub(super) dirty: Vec<Slot<'a>>,
    /// Instances to be removed from nodes that are being drained.
    pub(super) leaving: Vec<&'a Agreement>,
    /// The stored rollout to the current target, if it has begun.
    pub(super) current: Option<&'a Rollout>,
}

fn plan(pass: &mut Pass<'_>, group: &GroupId, policy: &PolicyId) {
    let model = pass.model;
    let Some(lease) = pass.lease_for_group(group) else { return };
    let stored = model.rollouts.get(&(group.clone(), policy.clone()));
    let is_of_tasks = model.is_orchestrated(policy);
    let (Some(group), Some(policy), false) = (model.group(group), model.policy(policy), is_of_tasks) else {
        if let Some(rollout) = stored {
            progress::abandon(pass, lease, rollout);
        }
        return;
    };
    let digest = target_digest(policy);
    let current = stored.filter(|rollout| rollout.is_for(digest));
    let update = model.update_settings(&policy.id);
    let (dirty, leaving) = instances_to_change(pass, group, policy);
    let group_rollout = GroupRollout { lease, group, policy, digest, update, dirty, leaving, current };
    let claim = model.claims.get(&(group.id.clone(), Scope::Policy(policy.id.clone())));
    match claim {
        Some(claim) => {
            let instances = group_rollout
                .dirty
                .iter()
                .map(|slot| slot.agreement)
                .chain(group_rollout.leaving.iter().copied());
            for agreement in instances.filter(|agreement| agreement.node != claim.node) {
                pass.wait(agreement, change::lock_of(claim));
            }
            step::work(pass, &group_rollout, claim, stored);
        }
        None => match drain::next_step(pass, &group_rollout) {
            Some(first) => wait_for(pass, &group_rollout, &first),
            None if group_rollout.dirty.is_empty() => progress::finish(pass, &group_rollout, stored),
            None if step::note_late_failure(pass, &group_rollout) => {}
            None => next_step(pass, &group_rollout, stored),
        },
    }
}

fn wait_for(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, first: &NodeId) {
    for slot in &group_rollout.dirty {
        recheck(pass, slot.agreement);
        pass.wait(slot.agreement, Blocked::PeerFirst { node: first.clone() });
    }
}

/// Returns the instances to be replaced and those to be removed, in the order of their nodes.
fn instances_to_change<'a>(
    pass: &Pass<'a>,
    group: &HaGroupFacts,
    policy: &DeploymentPolicyFacts,
) -> (Vec<Slot<'a>>, Vec<&'a Agreement>) {
    let model = pass.model;
    let instances = group.members.iter().filter_map(|member| model.live_agreement(member, &policy.id));
    let (mut dirty, mut leaving) = (Vec::new(), Vec::new());
    for agreement in instances.filter(|one| one.finalized_at().is_some() && !pass.is_stopping(one)) {
        match selection::fit(model, agreement, pass.now) {
            Fit::Outdated(choice) => dirty.push(Slot { agreement, choice }),
            Fit::Leaving => leaving.push(agreement),
            Fit::Clean(_) | Fit::Lost(_) | Fit::Unclear(_) => {}
        }
    }
    (dirty, leaving)
}

/// Chooses the next outdated instance and requests the claim for it.
fn next_step(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, stored: Option<&Rollout>) {
    let candidates: Vec<Candidate<'_>> = group_rollout.dirty.iter().map(Slot::candidate).collect();
    let Some(blocked) = stop::blocked(pass, group_rollout, &candidates) else {
        progress::begin(pass, group_rollout, stored);
        stop::take_next(pass, group_rollout, candidates);
        return;
    };
    for slot in &group_rollout.dirty {
        pass.wait(slot.agreement, blocked.clone());
        match blocked {
            // A wait with a known end is planned again when it ends.
            Blocked::Delay { until } | Blocked::JustStarted { until } => {
                pass.watch((&slot.agreement.node, &slot.agreement.policy), until);
            }
            _ => recheck(pass, slot.agreement),
        }
    }
}
