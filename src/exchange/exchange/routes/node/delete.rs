//! Removing a node.
//!
//! The user who removes a node cannot know when its agent has stopped what it runs, least of all when the agent
//! is silent: until the agent confirms it, no instance that may run only once starts elsewhere. The agent
//! confirms it by ending the departure of its node. Where nothing asks for fencing, agbots wait only as long as
//! for a node that falls silent. An agent that removes its own node while a service cannot be stopped
//! departs like one whose node was removed. Source: orchestration A2 (deletion of a live node).

use std::collections::BTreeMap;

use evenkeel_access::{Permission, Role, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::departure::Remainder;
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_exchange_store::{departure, node};
use evenkeel_wire::exchange::node::{DepartingNode, DeparturesResponse, NodeRemovalQuery};
use evenkeel_wire::exchange::time::millisecond_time;

use crate::ApiError;
use crate::extract::Query;
use crate::feed::row::node_change;
use crate::notice::forget_login;
use crate::operation::row::{delete, get};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, ResourcePath};

const TAG: &str = "node orchestration";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/orgs/{organization}/orchestration/departures", "list_departures", list_departures)
            .doc(TAG, "Lists deleted nodes whose agents have not confirmed that they stopped everything")
            .success("the nodes"),
        delete(
            "/orgs/{organization}/orchestration/departures/{node}",
            "confirm_departure",
            confirm_departure,
        )
        .doc(
            TAG,
            "Confirms that everything has stopped on a node that was deleted while it may have run instances",
        )
        .audit(Subject::Node)
        .success("confirmed"),
    ]
}

/// Removes a node; agreements, messages, policy, status and group membership go with it.
pub(super) async fn delete_node(
    op: Op<ResourcePath, Query<NodeRemovalQuery>>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = &op;
    // A node that removes itself has stopped everything, unless its agent says otherwise.
    let is_own = caller.role == Role::Node && (&caller.org, &caller.id) == (org, id);
    let is_unstopped = is_own && query.stopped == Some(false);
    let is_confirmed = (is_own && !is_unstopped) || query.force == Some(true);
    op.write(&permission, "node.delete", async |mut tx| {
        if is_confirmed {
            let has_departed = departure::delete(&mut tx, org, id).await?;
            if !node::delete_node(&mut tx, org, id).await? && !has_departed {
                return Err(ApiError::not_found(format!("node '{org}/{id}' not found")));
            }
        } else {
            let remainder = if is_unstopped { Remainder::Unstopped } else { Remainder::AsRecorded };
            let removed = [ResourceKey { org: org.clone(), id: id.clone() }];
            departure::insert(&mut tx, &removed, remainder, exchange.now()).await?;
            if !node::delete_node(&mut tx, org, id).await? {
                return Err(ApiError::not_found(format!("node '{org}/{id}' not found")));
            }
        }
        tx.finish([node_change(org, id, "node", "deleted"), forget_login(org, id)])
    })
    .await?;
    Ok(NoContent)
}

/// Ends a departure: only the departing agent, with the token of its deleted node, and administrators may
/// confirm it.
async fn confirm_departure(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { request: ExchangeRequest { caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    let is_own = caller.role == Role::Node && (&caller.org, &caller.id) == (org, id);
    if !is_own && !matches!(caller.role, Role::Root | Role::HubAdmin | Role::OrgAdmin) {
        let text =
            format!("only the agent of the node and administrators confirm the departure of '{org}/{id}'");
        return Err(ApiError::access_denied(text));
    }
    op.write(&permission, "departure.confirm", async |mut tx| {
        if !departure::delete(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("node '{org}/{id}' does not depart")));
        }
        tx.finish([node_change(org, id, "node", "deleted")])
    })
    .await?;
    Ok(NoContent)
}

async fn list_departures(
    op: Op<OrgPath>,
    _: Permission<right::NodeReportsRead>,
) -> Result<axum::Json<DeparturesResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = op;
    let found = exchange.database().read(async |connection| departure::list(connection, &org).await).await?;
    let departures: BTreeMap<String, DepartingNode> = found
        .into_iter()
        .map(|one| {
            let shown = DepartingNode {
                deleted: millisecond_time(one.deleted_at),
                last_heartbeat: millisecond_time(one.seen_at),
                leases: one.leases,
            };
            (format!("{org}/{}", one.node), shown)
        })
        .collect();
    Ok(axum::Json(DeparturesResponse { nodes: departures }))
}
