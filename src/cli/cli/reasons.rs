//! Reasons of the agbot: why a node runs, or does not run, an instance of a deployment policy.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::reason::{InertPolicy, Reason};
use serde_json::{Value, json};

use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::{Table, View};

/// Returns the state of a pair of node and policy from the agbot's own records; `None` if it has none.
///
/// # Errors
/// With status 5 when the agbot does not respond.
pub async fn reason_for(
    context: &Context,
    exchange: &Exchange,
    node: &str,
    policy: &str,
) -> Outcome<Option<Reason>> {
    let agbot = context.agbot(exchange)?;
    let (org, _) = exchange.split(node);
    let found = match agbot.client.reasons(&org).await {
        Err(error) if error.is_not_found() => return Ok(None),
        found => found.map_err(|error| agbot.failed("asking the agbot for its reasons", &error))?,
    };
    let is_pair = |reason: &&Reason| reason.node.as_str() == node && reason.policy.as_str() == policy;
    if let Some(reason) = found.reasons.iter().find(is_pair) {
        return Ok(Some(reason.clone()));
    }
    let of_policy = |inert: &&InertPolicy| inert.kind == "deployment" && inert.id == policy;
    let of_node = |inert: &&InertPolicy| inert.is_of_node() && inert.id == node;
    let (policy_org, _) = exchange.split(policy);
    let elsewhere = if policy_org == org {
        Vec::new()
    } else {
        match agbot.client.reasons(&policy_org).await {
            // A caller who may read the node may not be permitted to read the other organization.
            Err(error) if error.is_not_found() || error.status() == Some(403) => Vec::new(),
            found => {
                let found =
                    found.map_err(|error| agbot.failed("asking the agbot for its reasons", &error))?;
                found.inert_policies
            }
        }
    };
    let policies = found.inert_policies.iter().chain(&elsewhere).filter(of_policy);
    let mut inert = policies.chain(found.inert_policies.iter().filter(of_node));
    Ok(inert.next().map(|inert| Reason {
        node: NodeId::from_text(node),
        policy: PolicyId::from_text(policy),
        state: json!({"inert": inert.kind}),
        text: inert.text(),
    }))
}

/// The reasons of a node or of a policy as a table; of all of an organization without either.
///
/// # Errors
/// With status 5 when the agbot does not respond.
pub async fn reasons(
    context: &Context,
    exchange: &Exchange,
    org: &str,
    (node, policy): (Option<&str>, Option<&str>),
) -> Outcome<View> {
    let agbot = context.agbot(exchange)?;
    let doing = "asking the agbot for its reasons";
    let found = agbot.call(doing, agbot.client.reason_records(org)).await?;
    let pairs = agbot.read_all(doing, found.reasons)?;
    let inert = found.inert_policies.iter().map(|one| (one, one.text()));
    let questionable = found.questionable_policies.iter().map(|one| (one, one.questionable_text()));
    let documents: Vec<(&InertPolicy, String)> = inert.chain(questionable).collect();
    Ok(reasons_view(documents, pairs, node, policy))
}

fn reasons_view(
    documents: Vec<(&InertPolicy, String)>,
    pairs: Vec<(Reason, RawJson)>,
    node: Option<&str>,
    policy: Option<&str>,
) -> View {
    let is_chosen = |reason: &Reason| {
        node.is_none_or(|node| reason.node.as_str() == node)
            && policy.is_none_or(|policy| reason.policy.as_str() == policy)
    };
    let chosen = pairs.into_iter().filter(|(reason, _)| is_chosen(reason));
    let documents = documents.into_iter();
    let documents = documents.filter_map(|(one, text)| document_reason(one, &text, (node, policy)));
    let entries: Vec<Value> = documents.chain(chosen.map(|(_, record)| record.into_value())).collect();
    let table = Table::of_list(&entries, &[("node", "node"), ("policy", "policy"), ("reason", "text")])
        .keeping(&["policy", "reason"]);
    View::new(Value::Array(entries), table)
}

/// Returns a problem of a document as a reason. An empty node or policy means all.
fn document_reason(
    document: &InertPolicy,
    text: &str,
    (node, policy): (Option<&str>, Option<&str>),
) -> Option<Value> {
    let InertPolicy { kind, id, .. } = document;
    let is_node = document.is_of_node();
    let is_chosen = match (node, policy) {
        (None, None) => true,
        (node, _) if is_node => node == Some(id),
        (_, policy) => kind == "deployment" && policy == Some(id),
    };
    let (node, policy) = if is_node { (id.as_str(), "") } else { ("", id.as_str()) };
    is_chosen.then(|| json!({"node": node, "policy": policy, "kind": kind, "text": text}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_chosen_by_node_and_policy() {
        let view = |inert: &[InertPolicy], node: Option<&str>, policy: Option<&str>| {
            let pair =
                |policy: &str| json!({"node": "o/n1", "policy": policy, "text": "x", "state": {}, "more": 1});
            let pairs = ["o/p", "o/q"].map(pair).map(RawJson::from);
            let pairs = pairs.map(|one| (one.read().expect("a reason"), one)).into();
            reasons_view(inert.iter().map(|one| (one, one.text())).collect(), pairs, node, policy)
        };
        let of_pair = view(&[], Some("o/n1"), Some("o/q")).json;
        assert_eq!(of_pair, json!([{"node": "o/n1", "policy": "o/q", "text": "x", "state": {}, "more": 1}]));
        assert_eq!(view(&[], None, None).table.rows.len(), 2);
        let inert = [("management", "o/m"), ("node", "o/n1"), ("deployment", "o/q")].map(|(kind, id)| {
            InertPolicy { kind: kind.to_owned(), id: id.to_owned(), errors: vec!["x".to_owned()] }
        });
        assert_eq!(view(&inert, None, None).table.rows.len(), 5);
        let of_node = view(&inert, Some("o/n1"), None).json;
        assert_eq!(of_node[0]["text"], "the policy of node o/n1 selects nothing: x");
        assert_eq!(view(&inert, None, Some("o/q")).json[0]["policy"], "o/q");
    }
}
