//! Whether one instance of a policy without tasks may be ended, outside of the turns of a group.
//!
//! Source: design 1.1; orchestration B9, B11, E4.7, P.

use evenkeel_ids::NodeId;
use jiff::Timestamp;

use crate::{
    agreement::Agreement,
    change::{self, Cause, Change, GateFacts, Step},
    matching::Fit,
    pass::Pass,
    report::Blocked,
    settings::UpdateOrder,
    usage::later,
    workload::{Slot, UnitId},
};

/// Whether an instance may be ended.
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
    let facts = InstanceFacts { pass, agreement, successor_by: successor_by(pass, agreement) };
    match change::permit(&facts, &step) {
        Ok(_) => Verdict::Now,
        Err(why) => Verdict::Later { until: facts.successor_by.unwrap_or(pass.now), why },
    }
}

/// What the gates must know of one instance.
struct InstanceFacts<'p, 'a> {
    pass: &'p Pass<'a>,
    agreement: &'p Agreement,
    /// Until when the member that takes the service over is waited for.
    successor_by: Option<Timestamp>,
}

impl GateFacts for InstanceFacts<'_, '_> {
    fn missing_successor(&self, _: &Step) -> Option<Blocked> {
        let (model, agreement) = (self.pass.model, self.agreement);
        self.successor_by.filter(|until| self.pass.now < *until)?;
        let group = model.group_of(&agreement.node).filter(|_| !change::is_lost(self.pass, agreement))?;
        let instance: (&NodeId, _) = (&agreement.node, &agreement.service_key);
        change::missing_successor(self.pass, group, &agreement.policy, instance)
    }
}

/// An edit of the policy that moves the service from the last member that runs it to another one waits until it runs there, for as long
/// as a start may take. A change of the node does not wait.
fn successor_by(pass: &Pass<'_>, agreement: &Agreement) -> Option<Timestamp> {
    let model = pass.model;
    model.group_of(&agreement.node)?;
    let edited_at = model.policy(&agreement.policy)?.last_updated?;
    let node_changed_at = model.node(&agreement.node)?.policy.as_ref()?.last_updated;
    if node_changed_at > Some(edited_at) {
        return None;
    }
    Some(later(edited_at, model.update_settings(&agreement.policy).start_timeout_secs))
}
