//! The plan of a document, as pages show it.

use evenkeel_wire::agbot::plan::{
    PlanResponse, PlannedAction, PlannedChange, PlannedStops, PlannedWorkloadUnit,
};

use super::funnel::FunnelStage;
use crate::document::{Difference, PlannedDocument};

/// Steps that are listed.
const STEPS: usize = 200;
/// Waiting slots that are listed for each workload unit.
const BLOCKED: usize = 50;
/// Workload units that are listed.
const PARTS: usize = 50;

/// A change of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepView {
    pub(crate) action: &'static str,
    pub(crate) slot: String,
    /// The workload unit, unless it is the only one.
    pub(crate) part: String,
    pub(crate) location: String,
    pub(crate) cause: String,
}

impl StepView {
    fn new(part: &str, change: &PlannedChange) -> Self {
        Self {
            action: change.action.word(),
            slot: change.slot.to_string(),
            part: part.to_owned(),
            location: change.location(),
            cause: change.reason.clone(),
        }
    }
}

/// A workload unit of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartView {
    pub(crate) name: String,
    /// Reason for which not every instance gets a node.
    pub(crate) unplaced: Option<String>,
    /// Slots that still wait after the steps, with the reason.
    pub(crate) blocked: Vec<(String, String)>,
    pub(crate) other_blocked: usize,
    pub(crate) stages: Vec<FunnelStage>,
    /// Instances that it has now, and those that it has after the steps.
    pub(crate) instances: (u64, u64),
}

impl PartView {
    pub(crate) fn new(found: PlannedWorkloadUnit) -> Self {
        let count = |action| found.changes.iter().filter(|change| change.action == action).count() as u64;
        let after = found.instances + count(PlannedAction::Create);
        let blocked = found.blocked.iter().take(BLOCKED);
        Self {
            instances: (found.instances, after.saturating_sub(count(PlannedAction::Stop))),
            blocked: blocked.map(|one| (one.slot.to_string(), one.reason.clone())).collect(),
            other_blocked: found.blocked.len().saturating_sub(BLOCKED),
            stages: found.sequence.into_iter().map(FunnelStage::new).collect(),
            unplaced: found.unplaced,
            name: found.name,
        }
    }

    /// Returns its outcome in words.
    pub(crate) fn summary(&self) -> String {
        let (now, then) = self.instances;
        let unplaced = self.unplaced.as_deref().map(|text| format!(" {text}.")).unwrap_or_default();
        format!("Instances now: {now}; with this document: {then}.{unplaced}")
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlanView {
    pub(crate) difference: Difference,
    pub(crate) warnings: Vec<String>,
    /// True if the steps of a deployment policy are known.
    pub(crate) is_policy: bool,
    pub(crate) steps: Vec<StepView>,
    pub(crate) other_steps: usize,
    /// Number of steps by their kind, in words.
    pub(crate) totals: String,
    /// True if no steps follow the listed ones.
    pub(crate) is_complete: bool,
    /// Time that the update in progress still takes, in words.
    pub(crate) time_left: Option<String>,
    pub(crate) parts: Vec<PartView>,
    /// True if the effects of the document are known.
    pub(crate) is_planned: bool,
    pub(crate) stops: Vec<PlannedStops>,
    pub(crate) token: String,
}

impl PlanView {
    pub(crate) fn new(planned: PlannedDocument, time_left: Option<String>) -> Self {
        let PlannedDocument { difference, policy, stops, is_planned, token } = planned;
        let is_policy = policy.is_some();
        let totals = policy.as_ref().map(PlanResponse::totals).unwrap_or_default();
        let (parts, warnings, is_complete) = match policy {
            Some(PlanResponse { workload_units, warnings, complete, .. }) => {
                (workload_units, warnings, complete)
            }
            None => (Vec::new(), Vec::new(), true),
        };
        let is_alone = parts.len() == 1;
        let changes = parts.iter().flat_map(|part| part.changes.iter().map(move |change| (part, change)));
        let all: Vec<(&PlannedWorkloadUnit, &PlannedChange)> = changes.collect();
        let name = |part: &PlannedWorkloadUnit| if is_alone { String::new() } else { part.name.clone() };
        Self {
            totals,
            steps: all.iter().take(STEPS).map(|(part, change)| StepView::new(&name(part), change)).collect(),
            other_steps: all.len().saturating_sub(STEPS),
            parts: parts.into_iter().take(PARTS).map(PartView::new).collect(),
            difference,
            warnings,
            is_policy,
            is_complete,
            time_left,
            is_planned,
            stops,
            token,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::document::difference;

    fn view(parts: &Value) -> PlanView {
        let policy =
            json!({"policy": "o/p", "token": "0a", "complete": false, "units": parts, "warnings": ["w"]});
        let policy: PlanResponse = serde_json::from_value(policy).expect("a plan");
        let planned = PlannedDocument {
            difference: difference(&json!({"a": 1}), &json!({"a": 2})),
            policy: Some(policy),
            stops: Vec::new(),
            is_planned: true,
            token: "t".to_owned(),
        };
        PlanView::new(planned, None)
    }

    fn changes(count: u32) -> Value {
        let one = |slot| json!({"action": "create", "slot": slot, "to": "n", "reason": "r"});
        (0..count).map(one).collect()
    }

    #[test]
    fn steps_name_what_where_and_why() {
        let found = view(
            &json!([{"name": "all", "instances": 2, "blocked": [{"slot": 4, "reason": "no node is left"}],
            "unplaced": "1 of 3 placed", "changes": [
                {"action": "move", "slot": 1, "from": "n1", "to": "n2", "reason": "its node is being drained"},
                {"action": "create", "slot": 2, "reason": "more instances are wanted"},
                {"action": "stop", "slot": "n5", "from": "n5", "reason": "the instance is no longer wanted"},
            ]}]),
        );
        let shown: Vec<String> = found
            .steps
            .iter()
            .map(|step| format!("{} {} {}", step.action, step.slot, step.location))
            .collect();
        assert_eq!(shown, ["move 1 from n1 to n2", "create 2 on no node yet", "stop n5 on n5"]);
        assert_eq!(found.totals, "1 to create, 0 to replace, 1 to move, 0 to restart, 1 to stop");
        let part = &found.parts[0];
        assert_eq!(part.blocked, [("4".to_owned(), "no node is left".to_owned())]);
        assert_eq!(part.summary(), "Instances now: 2; with this document: 2. 1 of 3 placed.");
        assert!(found.steps.iter().all(|step| step.part.is_empty()), "there is one workload unit");
    }

    #[test]
    fn lists_are_bounded_and_count_what_they_leave_out() {
        let blocked: Vec<Value> = (0..70).map(|slot| json!({"slot": slot, "reason": "r"})).collect();
        let part = |name: String| json!({"name": name, "blocked": blocked, "changes": changes(10)});
        let parts: Value = (0..60).map(|number| part(format!("g{number}"))).collect();
        let found = view(&parts);
        assert_eq!((found.steps.len(), found.other_steps), (STEPS, 400));
        assert_eq!(found.parts.len(), PARTS);
        assert_eq!((found.parts[0].blocked.len(), found.parts[0].other_blocked), (BLOCKED, 20));
        assert!(found.totals.starts_with("600 to create") && found.steps[0].part == "g0");
    }
}
