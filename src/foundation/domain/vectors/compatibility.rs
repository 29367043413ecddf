//! Vectors of the check whether a node may run the service of a deployment policy.

use std::collections::BTreeMap;

use evenkeel_ids::ServiceId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::policy::compatibility::{
    CheckError, CompatibilityReport, NodeFacts, PolicyCheck, ServiceCatalog, ServiceDefinition,
};
use crate::policy::reference_json::from_value;
use crate::policy::{DeploymentPolicy, ExternalPolicy, NodePolicy};
use crate::vectors_reader::{expect_same, for_each_line};

#[test]
fn compatibility() {
    for_each_line("compatibility", check);
}

fn check(vector: &Value) -> Result<(), String> {
    let outcome = run(vector)?;
    if vector.get("fault").is_some() {
        return match outcome {
            Ok(report) if report.is_compatible => Err("accepted what crashes the reference".to_owned()),
            _ => Ok(()),
        };
    }
    match outcome {
        Err(error) => {
            expect_same("error_code", &vector["error_code"], &json!(error.code()))?;
            expect_same("compatible", &vector["compatible"], &Value::Null)
        }
        Ok(report) => {
            expect_same("error_code", &vector["error_code"], &Value::Null)?;
            expect_same("reasons", &vector["reasons"], &json!(report.classes()))?;
            expect_same("compatible", &vector["compatible"], &json!(report.is_compatible))
        }
    }
}

fn run(vector: &Value) -> Result<Result<CompatibilityReport, CheckError>, String> {
    let services: Vec<ServiceDefinition> = read(&vector["services"])?;
    let mut catalog: ServiceCatalog = services.iter().cloned().collect();
    let policies: BTreeMap<ServiceId, ExternalPolicy> = read(&vector["service_policies"])?;
    policies.into_iter().for_each(|(id, policy)| catalog.insert_policy(id, policy));
    let is_from_files = vector["source"] == "files";
    let node_policy: Option<NodePolicy> = read(&vector["node_policy"])?;
    let service_policy: Option<ExternalPolicy> = read(&vector["service_policy"])?;
    let deployment_policy: DeploymentPolicy = read(&vector["deployment_policy"])?;
    let node = &vector["node"];
    let text = |member: &str| node[member].as_str().unwrap_or_default();
    let check = PolicyCheck {
        node: NodeFacts {
            id: text("id"),
            arch: text("arch"),
            node_type: text("type"),
            cluster_namespace: text("cluster_namespace"),
            is_namespace_scoped: node["namespace_scoped"] == true,
            ha_group: None,
        },
        node_policy: node_policy.as_ref(),
        deployment_policy_id: "acme/policy",
        deployment_policy: &deployment_policy,
        service_policy: service_policy.as_ref(),
        given_services: if is_from_files { &services } else { &[] },
        source: &catalog,
        node_user_input: None,
    };
    Ok(check.run())
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    from_value(value).map_err(|error| error.reason())
}
