//! Nodes and everything that belongs to them.
//!
//! Source: exchange contract 4.4 and 4.4.1.

mod agreement;
mod change;
mod config_state;
mod delete;
mod details;
mod errors;
pub(in crate::routes) mod get;
pub(crate) mod heartbeat;
mod management_status;
mod message;
mod orchestration;
mod patch;
mod policy;
mod put;
mod status;
mod validate;

use axum::routing::{delete, get, patch, put};
use evenkeel_wire::exchange::node::{
    AttributeQuery, HeartbeatQuery, NodesAnswer, NodesQuery, PatchNode, PutNode,
};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use crate::ApiError;
use crate::endpoint::{Content, Endpoint, endpoint};

pub(super) use change::node_change;
pub(super) use get::{MASKED, visible_owner};
pub(super) use validate::json;

const TAG: &str = "node";
const NODES: &str = "/orgs/{organization}/nodes";
const NODE: &str = "/orgs/{organization}/nodes/{node}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        endpoint(Method::GET, NODES, "list_nodes", get(get::list_nodes))
            .doc(TAG, "Lists the nodes of an organization that the caller may see")
            .query::<NodesQuery>()
            .answer::<NodesAnswer>(200, "the nodes")
            .answer::<NodesAnswer>(404, "no node fits"),
        endpoint(Method::GET, NODE, "get_node", get(get::get_node))
            .doc(TAG, "Answers a node or one attribute of it")
            .query::<AttributeQuery>()
            .answer::<NodesAnswer>(200, "the node"),
        endpoint(Method::PUT, NODE, "replace_node", put(put::replace_node))
            .doc(TAG, "Creates a node or replaces its attributes")
            .query::<HeartbeatQuery>()
            .body::<PutNode>()
            .answer::<ApiResponse>(201, "created or replaced")
            .answer::<ApiResponse>(409, "the name is taken by another kind of login"),
        endpoint(Method::PATCH, NODE, "patch_node", patch(patch::patch_node))
            .doc(TAG, "Changes one attribute of a node")
            .body::<PatchNode>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, NODE, "delete_node", delete(delete::delete_node))
            .doc(TAG, "Removes a node with everything that belongs to it")
            .answer_with(204, "removed", Content::None),
    ];
    endpoints.extend(details::endpoints());
    endpoints.extend(heartbeat::endpoints());
    endpoints.extend(config_state::endpoints());
    endpoints.extend(orchestration::endpoints());
    endpoints.extend(policy::endpoints());
    endpoints.extend(status::endpoints());
    endpoints.extend(errors::endpoints());
    endpoints.extend(agreement::endpoints());
    endpoints.extend(message::endpoints());
    endpoints.extend(management_status::endpoints());
    endpoints
}

/// 404 of what belongs to a node that does not exist.
fn missing_node(org: &str, node: &str) -> ApiError {
    ApiError::not_found(format!("node '{org}/{node}' not found"))
}
