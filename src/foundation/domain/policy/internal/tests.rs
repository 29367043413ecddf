use serde_json::json;

use super::*;

fn policy(value: serde_json::Value) -> InternalPolicy {
    serde_json::from_value(value).unwrap()
}

#[test]
fn empty_policy_is_written_with_its_structures_only() {
    assert_eq!(
        InternalPolicy::named("p").to_text(),
        concat!(
            r#"{"header":{"name":"p","version":"2.0"},"valueExchange":{},"dataVerification":{"metering":{}},"#,
            r#""proposalRejection":{},"nodeHealth":{}}"#
        )
    );
}

#[test]
fn text_reads_back_as_the_same_policy_whatever_the_case_of_its_names() {
    let text = concat!(
        r#"{"Header":{"NAME":"p","version":"2.0"},"workloads":[{"workloadUrl":"cam","priority":null}],"#,
        r#""properties":[{"name":"a","value":1.5}],"constraints":null,"maxAgreements":2}"#
    );
    let read = InternalPolicy::from_text(text).unwrap();
    assert_eq!(
        (read.header.name.as_str(), read.workloads[0].url.as_str(), read.max_agreements),
        ("p", "cam", 2)
    );
    assert_eq!(InternalPolicy::from_text(&read.to_text()).unwrap(), read);
    assert!(InternalPolicy::from_text(r#"{"maxAgreements":"2"}"#).is_err());
    let long = json!({"constraints": vec!["a == b"; MAX_ENTRIES + 1]}).to_string();
    assert!(InternalPolicy::from_text(&long).unwrap_err().reason().contains("too many"));
}

#[test]
fn namespace_of_a_node_that_is_not_text_is_refused() {
    let node: NodePolicy = serde_json::from_value(
        json!({"properties": [{"name": "openhorizon.kubernetesNamespace", "value": 5}]}),
    )
    .unwrap();
    assert_eq!(InternalPolicy::from_node("o/n", &node), Err(NodeConversionError::NamespaceNotText));
}

#[test]
fn contradictions_inside_a_policy_are_found() {
    let check = |value| policy(value).check_self_consistent();
    assert_eq!(check(json!({})), Ok(()));
    let metering = json!({"dataVerification": {"metering": {"tokens": 1}}});
    assert_eq!(check(metering), Err(SelfConsistencyError::DataVerification(DataVerificationError::Metering)));
    assert!(matches!(
        check(json!({"dataVerification": {"interval": 1, "check_rate": 2}})),
        Err(SelfConsistencyError::DataVerification(DataVerificationError::IntervalTooShort { .. }))
    ));
    assert!(matches!(
        check(json!({"agreementProtocols": [{"name": "Other"}]})),
        Err(SelfConsistencyError::UnsupportedProtocol { .. })
    ));
    let two = |one: i64, two: i64| {
        json!({"workloads": [
            {"workloadUrl": "a", "organization": "o", "version": "1.0.0", "priority": {"priority_value": one}},
            {"workloadUrl": "a", "organization": "o", "version": "2.0.0", "priority": {"priority_value": two}},
        ]})
    };
    assert_eq!(check(two(1, 2)), Ok(()));
    assert_eq!(check(two(1, 1)), Err(SelfConsistencyError::DuplicatePriority { value: 1 }));
    assert!(matches!(check(two(1, 0)), Err(SelfConsistencyError::MissingPriority { .. })));
    assert_eq!(check(json!({"workloads": [{"workloadUrl": "a"}]})), Err(SelfConsistencyError::MixedForms));
}

#[test]
fn offered_dependencies_must_be_required_and_in_range() {
    let spec = |url: &str, version: &str| ApiSpec {
        url: url.into(),
        org: "o".into(),
        version: version.into(),
        is_exclusive: true,
        arch: "amd64".into(),
    };
    let offered = [spec("gps", "1.2.0")];
    assert_eq!(support_required_specs(&offered, &[]), Ok(()));
    assert_eq!(support_required_specs(&offered, &[spec("gps", "[1.0.0,2.0.0)")]), Ok(()));
    assert_eq!(support_required_specs(&offered, &[spec("gps", "2.0.0")]), Err(Some(&offered[0])));
    assert_eq!(support_required_specs(&[], &[spec("gps", "1.0.0")]), Err(None));
}
