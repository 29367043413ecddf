//! Facts for the gates about the instances of a policy without tasks.
//!
//! Source: engine 1; orchestration B11, E4, E5.

use std::cell::OnceCell;

use evenkeel_change::{self as change, Gate, GateFacts, GroupState};
use evenkeel_ids::{NodeId, ServiceKey};
use evenkeel_planner_model::{model::Liveness, pass::Pass};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::Scope,
    facts::HaGroupFacts,
    report::Blocked,
    rollout::RolloutState,
    settings::UpdateOrder,
    time::later,
    workload::{Cause, Change, Part, Slot, Step, UnitId},
};
use jiff::Timestamp;

use super::{group_rollout::GroupRollout, progress};
use crate::group_members;

/// The gates at which all instances of a group wait together: while one is closed, a rollout is not begun.
const OF_ALL: &[Gate] = &[Gate::Paused, Gate::Grace, Gate::Delay, Gate::Budget];

/// The facts about the instances of a policy in a group, as to one service and the one that replaces it.
pub(super) struct RolloutFacts<'p, 'a> {
    pass: &'p Pass<'a>,
    rollout: &'p GroupRollout<'a>,
    services: [&'p ServiceKey; 2],
    /// True if the step has the claim, so that gates for the next step do not block it.
    has_claim: bool,
    state: OnceCell<GroupState>,
}

impl<'p, 'a> RolloutFacts<'p, 'a> {
    /// Creates the facts about instances of a service. `replacement`: the service that replaces it.
    pub fn new(
        pass: &'p Pass<'a>,
        rollout: &'p GroupRollout<'a>,
        service: &'p ServiceKey,
        replacement: &'p ServiceKey,
    ) -> Self {
        Self { pass, rollout, services: [service, replacement], has_claim: false, state: OnceCell::new() }
    }

    /// Returns the facts about the step that has the claim.
    pub fn with_claim(self) -> Self {
        Self { has_claim: true, ..self }
    }

    /// Returns whether the facts are about these services.
    pub fn is_about(&self, service: &ServiceKey, replacement: &ServiceKey) -> bool {
        self.services == [service, replacement]
    }

    /// Returns why no instance of the group may be changed now.
    pub fn blocked(&self, step: &Step) -> Option<Blocked> {
        change::check_gates(self, step, OF_ALL).err()
    }
}

/// Returns the replacement of an instance.
pub(super) fn replacement(rollout: &GroupRollout<'_>, agreement: &Agreement) -> Step {
    let is_rollback = rollout.current.is_some_and(|current| current.rollback.is_some());
    let cause = if is_rollback { Cause::Rollback } else { Cause::Update };
    let (node, order) = (Some(agreement.node.clone()), UpdateOrder::StopFirst);
    step(rollout, agreement, Change::Replace { node, may_run: true, order }, cause)
}

/// Returns the removal of an instance from a node that is being drained.
pub(super) fn removal(rollout: &GroupRollout<'_>, agreement: &Agreement) -> Step {
    step(rollout, agreement, Change::Stop { node: agreement.node.clone() }, Cause::Drain)
}

fn step(rollout: &GroupRollout<'_>, agreement: &Agreement, change: Change, cause: Cause) -> Step {
    let unit_id = UnitId { policy: rollout.policy.id.clone(), part: Part::Group(rollout.group.id.clone()) };
    Step { unit_id, slot: Slot::Node(agreement.node.clone()), change, cause }
}

impl GateFacts for RolloutFacts<'_, '_> {
    fn paused(&self, _: &Step) -> Option<Blocked> {
        let RolloutState::Held { hold, since } = &self.rollout.current?.state else { return None };
        let is_over = !self.has_claim && progress::has_caught_up(self.pass, self.rollout, hold);
        (!is_over).then(|| Blocked::RolloutHeld { hold: (**hold).clone(), since: *since })
    }

    fn unreachable(&self, step: &Step) -> Option<Blocked> {
        match self.pass.model.liveness(step.node()?, self.pass.now) {
            Liveness::Down { since } => Some(Blocked::NodeDown { since }),
            Liveness::Alive | Liveness::NeverHeard | Liveness::Away { .. } | Liveness::Unheard { .. } => None,
        }
    }

    fn group_of(&self, _: &NodeId) -> Option<&GroupState> {
        let [service, replacement] = self.services;
        let (group, policy) = (self.rollout.group, &self.rollout.policy.id);
        let state = || group_members::group_state(self.pass, group, policy, service, replacement);
        Some(self.state.get_or_init(state))
    }

    fn min_running(&self) -> u32 {
        self.rollout.update.min_running
    }

    /// An instance that is not known to be broken may be one that runs.
    fn loses_nothing(&self, _: &GroupState, node: &NodeId) -> bool {
        let agreement = self.pass.model.live_agreement(node, &self.rollout.policy.id);
        agreement.is_some_and(|agreement| group_members::is_lost(self.pass, agreement))
    }

    fn grace_until(&self, _: &Step) -> Option<Timestamp> {
        grace_until(self.pass, self.rollout.group)
    }

    fn delayed_until(&self, step: &Step) -> Option<Timestamp> {
        let is_of_update = step.cause.is_update() && !self.has_claim;
        let last = self.rollout.current.filter(|_| is_of_update)?.last_step_at?;
        Some(self.rollout.update.next_slot_at(last)).filter(|until| self.pass.now < *until)
    }

    /// Claims requested by this pass and earlier ones count as well: several groups are planned before the first is granted.
    fn exhausted_budget(&self, _: &Step) -> Option<Blocked> {
        let limit = self.rollout.update.parallelism;
        if limit == 0 || self.has_claim {
            return None;
        }
        let in_work = self.pass.groups_in_work(&Scope::Policy(self.rollout.policy.id.clone()));
        change::check_parallelism(&self.rollout.group.id, limit, in_work).err()
    }
}

/// Until every member has reported again, the state read first may be out of date.
fn grace_until(pass: &Pass<'_>, group: &HaGroupFacts) -> Option<Timestamp> {
    let until = later(pass.model.began_at?, pass.model.settling_secs(group.id.org()));
    (pass.now < until && !pass.model.has_heard_since_start(group)).then_some(until)
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_model::{event::Event, group_fixture::running_group};
    use evenkeel_planner_record::fixture::at;

    use super::*;

    #[test]
    fn start_up_grace_ends_when_every_member_with_an_agreement_has_reported() {
        let (mut model, now) = running_group(&["a", "b", "c"]);
        let group = model.groups.values().next().cloned().expect("the group");
        model.began_at = Some(later(now, 1));
        let now = later(now, 2);
        let waits = |model: &evenkeel_planner_model::model::Model| {
            grace_until(&Pass::new(model, now, 1), &group).is_some()
        };
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
        model.nodes.values_mut().filter_map(|record| record.status.as_mut()).for_each(|status| {
            status.reported_at = None;
        });
        for (alive_at, is_waited_for) in [(150, true), (300, false)] {
            model.apply(&Event::HubWasAlive { at: at(alive_at) }, now);
            assert_eq!(waits(&model), is_waited_for, "those that were down before are not waited for");
        }
        let empty = HaGroupFacts { members: std::collections::BTreeSet::new(), ..group.clone() };
        assert!(grace_until(&Pass::new(&model, now, 1), &empty).is_none(), "nothing to protect");
    }
}
