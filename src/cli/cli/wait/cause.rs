//! The cause for which instances of a deployment policy are missing, as `explain` shows it, and whether it ends without a user: for commands that wait.

use evenkeel_wire::agbot::orchestration::{
    ExplainQuery, PlacementExplanation, StatusQuery, UpdateBlocked, WorkloadStatus, WorkloadUnit,
};

use super::Progress;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::orchestration::{NO_NODE, clause_advice, removal_example};

/// Number of instances of each workload unit that are read; existing ones come first.
const LIMIT: u16 = 1000;
/// Number of constraints for which one node is named with the reason.
const EXAMPLES: usize = 3;
/// Part of the warning of the agbot about instances that exit again and again.
const KEEP_EXITING: &str = " keep exiting";
/// Constraints that may be satisfied later without an action of a user.
const PASSING: [&str; 4] = ["NodeState", "Blocklist", "NodeCapacity", "Affinity"];
/// Rules that block an update until a user acts.
const OF_USERS: [&str; 3] = ["Frozen", "NodePaused", "Capacity"];

/// The policy that is waited for.
pub(super) struct Wanted<'a> {
    /// `org/policy`.
    pub policy: &'a str,
    /// Its versions; any when there is none.
    pub versions: &'a [String],
    /// True if the replacement of an instance waits for something that ends without a user.
    pub is_replacing: bool,
}

/// Returns the progress of a policy that has not taken effect, with the cause that `explain` names, and whether a user
/// has to act.
///
/// # Errors
/// With status 5 when the agbot does not respond.
pub(super) async fn with_cause(
    context: &Context,
    exchange: &Exchange,
    wanted: &Wanted<'_>,
    pending: String,
) -> Outcome<Progress> {
    let policy = wanted.policy;
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the orchestration status of {policy}");
    let query = StatusQuery { limit: Some(LIMIT), ..StatusQuery::default() };
    let found = agbot.call(&doing, agbot.client.orchestration_record(&org, &name, &query)).await?;
    let Some(found) = found else { return Ok(Progress::Pending(pending)) };
    let status: WorkloadStatus = agbot.read(&doing, &found)?;
    if let Some(progress) = exiting(&status, wanted) {
        return Ok(progress);
    }
    let Some(missing) = unit_to_explain(&status) else { return Ok(Progress::Pending(pending)) };
    let query =
        ExplainQuery { workload_unit: Some(missing.workload_unit.clone()), ..ExplainQuery::default() };
    let doing = format!("explaining {policy}");
    let found = agbot.call(&doing, agbot.client.placement_explanation(&org, &name, &query)).await?;
    let Some(found) = found else { return Ok(Progress::Pending(pending)) };
    Ok(explained(policy, pending, &agbot.read(&doing, &found)?))
}

/// Returns the workload unit with missing instances. A unit that wants an instance on each of its nodes wants none
/// while no node matches.
fn unit_to_explain(status: &WorkloadStatus) -> Option<&WorkloadUnit> {
    let parts = &status.workload_units;
    let has_no_fit_node = |unit: &&WorkloadUnit| unit.up == 0 && unit.target == 0 && unit.instance_count > 0;
    parts.iter().find(|unit| unit.up < unit.target).or_else(|| parts.iter().find(has_no_fit_node))
}

/// Returns that a user has to act, if every existing instance keeps exiting and none is to be replaced by another version.
fn exiting(status: &WorkloadStatus, wanted: &Wanted<'_>) -> Option<Progress> {
    let is_up = |unit: &WorkloadUnit| unit.up > 0;
    let warning = status.warnings.iter().find(|warning| warning.contains(KEEP_EXITING))?;
    let instances = status.workload_units.iter().flat_map(|unit| &unit.instances);
    let mut versions = instances.filter_map(|instance| instance.version.as_ref());
    let is_replacing = wanted.is_replacing
        || !wanted.versions.is_empty() && versions.any(|version| !wanted.versions.contains(version));
    (!is_replacing && !status.workload_units.iter().any(is_up)).then(|| Progress::Held {
        why: warning.clone(),
        advice: format!(
            "fix the service or return to a version that works; see each node with: hzn agbot reasons --policy {}",
            status.policy
        ),
    })
}

fn explained(policy: &str, pending: String, found: &PlacementExplanation) -> Progress {
    if found.placed >= found.requested.max(1) {
        return Progress::Pending(pending);
    }
    let is_known =
        pending.contains(&found.summary) || pending.contains(NO_NODE) && found.summary.ends_with(NO_NODE);
    let text = match is_known {
        true => pending,
        false => format!("{pending}; {}: {}", found.workload_unit, found.summary),
    };
    let examples: Vec<String> = found.sequence.iter().filter_map(removal_example).take(EXAMPLES).collect();
    let text = match examples.is_empty() {
        true => text,
        false => format!("{text} ({})", examples.join("; ")),
    };
    if !needs_user(found) {
        return Progress::Pending(text);
    }
    if text.contains(NO_NODE) {
        return Progress::Held { why: text, advice: clause_advice(policy) };
    }
    let advice = format!(
        "change the placement or the nodes; see each node with: hzn exchange deployment orchestration explain {policy}"
    );
    Progress::Held { why: text, advice }
}

/// Returns whether what is missing stays missing without a user: the nodes are too few, or each is one that a user has excluded.
fn needs_user(found: &PlacementExplanation) -> bool {
    let mut removing = found.sequence.iter().filter(|stage| !stage.eliminated.is_empty());
    found.cause.as_deref() == Some("unsatisfiable")
        || found.cause.is_some() && removing.all(|stage| !PASSING.contains(&stage.constraint.as_str()))
}

/// Returns whether a blocked update continues only when a user acts.
pub(super) fn is_blocked_for_users(blocked: &UpdateBlocked) -> bool {
    let needs_user = |rule: &String| match rule.as_str() {
        "NoCandidate" => {
            let mut slots = blocked.slots.iter().filter(|slot| slot.reason == *rule).peekable();
            slots.peek().is_some()
                && slots.all(|slot| !PASSING.iter().any(|passing| slot.detail.contains(passing)))
        }
        rule => OF_USERS.contains(&rule),
    };
    !blocked.rules.is_empty() && blocked.rules.iter().all(needs_user)
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::{BlockedSlot, EliminatedNode, ExplainedConstraint, Instance};

    use super::*;

    fn explanation(cause: &str, removed_by: &str) -> PlacementExplanation {
        let eliminated = vec![EliminatedNode { node: "n1".to_owned(), reason: "x".to_owned() }];
        let stage = ExplainedConstraint {
            constraint: removed_by.to_owned(),
            eliminated,
            ..ExplainedConstraint::default()
        };
        PlacementExplanation {
            workload_unit: "all".to_owned(),
            requested: 2,
            placed: 1,
            sequence: vec![stage],
            cause: Some(cause.to_owned()),
            summary: format!("1 of 2 placed: {removed_by} removed 1"),
            ..PlacementExplanation::default()
        }
    }

    fn judged(found: &PlacementExplanation) -> Progress {
        explained("o/p", "1 of 2 instances run".to_owned(), found)
    }

    #[test]
    fn placement_that_no_node_can_satisfy_waits_for_a_user_and_says_why() {
        let found = judged(&explanation("unsatisfiable", "PlacementConstraint"));
        let Progress::Held { why, advice } = found else { panic!("{found:?}") };
        let expected = "1 of 2 instances run; all: 1 of 2 placed: PlacementConstraint removed 1 (n1: x)";
        assert_eq!(why, expected);
        assert!(advice.ends_with("orchestration explain o/p"), "{advice}");
        assert!(matches!(judged(&explanation("transient", "Frozen")), Progress::Held { .. }));
    }

    #[test]
    fn policy_for_every_node_names_the_constraint_that_no_node_satisfies() {
        let unit = WorkloadUnit { instance_count: 3, ..WorkloadUnit::default() };
        let status = WorkloadStatus { workload_units: vec![unit], ..WorkloadStatus::default() };
        assert!(unit_to_explain(&status).is_some(), "none is wanted, because no node is fit");
        let found = PlacementExplanation {
            requested: 0,
            placed: 0,
            cause: None,
            summary: "no instance is wanted: PlacementConstraint removed 3".to_owned(),
            ..explanation("unsatisfiable", "PlacementConstraint")
        };
        let expected =
            "0 of 1 instances run; all: no instance is wanted: PlacementConstraint removed 3 (n1: x)";
        let judged = explained("o/p", "0 of 1 instances run".to_owned(), &found);
        assert_eq!(judged, Progress::Pending(expected.to_owned()));
    }

    #[test]
    fn policy_that_selects_no_node_says_so_once_and_names_a_command() {
        let found = PlacementExplanation {
            sequence: Vec::new(),
            summary: "0 of 2 placed: no node belongs to it".to_owned(),
            ..explanation("unsatisfiable", "")
        };
        let pending = "0 of 2 instances run; all: no node belongs to it";
        let Progress::Held { why, advice } = explained("o/p", pending.to_owned(), &found) else { panic!() };
        assert_eq!(why, pending);
        assert!(advice.ends_with("hzn explain NODE o/p"), "{advice}");
    }

    #[test]
    fn node_that_may_come_back_is_waited_for_with_the_cause() {
        let found = judged(&explanation("transient", "NodeState"));
        assert!(
            matches!(&found, Progress::Pending(text) if text.ends_with("NodeState removed 1 (n1: x)")),
            "{found:?}"
        );
        let placed = PlacementExplanation { placed: 2, ..explanation("transient", "NodeState") };
        assert_eq!(judged(&placed), Progress::Pending("1 of 2 instances run".to_owned()));
    }

    #[test]
    fn instances_that_all_keep_exiting_wait_for_a_user() {
        let instance = Instance { version: Some("1.0.0".to_owned()), ..Instance::default() };
        let unit =
            |up| WorkloadUnit { up, target: 3, instances: vec![instance.clone()], ..WorkloadUnit::default() };
        let warnings = vec!["all: 3 of 3 instances keep exiting: exit code 7".to_owned()];
        let status = |up| WorkloadStatus {
            policy: "o/p".to_owned(),
            warnings: warnings.clone(),
            workload_units: vec![unit(up)],
            ..WorkloadStatus::default()
        };
        fn wanted(versions: &[String], is_replacing: bool) -> Wanted<'_> {
            Wanted { policy: "o/p", versions, is_replacing }
        }
        let (old, new) = (["1.0.0".to_owned()], ["2.0.0".to_owned()]);
        let found = exiting(&status(0), &wanted(&old, false));
        assert!(
            matches!(&found, Some(Progress::Held { why, .. }) if why.ends_with("exit code 7")),
            "{found:?}"
        );
        assert!(exiting(&status(0), &wanted(&[], false)).is_some(), "any version is meant");
        assert_eq!(exiting(&status(1), &wanted(&old, false)), None, "one works");
        assert_eq!(exiting(&status(0), &wanted(&new, false)), None, "the fix replaces it");
        assert_eq!(exiting(&status(0), &wanted(&old, true)), None, "another one is about to start");
    }

    #[test]
    fn update_that_waits_for_a_user_differs_from_one_that_goes_on() {
        let blocked = |rule: &str, detail: &str| UpdateBlocked {
            rules: vec![rule.to_owned()],
            slots: vec![BlockedSlot {
                reason: rule.to_owned(),
                detail: detail.to_owned(),
                ..BlockedSlot::default()
            }],
            ..UpdateBlocked::default()
        };
        for (rule, detail, needs_user) in [
            ("Frozen", "the workload is frozen", true),
            ("NodePaused", "the node is paused", true),
            ("NoCandidate", "1 of 2 placed: PlacementConstraint removed 1", true),
            ("NoCandidate", "1 of 2 placed: NodeState removed 1", false),
            ("HALock", "n2 holds the claim", false),
            ("NodeDown", "the node is down", false),
        ] {
            assert_eq!(is_blocked_for_users(&blocked(rule, detail)), needs_user, "{rule}: {detail}");
        }
        let mixed = UpdateBlocked {
            rules: vec!["Frozen".to_owned(), "NodeDown".to_owned()],
            ..UpdateBlocked::default()
        };
        assert!(!is_blocked_for_users(&mixed) && !is_blocked_for_users(&UpdateBlocked::default()));
    }
}
