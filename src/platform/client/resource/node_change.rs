//! Changes that are made in the same way on one node or on each of a selection.

use evenkeel_ids::NodeId;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::plan::DependencyWrite;
use evenkeel_wire::exchange::node_orchestration::{Availability, PatchNodeOrchestration};
use evenkeel_wire::exchange::node_tag::NodeTag;

use crate::{Client, ClientError};

/// A change of a node by its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeChange {
    /// Sets its availability.
    Availability(Availability),
    /// Freezes it, or thaws it if false.
    Freeze(bool),
    /// Sets or removes a property in its policy.
    Tag(NodeTag),
}

impl NodeChange {
    /// Returns the change of several nodes as a write to plan; `None` when nothing stops by it.
    #[must_use]
    pub fn write_to_plan(&self, nodes: Vec<String>) -> Option<DependencyWrite> {
        let (availability, property) = match self {
            Self::Availability(availability) => (Some(availability.word().to_owned()), None),
            Self::Tag(tag) => (None, Some(tag.clone())),
            Self::Freeze(_) => return None,
        };
        Some(DependencyWrite::Nodes { nodes, availability, property })
    }
}

impl Client {
    /// Changes a node. A node that has the property of a tag already is not written.
    pub async fn change_node(&self, node: &NodeId, change: &NodeChange) -> Result<(), ClientError> {
        match change {
            NodeChange::Availability(availability) => {
                let patch = PatchNodeOrchestration::availability(*availability);
                self.patch_node_orchestration(node, &patch).await.map(drop)
            }
            NodeChange::Freeze(frozen) => self.freeze_node(node, *frozen).await.map(drop),
            NodeChange::Tag(tag) => {
                let policy = self.node_policy(node).await?.map(RawJson::into_value).unwrap_or_default();
                match tag.applied(policy) {
                    Some(policy) => self.put_node_policy(node, &policy).await.map(drop),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::extract::Request;
    use evenkeel_wire::exchange::node_orchestration::Availability;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Credentials, Transport};

    /// Returns the requests that a change of a node with this policy makes.
    async fn requests(policy: Value, change: &NodeChange) -> Vec<(String, Value)> {
        let received: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let log = received.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (log, policy) = (log.clone(), policy.clone());
            async move {
                let line = format!("{} {}", request.method(), request.uri().path());
                let is_read = request.method() == http::Method::GET;
                let body = axum::body::to_bytes(request.into_body(), 4_096).await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                log.lock().unwrap().push((line, body));
                axum::Json(if is_read { policy } else { json!({"code": "ok", "msg": ""}) })
            }
        });
        let client =
            Client::new(Transport::router(router), "/v1", Credentials::new("o", "ann", "s")).unwrap();
        client.change_node(&NodeId::new("o", "n"), change).await.unwrap();
        let received = received.lock().unwrap();
        received.clone()
    }

    fn line(request: &str, body: Value) -> (String, Value) {
        (request.to_owned(), body)
    }

    #[tokio::test]
    async fn each_change_is_the_request_of_its_kind() {
        let none = || json!({});
        assert_eq!(
            requests(none(), &NodeChange::Availability(Availability::Drain)).await,
            [line("PATCH /v1/orgs/o/nodes/n/orchestration/spec", json!({"availability": "drain"}))]
        );
        for (frozen, action) in [(true, "freeze"), (false, "thaw")] {
            let request = format!("POST /v1/orgs/o/nodes/n/actions/{action}");
            assert_eq!(requests(none(), &NodeChange::Freeze(frozen)).await, [line(&request, Value::Null)]);
        }
    }

    #[tokio::test]
    async fn property_is_written_unless_the_node_has_it() {
        let tag = NodeChange::Tag(NodeTag::typed("site", "north").unwrap());
        let read = || line("GET /v1/orgs/o/nodes/n/policy", Value::Null);
        let north = json!({"label": "l", "properties": [{"name": "site", "value": "north"}]});
        let written = requests(json!({"label": "l", "properties": []}), &tag).await;
        assert_eq!(written, [read(), line("PUT /v1/orgs/o/nodes/n/policy", north.clone())]);
        assert_eq!(requests(north, &tag).await, [read()]);
    }

    #[test]
    fn changes_are_planned_unless_nothing_stops_by_them() {
        let write = |change: NodeChange| json!(change.write_to_plan(vec!["n".to_owned()]));
        let drain = NodeChange::Availability(Availability::Drain);
        assert_eq!(write(drain), json!({"nodes": {"nodes": ["n"], "availability": "drain"}}));
        let tag = NodeTag::typed("site", "north").unwrap();
        let property = json!({"name": "site", "value": "north"});
        assert_eq!(write(NodeChange::Tag(tag)), json!({"nodes": {"nodes": ["n"], "property": property}}));
        assert_eq!(write(NodeChange::Freeze(true)), Value::Null);
    }
}
