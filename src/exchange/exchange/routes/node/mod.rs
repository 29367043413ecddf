//! Nodes and everything that belongs to them.
//!
//! Source: exchange-api 4.4, 4.4.1.

mod agbot;
mod agreement;
mod config_state;
mod delete;
mod details;
mod errors;
mod filtered;
pub(in crate::routes) mod get;
pub(crate) mod heartbeat;
mod management_status;
mod message;
mod orchestration;
mod parts;
mod patch;
mod policy;
mod put;
mod report;
mod status;
mod task;
mod task_health;
mod validate;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_wire::exchange::node::NodesResponse;
use evenkeel_wire::exchange::utility::ApiResponse;
pub(super) use get::MASKED;
pub(super) use validate::json;

use crate::ApiError;
use crate::operation::Operation;
use crate::operation::row::{delete, get, patch, put};

const TAG: &str = "node";
const NODES: &str = "/orgs/{organization}/nodes";
const NODE: &str = "/orgs/{organization}/nodes/{node}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = vec![
        get(NODES, "list_nodes", get::list_nodes)
            .doc(TAG, "Lists the nodes of an organization that the caller may see")
            .success("the nodes")
            .empty("no node fits"),
        get(NODE, "get_node", get::get_node)
            .doc(TAG, "Returns a node or one attribute of it")
            .response::<NodesResponse>(200, "the node"),
        put(NODE, "replace_node", put::replace_node)
            .doc(TAG, "Creates a node or replaces its attributes")
            .audit(Subject::Node)
            .success("created or replaced")
            .response::<ApiResponse>(409, "the name is taken by another kind of login"),
        patch(NODE, "patch_node", patch::patch_node)
            .doc(TAG, "Changes one attribute of a node")
            .audit(Subject::Node)
            .success("changed"),
        delete(NODE, "delete_node", delete::delete_node)
            .doc(TAG, "Removes a node with everything that belongs to it")
            .audit(Subject::Node)
            .success("removed"),
    ];
    operations.extend(delete::operations());
    operations.extend(agbot::operations());
    operations.extend(details::operations());
    operations.extend(heartbeat::operations());
    operations.extend(config_state::operations());
    operations.extend(orchestration::operations());
    operations.extend(report::operations());
    operations.extend(policy::operations());
    operations.extend(status::operations());
    operations.extend(errors::operations());
    operations.extend(agreement::operations());
    operations.extend(message::operations());
    operations.extend(management_status::operations());
    operations.extend(task::operations());
    operations.extend(task_health::operations());
    operations
}

/// 404 of what belongs to a node that does not exist.
fn missing_node(org: &str, node: &str) -> ApiError {
    ApiError::not_found(format!("node '{org}/{node}' not found"))
}
