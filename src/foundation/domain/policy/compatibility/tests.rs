use evenkeel_ids::ServiceKey;
use serde_json::{Value, json};

use super::deployment::{declared_secrets, is_empty, needs_privileges};
use super::namespace::{NamespaceChoice, NamespaceError};
use super::resolve::resolve_service;
use super::service::service_id;
use super::*;
use crate::policy::{DeploymentPolicy, ExternalPolicy, NodePolicy};

fn service(value: Value) -> ServiceDefinition {
    let mut definition: ServiceDefinition = serde_json::from_value(value).unwrap();
    definition.org = "acme".into();
    definition.arch = "amd64".into();
    definition
}

fn dependency(url: &str, range: &str) -> Value {
    json!({"url": url, "org": "acme", "arch": "amd64", "versionRange": range})
}

fn camera(version: &str, deployment: Value) -> ServiceDefinition {
    service(json!({"url": "cam", "version": version, "deployment": deployment}))
}

fn policy(value: Value) -> DeploymentPolicy {
    let mut policy: DeploymentPolicy = serde_json::from_value(value).unwrap();
    policy.service.name = "cam".into();
    policy.service.org = "acme".into();
    policy.service.versions = vec![serde_json::from_value(json!({"version": "1.0.0"})).unwrap()];
    policy
}

fn run(
    node: Value,
    policy: &DeploymentPolicy,
    catalog: &ServiceCatalog,
) -> Result<CompatibilityReport, CheckError> {
    let node: NodePolicy = serde_json::from_value(node).unwrap();
    check(&node, policy, catalog).run()
}

fn check<'a>(
    node: &'a NodePolicy,
    policy: &'a DeploymentPolicy,
    catalog: &'a ServiceCatalog,
) -> PolicyCheck<'a, ServiceCatalog> {
    PolicyCheck {
        node: NodeFacts { id: "acme/n", arch: "amd64", ..NodeFacts::default() },
        node_policy: Some(node),
        deployment_policy_id: "acme/p",
        deployment_policy: policy,
        service_policy: None,
        given_services: &[],
        source: catalog,
        node_user_input: None,
    }
}

const RUNNABLE: &str = r#"{"services":{"m":{"image":"x"}}}"#;

#[test]
fn every_obstacle_is_reported_with_actual_values() {
    let catalog = ServiceCatalog::from_iter([camera("1.0.0", json!(null))]);
    let policy = policy(json!({"constraints": ["site == north", "level > 2"]}));
    let report = run(json!({"properties": [{"name": "site", "value": "south"}]}), &policy, &catalog).unwrap();
    assert!(!report.is_compatible);
    assert_eq!(
        report.reasons()["acme/cam_1.0.0_amd64"],
        "Policy Incompatible: the service has no deployment for nodes of type device. properties of the node do not satisfy \
         the deployment or service policy: site == north (actual value: \"south\"); level > 2 (there is no property level)"
    );
    assert_eq!(report.classes()["acme/cam_1.0.0_amd64"], "no_device_deployment");
}

#[test]
fn privilege_of_a_dependency_requires_permission_of_the_node() {
    let mut top = camera("1.0.0", json!(RUNNABLE));
    top.required_services = serde_json::from_value(json!([dependency("gps", "[1.0.0,2.0.0)")])).unwrap();
    let gps = |version: &str, network: &str| {
        service(
            json!({"url": "gps", "version": version, "deployment": {"services": {"g": {"network": network}}}}),
        )
    };
    let catalog = ServiceCatalog::from_iter([top, gps("1.0.0", ""), gps("1.5.0", "host"), gps("2.0.0", "")]);
    let allowing =
        |allowed: bool| json!({"properties": [{"name": "openhorizon.allowPrivileged", "value": allowed}]});
    assert!(!run(allowing(false), &policy(json!({})), &catalog).unwrap().is_compatible);
    assert!(run(allowing(true), &policy(json!({})), &catalog).unwrap().is_compatible);
}

#[test]
fn only_the_hub_sets_the_ha_group_of_a_node() {
    let catalog = ServiceCatalog::from_iter([camera("1.0.0", json!(RUNNABLE))]);
    let policy = policy(json!({"constraints": ["openhorizon.hagroup == line-3"]}));
    let node: NodePolicy =
        serde_json::from_value(json!({"properties": [{"name": "openhorizon.hagroup", "value": "line-3"}]}))
            .unwrap();
    let mut check = check(&node, &policy, &catalog);
    assert!(!check.run().unwrap().is_compatible);
    check.node.ha_group = Some("line-3");
    assert!(check.run().unwrap().is_compatible);
}

#[test]
fn variables_and_secrets_are_tested_when_the_node_input_is_given() {
    let definition = json!({
        "url": "cam", "version": "1.0.0", "userInput": [{"name": "RATE", "type": "int"}],
        "deployment": {"services": {"a": {"secrets": {"pw": {}}}, "b": {"secrets": {"token": {}}}}},
    });
    let catalog = ServiceCatalog::from_iter([service(definition)]);
    let node = NodePolicy::default();
    let bound = policy(json!({"secretBinding": [
        {"serviceOrgid": "acme", "serviceUrl": "cam", "secrets": [{"pw": "a"}, {"token": "b"}]},
    ]}));
    let input = serde_json::from_value(json!([
        {"serviceOrgid": "acme", "serviceUrl": "cam", "inputs": [{"name": "RATE", "value": 5}]},
    ]));
    let input: Vec<crate::policy::user_input::UserInput> = input.unwrap();
    let reason = |policy: &DeploymentPolicy, input| {
        let report = PolicyCheck { node_user_input: input, ..check(&node, policy, &catalog) }.run().unwrap();
        report.reasons()["acme/cam_1.0.0_amd64"].clone()
    };
    let unbound = policy(json!({}));
    assert_eq!(reason(&unbound, None), "Compatible");
    assert_eq!(reason(&bound, Some(&input)), "Compatible");
    assert_eq!(
        reason(&unbound, Some(&input)),
        "Secret Binding Incompatible: no stored secret is bound to pw, token of service acme/cam 1.0.0 amd64"
    );
    assert_eq!(
        reason(&bound, Some(&[])),
        "User Input Incompatible: no user input is given for service acme/cam 1.0.0 amd64, which needs RATE"
    );
}

#[test]
fn brief_report_stops_at_the_first_version_and_leaves_other_architectures_out() {
    let catalog = ServiceCatalog::from_iter([camera("1.0.0", json!(RUNNABLE))]);
    let compatible = run(json!({}), &policy(json!({})), &catalog).unwrap();
    assert_eq!(compatible.brief("amd64").services.len(), 1);
    let mut for_arm = policy(json!({}));
    for_arm.service.arch = "arm64".into();
    let report = run(json!({}), &for_arm, &catalog).unwrap();
    assert_eq!(report.classes()["acme/cam_1.0.0_arm64"], "arch_mismatch");
    assert_eq!(report.brief("amd64").classes()["general"], "no_service_for_node_arch");
}

#[test]
fn wrong_input_gives_the_codes_of_the_contract() {
    let catalog = ServiceCatalog::new();
    let (node, policy) = (NodePolicy::default(), policy(json!({})));
    let check = check(&node, &policy, &catalog);
    let code = |check: PolicyCheck<'_, ServiceCatalog>| check.run().unwrap_err().code();
    assert_eq!(code(PolicyCheck { node_policy: None, ..check }), 10);
    let code_of_type = |node_type| code(PolicyCheck { node: NodeFacts { node_type, ..check.node }, ..check });
    assert_eq!(["Robot", "Device"].map(code_of_type), [10; 2]);
    assert_eq!(["", "device", "cluster"].map(code_of_type), [14; 3]);
    let bad: ExternalPolicy = serde_json::from_value(json!({"constraints": ["a =="]})).unwrap();
    assert_eq!(code(PolicyCheck { service_policy: Some(&bad), ..check }), 11);
    let namespace = json!({"properties": [{"name": "openhorizon.kubernetesNamespace", "value": 1}]});
    let odd: NodePolicy = serde_json::from_value(namespace).unwrap();
    assert_eq!(code(PolicyCheck { node_policy: Some(&odd), ..check }), 12);
}

#[test]
fn dependencies_that_need_themselves_or_another_architecture_are_refused() {
    let with_dependency = |url: &str, on: &str| {
        service(json!({"url": url, "version": "1.0.0", "requiredServices": [dependency(on, "1.0.0")]}))
    };
    let catalog = ServiceCatalog::from_iter([
        with_dependency("a", "b"),
        with_dependency("b", "c"),
        with_dependency("c", "b"),
    ]);
    let resolve = |catalog: &ServiceCatalog| {
        resolve_service(catalog, &ServiceKey::new("acme", "a"), "1.0.0", "amd64")
            .map(|found| found.dependencies.len())
    };
    assert!(
        matches!(resolve(&catalog), Err(ResolveError::Cycle { service }) if service.as_str() == "acme/b_1.0.0_amd64")
    );
    let mut other_arch = with_dependency("a", "b");
    other_arch.required_services[0].arch = "arm64".into();
    let catalog = ServiceCatalog::from_iter([other_arch]);
    assert!(matches!(resolve(&catalog), Err(ResolveError::OtherArchitecture { .. })));
}

#[test]
fn long_chain_of_dependencies_is_resolved_and_a_longer_one_refused_without_recursion() {
    let chain = |length: usize| -> ServiceCatalog {
        (0..=length)
            .map(|position| {
                let next = json!([dependency(&format!("s{}", position + 1), "1.0.0")]);
                let needed = if position < length { next } else { json!([]) };
                service(
                    json!({"url": format!("s{position}"), "version": "1.0.0", "requiredServices": needed}),
                )
            })
            .collect()
    };
    let resolve = |length: usize| {
        let catalog = chain(length);
        resolve_service(&catalog, &ServiceKey::new("acme", "s0"), "", "amd64")
            .map(|found| found.dependencies.len())
    };
    assert_eq!(resolve(1_000), Ok(1_000));
    assert!(matches!(resolve(20_000), Err(ResolveError::TooMany { .. })));
}

#[test]
fn dependency_reached_on_two_paths_is_no_cycle() {
    let top = json!({"url": "a", "version": "1.0.0", "requiredServices": [dependency("b", ""), dependency("c", "")]});
    let left = json!({"url": "b", "version": "1.0.0", "requiredServices": [dependency("d", "")]});
    let right = json!({"url": "c", "version": "1.0.0", "requiredServices": [dependency("d", "")]});
    let catalog: ServiceCatalog =
        [top, left, right, json!({"url": "d", "version": "1.0.0"})].into_iter().map(service).collect();
    assert_eq!(
        resolve_service(&catalog, &ServiceKey::new("acme", "a"), "1.0.0", "amd64")
            .unwrap()
            .dependencies
            .len(),
        3
    );
}

#[test]
fn deployment_of_a_wrong_kind_anywhere_is_unreadable() {
    let privileged = |text: Value| needs_privileges("s", &text);
    assert_eq!(privileged(json!(r#"{"Services":{"a":null,"b":{"PRIVILEGED":true}}}"#)), Ok(true));
    assert_eq!(privileged(json!({"services": {"a": {"network": "bridge"}}})), Ok(false));
    assert_eq!(privileged(json!("null")), Ok(false));
    for bad in [
        json!("not json"),
        json!([]),
        json!(5),
        json!({"services": []}),
        json!({"services": {"a": {"privileged": "yes"}}}),
        json!({"services": {"a": {"ports": [{"HostPort": 80}]}}}),
        json!({"services": {"a": {"network_isolation": {"outbound_permit_only": [5]}}}}),
        json!({"service_pattern": {"shared": {"singleton": "a"}}}),
        json!("[".repeat(100_000)),
    ] {
        assert!(privileged(bad.clone()).is_err(), "{bad}");
    }
    let secrets = declared_secrets(
        "s",
        &json!({"services": {"a": {"secrets": {"x": {}}}, "b": {"secrets": {"y": {}}}}}),
    );
    assert!(secrets.unwrap().iter().eq(["x", "y"]));
    assert!(
        is_empty(&json!({})) && is_empty(&json!("")) && is_empty(&Value::Null) && !is_empty(&json!("{}"))
    );
}

#[test]
fn service_ids_are_made_as_the_exchange_makes_them() {
    let id = |url: &str, arch: &str| service_id("o", url, "1.0.0", arch).to_string();
    assert_eq!(id("https://a.example/b?c", "amd64"), "o/a.example-b-c_1.0.0_amd64");
    assert_eq!(id("cam.x_y", "*"), "o/cam.x_y_1.0.0_*");
}

#[test]
fn confined_agent_takes_its_own_namespace_only() {
    let choice = NamespaceChoice { agent: "ns", is_scoped: true, deployer: "", pattern_id: "" };
    let named = |namespace: &str| json!({"metadata": {"namespace": namespace}});
    let class = |choice: NamespaceChoice<'_>, deployment: Value| {
        choice.resolve(&deployment).map_err(|refusal| match refusal {
            NamespaceError::Incompatible(obstacle) => obstacle.class(),
            NamespaceError::NotText => "not text",
        })
    };
    assert_eq!(class(choice, named("ns")), Ok("ns".into()));
    assert_eq!(class(choice, named("other")), Err("service_namespace_mismatch"));
    assert_eq!(class(NamespaceChoice { deployer: "ns", ..choice }, named("other")), Ok("ns".into()));
    assert_eq!(
        class(NamespaceChoice { deployer: "x", ..choice }, named("ns")),
        Err("policy_namespace_mismatch")
    );
    assert_eq!(class(NamespaceChoice { is_scoped: false, ..choice }, named("other")), Ok("other".into()));
    assert_eq!(
        class(NamespaceChoice { pattern_id: "o/p", ..choice }, json!({})),
        Err("pattern_namespace_mismatch")
    );
    let anywhere = NamespaceChoice { agent: "", is_scoped: false, ..choice };
    assert_eq!(class(anywhere, Value::Null), Ok("openhorizon-agent".into()));
    for unreadable in [json!("x"), json!([1]), json!({"metadata": null})] {
        assert_eq!(class(choice, unreadable), Err("cluster_deployment_unreadable"));
    }
    assert_eq!(class(choice, json!({"metadata": {"namespace": 5}})), Err("not text"));
}

#[test]
fn namespace_that_is_not_text_in_one_version_refuses_the_whole_check() {
    let version = |version: &str, namespace: Value| {
        let mut definition = camera(version, Value::Null);
        definition.cluster_deployment = json!({"metadata": {"namespace": namespace}});
        definition
    };
    let catalog = ServiceCatalog::from_iter([version("1.0.0", json!("ns")), version("2.0.0", json!(5))]);
    let mut policy = policy(json!({}));
    policy.service.versions = serde_json::from_value(json!([
        {"version": "1.0.0", "priority": {"priority_value": 1, "retries": 1, "retry_durations": 1}},
        {"version": "2.0.0", "priority": {"priority_value": 2, "retries": 1, "retry_durations": 1}},
    ]))
    .unwrap();
    let node = NodePolicy::default();
    let mut check = check(&node, &policy, &catalog);
    check.node.node_type = "cluster";
    assert!(
        matches!(check.run(), Err(CheckError::NamespaceNotText { service }) if service.as_str() == "acme/cam_2.0.0_amd64")
    );
    let mut with_namespace = policy.clone();
    with_namespace.service.cluster_namespace = "ns".into();
    let report = PolicyCheck { deployment_policy: &with_namespace, ..check }.run().unwrap();
    assert!(report.is_compatible);
}
