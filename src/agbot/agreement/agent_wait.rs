//! The reason for which the agent upgrade of a member waits, as it would be decided now.
//!
//! A refusal says why a request was refused when it was made. The displayed reason is recomputed from the model, so that an outdated one is not shown.
//! Source: orchestration D11, E6.

use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{claims::Claim, facts::Availability, report::Blocked, time::later};
use jiff::Timestamp;

use crate::agent_upgrade::{
    GroupView, MemberView, REFUSAL_MEMORY_SECS, Refusal, decide_agent_upgrade, is_active, is_over,
};

/// Returns what the agent upgrade of a member waits for; none when it is over, when the member asks no more, or when it would be granted.
pub fn agent_upgrade_wait(
    model: &Model,
    group: &GroupId,
    refusals: &[Refusal],
    node: &NodeId,
    now: Timestamp,
) -> Option<Blocked> {
    let facts = model.group(group).filter(|group| group.members.contains(node))?;
    let refusal = refusals.iter().find(|one| one.node == *node)?;
    let is_removed = model.removed_nmps.values().any(|at| *at >= refusal.last_at);
    if now >= later(refusal.last_at, REFUSAL_MEMORY_SECS) || is_removed {
        return None;
    }
    let nmp = nmp_of_upgrade(model, node)?;
    let view = |member: &NodeId| {
        let availability = model.node(member).map(|record| record.facts.availability);
        let status = model.nmp_status.get(&(nmp.clone(), member.clone()));
        MemberView {
            liveness: model.liveness(member, now),
            is_away: availability.is_some_and(|one| one != Availability::Active),
            nmp_status: status.cloned().flatten(),
        }
    };
    let members = facts.members.iter().map(|member| (member.clone(), view(member))).collect();
    let rows: Vec<Claim> = model.claims_of(group).cloned().collect();
    let view = GroupView {
        group: facts,
        rows: &rows,
        members: &members,
        refusals,
        released_at: None,
        drains: false,
    };
    decide_agent_upgrade(view, node, &nmp, now, &model.settings).err()
}

/// Returns the management policy that a member carries out; none when it has carried out all of them. One that reports nothing may ask as well.
fn nmp_of_upgrade(model: &Model, node: &NodeId) -> Option<NmpId> {
    let reported = model.nmp_status.iter().filter(|((_, of), _)| of == node);
    let reported: Vec<(&NmpId, &str)> =
        reported.filter_map(|((nmp, _), status)| Some((nmp, status.as_deref()?))).collect();
    let active = reported.iter().find(|(_, status)| is_active(status));
    let open = active.or_else(|| reported.iter().find(|(_, status)| !is_over(status)));
    match open {
        Some((nmp, _)) => Some((*nmp).clone()),
        None => reported.is_empty().then(|| NmpId::new(node.org(), "")),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_model::{event::Event, group_fixture::running_group};
    use evenkeel_planner_record::{
        claims::{ClaimRequest, Purpose, Scope},
        facts::NmpStatusFacts,
    };

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new("o", name)
    }

    fn refused(model: &Model, now: Timestamp, last_at: Timestamp) -> Option<Blocked> {
        let group = model.groups().next().expect("a group").id.clone();
        let refusals = [Refusal { node: node("b"), first_at: last_at, last_at }];
        agent_upgrade_wait(model, &group, &refusals, &node("b"), now)
    }

    fn report(model: &mut Model, name: &str, status: Option<&str>, now: Timestamp) {
        let facts =
            NmpStatusFacts { node: node(name), nmp: NmpId::new("o", "m"), status: status.map(str::to_owned) };
        model.apply(&Event::NmpStatusChanged { status: Box::new(facts) }, now);
    }

    /// The claim of another member is the cause, and it is named as long as it is held.
    fn held() -> (Model, Timestamp) {
        let (mut model, now) = running_group(&["a", "b"]);
        let group = model.groups().next().expect("a group").id.clone();
        let request = ClaimRequest {
            group,
            scope: Scope::Agent,
            node: node("a"),
            purpose: Purpose::AgentUpgrade { nmp: NmpId::new("o", "m"), drains: false },
            version: String::new(),
            deadline: later(now, 600),
            seen_running: Vec::new(),
            parallelism: 0,
        };
        model.apply(&Event::ClaimRecorded { claim: Box::new(request.into_claim(1, now)) }, now);
        report(&mut model, "b", Some("ha node waiting"), now);
        (model, now)
    }

    #[test]
    fn agent_upgrade_waits_for_the_claim_of_another_member_while_that_is_held() {
        let (mut model, now) = held();
        let found = refused(&model, now, now);
        assert!(matches!(&found, Some(Blocked::HaLock { holder, .. }) if *holder == node("a")), "{found:?}");
        let key = model.claims_of(&model.groups().next().unwrap().id).next().unwrap().key();
        model.apply(&Event::ClaimRemoved { key }, now);
        assert_eq!(refused(&model, later(now, 1), now), None);
    }

    #[test]
    fn agent_upgrade_that_is_over_waits_for_nothing() {
        for status in ["successful", "no action required", "download failed", "failed"] {
            let (mut model, now) = held();
            report(&mut model, "b", Some(status), now);
            assert_eq!(refused(&model, now, now), None, "{status}");
        }
        let (mut model, now) = held();
        let nmp = NmpId::new("o", "m");
        model.apply(&Event::NmpRemoved { nmp }, later(now, 1));
        assert_eq!(refused(&model, later(now, 2), now), None);
    }

    #[test]
    fn member_that_asks_no_more_waits_for_nothing() {
        let (model, now) = held();
        let last = later(now, REFUSAL_MEMORY_SECS);
        assert!(refused(&model, now, now).is_some());
        assert_eq!(refused(&model, last, now), None);
    }

    #[test]
    fn agent_upgrade_waits_for_a_member_on_which_the_same_policy_failed() {
        let (mut model, now) = running_group(&["a", "b"]);
        report(&mut model, "b", Some("ha node waiting"), now);
        report(&mut model, "a", Some("rollback successful"), now);
        let found = refused(&model, now, now);
        assert!(
            matches!(&found, Some(Blocked::AgentPeer { node: peer, .. }) if *peer == node("a")),
            "{found:?}"
        );
    }
}
