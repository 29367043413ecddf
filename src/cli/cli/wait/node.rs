//! Waits until a node is drained, or gets services again.

use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::agreement::AgreementRecord;
use evenkeel_wire::agbot::reason::Reason;
use evenkeel_wire::exchange::node_orchestration::Availability;

use super::Progress;
use super::policy::is_settled;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;

/// Progress of the agbot with a change of a node's availability.
///
/// # Errors
/// With status 5 when the agbot does not respond.
pub async fn progress(
    context: &Context,
    exchange: &Exchange,
    node: &NodeId,
    wanted: Availability,
) -> Outcome<Progress> {
    let org = node.org();
    let agbot = context.agbot(exchange)?;
    let reasons = agbot.call("asking the agbot for its reasons", agbot.client.reasons(org)).await?;
    let doing = "asking the agbot for its agreements";
    let agreements = agbot.call(doing, agbot.client.agbot_agreements(org)).await?;
    let active = agreements.active.iter().map(|record| agbot.read(doing, record));
    Ok(judge(node.as_str(), wanted, &reasons.reasons, &active.collect::<Outcome<Vec<AgreementRecord>>>()?))
}

fn judge(node: &str, wanted: Availability, reasons: &[Reason], active: &[AgreementRecord]) -> Progress {
    let pairs: Vec<&Reason> = reasons.iter().filter(|pair| pair.node.as_str() == node).collect();
    let left: Vec<&AgreementRecord> = active.iter().filter(|agreement| agreement.node == node).collect();
    match wanted {
        Availability::Drain => match left.first() {
            Some(AgreementRecord { policy, .. }) => {
                let why = pairs.iter().find(|pair| pair.policy.as_str() == policy);
                let why = why.map_or("", |pair| pair.text.as_str());
                let text = format!("{}; {policy}: {why}", agreements_left(left.len()));
                let pair_of = |record: &&AgreementRecord| {
                    pairs.iter().copied().find(|pair| pair.policy.as_str() == record.policy)
                };
                match left.iter().all(|record| pair_of(record).is_some_and(waits_for_user)) {
                    true => Progress::Held {
                        why: text,
                        advice: format!(
                            "fix the cause, or stop the remaining instances with: hzn exchange node orchestration set {} --availability drain --force",
                            node.split('/').next_back().unwrap_or(node)
                        ),
                    },
                    false => Progress::Pending(text),
                }
            }
            None => Progress::Done(format!("node {node} is drained")),
        },
        Availability::Pause => Progress::Done(format!("node {node} is paused")),
        Availability::Active => match pairs.iter().find(|pair| !is_active(pair)) {
            Some(pair) => Progress::Pending(format!("{}: {}", pair.policy, pair.text)),
            None => Progress::Done(format!("node {node} has its services")),
        },
    }
}

fn agreements_left(count: usize) -> String {
    if count == 1 { "1 agreement left".to_owned() } else { format!("{count} agreements left") }
}

/// Returns whether an instance stays on the node until a user acts.
fn waits_for_user(pair: &Reason) -> bool {
    matches!(pair.placement().blocked.kind.as_str(), "frozen" | "rollout-paused" | "update-paused")
}

fn is_active(pair: &Reason) -> bool {
    let placement = pair.placement();
    is_settled(&placement)
        && !matches!(placement.blocked.kind.as_str(), "node-draining" | "node-paused" | "frozen")
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::PolicyId;
    use serde_json::{Value, json};

    use super::*;

    fn pair(text: &str, state: Value) -> Reason {
        let (node, policy) = (NodeId::from_text("o/n"), PolicyId::from_text("o/p"));
        Reason { node, policy, state, text: text.to_owned() }
    }

    #[test]
    fn node_is_drained_when_it_has_no_agreement_left() {
        let reasons = [pair("waits", json!({}))];
        let agreement = |node: &str| AgreementRecord {
            node: node.to_owned(),
            policy: "o/p".to_owned(),
            ..AgreementRecord::default()
        };
        let judge = |active: &[AgreementRecord]| judge("o/n", Availability::Drain, &reasons, active);
        let left = [agreement("o/n"), agreement("o/m")];
        assert_eq!(judge(&left), Progress::Pending("1 agreement left; o/p: waits".to_owned()));
        assert_eq!(judge(&left[1..]), Progress::Done("node o/n is drained".to_owned()));
    }

    #[test]
    fn drain_that_only_a_user_can_continue_is_not_waited_for() {
        let frozen = json!({"placement": "waiting", "blocked": {"blocked": "frozen"}});
        let active = [AgreementRecord {
            node: "o/n".to_owned(),
            policy: "o/p".to_owned(),
            ..AgreementRecord::default()
        }];
        let found = judge("o/n", Availability::Drain, &[pair("the workload is frozen", frozen)], &active);
        let Progress::Held { why, advice } = found else { panic!("{found:?}") };
        assert_eq!(why, "1 agreement left; o/p: the workload is frozen");
        assert!(advice.contains("orchestration set n --availability drain --force"), "{advice}");
    }

    #[test]
    fn active_node_has_its_services_when_nothing_waits() {
        let judge = |state| judge("o/n", Availability::Active, &[pair("", state)], &[]);
        let draining = json!({"placement": "not-placed", "blocked": {"blocked": "node-draining"}});
        assert!(matches!(judge(draining), Progress::Pending(_)));
        let runs = json!({"placement": "placed", "version": "1.0.0", "is_running": true});
        assert!(matches!(judge(runs), Progress::Done(_)));
    }
}
