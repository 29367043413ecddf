use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::context::Context;
use crate::input::{Shaped, shaped};

fn read<T: DeserializeOwned + Serialize>(document: &Value) -> Shaped {
    shaped::<T>("the document", document, &Context::default()).expect("a document")
}

#[test]
fn members_are_found_without_regard_to_case_and_sent_in_the_spelling_of_the_exchange() {
    let document = json!({
        "LABEL": "l",
        "Service": {"Name": "cam", "ORG": "acme", "Arch": "amd64", "serviceversions": [
            {"Version": "1.0.0", "Priority": {"Priority_Value": 1, "retryDurations": 5}, "upgradepolicy": {"LifeCycle": "never"}},
        ]},
        "USERINPUT": [{"serviceURL": "cam", "inputs": [{"Name": "RATE", "VALUE": {"Kept": 1}}]}],
        "properties": [{"NAME": "p", "Value": [1]}],
        "Owner": "acme/ann", "lastupdated": "2024", "extra": 1,
    });
    let Shaped { document, unknown } = read::<DeploymentPolicyFile>(&document);
    let expected = json!({
        "label": "l",
        "service": {"name": "cam", "org": "acme", "arch": "amd64", "serviceVersions": [
            {"version": "1.0.0", "priority": {"priority_value": 1}, "upgradePolicy": {"lifecycle": "never"}},
        ]},
        "properties": [{"name": "p", "value": [1]}],
        "userInput": [{"serviceOrgid": "", "serviceUrl": "cam", "inputs": [{"name": "RATE", "value": {"Kept": 1}}]}],
    });
    assert_eq!(document, expected);
    let unknown: Vec<&str> = unknown.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(unknown, ["extra", "service.serviceVersions[0].priority.retryDurations"]);
}

#[test]
fn every_optional_member_may_be_absent_null_or_empty() {
    fn check<T: DeserializeOwned + Serialize>(whole: &Value) {
        let members = whole.as_object().expect("an object");
        for name in members.keys() {
            let mut absent = members.clone();
            absent.shift_remove(name);
            let mut null = members.clone();
            null.insert(name.clone(), Value::Null);
            let (absent, null) = (read::<T>(&absent.into()), read::<T>(&null.into()));
            assert_eq!(absent.document, null.document, "{name}");
            assert!(null.unknown.is_empty(), "{name}: {:?}", null.unknown);
        }
        assert!(read::<T>(whole).unknown.is_empty());
    }
    let properties = json!([{"name": "a", "value": 1, "type": "int"}]);
    let input = json!([{"serviceOrgid": "o", "serviceUrl": "u", "serviceArch": "a", "serviceVersionRange": "1", "inputs": []}]);
    let secrets = json!([{"serviceOrgid": "o", "serviceUrl": "u", "serviceArch": "a", "serviceVersionRange": "1",
                          "enableNodeLevelSecrets": true, "secrets": [{"a": "b"}]}]);
    let versions = json!([{"version": "1", "priority": {}, "upgradePolicy": {}, "deployment_overrides": "",
                           "deployment_overrides_signature": ""}]);
    check::<DeploymentPolicyFile>(&json!({
        "label": "l", "description": "d", "properties": properties, "constraints": ["a == b"], "userInput": input,
        "secretBinding": secrets, "owner": "o/u", "created": "t", "lastUpdated": "t",
        "service": {"name": "n", "org": "o", "arch": "a", "serviceVersions": versions,
                    "nodeHealth": {"missing_heartbeat_interval": 1, "check_agreement_status": 1}, "clusterNamespace": "c"},
    }));
    check::<PatternFile>(&json!({
        "name": "n", "org": "o", "label": "l", "description": "d", "public": true, "userInput": input, "secretBinding": secrets,
        "agreementProtocols": [{"name": "Basic"}], "clusterNamespace": "c", "owner": "o/u", "lastUpdated": "t",
        "services": [{"serviceUrl": "u", "serviceOrgid": "o", "serviceArch": "a", "agreementLess": true,
                      "serviceVersions": versions, "dataVerification": {}, "nodeHealth": {}}],
    }));
    check::<ServiceFile>(&json!({
        "org": "o", "label": "l", "description": "d", "public": true, "documentation": "d", "url": "u", "version": "1",
        "arch": "a", "sharable": "singleton", "matchHardware": {}, "deployment": {"services": {}}, "deploymentSignature": "",
        "requiredServices": [{"url": "u", "org": "o", "version": "1", "versionRange": "1", "arch": "a"}],
        "userInput": [{"name": "n", "label": "l", "type": "int", "defaultValue": "1"}],
        "clusterDeployment": "", "clusterDeploymentSignature": "", "imageStore": {}, "owner": "o/u", "lastUpdated": "t",
    }));
    let part = json!({"properties": properties, "constraints": ["a == b"]});
    check::<NodePolicyFile>(&json!({
        "label": "l", "description": "d", "properties": properties, "constraints": [], "deployment": part, "management": part,
        "nodePolicyVersion": "v2", "lastUpdated": "t",
    }));
    check::<ServicePolicyFile>(
        &json!({"label": "l", "description": "d", "properties": properties, "constraints": []}),
    );
    check::<NmpFile>(&json!({
        "label": "l", "description": "d", "properties": properties, "constraints": [], "patterns": ["o/p"], "enabled": true,
        "start": "now", "startWindow": 5, "agentUpgradePolicy": {"manifest": "m", "allowDowngrade": true, "drain": true},
        "owner": "o/u", "created": "t", "lastUpdated": "t",
    }));
}

#[test]
fn member_of_the_wrong_kind_is_named() {
    let refused = |document: Value| {
        let error = shaped::<ServiceFile>("s.json", &document, &Context::default()).expect_err("a refusal");
        assert_eq!(error.exit, Exit::Json);
        error.to_string()
    };
    assert!(refused(json!({"url": 5})).contains("url"));
    assert!(
        refused(json!({"userInput": [{"name": "a", "defaultValue": []}]}))
            .contains("userInput[0].defaultValue")
    );
    assert!(refused(json!([])).contains("an object"));
}

#[test]
fn unknown_members_are_refused_when_that_is_asked_for() {
    let strict = Context { is_strict: true, ..Context::default() };
    let document = json!({"properties": [], "propertys": []});
    let error = shaped::<NodePolicyFile>("p.json", &document, &strict).expect_err("a refusal");
    assert_eq!(error.exit, Exit::Json);
    assert!(
        error.why.contains("propertys") && error.why.contains("properties was probably meant"),
        "{error}"
    );
}

#[test]
fn settings_under_a_misspelt_name_are_refused_and_null_removes_them() {
    let document = json!({"orchestratoin": {"scale": 1}});
    assert!(shaped::<DeploymentPolicyFile>("p.json", &document, &Context::default()).is_err());
    let shaped = read::<DeploymentPolicyFile>(&json!({"orchestration": null}));
    assert_eq!(shaped.document, json!({"orchestration": null}));
}

#[test]
fn what_is_missing_is_completed_as_the_existing_tool_does() {
    let mut policy = read::<DeploymentPolicyFile>(
        &json!({"service": {"name": "n", "org": "o", "serviceVersions": [{"version": "1.0.0"}]}}),
    )
    .document;
    complete_policy("p", &mut policy).expect("complete");
    assert_eq!((&policy["label"], &policy["service"]["arch"]), (&json!(""), &json!("")));
    for incomplete in [
        json!({}),
        json!({"service": {"org": "o", "serviceVersions": [{"version": "1.0.0"}]}}),
        json!({"service": {"name": "n", "org": "o"}}),
    ] {
        let mut policy = read::<DeploymentPolicyFile>(&incomplete).document;
        assert!(complete_policy("p", &mut policy).is_err(), "{incomplete}");
    }
    let mut service = read::<ServiceFile>(&json!({
        "url": "u", "version": "1.0.0", "arch": "amd64", "userInput": [{"name": "RATE", "type": "int", "defaultValue": 5}],
    }))
    .document;
    complete_service(&mut service, "acme").expect("complete");
    assert_eq!((&service["label"], &service["sharable"]), (&json!(""), &json!("multiple")));
    assert_eq!(service["userInput"][0]["defaultValue"], json!("5"));
}

#[test]
fn policy_without_constraints_is_refused_when_it_probably_meant_to_have_some() {
    let required = |document: Value, is_confirmed: bool| {
        require_constraints("the policy", &read::<DeploymentPolicyFile>(&document), is_confirmed)
            .map_err(|error| error.exit)
    };
    assert_eq!(required(json!({"constraint": ["a == b"]}), false), Err(Exit::Input));
    assert_eq!(required(json!({"constraint": ["a == b"]}), true), Ok(()));
    assert_eq!(required(json!({"constraints": ["a == b"]}), false), Ok(()));
    assert_eq!(required(json!({}), false), Ok(()));
}

#[test]
fn group_with_misspelled_members_is_refused() {
    let required = |document: Value| {
        require_members("the group", &read::<HaGroupFile>(&document)).map_err(|error| error.exit)
    };
    assert_eq!(required(json!({"memebrs": ["n1"]})), Err(Exit::Input));
    assert_eq!(required(json!({"memebrs": ["n1"], "members": ["n1"]})), Ok(()));
    assert_eq!(required(json!({"description": "no member is given"})), Ok(()));
}

#[test]
fn user_input_is_read_in_every_form() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("input.json");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        read_user_input(Path::new(&path), &Context::default()).map_err(|error| error.exit)
    };
    let list =
        json!([{"serviceOrgid": "acme", "serviceUrl": "cam", "inputs": [{"name": "RATE", "value": 5}]}]);
    assert_eq!(read(&list.to_string()), Ok(list.clone()));
    assert_eq!(read(&json!({"UserInput": list}).to_string()), Ok(list));
    let former = r#"{"global": [], "Services": [{"org": "acme", "URL": "cam", "versionRange": "[1,2)", "variables": {"RATE": 5}}]}"#;
    let expected = json!([{"serviceOrgid": "acme", "serviceUrl": "cam", "serviceArch": "", "serviceVersionRange": "[1,2)",
                           "inputs": [{"name": "RATE", "value": 5}]}]);
    assert_eq!(read(former), Ok(expected));
    assert_eq!(read("{}"), Err(Exit::Json));
    assert_eq!(read("[]"), Ok(json!([])));
}

#[test]
fn management_policy_with_a_property_that_is_none_is_refused() {
    let refused = |properties: Value| {
        check_management_policy("o/m", &json!({"properties": properties})).map_err(|error| error.to_string())
    };
    assert_eq!(refused(json!([{"name": "a", "value": 1}])), Ok(()));
    assert_eq!(refused(Value::Null), Ok(()));
    let why = refused(json!([{"name": "a", "value": 1}, {"name": "b"}])).expect_err("it has no value");
    assert!(why.contains("management policy o/m") && why.contains("properties[1]"), "{why}");
}
