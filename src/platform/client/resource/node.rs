//! Nodes (exchange API 4.4).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use evenkeel_ids::{AgreementId, NodeId};
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::agbot_approval::NodeAgbotsResponse;
use evenkeel_wire::exchange::message::{NodeMessage, NodeMessagesResponse, PostMessage};
use evenkeel_wire::exchange::node::{
    DepartingNode, DeparturesResponse, NodeResponse, NodesResponse, PutNode,
};
use evenkeel_wire::exchange::node_orchestration::PatchNodeOrchestration;
use evenkeel_wire::exchange::node_part::{
    NodeAgreement, NodeAgreementsResponse, NodeErrorsResponse, NodeStatusResponse, PutNodeAgreement,
    PutNodeErrors, PutNodeStatus,
};
use evenkeel_wire::exchange::node_report::{NodesStatisticsResponse, PutNodeReport, ReportedMachine};
use evenkeel_wire::exchange::node_task::{
    NodeTask, NodeTasksResponse, PutNodeTask, PutNodeTaskStatus, TaskConflict,
};
use evenkeel_wire::exchange::task_health::{PostLifecycle, PutNodeCommand, PutTaskHealth};
use evenkeel_wire::exchange::utility::ApiResponse;
use evenkeel_wire::page::PageQuery;
use http::{Method, StatusCode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::message::MessagePage;
use super::{by_id, only};
use crate::client::encode;
use crate::{Client, ClientError, Path};

/// Requests ids without records; an exchange that does not know the parameter sends whole nodes.
const IDS_ONLY: &str = "idsOnly";

/// A list of nodes of which only the ids are kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeIds {
    #[expect(
        clippy::zero_sized_map_values,
        reason = "the exchange sends a map of which only the keys are read"
    )]
    nodes: BTreeMap<NodeId, IgnoredAny>,
}

/// Outcome of a report about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskReported {
    /// It was recorded.
    Recorded,
    /// The report is old, or would revert the state; contains the stored state.
    Refused(TaskConflict),
    /// The node has no such task.
    Missing,
}

fn node_path(node: &NodeId, rest: &[&str]) -> Path {
    rest.iter().fold(Path::org(node.org(), &["nodes", node.name()]), |path, segment| path.push(segment))
}

impl Client {
    /// All visible nodes of an organization, by `org/node`.
    pub async fn list_nodes(&self, org: &str) -> Result<BTreeMap<NodeId, NodeResponse>, ClientError> {
        let found: Option<NodesResponse> = self.get(Path::org(org, &["nodes"])).await?;
        Ok(by_id(found.unwrap_or_default().nodes, NodeId::from_text))
    }

    /// A page of the visible nodes of an organization with their policies and statuses, and the key after which the next page begins.
    ///
    /// # Shape
    /// An exchange without pages sends all, and without these parts.
    pub async fn nodes_with_parts(
        &self,
        org: &str,
        after: Option<String>,
        limit: u16,
    ) -> Result<(BTreeMap<NodeId, NodeResponse>, Option<String>), ClientError> {
        let page = PageQuery { limit: Some(limit), after, ..PageQuery::default() };
        let path = Path::org(org, &["nodes"]).parameters(&page)?.query("parts", "true");
        let found: NodesResponse = self.get(path).await?.unwrap_or_default();
        Ok((by_id(found.nodes, NodeId::from_text), found.next))
    }

    /// The ids (`org/node`) of all visible nodes of an organization.
    pub async fn list_node_ids(&self, org: &str) -> Result<BTreeSet<NodeId>, ClientError> {
        let found: Option<NodeIds> = self.get(Path::org(org, &["nodes"]).query(IDS_ONLY, "true")).await?;
        Ok(found.unwrap_or_default().nodes.into_keys().collect())
    }

    /// The ids (`org/node`) of the visible nodes of an organization whose id begins with a text.
    pub async fn list_node_ids_with_prefix(
        &self,
        org: &str,
        prefix: &str,
    ) -> Result<BTreeSet<NodeId>, ClientError> {
        let path =
            Path::org(org, &["nodes"]).query("idfilter", &format!("{org}/{prefix}%")).query(IDS_ONLY, "true");
        let found: Option<NodeIds> = self.get(path).await?;
        Ok(found.unwrap_or_default().nodes.into_keys().collect())
    }

    /// One node.
    pub async fn node(&self, node: &NodeId) -> Result<Option<NodeResponse>, ClientError> {
        let found: Option<NodesResponse> = self.get(node_path(node, &[])).await?;
        Ok(only(found.map(|found| found.nodes)))
    }

    /// Reads the caller's own node to test its credentials.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200.
    pub async fn confirm_node(&self, node: &NodeId) -> Result<(), ClientError> {
        self.get_existing::<IgnoredAny>(node_path(node, &[])).await.map(drop)
    }

    /// Creates or replaces a node without counting as its heartbeat when `is_silent`.
    pub async fn put_node(
        &self,
        node: &NodeId,
        body: &PutNode,
        is_silent: bool,
    ) -> Result<ApiResponse, ClientError> {
        let path = node_path(node, &[]);
        self.put(if is_silent { path.no_heartbeat() } else { path }, body).await
    }

    /// Changes one attribute of a node: a [`PatchNode`](evenkeel_wire::exchange::node::PatchNode), or JSON that a user wrote.
    pub async fn patch_node<P: Serialize + ?Sized>(
        &self,
        node: &NodeId,
        change: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.patch(node_path(node, &[]), change).await
    }

    /// Removes a node.
    pub async fn delete_node(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(node_path(node, &[])).await
    }

    /// Removes a node; its instances count as stopped, although its agent may be alive.
    pub async fn delete_node_by_force(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(node_path(node, &[]).query("force", "true")).await
    }

    /// Removes the node of the caller although some of its instances could not be stopped: their end is confirmed later.
    pub async fn delete_unstopped_node(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(node_path(node, &[]).query("stopped", "false")).await
    }

    /// Confirms that everything has stopped on a node that was deleted while it may have run instances; `false`
    /// when there is no pending confirmation.
    pub async fn confirm_departure(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(Path::org(node.org(), &["orchestration", "departures", node.name()])).await
    }

    /// The deleted nodes of an organization whose agents have not confirmed that they stopped everything; none when the exchange knows none.
    pub async fn list_departures(&self, org: &str) -> Result<BTreeMap<NodeId, DepartingNode>, ClientError> {
        let path = Path::org(org, &["orchestration", "departures"]);
        let found: Option<DeparturesResponse> = self.get(path).await?;
        Ok(found.map(|found| by_id(found.nodes, NodeId::from_text)).unwrap_or_default())
    }

    /// Returns the orchestration settings of a node's operator, as the exchange sent them.
    pub async fn node_orchestration_record(&self, node: &NodeId) -> Result<Option<RawJson>, ClientError> {
        self.get(node_path(node, &["orchestration"])).await
    }

    /// Changes the orchestration settings of a node's operator.
    pub async fn patch_node_orchestration(
        &self,
        node: &NodeId,
        change: &PatchNodeOrchestration,
    ) -> Result<ApiResponse, ClientError> {
        self.patch(node_path(node, &["orchestration", "spec"]), change).await
    }

    /// Freezes a node, or ends that it is frozen.
    pub async fn freeze_node(&self, node: &NodeId, frozen: bool) -> Result<ApiResponse, ClientError> {
        self.post_empty(node_path(node, &["actions", if frozen { "freeze" } else { "thaw" }])).await
    }

    /// A heartbeat of a node, with what it reports about itself.
    pub async fn post_heartbeat(
        &self,
        node: &NodeId,
        report: &PutNodeReport,
    ) -> Result<ApiResponse, ClientError> {
        self.post(node_path(node, &["heartbeat"]), report).await
    }

    /// Reports what a node does.
    pub async fn put_node_report(
        &self,
        node: &NodeId,
        report: &PutNodeReport,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["orchestration", "status"]), report).await
    }

    /// The statistics and container engines of an organization's nodes that the exchange received since an instant; `None` when the exchange knows none.
    pub async fn list_node_statistics(
        &self,
        org: &str,
        since: Option<&str>,
    ) -> Result<Option<BTreeMap<NodeId, ReportedMachine>>, ClientError> {
        let path = Path::org(org, &["orchestration", "statistics"]);
        let path = if let Some(since) = since { path.query("since", since) } else { path };
        let found: Option<NodesStatisticsResponse> = self.get(path).await?;
        Ok(found.map(|found| by_id(found.nodes, NodeId::from_text)))
    }

    /// A node's policy as it is stored.
    pub async fn node_policy(&self, node: &NodeId) -> Result<Option<RawJson>, ClientError> {
        self.get(node_path(node, &["policy"])).await
    }

    /// Replaces a node's policy without counting as its heartbeat.
    pub async fn put_node_policy<P: Serialize + ?Sized>(
        &self,
        node: &NodeId,
        policy: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["policy"]).no_heartbeat(), policy).await
    }

    /// Removes a node's policy.
    pub async fn delete_node_policy(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(node_path(node, &["policy"])).await
    }

    /// A node's status document.
    pub async fn node_status(&self, node: &NodeId) -> Result<Option<NodeStatusResponse>, ClientError> {
        self.get(node_path(node, &["status"])).await
    }

    /// A node's status document as the exchange sent it.
    pub async fn node_status_record(&self, node: &NodeId) -> Result<Option<RawJson>, ClientError> {
        self.get(node_path(node, &["status"])).await
    }

    /// Replaces a node's status document.
    pub async fn put_node_status(
        &self,
        node: &NodeId,
        status: &PutNodeStatus,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["status"]), status).await
    }

    /// A node's errors.
    pub async fn node_errors(&self, node: &NodeId) -> Result<Option<NodeErrorsResponse>, ClientError> {
        self.get(node_path(node, &["errors"])).await
    }

    /// Replaces a node's errors.
    pub async fn put_node_errors(
        &self,
        node: &NodeId,
        errors: &PutNodeErrors,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["errors"]), errors).await
    }

    /// Removes a node's errors.
    pub async fn delete_node_errors(&self, node: &NodeId) -> Result<bool, ClientError> {
        self.delete(node_path(node, &["errors"])).await
    }

    /// A node's agreements by id.
    pub async fn list_node_agreements(
        &self,
        node: &NodeId,
    ) -> Result<BTreeMap<AgreementId, NodeAgreement>, ClientError> {
        let found: Option<NodeAgreementsResponse> = self.get(node_path(node, &["agreements"])).await?;
        Ok(by_id(found.unwrap_or_default().agreements, AgreementId::from_text))
    }

    /// Creates or changes a node's agreement without counting as its heartbeat.
    pub async fn put_node_agreement(
        &self,
        node: &NodeId,
        agreement: &str,
        body: &PutNodeAgreement,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["agreements", agreement]).no_heartbeat(), body).await
    }

    /// Removes a node's agreement.
    pub async fn delete_node_agreement(&self, node: &NodeId, agreement: &str) -> Result<bool, ClientError> {
        self.delete(node_path(node, &["agreements", agreement])).await
    }

    /// Returns the agbots that may make agreements with a node, as `org/agbot`; `None` when the exchange does
    /// not list them.
    pub async fn list_node_agbots(&self, node: &NodeId) -> Result<Option<Vec<String>>, ClientError> {
        let found: Option<NodeAgbotsResponse> = self.get(node_path(node, &["agbots"])).await?;
        Ok(found.map(|found| found.agbots))
    }

    /// The tasks of a node; `None` when the exchange has no tasks.
    pub async fn list_node_tasks(&self, node: &NodeId) -> Result<Option<Vec<NodeTask>>, ClientError> {
        let found: Option<NodeTasksResponse> = self.get(node_path(node, &["tasks"])).await?;
        Ok(found.map(|found| found.tasks))
    }

    /// Publishes what is wanted of a task.
    pub async fn put_node_task(
        &self,
        node: &NodeId,
        task: &str,
        body: &PutNodeTask,
    ) -> Result<ApiResponse, ClientError> {
        self.put(node_path(node, &["tasks", task]), body).await
    }

    /// Removes a task, unless it was written under a later lease.
    pub async fn delete_node_task(
        &self,
        node: &NodeId,
        task: &str,
        fencing: i64,
    ) -> Result<bool, ClientError> {
        self.delete(node_path(node, &["tasks", task]).query("fencing", &fencing.to_string())).await
    }

    /// Reports the state of a task.
    pub async fn put_node_task_status(
        &self,
        node: &NodeId,
        task: &str,
        status: &PutNodeTaskStatus,
    ) -> Result<TaskReported, ClientError> {
        let path = node_path(node, &["tasks", task, "status"]);
        let response = self.send(Method::PUT, &path, Some(encode(status)?)).await?;
        match response.status {
            StatusCode::CONFLICT => Ok(TaskReported::Refused(response.json()?)),
            StatusCode::NOT_FOUND => Ok(TaskReported::Missing),
            _ => response.accepted().map(|_| TaskReported::Recorded),
        }
    }

    /// Reports the outcome of a check of a task; false when the node has no such task.
    pub async fn put_node_task_health(
        &self,
        node: &NodeId,
        task: &str,
        health: &PutTaskHealth,
    ) -> Result<bool, ClientError> {
        self.report(Method::PUT, &node_path(node, &["tasks", task, "health"]), encode(health)?).await
    }

    /// Reports a life-cycle event; false when the node has no task that it belongs to.
    pub async fn post_node_lifecycle(
        &self,
        node: &NodeId,
        event: &PostLifecycle,
    ) -> Result<bool, ClientError> {
        self.report(Method::POST, &node_path(node, &["lifecycle"]), encode(event)?).await
    }

    /// Reports the outcome of a command; false when the node has no such command.
    pub async fn put_node_command(
        &self,
        node: &NodeId,
        command: &str,
        outcome: &PutNodeCommand,
    ) -> Result<bool, ClientError> {
        self.report(Method::PUT, &node_path(node, &["commands", command]), encode(outcome)?).await
    }

    async fn report(&self, method: Method, path: &Path, body: Bytes) -> Result<bool, ClientError> {
        let response = self.send(method, path, Some(body)).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(false),
            _ => response.accepted().map(|_| true),
        }
    }

    /// Lists a page of a node's mailbox, oldest first.
    pub async fn list_node_messages(
        &self,
        node: &NodeId,
        page: MessagePage,
    ) -> Result<Vec<NodeMessage>, ClientError> {
        let found: Option<NodeMessagesResponse> = self.get(page.of(node_path(node, &["msgs"]))).await?;
        Ok(found.unwrap_or_default().messages)
    }

    /// Puts a sealed envelope into a node's mailbox.
    pub async fn send_to_node(
        &self,
        node: &NodeId,
        message: &PostMessage,
    ) -> Result<ApiResponse, ClientError> {
        self.post(node_path(node, &["msgs"]), message).await
    }

    /// Removes a message from a node's mailbox.
    pub async fn delete_node_message(&self, node: &NodeId, id: i64) -> Result<bool, ClientError> {
        self.delete(node_path(node, &["msgs", &id.to_string()])).await
    }

    /// Suspends or resumes registered services of a node: a
    /// [`PostConfigState`](evenkeel_wire::exchange::node_part::PostConfigState), or JSON that a user wrote.
    pub async fn set_service_config_state<C: Serialize + ?Sized>(
        &self,
        node: &NodeId,
        change: &C,
    ) -> Result<ApiResponse, ClientError> {
        self.post(node_path(node, &["services_configstate"]), change).await
    }
}
