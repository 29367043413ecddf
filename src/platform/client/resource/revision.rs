//! Revisions of documents that persons write.

use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::revision::{RevisionQuery, RevisionResponse, RevisionsQuery, RevisionsResponse};
use evenkeel_wire::exchange::utility::ApiResponse;
use serde::Serialize;

use super::Resource;
use crate::{Client, ClientError, Path};

/// A document with revisions, as its path names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentPath {
    /// A resource: a deployment policy, management policy, service, pattern or HA group.
    Record(Resource, String, String),
    /// The policy of a service, by its organization and id.
    ServicePolicy(String, String),
    /// The policy of a node.
    NodePolicy(NodeId),
    /// The orchestration settings of a node.
    NodeSettings(NodeId),
    /// The settings of an organization for its workloads and nodes.
    OrgSettings(String),
}

impl DocumentPath {
    fn path(&self) -> Path {
        let of_node = |node: &NodeId| Path::org(node.org(), &["nodes", node.name()]);
        match self {
            Self::Record(resource, org, name) => resource.path(org, name),
            Self::ServicePolicy(org, service) => Path::org(org, &["services", service, "policy"]),
            Self::NodePolicy(node) => of_node(node).push("policy"),
            Self::NodeSettings(node) => of_node(node).push("orchestration").push("spec"),
            Self::OrgSettings(org) => Path::org(org, &["orchestration"]),
        }
    }
}

impl Client {
    /// One page of the revisions of a document, newest first; `None` when there is no such document.
    pub async fn revisions(
        &self,
        document: &DocumentPath,
        query: &RevisionsQuery,
    ) -> Result<Option<RevisionsResponse>, ClientError> {
        self.get(document.path().push("revisions").parameters(query)?).await
    }

    /// A revision with its document, and with the changes since another one if `query` names that; `None` when one of them does not exist.
    pub async fn revision(
        &self,
        document: &DocumentPath,
        revision: i64,
        query: &RevisionQuery,
    ) -> Result<Option<RevisionResponse>, ClientError> {
        let path = document.path().push("revisions").push(&revision.to_string());
        self.get(path.parameters(query)?).await
    }

    /// Replaces a document.
    pub async fn put_document<B: Serialize + ?Sized>(
        &self,
        document: &DocumentPath,
        body: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.put(document.path(), body).await
    }
}
