use std::collections::{BTreeMap, BTreeSet};

use evenkeel_planner_record::{
    agreement::CancelReason,
    claims::ReleaseReason,
    facts::{DeploymentOverrides, HaGroupFacts},
    fixture::{self, at},
    rollout::RolloutState,
    settings::PlannerSettings,
};

use super::*;

fn agreement() -> Agreement {
    fixture::agreement("n")
}

fn rollout(state: RolloutState) -> Rollout {
    Rollout {
        group: GroupId::from_text("o/g"),
        policy: PolicyId::from_text("o/p"),
        target: "o/s 1.0.0".into(),
        target_digest: 0,
        started_at: at(0),
        total: 1,
        done: 0,
        failed: Vec::new(),
        last_step_at: None,
        last_node: None,
        previous_version: None,
        previous_overrides: DeploymentOverrides::default(),
        durations: evenkeel_planner_record::rollout::StepDurations::default(),
        rollback: None,
        revision: 1,
        state,
    }
}

fn recorded(agreement: &Agreement) -> Event {
    Event::AgreementRecorded { agreement: Box::new(agreement.clone()) }
}

fn model() -> Model {
    Model::new(PlannerSettings::default())
}

#[test]
fn agreement_that_ended_is_not_revived_by_an_older_read() {
    let mut model = model();
    let proposed = agreement();
    let ended = proposed.clone().end(at(5), CancelReason::POLICY_CHANGED).unwrap();
    model.apply(&recorded(&ended), at(6));
    assert!(model.is_recorded(&recorded(&proposed)));
    model.apply(&recorded(&proposed), at(7));
    assert_eq!(model.agreement(&proposed.id), Some(&ended));
    assert!(model.live_agreement(&proposed.node, &proposed.policy).is_none());
}

#[test]
fn reading_an_agreement_keeps_the_time_of_its_verification() {
    let mut model = model();
    let stored = agreement().finalize(at(1)).unwrap();
    let verified = Agreement { verified_at: Some(at(9)), ..stored.clone() };
    model.apply(&recorded(&verified), at(9));
    assert!(model.is_recorded(&recorded(&stored)), "nothing new");
    model.apply(&recorded(&stored), at(10));
    assert_eq!(model.agreement(&stored.id), Some(&verified));
}

#[test]
fn records_whose_rows_are_gone_are_forgotten() {
    let mut model = model();
    let agreement = agreement();
    let rollout = rollout(RolloutState::Completed { at: at(2) });
    model.apply(&recorded(&agreement), at(1));
    model.apply(&Event::RolloutRecorded { rollout: Box::new(rollout.clone()) }, at(1));
    assert_eq!(model.record_keys().agreements.len() + model.record_keys().rollouts.len(), 2);
    let (group, policy) = (rollout.group, rollout.policy);
    model.apply(&Event::AgreementRemoved { agreement: agreement.id.clone() }, at(2));
    model.apply(&Event::RolloutRemoved { group, policy }, at(2));
    assert_eq!(model.record_keys(), RecordKeys::default());
    assert!(model.live_agreement(&agreement.node, &agreement.policy).is_none());
}

/// Leases of all partitions.
fn own_all() -> BTreeMap<u32, u64> {
    (0..PlannerSettings::default().partition_count).map(|partition| (partition, 1)).collect()
}

#[test]
fn only_nodes_of_own_partitions_are_awaited() {
    let mut model = model();
    let nodes = ["o/n1", "o/n2", "o/n3", "o/n4"].map(NodeId::from_text);
    for (number, node) in nodes.iter().enumerate() {
        let id = AgreementId::from_text(&format!("a{number}"));
        model.apply(&recorded(&Agreement { id, node: node.clone(), ..agreement() }), at(0));
    }
    assert_eq!(model.awaited_nodes(at(1)), BTreeSet::new(), "no partition is owned");
    let first = model.partition_of(&nodes[0]);
    let of_first: BTreeSet<NodeId> =
        nodes.iter().filter(|node| model.partition_of(node) == first).cloned().collect();
    model.apply(&Event::PartitionsChanged { leases: [(first, 1)].into() }, at(1));
    assert_eq!(model.awaited_nodes(at(1)), of_first);
    model.apply(&Event::PartitionsChanged { leases: own_all() }, at(2));
    assert_eq!(model.awaited_nodes(at(2)), BTreeSet::from(nodes));
}

#[test]
fn members_of_abandoned_rollouts_are_not_awaited() {
    let mut model = model();
    let group = HaGroupFacts::new(GroupId::from_text("o/g"), [NodeId::from_text("o/n")]);
    model.apply(&Event::HaGroupChanged { group: Box::new(group) }, at(0));
    let states = [
        (RolloutState::Updating, 1),
        (RolloutState::Abandoned { at: at(1), why: ReleaseReason::Superseded }, 0),
        (RolloutState::Completed { at: at(1) }, 0),
    ];
    model.apply(&Event::PartitionsChanged { leases: own_all() }, at(0));
    for (state, awaited) in states {
        model.apply(&Event::RolloutRecorded { rollout: Box::new(rollout(state)) }, at(1));
        assert_eq!(model.awaited_nodes(at(2)).len(), awaited);
    }
}

#[test]
fn node_that_is_deleted_is_no_member_when_it_is_created_again() {
    let mut model = model();
    let (node, group) = (NodeId::from_text("o/n"), GroupId::from_text("o/g"));
    let members = [node.clone(), NodeId::from_text("o/m")];
    let facts = HaGroupFacts::new(group.clone(), members);
    model.apply(&Event::HaGroupChanged { group: Box::new(facts) }, at(0));
    model.apply(&Event::NodeRemoved { node: node.clone() }, at(1));
    assert!(model.group_of(&node).is_none());
    assert_eq!(model.groups[&group].members.len(), 1);
}

#[test]
fn group_that_is_read_again_as_it_was_touches_nothing() {
    let mut model = model();
    let group = |members: &[&str]| {
        let members = members.iter().map(|name| NodeId::new("o", name));
        Event::HaGroupChanged { group: Box::new(HaGroupFacts::new(GroupId::from_text("o/g"), members)) }
    };
    model.apply(&group(&["n", "m"]), at(0));
    assert_eq!(model.touched.len(), 2);
    model.touched.clear();
    model.apply(&group(&["n", "m"]), at(1));
    assert!(model.touched.is_empty());
    model.apply(&group(&["n"]), at(2));
    assert_eq!(model.touched.len(), 2, "one of them has left");
}
