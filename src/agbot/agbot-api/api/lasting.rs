//! Actions of users that last: start, stop, restart, takeover, switch, giveback, recover.
//!
//! The planner decides on the model whether one is possible; the transaction stores it in the workload's row, if no other one is in
//! progress by then. Source: orchestration A6.

use std::collections::BTreeMap;

use evenkeel_agbot::{AgbotError, Context, EngineHandle};
use evenkeel_agbot_store::event as events;
use evenkeel_agbot_store::workload as workloads;
use evenkeel_api::Refusal;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_domain::orchestration::health_policy::{RecoveryAction, Target};
use evenkeel_ids::NodeId;
use evenkeel_planner_record::workload::{
    ActionGoals, Instance, LastingAction, PreparedAction, UserAction, WorkloadRecord,
};
use evenkeel_reconcile::user_action::{ActionRefusal, RequestedAction, RequestedRecovery, accept};
use evenkeel_store::retry;
use evenkeel_wire::agbot::action::ActionRequest;
use http::StatusCode;
use serde_json::json;

use super::actions::{Changed, Wanted, failed, without_tasks, write};
use super::orchestration::{node_of, unknown_part};

/// Begins an action.
pub(super) async fn begin(
    context: &Context,
    wanted: &Wanted,
    kind: LastingAction,
    request: &ActionRequest,
) -> Result<(), Refusal> {
    let policy = &wanted.policy;
    if context.model().workload(policy).is_none() {
        return Err(without_tasks(policy));
    }
    let node = request.node.as_deref().map(|name| node_of(policy.org(), name));
    let names = request.destination.iter().flatten();
    let destinations: Vec<NodeId> = names.map(|name| node_of(policy.org(), name)).collect();
    let is_forced = request.force.unwrap_or(false);
    let recovery =
        (kind == LastingAction::Recover).then(|| recovery_of(request, Target::Workload)).transpose();
    let recovery = recovery.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let requested = RequestedAction {
        kind,
        part: wanted.part.as_deref(),
        node: node.as_ref(),
        destinations: &destinations,
        is_forced,
        recovery: recovery.as_ref(),
    };
    if node.is_some() && matches!(kind, LastingAction::Switch | LastingAction::Giveback) {
        let text = format!("node cannot be given with the action {}", kind.name());
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    if recovery.as_ref().is_some_and(|recovery| recovery.examines) {
        context.check_instances_now(policy).await;
    }
    let goals = match decide(context, wanted, &requested) {
        Ok(goals) => goals,
        Err(refusal) => return Err(refuse(context, wanted, refusal).await),
    };
    let action = UserAction {
        id: wanted.id.clone(),
        name: kind.name().to_owned(),
        actor: wanted.actor.clone(),
        unit_name: wanted.part.clone(),
        accepted_at: context.now(),
        is_forced,
        goals,
    };
    match store(context, wanted, kind, &action).await.map_err(|error| failed(&error))? {
        None => Err(without_tasks(policy)),
        Some(Err(reason)) => Err(Refusal::new(StatusCode::CONFLICT, reason)),
        Some(Ok(())) => {
            context.follow_records().await;
            Ok(())
        }
    }
}

/// Returns what the action recover on a policy or an HA group is about.
pub(super) fn recovery_of(
    request: &ActionRequest,
    target: Target,
) -> Result<RequestedRecovery, MembersError> {
    let operation = match &request.operation {
        None if request.operation_params.is_some() => {
            let (path, rule) = ("operation_params".to_owned(), "needs operation".to_owned());
            return Err(MembersError { path, rule });
        }
        None => None,
        Some(name) => {
            let action = RecoveryAction::read_operation(name, request.operation_params.clone(), target)?;
            Some(PreparedAction::from(&action))
        }
    };
    Ok(RequestedRecovery {
        examines: request.check.unwrap_or(false),
        fills_up: request.check_capacity.unwrap_or(false),
        operation,
    })
}

/// Returns what an action is to reach; one that is in progress is named before any other reason to refuse it.
fn decide(
    engine: &EngineHandle,
    wanted: &Wanted,
    requested: &RequestedAction<'_>,
) -> Result<ActionGoals, ActionRefusal> {
    let model = engine.model();
    let goals = accept(&model, &wanted.policy, requested, engine.now());
    let known = model.workload(&wanted.policy).and_then(|record| record.action.as_ref());
    match (known, goals) {
        (Some(other), Err(ActionRefusal::Conflict(_))) => Err(ActionRefusal::Conflict(other.conflict())),
        (_, goals) => goals,
    }
}

/// Records a refusal that the state of the policy is the reason of.
async fn refuse(context: &Context, wanted: &Wanted, refusal: ActionRefusal) -> Refusal {
    let reason = match refusal {
        ActionRefusal::Malformed(text) => return Refusal::new(StatusCode::BAD_REQUEST, text),
        ActionRefusal::NoPart(name) => return unknown_part(&wanted.policy, &name),
        ActionRefusal::NoNode { node, part } => {
            let unit = part.map(|part| format!("the unit {part} of ")).unwrap_or_default();
            let text =
                format!("node: {node} does not belong to {unit}the deployment policy {}", wanted.policy);
            return Refusal::new(StatusCode::NOT_FOUND, text);
        }
        ActionRefusal::Conflict(reason) => reason,
    };
    match wanted.record_refusal(&reason, context).await {
        Ok(()) => Refusal::new(StatusCode::CONFLICT, reason),
        Err(unwritten) => unwritten,
    }
}

/// Stores an action in the row of its workload; none when the policy has no tasks.
async fn store(
    context: &Context,
    wanted: &Wanted,
    kind: LastingAction,
    action: &UserAction,
) -> Result<Option<Result<(), String>>, AgbotError> {
    let parts = context.model().parts_of(&wanted.policy);
    retry("workload.begin", || async {
        let mut tx = context.database.begin().await?;
        let Some(stored) = workloads::lock_workload(&mut tx, &wanted.policy).await? else {
            return Ok::<_, AgbotError>(None);
        };
        let record: WorkloadRecord = serde_json::from_value(stored)?;
        let mut rows: BTreeMap<NodeId, Instance> = BTreeMap::new();
        for row in workloads::list_instances_of(&mut tx, &wanted.policy).await? {
            rows.insert(row.node, serde_json::from_value(row.record)?);
        }
        let outcome = match record.begin(action.clone()) {
            Ok(next) => {
                let changed = Changed { record: Some(next), rows: action.changed_rows(&rows, &parts) };
                write(&mut tx, &wanted.policy, &changed).await?;
                let begun = wanted.event(kind.event_kind(), None, &wanted.text(), context);
                let mut rows = [wanted.accepted(context), begun];
                if let Some(members) = action.members() {
                    rows.iter_mut().for_each(|row| row.detail["members"] = json!(members));
                }
                events::insert_events(&mut tx, context.now(), &rows).await?;
                Ok(())
            }
            Err(reason) => {
                events::insert_event(&mut tx, &wanted.refused(&reason, context)).await?;
                Err(reason)
            }
        };
        tx.commit().await?;
        Ok(Some(outcome))
    })
    .await
}
