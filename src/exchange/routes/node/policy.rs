//! The policy of a node.
//!
//! Source: exchange contract 4.4.1.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, put};
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node;
use evenkeel_exchange_store::node_part::{self, NodePolicyRow};
use evenkeel_wire::exchange::node::HeartbeatQuery;
use evenkeel_wire::exchange::node_part::{NodePolicyAnswer, PolicyPart, PutNodePolicy};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::{json, missing_node, node_change};
use crate::endpoint::{Content, Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path, Query};
use crate::routes::reference::{ConstraintWarnings, require_property_types};
use crate::routes::shape::{found, no_content};
use crate::{ApiError, Exchange};

const TAG: &str = "node policy";
const PATH: &str = "/orgs/{organization}/nodes/{node}/policy";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, PATH, "get_node_policy", get(get_policy))
            .doc(TAG, "Answers the policy of a node")
            .answer::<NodePolicyAnswer>(200, "the policy"),
        endpoint(Method::PUT, PATH, "replace_node_policy", put(replace_policy))
            .doc(TAG, "Replaces the policy of a node")
            .query::<HeartbeatQuery>()
            .body::<PutNodePolicy>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::DELETE, PATH, "delete_node_policy", delete(delete_policy))
            .doc(TAG, "Removes the policy of a node")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn get_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeRead, FactKind::Node, &org, Some(&id)).await?;
    let row = node_part::find_policy(&mut *exchange.database().acquire().await?, &org, &id)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(found(NodePolicyAnswer {
        label: row.label,
        description: row.description,
        properties: row.properties,
        constraints: row.constraints,
        deployment: row.deployment,
        management: row.management,
        node_policy_version: row.version,
        last_updated: wire_time(row.updated_at),
    }))
}

async fn replace_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    Query(query): Query<HeartbeatQuery>,
    request: Body<PutNodePolicy>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    let request = request.read()?;
    require_property_types(&request.properties)?;
    let mut warnings = ConstraintWarnings::new(&exchange);
    warnings.check("constraints", &request.constraints)?;
    let deployment = checked("deployment", request.deployment, &mut warnings)?;
    let management = checked("management", request.management, &mut warnings)?;
    let now = exchange.now();
    let label = request.label.unwrap_or_default();
    let row = NodePolicyRow {
        description: request.description.unwrap_or_else(|| label.clone()),
        label,
        properties: json(&request.properties)?,
        constraints: json(&request.constraints)?,
        deployment: json(&deployment)?,
        management: json(&management)?,
        version: request.node_policy_version.unwrap_or_default(),
        updated_at: now,
    };
    exchange
        .write("node_policy.replace", async |mut tx| {
            if !node::touch_node(&mut tx, &org, &id, now).await? {
                return Err(missing_node(&org, &id));
            }
            node_part::upsert_policy(&mut tx, &org, &id, &row).await?;
            tx.finish([node_change(&org, &id, "nodepolicies", "created/modified")])
        })
        .await?;
    if query.noheartbeat != Some(true) {
        exchange.heartbeats().touch_node(&org, &id, now).await?;
    }
    Ok(warnings.on(created("policy added or updated")))
}

fn checked(
    name: &str,
    part: Option<PolicyPart>,
    warnings: &mut ConstraintWarnings,
) -> Result<PolicyPart, ApiError> {
    let part = part.unwrap_or_default();
    require_property_types(part.properties.as_deref().unwrap_or_default())?;
    let constraints = part.constraints.as_deref().unwrap_or_default();
    warnings.check(&format!("{name}.constraints"), constraints)?;
    Ok(part)
}

async fn delete_policy(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    exchange
        .write("node_policy.delete", async |mut tx| {
            // The node first, as every write about a node: two of them must not wait for each other.
            node::touch_node(&mut tx, &org, &id, exchange.now()).await?;
            if !node_part::delete_policy(&mut tx, &org, &id).await? {
                return Err(ApiError::not_found(format!("policy of node '{org}/{id}' not found")));
            }
            tx.finish([node_change(&org, &id, "nodepolicies", "deleted")])
        })
        .await?;
    Ok(no_content())
}
