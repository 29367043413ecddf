//! Runtime status, tasks, events and actions of deployment policies. They are called on the agbot's own address.

use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::action::{AcceptedAction, ActionRequest, ActionState};
use evenkeel_wire::agbot::orchestration::{
    ExplainQuery, OrchestrationEventsQuery, OrganizationEventsQuery, StatusQuery, TasksQuery,
};
use http::{Method, StatusCode};
use serde::Deserialize;

use crate::client::encode;
use crate::{Client, ClientError, Path};

/// Tasks as the agbot sent them.
#[derive(Deserialize)]
struct TaskRecords {
    tasks: Vec<RawJson>,
}

/// Events as the agbot sent them.
#[derive(Deserialize)]
struct EventRecords {
    events: Vec<RawJson>,
}

fn policy_path(org: &str, policy: &str, part: &str) -> Path {
    Path::org(org, &["business", "policies", policy, part])
}

impl Client {
    /// Runtime status of a deployment policy as the agbot sent it; `None` when policy or workload unit do not exist.
    pub async fn orchestration_record(
        &self,
        org: &str,
        policy: &str,
        query: &StatusQuery,
    ) -> Result<Option<RawJson>, ClientError> {
        self.get(policy_path(org, policy, "orchestration").parameters(query)?).await
    }

    /// Tasks of a deployment policy as the agbot sent them; `None` when the policy does not exist.
    pub async fn workload_task_records(
        &self,
        org: &str,
        policy: &str,
        query: &TasksQuery,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        let found: Option<TaskRecords> =
            self.get(policy_path(org, policy, "tasks").parameters(query)?).await?;
        Ok(found.map(|found| found.tasks))
    }

    /// Events about a deployment policy as the agbot sent them; `None` when the policy does not exist.
    pub async fn policy_event_records(
        &self,
        org: &str,
        policy: &str,
        query: &OrchestrationEventsQuery,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        let found: Option<EventRecords> =
            self.get(policy_path(org, policy, "events").parameters(query)?).await?;
        Ok(found.map(|found| found.events))
    }

    /// Events about the deployment policies, nodes and HA groups of an organization as the agbot sent them; `None` from an agbot that has no
    /// such events.
    pub async fn orchestration_event_records(
        &self,
        org: &str,
        query: &OrganizationEventsQuery,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        let found: Option<EventRecords> =
            self.get(Path::org(org, &["orchestration", "events"]).parameters(query)?).await?;
        Ok(found.map(|found| found.events))
    }
}

impl Client {
    /// Returns the explanation of the placement of a deployment policy's instances, as the agbot sent it;
    /// `None` when policy, workload unit or node do not exist.
    pub async fn placement_explanation(
        &self,
        org: &str,
        policy: &str,
        query: &ExplainQuery,
    ) -> Result<Option<RawJson>, ClientError> {
        self.get(policy_path(org, policy, "explain").parameters(query)?).await
    }

    /// Acts on a deployment policy, such as `freeze`. Status 404 names what does not exist: the policy, the workload unit or a node.
    pub async fn act_on_policy(
        &self,
        org: &str,
        policy: &str,
        action: &str,
        request: &ActionRequest,
    ) -> Result<AcceptedAction, ClientError> {
        let path = policy_path(org, policy, "actions").push(action);
        let response = self.send(Method::POST, &path, Some(encode(request)?)).await?;
        if response.status.is_success() {
            Ok(response.json().unwrap_or_default())
        } else {
            Err(response.unexpected())
        }
    }

    /// Recovers members of an HA group; `None` when the group or the node does not exist.
    pub async fn recover_ha_group(
        &self,
        org: &str,
        group: &str,
        request: &ActionRequest,
    ) -> Result<Option<AcceptedAction>, ClientError> {
        let path = Path::org(org, &["hagroups", group, "actions", "recover"]);
        let response = self.send(Method::POST, &path, Some(encode(request)?)).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response.json().unwrap_or_default())),
            _ => Err(response.unexpected()),
        }
    }

    /// Returns the progress of an action on an HA group; `None` when there is no such action.
    pub async fn ha_group_action(
        &self,
        org: &str,
        group: &str,
        action: &str,
    ) -> Result<Option<ActionState>, ClientError> {
        self.get(Path::org(org, &["hagroups", group, "actions", action])).await
    }

    /// Returns the progress of an action on a deployment policy; `None` when there is no such action.
    pub async fn policy_action(
        &self,
        org: &str,
        policy: &str,
        action: &str,
    ) -> Result<Option<ActionState>, ClientError> {
        self.get(policy_path(org, policy, "actions").push(action)).await
    }
}
