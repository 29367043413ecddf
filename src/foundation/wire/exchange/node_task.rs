//! Tasks of a node: the state desired by the engine, and the state reported by the node.
//!
//! Source: orchestration 1.8, B3.

use evenkeel_domain::object::{Members, MembersError, Object};
use evenkeel_domain::orchestration::{DesiredState, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::task_health::{NodeCommand, TaskHealth, TaskSupervision};

/// Name and version by which an agent states in `softwareVersions` that it reads tasks.
///
/// # Source
/// Orchestration 1.1-4.
pub const TASKS_SOFTWARE: (&str, &str) = ("orchestration", "1");

/// Longest message or error of a report, in bytes.
pub const LONGEST_TEXT: usize = 4096;

/// Maximum number of containers in a report.
const MOST_CONTAINERS: usize = 128;

/// Longest `containers` of a report, in bytes.
const LONGEST_CONTAINERS: usize = 64 * 1024;

const STATUS: Members =
    Members { known: &["state", "seq", "at", "message", "err", "exitCode", "containers"], unsupported: &[] };

/// Publishes the desired state of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeTask {
    /// The deployment policy, `org/policy`.
    pub policy: String,
    /// Name of the workload unit: `all`, or that of an HA group.
    #[serde(rename = "unit")]
    pub workload_unit: String,
    /// Number of the slot; none when the slot is the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<i64>,
    /// Version of the task's spec.
    pub spec_version: i64,
    /// The wanted state: `ready`, `running`, `shutdown` or `remove`.
    #[schema(value_type = String)]
    pub desired_state: DesiredState,
    /// The agreement that the task owns; none before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement_id: Option<String>,
    /// Fencing number of the agbot's lease.
    pub fencing: i64,
    /// Supervision of the task by the agent.
    #[serde(default, skip_serializing_if = "TaskSupervision::is_empty")]
    pub supervision: TaskSupervision,
}

response! {
    /// The tasks of a node.
    pub struct NodeTasksResponse {
        /// The tasks by id.
        tasks: Vec<NodeTask>,
        /// The commands that have not ended.
        commands: Vec<NodeCommand>,
    }
}

response! {
    /// A task of a node.
    pub struct NodeTask {
        /// Id.
        task_id: String,
        /// The deployment policy, `org/policy`.
        policy: String,
        /// Name of the workload unit: `all`, or that of an HA group.
        #[serde(rename = "unit")]
        workload_unit: String,
        /// Number of the slot; none when the slot is the node.
        slot: Option<i64>,
        /// Version of the task's spec.
        spec_version: i64,
        /// The wanted state: `ready`, `running`, `shutdown` or `remove`.
        #[schema(value_type = String)]
        desired_state: DesiredState,
        /// The agreement that the task owns.
        agreement_id: Option<String>,
        /// Fencing number of the agbot's lease.
        fencing: i64,
        /// The agbot that published the task, as `org/agbot`; none for tasks that were published before this was recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        agbot: Option<String>,
        /// Supervision of the task by the agent.
        #[serde(skip_serializing_if = "TaskSupervision::is_empty")]
        #[schema(required = false)]
        supervision: TaskSupervision,
        /// Health of the task, as the node reported it.
        health: Option<TaskHealth>,
        /// The reported state, `assigned` before the first report.
        #[schema(value_type = String)]
        state: TaskState,
        /// Sequence number of the last report.
        seq: i64,
        /// Time of the last report, by the node's clock.
        at: Option<String>,
        /// Human-readable message of the last report.
        message: Option<String>,
        /// Error of the last report.
        err: Option<String>,
        /// Exit code of an ended task.
        exit_code: Option<i32>,
        /// Last change.
        last_updated: String,
    }
}

/// Reports the state of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", try_from = "Value", deny_unknown_fields)]
pub struct PutNodeTaskStatus {
    /// The state, from `accepted` on.
    #[schema(value_type = String)]
    pub state: TaskState,
    /// Sequence number, which grows with every report of a task.
    pub seq: i64,
    /// Time of the change, by the node's clock.
    pub at: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<String>,
    /// Exit code of an ended task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its containers. They are checked and not stored: the status of the node has the containers that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>, required = false)]
    pub containers: Vec<Value>,
}

impl TryFrom<Value> for PutNodeTaskStatus {
    type Error = MembersError;

    fn try_from(value: Value) -> Result<Self, MembersError> {
        let mut report = Object::open(String::new(), value, &STATUS)?;
        let needed = |report: &Object, name: &str| report.broken(name, "must be given");
        // A node reports nothing before it has accepted the task.
        let states = TaskState::ALL.into_iter().filter(|state| *state != TaskState::Assigned);
        let states: Vec<_> = states.map(|state| (state.word(), Some(state))).collect();
        let exit_codes = i64::from(i32::MIN)..=i64::from(i32::MAX);
        let exit_code = report.integer("exitCode", exit_codes)?;
        Ok(Self {
            state: report.word("state", &states)?.ok_or_else(|| needed(&report, "state"))?,
            seq: report.integer("seq", 1..=i64::MAX)?.ok_or_else(|| needed(&report, "seq"))?,
            at: instant(&mut report)?.ok_or_else(|| needed(&report, "at"))?,
            message: report.text("message", LONGEST_TEXT)?,
            err: report.text("err", LONGEST_TEXT)?,
            exit_code: exit_code.and_then(|code| i32::try_from(code).ok()),
            containers: containers(&mut report)?,
        })
    }
}

fn instant(report: &mut Object) -> Result<Option<String>, MembersError> {
    let Some(at) = report.take("at") else { return Ok(None) };
    let text = at.as_str().filter(|at| at.parse::<Timestamp>().is_ok());
    let broken = || report.broken("at", "must be an ISO 8601 date and time with its zone");
    text.map(|at| Some(at.to_owned())).ok_or_else(broken)
}

fn containers(report: &mut Object) -> Result<Vec<Value>, MembersError> {
    let Some(value) = report.take("containers") else { return Ok(Vec::new()) };
    if value.to_string().len() > LONGEST_CONTAINERS {
        let rule = format!("must not be longer than {LONGEST_CONTAINERS} bytes");
        return Err(report.broken("containers", &rule));
    }
    match value {
        Value::Array(items) if items.len() > MOST_CONTAINERS => {
            Err(report.broken("containers", &format!("must not hold more than {MOST_CONTAINERS} containers")))
        }
        Value::Array(items) if items.iter().all(Value::is_object) => Ok(items),
        _ => Err(report.broken("containers", "must be a list of objects")),
    }
}

/// The refusal of a write that the stored task does not allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskConflict {
    /// `conflict`.
    pub code: String,
    /// Human-readable message.
    pub msg: String,
    /// The stored state.
    #[schema(value_type = String)]
    pub state: TaskState,
    /// Sequence number of the last report.
    pub seq: i64,
    /// The stored wanted state.
    #[schema(value_type = String)]
    pub desired_state: DesiredState,
    /// The stored fencing number.
    pub fencing: i64,
}

/// Names the fencing number of the caller's lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct FencingQuery {
    /// Fencing number of the caller's lease; a smaller one than the stored one is rejected.
    #[serde(default)]
    pub fencing: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn report_is_read_with_its_containers() {
        let body = json!({"state": "failed", "seq": 6, "at": "2026-03-01T08:20:30Z", "message": null,
                          "err": "web: exit code 3", "exitCode": 3, "containers": [{"name": "web"}]});
        let read: PutNodeTaskStatus = serde_json::from_value(body).expect("the report is valid");
        assert_eq!((read.state, read.seq, read.exit_code), (TaskState::Failed, 6, Some(3)));
        assert_eq!(read.containers, [json!({"name": "web"})]);
        let short = json!({"state": "running", "seq": 1, "at": "2026-03-01T08:20:30Z", "containers": []});
        let read: PutNodeTaskStatus = serde_json::from_value(short.clone()).expect("the report is valid");
        assert_eq!(json!(read).get("containers"), None);
    }

    #[test]
    fn broken_report_is_refused_with_the_member_and_its_rule() {
        let at = "2026-03-01T08:20:30Z";
        for (change, message) in [
            (json!({"container": []}), "container is not known; containers was probably meant"),
            (json!({"colour": "red"}), "colour is not known"),
            (json!({"state": null}), "state must be given"),
            (json!({"seq": 0}), "seq must be an integer from 1 to 9223372036854775807"),
            (json!({"at": "soon"}), "at must be an ISO 8601 date and time with its zone"),
            (json!({"err": "x".repeat(4097)}), "err must not be longer than 4096 bytes"),
            (json!({"containers": {}}), "containers must be a list of objects"),
            (json!({"containers": ["web"]}), "containers must be a list of objects"),
            (
                json!({"containers": vec![json!({}); 129]}),
                "containers must not hold more than 128 containers",
            ),
        ] {
            let mut body = json!({"state": "running", "seq": 1, "at": at});
            let members = change.as_object().expect("an object").clone();
            body.as_object_mut().expect("an object").extend(members);
            let refused =
                serde_json::from_value::<PutNodeTaskStatus>(body).expect_err("the report is broken");
            assert_eq!(refused.to_string(), message);
        }
        let assigned = json!({"state": "assigned", "seq": 1, "at": at});
        let refused = serde_json::from_value::<PutNodeTaskStatus>(assigned).expect_err("not reported");
        assert!(refused.to_string().starts_with("state must be accepted, "), "{refused}");
    }
}
