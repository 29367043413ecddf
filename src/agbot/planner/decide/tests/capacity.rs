//! Workloads that share what nodes have: D7, D3.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_explain::explain::explain_part;
use evenkeel_health as health_checks;
use evenkeel_planner_model::{event::Event, model::CapacitySums};
use evenkeel_planner_record::{
    health::{Entity, HealthState},
    report::Constraint,
};
use evenkeel_status::status::Question;
use serde_json::{Value, json};

use super::fleet::{Fleet, node};

fn replicated(replicas: u32, memory: u32) -> Value {
    json!({"mode": "replicated", "replicas": replicas, "maxPerNode": 5, "loads": {"memoryMb": memory}})
}

/// A fleet whose nodes have so much memory.
fn fleet(names: &[&str], memory: f64) -> Fleet {
    let mut fleet = Fleet::new(names);
    names.iter().for_each(|name| set_memory(&mut fleet, name, memory));
    fleet
}

fn set_memory(fleet: &mut Fleet, name: &str, memory: f64) {
    fleet.put_node(name, |facts| {
        facts.capacities.insert("memoryMb".into(), memory);
    });
}

fn running_count(fleet: &Fleet, policy: &str) -> usize {
    let of_policy = fleet.tasks().into_iter().filter(|task| task.unit_id.policy.name() == policy);
    of_policy.filter(|task| task.is_wanted() && task.is_running()).count()
}

/// Returns the memory that tasks use on a node.
fn used(fleet: &Fleet, name: &str, loads: &[(&str, u32)]) -> u32 {
    let there = fleet.tasks().into_iter().filter(|task| !task.state.is_ended());
    let there = there.filter(|task| task.node == Some(node(name)));
    let load = |policy: &str| loads.iter().find(|(name, _)| *name == policy).map_or(0, |(_, load)| *load);
    there.map(|task| load(task.unit_id.policy.name())).sum()
}

fn reasons(fleet: &Fleet, policy: &str) -> Vec<String> {
    let question = Question { part: &Fleet::unit_id(policy), node: None, is_complete: false, now: fleet.now };
    let explained = explain_part(&fleet.model, question).expect("the workload unit exists");
    let of_capacity =
        explained.sequence.into_iter().filter(|stage| stage.constraint == Constraint::NodeCapacity);
    of_capacity.flat_map(|stage| stage.eliminated).map(|one| format!("{} {}", one.node, one.reason)).collect()
}

#[test]
fn instances_beyond_the_capacity_stay_unplaced_with_the_sum() {
    let mut fleet = fleet(&["n1"], 800.0);
    fleet.put_policy("w", replicated(3, 400));
    fleet.run(10);
    assert_eq!(running_count(&fleet, "w"), 2, "{:#?}", fleet.tasks());
    assert_eq!(reasons(&fleet, "w"), ["o/n1 memoryMb 800+400 > 800"]);
    assert!(fleet.has_event("placement.unplaced"));
    set_memory(&mut fleet, "n1", 1_200.0);
    fleet.run(10);
    assert_eq!(running_count(&fleet, "w"), 3, "the third one takes the room at once");
}

#[test]
fn workloads_share_the_capacity_of_a_node() {
    let mut fleet = fleet(&["n1", "n2"], 512.0);
    fleet.put_policy("a", replicated(2, 300));
    fleet.run(10);
    fleet.put_policy("b", replicated(1, 256));
    fleet.run(10);
    assert_eq!((fleet.running("a").as_str(), running_count(&fleet, "b")), ("n1 n2", 0));
    assert_eq!(reasons(&fleet, "b"), ["o/n1 memoryMb 300+256 > 512", "o/n2 memoryMb 300+256 > 512"]);
    fleet.remove_policy("a");
    let loads = [("a", 300), ("b", 256)];
    fleet.run_until(60, |fleet| {
        assert!(["n1", "n2"].iter().all(|name| used(fleet, name, &loads) <= 512), "{:#?}", fleet.tasks());
        running_count(fleet, "b") == 1
    });
}

#[test]
fn new_version_takes_over_the_room_of_the_one_that_stops() {
    let mut fleet = fleet(&["n1", "n2"], 500.0);
    fleet.put_policy("w", replicated(2, 400));
    fleet.run(10);
    fleet.put_version("w", "2.0.0", replicated(2, 400));
    let is_updated = |fleet: &Fleet| {
        let tasks = fleet.tasks();
        let new = tasks.iter().filter(|task| task.is_wanted() && task.is_running() && task.spec.number == 2);
        new.count() == 2
    };
    fleet.run_until(120, is_updated);
    assert_eq!(fleet.running("w"), "n1 n2");
}

/// D7-S5.
#[test]
fn instance_moves_off_a_node_with_too_little_left() {
    let mut fleet = fleet(&["n1"], 1_000.0);
    fleet.put_policy("w", replicated(2, 400));
    fleet.run(10);
    assert_eq!((fleet.running("w").as_str(), running_count(&fleet, "w")), ("n1", 2));
    fleet.put_node("n2", |facts| {
        facts.capacities.insert("memoryMb".into(), 500.0);
    });
    let facts = evenkeel_planner_record::facts::NodePolicyFacts {
        policy: evenkeel_domain::policy::ExternalPolicy::default(),
        ..evenkeel_planner_record::facts::NodePolicyFacts::default()
    };
    let joined = evenkeel_planner_model::event::Event::NodePolicyChanged {
        node: node("n2"),
        policy: Some(Box::new(facts)),
    };
    fleet.handle(&joined);
    fleet.run(5);
    set_memory(&mut fleet, "n1", 500.0);
    fleet.run_until(60, |fleet| fleet.running("w") == "n1 n2" && used(fleet, "n1", &[("w", 400)]) == 400);
    fleet.run(30);
    assert_eq!(
        (fleet.running("w").as_str(), running_count(&fleet, "w")),
        ("n1 n2", 2),
        "nothing moves again"
    );
}

/// D2-S2: what is too much is reported until it has moved, and stays reported where no other node has room.
#[test]
fn load_above_the_capacity_moves_or_stays_reported() {
    let property = "InstanceConstraintViolation_NodeCapacity";
    let unit = Entity::WorkloadUnit(Fleet::unit_id("w"));
    let heavy = |memory: u32| {
        let mut document = replicated(1, memory);
        document["placement"] = json!({"policy": "nodes-order", "onViolation": "move"});
        document
    };
    let mut fleet = fleet(&["n1", "n2"], 500.0);
    fleet.put_policy("w", heavy(400));
    fleet.run(10);
    assert_eq!(fleet.running("w"), "n1");
    set_memory(&mut fleet, "n2", 1_000.0);
    fleet.put_policy("w", heavy(600));
    fleet.run_until(60, |fleet| fleet.running("w") == "n2");
    fleet.run(5);
    let is_warned = |fleet: &Fleet| {
        fleet.reported(&unit, property).is_some_and(|report| report.state == HealthState::Warning)
    };
    assert!(!is_warned(&fleet));
    fleet.put_policy("w", heavy(2_000));
    fleet.run_until(60, is_warned);
    fleet.run(120);
    assert_eq!(fleet.running("w"), "n2", "it stays without a better place");
    assert!(is_warned(&fleet));
    let report = fleet.reported(&unit, property).expect("it stays reported");
    assert!(report.description.contains("memoryMb 2000 > 1000"), "{}", report.description);
}

/// P-S1 without a buffer: a node that cannot hold both lets the old instance stop first.
#[test]
fn start_first_degrades_to_stop_first_when_no_node_has_room_for_both() {
    let document = || {
        let mut document = replicated(1, 400);
        document["update"] = json!({"order": "start-first"});
        document
    };
    let mut fleet = fleet(&["n1"], 500.0);
    fleet.put_policy("w", document());
    fleet.run(10);
    fleet.put_version("w", "2.0.0", document());
    fleet.run_until(120, |fleet| {
        assert!(used(fleet, "n1", &[("w", 400)]) <= 800);
        fleet.tasks().iter().any(|task| task.is_wanted() && task.is_running() && task.spec.number == 2)
    });
    assert!(fleet.has_event("update.order-degraded"));
}

/// B1-S3.
#[test]
fn task_of_a_node_without_room_waits_and_is_assigned_when_there_is_room() {
    let document = json!({"mode": "global", "loads": {"memoryMb": 512}});
    let mut fleet = fleet(&["n1", "n2"], 1_000.0);
    set_memory(&mut fleet, "n2", 256.0);
    fleet.put_policy("w", document);
    fleet.run(20);
    assert_eq!(fleet.running("w"), "n1");
    let slot = evenkeel_planner_record::workload::Slot::Node(node("n2"));
    let waiting = |fleet: &Fleet| {
        let tasks = fleet.tasks();
        let of_slot: Vec<_> = tasks.iter().filter(|task| task.slot == slot).collect();
        assert_eq!(of_slot.len(), 1, "{of_slot:#?}");
        (of_slot[0].id.clone(), of_slot[0].state.name(), of_slot[0].node.clone())
    };
    let (id, state, assigned) = waiting(&fleet);
    assert_eq!((state, assigned), ("pending", None));
    assert_eq!(reasons(&fleet, "w"), ["o/n2 memoryMb 0+512 > 256"]);
    set_memory(&mut fleet, "n2", 512.0);
    fleet.run_until(20, |fleet| fleet.running("w") == "n1 n2");
    assert_eq!((waiting(&fleet).0, waiting(&fleet).2), (id, Some(node("n2"))));
}

/// B1: a task that waits for room disappears with the demand for it.
#[test]
fn task_that_waits_for_room_is_removed_with_its_node_or_policy() {
    let document = |expression: &str| json!({"mode": "global", "loads": {"memoryMb": 512}, "placement": {"expression": expression}});
    let mut fleet = fleet(&["n1", "n2"], 1_000.0);
    set_memory(&mut fleet, "n2", 256.0);
    fleet.put_policy("w", document(""));
    fleet.run(20);
    fleet.put_policy("w", document("{nodename} == n1"));
    fleet.run(20);
    assert_eq!(fleet.tasks().len(), 1);
    fleet.put_policy("w", document(""));
    fleet.run(20);
    assert_eq!(fleet.tasks().len(), 2);
    fleet.handle(&evenkeel_planner_model::event::Event::NodeRemoved { node: node("n2") });
    fleet.run(20);
    assert_eq!(fleet.tasks().len(), 1);
    fleet.put_policy("w", document(""));
    fleet.remove_policy("w");
    fleet.run_until(60, |fleet| fleet.tasks().is_empty());
}

/// D11-S2: start-first where required distribution leaves no domain.
#[test]
fn update_without_a_free_domain_waits_and_names_it() {
    let mut fleet = fleet(&["n1", "n2"], 500.0);
    for name in ["n1", "n2"] {
        fleet.put_node(name, |facts| facts.fault_domain = Some("fd:/a".into()));
    }
    let document = |order: &str| {
        json!({"mode": "replicated", "replicas": 1, "loads": {"memoryMb": 400},
               "placement": {"policy": "nodes-order", "domains": {"requireDomainDistribution": true}},
               "update": {"order": order, "monitorSeconds": 1}})
    };
    fleet.put_policy("w", document("start-first"));
    fleet.run(10);
    fleet.put_version("w", "2.0.0", document("start-first"));
    fleet.run(60);
    let blocked = fleet.status("w").update.blocked.expect("the update is blocked");
    let (_, why) = &blocked.slots[0];
    assert_eq!(why.upgrade_rule(), "NoCandidate");
    assert!(why.to_string().contains("FaultDomain 1"), "{why}");
    assert!(fleet.has_event("update.blocked"));
    // Checks the hint.
    fleet.put_version("w", "2.0.0", document("stop-first"));
    fleet.run_until(60, |fleet| {
        fleet.tasks().iter().any(|task| task.is_wanted() && task.is_running() && task.spec.number == 2)
    });
}

/// D2: a node whose tasks use more than is usable, and one in maintenance.
#[test]
fn overload_and_absence_of_a_node_are_reported_about_it() {
    let mut fleet = fleet(&["n1"], 1_000.0);
    fleet.put_policy("w", replicated(2, 400));
    fleet.run(10);
    let reports = |fleet: &Fleet| {
        let (conditions, _) = fleet.model.node_conditions(None, 10, fleet.now);
        let found = health_checks::node_reports(&fleet.model, &conditions[0])
            .map(|(_, reports)| reports)
            .unwrap_or_default();
        found
            .into_iter()
            .map(|report| (report.property, report.state, report.description))
            .collect::<Vec<_>>()
    };
    assert_eq!(reports(&fleet), []);
    set_memory(&mut fleet, "n1", 500.0);
    fleet.run(5);
    let text = "node o/n1 has too little memoryMb: 800 > 500".to_owned();
    assert_eq!(reports(&fleet), [("NodeCapacity_memoryMb".to_owned(), HealthState::Warning, text)]);
    set_memory(&mut fleet, "n1", 1_000.0);
    fleet.announce("n1", evenkeel_planner_record::facts::NodeMonitorState::Maintenance);
    let found = reports(&fleet);
    assert_eq!((found[0].0.as_str(), found[0].1, found.len()), ("Heartbeat", HealthState::Warning, 1));
}

/// D2: the nodes of an organization together, those that are down left out.
#[test]
fn organization_without_buffer_left_is_reported() {
    let mut fleet = fleet(&["n1", "n2", "n3"], 1_000.0);
    fleet.put_policy("w", replicated(2, 900));
    fleet.run(10);
    let org: evenkeel_ids::OrgId = "o".parse().expect("an organization");
    let settings = OrgSettings::read(json!({"nodeBufferPercentage": {"memoryMb": 0.3}}));
    let settings = Box::new(settings.expect("the settings are valid"));
    fleet.handle(&Event::OrgSettingsChanged { org: org.clone(), settings });
    let reports = |fleet: &Fleet| {
        let (mut sums, mut after, mut pages) = (CapacitySums::default(), None, 0);
        loop {
            after = fleet.model.add_capacities(after.as_ref(), 2, fleet.now, &mut sums);
            pages += 1;
            if after.is_none() {
                break;
            }
        }
        assert!(pages > 2, "all nodes are visited");
        let found = health_checks::org_reports(&fleet.model, &org, &sums)
            .map(|(_, reports)| reports)
            .unwrap_or_default();
        found.into_iter().map(|report| (report.property, report.description)).collect::<Vec<_>>()
    };
    assert_eq!(reports(&fleet), [], "1800 of 2100 are used");
    set_memory(&mut fleet, "n3", 500.0);
    let text = "the nodes of o have too little memoryMb: 1800 > 1750 without the buffer".to_owned();
    assert_eq!(reports(&fleet), [("OrgCapacity_memoryMb".to_owned(), text)]);
    set_memory(&mut fleet, "n3", 1_000.0);
    assert_eq!(reports(&fleet), []);
    fleet.silent.insert(node("n3"));
    fleet.run(240);
    assert_eq!(reports(&fleet).len(), 1, "a node that is down has no capacity left");
}

/// D3-S1: what the specification shows, constraint by constraint.
#[test]
fn sequence_shows_which_constraint_removed_which_node_and_why() {
    let names = ["n1", "n2", "n3", "n4"];
    let mut fleet = fleet(&names, 512.0);
    for (name, env) in [("n1", "LAB"), ("n2", "LAB"), ("n3", "PRD"), ("n4", "LAB")] {
        let policy = serde_json::from_value(json!({"properties": [{"name": "env", "value": env}]}));
        let facts = evenkeel_planner_record::facts::NodePolicyFacts {
            policy: policy.expect("a policy"),
            ..evenkeel_planner_record::facts::NodePolicyFacts::default()
        };
        let changed = evenkeel_planner_model::event::Event::NodePolicyChanged {
            node: node(name),
            policy: Some(Box::new(facts)),
        };
        fleet.handle(&changed);
    }
    let mut other = replicated(1, 300);
    other["placement"] = json!({"expression": "{nodename} == n2"});
    fleet.put_policy("other", other);
    fleet.run(10);
    fleet.silent.insert(node("n4"));
    fleet.run(240);
    let mut document = json!({"mode": "replicated", "replicas": 3, "loads": {"memoryMb": 256}});
    document["placement"] =
        json!({"expression": "{node.env} == LAB", "domains": {"preferredDomain": "fd:/east"}});
    fleet.put_policy("w", document);
    fleet.run(10);
    let unit_id = Fleet::unit_id("w");
    let question = Question { part: &unit_id, node: None, is_complete: false, now: fleet.now };
    let found = explain_part(&fleet.model, question).expect("the workload unit exists");
    let list =
        |nodes: &[evenkeel_ids::NodeId]| nodes.iter().map(|node| node.name().to_owned()).collect::<Vec<_>>();
    let sequence: Vec<_> = found
        .sequence
        .iter()
        .map(|stage| {
            let removed: Vec<_> = stage.eliminated.iter().map(|one| one.node.name().to_owned()).collect();
            (
                stage.constraint.name(),
                removed.join(" "),
                stage.eliminated[0].reason.clone(),
                list(&stage.remaining).join(" "),
            )
        })
        .collect();
    assert_eq!((found.requested, found.placed, found.spec_version), (3, 1, Some(1)));
    assert_eq!(list(&found.candidates), names);
    assert_eq!(sequence[0].0, "NodeState");
    assert!(sequence[0].2.contains("down"), "{}", sequence[0].2);
    assert_eq!((sequence[0].1.as_str(), sequence[0].3.as_str()), ("n4", "n1 n2 n3"));
    assert_eq!(
        (sequence[1].0, sequence[1].1.as_str(), sequence[1].3.as_str()),
        ("PlacementConstraint", "n3", "n1 n2")
    );
    assert!(sequence[1].2.contains("{node.env}=PRD") && sequence[1].2.contains("false"), "{}", sequence[1].2);
    let capacity = ("NodeCapacity", "n2".to_owned(), "memoryMb 300+256 > 512".to_owned(), "n1".to_owned());
    // The node that has its instance takes no second one: its being full is part of the result, unlike in the
    // example.
    let full = (
        "ReplicaExclusionDynamic",
        "n1".to_owned(),
        "chosen for other instances of this decision".to_owned(),
        String::new(),
    );
    assert_eq!(sequence[2..], [capacity, full]);
    assert_eq!(list(&found.chosen), ["n1"]);
    assert_eq!(found.relaxed, [Constraint::PreferredLocation]);
    assert_eq!(found.cause, Some(evenkeel_planner_record::report::UnplacedCause::Transient));
    let summary = "1 of 3 placed: NodeState removed 1, PlacementConstraint 1, NodeCapacity 1, maxPerNode 1";
    assert_eq!(found.summary, summary);
}

/// D7, B8: an instance without room is stopped once and waits.
#[test]
fn global_instance_on_a_node_whose_capacity_is_lowered_stops_once_and_waits_for_room() {
    let mut fleet = Fleet::new(&["n1"]);
    fleet.stop_secs = 2;
    fleet.put_node("n1", |facts| facts.capacities = BTreeMap::from([("memoryMb".to_owned(), 1000.0)]));
    fleet.put_policy("w", json!({"mode": "global", "loads": {"memoryMb": 600}}));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
    fleet.put_node("n1", |facts| facts.capacities = BTreeMap::from([("memoryMb".to_owned(), 500.0)]));
    fleet.run(20);
    assert_eq!(fleet.running("w"), "");
    assert!(fleet.tasks().len() <= 2, "{:#?}", fleet.tasks());
    let waiting = fleet.tasks().into_iter().find(|task| task.is_live()).expect("one waits");
    assert_eq!(waiting.node, None);
    let created = waiting.id.clone();
    fleet.run(20);
    assert!(fleet.tasks().into_iter().any(|task| task.id == created), "it is the same one");
    fleet.put_node("n1", |facts| facts.capacities = BTreeMap::from([("memoryMb".to_owned(), 1000.0)]));
    fleet.run_until(40, |fleet| fleet.running("w") == "n1");
}

/// While an update is unfinished, what fails is replaced in its own version, and needs what that one uses.
#[test]
fn replacement_in_an_older_version_needs_what_that_version_uses() {
    let document = |memory: u32| {
        json!({"mode": "replicated", "replicas": 2, "loads": {"memoryMb": memory},
               "placement": {"policy": "nodes-order"}, "update": {"monitorSeconds": 600}})
    };
    let lose_one_of_two = |memory: [u32; 2], third: f64| {
        let mut fleet = fleet(&["n1", "n2", "n3"], 500.0);
        set_memory(&mut fleet, "n3", third);
        fleet.put_policy("w", document(memory[0]));
        fleet.run(10);
        assert_eq!(fleet.running("w"), "n1 n2");
        fleet.put_version("w", "2.0.0", document(memory[1]));
        fleet.run(60);
        let is_old =
            |task: &&&evenkeel_planner_record::workload::Task| task.is_wanted() && task.spec.number == 1;
        let old = fleet.tasks().iter().find(is_old).and_then(|task| task.node.clone());
        fleet.handle(&Event::NodeRemoved { node: old.expect("one is not updated yet") });
        fleet.run(60);
        fleet
    };
    let on_third = |fleet: &Fleet| {
        let tasks = fleet.tasks();
        let there = tasks.iter().filter(|task| task.is_live() && task.node == Some(node("n3")));
        there.map(|task| task.spec.number).collect::<Vec<_>>()
    };
    let mut fleet = lose_one_of_two([100, 50], 80.0);
    assert_eq!(on_third(&fleet), [0_u64; 0], "too little for the version before: {:#?}", fleet.tasks());
    let unit = fleet.model.workload_unit(&Fleet::unit_id("w")).expect("the workload unit exists");
    let shown = format!("{:?}", unit.unplaced);
    assert!(shown.contains("memoryMb 0+100 > 80"), "what that version uses: {shown}");
    set_memory(&mut fleet, "n3", 100.0);
    fleet.run_until(60, |fleet| on_third(fleet) == [1]);
    let fleet = lose_one_of_two([50, 100], 80.0);
    assert_eq!(
        on_third(&fleet),
        [1],
        "enough for the version before: {:?}",
        fleet.model.workload_unit(&Fleet::unit_id("w")).map(|unit| (&unit.blocked, &unit.unplaced))
    );
}
