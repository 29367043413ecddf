//! Nodes and what hangs below them (exchange API 4.4).

use std::collections::BTreeMap;

use evenkeel_wire::exchange::{node::AgentState, node_orchestration::NodeOrchestration};
use serde::{Deserialize, Serialize};
use serde_json::Value;

tolerant! {
    /// How often a node polls, in seconds; 0 means not set.
    pub struct HeartbeatIntervals {
        /// Shortest pause.
        min_interval: i64,
        /// Longest pause.
        max_interval: i64,
        /// Step between them.
        interval_adjustment: i64,
    }
}

tolerant! {
    /// A service that a node advertises or uses.
    pub struct RegisteredService {
        /// Service as `org/url`.
        url: String,
        /// Agreements at a time.
        num_agreements: i64,
        /// `active`, `suspended` or empty.
        config_state: String,
        /// Internal policy as JSON text.
        policy: String,
        /// Properties in the old form.
        properties: Vec<Value>,
        /// Version, may be empty.
        version: String,
    }
}

tolerant! {
    /// A node as the exchange shows it.
    pub struct Node {
        /// Masked secret.
        token: String,
        /// Display name.
        name: String,
        /// Owner, `org/user`.
        owner: String,
        /// `device` or `cluster`.
        node_type: String,
        /// Pattern, `org/pattern`, or empty.
        pattern: String,
        /// Advertised services.
        registered_services: Vec<RegisteredService>,
        /// User input set on the node.
        user_input: Vec<Value>,
        /// Unused.
        msg_end_point: String,
        /// Versions by software, such as `horizon`.
        software_versions: BTreeMap<String, String>,
        /// Last heartbeat, absent before the first.
        last_heartbeat: Option<String>,
        /// Messaging key, base64.
        public_key: String,
        /// Architecture.
        arch: String,
        /// Polling intervals.
        heartbeat_intervals: HeartbeatIntervals,
        #[serde(rename = "ha_group")]
        /// HA group that the node is in.
        ha_group: Option<String>,
        /// Last change of the record.
        last_updated: String,
        /// Namespace of a cluster agent.
        cluster_namespace: String,
        /// Whether a cluster agent is limited to its namespace.
        is_namespace_scoped: bool,
        /// What its operator asks of the engine; the default when the exchange says nothing.
        orchestration: NodeOrchestration,
        /// What its agent said of itself; the default when the exchange says nothing.
        agent_state: AgentState,
    }
}

/// The record that creates or replaces a node. Token, pattern and public key go together: all or none.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PutNode {
    /// Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Display name.
    pub name: String,
    /// `device` or `cluster`.
    pub node_type: String,
    /// Pattern or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Advertised services.
    pub registered_services: Vec<RegisteredService>,
    /// User input.
    pub user_input: Vec<Value>,
    /// Unused.
    pub msg_end_point: String,
    /// Versions by software.
    pub software_versions: BTreeMap<String, String>,
    /// Messaging key, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Architecture.
    pub arch: String,
}

tolerant! {
    /// State of one container or process of a service.
    pub struct ContainerStatus {
        /// Name of the container or process.
        name: String,
        /// Image or program.
        image: String,
        /// Seconds since 1970.
        created: i64,
        /// `running`, another state of the engine, or `not started`.
        state: String,
    }
}

tolerant! {
    /// What a node says of one service it runs.
    pub struct ServiceStatus {
        /// Agreement of a top-level service, else empty.
        agreement_id: String,
        /// Service URL without organisation.
        service_url: String,
        /// Organisation of the service.
        orgid: String,
        /// Version.
        version: String,
        /// Architecture.
        arch: String,
        /// Containers or processes.
        container_status: Vec<ContainerStatus>,
        /// Status of a cluster operator.
        operator_status: Option<Value>,
        /// `active` or `suspended`.
        config_state: Option<String>,
    }
}

tolerant! {
    /// How often and why a container or process of a service ended.
    pub struct ServiceFailure {
        /// Agreement of a top-level service, else empty.
        agreement_id: String,
        /// Service URL without organization.
        service_url: String,
        /// Organization of the service.
        orgid: String,
        /// Version.
        version: String,
        /// Architecture.
        arch: String,
        /// Name in the deployment; empty when the service as a whole could not be started.
        container: String,
        /// Exits since the service was started.
        exits: i64,
        /// When it exited, seconds since 1970; the latest exits, newest last.
        recent_exits: Vec<i64>,
        /// Exit code of the last one.
        exit_code: Option<i64>,
        /// Signal that ended it last.
        signal: Option<i64>,
        /// Last lines of its output.
        output: Vec<String>,
        /// Error of the driver, when it cannot be started.
        error: Option<String>,
    }
}

impl ServiceFailure {
    /// Returns the failure in words: `exit code 1, 3 exits; last output: …`.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.exits > 0 {
            let last = match (self.exit_code, self.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => "exit code unknown".to_owned(),
            };
            let count = if self.exits == 1 { "1 exit".to_owned() } else { format!("{} exits", self.exits) };
            parts.push(format!("{last}, {count}"));
        }
        parts.extend(self.error.clone());
        if !self.output.is_empty() {
            parts.push(format!("last output: {}", self.output.join(" | ")));
        }
        let text = parts.join("; ");
        if self.container.is_empty() { text } else { format!("{}: {text}", self.container) }
    }
}

tolerant! {
    /// A node's status document.
    pub struct NodeStatus {
        /// Reachability of named hosts.
        connectivity: BTreeMap<String, bool>,
        /// Services.
        services: Vec<ServiceStatus>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        /// Failures of services, only sent when there are some.
        failures: Vec<ServiceFailure>,
    }
}

tolerant! {
    /// The error list of a node.
    pub struct NodeErrors {
        /// Entries of free form.
        errors: Vec<Value>,
    }
}

tolerant! {
    /// A service named by organisation and URL.
    pub struct ServiceName {
        /// Organisation.
        orgid: String,
        /// URL.
        url: String,
    }
}

tolerant! {
    /// The service of an agreement.
    pub struct AgreementService {
        /// Organisation: of the node in a node's record, of the policy in an agbot's record.
        orgid: String,
        /// Pattern or empty.
        pattern: String,
        /// Service: `org/url` in a node's record, the bare URL in an agbot's record.
        url: String,
    }
}

/// Creates or changes a node's agreement.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PutNodeAgreement {
    /// Dependencies (pattern nodes only).
    pub services: Vec<ServiceName>,
    /// The service itself.
    pub agreement_service: AgreementService,
    /// State in words, such as `Finalized Agreement`.
    pub state: String,
}

tolerant! {
    /// A node's agreement as the exchange shows it.
    pub struct NodeAgreement {
        /// Dependencies.
        services: Vec<ServiceName>,
        /// The service itself.
        agr_service: AgreementService,
        /// State in words.
        state: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A message in a node's mailbox.
    pub struct NodeMessage {
        /// Number of the message.
        msg_id: i64,
        /// Sender, `org/agbot`.
        agbot_id: String,
        /// Sender's key, base64.
        agbot_pub_key: String,
        /// Envelope, base64.
        message: String,
        /// When it was sent.
        time_sent: String,
        /// When it disappears.
        time_expires: String,
    }
}

#[derive(Deserialize, Default)]
pub(crate) struct NodeMap {
    #[serde(default)]
    pub nodes: BTreeMap<String, Node>,
}

#[derive(Deserialize, Default)]
pub(crate) struct NodeAgreementMap {
    #[serde(default)]
    pub agreements: BTreeMap<String, NodeAgreement>,
}

#[derive(Deserialize, Default)]
pub(crate) struct NodeMessageList {
    #[serde(default)]
    pub messages: Vec<NodeMessage>,
}
