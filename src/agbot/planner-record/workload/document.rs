//! The workload that a deployment policy's `orchestration` describes.
//!
//! Source: orchestration 1.2, 1.3, A3.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{
    CompatGate, ConstraintPriorities, Mode, Orchestration, PlacementPolicy, Scope, Update,
};
use evenkeel_ids::{NodeId, PolicyId};

use super::{
    AffinityRules, Dependency, NodeOrder, NodeScope, PlacementRules, Priorities, Versions, Workload,
};
use crate::{
    goal::Goal,
    report::Constraint,
    settings::{UpdateOverrides, UpdateSettings},
};

/// Slots in work at once unless the policy names a number.
const SLOTS_AT_ONCE: u32 = 1;

/// Defaults for members that a policy leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HubDefaults {
    /// Updates and rollbacks.
    pub update: UpdateSettings,
    /// Seconds that a node must stay ready before an instance starts there.
    pub ready_secs: u64,
    /// The hard constraints.
    pub priorities: ConstraintPriorities,
}

impl Default for HubDefaults {
    fn default() -> Self {
        Self {
            update: UpdateSettings::default(),
            ready_secs: 16,
            priorities: ConstraintPriorities::default(),
        }
    }
}

impl Workload {
    /// Returns the workload of a policy with this document.
    pub fn of_document(
        policy: &PolicyId,
        document: &Orchestration,
        versions: Versions,
        hub: &HubDefaults,
    ) -> Self {
        let ready_secs = document.timers.ready_period_seconds.unwrap_or(hub.ready_secs);
        Self {
            policy: policy.clone(),
            goal: Goal::of(document, ready_secs),
            scope: scope(policy, &document.scope),
            versions,
            placement: placement(policy, document, hub),
            loads: document.loads.clone(),
            spec_loads: BTreeMap::new(),
            parents: Dependency::list(policy, &document.parents),
            children: Dependency::list(policy, &document.children),
            restart: document.restart,
            update: supervised(&document.update, document, hub),
            keeps_running: false,
            rollback: supervised(&document.rollback, document, hub),
            is_compat_gated: document.compat_gate == CompatGate::Members,
            health: document.health_policy.clone(),
            stop_timeout_secs: document.timers.stop_timeout_seconds,
            is_frozen: false,
            action: None,
        }
    }
}

/// The hub's parallelism counts HA groups, each of which keeps its minimum; that of a workload counts slots, and all at once would be no
/// update but an interruption.
fn supervised(update: &Update, document: &Orchestration, hub: &HubDefaults) -> UpdateSettings {
    let settings = UpdateOverrides::of(update, &document.ha).over(&hub.update);
    UpdateSettings { parallelism: update.parallelism.unwrap_or(SLOTS_AT_ONCE), ..settings }
}

fn scope(policy: &PolicyId, scope: &Scope) -> NodeScope {
    match (scope, scope.node_ids(policy.org()), scope.group_ids(policy.org())) {
        (_, Some(nodes), _) => NodeScope::Nodes(nodes),
        (_, _, Some(groups)) => NodeScope::Groups(groups),
        (Scope::HaGroups { .. }, ..) => NodeScope::EveryGroup,
        _ => NodeScope::Eligible,
    }
}

fn placement(policy: &PolicyId, document: &Orchestration, hub: &HubDefaults) -> PlacementRules {
    let placement = &document.placement;
    let order = match placement.policy {
        Some(PlacementPolicy::NodesOrder) => NodeOrder::Listed,
        Some(PlacementPolicy::LoadAvg) => NodeOrder::LoadAverage,
        Some(PlacementPolicy::Score) => NodeOrder::Score,
        Some(PlacementPolicy::Spread) => NodeOrder::Spread,
        Some(PlacementPolicy::LastStart) => NodeOrder::LastStart,
        Some(PlacementPolicy::Shift) => {
            NodeOrder::Shifted(placement.shift.unwrap_or_else(|| leading_number(policy.name())))
        }
        Some(PlacementPolicy::LeastInstances) | None => NodeOrder::LeastInstances,
        Some(PlacementPolicy::None) => NodeOrder::Unranked,
    };
    let qualified = |name: &String| match name.contains('/') {
        true => NodeId::from_text(name),
        false => NodeId::new(policy.org(), name),
    };
    let priorities = Priorities::of(&hub.priorities, &placement.constraint_priorities);
    // An instance on every node is not spread.
    let is_spread = document.mode != Mode::Global;
    PlacementRules {
        order,
        listed: placement.nodes_order.iter().map(qualified).collect(),
        expression: placement.expression.clone(),
        affinity: AffinityRules::of(policy, &placement.affinity, document.timers.affinity_wait_seconds),
        on_violation: placement.on_violation,
        max_per_node: document.max_per_node,
        priorities: if is_spread { priorities } else { priorities.without(Constraint::OF_DOMAINS) },
        is_distribution_required: is_spread && placement.domains.require_domain_distribution,
        preferred_domain: placement.domains.preferred_domain.as_deref().map(Into::into),
        is_rebalanced: placement.rebalance,
    }
}

/// Returns the number that a name begins with, else 0.
fn leading_number(name: &str) -> u32 {
    let end = name.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(name.len());
    name[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        goal::{Count, StartMode},
        settings::UpdateOrder,
    };

    fn workload(name: &str, document: Value) -> Workload {
        let policy = PolicyId::new("o", name);
        let document = Orchestration::of_policy(&policy, document).expect("the document is valid");
        Workload::of_document(&policy, &document, Versions::new(1), &HubDefaults::default())
    }

    /// A3-S5.
    #[test]
    fn shift_comes_from_the_name_unless_it_is_given() {
        let shift = |name, shift: Value| {
            let placement = json!({"policy": "shift", "shift": shift});
            workload(name, json!({"mode": "flex", "placement": placement})).placement.order
        };
        assert_eq!(shift("2.web", Value::Null), NodeOrder::Shifted(2));
        assert_eq!(shift("web", Value::Null), NodeOrder::Shifted(0));
        assert_eq!(shift("2.web", json!(5)), NodeOrder::Shifted(5));
    }

    #[test]
    fn document_decides_goal_scope_and_supervisors() {
        let found = workload(
            "w",
            json!({
                "mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 0, "target": 2},
                "scope": {"type": "nodes", "nodes": ["n2", "o/n1"]},
                "update": {"parallelism": 3, "order": "start-first"},
                "ha": {"minRunning": 2}
            }),
        );
        assert_eq!(found.goal.count, Count::Between { min: 1, max: None, target: 2 });
        assert_eq!((found.goal.start, found.goal.ready_secs), (StartMode::BestAvailable, 16));
        assert_eq!(found.scope, NodeScope::Nodes(vec![NodeId::new("o", "n2"), NodeId::new("o", "n1")]));
        assert_eq!((found.update.parallelism, found.update.order), (3, UpdateOrder::StartFirst));
        assert_eq!((found.update.min_running, found.rollback.parallelism), (2, 1));
        assert_eq!(found.placement.order, NodeOrder::Listed);
    }

    #[test]
    fn policy_without_document_wants_one_instance_on_every_selected_node() {
        let found = Workload::new(PolicyId::new("o", "w"), 7);
        assert_eq!((found.goal, found.scope), (Goal::global(), NodeScope::Eligible));
        let one_at_a_time = UpdateSettings { parallelism: 1, ..UpdateSettings::default() };
        assert_eq!((found.versions.current.digest, found.update), (7, one_at_a_time));
    }
}
