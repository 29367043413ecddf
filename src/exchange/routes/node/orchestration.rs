//! Whether services are placed on a node, as its operator wants it.
//!
//! Source: orchestration 1.7, B9.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, patch, put};
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node_orchestration::{
    Availability, NodeOrchestration, NodeOrchestrationAnswer, PutNodeOrchestration,
};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::{missing_node, node_change};
use crate::endpoint::{Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::shape::found;
use crate::{ApiError, Exchange};

const TAG: &str = "node orchestration";
const PATH: &str = "/orgs/{organization}/nodes/{node}/orchestration";
const SPEC: &str = "/orgs/{organization}/nodes/{node}/orchestration/spec";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, PATH, "get_node_orchestration", get(get_orchestration))
            .doc(TAG, "Answers whether services are placed on a node")
            .answer::<NodeOrchestrationAnswer>(200, "what its operator asks for"),
        endpoint(Method::PUT, SPEC, "replace_node_orchestration", put(set_orchestration))
            .doc(TAG, "Says whether services are placed on a node: active, pause or drain")
            .body::<PutNodeOrchestration>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::PATCH, SPEC, "patch_node_orchestration", patch(set_orchestration))
            .doc(TAG, "Changes whether services are placed on a node: active, pause or drain")
            .body::<PutNodeOrchestration>()
            .answer::<ApiResponse>(201, "changed"),
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
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeRead, FactKind::Node, &org, Some(&id)).await?;
    let availability = node::find_availability(&mut *exchange.database().acquire().await?, &org, &id)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(found(NodeOrchestrationAnswer { spec: spec(&availability) }))
}

/// Carries out PUT and PATCH, which are the same as long as there is one member.
async fn set_orchestration(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PutNodeOrchestration>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeOrchestrationWrite, FactKind::Node, &org, Some(&id)).await?;
    let availability = request.read()?.availability.word();
    exchange
        .write("node_orchestration.replace", async |mut tx| {
            if !node::set_availability(&mut tx, &org, &id, availability, exchange.now()).await? {
                return Err(missing_node(&org, &id));
            }
            tx.finish([node_change(&org, &id, "node", "modified")])
        })
        .await?;
    Ok(created(format!("availability of node '{org}/{id}' is {availability}")))
}
