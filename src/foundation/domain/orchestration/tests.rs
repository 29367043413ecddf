//! Every rule on `orchestration` of a deployment policy, and its defaults.

use std::collections::BTreeMap;

use evenkeel_ids::{GroupId, NodeId, PolicyId, ServiceKey};
use serde_json::{Value, json};

use super::relations::{Relation, find_cycle};
use super::supported::supported_orchestration;
use super::*;

fn policy() -> PolicyId {
    PolicyId::new("o", "cam")
}

fn read(document: Value) -> Orchestration {
    Orchestration::of_policy(&policy(), document.clone())
        .unwrap_or_else(|error| panic!("{document}: {error}"))
}

fn refusal(document: &Value) -> String {
    match Orchestration::of_policy(&policy(), document.clone()) {
        Ok(read) => panic!("{document} is read as {read:?}"),
        Err(error) => error.to_string(),
    }
}

/// Expects that each document is refused with the message, which begins with the path.
fn expect_refusals(rows: &[(Value, &str)]) {
    for (document, expected) in rows {
        assert_eq!(refusal(document), format!("orchestration{expected}"), "{document}");
    }
}

#[test]
fn whole_document_is_read() {
    let read = read(json!({
        "version": 1, "mode": "flex", "orchestrate": "ha",
        "scope": {"type": "hagroups", "haGroups": ["g1", "x/g2"]},
        "replicas": null,
        "flex": {"min": 1, "max": 3, "target": 2},
        "maxPerNode": 1,
        "placement": {
            "policy": "nodes-order", "nodesOrder": ["n1", "n2"], "shift": null,
            "expression": "\"{node.tier}\" in (LAB, QA)",
            "affinity": {"hard": ["db"], "hardAnti": [], "soft": [], "softAnti": ["svc:o/u/r/l"]},
            "onViolation": "move",
            "domains": {"requireDomainDistribution": true, "preferredDomain": "fd:/east"},
            "constraintPriorities": {"Affinity": 1},
            "rebalance": true,
        },
        "parents": ["db@n1", "o/other"], "children": [],
        "loads": {"memoryMb": 256},
        "restart": {"condition": "on-failure", "delaySeconds": 6, "maxAttempts": 2, "windowSeconds": 60, "onExhausted": "none"},
        "update": {"parallelism": 0, "order": "start-first", "pace": "running", "maxFailureRatio": 0.25, "failureAction": "rollback"},
        "rollback": {"parallelism": 2, "failureAction": "continue"},
        "ha": {"minRunning": 2, "offlinePeerPolicy": "proceed"},
        "compatGate": "off",
        "timers": {"readyPeriodSeconds": 1, "stopTimeoutSeconds": 2, "affinityWaitSeconds": 3},
        "priority": 7,
    }));
    assert_eq!(
        (read.mode, read.orchestrate, read.compat_gate),
        (Mode::Flex, Orchestrate::Ha, CompatGate::Off)
    );
    let groups = vec![GroupId::new("o", "g1"), GroupId::new("x", "g2")];
    assert_eq!((read.scope.group_ids("o"), read.scope.node_ids("o")), (Some(groups), None));
    assert_eq!(read.flex, Some(Flex { min: 1, max: Some(3), target: 2 }));
    assert_eq!(read.placement.expression.as_str(), "\"{node.tier}\" in (LAB, QA)");
    let service = WorkloadReference::Service(ServiceKey::new("o", "u/r/l"));
    assert_eq!(read.placement.affinity.soft_anti, [service]);
    assert_eq!(read.placement.constraint_priorities, BTreeMap::from([(Constraint::Affinity, 1)]));
    assert_eq!(read.parents[0].node_id("o"), Some(NodeId::new("o", "n1")));
    let parents = [PolicyId::new("o", "db"), PolicyId::new("o", "other")];
    assert_eq!(read.parent_policies(&policy()), parents.into());
    assert_eq!(read.restart.condition, RestartCondition::OnFailure);
    assert_eq!((read.update.order, read.rollback.parallelism), (Some(Order::StartFirst), Some(2)));
    assert_eq!(read.timers.ready_period_seconds, Some(1));
    assert_eq!(read.priority, 7);
}

#[test]
fn empty_document_has_the_defaults_of_its_mode() {
    assert_eq!(read(json!({})), Orchestration::default());
    assert_eq!(read(json!({"mode": null, "ha": null})), Orchestration::default());
    for (word, mode, orchestrate, policy, on_violation, on_exhausted, gate, ready) in [
        (
            "global",
            Mode::Global,
            Orchestrate::Ha,
            None,
            OnViolation::Move,
            OnExhausted::None,
            CompatGate::Off,
            Some(0),
        ),
        (
            "replicated",
            Mode::Replicated,
            Orchestrate::Ha,
            Some(PlacementPolicy::LeastInstances),
            OnViolation::Move,
            OnExhausted::None,
            CompatGate::Off,
            Some(0),
        ),
        (
            "failover",
            Mode::Failover,
            Orchestrate::No,
            Some(PlacementPolicy::NodesOrder),
            OnViolation::Report,
            OnExhausted::Switch,
            CompatGate::Members,
            None,
        ),
        (
            "flex",
            Mode::Flex,
            Orchestrate::No,
            Some(PlacementPolicy::NodesOrder),
            OnViolation::Report,
            OnExhausted::Switch,
            CompatGate::Members,
            None,
        ),
    ] {
        let read = read(json!({"mode": word}));
        assert_eq!(read, Orchestration::of_mode(mode), "{word}");
        let found = (read.orchestrate, read.placement.policy, read.placement.on_violation);
        assert_eq!(found, (orchestrate, policy, on_violation), "{word}");
        let found = (read.restart.on_exhausted, read.compat_gate, read.timers.ready_period_seconds);
        assert_eq!(found, (on_exhausted, gate, ready), "{word}");
        assert_eq!(read.replicas, (mode == Mode::Replicated).then_some(1), "{word}");
        let flex = Flex { min: 1, max: None, target: 1 };
        assert_eq!(read.flex, (mode == Mode::Flex).then_some(flex), "{word}");
    }
    let default = Orchestration::default();
    assert_eq!((default.restart.delay_seconds, default.max_per_node, default.priority), (5, 1, 50));
    assert_eq!((default.timers.stop_timeout_seconds, default.timers.affinity_wait_seconds), (120, 60));
    assert_eq!(read(json!({"mode": "flex", "flex": {"min": 4}})).flex.unwrap().target, 4);
}

#[test]
fn what_is_written_reads_back_as_the_same() {
    for document in [
        json!({}),
        json!({"mode": "replicated", "replicas": 0, "maxPerNode": 3}),
        json!({"mode": "failover", "scope": {"type": "nodes", "nodes": ["n2", "o/n1"]}, "orchestrate": "start"}),
        json!({"mode": "flex", "flex": {"min": 0, "max": 0, "target": 9}, "parents": ["a@n", "svc:o/u"],
               "placement": {"expression": "{arch} == amd64", "policy": "none", "shift": 2,
                             "constraintPriorities": {"UpgradeDomain": -1}}, "loads": {"cpu": 0.5}}),
    ] {
        let first = read(document);
        let written = serde_json::to_value(&first).unwrap();
        assert_eq!(serde_json::from_value::<Orchestration>(written.clone()).unwrap(), first, "{written}");
    }
}

#[test]
fn modes_and_counts_keep_their_rules() {
    expect_refusals(&[
        (json!([]), " must be an object"),
        (json!({"version": 2}), ".version must be 1"),
        (json!({"mode": "gobal"}), ".mode must be global, replicated, failover or flex"),
        (json!({"orchestrate": "yes"}), ".orchestrate must be no, start or ha"),
        (json!({"orchestrate": "start"}), ".orchestrate start needs the mode failover or flex"),
        (
            json!({"mode": "replicated", "orchestrate": "start"}),
            ".orchestrate start needs the mode failover or flex",
        ),
        (json!({"replicas": 3}), ".replicas needs the mode replicated"),
        (json!({"mode": "replicated", "replicas": -1}), ".replicas must be an integer from 0 to 100000"),
        (json!({"mode": "replicated", "replicas": 1.5}), ".replicas must be an integer from 0 to 100000"),
        (json!({"mode": "failover", "flex": {}}), ".flex needs the mode flex"),
        (json!({"mode": "flex", "flex": {"min": 4, "max": 3}}), ".flex.min must not be greater than max, 3"),
        (
            json!({"mode": "flex", "flex": {"min": 2, "target": 1}}),
            ".flex.target must not be less than min, 2",
        ),
        (json!({"mode": "flex", "flex": {"maximum": 1}}), ".flex.maximum is not known"),
        (json!({"mode": "flex", "maxPerNode": 2}), ".maxPerNode must be 1 unless the mode is replicated"),
        (json!({"maxPerNode": 0}), ".maxPerNode must be an integer from 1 to 100000"),
        (json!({"priority": 101}), ".priority must be an integer from 0 to 100"),
        (json!({"compatGate": "on"}), ".compatGate must be unit or off"),
        (json!({"healthPolicy": {}}), ".healthPolicy.detection must be an object"),
    ]);
}

/// A2-S4.
#[test]
fn target_beyond_the_maximum_is_refused_by_its_path() {
    expect_refusals(&[(
        json!({"mode": "flex", "flex": {"target": 5, "max": 3}}),
        ".flex.target must not be greater than max, 3",
    )]);
    assert_eq!(read(json!({"mode": "flex", "flex": {"target": 5, "max": 0}})).flex.unwrap().max, Some(0));
}

#[test]
fn unknown_member_is_refused_with_the_one_that_was_probably_meant() {
    expect_refusals(&[
        (json!({"updates": {}}), ".updates is not known; update was probably meant"),
        (json!({"colour": 1}), ".colour is not known"),
        (
            json!({"update": {"delaySecond": 3}}),
            ".update.delaySecond is not known; delaySeconds was probably meant",
        ),
        (
            json!({"placement": {"afinity": {}}}),
            ".placement.afinity is not known; affinity was probably meant",
        ),
        (
            json!({"placement": {"affinity": {"softanti": []}}}),
            ".placement.affinity.softanti is not known; softAnti was probably meant",
        ),
        (json!({"placement": {"domains": {"a": 1}}}), ".placement.domains.a is not known"),
        (json!({"healthPolicies": {}}), ".healthPolicies is not known"),
        (json!({"timers": {"readyPeriod": 1}}), ".timers.readyPeriod is not known"),
    ]);
}

#[test]
fn scope_lists_nodes_or_groups_exactly_when_its_type_says_so() {
    let of = |scope: Value| json!({"scope": scope});
    let many: Vec<String> = (0..1_001).map(|number| format!("n{number}")).collect();
    expect_refusals(&[
        (of(json!(3)), ".scope must be an object"),
        (of(json!({"type": "node"})), ".scope.type must be eligible, nodes or hagroups"),
        (of(json!({"type": "nodes"})), ".scope.nodes must be a list of names of nodes"),
        (of(json!({"type": "nodes", "nodes": []})), ".scope.nodes must hold 1 to 1000 names"),
        (of(json!({"type": "nodes", "nodes": many})), ".scope.nodes must hold 1 to 1000 names"),
        (of(json!({"type": "nodes", "nodes": ["a", "a"]})), ".scope.nodes must not hold a name twice"),
        (of(json!({"type": "nodes", "nodes": [1]})), ".scope.nodes must be a list of names of nodes"),
        (of(json!({"nodes": ["a"]})), ".scope.nodes needs the type nodes"),
        (of(json!({"haGroups": ["g"]})), ".scope.haGroups needs the type hagroups"),
        (
            of(json!({"type": "hagroups", "nodes": ["a"], "haGroups": ["g"]})),
            ".scope.nodes needs the type nodes",
        ),
        (of(json!({"type": "hagroups"})), ".scope.haGroups must be a list of names of HA groups"),
        (of(json!({"type": "hagroups", "haGroups": []})), ".scope.haGroups must hold 1 to 1000 names"),
        (
            of(json!({"type": "hagroups", "haGroups": ["a", "b", "a"]})),
            ".scope.haGroups must not hold a name twice",
        ),
        (of(json!({"type": "hagroups", "haGroups": ["a", "*"]})), ".scope.haGroups must hold * alone"),
        (
            of(json!({"type": "hagroups", "haGroups": [""]})),
            ".scope.haGroups must hold names of 1 to 512 bytes",
        ),
    ]);
    let scope = read(of(json!({"type": "nodes", "nodes": ["b", "x/a"]}))).scope;
    assert_eq!(scope.node_ids("o"), Some(vec![NodeId::new("o", "b"), NodeId::new("x", "a")]));
    assert_eq!(read(of(json!({"type": "hagroups", "haGroups": ["*"]}))).scope.group_ids("o"), None);
}

/// D5-S4: among others.
#[test]
fn placement_keeps_its_rules() {
    let of = |placement: Value| json!({"placement": placement});
    let long = "x".repeat(4_097);
    expect_refusals(&[
        (
            of(json!({"policy": "best"})),
            ".placement.policy must be nodes-order, load-avg, spread, score, last-start, shift, least-instances or none",
        ),
        (of(json!({"nodesOrder": ["a", "a"]})), ".placement.nodesOrder must not hold a name twice"),
        (of(json!({"shift": -1})), ".placement.shift must be an integer from 0 to 4294967295"),
        (of(json!({"expression": 1})), ".placement.expression must be a text"),
        (of(json!({"expression": long})), ".placement.expression must not be longer than 4096 bytes"),
        (of(json!({"onViolation": "stop"})), ".placement.onViolation must be report or move"),
        (of(json!({"rebalance": "yes"})), ".placement.rebalance must be true or false"),
        (
            of(json!({"domains": {"requireDomainDistribution": 1}})),
            ".placement.domains.requireDomainDistribution must be true or false",
        ),
        (
            of(json!({"domains": {"preferredDomain": "east"}})),
            ".placement.domains.preferredDomain must start with fd:/",
        ),
        (
            of(json!({"constraintPriorities": {"Affinity": 3}})),
            ".placement.constraintPriorities.Affinity must be -1, 0, 1 or 2",
        ),
        (
            of(json!({"constraintPriorities": {"Speed": 1}})),
            ".placement.constraintPriorities.Speed is not a constraint",
        ),
        (
            of(json!({"constraintPriorities": {"Affinity": 1, "AffinityConstraintPriority": 1}})),
            ".placement.constraintPriorities.AffinityConstraintPriority must not be given twice",
        ),
        (of(json!({"constraintPriorities": 1})), ".placement.constraintPriorities must be an object"),
        (
            of(json!({"constraintPriorities": [{"name": "Affinity"}]})),
            ".placement.constraintPriorities must be a list of name and value",
        ),
    ]);
    let listed = json!([{"name": "CapacityConstraintPriority", "value": "1"}]);
    let read = read(of(json!({"constraintPriorities": listed}))).placement.constraint_priorities;
    assert_eq!(read, BTreeMap::from([(Constraint::NodeCapacity, 1)]));
}

/// A5-S8.
#[test]
fn expression_that_cannot_be_parsed_is_refused_with_its_column() {
    expect_refusals(&[(
        json!({"placement": {"expression": "a <"}}),
        ".placement.expression is not an expression: column 4: a value was expected",
    )]);
    for hostile in ["(".repeat(10_000), "a".repeat(1 << 20)] {
        assert!(refusal(&json!({"placement": {"expression": hostile}})).contains("4096 bytes"));
    }
}

#[test]
fn references_stay_in_the_organization_and_name_others() {
    let affinity = |lists: Value| json!({"placement": {"affinity": lists}});
    let form = "must hold references of the form policy, org/policy or svc:serviceOrg/serviceUrl";
    for (document, expected) in [
        (
            affinity(json!({"hard": ["x/db"]})),
            "placement.affinity.hard must name policies of the organization o, not x/db",
        ),
        (
            affinity(json!({"softAnti": ["cam"]})),
            "placement.affinity.softAnti must not name the policy itself",
        ),
        (affinity(json!({"soft": ["o/cam"]})), "placement.affinity.soft must not name the policy itself"),
        (
            affinity(json!({"hard": ["db"], "hardAnti": ["o/db"]})),
            "placement.affinity.hardAnti must not hold o/db, which is in hard",
        ),
        (affinity(json!({"hard": ["db", "db"]})), "placement.affinity.hard must not hold a name twice"),
        (affinity(json!({"hard": "db"})), "placement.affinity.hard must be a list of names of policies"),
        (json!({"parents": ["x/db@n"]}), "parents must name policies of the organization o, not x/db"),
        (json!({"parents": ["db@"]}), "parents must name a node of 1 to 512 bytes after @"),
        (json!({"children": ["cam@n1"]}), "children has the cycle cam, cam"),
    ] {
        assert_eq!(refusal(&document), format!("orchestration.{expected}"), "{document}");
    }
    for wrong in ["svc:db", "svc:/db", "o/", "/db"] {
        let expected = format!("orchestration.parents {form}");
        assert_eq!(refusal(&json!({"parents": [wrong]})), expected, "{wrong}");
    }
    let both = affinity(json!({"hard": ["svc:x/db", "ghost"], "soft": ["db"], "softAnti": ["db"]}));
    assert_eq!(read(both).placement.affinity.hard.len(), 2);
}

#[test]
fn loads_restart_updates_and_timers_keep_their_rules() {
    expect_refusals(&[
        (json!({"loads": []}), ".loads must be an object"),
        (json!({"loads": {"memoryMb": -1}}), ".loads.memoryMb must be a number from 0 to 1000000000000"),
        (json!({"loads": {"9": 1}}), ".loads.9 must be a name of 1 to 64 letters, digits and _"),
        (json!({"restart": {"condition": "always"}}), ".restart.condition must be none, on-failure or any"),
        (json!({"restart": {"onExhausted": "stop"}}), ".restart.onExhausted must be none or switch"),
        (
            json!({"restart": {"delaySeconds": -1}}),
            ".restart.delaySeconds must be an integer from 0 to 604800",
        ),
        (
            json!({"restart": {"maxAttempts": "2"}}),
            ".restart.maxAttempts must be an integer from 0 to 100000",
        ),
        (
            json!({"restart": {"windowSeconds": 0.5}}),
            ".restart.windowSeconds must be an integer from 0 to 604800",
        ),
        (json!({"update": 3}), ".update must be an object"),
        (json!({"update": {"parallelism": -1}}), ".update.parallelism must be an integer from 0 to 100000"),
        (
            json!({"update": {"delaySeconds": 1.5}}),
            ".update.delaySeconds must be an integer from 0 to 604800",
        ),
        (
            json!({"update": {"monitorSeconds": true}}),
            ".update.monitorSeconds must be an integer from 0 to 604800",
        ),
        (
            json!({"update": {"startTimeoutSeconds": 0}}),
            ".update.startTimeoutSeconds must be an integer from 1 to 604800",
        ),
        (json!({"update": {"order": "both"}}), ".update.order must be stop-first or start-first"),
        (json!({"update": {"pace": "fast"}}), ".update.pace must be monitored or running"),
        (
            json!({"update": {"failureAction": "stop"}}),
            ".update.failureAction must be pause, continue or rollback",
        ),
        (
            json!({"update": {"maxFailureRatio": 1.01}}),
            ".update.maxFailureRatio must be a number from 0 to 1",
        ),
        (
            json!({"mode": "failover", "update": {"order": "start-first"}}),
            ".update.order must be stop-first with the mode failover",
        ),
        (
            json!({"mode": "failover", "rollback": {"order": "start-first"}}),
            ".rollback.order must be stop-first with the mode failover",
        ),
        (
            json!({"rollback": {"failureAction": "rollback"}}),
            ".rollback.failureAction must be pause or continue: a rollback is never reverted",
        ),
        (json!({"ha": {"minRunning": 0}}), ".ha.minRunning must be an integer from 1 to 100000"),
        (json!({"ha": {"offlinePeerPolicy": true}}), ".ha.offlinePeerPolicy must be wait or proceed"),
        (
            json!({"timers": {"readyPeriodSeconds": 3601}}),
            ".timers.readyPeriodSeconds must be an integer from 0 to 3600",
        ),
        (
            json!({"timers": {"stopTimeoutSeconds": 0}}),
            ".timers.stopTimeoutSeconds must be an integer from 1 to 604800",
        ),
        (
            json!({"timers": {"affinityWaitSeconds": 0}}),
            ".timers.affinityWaitSeconds must be an integer from 1 to 604800",
        ),
    ]);
}

/// A8.7.
#[test]
fn cycle_of_parents_is_found_and_named() {
    let of = |rows: &[(&str, Value)]| -> BTreeMap<PolicyId, Orchestration> {
        rows.iter()
            .map(|(name, document)| {
                let id = PolicyId::new("o", name);
                let read = Orchestration::of_policy(&id, document.clone()).unwrap();
                (id, read)
            })
            .collect()
    };
    let a = PolicyId::new("o", "a");
    let parents = of(&[("a", json!({"parents": ["b"]})), ("b", json!({"parents": ["c", "o/a@n1"]}))]);
    let cycle = find_cycle(&a, &parents).unwrap();
    assert_eq!(cycle.relation, Relation::Parents);
    assert_eq!(cycle.to_string(), "orchestration.parents has the cycle a, b, a");
    let children = of(&[
        ("a", json!({"children": ["b"]})),
        ("b", json!({"children": ["c"]})),
        ("c", json!({"children": ["d", "a"]})),
    ]);
    let cycle = find_cycle(&a, &children).unwrap();
    assert_eq!(cycle.to_string(), "orchestration.children has the cycle a, b, c, a");
    let mutual =
        of(&[("a", json!({"parents": ["b"]})), ("b", json!({"children": ["a"], "parents": ["ghost"]}))]);
    assert_eq!(find_cycle(&a, &mutual), None);
}

#[test]
fn long_chain_of_parents_is_walked_without_recursion() {
    let name = |number: u32| PolicyId::new("o", &format!("p{number}"));
    let policies: BTreeMap<PolicyId, Orchestration> = (0..10_000)
        .map(|number| {
            let parents = json!({"parents": [format!("p{}", number + 1)]});
            (name(number), Orchestration::of_policy(&name(number), parents).unwrap())
        })
        .collect();
    assert_eq!(find_cycle(&name(0), &policies), None);
    let mut closed = policies;
    closed.insert(name(10_000), Orchestration::of_policy(&name(10_000), json!({"parents": ["p0"]})).unwrap());
    assert_eq!(find_cycle(&name(0), &closed).unwrap().policies.len(), 10_002);
}

#[test]
fn what_the_engine_cannot_carry_out_is_refused_by_name() {
    let failover = |more: Value| {
        let mut document = json!({"mode": "failover", "scope": {"type": "hagroups", "haGroups": ["g"]}});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    };
    for (document, expected) in [
        (
            json!({"placement": {"affinity": {"hard": ["x/db"]}}}),
            "placement.affinity.hard must name policies of the organization o, not x/db",
        ),
        (
            json!({"timers": {"affinityWaitSeconds": 0}}),
            "timers.affinityWaitSeconds must be an integer from 1 to 604800",
        ),
        (
            json!({"mode": "replicated", "replicas": 1, "healthPolicy": {"detection": {"type": "LB_STATUS_POLLING"}}}),
            "healthPolicy.detection.detection_modes must not hold LB_STATUS_POLLING where there is one instance: it \
             has no peers",
        ),
        (json!({"healthPolicy": {"type": "senlin.policy.health"}}), "healthPolicy.type is not known"),
        (json!({"priority": 101}), "priority must be an integer from 0 to 100"),
        (
            json!({"scope": {"type": "nodes", "nodes": ["n", "o/n"]}}),
            "scope.nodes must not hold a name twice",
        ),
    ] {
        let error = supported_orchestration(&policy(), document.clone()).unwrap_err();
        assert_eq!(error.to_string(), format!("orchestration.{expected}"), "{document}");
    }
    for document in [
        json!({}),
        json!({"placement": null, "update": {"parallelism": 0, "order": "start-first"}}),
        failover(json!({"orchestrate": "ha", "ha": {"minRunning": 1}})),
        failover(json!({"orchestrate": "start"})),
        failover(json!({})),
        json!({"mode": "flex"}),
        json!({"orchestrate": "no", "timers": {"stopTimeoutSeconds": 1}}),
        json!({"priority": 0, "healthPolicy": null}),
        json!({"parents": ["p", "db@n"], "children": ["c"]}),
        json!({"parents": [], "children": [], "loads": {}, "compatGate": "off", "timers": {"affinityWaitSeconds": 60}}),
        json!({"mode": "global", "compatGate": "unit"}),
        json!({"mode": "flex", "compatGate": "unit", "placement": {"rebalance": false, "affinity": {"hard": []}}}),
        json!({"mode": "replicated", "replicas": 2, "maxPerNode": 2, "restart": {"maxAttempts": 1}}),
        json!({"mode": "flex", "orchestrate": "ha", "placement": {"policy": "spread", "affinity": null}}),
        json!({"mode": "failover", "placement": {"policy": "load-avg"}}),
        json!({"mode": "replicated", "placement": {"policy": "score"}}),
        json!({"placement": {"affinity": {"hardAnti": ["db"]}}, "timers": {"affinityWaitSeconds": 1}}),
        json!({"scope": {"type": "nodes", "nodes": ["n"]}, "timers": {"readyPeriodSeconds": 1}}),
    ] {
        assert_eq!(supported_orchestration(&policy(), document.clone()).unwrap(), read(document));
    }
}
