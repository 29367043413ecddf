//! Management policies and what nodes report on them (exchange API 4.9, agreement protocol 6).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

tolerant! {
    /// What agent software a management policy wants.
    pub struct AgentUpgradePolicy {
        /// Manifest that lists the files.
        manifest: String,
        /// Whether an older version may replace a newer one.
        allow_downgrade: bool,
    }
}

tolerant! {
    /// A management policy.
    pub struct ManagementPolicy {
        /// Owner, `org/user`.
        owner: String,
        /// Display name.
        label: String,
        /// Text for people.
        description: String,
        /// Constraints on the node's management properties.
        constraints: Vec<String>,
        /// Properties offered to the node's management constraints.
        properties: Vec<Value>,
        /// Patterns of the nodes it is for.
        patterns: Vec<String>,
        /// Whether it is in force.
        enabled: bool,
        /// `now` or an instant.
        start: String,
        /// Seconds over which nodes spread their start.
        start_window: i64,
        /// The upgrade.
        agent_upgrade_policy: Option<AgentUpgradePolicy>,
        /// Creation.
        created: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// Versions a node ends up with.
    pub struct UpgradedVersions {
        /// Agent software.
        software_version: String,
        /// Certificate file.
        cert_version: String,
        /// Configuration file.
        config_version: String,
    }
}

tolerant! {
    /// How far a node's agent upgrade is.
    pub struct UpgradeStatus {
        /// When it is to start.
        scheduled_time: String,
        /// When it started.
        start_time: String,
        /// When it ended.
        end_time: String,
        /// Versions it leads to.
        upgraded_versions: UpgradedVersions,
        /// State in words (agreement protocol 6.2).
        status: String,
        /// What went wrong.
        error_message: String,
    }
}

tolerant! {
    /// A node's status for one management policy.
    pub struct ManagementStatus {
        /// The upgrade.
        agent_upgrade_policy_status: UpgradeStatus,
    }
}

tolerant! {
    /// Published versions of agent files, in the order given by the publisher.
    pub struct AgentFileVersions {
        /// Software.
        agent_software_versions: Vec<String>,
        /// Configuration.
        agent_config_versions: Vec<String>,
        /// Certificate.
        agent_cert_versions: Vec<String>,
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagementPolicyMap {
    #[serde(default)]
    pub management_policy: BTreeMap<String, ManagementPolicy>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagementStatusMap {
    #[serde(default)]
    pub management_status: BTreeMap<String, ManagementStatus>,
}
