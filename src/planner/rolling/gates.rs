//! Preconditions for stopping an instance: the group's claim is free, the member is alive, the minimum available holds.
//!
//! Source: design 4; orchestration B11, E5.

use evenkeel_ids::ServiceKey;

use super::{claim_expiry, group_rollout::GroupRollout, minimum_available};
use crate::{
    agreement::Agreement,
    claims::{self, Claim, ClaimRequest, Purpose, ReleaseReason, Scope},
    facts::HaGroupFacts,
    model::Liveness,
    pass::Pass,
    report::Blocked,
    usage::later,
};

/// A blocked group rollout is planned again after this time, even if no event asks for it.
const RECHECK_SECS: u64 = 10;

pub(super) fn recheck(pass: &mut Pass<'_>, agreement: &Agreement) {
    pass.watch((&agreement.node, &agreement.policy), later(pass.now, RECHECK_SECS));
}

/// Until every member has reported again, the state read first may be out of date.
pub(super) fn just_started(pass: &Pass<'_>, group: &HaGroupFacts) -> Option<Blocked> {
    let until = later(pass.model.began_at?, pass.model.settling_secs(group.id.org()));
    (pass.now < until && !pass.model.has_heard_since_start(group)).then_some(Blocked::JustStarted { until })
}

/// Returns the wait for other groups when the policy's update parallelism leaves no room for this one.
///
/// Claims requested by this pass and earlier ones count as well: several groups are planned before the first is granted.
pub(super) fn parallelism_reached(pass: &Pass<'_>, group_rollout: &GroupRollout<'_>) -> Option<Blocked> {
    let limit = group_rollout.update.parallelism;
    if limit == 0 {
        return None;
    }
    let in_work = pass.groups_in_work(&Scope::Policy(group_rollout.policy.id.clone()));
    claims::check_parallelism(&group_rollout.group.id, limit, in_work).err()
}

/// Checks the preconditions of a claim: the member is alive, the group is free, the minimum available holds.
///
/// `wanted`: the service that replaces its instance.
pub(super) fn request_for(
    pass: &Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    agreement: &Agreement,
    wanted: &ServiceKey,
    (purpose, version): (Purpose, String),
) -> Result<ClaimRequest, Blocked> {
    let (model, now) = (pass.model, pass.now);
    let node = &agreement.node;
    if let Liveness::Down { since } = model.liveness(node, now) {
        // It cannot obey now, and would stop its instance later, unsupervised.
        return Err(Blocked::NodeDown { since });
    }
    let parallelism = if purpose == Purpose::ServiceUpgrade { group_rollout.update.parallelism } else { 0 };
    let mut request = ClaimRequest {
        group: group_rollout.group.id.clone(),
        scope: Scope::Policy(group_rollout.policy.id.clone()),
        node: node.clone(),
        purpose,
        version,
        deadline: later(now, group_rollout.update.start_timeout_secs),
        seen_running: Vec::new(),
        parallelism,
    };
    let rows: Vec<Claim> = model.claims_of(&group_rollout.group.id).cloned().collect();
    claims::may_take(&rows, &request, group_rollout.group)?;
    request.seen_running = minimum_available::may_stop(pass, group_rollout.group, agreement, wanted)?;
    Ok(request)
}

/// Returns whether the holder of the claim may be stopped now; if not, the claim is released or the instance waits.
/// `wanted`: the service that replaces the instance.
pub(super) fn may_stop_now(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    agreement: &Agreement,
    wanted: &ServiceKey,
) -> bool {
    if let Some(blocked) = just_started(pass, group_rollout.group) {
        recheck(pass, agreement);
        pass.wait(agreement, blocked);
        return false;
    }
    let blocked = match pass.model.liveness(&claim.node, pass.now) {
        Liveness::Down { since } => Some(Blocked::NodeDown { since }),
        _ => minimum_available::may_stop(pass, group_rollout.group, agreement, wanted).err(),
    };
    match blocked {
        None => true,
        Some(blocked) => {
            claim_expiry::release(pass, group_rollout.lease, claim, ReleaseReason::MinimumAvailableLost);
            pass.wait(agreement, blocked);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::running_group;

    #[test]
    fn start_up_grace_ends_when_every_member_with_an_agreement_has_reported() {
        let (mut model, now) = running_group(&["a", "b", "c"]);
        let group = model.groups.values().next().cloned().expect("the group");
        model.began_at = Some(later(now, 1));
        let now = later(now, 2);
        let waits = |model: &crate::model::Model| just_started(&Pass::new(model, now, 1), &group).is_some();
        assert!(waits(&model), "what is known is from before the start");
        let members: Vec<_> = group.members.iter().cloned().collect();
        let (last, others) = members.split_last().expect("members");
        let mut report = |node: &evenkeel_ids::NodeId| {
            let status = model.nodes.get_mut(node).and_then(|record| record.status.as_mut());
            status.expect("a status").reported_at = Some(now);
        };
        others.iter().for_each(&mut report);
        report(last);
        assert!(!waits(&model), "everybody has reported since");
        let empty = HaGroupFacts { members: std::collections::BTreeSet::new(), ..group.clone() };
        assert!(just_started(&Pass::new(&model, now, 1), &empty).is_none(), "nothing to protect");
    }
}
