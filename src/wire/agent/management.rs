//! Management policies on the node.

use serde::Serialize;

use crate::exchange::node_part::PutUpgradeStatus;

/// Status of one management policy on the node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalManagementStatus {
    /// Where the upgrade of the agent stands.
    pub agent_upgrade_policy_status: LocalUpgradeStatus,
}

/// Where the upgrade of the agent stands: what the node reports to the exchange, and what only its agent knows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalUpgradeStatus {
    /// What the node reports to the exchange.
    #[serde(flatten)]
    pub reported: PutUpgradeStatus,
    /// What only its agent knows.
    pub agent_upgrade_internal: UpgradeInternals,
}

/// What only an agent knows of its upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeInternals {
    /// Whether an older version may be installed.
    pub allow_downgrade: bool,
    /// Manifest of the policy.
    pub manifest: String,
    /// Scheduled start.
    pub scheduled_unix_time: u64,
    /// Attempts to fetch the files.
    pub download_attempts: u32,
}
