//! Organizations, users, HA groups and searches over nodes (exchange API 4.2, 4.3, 6, 7).

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_ids::{NodeId, PatternId};
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::ha_group::{
    HaGroupMemberStatus, HaGroupResponse, HaGroupStatusResponse, HaGroupsResponse, PutHaGroup,
};
use evenkeel_wire::exchange::organization::{OrganizationResponse, OrganizationsResponse, PutOrganization};
use evenkeel_wire::exchange::search::{NodeHealth, NodeHealthRequest, NodeHealthResponse};
use evenkeel_wire::exchange::user::{ApiKeyResponse, NewApiKey, PutUser, UserResponse, UsersResponse};
use evenkeel_wire::exchange::utility::ApiResponse;
use evenkeel_wire::page::PageQuery;
use http::Method;
use serde::Serialize;

use super::{MOST_BYTES, by_id, only};
use crate::{Client, ClientError, Path};

/// Name of a policy and of an HA group that do not exist.
const NO_POLICY: &str = "evenkeel-asks-for-rights";

impl Client {
    /// All visible organizations.
    pub async fn list_orgs(&self) -> Result<BTreeMap<String, OrganizationResponse>, ClientError> {
        let found: Option<OrganizationsResponse> = self.get(Path::new(&["orgs"])).await?;
        Ok(found.unwrap_or_default().orgs)
    }

    /// One organization.
    pub async fn org(&self, org: &str) -> Result<Option<OrganizationResponse>, ClientError> {
        let found: Option<OrganizationsResponse> = self.get(Path::org(org, &[])).await?;
        Ok(only(found.map(|found| found.orgs)))
    }

    /// The settings of an organization for its workloads, with the defaults, as the exchange sent them; `None` when it has no such route.
    pub async fn org_orchestration_record(&self, org: &str) -> Result<Option<RawJson>, ClientError> {
        self.get(Path::org(org, &["orchestration"])).await
    }

    /// Returns the settings that an organization made for its workloads, without defaults; `None` when the
    /// exchange has no such route.
    pub async fn org_orchestration(&self, org: &str) -> Result<Option<RawJson>, ClientError> {
        self.get(Path::org(org, &["orchestration"]).query("given", "true")).await
    }

    /// Changes the settings of an organization for its workloads.
    pub async fn patch_org_orchestration<P: Serialize + ?Sized>(
        &self,
        org: &str,
        change: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.patch(Path::org(org, &["orchestration"]), change).await
    }

    /// Creates an organization.
    pub async fn create_org(&self, org: &str, body: &PutOrganization) -> Result<ApiResponse, ClientError> {
        self.post(Path::org(org, &[]), body).await
    }

    /// Returns the caller's own user in an organization and its name, `org/user`; a status other than 200 when the caller has none there.
    pub async fn own_user(&self, org: &str) -> Result<Option<(String, UserResponse)>, ClientError> {
        let found: Option<UsersResponse> = self.get(Path::org(org, &["users", "apikey"])).await?;
        Ok(found.and_then(|mut found| found.users.pop_first()))
    }

    /// Creates a user.
    pub async fn create_user(
        &self,
        org: &str,
        user: &str,
        body: &PutUser,
    ) -> Result<ApiResponse, ClientError> {
        self.post(Path::org(org, &["users", user]), body).await
    }

    /// Creates an API key of a user.
    pub async fn create_api_key(
        &self,
        org: &str,
        user: &str,
        body: &NewApiKey,
    ) -> Result<ApiKeyResponse, ClientError> {
        let body = serde_json::to_vec(body).map_err(ClientError::from)?;
        let path = Path::org(org, &["users", user, "apikeys"]);
        let response = self.send(Method::POST, &path, Some(body.into())).await?;
        if response.status.is_success() { response.json() } else { Err(response.unexpected()) }
    }

    /// Deletes an API key of a user; false when there is none.
    pub async fn delete_api_key(&self, org: &str, user: &str, key: &str) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["users", user, "apikeys", key])).await
    }

    /// All HA groups of an organization, sorted by name.
    pub async fn list_ha_groups(&self, org: &str) -> Result<Vec<HaGroupResponse>, ClientError> {
        let found: Option<HaGroupsResponse> =
            self.get(Path::org(org, &["hagroups"]).at_most(MOST_BYTES)).await?;
        Ok(found.unwrap_or_default().node_groups)
    }

    /// A page of the HA groups of an organization. An exchange without pages sends all.
    pub async fn ha_groups_page(
        &self,
        org: &str,
        query: &PageQuery,
    ) -> Result<HaGroupsResponse, ClientError> {
        let path = Path::org(org, &["hagroups"]).parameters(query)?;
        let found: Option<HaGroupsResponse> = self.get(path.at_most(MOST_BYTES)).await?;
        Ok(found.unwrap_or_default())
    }

    /// One HA group.
    pub async fn ha_group(&self, org: &str, group: &str) -> Result<Option<HaGroupResponse>, ClientError> {
        let found: Option<HaGroupsResponse> = self.get(Path::org(org, &["hagroups", group])).await?;
        Ok(found.and_then(|found| found.node_groups.into_iter().next()))
    }

    /// Returns the statuses of a management policy on the members of an HA group, by `org/node`; `None` when there is no such group, or the exchange
    /// has no such route.
    pub async fn ha_group_status(
        &self,
        org: &str,
        group: &str,
        policy: &str,
    ) -> Result<Option<BTreeMap<String, HaGroupMemberStatus>>, ClientError> {
        let path = Path::org(org, &["hagroups", group, "managementStatus", policy]);
        let found: Option<HaGroupStatusResponse> = self.get(path).await?;
        Ok(found.map(|found| found.members))
    }

    /// Creates an HA group.
    pub async fn create_ha_group(
        &self,
        org: &str,
        group: &str,
        body: &PutHaGroup,
    ) -> Result<ApiResponse, ClientError> {
        self.post(Path::org(org, &["hagroups", group]), body).await
    }

    /// Replaces what is given of an HA group.
    pub async fn put_ha_group(
        &self,
        org: &str,
        group: &str,
        body: &PutHaGroup,
    ) -> Result<ApiResponse, ClientError> {
        self.put(Path::org(org, &["hagroups", group]), body).await
    }

    /// Adds a node to an HA group.
    pub async fn add_to_ha_group(
        &self,
        org: &str,
        group: &str,
        node: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.post_empty(Path::org(org, &["hagroups", group, "nodes", node])).await
    }

    /// Removes a node from an HA group; false when it was not there.
    pub async fn remove_from_ha_group(
        &self,
        org: &str,
        group: &str,
        node: &str,
    ) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["hagroups", group, "nodes", node])).await
    }

    /// Returns whether the caller may read every node of an organization: a search by a policy that does not exist requires this permission.
    /// An agbot without approval may search as well, but finds the nodes of its owner only; it may not read the statuses of a group.
    ///
    /// # Errors
    /// [`ClientError`] when the credentials are rejected or the exchange does not respond.
    pub async fn may_read_all_nodes(&self, org: &str) -> Result<bool, ClientError> {
        if !self.may_search_nodes(org).await? {
            return Ok(false);
        }
        match self.ha_group_status(org, NO_POLICY, NO_POLICY).await {
            // An exchange without this route has no agbots without approval.
            Ok(_) => Ok(true),
            Err(ClientError::Status { status: 403, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn may_search_nodes(&self, org: &str) -> Result<bool, ClientError> {
        let path = Path::org(org, &["business", "policies", NO_POLICY, "search"]);
        let response =
            self.send(Method::POST, &path, Some(Bytes::from_static(b"{\"changedSince\":0}"))).await?;
        let error = response.unexpected();
        match (response.status.as_u16(), &error) {
            (200 | 201, _) => Ok(true),
            // The search was allowed, but the policy does not exist.
            (400 | 404, ClientError::Status { msg, .. }) if msg.contains(NO_POLICY) => Ok(true),
            (403, _) => Ok(false),
            _ => Err(error),
        }
    }

    /// Returns whether the caller may read the deployment policies of an organization.
    pub async fn may_read_policies(&self, org: &str) -> Result<bool, ClientError> {
        let path = Path::org(org, &["business", "policies"]).query("idfilter", NO_POLICY);
        match self.get::<serde_json::Value>(path).await {
            Ok(_) => Ok(true),
            Err(ClientError::Status { status: 403, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Heartbeats and agreements of an organization's policy nodes.
    pub async fn search_node_health(&self, org: &str) -> Result<BTreeMap<NodeId, NodeHealth>, ClientError> {
        self.search_health(Path::org(org, &["search", "nodehealth"]), None).await
    }

    /// Heartbeats and agreements of the nodes of a pattern in these organizations.
    pub async fn search_pattern_node_health(
        &self,
        pattern: &PatternId,
        node_orgs: Vec<String>,
    ) -> Result<BTreeMap<NodeId, NodeHealth>, ClientError> {
        let path = Path::org(pattern.org(), &["patterns", pattern.name(), "nodehealth"]);
        self.search_health(path, Some(node_orgs)).await
    }

    async fn search_health(
        &self,
        path: Path,
        node_orgids: Option<Vec<String>>,
    ) -> Result<BTreeMap<NodeId, NodeHealth>, ClientError> {
        let request = NodeHealthRequest { last_time: String::new(), node_orgids };
        let found: Option<NodeHealthResponse> = self.search(path, &request).await?;
        Ok(by_id(found.unwrap_or_default().nodes, NodeId::from_text))
    }
}
