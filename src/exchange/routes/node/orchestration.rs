//! Whether services are placed on a node, as its operator wants it.
//!
//! Source: orchestration 1.7, B9.
use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node_orchestration::{
    Availability, NodeOrchestration, NodeOrchestrationResponse, PutNodeOrchestration,
};

use super::{missing_node, node_change};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::row::{get, patch, put};
use crate::operation::{Op, Operation, ResourcePath};

const TAG: &str = "node orchestration";
const PATH: &str = "/orgs/{organization}/nodes/{node}/orchestration";
const SPEC: &str = "/orgs/{organization}/nodes/{node}/orchestration/spec";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(PATH, "get_node_orchestration", get_orchestration)
            .doc(TAG, "Answers whether services are placed on a node")
            .success("what its operator asks for"),
        put(SPEC, "replace_node_orchestration", set_orchestration)
            .doc(TAG, "Says whether services are placed on a node: active, pause or drain")
            .audit(Subject::NodeOrchestration)
            .success("replaced"),
        patch(SPEC, "patch_node_orchestration", set_orchestration)
            .doc(TAG, "Changes whether services are placed on a node: active, pause or drain")
            .audit(Subject::NodeOrchestration)
            .success("changed"),
    ]
}

/// The object as it is shown with its node; none for a node that is active, so that its answer is that of the reference.
pub(super) fn shown_orchestration(availability: &str) -> Option<NodeOrchestration> {
    spec(availability).unless_default()
}

fn spec(availability: &str) -> NodeOrchestration {
    NodeOrchestration { availability: Availability::of_word(availability) }
}

async fn get_orchestration(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeOrchestrationResponse>, ApiError> {
    let Op { exchange, path: ResourcePath { org, id }, .. } = op;
    let availability = exchange
        .database()
        .read(async |connection| node::find_availability(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(Json(NodeOrchestrationResponse { spec: spec(&availability) }))
}

/// Carries out PUT and PATCH, which are the same as long as there is one member.
async fn set_orchestration(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeOrchestrationWrite>,
    Body(request): Body<PutNodeOrchestration>,
) -> Result<Created, ApiError> {
    let Op { exchange, path: ResourcePath { org, id }, .. } = &op;
    let availability = request.availability.word();
    op.write(&permission, "node_orchestration.replace", async |mut tx| {
        if !node::set_availability(&mut tx, org, id, availability, exchange.now()).await? {
            return Err(missing_node(org, id));
        }
        tx.finish([node_change(org, id, "node", "modified")])
    })
    .await?;
    Ok(created(format!("availability of node '{org}/{id}' is {availability}")))
}
