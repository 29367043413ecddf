//! The local API of an agent (agbot 5.7). It has no credentials and is called on the agent's own address.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_wire::RawJson;
use evenkeel_wire::agent::agreement::LocalAgreements;
use evenkeel_wire::agent::maintenance::{MaintenanceResponse, PutMaintenance};
use evenkeel_wire::agent::node::{LocalNode, PostNode, PutConfigState, RandomToken, UnregisterQuery};
use evenkeel_wire::agent::service::LocalServices;
use evenkeel_wire::agent::service_log::{ServiceLog, ServiceLogQuery};
use evenkeel_wire::agent::status::AgentStatus;
use evenkeel_wire::agent::trust::TrustedKeys;
use evenkeel_wire::agent::{self, ByAge};
use evenkeel_wire::exchange::node_part::PostConfigState;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{Records, of_map};
use crate::client::encode;
use crate::{Client, ClientError, Path};

/// Content type of a key.
const PEM_TYPE: &str = "application/x-pem-file";

/// Outcome of a request to suspend or resume services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigStateChange {
    /// The services were suspended or resumed.
    Changed,
    /// There is nothing to change; the agent's message states why.
    Refused(String),
}

/// Outcome of unregistering a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unregistered {
    /// Everything is gone.
    Clean,
    /// The node is unregistered, but something was left behind; the agent's message names it.
    Incomplete(String),
}

fn local(segments: &[&str]) -> Path {
    Path::new(segments)
}

impl Client {
    /// The node as its agent knows it.
    pub async fn local_node(&self) -> Result<LocalNode, ClientError> {
        self.get_local(local(&["node"])).await
    }

    /// Configuration of the agent.
    pub async fn local_status(&self) -> Result<AgentStatus, ClientError> {
        self.get_local(local(&["status"])).await
    }

    /// Configuration of the agent, as it sent it.
    pub async fn local_status_record(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["status"])).await
    }

    /// Workers of the agent, as it sent them.
    pub async fn local_workers_record(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["status", "workers"])).await
    }

    /// Returns the maintenance state of the node.
    pub async fn local_maintenance(&self) -> Result<MaintenanceResponse, ClientError> {
        self.get_local(local(&["node", "maintenance"])).await
    }

    /// Begins maintenance of the node, waiting at most for a time.
    pub async fn begin_local_maintenance(
        &self,
        request: &PutMaintenance,
        wait: Duration,
    ) -> Result<(), ClientError> {
        self.write_local(Method::PUT, &local(&["node", "maintenance"]), request, wait).await
    }

    /// Ends maintenance of the node.
    pub async fn end_local_maintenance(&self) -> Result<(), ClientError> {
        self.delete(local(&["node", "maintenance"])).await.map(drop)
    }

    /// A new token for a node.
    pub async fn random_token(&self) -> Result<RandomToken, ClientError> {
        self.get_local(local(&["token", "random"])).await
    }

    /// Registers the node, waiting at most for a time.
    pub async fn register_local_node(&self, node: &PostNode, wait: Duration) -> Result<(), ClientError> {
        self.write_local(Method::POST, &local(&["node"]), node, wait).await
    }

    /// Sets the user input of a node that is being registered, waiting at most for a time.
    pub async fn register_user_input(&self, input: &RawJson, wait: Duration) -> Result<(), ClientError> {
        self.write_local(Method::POST, &local(&["node", "userinput"]), input, wait).await
    }

    /// Completes the registration of the node, waiting at most for a time.
    pub async fn put_config_state(&self, state: &PutConfigState, wait: Duration) -> Result<(), ClientError> {
        self.write_local(Method::PUT, &local(&["node", "configstate"]), state, wait).await
    }

    /// Unregisters the node and ends all its services, waiting at most for a time.
    pub async fn unregister_local_node(
        &self,
        query: &UnregisterQuery,
        wait: Duration,
    ) -> Result<Unregistered, ClientError> {
        let path = local(&["node"]).parameters(query)?;
        let response = self.send_with(Method::DELETE, &path, None, HeaderMap::new(), Some(wait)).await?;
        match response.status {
            StatusCode::SERVICE_UNAVAILABLE => Ok(Unregistered::Incomplete(response.text())),
            _ => response.accepted().map(|_| Unregistered::Clean),
        }
    }

    /// The node's policy, as the agent sent it.
    pub async fn local_policy(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["node", "policy"])).await
    }

    /// Replaces the node's policy.
    pub async fn post_local_policy(&self, policy: &RawJson) -> Result<ApiResponse, ClientError> {
        self.post(local(&["node", "policy"]), policy).await
    }

    /// Replaces one part of the node's policy.
    pub async fn patch_local_policy(&self, change: &RawJson) -> Result<ApiResponse, ClientError> {
        self.patch(local(&["node", "policy"]), change).await
    }

    /// Removes the node's policy; false when it was not there.
    pub async fn delete_local_policy(&self) -> Result<bool, ClientError> {
        self.delete(local(&["node", "policy"])).await
    }

    /// The node's user input, as the agent sent it.
    pub async fn local_user_input(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["node", "userinput"])).await
    }

    /// Replaces the node's user input.
    pub async fn post_local_user_input(&self, input: &RawJson) -> Result<ApiResponse, ClientError> {
        self.post(local(&["node", "userinput"]), input).await
    }

    /// Changes single values of the node's user input.
    pub async fn patch_local_user_input(&self, change: &RawJson) -> Result<ApiResponse, ClientError> {
        self.patch(local(&["node", "userinput"]), change).await
    }

    /// Removes the node's user input; false when it was not there.
    pub async fn delete_local_user_input(&self) -> Result<bool, ClientError> {
        self.delete(local(&["node", "userinput"])).await
    }

    /// Agreements of the node, as the agent sent them.
    pub async fn local_agreement_records(&self) -> Result<ByAge<RawJson>, ClientError> {
        let found: LocalAgreements<RawJson> = self.get_existing(local(&["agreement"])).await?;
        Ok(found.agreements)
    }

    /// Ends an agreement; false when there is none of that id.
    pub async fn cancel_local_agreement(&self, agreement: &str) -> Result<bool, ClientError> {
        self.delete(local(&["agreement", agreement])).await
    }

    /// Services of the node, as the agent sent them.
    pub async fn local_service_records(&self) -> Result<LocalServices<RawJson, RawJson>, ClientError> {
        self.get_existing(local(&["service"])).await
    }

    /// A part of the output of a service; `None` when the node does not run it.
    pub async fn local_service_log(
        &self,
        query: &ServiceLogQuery,
    ) -> Result<Option<ServiceLog>, ClientError> {
        self.get(local(&["service", "log"]).parameters(query)?).await
    }

    /// Policies of live agreements by name, as the agent sent them.
    pub async fn local_service_policies(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["service", "policy"])).await
    }

    /// Active and suspended services, as the agent sent them.
    pub async fn service_config_states_record(&self) -> Result<RawJson, ClientError> {
        self.get_existing(local(&["service", "configstate"])).await
    }

    /// Suspends or resumes services of the node.
    pub async fn post_service_config_state(
        &self,
        change: &PostConfigState,
    ) -> Result<ConfigStateChange, ClientError> {
        let path = local(&["service", "configstate"]);
        let response = self.send(Method::POST, &path, Some(encode(change)?)).await?;
        match response.status {
            StatusCode::BAD_REQUEST => Ok(ConfigStateChange::Refused(response.text())),
            _ => response.accepted().map(|_| ConfigStateChange::Changed),
        }
    }

    /// Statuses of management policies by `org/policy`, as the agent sent them, or that of one policy, `[org/]policy`;
    /// `None` if there is none.
    pub async fn local_management_records(
        &self,
        policy: Option<&str>,
    ) -> Result<Option<Records>, ClientError> {
        let found: Option<serde_json::Map<_, _>> = self.get(management_path("status", policy)).await?;
        Ok(found.map(of_map))
    }

    /// Restarts all management policies, or one, `[org/]policy`; false when it does not concern the node.
    pub async fn reset_local_management(&self, policy: Option<&str>) -> Result<bool, ClientError> {
        let response = self.send(Method::PUT, &management_path("reset", policy), None).await?;
        match response.status {
            StatusCode::NOT_FOUND if policy.is_some() => Ok(false),
            StatusCode::OK | StatusCode::CREATED => Ok(true),
            _ => Err(response.unexpected()),
        }
    }

    /// Entries of the event log since the node was registered, or all, as the agent sent them.
    pub async fn event_log_records(&self, is_all: bool) -> Result<Vec<RawJson>, ClientError> {
        let path = local(&["eventlog"]);
        self.get_existing(if is_all { path.push("all") } else { path }).await
    }

    /// Errors that the node reports to the exchange, as the agent sent them.
    pub async fn surfaced_error_records(&self) -> Result<Vec<RawJson>, ClientError> {
        self.get_existing(local(&["eventlog", "surface"])).await
    }

    /// File names of the keys that the agent trusts, or (`is_long`) the content of their certificates, as the agent sent them.
    pub async fn trusted_key_records(&self, is_long: bool) -> Result<Vec<RawJson>, ClientError> {
        let path = local(&["trust"]);
        let path = if is_long { path.query("verbose", "true") } else { path };
        let found: TrustedKeys<RawJson> = self.get_existing(path).await?;
        Ok(found.pem)
    }

    /// A key that the agent trusts, as PEM text.
    pub async fn trusted_key(&self, name: &str) -> Result<Option<String>, ClientError> {
        self.get_text(local(&["trust", name])).await
    }

    /// Makes the agent trust a key.
    pub async fn put_trusted_key(&self, name: &str, pem: String) -> Result<(), ClientError> {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(PEM_TYPE))]);
        let body = Some(Bytes::from(pem));
        let response = self.send_with(Method::PUT, &local(&["trust", name]), body, headers, None).await?;
        response.accepted().map(drop)
    }

    /// Removes a key from those that the agent trusts; false when it was not there.
    pub async fn delete_trusted_key(&self, name: &str) -> Result<bool, ClientError> {
        self.delete(local(&["trust", name])).await
    }

    async fn get_local<T: DeserializeOwned + Default>(&self, path: Path) -> Result<T, ClientError> {
        Ok(agent::read(self.get_existing(path).await?)?)
    }

    async fn write_local<B: Serialize>(
        &self,
        method: Method,
        path: &Path,
        body: &B,
        wait: Duration,
    ) -> Result<(), ClientError> {
        let response =
            self.send_with(method, path, Some(encode(body)?), HeaderMap::new(), Some(wait)).await?;
        response.accepted().map(drop)
    }
}

fn management_path(what: &str, policy: Option<&str>) -> Path {
    policy.into_iter().flat_map(|policy| policy.split('/')).fold(local(&["nodemanagement", what]), Path::push)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn management_policies_may_name_their_organization() {
        assert_eq!(management_path("status", Some("o/n")).shown(), "/nodemanagement/status/o/n");
        assert_eq!(management_path("reset", None).shown(), "/nodemanagement/reset");
    }
}
