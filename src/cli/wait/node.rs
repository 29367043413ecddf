//! Waits until a node is drained, or gets services again.

use evenkeel_wire::exchange::node_orchestration::Availability;
use serde_json::Value;

use super::policy::is_settled;
use super::{Progress, entries, read, text};
use crate::context::{Context, Exchange};
use crate::exit::Outcome;

/// How far the agbot has carried out a change of a node's availability.
///
/// # Errors
/// With status 5 when the agbot does not answer.
pub async fn progress(
    context: &Context,
    exchange: &Exchange,
    node: &str,
    wanted: Availability,
) -> Outcome<Progress> {
    let (org, _) = exchange.split(node);
    let reasons = read(context, exchange, &org, "reasons").await?;
    let agreements = read(context, exchange, &org, "agreements").await?;
    Ok(judge(node, wanted, &reasons, &agreements))
}

fn judge(node: &str, wanted: Availability, reasons: &Value, agreements: &Value) -> Progress {
    let of_node = |entry: &&Value| text(entry, "/node") == node;
    let pairs: Vec<&Value> = entries(reasons, "reasons").iter().filter(of_node).collect();
    let active = agreements.pointer("/agreements/active").and_then(Value::as_array);
    let left: Vec<&Value> = active.into_iter().flatten().filter(of_node).collect();
    match wanted {
        Availability::Drain => match left.first() {
            Some(agreement) => {
                let policy = text(agreement, "/policy");
                let why = pairs.iter().find(|pair| text(pair, "/policy") == policy);
                let why = why.map_or("", |pair| text(pair, "/text"));
                Progress::Pending(format!("{} agreements left; {policy}: {why}", left.len()))
            }
            None => Progress::Done(format!("node {node} is drained")),
        },
        Availability::Pause => Progress::Done(format!("node {node} is paused")),
        Availability::Active => match pairs.iter().find(|pair| !is_active(pair)) {
            Some(pair) => Progress::Pending(format!("{}: {}", text(pair, "/policy"), text(pair, "/text"))),
            None => Progress::Done(format!("node {node} has its services")),
        },
    }
}

fn is_active(pair: &Value) -> bool {
    let blocked = text(pair, "/state/blocked/blocked");
    is_settled(pair) && !matches!(blocked, "node-draining" | "node-paused")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_is_drained_when_it_has_no_agreement_left() {
        let reasons = json!({"reasons": [{"node": "o/n", "policy": "o/p", "text": "waits", "state": {}}]});
        let left = json!({"agreements": {"active": [{"node": "o/n", "policy": "o/p"}, {"node": "o/m"}]}});
        let none = json!({"agreements": {"active": [{"node": "o/m"}]}});
        let judge = |agreements| judge("o/n", Availability::Drain, &reasons, agreements);
        assert_eq!(judge(&left), Progress::Pending("1 agreements left; o/p: waits".to_owned()));
        assert_eq!(judge(&none), Progress::Done("node o/n is drained".to_owned()));
    }

    #[test]
    fn active_node_has_its_services_when_nothing_waits() {
        let pair = |state: Value| json!({"reasons": [{"node": "o/n", "policy": "o/p", "state": state}]});
        let judge = |state| judge("o/n", Availability::Active, &pair(state), &json!({}));
        let draining = json!({"placement": "not-placed", "blocked": {"blocked": "node-draining"}});
        assert!(matches!(judge(draining), Progress::Pending(_)));
        let runs = json!({"placement": "placed", "version": "1.0.0", "is_running": true});
        assert!(matches!(judge(runs), Progress::Done(_)));
    }
}
