//! The parents and children of a workload, from the model.
//!
//! Source: orchestration A8.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use evenkeel_change::{DependencyFacts, Gate};
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    goal::Avail,
    report::Blocked,
    workload::{Dependency, Partner, Slot, Step, Workload},
};
use evenkeel_status::status::{Standing, standing_of, standing_of_service};
use jiff::Timestamp;

/// The parents and children of a workload, for one decision about a workload unit.
#[derive(Debug)]
pub(crate) struct Dependencies<'a> {
    model: &'a Model,
    workload: &'a Workload,
    /// Slots that waited for a parent or a child at the last decision.
    waited: BTreeSet<(Gate, &'a Slot)>,
    now: Timestamp,
    /// Results so far: all steps of a decision see the same ones.
    known: RefCell<BTreeMap<Dependency, Option<Standing>>>,
}

impl<'a> Dependencies<'a> {
    pub fn new(model: &'a Model, workload: &'a Workload, unit: &'a UnitRecord, now: Timestamp) -> Self {
        let gate = |(step, blocked): &'a (Step, Blocked)| match blocked {
            Blocked::ParentNotUp { .. } => (Gate::Parents, &step.slot),
            _ => (Gate::Children, &step.slot),
        };
        let waited = unit.dependency_waits().map(gate).collect();
        Self { model, workload, waited, now, known: RefCell::default() }
    }

    fn standing(&self, dependency: &Dependency, node: Option<&NodeId>) -> Option<Standing> {
        let policy: &PolicyId = match &dependency.partner {
            Partner::Policy(policy) => policy,
            Partner::Service(service) => {
                // Where the instance will be is known when it starts.
                let unknown = Standing { avail: Avail::NotApplicable, is_changing: false };
                let on =
                    |node| standing_of_service(self.model, service, node, &self.workload.policy, self.now);
                return Some(node.map_or(unknown, on));
            }
        };
        if let Some(known) = self.known.borrow().get(dependency) {
            return *known;
        }
        let standing = standing_of(self.model, policy, dependency.node.as_ref(), self.now);
        self.known.borrow_mut().insert(dependency.clone(), standing);
        standing
    }
}

impl DependencyFacts for Dependencies<'_> {
    fn unready_parent(&self, node: Option<&NodeId>) -> Option<Blocked> {
        self.workload.parents.iter().find_map(|parent| {
            let standing = self.standing(parent, node);
            let avail = standing.map(|standing| standing.avail);
            let is_up = matches!(avail, Some(Avail::Up | Avail::NotApplicable));
            let is_ready = is_up && standing.is_some_and(|standing| !standing.is_changing);
            let avail = avail.map(|avail| if is_up { Avail::Up } else { avail });
            (!is_ready).then(|| Blocked::ParentNotUp { parent: parent.to_string(), avail })
        })
    }

    fn running_child(&self, node: Option<&NodeId>) -> Option<Blocked> {
        let is_up = |child: &&Dependency| {
            let standing = self.standing(child, node);
            standing.is_some_and(|standing| matches!(standing.avail, Avail::Up | Avail::Warn))
        };
        let child = self.workload.children.iter().find(is_up)?;
        Some(Blocked::ChildUp { child: child.to_string() })
    }

    fn has_waited(&self, gate: Gate, slot: &Slot) -> bool {
        self.waited.contains(&(gate, slot))
    }
}
