use serde_json::json;

use super::*;

const SERVICE: ServiceVersion<'_> =
    ServiceVersion { org: "acme", url: "cam", version: "1.2.0", arch: "amd64" };

fn entry(range: &str, inputs: Value) -> UserInput {
    serde_json::from_value(json!({
        "serviceOrgid": "acme", "serviceUrl": "cam", "serviceVersionRange": range, "inputs": inputs,
    }))
    .unwrap()
}

fn variable(name: &str, declared: &str, default_value: &str) -> Variable {
    Variable {
        name: name.into(),
        declared: declared.into(),
        default_value: default_value.into(),
        ..Variable::default()
    }
}

#[test]
fn input_of_the_node_overrides_that_of_the_policy_variable_by_variable() {
    let policy = entry("", json!([{"name": "RATE", "value": 5}, {"name": "MODE", "value": "a"}]));
    let node = entry("", json!([{"name": "MODE", "value": "b"}, {"name": "LIST", "value": ["x", "y"]}]));
    let merged = policy.overlay(&node);
    let values: Vec<_> =
        merged.inputs().iter().map(|input| (input.name.as_str(), input.value.clone())).collect();
    assert_eq!(values, [("RATE", json!(5)), ("MODE", json!("b")), ("LIST", json!(["x", "y"]))]);
}

#[test]
fn entry_for_other_versions_does_not_apply() {
    let entries =
        [entry("[2.0.0,3.0.0)", json!([])), entry("[1.0.0,2.0.0)", json!([{"name": "A", "value": 1}]))];
    assert_eq!(find_entry(&entries, SERVICE).unwrap(), Some(&entries[1]));
    assert!(find_entry(&[entry("[2.0", json!([]))], SERVICE).is_err());
}

#[test]
fn missing_value_wrong_type_and_missing_entry_are_distinguished() {
    let variables = [variable("RATE", "int", ""), variable("MODE", "string", "slow")];
    let check = |inputs: Value| check_variables(SERVICE, &variables, &[entry("", inputs)], &[]);
    assert_eq!(check(json!([{"name": "RATE", "value": 3.0}])), Ok(()));
    assert!(matches!(
        check(json!([{"name": "MODE", "value": "x"}])),
        Err(UserInputProblem::MissingValue { .. })
    ));
    let wrong = check(json!([{"name": "RATE", "value": 3.5}])).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "variable RATE of service acme/cam 1.2.0 amd64 is declared as int and cannot be 3.5"
    );
    let none = check_variables(SERVICE, &variables, &[], &[]).unwrap_err();
    assert_eq!(none.to_string(), "no user input is given for service acme/cam 1.2.0 amd64, which needs RATE");
}

#[test]
fn service_whose_variables_all_have_defaults_needs_nothing() {
    assert_eq!(check_variables(SERVICE, &[variable("MODE", "string", "slow")], &[], &[]), Ok(()));
}

#[test]
fn environment_starts_with_defaults_and_ends_with_the_node() {
    let variables = [variable("MODE", "string", "slow"), variable("RATE", "float", "")];
    let policy = [entry("", json!([{"name": "RATE", "value": 2.5}, {"name": "ON", "value": true}]))];
    let node = [entry("", json!([{"name": "LIST", "value": ["a", "b"]}, {"name": "N", "value": 7.0}]))];
    let environment = environment(SERVICE, &variables, &policy, &node).unwrap();
    let expected = [("LIST", "a b"), ("MODE", "slow"), ("N", "7"), ("ON", "true"), ("RATE", "2.500000")];
    assert!(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
}
