//! Claim expiry: releases claims whose reason no longer exists, with an event each.
//!
//! No claim may block a group forever: a claim ends when its step ends (by the rollout or the agent itself), and here when its
//! group, node, policy or status is gone, or its node is silent. Source: agbot 3.4; orchestration E5.2, E6.5, E6.6.

use evenkeel_planner_model::{command::Action, focus::Focus, model::Liveness, pass::Pass};
use evenkeel_planner_record::{
    claims::{Claim, Phase, Purpose, ReleaseReason, Scope},
    lease::Lease,
    time::{later, secs_since},
};

use crate::{agent_upgrade::is_active, engine};

/// A claim for the upgrade of an agent is kept this long although its holder has no status for the management policy.
const UNREPORTED_SECS: u64 = 60;

/// Expires the claims in focus of the groups this agbot owns. There is at most one per group and policy.
pub fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    let model = pass.model;
    if focus.expires_all_claims {
        model.claims().for_each(|claim| plan(pass, claim));
    } else {
        focus.groups.iter().flat_map(|group| model.claims_of(group)).for_each(|claim| plan(pass, claim));
    }
}

fn plan(pass: &mut Pass<'_>, claim: &Claim) {
    if pass.model.is_unread_claim(claim) {
        return;
    }
    let Some(lease) = pass.lease_for_group(&claim.group) else { return };
    if let Some(why) = reason_to_release(pass, claim) {
        release(pass, lease, claim, why);
    } else if claim.scope == Scope::Agent && pass.now >= claim.deadline {
        // The node is alive and still upgrading: the claim is extended.
        let deadline = later(pass.now, pass.model.lock_stale_secs(&claim.group));
        let action = Action::AdvanceClaim { claim: claim.reference(), phase: Phase::Starting, deadline };
        pass.issue_for_group(lease, action);
    }
}

/// Returns the reason to release a claim, if there is one.
fn reason_to_release(pass: &Pass<'_>, claim: &Claim) -> Option<ReleaseReason> {
    let model = pass.model;
    let Some(group) = model.group(&claim.group) else { return reason_without_group(pass, claim) };
    if model.node(&claim.node).is_none() {
        return Some(ReleaseReason::NodeRemoved);
    }
    if !group.members.contains(&claim.node) {
        return Some(ReleaseReason::NodeLeft);
    }
    if let Liveness::Down { since } = model.liveness(&claim.node, pass.now)
        && secs_since(since.max(claim.since), pass.now) >= model.lock_stale_secs(&claim.group)
    {
        return Some(ReleaseReason::NodeSilent);
    }
    match &claim.scope {
        Scope::Policy(policy) if model.policy(policy).is_none() => Some(ReleaseReason::PolicyRemoved),
        Scope::Policy(_) => engine::reason_to_release(model, claim, pass.now),
        Scope::Agent => agent_reason(pass, claim),
    }
}

/// Returns the reason to release a claim whose group is not known. A group of an organization that is not read may exist: members
/// of such groups are granted agent upgrades, too.
fn reason_without_group(pass: &Pass<'_>, claim: &Claim) -> Option<ReleaseReason> {
    if pass.model.read_orgs.contains(claim.group.org()) {
        return Some(ReleaseReason::GroupRemoved);
    }
    match &claim.scope {
        Scope::Policy(_) => Some(ReleaseReason::NotWanted),
        Scope::Agent => (pass.now >= claim.deadline).then_some(ReleaseReason::DeadlinePassed),
    }
}

fn agent_reason(pass: &Pass<'_>, claim: &Claim) -> Option<ReleaseReason> {
    let Purpose::AgentUpgrade { nmp, .. } = &claim.purpose else { return None };
    let model = pass.model;
    if model.removed_nmps.get(nmp).is_some_and(|&at| at >= claim.since) {
        return Some(ReleaseReason::PolicyRemoved);
    }
    let is_over = |at| (pass.now >= at).then_some(ReleaseReason::AgentFinished { status: None });
    match model.nmp_status.get(&(nmp.clone(), claim.node.clone())) {
        Some(Some(status)) if is_active(status) => None,
        Some(Some(status)) => Some(ReleaseReason::AgentFinished { status: Some(status.clone()) }),
        // A member that was allowed to go ahead and has reported nothing may be about to.
        Some(None) => is_over(later(claim.since, UNREPORTED_SECS)),
        // Not read yet. A status that was not read by the deadline does not exist.
        None => is_over(claim.deadline),
    }
}

/// Issues the release of a claim and its event.
pub(crate) fn release(pass: &mut Pass<'_>, lease: Lease, claim: &Claim, why: ReleaseReason) {
    let text = format!("{} of {} on {}: {why}", claim.task(), claim.group, claim.node);
    let action = Action::ReleaseClaim { claim: claim.reference(), node: claim.node.clone(), why };
    let is_issued = match &claim.scope {
        Scope::Policy(policy) => pass.issue(lease, action, (&claim.node, policy)),
        Scope::Agent => pass.issue_for_group(lease, action),
    };
    if is_issued {
        pass.emit("claim.released", text);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::{GroupId, NmpId, NodeId};
    use evenkeel_planner_model::{event::Event, group_fixture::running_group};
    use evenkeel_planner_record::{facts::NmpStatusFacts, fixture::at};
    use jiff::Timestamp;

    use super::*;

    /// E6.5.
    #[test]
    fn claim_is_kept_for_a_minute_without_a_status_and_no_longer_than_an_active_one() {
        let (mut model, now) = running_group(&["a", "b"]);
        let (node, nmp) = (NodeId::new("o", "a"), NmpId::new("o", "fw"));
        let claim = Claim {
            group: GroupId::from_text("o/g"),
            scope: Scope::Agent,
            node: node.clone(),
            purpose: Purpose::AgentUpgrade { nmp: nmp.clone(), drains: false },
            version: String::new(),
            fencing: 1,
            phase: Phase::Starting,
            since: now,
            phase_since: now,
            deadline: at(2000),
        };
        let mut reason = |status: Option<&str>, now: Timestamp| {
            let status = status.map(str::to_owned);
            let facts = NmpStatusFacts { node: node.clone(), nmp: nmp.clone(), status };
            model.apply(&Event::NmpStatusChanged { status: Box::new(facts) }, now);
            agent_reason(&Pass::to_explain(&model, now), &claim)
        };
        let finished =
            |status: Option<&str>| Some(ReleaseReason::AgentFinished { status: status.map(str::to_owned) });
        assert_eq!(reason(None, at(159)), None);
        assert_eq!(reason(None, at(160)), finished(None));
        assert_eq!(reason(Some("initiated"), at(1999)), None);
        assert_eq!(reason(Some("successful"), at(101)), finished(Some("successful")));
    }
}
