//! Which nodes a management policy is for; the hub does not say, so the rule is applied here (agreement protocol 6.1).

use std::collections::BTreeMap;

use evenkeel_domain::policy::reference_json::from_value;
use evenkeel_domain::policy::terms::failed_clauses;
use evenkeel_domain::policy::{ExternalPolicy, NodePolicy};
use serde_json::{Map, Value};

use super::node::NODES;
use crate::context::{Exchange, split_name};
use crate::exit::{CliError, Exit, Outcome};

/// The nodes of each management policy, by qualified names.
///
/// # Errors
/// With status 5 when a node's policy cannot be read.
pub async fn matching_nodes(
    exchange: &Exchange,
    policies: &Map<String, Value>,
    nodes: &Map<String, Value>,
) -> Outcome<Vec<(String, Vec<String>)>> {
    let mut management = BTreeMap::new();
    for (name, node) in nodes {
        if text(node, "pattern").is_empty() {
            management.insert(name.as_str(), management_policy(exchange, name).await?);
        }
    }
    let mut found = Vec::new();
    for (name, policy) in policies {
        let mut matching = Vec::new();
        for (node_name, node) in nodes {
            if is_for(policy, node_name, node, management.get(node_name.as_str()).and_then(Option::as_ref))? {
                matching.push(node_name.clone());
            }
        }
        found.push((name.clone(), matching));
    }
    Ok(found)
}

async fn management_policy(exchange: &Exchange, node: &str) -> Outcome<Option<ExternalPolicy>> {
    let (org, id) = exchange.split(node);
    let path = NODES.path_of(&org, Some(&id)).push("policy");
    let Some(stored) = exchange.api.find(&format!("reading the policy of node {node}"), &path).await? else {
        return Ok(None);
    };
    let version = text(&stored, "nodePolicyVersion").to_owned();
    let policy: NodePolicy = from_value(&stored).map_err(|error| unreadable(node, error.reason()))?;
    let policy =
        NodePolicy::from_stored(policy, &version).map_err(|error| unreadable(node, error.to_string()))?;
    Ok(Some(policy.management_policy()))
}

/// Patterns decide when either side has one; otherwise the constraints of both sides.
fn is_for(
    policy: &Value,
    node_name: &str,
    node: &Value,
    management: Option<&ExternalPolicy>,
) -> Outcome<bool> {
    let node_org = split_name(node_name, "").0;
    let pattern = text(node, "pattern");
    let patterns = policy.get("patterns").and_then(Value::as_array).cloned().unwrap_or_default();
    if !pattern.is_empty() || !patterns.is_empty() {
        let qualified = |name: &str| {
            let (org, id) = split_name(name, &node_org);
            format!("{org}/{id}")
        };
        let wanted = qualified(pattern);
        return Ok(!pattern.is_empty()
            && patterns.iter().filter_map(Value::as_str).any(|listed| qualified(listed) == wanted));
    }
    let Some(node_policy) = management else { return Ok(false) };
    let own: ExternalPolicy =
        from_value(policy).map_err(|error| unreadable("the management policy", error.reason()))?;
    let satisfied = |constraints: &_, properties: &_| {
        failed_clauses(constraints, properties)
            .map(|failing| failing.is_none())
            .map_err(|error| unreadable(node_name, error.to_string()))
    };
    Ok(satisfied(&own.constraints, &node_policy.properties)?
        && satisfied(&node_policy.constraints, &own.properties)?)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn unreadable(what: &str, why: String) -> CliError {
    CliError::new(
        Exit::General,
        format!("the policy of {what} cannot be evaluated"),
        why,
        "correct that policy",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(value: Value) -> ExternalPolicy {
        from_value(&value).expect("a policy")
    }

    #[test]
    fn constraints_of_both_sides_count_on_nodes_without_pattern() {
        let nmp = json!({"constraints": ["site == north"], "properties": [{"name": "fw", "value": 9}], "patterns": []});
        let node = json!({"pattern": ""});
        let matches =
            |management: Value| is_for(&nmp, "o/n", &node, Some(&policy(management))).expect("readable");
        assert!(matches(json!({"properties": [{"name": "site", "value": "north"}]})));
        assert!(!matches(json!({"properties": [{"name": "site", "value": "south"}]})));
        let picky = json!({"properties": [{"name": "site", "value": "north"}], "constraints": ["fw >= 10"]});
        assert!(!matches(picky));
        assert_eq!(is_for(&nmp, "o/n", &node, None), Ok(false));
    }

    #[test]
    fn patterns_decide_alone_when_there_are_any() {
        let nmp = json!({"patterns": ["p1", "other/p2"]});
        let of = |pattern: &str| is_for(&nmp, "o/n", &json!({"pattern": pattern}), None).expect("readable");
        assert!(of("o/p1") && of("other/p2") && of("p1"));
        assert!(!of("o/p2") && !of(""));
        assert_eq!(is_for(&json!({"constraints": []}), "o/n", &json!({"pattern": "o/p"}), None), Ok(false));
    }
}
