//! Changing one attribute of a node.

use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_exchange_store::document_bytes::NODE_SHARE;
use evenkeel_exchange_store::node::{self, NodeRow};
use evenkeel_wire::exchange::node::PatchNode;

use super::validate::{check_pattern, check_token, json, parse_pattern, require_lengths, versions_json};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{check_new_secret, require_user_input, seen_from};

pub(super) async fn patch_node(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PatchNode>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    let attribute = single_attribute(&request)?;
    require_lengths(request.check_lengths())?;
    check_token(request.token.as_deref())?;
    check_new_secret(exchange, "token", request.token.as_deref())?;
    let token_hash = match &request.token {
        Some(token) => Some(exchange.credentials().hasher().hash(token).await?),
        None => None,
    };
    let pattern = parse_pattern(request.pattern.as_deref().unwrap_or_default())?;
    if attribute == "publicKey" && !matches!(caller.role, Role::Node | Role::Root) {
        return Err(ApiError::access_denied("only the node itself may set its public key"));
    }
    op.write(&permission, "node.patch", async |mut tx| {
        let mut row = node::lock_node(&mut tx, org, id)
            .await?
            .ok_or_else(|| ApiError::not_found(format!("node '{org}/{id}' not found")))?;
        check_state(caller, &row, &request, pattern.is_some())?;
        check_pattern(&mut tx, caller, org, pattern).await?;
        if let Some(entries) = &request.user_input {
            require_user_input(&mut tx, entries, seen_from(caller, org)).await?;
        }
        apply(&mut row, &request)?;
        row.updated_at = exchange.now();
        let size = SizeBefore::of_node(&mut tx, (row.record_bytes(), NODE_SHARE), org, id).await?;
        node::update_node(&mut tx, &row, token_hash.as_deref()).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        let mut changes = vec![node_change(org, id, "node", "modified")];
        if token_hash.is_some() {
            changes.push(forget_login(org, id));
        }
        tx.finish(changes)
    })
    .await?;
    Ok(created(format!("attribute '{attribute}' of node '{org}/{id}' updated")))
}

fn single_attribute(request: &PatchNode) -> Result<&'static str, ApiError> {
    let given: Vec<&str> = [
        ("token", request.token.is_some()),
        ("name", request.name.is_some()),
        ("nodeType", request.node_type.is_some()),
        ("pattern", request.pattern.is_some()),
        ("registeredServices", request.registered_services.is_some()),
        ("userInput", request.user_input.is_some()),
        ("msgEndPoint", request.msg_end_point.is_some()),
        ("softwareVersions", request.software_versions.is_some()),
        ("publicKey", request.public_key.is_some()),
        ("arch", request.arch.is_some()),
        ("heartbeatIntervals", request.heartbeat_intervals.is_some()),
        ("clusterNamespace", request.cluster_namespace.is_some()),
        ("isNamespaceScoped", request.is_namespace_scoped.is_some()),
        ("agentState", request.agent_state.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_given)| is_given.then_some(name))
    .collect();
    match given.as_slice() {
        [name] => Ok(name),
        _ => Err(ApiError::invalid_input(format!(
            "bad input: exactly one attribute must be given, found {}",
            given.len()
        ))),
    }
}

/// Rules between the attribute and what the node is now.
fn check_state(
    caller: &Caller,
    row: &NodeRow,
    request: &PatchNode,
    sets_pattern: bool,
) -> Result<(), ApiError> {
    let has_key = !row.public_key.is_empty();
    if request.token.is_some() && has_key {
        return Err(ApiError::invalid_input(format!(
            "public key is set for node '{}/{}', cannot set a token",
            row.org, row.node
        )));
    }
    if request.public_key.as_deref().is_some_and(|key| !key.is_empty()) && has_key {
        return Err(ApiError::invalid_input(
            "a public key cannot be replaced by another one, clear it first",
        ));
    }
    if sets_pattern && caller.role != Role::Root && row.pattern.is_empty() && has_key {
        return Err(ApiError::invalid_input(
            "the node is registered to follow policies, it cannot take a pattern",
        ));
    }
    Ok(())
}

fn apply(row: &mut NodeRow, request: &PatchNode) -> Result<(), ApiError> {
    let texts = [
        (&request.name, &mut row.name),
        (&request.node_type, &mut row.node_type),
        (&request.pattern, &mut row.pattern),
        (&request.msg_end_point, &mut row.msg_end_point),
        (&request.public_key, &mut row.public_key),
        (&request.arch, &mut row.arch),
        (&request.cluster_namespace, &mut row.cluster_namespace),
    ];
    for (given, place) in texts {
        if let Some(text) = given {
            place.clone_from(text);
        }
    }
    if let Some(services) = &request.registered_services {
        row.registered_services = json(services)?;
    }
    if let Some(entries) = &request.user_input {
        row.user_input = json(entries)?;
    }
    if let Some(versions) = &request.software_versions {
        row.software_versions = versions_json(Some(versions.clone()))?;
    }
    if let Some(intervals) = &request.heartbeat_intervals {
        row.heartbeat_intervals = json(intervals)?;
    }
    if let Some(is_scoped) = request.is_namespace_scoped {
        row.is_namespace_scoped = is_scoped;
    }
    if let Some(state) = request.agent_state {
        row.agent_state = state.word().to_owned();
    }
    Ok(())
}
