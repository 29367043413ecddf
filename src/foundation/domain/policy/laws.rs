//! Laws that hold for every input: nothing panics, and written values read back as equal.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::compatibility::namespace::NamespaceChoice;
use super::compatibility::{NodeFacts, PolicyCheck, ServiceCatalog, ServiceDefinition, deployment};
use super::internal::{InternalPolicy, Workload};
use super::reference_json::{from_value, to_text};
use super::terms::{all_mismatches, check_compatible, merge_producers, terms_and_conditions};
use super::{DeploymentPolicy, ExternalPolicy, NodePolicy, Pattern};

/// Meaningful words, so that generated JSON gets past the first check.
const WORDS: [&str; 40] = [
    "header",
    "name",
    "version",
    "properties",
    "constraints",
    "value",
    "type",
    "service",
    "org",
    "arch",
    "serviceVersions",
    "priority",
    "priority_value",
    "retries",
    "retry_durations",
    "userInput",
    "inputs",
    "serviceOrgid",
    "serviceUrl",
    "secretBinding",
    "secrets",
    "deployment",
    "services",
    "privileged",
    "network",
    "metadata",
    "namespace",
    "clusterDeployment",
    "dataVerification",
    "metering",
    "tokens",
    "interval",
    "enabled",
    "workloads",
    "requiredServices",
    "url",
    "versionRange",
    "nodeHealth",
    "agreementProtocols",
    "clusterNamespace",
];

const TEXTS: [&str; 14] = [
    "",
    "acme",
    "1.0.0",
    "[1.0.0,2.0.0)",
    "*",
    "amd64",
    "a == 1",
    "(a != b OR c in \"x,y\") AND d > 2",
    "a ==",
    "openhorizon.allowPrivileged",
    "openhorizon.kubernetesNamespace == x",
    "2.0",
    "true",
    "<&\u{2028}é",
];

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(&WORDS[..]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => prop::sample::select(&TEXTS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn properties() -> impl Strategy<Value = Value> {
    let property = (prop::sample::select(vec!["a", "b", "c", "d"]), any::<f64>(), text(), any::<bool>())
        .prop_map(|(name, number, text, is_number)| match is_number {
            true => json!({"name": name, "value": number}),
            false => json!({"name": name, "value": text}),
        });
    prop::collection::vec(property, 0..5).prop_map(Value::from)
}

fn internal_policy() -> impl Strategy<Value = InternalPolicy> {
    (text(), properties(), prop::collection::vec(text(), 0..3), any::<i64>(), any::<u64>(), any_json())
        .prop_map(|(name, properties, constraints, secs, tokens, input)| {
            from_value(&json!({
                "header": {"name": name, "version": "2.0"},
                "properties": properties,
                "constraints": constraints,
                "maxAgreements": secs,
                "dataVerification": {
                    "enabled": secs % 2 == 0, "interval": secs, "check_rate": -1,
                    "metering": {"tokens": tokens, "per_time_unit": "min", "notification_interval": secs},
                },
                "userInput": [{"serviceUrl": name, "inputs": [{"name": "x", "value": input}]}],
            }))
            .unwrap()
        })
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        if let Ok(policy) = from_value::<InternalPolicy>(&value) {
            let _consistent = policy.check_self_consistent();
        }
        if let Ok(policy) = from_value::<DeploymentPolicy>(&value) {
            let _internal = policy.to_internal("o/p");
        }
        if let Ok(pattern) = from_value::<Pattern>(&value) {
            let _internal = pattern.to_internal("o/p");
        }
        if let Ok(policy) = from_value::<NodePolicy>(&value) {
            let _producer = InternalPolicy::from_node("o/n", &policy);
        }
        let _needs = deployment::needs_privileges("s", &value);
        let _secrets = deployment::declared_secrets("s", &value);
        let _namespace = NamespaceChoice::default().resolve(&value);
    }

    #[test]
    fn written_policy_reads_back_and_is_written_alike(policy in internal_policy()) {
        let text = policy.to_text();
        let read = InternalPolicy::from_text(&text).unwrap();
        prop_assert_eq!(read.to_text(), text);
        prop_assert!(policy.is_same(&read) && read.is_same(&policy));
        let canonical: Value = serde_json::from_str(&policy.to_text()).unwrap();
        prop_assert_eq!(from_value::<InternalPolicy>(&canonical).unwrap().to_text(), to_text(&policy));
    }

    #[test]
    fn terms_exist_exactly_for_compatible_policies(left in internal_policy(), right in internal_policy()) {
        let suits = check_compatible(&left, &right).is_ok();
        prop_assert_eq!(suits, all_mismatches(&left, &right).is_empty());
        let terms = terms_and_conditions(&left, &right, Workload::default(), u64::MAX);
        prop_assert_eq!(suits, terms.is_ok());
        if let Ok(merged) = merge_producers(&left, &right, 0) {
            prop_assert_eq!(merged.max_agreements, left.max_agreements.min(right.max_agreements));
        }
    }

    #[test]
    fn check_of_any_input_ends_with_a_report_or_an_error(
        (node, policy, service) in (any_json(), any_json(), any_json()),
        node_type in prop::sample::select(vec!["", "device", "cluster", "other"]),
        is_namespace_scoped: bool,
    ) {
        let node: NodePolicy = from_value(&node).unwrap_or_default();
        let mut policy: DeploymentPolicy = from_value(&policy).unwrap_or_default();
        policy.service.name = "acme".into();
        policy.service.org = "acme".into();
        policy.service.versions = vec![from_value(&json!({"version": "1.0.0"})).unwrap()];
        let mut definition: ServiceDefinition = from_value(&service).unwrap_or_default();
        (definition.org, definition.url, definition.version) = ("acme".into(), "acme".into(), "1.0.0".into());
        definition.deployment = service.clone();
        definition.cluster_deployment = service;
        let catalog = ServiceCatalog::from_iter([definition.clone()]);
        let given = ExternalPolicy::default();
        let facts = NodeFacts { id: "o/n", node_type, is_namespace_scoped, ..NodeFacts::default() };
        for service_policy in [None, Some(&given)] {
            let check = PolicyCheck {
                node: facts,
                node_policy: Some(&node),
                deployment_policy_id: "o/p",
                deployment_policy: &policy,
                service_policy,
                given_services: std::slice::from_ref(&definition),
                source: &catalog,
                node_user_input: Some(&[]),
            };
            if let Ok(report) = check.run() {
                let found = report.services.iter().any(super::compatibility::ServiceVerdict::is_compatible);
                prop_assert_eq!(report.is_compatible, found);
                prop_assert_eq!(report.general.is_some(), report.services.is_empty());
            }
        }
    }
}
