//! Vectors of node policies, of merged policies, and of service policies.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::policy::service_policy::{ServiceIdentity, merge_service_policy, with_builtin_properties};
use crate::policy::{ExternalPolicy, NodePolicy, PolicyChange};
use crate::vectors_reader::{expect_same, for_each_line};

#[test]
fn node_policy() {
    for_each_line("node_policy", check);
}

fn check(vector: &Value) -> Result<(), String> {
    match vector["kind"].as_str().unwrap_or_default() {
        "convert_v1_to_v2" => {
            let converted = NodePolicy::from_v1(&read(vector, "v1")?);
            expect_members(vector, json!({ "v2": converted }))
        }
        "effective" => effective(vector),
        "validate" => {
            let mut policy: NodePolicy = read(vector, "node_policy")?;
            let is_valid = policy.validate_and_normalize().is_ok();
            expect_members(vector, json!({ "valid": is_valid, "normalized": is_valid.then_some(policy) }))
        }
        "compare" => compare(vector),
        "merge_policies" => {
            let mut merged: ExternalPolicy = read(vector, "base")?;
            merged
                .merge(&read(vector, "addition")?, vector["replace_existing"].as_bool().unwrap_or_default());
            expect_members(vector, json!({ "merged": merged }))
        }
        "merge_service_policy" => {
            let service: ServiceIdentity = read(vector, "service")?;
            let own: Option<ExternalPolicy> = serde_json::from_value(vector["service_policy"].clone())
                .map_err(|error| error.to_string())?;
            let full = with_builtin_properties(own.as_ref(), &service);
            let merged = merge_service_policy(&read(vector, "deployment_policy")?, &full);
            expect_members(
                vector,
                json!({
                    "error": false,
                    "service_policy_with_builtins": full,
                    "merged_properties": merged.properties,
                    "merged_constraints": merged.constraints,
                }),
            )
        }
        other => Err(format!("unknown kind \"{other}\"")),
    }
}

fn effective(vector: &Value) -> Result<(), String> {
    let policy: NodePolicy = read(vector, "node_policy")?;
    expect_members(
        vector,
        json!({
            "deployment": policy.deployment_policy(),
            "management": policy.management_policy(),
            "deployment_level_empty": policy.deployment.is_empty(),
            "management_level_empty": policy.management.is_empty(),
        }),
    )
}

fn compare(vector: &Value) -> Result<(), String> {
    let old: NodePolicy = read(vector, "old")?;
    let new: Option<NodePolicy> =
        serde_json::from_value(vector["new"].clone()).map_err(|error| error.to_string())?;
    let change = old.compare(new.as_ref());
    expect_members(
        vector,
        json!({
            "deployment_change": change.deployment.bits(),
            "deployment_change_flags": flags(change.deployment),
            "management_change": change.management.bits(),
            "management_change_flags": flags(change.management),
        }),
    )
}

fn flags(change: PolicyChange) -> Vec<&'static str> {
    let named = [
        (PolicyChange::PROPERTIES, "properties"),
        (PolicyChange::CONSTRAINTS, "constraints"),
        (PolicyChange::DELETED, "deleted"),
        (PolicyChange::ALLOW_PRIVILEGED, "allow_privileged"),
    ];
    named.into_iter().filter(|(flag, _)| change.contains(*flag)).map(|(_, name)| name).collect()
}

fn read<T: DeserializeOwned + Default>(vector: &Value, member: &str) -> Result<T, String> {
    let value: Option<T> =
        serde_json::from_value(vector[member].clone()).map_err(|error| error.to_string())?;
    Ok(value.unwrap_or_default())
}

fn expect_members(vector: &Value, got: Value) -> Result<(), String> {
    let Value::Object(members) = got else { return Err("the result is not an object".to_owned()) };
    members.iter().try_for_each(|(member, got)| expect_same(member, &vector[member], got))
}
