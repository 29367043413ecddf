//! Controls: links to the plans of actions, or the reason why the reader may not use them.

use evenkeel_wire::agbot::fleet::FleetNode;
use evenkeel_wire::agbot::orchestration::WorkloadStatus;

use super::catalog::Action;
use crate::address::{address_of, with_fields};

/// A control of a page.
pub(crate) struct Control {
    pub(crate) text: &'static str,
    pub(crate) href: String,
    /// Why it is disabled; empty if it is not.
    pub(crate) objection: String,
}

impl Control {
    fn new(org: &str, name: &str, parts: &[(&str, &str)], objection: &str) -> Self {
        let text = Action::find(name).map_or("", |action| action.title);
        let address = address_of(org, &["do", name]);
        Self { text, href: with_fields(&address, parts.iter().copied()), objection: objection.to_owned() }
    }

    /// Controls of a node: those that change something now.
    pub(crate) fn of_node(org: &str, node: &str, state: &FleetNode, objection: &str) -> Vec<Self> {
        let all = [
            ("node-drain", state.availability != "drain"),
            ("node-pause", state.availability == "active"),
            ("node-activate", matches!(state.availability.as_str(), "drain" | "pause")),
            ("node-freeze", !state.frozen),
            ("node-thaw", state.frozen),
        ];
        let meant = all.into_iter().filter(|(_, is_meant)| *is_meant);
        meant.map(|(name, _)| Self::new(org, name, &[("node", node)], objection)).collect()
    }

    /// The control that confirms that a node which is down is dead.
    pub(crate) fn of_fence(org: &str, node: &str, objection: &str) -> Self {
        Self::new(org, "node-fence", &[("node", node)], objection)
    }

    /// Controls of a deployment policy; `of_rollouts`: the objection to those that change its rollouts.
    pub(crate) fn of_policy(
        org: &str,
        policy: &str,
        status: &WorkloadStatus,
        (objection, of_rollouts): (&str, &str),
    ) -> Vec<Self> {
        let has_tasks = status.spec_version.is_some();
        let update = status.update.state.as_str();
        // Each node has its own instance in the mode global, which goes nowhere else.
        let may_move = has_tasks && matches!(status.mode.as_str(), "failover" | "flex" | "replicated");
        let all = [
            ("rollout-pause", matches!(update, "updating" | "rollback-started")),
            ("rollout-resume", matches!(update, "paused" | "rollback-paused")),
            ("rollout-rollback", matches!(update, "updating" | "paused" | "completed")),
            ("policy-start", has_tasks),
            ("policy-stop", has_tasks),
            ("policy-restart", has_tasks),
            ("policy-freeze", has_tasks && status.frozen != "frozen"),
            ("policy-thaw", has_tasks && matches!(status.frozen.as_str(), "frozen" | "mixed")),
            ("policy-switch", may_move),
            ("policy-giveback", may_move && status.placement == "non-optimal"),
            ("policy-clear", has_tasks),
            ("policy-abort", status.action.is_some()),
        ];
        let meant = all.into_iter().filter(|(_, is_meant)| *is_meant);
        let objection_to = |name: &str| if name.starts_with("rollout-") { of_rollouts } else { objection };
        meant.map(|(name, _)| Self::new(org, name, &[("policy", policy)], objection_to(name))).collect()
    }

    /// Controls of the rollouts of a policy.
    pub(crate) fn of_rollout(org: &str, policy: &str, state: &str, objection: &str) -> Vec<Self> {
        let names: &[&str] = match state {
            "updating" => &["rollout-pause", "rollout-rollback", "rollout-abort"],
            "rolling-back" => &["rollout-pause", "rollout-abort"],
            "paused" => &["rollout-resume", "rollout-rollback", "rollout-abort"],
            "rolled-back" => &["rollout-retry"],
            "completed" => &["rollout-rollback"],
            _ => &[],
        };
        names.iter().map(|name| Self::new(org, name, &[("policy", policy)], objection)).collect()
    }

    /// Every control of the rollouts of a policy; those that change nothing now are disabled. `state`: as the API names it.
    pub(crate) fn each_of_rollout(org: &str, policy: &str, state: &str, objection: &str) -> Vec<Self> {
        let is = |states: &[&str]| states.contains(&state);
        let is_rolling = is(&["updating", "rollback-started"]);
        let is_paused = is(&["paused", "rollback-paused"]);
        let is_over = "no instance is being replaced";
        let all = [
            ("rollout-pause", is_rolling, is_over),
            ("rollout-resume", is_paused, "the rollout is not paused"),
            ("rollout-abort", is_rolling || is_paused, is_over),
            ("rollout-rollback", is(&["updating", "paused", "completed"]), "it leads back already"),
            (
                "rollout-retry",
                is(&["paused", "rollback-started", "rollback-paused", "rollback-completed"]),
                "no version failed",
            ),
        ];
        let control = |(name, is_meant, why): (&str, bool, &str)| {
            let objection = if objection.is_empty() && !is_meant { why } else { objection };
            Self::new(org, name, &[("policy", policy)], objection)
        };
        all.into_iter().map(control).collect()
    }

    /// The control that releases the claims of a member of a group.
    pub(crate) fn of_claim(org: &str, group: &str, node: &str, objection: &str) -> Self {
        Self::new(org, "claim-free", &[("group", group), ("node", node)], objection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hrefs(controls: &[Control]) -> Vec<&str> {
        controls.iter().map(|control| control.href.as_str()).collect()
    }

    #[test]
    fn controls_are_those_that_change_something() {
        let state = |availability: &str, frozen| FleetNode {
            availability: availability.into(),
            frozen,
            ..FleetNode::default()
        };
        let of = |availability, frozen| Control::of_node("o", "n 1", &state(availability, frozen), "");
        assert_eq!(
            hrefs(&of("active", false)),
            [
                "/console/orgs/o/do/node-drain?node=n%201",
                "/console/orgs/o/do/node-pause?node=n%201",
                "/console/orgs/o/do/node-freeze?node=n%201",
            ]
        );
        let drained = of("drain", true);
        assert_eq!(
            drained.iter().map(|one| one.text).collect::<Vec<_>>(),
            ["Activate the node", "Thaw the node"]
        );
    }

    #[test]
    fn controls_of_rollouts_have_an_objection_of_their_own() {
        let mut status = WorkloadStatus { spec_version: Some(1), ..Default::default() };
        status.update.state = "updating".into();
        for control in Control::of_policy("o", "p", &status, ("", "only administrators")) {
            assert_eq!(control.objection.is_empty(), !control.href.contains("/rollout-"), "{}", control.href);
        }
    }

    #[test]
    fn instances_move_only_where_others_may_run_them() {
        let offered = |mode: &str, placement: &str| {
            let (mode, placement) = (mode.to_owned(), placement.to_owned());
            let status = WorkloadStatus { spec_version: Some(1), mode, placement, ..Default::default() };
            let controls = Control::of_policy("o", "p", &status, ("", ""));
            let has = |name: &str| controls.iter().any(|control| control.href.contains(name));
            (has("/policy-switch?"), has("/policy-giveback?"))
        };
        assert_eq!(offered("global", "non-optimal"), (false, false));
        assert_eq!(offered("failover", "non-optimal"), (true, true));
        assert_eq!(offered("flex", "optimal"), (true, false));
    }

    #[test]
    fn controls_of_a_rollout_are_all_there_and_some_are_disabled() {
        let enabled = |state: &str, objection: &str| {
            let all = Control::each_of_rollout("o", "p", state, objection);
            assert_eq!(all.len(), 5);
            let enabled = all.iter().filter(|control| control.objection.is_empty());
            enabled.map(|control| control.text).collect::<Vec<_>>()
        };
        assert_eq!(enabled("updating", ""), ["Pause the rollout", "Abort the rollout", "Roll back"]);
        assert_eq!(enabled("rollback-completed", ""), ["Try the version again"]);
        assert_eq!(enabled("completed", ""), ["Roll back"]);
        assert!(enabled("updating", "not yours").is_empty());
    }

    #[test]
    fn every_control_leads_to_an_action() {
        let status = WorkloadStatus {
            spec_version: Some(1),
            action: Some("a".into()),
            frozen: "mixed".into(),
            ..Default::default()
        };
        let mut controls = Control::of_policy("o", "p", &status, ("not yours", "not yours"));
        for state in ["updating", "rolling-back", "paused", "rolled-back", "completed", "abandoned"] {
            controls.extend(Control::of_rollout("o", "p", state, "not yours"));
        }
        controls.push(Control::of_claim("o", "g", "n", "not yours"));
        controls.push(Control::of_fence("o", "n", "not yours"));
        for control in controls {
            assert!(!control.text.is_empty() && control.objection == "not yours", "{}", control.href);
        }
    }
}
