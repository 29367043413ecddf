//! Status and explanation of policies in a fleet: A9.1 to A9.4.

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_explain::explain::{explain_part, status_of, why_no_task};
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::{event::Event, group_fixture::running_group};
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, PolicyOrchestration, PolicyScope},
    fixture::{at, deployment_policy, task},
    goal::Avail,
    report::{Constraint, UnplacedCause},
    workload::{DesiredState, Part, Task, TaskState, UnitId, WorkloadRecord},
};
use evenkeel_status::status::{PartExplanation, Question, Window};
use serde_json::json;

use super::fleet::Fleet;

#[test]
fn policy_without_tasks_is_shown_by_its_agreements_page_by_page() {
    let (mut model, now) = running_group(&["a", "b", "c"]);
    let orchestration =
        PolicyOrchestration { scope: PolicyScope::EveryHaGroup, ..PolicyOrchestration::default() };
    let facts = DeploymentPolicyFacts { orchestration, ..deployment_policy() };
    let policy = facts.id.clone();
    model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(facts) }, at(0));
    let mut window = Window { limit: 2, ..Window::default() };
    let first = status_of(&model, &policy, &window, now).unwrap();
    let part = &first.parts[0];
    assert_eq!((first.avail, part.target, part.up, part.instance_count), (Avail::Up, 3, 3, 3));
    assert_eq!(part.instances.len(), 2);
    window.offset = part.next.unwrap();
    let second = status_of(&model, &policy, &window, now).unwrap();
    assert_eq!((second.parts[0].instances.len(), second.parts[0].next), (1, None));
    assert_eq!(status_of(&model, &PolicyId::new("o", "none"), &window, now), None);
}

/// D3-S4, D3-S5: a node with an instance is chosen, one without is explained by the constraint that removes it, others are not known.
#[test]
fn node_is_explained_by_its_instance_or_by_the_constraint_that_removes_it() {
    let (mut model, now) = running_group(&["a", "b", "c"]);
    let id = deployment_policy().id;
    let scope = json!({"type": "hagroups", "haGroups": ["g"]});
    let document = json!({"mode": "replicated", "replicas": 2, "scope": scope});
    let document = Orchestration::of_policy(&id, document).unwrap();
    let orchestration = PolicyOrchestration::of(&id, &document);
    let policy = DeploymentPolicyFacts { orchestration, ..deployment_policy() };
    let workload = Box::new(WorkloadRecord::new(&policy));
    model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(policy) }, at(0));
    model.apply(&Event::WorkloadRecorded { workload }, at(0));
    let part = UnitId { policy: id.clone(), part: Part::Group(GroupId::from_text("o/g")) };
    let own = task(1, DesiredState::Running, TaskState::RUNNING);
    let own = Task { unit_id: part.clone(), node: Some(NodeId::new("o", "a")), ..own };
    model.apply(&Event::TaskRecorded { task: Box::new(own) }, at(0));
    let explained = |node: Option<&str>| {
        let node = node.map(|name| NodeId::new("o", name));
        explain_part(&model, Question { part: &part, node: node.as_ref(), is_complete: false, now })
    };
    let whole = explained(None).unwrap();
    assert_eq!((whole.requested, whole.placed, whole.candidate_count), (2, 1, 3));
    assert_eq!(whole.chosen, [NodeId::new("o", "a")]);
    // The service has no definition, so that no node is eligible.
    assert_eq!(whole.sequence[0].constraint, Constraint::Eligibility);
    assert!(whole.summary.starts_with("1 of 2 placed: Eligibility removed"), "{}", whole.summary);
    assert!(whole.summary.contains("; the exchange has no service o/"), "{}", whole.summary);
    let own = explained(Some("a")).unwrap();
    assert_eq!((own.summary.as_str(), own.sequence.len(), own.chosen.len()), ("has an instance", 0, 1));
    let other = explained(Some("b")).unwrap();
    assert!(other.summary.starts_with("Eligibility ") && other.chosen.is_empty(), "{}", other.summary);
    assert_eq!(explained(Some("x")), None);
    assert!(
        why_no_task(&model, &NodeId::new("o", "b"), &id).is_some_and(|why| why.starts_with("Eligibility: "))
    );
}

/// A9.2, B10: from the failure until the replacement on the same node runs.
#[test]
fn instance_whose_restart_is_pending_is_restarting() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 1}));
    fleet.run(5);
    assert_eq!((fleet.running("w").as_str(), fleet.monitor("w", "n1")), ("n1", "idle"));
    fleet.crash("w", "n1", true);
    fleet.run_until(10, |fleet| fleet.monitor("w", "n1") == "restarting");
    fleet.crash("w", "n1", false);
    let part = &fleet.status("w").parts[0];
    assert_eq!((part.instances[0].slots.len(), part.instances[0].local_expect), (1, "started"));
    fleet.run_until(30, |fleet| fleet.running("w") == "n1");
    assert_eq!(fleet.monitor("w", "n1"), "idle");
}

/// A9.4.
#[test]
fn packed_domain_is_flagged_as_violated_constraint() {
    let mut fleet = Fleet::new(&["n1", "n2", "n3"]);
    for (name, domain) in [("n1", "fd:/a"), ("n2", "fd:/a"), ("n3", "fd:/b")] {
        fleet.put_node(name, |facts| facts.fault_domain = Some(domain.into()));
    }
    fleet.freeze("n3");
    let placement = json!({"constraintPriorities": {"FaultDomain": 1}});
    fleet.put_policy("w", json!({"mode": "replicated", "replicas": 2, "placement": placement}));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1 n2");
    assert!(fleet.flags("w", "n1").contains('C'), "{}", fleet.flags("w", "n1"));
    assert!(!fleet.flags("w", "n3").contains('C'));
}

fn explained(fleet: &Fleet, is_complete: bool) -> PartExplanation {
    let unit_id = Fleet::unit_id("w");
    let question = Question { part: &unit_id, node: None, is_complete, now: fleet.now };
    explain_part(&fleet.model, question).expect("the workload unit exists")
}

/// D3-S3: before anything is placed, and once two instances run.
#[test]
fn nodes_of_the_other_instances_are_removed_as_chosen_by_the_same_decision() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    let mut document = json!({"mode": "replicated", "replicas": 3, "orchestrate": "no"});
    fleet.put_policy("w", document.clone());
    fleet.run(5);
    for (orchestrate, running) in [("no", ""), ("ha", "n1 n2")] {
        document["orchestrate"] = json!(orchestrate);
        fleet.put_policy("w", document.clone());
        fleet.run(20);
        assert_eq!(fleet.running("w"), running);
        let found = explained(&fleet, false);
        let [stage] = &found.sequence[..] else { panic!("{:?}", found.sequence) };
        assert_eq!(stage.constraint.name(), "ReplicaExclusionDynamic");
        assert_eq!((stage.eliminated.len(), stage.remaining_count), (2, 0), "{orchestrate}");
        let numbers = found.summary.strip_prefix("2 of 3 placed: maxPerNode removed 2");
        let wait = numbers.unwrap_or_else(|| panic!("{}", found.summary));
        assert_eq!(wait.contains("orchestrate is no"), orchestrate == "no", "{wait}");
        assert_eq!(found.cause, Some(UnplacedCause::Unsatisfiable));
        assert_eq!(found.chosen.len(), 2);
    }
}

/// D3 (`all`, `relaxed`).
#[test]
fn complete_explanation_lists_every_constraint_and_nothing_is_relaxed_without_a_preference() {
    let mut fleet = Fleet::new(&["n1", "n2"]);
    fleet.put_policy("w", json!({"mode": "failover", "orchestrate": "no"}));
    fleet.run(5);
    let found = explained(&fleet, true);
    let names: Vec<&str> = found.sequence.iter().map(|stage| stage.constraint.name()).collect();
    let expected = [
        "Eligibility",
        "NodeState",
        "Frozen",
        "PlacementConstraint",
        "ReplicaExclusionStatic",
        "StartFailed",
        "Blocklist",
        "Affinity",
        "NodeCapacity",
        "FaultDomain",
        "UpgradeDomain",
        "ReplicaExclusionDynamic",
        "PreferredLocation",
    ];
    assert_eq!(names, expected);
    assert!(found.sequence.iter().all(|stage| stage.eliminated_count == 0));
    assert_eq!((found.relaxed, found.placed, found.cause), (Vec::new(), 1, None));
    let placement = json!({"domains": {"preferredDomain": "fd:/east"}});
    fleet.put_policy("w", json!({"mode": "failover", "orchestrate": "no", "placement": placement}));
    fleet.run(5);
    assert_eq!(explained(&fleet, false).relaxed, [Constraint::PreferredLocation]);
}
