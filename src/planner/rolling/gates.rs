//! What must hold before a copy is touched: the group free, the member heard, the floor kept.
//!
//! Source: design 4; orchestration B11, E5.

use super::{floor, sweep, unit::Unit};
use crate::{
    agreement::Agreement,
    claims::{self, Claim, ClaimRequest, Purpose, ReleaseReason, Scope},
    facts::HaGroupFacts,
    ids::ServiceKey,
    model::Liveness,
    pass::Pass,
    report::Blocked,
    usage::later,
};

/// A blocked unit is looked at again after so long, although nothing is known to have changed.
const RECHECK_SECS: u64 = 10;

pub(super) fn recheck(pass: &mut Pass<'_>, agreement: &Agreement) {
    pass.watch((&agreement.node, &agreement.policy), later(pass.now, RECHECK_SECS));
}

/// What was read first may be older than what is true, until every member has reported again.
pub(super) fn just_started(pass: &Pass<'_>, group: &HaGroupFacts) -> Option<Blocked> {
    let until = later(pass.model.began_at?, pass.model.settings.rejoin_grace_secs);
    (pass.now < until && !pass.model.has_heard_since_start(group)).then_some(Blocked::JustStarted { until })
}

/// Returns the limit on groups that one policy updates at the same time; 0 means none.
fn parallelism(pass: &Pass<'_>, unit: &Unit<'_>) -> u32 {
    if pass.model.settings.broken.ignores_parallelism { 0 } else { unit.update.parallelism }
}

/// Returns the wait for other groups when the policy's update parallelism leaves no room for this one.
///
/// What this pass and earlier ones asked for counts as well: several groups are planned before the first is granted.
pub(super) fn parallelism_reached(pass: &Pass<'_>, unit: &Unit<'_>) -> Option<Blocked> {
    let limit = parallelism(pass, unit);
    if limit == 0 {
        return None;
    }
    let in_work = pass.groups_in_work(&Scope::Policy(unit.policy.id.clone()));
    claims::check_parallelism(&unit.group.id, limit, in_work).err()
}

/// The gates before a member may be touched: it must be heard, the group must be free, the floor must hold.
///
/// `wanted`: the service that its copy makes room for.
pub(super) fn request_for(
    pass: &Pass<'_>,
    unit: &Unit<'_>,
    agreement: &Agreement,
    wanted: &ServiceKey,
    (purpose, version): (Purpose, String),
) -> Result<ClaimRequest, Blocked> {
    let (model, now) = (pass.model, pass.now);
    let node = &agreement.node;
    if let Liveness::Down { since } = model.liveness(node, now) {
        // It could not obey now, and would stop its copy at some later time when nobody looks.
        return Err(Blocked::NodeDown { since });
    }
    let parallelism = if purpose == Purpose::ServiceUpgrade { parallelism(pass, unit) } else { 0 };
    let mut request = ClaimRequest {
        group: unit.group.id.clone(),
        scope: Scope::Policy(unit.policy.id.clone()),
        node: node.clone(),
        purpose,
        version,
        deadline: later(now, unit.update.start_timeout_secs),
        seen_running: Vec::new(),
        parallelism,
    };
    let rows: Vec<Claim> = model.claims_of(&unit.group.id).cloned().collect();
    claims::may_take(&rows, &request, unit.group)?;
    request.seen_running = floor::may_stop(pass, unit.group, agreement, wanted)?;
    Ok(request)
}

/// Answers whether the holder of the claim may be touched this instant; if it may not, the claim is released, or the copy
/// waits. `wanted`: the service that the copy makes room for.
pub(super) fn may_stop_now(
    pass: &mut Pass<'_>,
    unit: &Unit<'_>,
    claim: &Claim,
    agreement: &Agreement,
    wanted: &ServiceKey,
) -> bool {
    if let Some(blocked) = just_started(pass, unit.group) {
        recheck(pass, agreement);
        pass.wait(agreement, blocked);
        return false;
    }
    let blocked = match pass.model.liveness(&claim.node, pass.now) {
        Liveness::Down { since } => Some(Blocked::NodeDown { since }),
        _ => floor::may_stop(pass, unit.group, agreement, wanted).err(),
    };
    match blocked {
        None => true,
        Some(blocked) => {
            sweep::release(pass, unit.lease, claim, ReleaseReason::FloorLost);
            pass.wait(agreement, blocked);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::laws::settled_world;

    #[test]
    fn start_up_grace_ends_when_every_member_with_an_agreement_has_reported() {
        let (mut model, now) = settled_world(3);
        let is_protected =
            |group: &&HaGroupFacts| group.members.iter().any(|node| model.live_on(node).next().is_some());
        let group = model.groups.values().find(is_protected).cloned().expect("a group that runs something");
        model.began_at = Some(later(now, 1));
        let now = later(now, 2);
        let waits = |model: &crate::model::Model| just_started(&Pass::new(model, now, 1), &group).is_some();
        assert!(waits(&model), "what is known is from before the start");
        let members: Vec<_> = group.members.iter().cloned().collect();
        let (last, others) = members.split_last().expect("members");
        let mut report = |node: &crate::ids::NodeId| {
            let status = model.nodes.get_mut(node).and_then(|record| record.status.as_mut());
            status.expect("a status").reported_at = Some(now);
        };
        others.iter().for_each(&mut report);
        report(last);
        assert!(!waits(&model), "everybody has reported since");
        let empty = HaGroupFacts { members: Default::default(), ..group.clone() };
        assert!(just_started(&Pass::new(&model, now, 1), &empty).is_none(), "nothing to protect");
    }
}
