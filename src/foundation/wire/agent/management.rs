//! Management policies on the node.

use serde::Serialize;

use crate::exchange::node_part::PutUpgradeStatus;

/// Status of one management policy on the node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalManagementStatus {
    /// Status of the agent upgrade.
    pub agent_upgrade_policy_status: LocalUpgradeStatus,
}

/// Status of the upgrade of the agent: the node's report to the exchange, and members that only its agent knows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalUpgradeStatus {
    /// Status that the node reports to the exchange.
    #[serde(flatten)]
    pub reported: PutUpgradeStatus,
    /// State that only the agent knows.
    pub agent_upgrade_internal: UpgradeInternals,
}

/// State of an upgrade that only the agent knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeInternals {
    /// True if an older version may be installed.
    pub allow_downgrade: bool,
    /// Manifest of the policy.
    pub manifest: String,
    /// Scheduled start.
    pub scheduled_unix_time: u64,
    /// Attempts to fetch the files.
    pub download_attempts: u32,
}
