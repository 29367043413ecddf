use evenkeel_domain::policy::{ConstraintList, ExternalPolicy, Property};
use evenkeel_planner_record::{
    facts::{NodeFacts, NodePolicyFacts},
    fixture::{agreement, at},
    settings::PlannerSettings,
};

use super::*;
use crate::{event::Event, group_fixture::running_group};

fn id(number: u32) -> NodeId {
    NodeId::new("o", &format!("n{number}"))
}

/// Nodes of which every tenth has the kernel 5.10, every second the architecture arm64, and each another serial number.
fn fleet(count: u32) -> Model {
    let mut model = Model::new(PlannerSettings::default());
    for number in 0..count {
        let facts = NodeFacts {
            arch: if number.is_multiple_of(2) { "arm64" } else { "amd64" }.into(),
            agent_version: "2.31.0".into(),
            fault_domain: Some(if number < count / 2 { "fd:/a/1" } else { "fd:/b/1" }.into()),
            ..NodeFacts::new(id(number))
        };
        model.apply(&Event::NodeChanged { node: Box::new(facts) }, at(0));
        let kernel = if number % 10 == 3 { "5.10" } else { "6.1" };
        let properties = [
            Property::new("kernel", kernel),
            Property::new("cpu", 4),
            Property::new("gpu", number % 10 == 3 && number > 9),
            Property::new("serial", format!("s-{number}")),
        ];
        let policy =
            ExternalPolicy { properties: properties.into_iter().collect(), ..ExternalPolicy::default() };
        let policy = NodePolicyFacts { policy, ..NodePolicyFacts::default() };
        model.apply(&Event::NodePolicyChanged { node: id(number), policy: Some(Box::new(policy)) }, at(0));
    }
    model
}

fn found(model: &Model, failing: impl Iterator<Item = u32>) -> CommonCauses {
    let failing: Vec<NodeId> = failing.map(id).collect();
    model.common_causes(&model.set_of_nodes(&failing), &model.set_of_org("o"), None, 10)
}

fn texts(found: &CommonCauses) -> Vec<String> {
    found.causes.iter().map(|one| format!("{} {}={}", one.attribute.word(), one.name, one.value)).collect()
}

#[test]
fn value_that_most_failing_nodes_have_is_found_with_its_counts() {
    let model = fleet(1_000);
    // All but two with the kernel, and two others.
    let failing = (0..1_000).filter(|number| number % 10 == 3 && *number > 20).chain([50, 70]);
    let found = found(&model, failing);
    assert_eq!((found.failing, found.whole), (100, 1_000));
    let first = &found.causes[0];
    assert_eq!(texts(&found)[0], "property gpu=true", "{found:?}");
    let kernel = found.causes.iter().find(|one| one.name == "kernel").expect("the kernel");
    let counts = Counts { failing_with: 98, failing: 100, whole_with: 100, whole: 1_000 };
    assert_eq!((kernel.value.as_str(), kernel.counts), ("5.10", counts));
    assert!((kernel.association.lift - 9.8).abs() < 1e-9 && first.by_chance < 1e-50);
    assert!(!texts(&found).iter().any(|text| text.contains("serial") || text.contains("cpu")), "{found:?}");
    assert_eq!(found.skipped, 1, "the serial numbers: {found:?}");
    assert!(texts(&found).contains(&"arch =amd64".to_owned()), "{found:?}");
}

#[test]
fn counts_are_those_of_the_nodes_one_by_one() {
    let model = fleet(200);
    let failing: Vec<u32> = (0..200).filter(|number| number % 7 == 0 || number % 10 == 3).collect();
    let found = found(&model, failing.iter().copied());
    for cause in &found.causes {
        let has = |number: u32| match (cause.attribute, cause.name.as_str()) {
            (Attribute::Property, "kernel") => (number % 10 == 3) == (cause.value == "5.10"),
            (Attribute::Property, "gpu") => (number % 10 == 3 && number > 9).to_string() == cause.value,
            (Attribute::Arch, _) => number.is_multiple_of(2) == (cause.value == "arm64"),
            (Attribute::FaultDomain, _) => (number < 100) == cause.value.starts_with("fd:/a"),
            other => panic!("{other:?} distinguishes no nodes"),
        };
        let with = failing.iter().filter(|number| has(**number)).count() as u64;
        assert_eq!(
            (cause.counts.failing_with, cause.counts.whole_with),
            (with, (0..200).filter(|one| has(*one)).count() as u64)
        );
    }
    assert!(!found.causes.is_empty());
}

#[test]
fn nodes_that_are_not_compared_change_nothing() {
    let own: Vec<NodeId> = (0..40).map(id).collect();
    let common = |model: &Model| {
        let failing = model.set_of_nodes(own.iter().step_by(2));
        model.common_causes(&failing, &model.set_of_nodes(&own), None, 10)
    };
    let mut model = fleet(40);
    let alone = common(&model);
    for number in 0..600 {
        let other = NodeId::new("p", &format!("n{number}"));
        model.apply(&Event::NodeChanged { node: Box::new(NodeFacts::new(other.clone())) }, at(0));
        let properties =
            [Property::new("kernel", format!("k-{number}")), Property::new("theirs", number % 3)];
        let policy =
            ExternalPolicy { properties: properties.into_iter().collect(), ..ExternalPolicy::default() };
        let policy = NodePolicyFacts { policy, ..NodePolicyFacts::default() };
        model.apply(&Event::NodePolicyChanged { node: other, policy: Some(Box::new(policy)) }, at(0));
    }
    assert_eq!(common(&model), alone);
    assert!(!alone.causes.is_empty());
}

#[test]
fn nothing_in_common_is_nothing() {
    let model = fleet(100);
    assert!(found(&model, 0..100).causes.is_empty(), "all nodes");
    assert!(found(&model, 5..6).causes.is_empty(), "one node");
    assert!(found(&model, [3, 12, 44, 71, 86].into_iter()).causes.is_empty(), "any nodes");
}

#[test]
fn sets_follow_nodes_that_change_and_leave() {
    let mut model = fleet(40);
    let arm = |model: &Model| {
        let lists =
            model.indexes().attributes().lists().find(|(attribute, ..)| *attribute == Attribute::Arch);
        lists.and_then(|(_, _, sets)| sets.get("arm64").map(RoaringBitmap::len)).unwrap_or_default()
    };
    assert_eq!(arm(&model), 20);
    let changed = NodeFacts { arch: "arm64".into(), ..NodeFacts::new(id(1)) };
    model.apply(&Event::NodeChanged { node: Box::new(changed.clone()) }, at(1));
    model.apply(&Event::NodeChanged { node: Box::new(changed) }, at(2));
    assert_eq!(arm(&model), 21);
    for number in [1, 2] {
        model.apply(&Event::NodeRemoved { node: id(number) }, at(3));
    }
    assert_eq!((arm(&model), model.set_of_org("o").len()), (19, 38));
    let mut constraints = ConstraintList::new();
    constraints.push("kernel == 5.10".to_owned());
    let filter = FleetFilter {
        properties: Some(constraints.parse_own().expect("a constraint")),
        ..FleetFilter::default()
    };
    assert_eq!(model.set_of_fleet("o", &filter, at(4)).len(), 4);
    assert_eq!(model.set_of_fleet("p", &filter, at(4)).len(), 0);
    let of_node = FleetFilter { node: Some(id(5)), ..FleetFilter::default() };
    assert_eq!(model.set_of_fleet("o", &of_node, at(4)), model.set_of_nodes([&id(5)]));
}

#[test]
fn versions_of_services_follow_agreements() {
    let (mut model, now) = running_group(&["a", "b"]);
    let with_service = |model: &Model| {
        let lists =
            model.indexes().attributes().lists().filter(|(attribute, ..)| *attribute == Attribute::Service);
        let sets = lists.flat_map(|(_, name, sets)| {
            sets.iter().map(move |(version, nodes)| (name.to_owned(), version.to_string(), nodes.len()))
        });
        sets.collect::<Vec<_>>()
    };
    let one = |count| vec![("o/s".to_owned(), "1.0.0".to_owned(), count)];
    assert_eq!(with_service(&model), one(2));
    let ended = agreement("a")
        .finalize(at(1))
        .unwrap()
        .end(now, evenkeel_planner_record::agreement::CancelReason(204))
        .unwrap();
    model.apply(&Event::AgreementRecorded { agreement: Box::new(ended) }, now);
    assert_eq!(with_service(&model), one(1));
    model.apply(&Event::NodeRemoved { node: NodeId::new("o", "b") }, now);
    assert_eq!(with_service(&model), []);
}
