//! Nodes that a management policy selects; the hub does not list them, so the rule is applied here (agreement
//! protocol 6.1).

use evenkeel_client::Records;
use evenkeel_domain::policy::reference_json::from_value;
use evenkeel_domain::policy::terms::failed_clauses;
use evenkeel_domain::policy::{ExternalPolicy, NodePolicy};
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::management_policy::ManagementPolicyResponse;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_part::NodePolicyResponse;

use crate::context::{Exchange, split_name};
use crate::exit::{CliError, Exit, Outcome};

/// The nodes of each management policy, by qualified names.
///
/// # Errors
/// With status 5 when a node's policy cannot be read.
pub async fn matching_nodes(
    exchange: &Exchange,
    policies: &Records,
    nodes: &Records,
) -> Outcome<Vec<(String, Vec<String>)>> {
    let mut known = Vec::new();
    for (name, record) in nodes {
        let node: NodeResponse = exchange.server.read(&format!("reading node {name}"), record)?;
        let management =
            if node.pattern.is_empty() { management_policy(exchange, name).await? } else { None };
        known.push((name, node.pattern, management));
    }
    let mut found = Vec::new();
    for (name, record) in policies {
        let policy = Wanted::of(exchange, name, record)?;
        let mut matching = Vec::new();
        for (node_name, pattern, management) in &known {
            if is_for(&policy, node_name, pattern, management.as_ref())? {
                matching.push((*node_name).clone());
            }
        }
        found.push((name.clone(), matching));
    }
    Ok(found)
}

async fn management_policy(exchange: &Exchange, node: &str) -> Outcome<Option<ExternalPolicy>> {
    let id = exchange.node_id(node);
    let stored = exchange.server.client.node_policy(&id);
    let Some(stored) = exchange.server.call(&format!("reading the policy of node {node}"), stored).await?
    else {
        return Ok(None);
    };
    let version: NodePolicyResponse =
        exchange.server.read(&format!("reading the policy of node {node}"), &stored)?;
    let policy: NodePolicy =
        from_value(stored.as_value()).map_err(|error| unreadable(node, error.reason()))?;
    let policy = NodePolicy::from_stored(policy, &version.node_policy_version)
        .map_err(|error| unreadable(node, error.to_string()))?;
    Ok(Some(policy.management_policy()))
}

/// Nodes that a management policy is for.
struct Wanted {
    patterns: Vec<String>,
    /// Its properties and constraints, which are parsed only when a node is compared with them.
    document: RawJson,
}

impl Wanted {
    fn of(exchange: &Exchange, name: &str, record: &RawJson) -> Outcome<Self> {
        let policy: ManagementPolicyResponse =
            exchange.server.read(&format!("reading management policy {name}"), record)?;
        Ok(Self { patterns: policy.patterns().unwrap_or_default(), document: record.clone() })
    }
}

/// Patterns decide when either side has one; otherwise the constraints of both sides.
fn is_for(
    policy: &Wanted,
    node_name: &str,
    pattern: &str,
    management: Option<&ExternalPolicy>,
) -> Outcome<bool> {
    let node_org = split_name(node_name, "").0;
    if !pattern.is_empty() || !policy.patterns.is_empty() {
        let qualified = |name: &str| {
            let (org, id) = split_name(name, &node_org);
            format!("{org}/{id}")
        };
        let wanted = qualified(pattern);
        return Ok(!pattern.is_empty() && policy.patterns.iter().any(|listed| qualified(listed) == wanted));
    }
    let Some(node_policy) = management else { return Ok(false) };
    let own: ExternalPolicy = from_value(policy.document.as_value())
        .map_err(|error| unreadable("the management policy", error.reason()))?;
    let satisfied = |constraints: &_, properties: &_| {
        failed_clauses(constraints, properties)
            .map(|failing| failing.is_none())
            .map_err(|error| unreadable(node_name, error.to_string()))
    };
    Ok(satisfied(&own.constraints, &node_policy.properties)?
        && satisfied(&node_policy.constraints, &own.properties)?)
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
    use serde_json::{Value, json};

    use super::*;

    fn policy(value: Value) -> ExternalPolicy {
        from_value(&value).expect("a policy")
    }

    fn wanted(patterns: &[&str], document: Value) -> Wanted {
        Wanted { patterns: patterns.iter().map(|one| (*one).to_owned()).collect(), document: document.into() }
    }

    #[test]
    fn constraints_of_both_sides_count_on_nodes_without_pattern() {
        let nmp = json!({"constraints": ["site == north"], "properties": [{"name": "fw", "value": 9}]});
        let nmp = wanted(&[], nmp);
        let matches =
            |management: Value| is_for(&nmp, "o/n", "", Some(&policy(management))).expect("readable");
        assert!(matches(json!({"properties": [{"name": "site", "value": "north"}]})));
        assert!(!matches(json!({"properties": [{"name": "site", "value": "south"}]})));
        let picky = json!({"properties": [{"name": "site", "value": "north"}], "constraints": ["fw >= 10"]});
        assert!(!matches(picky));
        assert_eq!(is_for(&nmp, "o/n", "", None), Ok(false));
    }

    #[test]
    fn patterns_decide_alone_when_there_are_any() {
        let nmp = wanted(&["p1", "other/p2"], json!({}));
        let of = |pattern: &str| is_for(&nmp, "o/n", pattern, None).expect("readable");
        assert!(of("o/p1") && of("other/p2") && of("p1"));
        assert!(!of("o/p2") && !of(""));
        assert_eq!(is_for(&wanted(&[], json!({"constraints": []})), "o/n", "o/p", None), Ok(false));
    }
}
