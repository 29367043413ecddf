//! One rollout in detail, with the time left and what failing nodes have in common.

use axum::Json;
use evenkeel_agbot::Context;
use evenkeel_api::Refusal;
use evenkeel_explain::explain::update_of;
use evenkeel_ids::PolicyId;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::rollout::{Rollout, RolloutState};
use evenkeel_status::rollout_detail::detail_of;
use evenkeel_wire::agbot::orchestration::UpdateProgress;
use evenkeel_wire::agbot::rollout_detail::RolloutDetail;
use http::StatusCode;

use super::path::PolicyPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::SeenNodes;
use crate::shown::common::common_causes;
use crate::shown::workload_shape::Shape;

/// Common values that are shown.
const COMMON: usize = 10;

/// Returns the rollout of a deployment policy in detail.
pub(super) async fn get_rollout(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
) -> Result<Json<RolloutDetail>, Refusal> {
    let Op { request: AgbotRequest { context, kept, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let seen = permission.into_proof().seen;
    let policy = PolicyId::new(&org, &name);
    kept.rollout.get(&seen, policy.to_string(), || rollout(&context, &policy, &seen)).map(Json)
}

fn rollout(context: &Context, policy: &PolicyId, seen: &SeenNodes) -> Result<RolloutDetail, Refusal> {
    let now = context.now();
    let shape = Shape { policy, seen, now };
    let model = context.model();
    let missing = || Refusal::new(StatusCode::NOT_FOUND, format!("the policy {policy} has no rollout"));
    let detail = detail_of(&model, policy, now).ok_or_else(missing)?;
    let has_tasks = model.workload(policy).is_some();
    let shown = seen.set(&model);
    let common = (!detail.failing.is_empty()).then(|| {
        let (reference, found) = detail.common_causes(&model, policy, shown.as_ref(), COMMON);
        common_causes(&found, reference.word(), "failing")
    });
    let update = update_of(&model, policy, now);
    let mut progress = update.map(|update| shape.update(&update, has_tasks)).unwrap_or_default();
    if !has_tasks && seen.is_all() {
        progress = UpdateProgress { message: paused_text(&model, policy), ..progress };
    }
    // The forecast plays many schedules through, which the engine need not wait for.
    drop(model);
    let common = common.filter(|common| common.failing > 0);
    Ok(shape.rollout_detail(&detail, &progress, has_tasks, common))
}

/// Returns why a rollout of a policy through one of its HA groups is paused.
fn paused_text(model: &Model, policy: &PolicyId) -> String {
    let is_held = |one: &&Rollout| one.policy == *policy && matches!(one.state, RolloutState::Held { .. });
    let held = model.rollouts().find(is_held);
    let text = |rollout: &Rollout| {
        format!("HA group {}: {}", rollout.group.name(), rollout.text().trim_start_matches("paused: "))
    };
    held.map(text).unwrap_or_default()
}
