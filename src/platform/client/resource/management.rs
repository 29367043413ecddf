//! Management policies, node statuses for them, agent file versions (exchange API 4.2, 4.4.1, 4.9).

use std::collections::BTreeMap;

use evenkeel_ids::{NmpId, NodeId};
use evenkeel_wire::exchange::administration::AgentFileVersions;
use evenkeel_wire::exchange::management_policy::{ManagementPoliciesResponse, ManagementPolicyResponse};
use evenkeel_wire::exchange::node_part::{ManagementStatus, ManagementStatusResponse, PutManagementStatus};
use evenkeel_wire::exchange::utility::ApiResponse;

use serde_json::Value;

use super::record::member_records;
use super::{MOST_BYTES, by_id, only};
use crate::{Client, ClientError, Path, Records};

impl Client {
    /// All visible management policies of an organization, by `org/policy`.
    pub async fn list_management_policies(
        &self,
        org: &str,
    ) -> Result<BTreeMap<NmpId, ManagementPolicyResponse>, ClientError> {
        let found: Option<ManagementPoliciesResponse> =
            self.get(Path::org(org, &["managementpolicies"]).at_most(MOST_BYTES)).await?;
        Ok(by_id(found.unwrap_or_default().management_policy, NmpId::from_text))
    }

    /// One management policy.
    pub async fn management_policy(
        &self,
        org: &str,
        policy: &str,
    ) -> Result<Option<ManagementPolicyResponse>, ClientError> {
        let found: Option<ManagementPoliciesResponse> =
            self.get(Path::org(org, &["managementpolicies", policy])).await?;
        Ok(only(found.map(|found| found.management_policy)))
    }

    /// A node's statuses, by `org/policy`.
    pub async fn list_management_statuses(
        &self,
        node: &NodeId,
    ) -> Result<BTreeMap<NmpId, ManagementStatus>, ClientError> {
        let found: Option<ManagementStatusResponse> =
            self.get(Path::org(node.org(), &["nodes", node.name(), "managementStatus"])).await?;
        Ok(by_id(found.unwrap_or_default().management_status, NmpId::from_text))
    }

    /// A node's status for one policy of its organization.
    pub async fn management_status(
        &self,
        node: &NodeId,
        policy: &str,
    ) -> Result<Option<ManagementStatus>, ClientError> {
        let found: Option<ManagementStatusResponse> =
            self.get(Path::org(node.org(), &["nodes", node.name(), "managementStatus", policy])).await?;
        Ok(only(found.map(|found| found.management_status)))
    }

    /// A node's statuses by `org/policy` as the exchange sent them, or only that of one policy; empty when there is none.
    pub async fn management_status_records(
        &self,
        node: &NodeId,
        policy: Option<&str>,
    ) -> Result<Records, ClientError> {
        let path = Path::org(node.org(), &["nodes", node.name(), "managementStatus"]);
        let path = policy.into_iter().fold(path, Path::push);
        let found: Option<Value> = self.get(path).await?;
        Ok(member_records(found, "managementStatus"))
    }

    /// Replaces a node's status for one policy of its organization.
    pub async fn put_management_status(
        &self,
        node: &NodeId,
        policy: &str,
        status: &PutManagementStatus,
    ) -> Result<ApiResponse, ClientError> {
        self.put(Path::org(node.org(), &["nodes", node.name(), "managementStatus", policy]), status).await
    }

    /// Removes a node's status for one policy of its organization.
    pub async fn delete_management_status(&self, node: &NodeId, policy: &str) -> Result<bool, ClientError> {
        self.delete(Path::org(node.org(), &["nodes", node.name(), "managementStatus", policy])).await
    }

    /// The published versions of agent files.
    pub async fn agent_file_versions(&self) -> Result<Option<AgentFileVersions>, ClientError> {
        self.get(Path::org("IBM", &["AgentFileVersion"])).await
    }
}
