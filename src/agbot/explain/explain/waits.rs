//! Reasons for which instances of workload units wait, on any agbot.
//!
//! The agbot that decides about a workload unit knows it from its last decision. Every other one has the whole model as well, and finds
//! what it would decide. Source: design 1.5; orchestration D3.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use evenkeel_agreement::engine;
use evenkeel_ids::NodeId;
use evenkeel_planner_model::model::{Model, UnitRecord, WaitingInstance};
use evenkeel_planner_record::{
    report::Blocked,
    workload::{Cause, Step, UnitId},
};
use jiff::Timestamp;

/// The steps of a workload unit that wait, each with the reason.
pub type WaitingSteps = Rc<[(Step, Blocked)]>;

/// Reasons for which instances wait, cached for the response to one request.
#[derive(Debug)]
pub struct Waits<'m> {
    model: &'m Model,
    now: Timestamp,
    found: RefCell<BTreeMap<UnitId, WaitingSteps>>,
}

impl<'m> Waits<'m> {
    /// Creates the cache from the current model.
    pub fn new(model: &'m Model, now: Timestamp) -> Self {
        Self { model, now, found: RefCell::default() }
    }

    /// Returns the steps of a workload unit that wait.
    pub fn of_unit(&self, unit_id: &UnitId, unit: &UnitRecord) -> WaitingSteps {
        if let Some(known) = self.found.borrow().get(unit_id) {
            return known.clone();
        }
        let blocked: WaitingSteps = match self.model.lease_for_unit(unit_id) {
            Some(_) => unit.blocked.as_slice().into(),
            None => engine::waiting_steps(self.model, unit_id, self.now).into(),
        };
        self.found.borrow_mut().insert(unit_id.clone(), blocked.clone());
        blocked
    }

    /// Returns the instances on nodes that wait for an update, or to leave a drained node.
    pub fn on_nodes<'n>(&self, nodes: impl IntoIterator<Item = &'n NodeId>) -> Vec<WaitingInstance> {
        let mut found = Vec::new();
        for node in nodes {
            let mut unit_ids: Vec<&UnitId> = self.model.tasks_of(node).map(|task| &task.unit_id).collect();
            unit_ids.sort();
            unit_ids.dedup();
            for unit_id in unit_ids {
                let Some(unit) = self.model.workload_unit(unit_id) else { continue };
                for (step, blocked) in &*self.of_unit(unit_id, unit) {
                    let is_drain = step.cause == Cause::Drain;
                    if step.node() == Some(node) && (is_drain || step.cause.is_update()) {
                        // Only the agbot that decides knows since when.
                        let since = unit.drains.get(&step.slot).copied().unwrap_or(self.now);
                        found.push(WaitingInstance {
                            policy: unit_id.policy.clone(),
                            node: node.clone(),
                            drained_since: is_drain.then_some(since),
                            blocked: blocked.clone(),
                        });
                    }
                }
            }
        }
        found
    }
}
