//! One agreement in the node's state.

use evenkeel_wire::agent::ServiceName;
use serde::{Deserialize, Serialize};

use super::{Dependency, Reported};

/// The service version that an agreement runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkloadName {
    /// Name of the service.
    pub url: String,
    /// Its organization.
    pub org: String,
    /// Its version.
    pub version: String,
    /// Its architecture.
    pub arch: String,
}

impl WorkloadName {
    /// The service as `org/url`, the form that the exchange compares.
    pub fn qualified_url(&self) -> String {
        format!("{}/{}", self.org, self.url)
    }
}

impl From<&WorkloadName> for ServiceName {
    fn from(name: &WorkloadName) -> Self {
        let WorkloadName { url, org, version, arch } = name.clone();
        Self { url, org, version, arch }
    }
}

/// The exchange's record of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum ExchangeState {
    /// Nothing.
    #[default]
    Absent,
    /// The agbot acknowledged the reply.
    Agreed,
    /// The agreement is final.
    Final,
}

impl ExchangeState {
    /// Returns the state as the exchange spells it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Absent => "",
            Self::Agreed => "Agree to proposal",
            Self::Final => "Finalized Agreement",
        }
    }
}

/// Progress of an agreement's verifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Number sent since the last reply.
    pub unanswered: u32,
    /// When the last one was sent, seconds since 1970.
    pub sent_at: u64,
    /// True if a verification must be sent now.
    pub is_due: bool,
}

/// The end of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Reason code.
    pub reason: u64,
    /// Since when, seconds since 1970.
    pub at: u64,
}

/// One agreement. Times are seconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agreement {
    /// Id, chosen by the agbot.
    pub id: String,
    /// Name of the terms; two live agreements without a task never share it.
    pub name: String,
    /// The agbot, `org/agbot`.
    pub agbot: String,
    /// Protocol version of the proposal.
    pub protocol_version: i64,
    /// The service version to run.
    pub workload: WorkloadName,
    /// Terms and conditions as received; replaced by policy updates.
    pub terms: String,
    /// The deployment text exactly as signed.
    pub deployment: String,
    /// Environment overrides exactly as signed, usually empty.
    pub deployment_overrides: String,
    /// The node's policy as the agbot saw it.
    pub producer_policy: String,
    /// User input as environment variables, in order.
    pub inputs: Vec<(String, String)>,
    /// Service id for registry logins and keys, `org/service`.
    pub service_id: String,
    /// Its dependencies, in start order.
    pub dependencies: Vec<Dependency>,
    /// When the proposal was accepted.
    pub created_at: u64,
    /// When the agbot acknowledged the reply.
    pub accepted_at: Option<u64>,
    /// When the agreement became final.
    pub finalized_at: Option<u64>,
    /// When the service was first seen running.
    pub started_at: Option<u64>,
    /// True if everything that the service of a task needs is on this machine.
    pub is_prepared: bool,
    /// True if the driver was ordered not to restart containers that end: the hub's engine decides about
    /// that.
    pub has_no_restarts: bool,
    /// True if the driver was ordered to start the service.
    pub is_start_ordered: bool,
    /// Since when a started service is down.
    pub down_since: Option<u64>,
    /// Seconds until the protocol must be finished.
    pub timeout_secs: u64,
    /// The exchange's record.
    pub recorded: Reported<ExchangeState>,
    /// Verifications.
    pub verification: Verification,
    /// Set when the agreement ends.
    pub ending: Option<Ending>,
    /// True if the service is completely stopped.
    pub is_stopped: bool,
}

impl Agreement {
    /// Returns whether the agreement is neither ended nor ending.
    pub fn is_live(&self) -> bool {
        self.ending.is_none()
    }

    /// Returns whether the agreement has ended with nothing left to do.
    pub fn is_archived(&self) -> bool {
        self.ending.is_some() && self.is_stopped && self.recorded.is(&ExchangeState::Absent)
    }

    /// Returns the wanted record at the exchange.
    pub fn wanted_record(&self) -> ExchangeState {
        match (self.ending, self.accepted_at, self.finalized_at) {
            (Some(_), _, _) | (None, None, _) => ExchangeState::Absent,
            (None, Some(_), None) => ExchangeState::Agreed,
            (None, Some(_), Some(_)) => ExchangeState::Final,
        }
    }
}
