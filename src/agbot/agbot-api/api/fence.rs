//! Confirmation by an administrator that a node which is down and cannot be fenced no longer runs anything.
//!
//! Each workload with a task there records it in the row of the node, so that every agbot follows it; the next heartbeat of the node ends it.
//! Source: orchestration C8.4.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use evenkeel_agbot::{AgbotError, Context, EngineHandle};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::workload as workloads;
use evenkeel_api::Refusal;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::workload::Instance;
use evenkeel_store::retry;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;
use serde_json::json;

use super::actions::{Changed, failed, write};
use super::done;
use super::path::NodePath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};

/// Records that nothing runs on a node that is down.
pub(super) async fn confirm_fence(
    op: Op<NodePath>,
    permission: Permission<right::OrgAdminister>,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: NodePath { org, node }, .. } = op;
    let node = NodeId::new(&org, &node);
    let policies = affected(&context, &node)?;
    for policy in &policies {
        let recorded = record(&context, permission.actor(), policy, &node).await;
        recorded.map_err(|error| failed(&error))?;
    }
    context.follow_records().await;
    let names: Vec<&str> = policies.iter().map(PolicyId::as_str).collect();
    let message = match names.is_empty() {
        true => format!("no deployment policy has an instance on {node}"),
        false => format!("nothing runs on {node}: {} may start elsewhere", names.join(", ")),
    };
    Ok(Json(done(message)))
}

/// Returns the policies with a task on a node that is down.
fn affected(engine: &EngineHandle, node: &NodeId) -> Result<BTreeSet<PolicyId>, Refusal> {
    let model = engine.model();
    if model.node(node).is_none() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("node: {node} does not exist")));
    }
    if !model.is_down(node, engine.now()) {
        let text = format!("node: {node} is not down: its agent stops its instances itself");
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    let tasks = model.tasks_of(node).filter(|task| !task.state.is_ended());
    Ok(tasks.map(|task| task.unit_id.policy.clone()).collect())
}

async fn record(context: &Context, actor: &str, policy: &PolicyId, node: &NodeId) -> Result<(), AgbotError> {
    retry("workload.confirm_fence", || async {
        let mut tx = context.database.begin().await?;
        // The policy may have been deleted meanwhile, and its tasks with it.
        if workloads::lock_workload(&mut tx, policy).await?.is_none() {
            return Ok::<_, AgbotError>(());
        }
        let mut rows: BTreeMap<NodeId, Instance> = BTreeMap::new();
        for row in workloads::list_instances_of(&mut tx, policy).await? {
            rows.insert(row.node, serde_json::from_value(row.record)?);
        }
        let row = rows.remove(node).unwrap_or_default();
        let row = Instance { fenced_at: Some(context.now()), ..row };
        write(&mut tx, policy, &Changed { record: None, rows: vec![(node.clone(), row)] }).await?;
        let event = EventRow {
            happened_at: context.now(),
            kind: "fence.confirmed-by-user".to_owned(),
            ha_group: None,
            node: Some(node.clone()),
            policy: Some(policy.clone()),
            detail: json!({"actor": actor, "text": format!("{actor} confirmed that {node} is dead")}),
        };
        events::insert_event(&mut tx, &event).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}
