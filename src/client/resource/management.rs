//! Management policies, node statuses for them, agent file versions (exchange API 4.2, 4.4.1, 4.9).

use std::collections::BTreeMap;

use serde_json::Value;

use super::only;
use crate::{
    Client, ClientError, Path,
    model::{
        AgentFileVersions, ManagementPolicy, ManagementPolicyMap, ManagementStatus, ManagementStatusMap,
        Reply,
    },
};

impl Client {
    /// All visible management policies of an organisation, by `org/policy`.
    pub async fn list_management_policies(
        &self,
        org: &str,
    ) -> Result<BTreeMap<String, ManagementPolicy>, ClientError> {
        let found: Option<ManagementPolicyMap> = self.get(Path::org(org, &["managementpolicies"])).await?;
        Ok(found.unwrap_or_default().management_policy)
    }

    /// One management policy.
    pub async fn management_policy(
        &self,
        org: &str,
        policy: &str,
    ) -> Result<Option<ManagementPolicy>, ClientError> {
        let found: Option<ManagementPolicyMap> =
            self.get(Path::org(org, &["managementpolicies", policy])).await?;
        Ok(only(found.map(|found| found.management_policy)))
    }

    /// Creates a management policy.
    pub async fn create_management_policy(
        &self,
        org: &str,
        policy: &str,
        body: &Value,
    ) -> Result<Reply, ClientError> {
        self.post(Path::org(org, &["managementpolicies", policy]), body).await
    }

    /// Replaces a management policy.
    pub async fn put_management_policy(
        &self,
        org: &str,
        policy: &str,
        body: &Value,
    ) -> Result<Reply, ClientError> {
        self.put(Path::org(org, &["managementpolicies", policy]), body).await
    }

    /// Removes a management policy.
    pub async fn delete_management_policy(&self, org: &str, policy: &str) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["managementpolicies", policy])).await
    }

    /// A node's statuses, by `org/policy`.
    pub async fn list_management_statuses(
        &self,
        org: &str,
        node: &str,
    ) -> Result<BTreeMap<String, ManagementStatus>, ClientError> {
        let found: Option<ManagementStatusMap> =
            self.get(Path::org(org, &["nodes", node, "managementStatus"])).await?;
        Ok(found.unwrap_or_default().management_status)
    }

    /// A node's status for one policy of its organisation.
    pub async fn management_status(
        &self,
        org: &str,
        node: &str,
        policy: &str,
    ) -> Result<Option<ManagementStatus>, ClientError> {
        let found: Option<ManagementStatusMap> =
            self.get(Path::org(org, &["nodes", node, "managementStatus", policy])).await?;
        Ok(only(found.map(|found| found.management_status)))
    }

    /// Replaces a node's status for one policy of its organisation.
    pub async fn put_management_status(
        &self,
        org: &str,
        node: &str,
        policy: &str,
        status: &ManagementStatus,
    ) -> Result<Reply, ClientError> {
        self.put(Path::org(org, &["nodes", node, "managementStatus", policy]), status).await
    }

    /// Removes a node's status for one policy of its organisation.
    pub async fn delete_management_status(
        &self,
        org: &str,
        node: &str,
        policy: &str,
    ) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["nodes", node, "managementStatus", policy])).await
    }

    /// The published versions of agent files.
    pub async fn agent_file_versions(&self) -> Result<Option<AgentFileVersions>, ClientError> {
        self.get(Path::org("IBM", &["AgentFileVersion"])).await
    }

    /// Publishes versions of agent files.
    pub async fn put_agent_file_versions(&self, versions: &AgentFileVersions) -> Result<Reply, ClientError> {
        self.put(Path::org("IBM", &["AgentFileVersion"]), versions).await
    }
}
