use evenkeel_ids::PolicyId;
use serde_json::{Value, json};

use super::*;

fn policy(document: Value) -> Vec<String> {
    deployment_policy(&PolicyId::new("o", "p"), &document).iter().map(ToString::to_string).collect()
}

fn of_versions(versions: Value) -> Vec<String> {
    let document = json!({"service": {"name": "s", "org": "o", "serviceVersions": versions}});
    let found = policy(document.clone());
    let of_pattern = json!({"services": [document["service"]]});
    let in_pattern: Vec<String> = pattern(&of_pattern).iter().map(ToString::to_string).collect();
    let expected: Vec<String> =
        found.iter().map(|text| text.replacen("service.", "services[0].", 1)).collect();
    assert_eq!(in_pattern, expected, "a pattern has the same rules");
    found
}

fn version(version: &str, priority: Value) -> Value {
    json!({"version": version, "priority": priority})
}

fn full(value: u32) -> Value {
    json!({"priority_value": value, "retries": 1, "retry_durations": 60})
}

#[test]
fn priorities_that_can_lead_to_a_fallback_are_fine() {
    for fine in [
        json!([{"version": "1.0.0"}]),
        json!([version("1.0.0", json!({}))]),
        json!([version("1.0.0", Value::Null)]),
        json!([version("1.0.0", full(3))]),
        json!([version("2.0.0", full(1)), version("1.0.0", full(7))]),
        json!([]),
    ] {
        assert_eq!(of_versions(fine.clone()), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn priorities_that_can_never_lead_to_a_fallback_are_named() {
    let first = |versions: Value| of_versions(versions).into_iter().next().unwrap_or_default();
    let at = |index: usize, name: &str| format!("service.serviceVersions[{index}].priority.{name} ");
    let without_value = json!([version("1.0.0", json!({"retries": 3, "retry_durations": 60}))]);
    assert!(first(without_value).starts_with(&at(0, "priority_value")));
    let two = of_versions(json!([version("1.0.0", json!({})), {"version": "2.0.0"}]));
    assert!(two[0].starts_with(&at(0, "priority_value")) && two[1].starts_with(&at(1, "priority_value")));
    let twice = of_versions(json!([version("2.0.0", full(2)), version("1.0.0", full(2))]));
    assert_eq!(twice.len(), 1);
    assert!(twice[0].starts_with(&format!("{}is 2, as that of version 2.0.0", at(1, "priority_value"))));
    let no_window =
        json!([version("2.0.0", json!({"priority_value": 1, "retries": 1})), version("1.0.0", full(2))]);
    assert!(first(no_window).starts_with(&at(0, "retry_durations")));
    let no_retries =
        json!([version("2.0.0", json!({"priority_value": 1, "retry_durations": 1, "retries": 0}))]);
    assert!(first(no_retries).starts_with(&at(0, "retries")));
    for wrong in [json!(-1), json!("1"), json!(1.5)] {
        let found = of_versions(json!([version("2.0.0", json!({"priority_value": wrong}))]));
        assert!(found.len() == 1 && found[0].starts_with(&at(0, "priority_value")), "{found:?}");
    }
}

fn of_expression(expression: &str) -> Vec<String> {
    policy(json!({"orchestration": {"placement": {"expression": expression}}}))
}

#[test]
fn expression_that_names_nothing_of_a_node_is_named_with_the_cure() {
    for constant in [
        "is-custom == true",
        "{node.pool} == a and is-custom == true",
        "not is-custom",
        "is-custom",
        "{node.pool} == a or is-custom",
        "is-custom in (a, b)",
        "(is-custom != \"x y\")",
        "{node.pool} == a && is-custom == 1",
    ] {
        let found = of_expression(constant);
        assert_eq!(found.len(), 1, "{constant}: {found:?}");
        assert!(found[0].starts_with("orchestration.placement.expression "), "{found:?}");
        assert!(found[0].contains("{node.is-custom}"), "{constant}: {found:?}");
    }
    for constant in ["true", "1 < 2", "false or 1 == 1"] {
        assert!(of_expression(constant)[0].contains("is the same on every node"), "{constant}");
    }
    for fine in [
        "",
        "{node.is-custom} == true",
        "{node.is-custom}",
        "\"{node.tier}\" in (LAB, QA) and {hagroup} == g",
        "not {node.a} and {arch} in [amd64]",
        "{node.a} + 1 > 2 ** 3",
        "({node.a} == 1 or {node.b} == x) and true",
        "$({node.a} == b || {node.c} != d && {node.e} > 1)",
    ] {
        assert_eq!(of_expression(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn attempts_that_no_window_holds_are_named() {
    let of_restart = |restart: Value| {
        deployment_policy(&PolicyId::new("o", "p"), &json!({"orchestration": {"restart": restart}}))
    };
    let found = of_restart(json!({"maxAttempts": 5, "delaySeconds": 10, "windowSeconds": 50}));
    assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
    assert_eq!(found[0].member, "orchestration.restart.maxAttempts");
    for fine in [
        json!({"maxAttempts": 5, "delaySeconds": 10, "windowSeconds": 51}),
        json!({"maxAttempts": 5, "delaySeconds": 10}),
        json!({"delaySeconds": 10, "windowSeconds": 5}),
        json!({"maxAttempts": 5, "delaySeconds": 10, "windowSeconds": 5, "condition": "none"}),
    ] {
        assert_eq!(of_restart(fine.clone()), [], "{fine}");
    }
}

#[test]
fn policies_of_the_same_organization_that_settings_name_are_listed() {
    let document = json!({
        "placement": {"affinity": {"hardAnti": ["a", "svc:o/s"], "soft": ["o/c"]}}, "parents": ["d@n1"],
    });
    let id = PolicyId::new("o", "p");
    let read = crate::orchestration::Orchestration::of_policy(&id, document).expect("settings");
    let named: Vec<String> = named_policies(&id, &read)
        .iter()
        .map(|(at, policy)| missing_policy(at, policy).to_string())
        .collect();
    let text = |at: &str, policy: &str| {
        format!("orchestration.{at} names deployment policy o/{policy}, which does not exist")
    };
    let expected = [
        text("placement.affinity.hardAnti", "a"),
        text("placement.affinity.soft", "c"),
        text("parents", "d"),
    ];
    assert_eq!(named, expected);
}

#[test]
fn properties_and_ranges_that_nothing_can_use_are_named() {
    let found = policy(json!({
        "properties": [{"name": "a", "value": 1}, {"name": "b"}],
        "userInput": [{"serviceVersionRange": "[1.0.0,2.0.0)"}, {"serviceVersionRange": "[2"}, {"serviceVersionRange": null}],
    }));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("properties[1] ") && found[1].starts_with("userInput[1].serviceVersionRange ")
    );
    let of_node = node_policy(&json!({"deployment": {"properties": [{"value": 1}]}, "management": null}));
    assert_eq!(of_node[0].member, "deployment.properties[0]");
}

#[test]
fn members_of_a_deployment_that_no_agent_reads_are_warnings() {
    let found = |deployment: Value| {
        let found = service(&json!({"deployment": deployment}));
        found.iter().map(|one| (one.severity, one.to_string())).collect::<Vec<_>>()
    };
    let misspelt =
        json!({"services": {"a": {"comand": ["x"], "Image": "i", "ports": [{"HostPort": "1", "port": 2}]}}});
    let expected = [
        (
            Severity::Warning,
            "deployment.services.a.comand is not a member that any agent reads; command was probably meant"
                .to_owned(),
        ),
        (
            Severity::Warning,
            "deployment.services.a.ports[0].port is not a member that any agent reads".to_owned(),
        ),
    ];
    assert_eq!(found(misspelt.clone()), expected);
    assert_eq!(found(Value::String(misspelt.to_string())), expected, "a text is read as well");
    assert!(found(json!({"services": {"a": {"command": []}}}))[0].1.contains("nothing to run"));
    assert!(found(json!({"services": {}}))[0].1.contains("nothing is started"));
    assert_eq!(found(json!("{"))[0].0, Severity::Error);
    assert_eq!(found(json!({"services": {"a": {"privileged": "yes"}}}))[0].0, Severity::Error);
    for fine in [
        json!(null),
        json!(""),
        json!({}),
        json!({"services": {"a": {"image": "i", "secrets": {"pw": {"description": ""}}}}}),
    ] {
        assert_eq!(found(fine), []);
    }
}

#[test]
fn other_members_of_a_service_that_cannot_work_are_named() {
    let found = service(&json!({
        "requiredServices": [{"url": "a", "versionRange": "[1"}, {"url": "b", "version": "1.0.0"}],
        "userInput": [{"name": "N", "type": "integer"}, {"name": "M", "type": "", "defaultValue": ""}, {"name": "L", "type": "float"}],
    }));
    let members: Vec<&str> = found.iter().map(|one| one.member.as_str()).collect();
    assert_eq!(members, ["requiredServices[0].versionRange", "userInput[0].type"]);
}

#[test]
fn odd_documents_have_no_findings() {
    for odd in [
        Value::Null,
        json!([]),
        json!("text"),
        json!({"service": 5, "properties": {}, "services": "x", "deployment": 5}),
    ] {
        assert_eq!(policy(odd.clone()), Vec::<String>::new());
        assert_eq!((pattern(&odd), node_policy(&odd)), (Vec::new(), Vec::new()));
        let _ = service(&odd);
    }
}
