//! Vectors of internal policies: made from deployment policies, patterns and nodes, merged, compared.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::policy::internal::{InternalPolicy, Workload};
use crate::policy::reference_json::from_value;
use crate::policy::terms::{check_compatible, merge_producers, terms_and_conditions};
use crate::policy::{DeploymentPolicy, NodePolicy, Pattern};
use crate::vectors_reader::{expect_same, for_each_line};

#[test]
fn policies() {
    for_each_line("policies", check);
}

fn check(vector: &Value) -> Result<(), String> {
    match vector["kind"].as_str().unwrap_or_default() {
        "deployment_policy" => deployment_policy(vector),
        "pattern" => pattern(vector),
        "producer_policy" => producer_policy(vector),
        "terms" => terms(vector),
        "merge_producers" => {
            let merged = merge_producers(&read(vector, "left")?, &read(vector, "right")?, interval(vector));
            expect_outcome(vector, merged.is_err(), json!({ "merged": merged.ok() }))
        }
        "same_policy" => {
            let (left, right): (InternalPolicy, InternalPolicy) =
                (read(vector, "left")?, read(vector, "right")?);
            let (same, reversed) = (left.is_same(&right), right.is_same(&left));
            expect_members(vector, json!({ "same": same, "same_reversed": reversed }))
        }
        other => Err(format!("unknown kind \"{other}\"")),
    }
}

fn deployment_policy(vector: &Value) -> Result<(), String> {
    let policy: DeploymentPolicy = match from_value(&vector["deployment_policy"]) {
        Ok(policy) => policy,
        Err(_) => return expect_members(vector, json!({ "error": true, "error_at": "decode" })),
    };
    match policy.to_internal(text(vector, "policy_id")?) {
        Err(_) => {
            expect_members(vector, json!({ "error": true, "error_at": "convert", "internal_policy": null }))
        }
        Ok(internal) => expect_members(
            vector,
            json!({
                "error": false,
                "internal_policy": internal,
                "internal_policy_text": internal.to_text(),
                "no_constraints": policy.has_no_constraints(),
                "self_consistent": internal.check_self_consistent().is_ok(),
            }),
        ),
    }
}

fn pattern(vector: &Value) -> Result<(), String> {
    let pattern: Pattern = match from_value(&vector["pattern"]) {
        Ok(pattern) => pattern,
        Err(_) => return expect_members(vector, json!({ "error": true, "error_at": "decode" })),
    };
    let policies = pattern.to_internal(text(vector, "pattern_id")?);
    let error_at = policies.is_err().then_some("convert");
    expect_outcome(
        vector,
        error_at.is_some(),
        json!({ "internal_policies": policies.ok(), "error_at": error_at }),
    )
}

fn producer_policy(vector: &Value) -> Result<(), String> {
    let node: NodePolicy = read(vector, "node_policy")?;
    let policy = InternalPolicy::from_node(text(vector, "node_id")?, &node);
    expect_outcome(vector, policy.is_err(), json!({ "internal_policy": policy.ok() }))
}

fn terms(vector: &Value) -> Result<(), String> {
    let (producer, consumer): (InternalPolicy, InternalPolicy) =
        (read(vector, "producer_policy")?, read(vector, "consumer_policy")?);
    let workload: Workload = read(vector, "workload")?;
    let Ok(terms) = terms_and_conditions(&producer, &consumer, workload, interval(vector)) else {
        return expect_outcome(vector, true, json!({ "tsandcs": null }));
    };
    let received = InternalPolicy::from_text(&terms.to_text()).map_err(|error| error.to_string())?;
    expect_outcome(
        vector,
        false,
        json!({
            "tsandcs": terms,
            "tsandcs_text": terms.to_text(),
            "terms_compatible_with_producer": check_compatible(&producer, &received).is_ok(),
        }),
    )
}

/// A line on which the reference crashed requires only a refusal.
fn expect_outcome(vector: &Value, is_refused: bool, got: Value) -> Result<(), String> {
    if vector.get("fault").is_some() {
        return if is_refused { Ok(()) } else { Err("accepted what crashes the reference".to_owned()) };
    }
    expect_same("error", &vector["error"], &json!(is_refused))?;
    expect_members(vector, got)
}

fn interval(vector: &Value) -> u64 {
    vector["default_no_data_interval"].as_u64().unwrap_or_default()
}

fn text<'a>(vector: &'a Value, member: &str) -> Result<&'a str, String> {
    vector[member].as_str().ok_or_else(|| format!("{member} is not text"))
}

fn read<T: DeserializeOwned>(vector: &Value, member: &str) -> Result<T, String> {
    from_value(&vector[member]).map_err(|error| format!("{member}: {}", error.reason()))
}

fn expect_members(vector: &Value, got: Value) -> Result<(), String> {
    let Value::Object(members) = got else { return Err("the result is not an object".to_owned()) };
    members.iter().try_for_each(|(member, got)| expect_same(member, &vector[member], got))
}
