//! Plan of a write of a deployment policy, or of an object that policies depend on.
//!
//! Nodes without an organization belong to that of the policy; a node that the caller may not read is `?`.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_ids::PolicyId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::orchestration::{ExplainedConstraint, SlotName};
use crate::exchange::node_tag::NodeTag;

/// Plan of a write of a deployment policy, computed without acting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanResponse {
    /// The policy.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// Digest of the document, of the state that it would affect and of the changes; it is the same until one of them
    /// changes.
    pub token: String,
    /// True if no changes follow the listed ones.
    pub complete: bool,
    /// The workload units of the policy.
    #[serde(rename = "units")]
    pub workload_units: Vec<PlannedWorkloadUnit>,
    /// Human-readable warnings about parts that can never work or may be unintended; left out when there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl PlanResponse {
    /// Returns the number of changes of each kind in words.
    #[must_use]
    pub fn totals(&self) -> String {
        let changes = || self.workload_units.iter().flat_map(|unit| &unit.changes);
        let count = |action| changes().filter(|change| change.action == action).count();
        let totals = PlannedAction::ALL.map(|action| format!("{} to {}", count(action), action.word()));
        totals.join(", ")
    }
}

/// Planned changes of a workload unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWorkloadUnit {
    /// `all`, or the HA group.
    pub name: String,
    /// The instances that it has now.
    #[serde(default)]
    pub instances: u64,
    /// The changes in their order.
    pub changes: Vec<PlannedChange>,
    /// Nodes that each constraint removes, before the changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequence: Vec<ExplainedConstraint>,
    /// Steps that would still be blocked afterwards.
    pub blocked: Vec<PlannedBlock>,
    /// Reason for which not every instance would get a node; left out when every one would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<String>,
}

/// The kind of a planned change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedAction {
    /// A slot is filled.
    Create,
    /// A slot gets another version.
    Replace,
    /// A slot goes to another node.
    Move,
    /// A slot is started again.
    Restart,
    /// A slot is emptied.
    Stop,
}

impl PlannedAction {
    /// The kinds in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Create, Self::Replace, Self::Move, Self::Restart, Self::Stop];

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Move => "move",
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }
}

/// A change of one slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    /// Kind of the change.
    pub action: PlannedAction,
    /// The slot: a number, or the node.
    pub slot: SlotName,
    /// The node where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node where it will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Human-readable reason.
    pub reason: String,
    /// Number of candidate nodes that each constraint removes; left out when none removes any, and where no node is chosen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elimination: BTreeMap<String, u64>,
}

impl PlannedChange {
    /// Returns the nodes that it concerns, in words.
    #[must_use]
    pub fn location(&self) -> String {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from == to => format!("on {to}"),
            (Some(from), Some(to)) => format!("from {from} to {to}"),
            (None, Some(node)) | (Some(node), None) => format!("on {node}"),
            (None, None) => "on no node yet".to_owned(),
        }
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.action {
            PlannedAction::Create => '+',
            PlannedAction::Replace | PlannedAction::Restart => '~',
            PlannedAction::Move => '>',
            PlannedAction::Stop => '-',
        };
        write!(f, "{sign} {} slot {} {}: {}", self.action.word(), self.slot, self.location(), self.reason)
    }
}

/// A slot that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBlock {
    /// The slot: a number, or the node.
    pub slot: SlotName,
    /// Human-readable purpose.
    pub reason: String,
}

impl fmt::Display for PlannedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "! slot {} waits: {}", self.slot, self.reason)
    }
}

/// Most nodes of a write of several nodes.
pub const MOST_NODES: usize = 500;

/// Write of an object that deployment policies depend on, in one organization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DependencyWrite {
    /// Replaces the policy of a node.
    NodePolicy {
        /// The node.
        node: String,
        /// Its policy then; none removes it.
        #[schema(value_type = Option<Object>)]
        policy: Option<Map<String, Value>>,
    },
    /// Replaces the user input of a node.
    UserInput {
        /// The node.
        node: String,
        /// Its user input then.
        #[schema(value_type = Vec<Object>)]
        user_input: Vec<Map<String, Value>>,
    },
    /// Replaces the members of an HA group.
    HaGroup {
        /// The group.
        group: String,
        /// The names of its members then; none removes the group.
        members: Option<Vec<String>>,
    },
    /// Changes several nodes in one way.
    Nodes {
        /// The nodes, at most 500.
        nodes: Vec<String>,
        /// Their availability then: `active`, `pause` or `drain`; none keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        availability: Option<String>,
        /// A property of their policies then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        property: Option<NodeTag>,
    },
    /// Changes settings of the organization for its workloads and nodes.
    Settings {
        /// The changes, as a merge patch.
        #[schema(value_type = Object)]
        settings: Map<String, Value>,
    },
}

/// Instances that a write stops without a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStopsResponse {
    /// The deployment policies of the organization that lose instances; for a write of several nodes also those that have some there.
    pub policies: Vec<PlannedStops>,
}

/// Instances of a deployment policy that a write stops without a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStops {
    /// The policy.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// The instances that it has now.
    pub instances: u64,
    /// Those of them that stop, at once or when the rules of their HA group permit it.
    pub stopped: u64,
    /// Those of them that are on the nodes of a write of several nodes; left out for other writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(workload_units: &Value) -> PlanResponse {
        let plan = json!({"policy": "o/p", "token": "0a", "complete": true, "units": workload_units});
        serde_json::from_value(plan).expect("a plan")
    }

    #[test]
    fn totals_count_the_changes_of_all_workload_units() {
        let changes = json!([
            {"action": "create", "slot": 1, "reason": "r"}, {"action": "create", "slot": 2, "reason": "r"},
            {"action": "move", "slot": 3, "reason": "r"},
        ]);
        let unit = |name: &str| json!({"name": name, "blocked": [], "changes": changes});
        assert_eq!(
            plan(&json!([unit("g1"), unit("g2")])).totals(),
            "4 to create, 0 to replace, 2 to move, 0 to restart, 0 to stop"
        );
        assert!(plan(&json!([])).totals().starts_with("0 to create, 0 to replace"));
    }

    #[test]
    fn words_of_actions_are_those_of_the_format() {
        for action in PlannedAction::ALL {
            assert_eq!(json!(action), action.word());
        }
    }

    #[test]
    fn changes_are_lines_with_their_nodes() {
        let shown = |action: &str, from: Option<&str>, to: Option<&str>| {
            let change = json!({"action": action, "slot": 1, "from": from, "to": to, "reason": "r"});
            serde_json::from_value::<PlannedChange>(change).expect("a change").to_string()
        };
        assert_eq!(shown("create", None, None), "+ create slot 1 on no node yet: r");
        assert_eq!(shown("replace", Some("n"), Some("n")), "~ replace slot 1 on n: r");
        assert_eq!(shown("move", Some("n"), Some("m")), "> move slot 1 from n to m: r");
        assert_eq!(shown("restart", Some("n"), Some("n")), "~ restart slot 1 on n: r");
        assert_eq!(shown("stop", Some("n"), None), "- stop slot 1 on n: r");
    }
}
