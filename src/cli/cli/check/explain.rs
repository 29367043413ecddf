//! `hzn explain NODE POLICY`: every clause that keeps the service away, with the actual value, and the
//! agbot's reason.
//!
//! The comparison is made here, with the current documents of the exchange. The agbot's reason comes from its own
//! records, which also cover waits that no policy shows.

use std::collections::BTreeSet;

use clap::Args;
use evenkeel_domain::policy::compatibility::{Incompatibility, ServiceVerdict};
use evenkeel_domain::policy::internal::InternalPolicy;
use evenkeel_domain::policy::terms::{self, PolicyMismatch, failed_clauses};
use evenkeel_domain::policy::{ConstraintList, NodePolicy};
use evenkeel_planner_record::report::{FailedClause, Side};
use evenkeel_wire::agbot::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::Scope;
use super::definitions::{Definitions, PolicyInput};
use super::node_input::NodeInput;
use super::verdict::{GENERAL, Verdict, evaluate};
use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exchange::node_state::{DownAfter, NodeHealth};
use crate::exchange::orch;
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::reasons::reason_for;

/// Options of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    user: UserOptions,
    /// Node, as [ORG/]NODE; without POLICY after it, a deployment policy to be explained as by `exchange deployment orchestration explain`
    node: String,
    /// Deployment policy, as [ORG/]POLICY
    policy: Option<String>,
    /// With a deployment policy alone: only this node
    #[arg(long = "node", id = "node_of_policy", value_name = "NODE")]
    node_of_policy: Option<String>,
    /// With a deployment policy alone: this part, all or the name of an HA group
    #[arg(long = "unit", value_name = "UNIT")]
    workload_unit: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Obstacle {
    /// The service's id, or `general`.
    service: String,
    /// Class of the reason.
    class: &'static str,
    /// The failing clause, when it is one.
    #[serde(flatten)]
    clause: Option<FailedClause>,
    /// In words.
    text: String,
}

/// Explains why a node has, or does not have, the service of a policy.
///
/// # Errors
/// With status 8 when node or policy do not exist, 7 when they cannot be compared.
pub async fn run(arguments: &ExplainArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    let about = (arguments.workload_unit.as_deref(), arguments.node_of_policy.as_deref());
    match &arguments.policy {
        Some(policy) if about == (None, None) => {
            let show = async || explain(context, &exchange, &arguments.node, policy).await;
            context.show_watched(&arguments.watch, show).await
        }
        None => {
            let show = async || orch::explain::read(context, &exchange, &arguments.node, about).await;
            context.show_watched(&arguments.watch, show).await
        }
        Some(_) => Err(CliError::input(
            "nothing was explained",
            "--node and --unit belong to a deployment policy without a node before it",
            "use it as hzn explain NODE POLICY, or as hzn explain POLICY --node NODE",
        )),
    }
}

async fn explain(context: &Context, exchange: &Exchange, node: &str, policy: &str) -> Outcome<View> {
    let policy = PolicyInput::from_exchange(exchange, policy).await?;
    let node = NodeInput::from_exchange(exchange, node).await?;
    let definitions = Definitions::of_exchange(exchange, &policy.policy).await?;
    let compared = evaluate(Scope::All, true, &node, &policy, &definitions);
    let down_after = DownAfter::read(context, exchange, &exchange.split(&node.id).0).await?;
    let health = node.record.as_ref().map(|record| NodeHealth::of(record, Timestamp::now(), down_after));
    let reason = match reason_for(context, exchange, &node.id, &policy.id).await {
        Ok(found) => found,
        Err(error) => {
            print_note(format!("the agbot's own reason is not known: {}", error.why));
            None
        }
    };
    Ok(view(&node, health, &policy, &compared, reason))
}

fn view(
    node: &NodeInput,
    health: Option<NodeHealth>,
    policy: &PolicyInput,
    compared: &Outcome<Verdict>,
    reason: Option<Reason>,
) -> View {
    let obstacles = obstacles(node, policy, compared);
    let is_compatible = compared.as_ref().is_ok_and(|verdict| verdict.is_compatible);
    let mut table = Table::new(&["service", "result"]).keeping(&["result"]);
    if let Some(health) = health {
        table.push(["(node)".to_owned(), health.text()]);
    }
    if let Ok(verdict) = compared {
        for (service, _) in verdict.reasons.iter().filter(|(_, reason)| *reason == super::verdict::COMPATIBLE)
        {
            table.push([service.clone(), "compatible".to_owned()]);
        }
    }
    for obstacle in &obstacles {
        table.push([obstacle.service.clone(), obstacle.text.clone()]);
    }
    if let Some(reason) = &reason {
        table.push(["(agbot)".to_owned(), reason.text.clone()]);
    }
    let json = json!({
        "node": node.id,
        "policy": policy.id,
        "nodeState": health.map(|health| health.json()),
        "haGroup": node.ha_group,
        "compatible": is_compatible,
        "failing": obstacles,
        "agbot": reason.map(|reason| json!({"text": reason.text, "state": reason.state})),
    });
    View::new(json, table)
}

fn obstacles(node: &NodeInput, policy: &PolicyInput, compared: &Outcome<Verdict>) -> Vec<Obstacle> {
    let verdict = match compared {
        Ok(verdict) => verdict,
        Err(error) => return vec![cannot_compare(error)],
    };
    let unplaced = verdict.unplaced.iter().map(|blocked| of_all("not_placed", blocked.to_string()));
    let Some(report) = &verdict.report else { return unplaced.collect() };
    let own = clauses_of_policy(node, policy);
    let general = report.general.iter().map(|reason| plain(GENERAL, reason));
    let of_service = |verdict: &ServiceVerdict| -> Vec<Obstacle> {
        let one =
            |reason: &Incompatibility| obstacles_of(verdict.service_id.as_str(), reason, policy, node, &own);
        verdict.obstacles.iter().flat_map(one).collect()
    };
    unplaced.chain(general).chain(report.services.iter().flat_map(of_service)).collect()
}

fn cannot_compare(error: &CliError) -> Obstacle {
    of_all("not_comparable", error.why.clone())
}

/// An obstacle to whatever the policy deploys.
fn of_all(class: &'static str, text: String) -> Obstacle {
    Obstacle { service: GENERAL.to_owned(), class, clause: None, text }
}

fn plain(service: &str, reason: &Incompatibility) -> Obstacle {
    Obstacle { service: service.to_owned(), class: reason.class(), clause: None, text: reason.to_string() }
}

/// Returns a reason as obstacles: one for each failing clause, or a single one in words.
fn obstacles_of(
    service: &str,
    reason: &Incompatibility,
    policy: &PolicyInput,
    node: &NodeInput,
    own: &BTreeSet<String>,
) -> Vec<Obstacle> {
    let of_clause = |failed: &terms::FailedClause, side: Side, constraints: &ConstraintList| {
        let written = constraints.iter().find(|constraint| constraint.contains(failed.clause.as_str()));
        let clause = FailedClause {
            side,
            constraint: terms::reported_text(written.unwrap_or(&failed.clause)),
            clause: failed.clause.clone(),
            property: failed.property.clone(),
            actual: failed.actual.clone(),
        };
        let text = clause.to_string();
        Obstacle { service: service.to_owned(), class: reason.class(), clause: Some(clause), text }
    };
    let others = |more: usize| {
        let text = format!("and {more} more");
        (more > 0).then(|| Obstacle {
            service: service.to_owned(),
            class: reason.class(),
            clause: None,
            text,
        })
    };
    match reason {
        Incompatibility::Policies(PolicyMismatch::NodeProperties(failed)) => {
            let shown = failed.shown.iter().map(|one| match own.contains(&one.clause) {
                true => of_clause(one, Side::DeploymentPolicy, &policy.policy.constraints),
                // Constraints that are not part of the deployment policy come from the service.
                false => of_clause(one, Side::ServicePolicy, &ConstraintList::default()),
            });
            shown.chain(others(failed.more)).collect()
        }
        Incompatibility::Policies(PolicyMismatch::ConsumerProperties(failed)) => {
            let constraints = node.policy.as_ref().map(|policy| policy.deployment_policy().constraints);
            let constraints = constraints.unwrap_or_default();
            let shown = failed.shown.iter().map(|one| of_clause(one, Side::Node, &constraints));
            shown.chain(others(failed.more)).collect()
        }
        other => vec![plain(service, other)],
    }
}

/// Returns the clauses of the deployment policy itself that the node fails.
fn clauses_of_policy(node: &NodeInput, policy: &PolicyInput) -> BTreeSet<String> {
    let properties = node.policy.clone().and_then(|policy: NodePolicy| {
        let mut policy = policy;
        policy.validate_and_normalize().ok()?;
        let mut producer = InternalPolicy::from_node(&node.id, &policy).ok()?;
        producer.properties.set_ha_group(node.ha_group.as_deref());
        Some(producer.properties)
    });
    let failed = properties
        .and_then(|properties| failed_clauses(&policy.policy.constraints, &properties).ok().flatten());
    failed.into_iter().flat_map(|failed| failed.shown).map(|failed| failed.clause).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::{NodeId, PolicyId};
    use evenkeel_wire::exchange::node_orchestration::Availability;
    use serde_json::Value;

    use super::super::verdict::tests::{definitions, node, policy};
    use super::*;

    fn explained(node: &NodeInput, reason: Option<Reason>) -> View {
        let compared = evaluate(Scope::All, true, node, &policy(), &definitions());
        view(node, None, &policy(), &compared, reason)
    }

    #[test]
    fn every_failing_clause_has_its_owner_and_the_actual_value() {
        let properties = json!([{"name": "site", "value": "south"}, {"name": "camera", "value": false}]);
        let node = node(properties, json!(["purpose == clean"]));
        let view = explained(&node, None);
        let failing = view.json["failing"].as_array().expect("a list").clone();
        let clauses: Vec<(&str, &str, &Value)> = failing
            .iter()
            .filter(|one| one.get("clause").is_some())
            .map(|one| {
                (one["side"].as_str().unwrap_or(""), one["property"].as_str().unwrap_or(""), &one["actual"])
            })
            .collect();
        assert!(clauses.contains(&("deployment-policy", "site", &json!("south"))), "{clauses:?}");
        assert!(clauses.contains(&("deployment-policy", "level", &Value::Null)), "{clauses:?}");
        assert!(clauses.contains(&("service-policy", "camera", &json!(false))), "{clauses:?}");
        assert!(clauses.contains(&("node", "purpose", &json!("watch"))), "{clauses:?}");
        assert!(failing.iter().any(|one| one["class"] == "user_input"), "{failing:?}");
        assert_eq!(view.json["compatible"], json!(false));
        assert_eq!(view.table.rows.len(), failing.len());
        let whole = failing.iter().find(|one| one["property"] == "level").expect("a clause");
        assert_eq!(whole["constraint"], "site == north AND level >= 2");
    }

    #[test]
    fn obstacle_to_every_service_is_shown_first() {
        let properties = json!([{"name": "site", "value": "north"}, {"name": "level", "value": 3}, {"name": "camera", "value": true}]);
        let paused = NodeInput { availability: Availability::Pause, ..node(properties, json!([])) };
        let view = explained(&paused, None);
        assert_eq!(view.json["failing"][0]["class"], "not_placed");
        assert_eq!(view.json["compatible"], json!(false));
    }

    #[test]
    fn what_the_agbot_says_stands_beside_the_comparison() {
        let node = NodeInput { policy: None, ..node(json!([]), json!([])) };
        let reason = Reason {
            node: NodeId::from_text("acme/n1"),
            policy: PolicyId::from_text("acme/p"),
            state: json!({}),
            text: "the node has no policy".to_owned(),
        };
        let view = explained(&node, Some(reason));
        assert_eq!(view.json["agbot"]["text"], "the node has no policy");
        assert_eq!(view.json["failing"][0]["class"], "not_comparable");
        assert_eq!(view.table.rows.len(), 2);
    }
}
