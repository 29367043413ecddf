//! External workflows: the request that the hub sends for a failed member.
//!
//! The agbot that holds the workload unit makes the call; its outcome comes back like that of a node's command. A call may be repeated after a
//! crash of the hub, with the same id. Source: orchestration C6.

use evenkeel_domain::orchestration::health_policy::TemplateValues;
use evenkeel_ids::{AgreementId, NodeId};
use evenkeel_planner_record::workload::{LifecycleEvent, Task, Workflow, WorkflowCall};
use serde_json::{Map, Value, json};

/// Longest wait for a response when the policy sets none, in seconds.
const DEFAULT_TIMEOUT_SECS: u64 = 30;

/// Returns the parameters of a workflow for a member.
///
/// # Errors
/// The reason why they cannot be used.
pub(super) fn params(workflow: &Workflow, task: &Task) -> Result<Map<String, Value>, String> {
    let node = task.node.as_ref();
    let values = TemplateValues {
        node_id: node.map_or("", NodeId::as_str),
        node_name: node.map_or("", NodeId::name),
        task_id: task.id.as_str(),
        agreement_id: task.agreement.as_ref().map_or("", AgreementId::as_str),
    };
    values.replace_in(&workflow.params).map_err(|(path, rule)| format!("{path} {rule}"))
}

/// Returns the call of a workflow for a member; `longest_secs`: time of one action.
///
/// # Errors
/// The reason why it cannot be made.
pub(super) fn call(
    workflow: &Workflow,
    task: &Task,
    hint: Option<&LifecycleEvent>,
    longest_secs: u64,
) -> Result<WorkflowCall, String> {
    let params = params(workflow, task)?;
    let url = params.get("url").and_then(Value::as_str).ok_or("the workflow has no url")?.to_owned();
    let timeout = params.get("timeout").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT_SECS);
    let body = json!({
        "action": workflow.name,
        "params": params,
        "target": task.unit_id.policy,
        "member": {
            "node": task.node,
            "unit": task.unit_id.name(),
            "slot": task.slot.to_string(),
            "taskId": task.id,
            "agreementId": task.agreement,
        },
        "hints": hint,
    });
    Ok(WorkflowCall { url, timeout_secs: timeout.clamp(1, longest_secs.max(1)), body })
}
