//! Decision about ending one instance of a policy without tasks, outside of the turns of a group.
//!
//! Source: design 1.1; orchestration B9, B11, E4.7, P.

use evenkeel_change::{self as change, GateFacts};
use evenkeel_ids::NodeId;
use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::pass::Pass;
use evenkeel_planner_record::{
    agreement::Agreement,
    report::Blocked,
    settings::UpdateOrder,
    time::later,
    workload::{Cause, Change, Slot, Step, UnitId},
};
use jiff::Timestamp;

use crate::group_members;

/// Time after which an instance that waits for others is reconciled again, in seconds.
const SUCCESSOR_SECS: u64 = 30;

/// Decision about ending an instance.
pub(crate) enum Verdict {
    /// It may be ended now.
    Now,
    /// It stays until the reason is gone, at most until this time.
    Later {
        /// When the reason ends at the latest.
        until: Timestamp,
        /// The reason.
        why: Blocked,
    },
    /// It waits for its turn in its group.
    InTurn,
    /// It stays.
    Stays,
}

/// Returns whether an instance may be ended.
///
/// The instances of a group are replaced, and leave drained nodes, one after the other.
pub(crate) fn judge(pass: &Pass<'_>, agreement: &Agreement, fit: &Fit) -> Verdict {
    let node = || agreement.node.clone();
    let is_forced = pass.model.is_drain_forced(&agreement.node);
    let (change, cause) = match fit {
        Fit::Clean(_) | Fit::Unclear(_) => return Verdict::Stays,
        Fit::Leaving if is_forced => (Change::Stop { node: node() }, Cause::Drain),
        Fit::Outdated(_) | Fit::Leaving if pass.model.group_of(&agreement.node).is_some() => {
            return Verdict::InTurn;
        }
        Fit::Outdated(_) => {
            let order = UpdateOrder::StopFirst;
            (Change::Replace { node: Some(node()), may_run: true, order }, Cause::Update)
        }
        Fit::Leaving => (Change::Stop { node: node() }, Cause::Drain),
        Fit::Lost(_) => (Change::Stop { node: node() }, Cause::Incompatible),
    };
    let unit_id = UnitId::all(agreement.policy.clone());
    let step = Step { unit_id, slot: Slot::Node(node()), change, cause };
    match change::permit(&InstanceFacts { pass, agreement }, &step) {
        Ok(_) => Verdict::Now,
        Err(why) => Verdict::Later { until: later(pass.now, SUCCESSOR_SECS), why },
    }
}

/// Facts for the gates about one instance.
struct InstanceFacts<'p, 'a> {
    pass: &'p Pass<'a>,
    agreement: &'p Agreement,
}

impl GateFacts for InstanceFacts<'_, '_> {
    /// A write that takes the service off members keeps the minimum of their group, until others run it that may.
    fn missing_successor(&self, _: &Step) -> Option<Blocked> {
        let (model, agreement) = (self.pass.model, self.agreement);
        let group =
            model.group_of(&agreement.node).filter(|_| !group_members::is_lost(self.pass, agreement))?;
        let instance: (&NodeId, _) = (&agreement.node, &agreement.service_key);
        group_members::missing_successor(self.pass, group, &agreement.policy, instance)
    }
}
