//! Calls that are the same for all kinds of resources of the exchange: list, show, write and remove by name.
//!
//! Documents are passed on unchanged ([`RawJson`]), for callers that show what the exchange sent or send what a user wrote.

use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::utility::ApiResponse;
use evenkeel_wire::page::PageQuery;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Client, ClientError, Path, Refusal, Written};

/// A kind of resource of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Organizations; the name of one is that of the organization.
    Organization,
    /// Users.
    User,
    /// Nodes.
    Node,
    /// Agbots.
    Agbot,
    /// Services.
    Service,
    /// Patterns.
    Pattern,
    /// Deployment policies.
    DeploymentPolicy,
    /// Management policies.
    ManagementPolicy,
    /// HA groups.
    HaGroup,
}

/// Documents by qualified name, `org/name` (of organizations the bare name), in the order of the exchange.
pub type Records = Vec<(String, RawJson)>;

/// A page of documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordsPage {
    /// The documents.
    pub records: Records,
    /// Where the next page begins; none after the last one.
    pub next: Option<String>,
    /// Number of documents on all pages; none from an exchange that does not count them.
    pub count: Option<u64>,
    /// True if there may be more.
    pub count_is_minimum: bool,
}

impl Resource {
    fn segments(self) -> &'static [&'static str] {
        match self {
            Self::Organization => &[],
            Self::User => &["users"],
            Self::Node => &["nodes"],
            Self::Agbot => &["agbots"],
            Self::Service => &["services"],
            Self::Pattern => &["patterns"],
            Self::DeploymentPolicy => &["business", "policies"],
            Self::ManagementPolicy => &["managementpolicies"],
            Self::HaGroup => &["hagroups"],
        }
    }

    /// Returns the member of a response that holds the resources.
    fn member(self) -> &'static str {
        match self {
            Self::Organization => "orgs",
            Self::User => "users",
            Self::Node => "nodes",
            Self::Agbot => "agbots",
            Self::Service => "services",
            Self::Pattern => "patterns",
            Self::DeploymentPolicy => "businessPolicy",
            Self::ManagementPolicy => "managementPolicy",
            Self::HaGroup => "nodeGroups",
        }
    }

    fn list_path(self, org: &str) -> Path {
        match self {
            Self::Organization => Path::new(&["orgs"]),
            _ => Path::org(org, self.segments()),
        }
    }

    pub(super) fn path(self, org: &str, name: &str) -> Path {
        match self {
            Self::Organization => Path::org(name, &[]),
            _ => Path::org(org, self.segments()).push(name),
        }
    }

    /// Returns the resources of a response: most come as a map, HA groups as a list.
    fn records(self, org: &str, mut response: Value) -> Records {
        match response.get_mut(self.member()).map(Value::take) {
            Some(Value::Array(list)) => list
                .into_iter()
                .filter_map(|one| Some((format!("{org}/{}", one.get("name")?.as_str()?), RawJson::from(one))))
                .collect(),
            Some(Value::Object(map)) => of_map(map),
            _ => Records::new(),
        }
    }
}

impl RecordsPage {
    /// Reads a response, whose documents a function takes out.
    pub(super) fn new(found: Value, records: impl FnOnce(Value) -> Records) -> Self {
        Self {
            next: found.get("next").and_then(Value::as_str).map(str::to_owned),
            count: found.get("count").and_then(Value::as_u64),
            count_is_minimum: found.get("countIsMinimum").and_then(Value::as_bool).unwrap_or(false),
            records: records(found),
        }
    }
}

/// Returns the documents in a member of a response that holds a map; none when it is missing.
pub(super) fn member_records(response: Option<Value>, member: &str) -> Records {
    match response.and_then(|mut response| response.get_mut(member).map(Value::take)) {
        Some(Value::Object(map)) => of_map(map),
        _ => Records::new(),
    }
}

pub(super) fn of_map(map: Map<String, Value>) -> Records {
    map.into_iter().map(|(name, one)| (name, RawJson::from(one))).collect()
}

impl Client {
    /// Reads all visible resources of an organization; `None` for status 404.
    pub async fn records(&self, resource: Resource, org: &str) -> Result<Option<Records>, ClientError> {
        let found: Option<Value> = self.get(resource.list_path(org)).await?;
        Ok(found.map(|found| resource.records(org, found)))
    }

    /// Reads a page of the visible resources of an organization; `None` for status 404, an empty list.
    pub async fn records_page(
        &self,
        resource: Resource,
        org: &str,
        query: &PageQuery,
    ) -> Result<Option<RecordsPage>, ClientError> {
        let found: Option<Value> = self.get(resource.list_path(org).parameters(query)?).await?;
        Ok(found.map(|found| RecordsPage::new(found, |found| resource.records(org, found))))
    }

    /// Reads one resource with its qualified name; `None` if it does not exist.
    pub async fn record(
        &self,
        resource: Resource,
        org: &str,
        name: &str,
    ) -> Result<Option<(String, RawJson)>, ClientError> {
        let found: Option<Value> = self.get(resource.path(org, name)).await?;
        Ok(found.and_then(|found| resource.records(org, found).into_iter().next()))
    }

    /// Creates a resource.
    pub async fn create_record<B: Serialize + ?Sized>(
        &self,
        resource: Resource,
        org: &str,
        name: &str,
        body: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.post(resource.path(org, name), body).await
    }

    /// Replaces a resource.
    pub async fn replace_record<B: Serialize + ?Sized>(
        &self,
        resource: Resource,
        org: &str,
        name: &str,
        body: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.put(resource.path(org, name), body).await
    }

    /// Creates a resource, or replaces it when a response with status `exists` reports that it exists.
    ///
    /// # Errors
    /// See [`Client::create_or_replace`].
    pub async fn create_or_replace_record<B: Serialize + ?Sized>(
        &self,
        resource: Resource,
        (org, name): (&str, &str),
        body: &B,
        exists: StatusCode,
    ) -> Result<Written, Refusal> {
        self.create_or_replace(resource.path(org, name), body, exists).await
    }

    /// Changes attributes of a resource.
    pub async fn patch_record<B: Serialize + ?Sized>(
        &self,
        resource: Resource,
        org: &str,
        name: &str,
        change: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.patch(resource.path(org, name), change).await
    }

    /// Removes a resource; false when it was not there.
    pub async fn delete_record(
        &self,
        resource: Resource,
        org: &str,
        name: &str,
    ) -> Result<bool, ClientError> {
        self.delete(resource.path(org, name)).await
    }

    /// Removes a deployment policy whose instances stop although workloads in its `children` are up; `false` when there was none.
    ///
    /// # Errors
    /// See [`Client::delete`].
    pub async fn delete_policy_before_children(&self, org: &str, policy: &str) -> Result<bool, ClientError> {
        self.delete(Resource::DeploymentPolicy.path(org, policy).query("force", "true")).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_are_below_the_organization() {
        let shown = |resource: Resource| resource.path("o", "x/y").shown().to_owned();
        assert_eq!(shown(Resource::DeploymentPolicy), "/orgs/o/business/policies/x%2Fy");
        assert_eq!(shown(Resource::Organization), "/orgs/x%2Fy");
        assert_eq!(Resource::Node.list_path("o").shown(), "/orgs/o/nodes");
    }

    #[test]
    fn lists_and_maps_are_read_by_qualified_name() {
        let names = |resource: Resource, response: Value| -> Vec<String> {
            resource.records("o", response).into_iter().map(|(name, _)| name).collect()
        };
        let groups = json!({"nodeGroups": [{"name": "pair", "members": ["e3"]}, {"members": []}]});
        assert_eq!(names(Resource::HaGroup, groups), ["o/pair"]);
        assert_eq!(names(Resource::Node, json!({"nodes": {"o/b": {}, "o/a": {}}})), ["o/b", "o/a"]);
        assert!(names(Resource::Node, json!({})).is_empty());
    }
}
