//! Agreements of the node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ByAge, ServiceName};

/// Agreements of the node, of which each is a `T`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalAgreements<T> {
    /// By whether they are alive.
    #[serde(default = "ByAge::default")]
    pub agreements: ByAge<T>,
}

/// An agreement of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalAgreement {
    /// Name of the policy.
    pub name: String,
    /// Services that the service needs.
    pub dependent_services: Vec<ServiceName>,
    /// True if the agreement is kept as history.
    pub archived: bool,
    /// Its id.
    pub current_agreement_id: String,
    /// `org/agbot`.
    pub consumer_id: String,
    /// Always empty.
    pub counterparty_address: String,
    /// When it was proposed.
    pub agreement_creation_time: u64,
    /// When the node accepted it.
    pub agreement_accepted_time: u64,
    /// Always 0.
    pub agreement_bc_update_ack_time: u64,
    /// When it became final.
    pub agreement_finalized_time: u64,
    /// When it ended.
    pub agreement_terminated_time: u64,
    /// Always 0.
    pub agreement_force_terminated_time: u64,
    /// When its service was started.
    pub agreement_execution_start_time: u64,
    /// Always 0.
    pub agreement_data_received_time: u64,
    /// Always empty.
    pub current_deployment: BTreeMap<String, String>,
    /// Always null.
    pub extended_deployment: Option<String>,
    /// Always empty.
    pub proposal: String,
    /// Always empty.
    pub proposal_sig: String,
    /// `Basic`.
    pub agreement_protocol: String,
    /// Version of the protocol.
    pub protocol_version: i64,
    /// Always empty.
    pub requested_cluster_namespace: String,
    /// Code of the reason why it ended, else 0.
    pub terminated_reason: u64,
    /// Human-readable reason.
    pub terminated_description: String,
    /// When the agbot learned of the end.
    pub agreement_protocol_terminated_time: u64,
    /// When the service had stopped.
    pub workload_terminated_time: u64,
    /// The service.
    pub workload_to_run: ServiceName,
    /// Time after which it is canceled when it is not final, in seconds.
    pub agreement_timeout: u64,
    /// Id of the service definition.
    pub service_definition_id: String,
    /// Verifications since the last reply.
    pub failed_verification_attempts: u32,
    /// When the last verification was sent.
    pub last_verification_update_time: u64,
}
