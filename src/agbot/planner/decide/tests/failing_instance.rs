//! Instances without tasks that keep exiting.

use evenkeel_explain::explain::status_of;
use evenkeel_ids::{NodeId, ServiceKey};
use evenkeel_planner_model::{event::Event, group_fixture::running_group, model::Model};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{NodePolicyFacts, NodeStatusFacts, ObservedFailure},
    fixture::{deployment_policy, service},
    goal::Avail,
};
use evenkeel_status::status::Window;

fn failure(agreement: &Agreement, recent_exits: &[i64]) -> ObservedFailure {
    ObservedFailure {
        agreement: Some(agreement.id.clone()),
        service: ServiceKey::new("o", "s"),
        version: agreement.version.clone(),
        recent_exits: recent_exits.to_vec(),
        text: "exit code 1".to_owned(),
    }
}

/// A9.3: whatever the time between the exits, and whether an instance is seen running between two of them.
#[test]
fn instances_without_tasks_that_keep_exiting_are_not_up() {
    let (mut model, now) = running_group(&["a", "b"]);
    let service = Box::new(service("s", "1.0.0"));
    model.apply(&Event::ServiceChanged { service }, now);
    for node in ["a", "b"].map(|name| NodeId::new("o", name)) {
        let policy = Some(Box::new(NodePolicyFacts::default()));
        model.apply(&Event::NodePolicyChanged { node, policy }, now);
    }
    model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(deployment_policy()) }, now);
    let agreements: Vec<Agreement> = model.agreements().cloned().collect();
    let policy = agreements[0].policy.clone();
    let window = Window { limit: 10, ..Window::default() };
    let status = |model: &Model| status_of(model, &policy, &window, now).unwrap();
    assert_eq!((status(&model).overall(), status(&model).parts[0].up), (Avail::Up, 2));
    for (number, agreement) in agreements.iter().enumerate() {
        let record = model.node(&agreement.node).unwrap();
        let known = record.status.clone().unwrap_or_default();
        let failures = vec![failure(agreement, &[100, 400, 1_300])];
        let status = Some(Box::new(NodeStatusFacts { failures, ..known }));
        model.apply(&Event::NodeStatusChanged { node: agreement.node.clone(), status }, now);
        assert_eq!(model.crash_looping_policies(now).count(), number + 1);
    }
    let found = status(&model);
    assert_eq!((found.overall(), found.parts[0].up), (Avail::Warn, 0));
    assert_eq!(found.warnings, ["all: 2 of 2 instances keep exiting: exit code 1"]);
}
