//! Facts about parents and children for the gates.
//!
//! Source: orchestration A8.

use std::fmt;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{report::Blocked, workload::Slot};

use super::Gate;

/// The parents and children of a workload, as they are now.
///
/// # Shape
/// `node`: where the instance is, or is to be; what is named as a service must run, or not run, there.
pub trait DependencyFacts: fmt::Debug {
    /// Returns the first parent that is not up, or has an instance that starts or stops.
    fn unready_parent(&self, node: Option<&NodeId>) -> Option<Blocked>;
    /// Returns the first child that is up.
    fn running_child(&self, node: Option<&NodeId>) -> Option<Blocked>;
    /// Returns whether a slot waited at [`Gate::Parents`] or [`Gate::Children`] when it was reconciled last.
    fn has_waited(&self, gate: Gate, slot: &Slot) -> bool;
}

/// A workload without parents and children.
#[derive(Debug, Clone, Copy)]
pub struct Independent;

impl DependencyFacts for Independent {
    fn unready_parent(&self, _node: Option<&NodeId>) -> Option<Blocked> {
        None
    }

    fn running_child(&self, _node: Option<&NodeId>) -> Option<Blocked> {
        None
    }

    fn has_waited(&self, _gate: Gate, _slot: &Slot) -> bool {
        false
    }
}
