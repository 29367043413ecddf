//! The policy of a node.
//!
//! Source: exchange-api 4.4.1.
use axum::Json;
use evenkeel_access::{Permission, Role, right};
use evenkeel_api::NoContent;
use evenkeel_domain::review;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::document_bytes::NODE_SHARE;
use evenkeel_exchange_store::node;
use evenkeel_exchange_store::node_part::{self, NodePolicyRow};
use evenkeel_wire::exchange::node::HeartbeatQuery;
use evenkeel_wire::exchange::node_part::{NodePolicyResponse, PolicyPart, PutNodePolicy};
use evenkeel_wire::exchange::time::wire_time;
use serde_json::Value;

use super::{json, missing_node};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{Warned, WriteWarnings, require_property_types};

const TAG: &str = "node policy";
const PATH: &str = "/orgs/{organization}/nodes/{node}/policy";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(PATH, "get_node_policy", get_policy)
            .doc(TAG, "Returns the policy of a node")
            .success("the policy"),
        put(PATH, "replace_node_policy", replace_policy)
            .doc(TAG, "Replaces the policy of a node")
            .audit(Subject::NodePolicy)
            .success("replaced"),
        delete(PATH, "delete_node_policy", delete_policy)
            .doc(TAG, "Removes the policy of a node")
            .audit(Subject::NodePolicy)
            .success("removed"),
    ]
}

async fn get_policy(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodePolicyResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let row = exchange
        .database()
        .read(async |connection| node_part::find_policy(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(Json(response(row)))
}

/// Returns the policy as it is shown.
pub(super) fn response(row: NodePolicyRow) -> NodePolicyResponse {
    NodePolicyResponse {
        label: row.label,
        description: row.description,
        properties: row.properties,
        constraints: row.constraints,
        deployment: row.deployment,
        management: row.management,
        node_policy_version: row.version,
        last_updated: wire_time(row.updated_at),
    }
}

async fn replace_policy(
    op: Op<ResourcePath, Query<HeartbeatQuery>>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutNodePolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = &op;
    require_property_types(&request.properties)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.check("constraints", &request.constraints)?;
    let deployment = checked("deployment", request.deployment, &mut warnings)?;
    let management = checked("management", request.management, &mut warnings)?;
    let document = serde_json::json!({"properties": request.properties, "deployment": deployment, "management": management,
        "constraints": request.constraints});
    warnings.add(review::node_policy(&document));
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
    op.write(&permission, "node_policy.replace", async |mut tx| {
        if !node::touch_node(&mut tx, org, id, now).await? {
            return Err(missing_node(org, id));
        }
        let size = SizeBefore::of_node(&mut tx, (row.bytes(), NODE_SHARE), org, id).await?;
        node_part::upsert_policy(&mut tx, org, id, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        if op.caller.role == Role::Node
            && tx.document_before().is_some_and(|before| is_kept(before, &document))
        {
            tx.skip_revision();
        }
        tx.finish([node_change(org, id, "nodepolicies", "created/modified")])
    })
    .await?;
    if query.noheartbeat != Some(true) {
        exchange.heartbeats().touch_node(org, id, now).await?;
    }
    Ok(warnings.on(created("policy added or updated")))
}

/// Prefix of the properties that agents add to the policies of their nodes.
const BUILT_IN: &str = "openhorizon.";
/// The property with this prefix that persons set.
const SET_BY_PERSONS: &str = "openhorizon.allowPrivileged";

/// Returns whether a node writes the policy that it has, apart from the properties that its agent adds after each change.
fn is_kept(before: &str, written: &Value) -> bool {
    let Ok(before) = serde_json::from_str::<Value>(before) else { return false };
    let given = |policy: &Value| -> Vec<Value> {
        let properties = policy["properties"].as_array().into_iter().flatten();
        let is_given = |one: &&Value| {
            !one["name"].as_str().is_some_and(|name| name.starts_with(BUILT_IN) && name != SET_BY_PERSONS)
        };
        properties.filter(is_given).cloned().collect()
    };
    given(&before) == given(written)
        && ["constraints", "deployment", "management"].iter().all(|part| before[part] == written[part])
}

fn checked(
    name: &str,
    part: Option<PolicyPart>,
    warnings: &mut WriteWarnings,
) -> Result<PolicyPart, ApiError> {
    let part = part.unwrap_or_default();
    require_property_types(part.properties.as_deref().unwrap_or_default())?;
    let constraints = part.constraints.as_deref().unwrap_or_default();
    warnings.check(&format!("{name}.constraints"), constraints)?;
    Ok(part)
}

async fn delete_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "node_policy.delete", async |mut tx| {
        // The node first, as every write about a node: two of them must not wait for each other.
        node::touch_node(&mut tx, org, id, exchange.now()).await?;
        if !node_part::delete_policy(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("policy of node '{org}/{id}' not found")));
        }
        tx.finish([node_change(org, id, "nodepolicies", "deleted")])
    })
    .await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_that_an_agent_adds_are_no_edit() {
        let policy = |value: &str, arch: &str| {
            json!({"properties": [{"name": "openhorizon.arch", "value": arch}, {"name": "site", "value": value}],
                   "constraints": [], "deployment": {}, "management": {}})
        };
        let before = policy("x", "amd64").to_string();
        assert!(is_kept(&before, &policy("x", "arm64")));
        assert!(!is_kept(&before, &policy("y", "amd64")));
        let constrained = json!({"properties": [{"name": "site", "value": "x"}], "constraints": ["a == b"],
                                 "deployment": {}, "management": {}});
        assert!(!is_kept(&before, &constrained));
    }
}
