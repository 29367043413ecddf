//! Scenarios of D1 and the rules of reports.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::{
    fixture::{at, deployment_policy},
    health::{Entity, EntityKind, HealthEvent, HealthReport, HealthState, Stale, StoredReport},
    workload::UnitId,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Evaluation, EvaluationRules, ListedChildren, Reason};
use crate::{event::Event, group_fixture::running_group, model::Model};

fn report(value: Value) -> HealthReport {
    HealthReport::read(value).expect("a report")
}

fn body(source: &str, state: &str) -> Value {
    json!({"sourceId": source, "property": "p", "healthState": state})
}

/// Three nodes that run `o/p`, and the reports about their entities.
struct World {
    model: Model,
    stored: std::collections::BTreeMap<Entity, Vec<StoredReport>>,
}

impl World {
    fn new() -> Self {
        let (mut model, _) = running_group(&["a", "b", "c"]);
        let policy = Box::new(deployment_policy());
        model.apply(&Event::DeploymentPolicyChanged { policy }, at(1));
        Self { model, stored: std::collections::BTreeMap::new() }
    }

    fn report(&mut self, entity: &Entity, value: Value, now: Timestamp) -> Result<bool, Stale> {
        let report = report(value);
        let stored = self.stored.entry(entity.clone()).or_default();
        let position =
            stored.iter().position(|one| (&one.source, &one.property) == (&report.source, &report.property));
        let next = StoredReport::next(position.map(|position| &stored[position]), report, now)?;
        let Some(next) = next else { return Ok(false) };
        if let Some(position) = position {
            stored.remove(position);
        }
        stored.push(next);
        let events = stored.iter().map(HealthEvent::of).collect();
        self.model.apply(&Event::HealthRecorded { entity: entity.clone(), events }, now);
        Ok(true)
    }

    fn evaluate(&self, entity: &Entity, rules: EvaluationRules, now: Timestamp) -> Evaluation {
        self.model.evaluate_health(entity, rules, &ListedChildren { kind: None, range: 0..100 }, now)
    }

    fn state(&self, entity: &Entity, now: Timestamp) -> HealthState {
        let found = self.evaluate(entity, EvaluationRules::default(), now);
        assert_eq!(found.state, self.model.health_of(entity, now), "{entity}");
        found.state
    }
}

fn policy() -> PolicyId {
    PolicyId::from_text("o/p")
}

fn unit() -> Entity {
    Entity::WorkloadUnit(UnitId::all(policy()))
}

fn instance(node: &str) -> Entity {
    Entity::Instance(policy(), NodeId::new("o", node))
}

fn org() -> Entity {
    Entity::Org("o".parse().expect("an organization"))
}

#[test]
fn refused_reports_name_the_member_and_the_rule() {
    let with = |name: &str, value: Value| {
        let mut body = body("s", "Ok");
        body[name] = value;
        HealthReport::read(body).map(|_| ()).map_err(|error| error.to_string())
    };
    for (name, value, expected) in [
        ("sourceId", Value::Null, "sourceId is required"),
        ("sourceId", json!(""), "sourceId must hold 1 to 256 characters"),
        ("sourceId", json!("x".repeat(257)), "sourceId must hold 1 to 256 characters"),
        ("property", json!(1), "property must be a text"),
        ("property", json!("a\0"), "property must not hold a NUL character"),
        ("healthState", json!("ok"), "healthState must be Ok, Warning or Error"),
        ("healthState", Value::Null, "healthState is required"),
        ("ttlSeconds", json!(0), "ttlSeconds must be an integer from 1 to 315360000"),
        ("ttlSeconds", json!(1.5), "ttlSeconds must be an integer from 1 to 315360000"),
        ("removeWhenExpired", json!("yes"), "removeWhenExpired must be true or false"),
        ("description", json!("x".repeat(4097)), "description must hold 0 to 4096 characters"),
        ("sentAt", json!("today"), "sentAt must be an instant such as 2026-03-01T08:15:30.123Z"),
        ("healthstate", json!("Ok"), "healthstate is not known; healthState was probably meant"),
    ] {
        assert_eq!(with(name, value.clone()).unwrap_err(), expected, "{name} {value}");
    }
    for bad in
        [json!(0), json!(-1), json!(1.5), json!("0"), json!(""), json!("1x"), json!("9223372036854775808")]
    {
        let refused = with("sequenceNumber", bad.clone()).unwrap_err();
        assert!(
            refused.starts_with("sequenceNumber must be an integer from 1 to 9223372036854775807"),
            "{bad}"
        );
    }
    // Characters count, not bytes.
    assert_eq!(with("sourceId", json!("ü".repeat(256))), Ok(()));
    for good in [json!(1), json!("7"), json!("9223372036854775807"), json!(i64::MAX)] {
        assert_eq!(with("sequenceNumber", good), Ok(()));
    }
    assert_eq!(HealthReport::read(json!([])).unwrap_err().to_string(), "the body must be an object");
}

/// D1-S1.
#[test]
fn warning_and_ok_of_two_sources_are_a_warning_with_one_reason() {
    let mut world = World::new();
    world.report(&unit(), body("A", "Warning"), at(100)).unwrap();
    world.report(&unit(), body("B", "Ok"), at(100)).unwrap();
    let found = world.evaluate(&unit(), EvaluationRules::default(), at(101));
    assert_eq!(found.state, HealthState::Warning);
    let (source, property) = ("A".to_owned(), "p".to_owned());
    assert_eq!(found.reasons, [Reason::Event { source, property, state: HealthState::Warning }]);
    let strict = EvaluationRules { considers_warning_as_error: true, ..EvaluationRules::default() };
    assert_eq!(world.evaluate(&unit(), strict, at(101)).state, HealthState::Error);
}

/// D1-S2.
#[test]
fn expired_report_disappears_or_is_an_error() {
    for (is_removed, expected) in [(true, HealthState::Ok), (false, HealthState::Error)] {
        let mut world = World::new();
        let mut value = body("A", "Warning");
        value["ttlSeconds"] = json!(5);
        value["removeWhenExpired"] = json!(is_removed);
        world.report(&unit(), value, at(100)).unwrap();
        assert_eq!(world.state(&unit(), at(104)), HealthState::Warning);
        assert_eq!(world.state(&unit(), at(105)), expected);
        let stored = &world.stored[&unit()][0];
        assert_eq!((stored.is_expired(at(104)), stored.is_expired(at(105))), (false, true));
        assert_eq!(stored.is_gone(at(105)), is_removed);
    }
}

/// D1-S3.
#[test]
fn older_number_is_stale_and_changes_nothing() {
    let mut world = World::new();
    let numbered = |number: Value, state: &str| {
        let mut value = body("A", state);
        value["sequenceNumber"] = number;
        value
    };
    assert_eq!(world.report(&unit(), numbered(json!(10), "Warning"), at(100)), Ok(true));
    assert_eq!(world.report(&unit(), numbered(json!("9"), "Ok"), at(101)), Err(Stale { known: 10 }));
    assert_eq!(world.report(&unit(), numbered(json!(10), "Ok"), at(101)), Err(Stale { known: 10 }));
    assert_eq!(world.state(&unit(), at(101)), HealthState::Warning);
    assert_eq!(world.report(&unit(), numbered(json!("10"), "Warning"), at(102)), Ok(false), "repeated");
    assert_eq!(world.stored[&unit()][0].received_at, at(100));
    assert_eq!(world.report(&unit(), body("A", "Ok"), at(103)), Ok(true), "without a number");
    assert_eq!(world.stored[&unit()][0].sequence, 11);
    assert_eq!(world.state(&unit(), at(103)), HealthState::Ok);
    // Another source, or another property, has numbers of its own.
    assert_eq!(world.report(&unit(), body("B", "Ok"), at(103)), Ok(true));
    assert_eq!(world.stored[&unit()][1].sequence, 1);
}

#[test]
fn number_after_the_greatest_one_is_refused() {
    let mut world = World::new();
    let mut value = body("A", "Ok");
    value["sequenceNumber"] = json!(i64::MAX);
    assert_eq!(world.report(&unit(), value, at(100)), Ok(true));
    assert_eq!(world.report(&unit(), body("A", "Error"), at(101)), Err(Stale { known: i64::MAX }));
}

/// D1-S5.
#[test]
fn one_of_three_instances_in_error_is_tolerated_by_forty_percent() {
    let mut world = World::new();
    world.report(&instance("b"), body("dog", "Error"), at(100)).unwrap();
    let found = world.evaluate(&unit(), EvaluationRules::default(), at(101));
    assert_eq!(found.state, HealthState::Error);
    let unhealthy = vec![instance("b")];
    let kind = EntityKind::Instance;
    assert_eq!(found.reasons, [Reason::Children { kind, unhealthy, total: 3, max_percent: 0 }]);
    let states: Vec<_> = found.children.iter().map(|(one, state)| (one.to_string(), *state)).collect();
    let state = |id: &str, state| (id.to_owned(), state);
    assert_eq!(
        states,
        [
            state("o/p@b", HealthState::Error),
            state("o/p@a", HealthState::Ok),
            state("o/p@c", HealthState::Ok)
        ]
    );
    let tolerant = EvaluationRules { max_percent_instances: 40, ..EvaluationRules::default() };
    assert_eq!(world.evaluate(&unit(), tolerant, at(101)).state, HealthState::Warning);
    assert_eq!(world.evaluate(&org(), tolerant, at(101)).state, HealthState::Warning);
    assert_eq!(world.state(&org(), at(101)), HealthState::Error);
    // Rounding up lets a small percentage tolerate one error, and no more.
    let small = EvaluationRules { max_percent_instances: 1, ..EvaluationRules::default() };
    assert_eq!(world.evaluate(&unit(), small, at(101)).state, HealthState::Warning);
    world.report(&instance("c"), body("dog", "Error"), at(102)).unwrap();
    assert_eq!(world.evaluate(&unit(), small, at(102)).state, HealthState::Error);
    assert_eq!(world.evaluate(&unit(), tolerant, at(102)).state, HealthState::Warning);
}

/// D1-S6.
#[test]
fn unit_warns_while_all_instances_are_ok() {
    let mut world = World::new();
    world.report(&unit(), body("System.Placement", "Ok"), at(90)).unwrap();
    world.report(&unit(), body("System.Placement", "Warning"), at(100)).unwrap();
    world.report(&unit(), body("System.Placement", "Warning"), at(120)).unwrap();
    for node in ["a", "b", "c"] {
        world.report(&instance(node), body("dog", "Ok"), at(100)).unwrap();
    }
    let found = world.evaluate(&unit(), EvaluationRules::default(), at(121));
    assert_eq!((found.state, found.reasons.len(), found.child_count), (HealthState::Warning, 1, 3));
    assert!(found.children.iter().all(|(_, state)| *state == HealthState::Ok));
    let stored = &world.stored[&unit()][0];
    assert_eq!(stored.last_error_at, None);
    assert_eq!((stored.last_ok_at, stored.last_warning_at), (Some(at(90)), Some(at(100))));
}

#[test]
fn pages_of_children_are_one_list_and_a_kind_is_chosen() {
    let mut world = World::new();
    world.report(&Entity::Node(NodeId::new("o", "b")), body("s", "Warning"), at(100)).unwrap();
    world.report(&Entity::Workload(policy()), body("s", "Error"), at(100)).unwrap();
    let page = |kind, range| {
        let listed = ListedChildren { kind, range };
        world.model.evaluate_health(&org(), EvaluationRules::default(), &listed, at(100))
    };
    let whole = page(None, 0..100);
    let names: Vec<String> = whole.children.iter().map(|(entity, _)| entity.to_string()).collect();
    assert_eq!(names, ["o/p", "o/b", "o/a", "o/c", "o/g"], "the worst first");
    for size in 1..6 {
        let starts = (0..whole.child_count).step_by(size);
        let pages = starts.map(|start| page(None, start..start + size));
        let joined: Vec<_> = pages.flat_map(|found| found.children).collect();
        assert_eq!(joined, whole.children, "{size}");
    }
    assert!(page(None, 5..9).children.is_empty());
    let nodes = page(Some(EntityKind::Node), 1..3);
    let names: Vec<String> = nodes.children.iter().map(|(entity, _)| entity.to_string()).collect();
    assert_eq!((names, nodes.child_count), (vec!["o/a".to_owned(), "o/c".to_owned()], 3));
    assert_eq!(nodes.state, HealthState::Error, "the state depends on all");
}

#[test]
fn events_add_up_to_the_organization() {
    let mut world = World::new();
    assert_eq!(world.state(&org(), at(100)), HealthState::Ok);
    let node = Entity::Node(NodeId::new("o", "a"));
    world.report(&node, body("s", "Warning"), at(100)).unwrap();
    assert_eq!(world.state(&org(), at(100)), HealthState::Warning);
    let group = Entity::Group(evenkeel_ids::GroupId::from_text("o/g"));
    world.report(&group, body("s", "Error"), at(100)).unwrap();
    assert_eq!(world.state(&org(), at(100)), HealthState::Error);
    world.report(&group, body("s", "Ok"), at(101)).unwrap();
    world.report(&Entity::Workload(policy()), body("s", "Error"), at(101)).unwrap();
    let lenient = EvaluationRules { max_percent_workloads: 100, ..EvaluationRules::default() };
    assert_eq!(world.evaluate(&org(), lenient, at(101)).state, HealthState::Warning);
    assert_eq!(world.state(&org(), at(101)), HealthState::Error);
    // An entity that no longer exists does not count.
    world.model.apply(&Event::DeploymentPolicyRemoved { policy: policy() }, at(102));
    assert_eq!(world.state(&org(), at(102)), HealthState::Warning);
}

#[test]
fn reports_of_a_partition_hold_as_long_as_somebody_owns_it() {
    let mut world = World::new();
    let kept = StoredReport::next(None, report(body("System.Placement", "Warning")), at(100)).unwrap();
    let kept = StoredReport { partition: Some(3), is_removed_when_expired: true, ..kept.expect("new") };
    let events = vec![HealthEvent::of(&kept)];
    world.model.apply(&Event::HealthRecorded { entity: unit(), events }, at(100));
    assert_eq!(world.state(&unit(), at(101)), HealthState::Ok, "no owner was seen");
    let confirm = |seconds| Event::PartitionsConfirmed { at: [(3, at(seconds))].into() };
    world.model.apply(&confirm(1000), at(1000));
    assert_eq!(world.state(&unit(), at(1064)), HealthState::Warning);
    assert_eq!(world.state(&unit(), at(1065)), HealthState::Ok);
}

/// The state by the words of D1, entity after entity.
fn naive_state(world: &World, entity: &Entity, rules: EvaluationRules, now: Timestamp) -> HealthState {
    let own = world.stored.get(entity).into_iter().flatten().filter(|one| !one.is_gone(now)).map(|one| {
        let state = if one.is_expired(now) { HealthState::Error } else { one.state };
        if rules.considers_warning_as_error && state == HealthState::Warning {
            HealthState::Error
        } else {
            state
        }
    });
    let mut worst = own.max().unwrap_or(HealthState::Ok);
    let kinds = [
        (EntityKind::Node, rules.max_percent_nodes),
        (EntityKind::Group, 0),
        (EntityKind::Workload, rules.max_percent_workloads),
        (EntityKind::WorkloadUnit, rules.max_percent_units),
        (EntityKind::Instance, rules.max_percent_instances),
    ];
    for (kind, percent) in kinds {
        let children: Vec<Entity> = world.model.health_children(entity, kind).collect();
        let states: Vec<HealthState> =
            children.iter().map(|child| naive_state(world, child, rules, now)).collect();
        let errors = states.iter().filter(|state| **state == HealthState::Error).count();
        let tolerated = (f64::from(percent) * states.len() as f64 / 100.0).ceil() as usize;
        let held = match states.iter().max() {
            Some(HealthState::Error) if errors > tolerated => HealthState::Error,
            Some(HealthState::Error | HealthState::Warning) => HealthState::Warning,
            _ => HealthState::Ok,
        };
        worst = worst.max(held);
    }
    worst
}

proptest::proptest! {
    #[test]
    fn evaluation_equals_the_naive_one(
        reports in proptest::collection::vec((0_usize..8, 0_u8..2, 0_usize..3, 0_u64..4, proptest::bool::ANY), 0..24),
        percents in proptest::array::uniform4(0_u8..=100),
        considers_warning_as_error in proptest::bool::ANY,
        age in 0_i64..5,
    ) {
        let mut world = World::new();
        let entities = [
            org(), Entity::Node(NodeId::new("o", "a")), Entity::Group(evenkeel_ids::GroupId::from_text("o/g")),
            Entity::Workload(policy()), unit(), instance("a"), instance("b"), instance("c"),
        ];
        for (entity, source, state, ttl, is_removed) in reports {
            let mut value = body(&source.to_string(), ["Ok", "Warning", "Error"][state]);
            if ttl > 0 {
                value["ttlSeconds"] = json!(ttl);
            }
            value["removeWhenExpired"] = json!(is_removed);
            world.report(&entities[entity], value, at(100)).unwrap();
        }
        let [max_percent_nodes, max_percent_workloads, max_percent_units, max_percent_instances] = percents;
        let rules = EvaluationRules {
            considers_warning_as_error, max_percent_nodes, max_percent_workloads, max_percent_units, max_percent_instances,
        };
        for entity in &entities {
            let found = world.evaluate(entity, rules, at(100 + age));
            proptest::prop_assert_eq!(found.state, naive_state(&world, entity, rules, at(100 + age)), "{}", entity);
        }
    }
}
