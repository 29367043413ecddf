//! Orchestration settings of a node's operator: availability, freeze, capacities and domains.
//!
//! Source: orchestration 1.7, A12, B9, D7.
use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_domain::orchestration::capacity::readable_amounts;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node_report;
use evenkeel_exchange_store::node_spec::{self, NodeSpecChange, NodeSpecRow};
use evenkeel_wire::exchange::node_orchestration::{
    Availability, DrainQuery, NodeOrchestration, NodeOrchestrationResponse, PatchNodeOrchestration,
    PutNodeOrchestration,
};

use serde_json::json;

use super::missing_node;
use super::report::shown_report;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::operation::row::{get, patch, post, put};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};

const TAG: &str = "node orchestration";
const PATH: &str = "/orgs/{organization}/nodes/{node}/orchestration";
const SPEC: &str = "/orgs/{organization}/nodes/{node}/orchestration/spec";

pub(super) fn operations() -> Vec<Operation> {
    let action = |operation: Operation| operation.audit(Subject::NodeOrchestration).success("done");
    vec![
        get(PATH, "get_node_orchestration", get_orchestration)
            .doc(TAG, "Returns the orchestration settings of a node and its report about itself")
            .success("the settings of its operator and its last report"),
        put(SPEC, "replace_node_orchestration", replace_orchestration)
            .doc(TAG, "Replaces the orchestration settings of a node: availability (active, pause or drain), freeze, capacities and domains")
            .audit(Subject::NodeOrchestration)
            .success("replaced"),
        patch(SPEC, "patch_node_orchestration", patch_orchestration)
            .doc(
                TAG,
                "Changes orchestration settings of a node: availability (active, pause or drain), freeze, capacities and domains",
            )
            .audit(Subject::NodeOrchestration)
            .success("changed"),
        action(
            post("/orgs/{organization}/nodes/{node}/actions/freeze", "freeze_node", freeze_node)
                .doc(TAG, "Freezes a node: the engine starts, stops and moves nothing there"),
        ),
        action(
            post("/orgs/{organization}/nodes/{node}/actions/thaw", "thaw_node", thaw_node)
                .doc(TAG, "Thaws a frozen node"),
        ),
        action(
            post("/orgs/{organization}/nodes/{node}/actions/drain", "drain_node", drain_node)
                .doc(TAG, "Drains a node"),
        ),
        action(
            post("/orgs/{organization}/nodes/{node}/actions/activate", "activate_node", activate_node)
                .doc(TAG, "Makes a node available for placement again"),
        ),
        action(
            post("/orgs/{organization}/nodes/{node}/actions/pause", "pause_node", pause_node)
                .doc(TAG, "Pauses a node: nothing is placed or updated there, and running instances stay"),
        ),
    ]
}

/// Returns the orchestration settings of a new node.
pub(super) fn new_spec() -> NodeSpecRow {
    NodeSpecRow {
        availability: Availability::default().word().to_owned(),
        is_drain_forced: false,
        is_frozen: false,
        is_in_upgrade: false,
        capacities: None,
        fault_domain: None,
        upgrade_domain: None,
        updated_by: None,
    }
}

/// The object as it is shown with its node; none for a node that is active, so that the response equals that
/// of the reference.
pub(super) fn shown_spec(row: NodeSpecRow) -> Option<NodeOrchestration> {
    spec(row).unless_default()
}

fn spec(row: NodeSpecRow) -> NodeOrchestration {
    NodeOrchestration {
        availability: Availability::of_word(&row.availability),
        force: row.is_drain_forced,
        frozen: row.is_frozen,
        upgrade: row.is_in_upgrade,
        capacities: row.capacities.as_ref().map(readable_amounts).unwrap_or_default(),
        fault_domain: row.fault_domain,
        upgrade_domain: row.upgrade_domain,
    }
}

async fn get_orchestration(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeOrchestrationResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    // The latest report of the node may not be written yet.
    exchange.flush_heartbeats().await?;
    let row = exchange
        .database()
        .read(async |connection| node_report::find_report(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    let spec = spec(row.spec.clone());
    Ok(Json(NodeOrchestrationResponse { spec, status: shown_report(&exchange, &org, &id, row)? }))
}

type Write = Permission<right::NodeOrchestrationWrite>;

async fn replace_orchestration(
    op: Op<ResourcePath>,
    permission: Write,
    Body(request): Body<PutNodeOrchestration>,
) -> Result<Created, ApiError> {
    let change = PatchNodeOrchestration {
        availability: Some(request.availability),
        force: Some(request.force),
        frozen: Some(request.frozen),
        upgrade: Some(request.upgrade),
        capacities: Some(request.capacities),
        fault_domain: Some(request.fault_domain.unwrap_or_default()),
        upgrade_domain: Some(request.upgrade_domain.unwrap_or_default()),
    };
    set_orchestration(op, permission, change).await
}

async fn patch_orchestration(
    op: Op<ResourcePath>,
    permission: Write,
    Body(request): Body<PatchNodeOrchestration>,
) -> Result<Created, ApiError> {
    set_orchestration(op, permission, request).await
}

async fn freeze_node(op: Op<ResourcePath>, permission: Write) -> Result<Created, ApiError> {
    set_orchestration(op, permission, PatchNodeOrchestration::frozen(true)).await
}

async fn thaw_node(op: Op<ResourcePath>, permission: Write) -> Result<Created, ApiError> {
    set_orchestration(op, permission, PatchNodeOrchestration::frozen(false)).await
}

async fn drain_node(op: Op<ResourcePath, Query<DrainQuery>>, permission: Write) -> Result<Created, ApiError> {
    let Query(query) = &op.parameters;
    let change = PatchNodeOrchestration {
        force: Some(query.force.unwrap_or_default()),
        upgrade: Some(query.upgrade.unwrap_or_default()),
        ..PatchNodeOrchestration::availability(Availability::Drain)
    };
    set_orchestration(op, permission, change).await
}

async fn activate_node(op: Op<ResourcePath>, permission: Write) -> Result<Created, ApiError> {
    set_orchestration(op, permission, PatchNodeOrchestration::availability(Availability::Active)).await
}

async fn pause_node(op: Op<ResourcePath>, permission: Write) -> Result<Created, ApiError> {
    set_orchestration(op, permission, PatchNodeOrchestration::availability(Availability::Pause)).await
}

async fn set_orchestration<Q>(
    op: Op<ResourcePath, Q>,
    permission: Write,
    change: PatchNodeOrchestration,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    let is_whole = change.frozen.is_some() && change.availability.is_some();
    let stored = NodeSpecChange {
        availability: change.availability.map(Availability::word),
        is_drain_forced: change.force,
        is_frozen: change.frozen,
        is_in_upgrade: change.upgrade,
        capacities: change.capacities.as_ref().map(|amounts| json!(amounts)),
        fault_domain: change.fault_domain.clone(),
        upgrade_domain: change.upgrade_domain.clone(),
    };
    op.write(&permission, "node_orchestration.replace", async |mut tx| {
        if !node_spec::update_spec(&mut tx, org, id, &stored, &op.caller.to_string(), exchange.now()).await? {
            return Err(missing_node(org, id));
        }
        tx.finish([node_change(org, id, "node", "modified")])
    })
    .await?;
    let frozen = match &change {
        PatchNodeOrchestration { frozen: Some(true), .. } => Some(format!("node '{org}/{id}' is frozen")),
        PatchNodeOrchestration { frozen: Some(false), availability: None, .. } => {
            Some(format!("node '{org}/{id}' is not frozen"))
        }
        _ => None,
    };
    let availability = stored.availability.map(|word| format!("availability of node '{org}/{id}' is {word}"));
    let others = [
        ("capacities", stored.capacities.is_some()),
        ("fault domain", stored.fault_domain.is_some()),
        ("upgrade domain", stored.upgrade_domain.is_some()),
    ];
    let others = others.into_iter().filter(|(_, is_set)| *is_set && !is_whole);
    let others = others.map(|(name, _)| format!("{name} of node '{org}/{id}' set"));
    Ok(created(availability.into_iter().chain(frozen).chain(others).collect::<Vec<_>>().join("; ")))
}
