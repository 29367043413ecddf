//! Creating a node or replacing its attributes.

use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_exchange_store::document_bytes::NODE_SHARE;
use evenkeel_exchange_store::heartbeat::{self, Heartbeat};
use evenkeel_exchange_store::identity::{IdentityKind, find_identity, lock_name};
use evenkeel_exchange_store::node::{self, NodeRow};
use evenkeel_exchange_store::node_limit::{NodeCount, lock_node_count};
use evenkeel_wire::exchange::node::{AgentState, HeartbeatQuery, PutNode};
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use jiff::Timestamp;

use super::orchestration::new_spec;
use super::validate::{
    check_id, check_node_type, check_pattern, check_services, check_token, json, parse_pattern,
    require_lengths, versions_json,
};
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{check_new_name, check_new_secret, require_user_input, seen_from};
use crate::transaction::{Finished, WriteTx};
use crate::{ApiError, Exchange};

/// A request that is valid as far as that can be checked without the database.
struct Wanted<'r> {
    caller: &'r Caller,
    org: &'r str,
    id: &'r str,
    request: &'r PutNode,
    pattern: Option<(&'r str, &'r str)>,
    token_hash: Option<String>,
    is_alive: bool,
    now: Timestamp,
}

pub(super) async fn replace_node(
    op: Op<ResourcePath, Query<HeartbeatQuery>>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutNode>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = &op;
    check(id, &request)?;
    if caller.role != Role::Node {
        // A node sends the token that it has.
        check_new_secret(exchange, "token", request.token.as_deref())?;
    }
    let token_hash = match &request.token {
        Some(token) => Some(exchange.credentials().hasher().hash(token).await?),
        None => None,
    };
    let wanted = Wanted {
        caller,
        org,
        id,
        request: &request,
        pattern: parse_pattern(request.pattern.as_deref().unwrap_or_default())?,
        token_hash,
        is_alive: query.noheartbeat != Some(true),
        now: exchange.now(),
    };
    let message = op.write(&permission, "node.replace", |tx| write(exchange, tx, &wanted)).await?;
    if wanted.is_alive {
        exchange.heartbeats().remember_node(org, id, wanted.now);
    }
    Ok(created(message))
}

fn check(id: &str, request: &PutNode) -> Result<(), ApiError> {
    check_node_type(request.node_type.as_deref().unwrap_or("device"))?;
    parse_pattern(request.pattern.as_deref().unwrap_or_default())?;
    let given = [request.token.is_some(), request.pattern.is_some(), request.public_key.is_some()];
    if given.contains(&true) && given.contains(&false) {
        return Err(ApiError::invalid_input(
            "token, pattern and publicKey must be given all together or not at all",
        ));
    }
    check_token(request.token.as_deref())?;
    check_id(id)?;
    require_lengths(request.check_lengths())?;
    check_services(&request.registered_services)
}

async fn write(
    exchange: &Exchange,
    mut tx: WriteTx<right::NodeWrite>,
    wanted: &Wanted<'_>,
) -> Result<Finished<right::NodeWrite, String>, ApiError> {
    check_pattern(&mut tx, wanted.caller, wanted.org, wanted.pattern).await?;
    let existing = lock(&mut tx, wanted).await?;
    if let Some(existing) = &existing {
        check_replaceable(wanted, existing)?;
    }
    require_user_input(&mut tx, &wanted.request.user_input, seen_from(wanted.caller, wanted.org)).await?;
    let (operation, message) = match existing {
        Some(existing) => {
            let row = row(wanted, Some(existing))?;
            let size = measure(&mut tx, &row).await?;
            node::update_node(&mut tx, &row, wanted.token_hash.as_deref()).await?;
            size.require_room(&mut tx, &exchange.settings(), wanted.org, wanted.id).await?;
            ("modified", None)
        }
        None => ("created", create(exchange, &mut tx, wanted).await?),
    };
    if wanted.is_alive {
        let heartbeat_row =
            Heartbeat { org: wanted.org.to_owned(), id: wanted.id.to_owned(), seen_at: wanted.now };
        heartbeat::upsert_nodes(&mut tx, &[heartbeat_row], wanted.now).await?;
    }
    let mut changes = vec![node_change(wanted.org, wanted.id, "node", operation)];
    if wanted.token_hash.is_some() {
        changes.push(forget_login(wanted.org, wanted.id));
    }
    tx.finish_with(changes, message.unwrap_or_else(|| "node added or updated".to_owned()))
}

/// Locks the node, or its name while it does not exist.
async fn lock(tx: &mut WriteTx<right::NodeWrite>, wanted: &Wanted<'_>) -> Result<Option<NodeRow>, ApiError> {
    if let Some(existing) = node::lock_node(tx, wanted.org, wanted.id).await? {
        return Ok(Some(existing));
    }
    lock_name(tx, wanted.org, wanted.id).await?;
    Ok(node::lock_node(tx, wanted.org, wanted.id).await?)
}

/// People cannot take a node that is in use away from its agent.
fn check_replaceable(wanted: &Wanted<'_>, existing: &NodeRow) -> Result<(), ApiError> {
    let is_free = matches!(wanted.caller.role, Role::Node | Role::Root) || wanted.request.token.is_none();
    if !is_free && (!existing.public_key.is_empty() || !existing.pattern.is_empty()) {
        return Err(ApiError::invalid_input(format!(
            "public key or pattern is set for node '{}/{}', cannot set a token",
            wanted.org, wanted.id
        )));
    }
    Ok(())
}

/// Creates the node, and returns a warning when the limit is almost reached.
async fn create(
    exchange: &Exchange,
    tx: &mut WriteTx<right::NodeWrite>,
    wanted: &Wanted<'_>,
) -> Result<Option<String>, ApiError> {
    let Some(token_hash) = &wanted.token_hash else {
        return Err(ApiError::invalid_input("a new node needs token, pattern and publicKey"));
    };
    check_new_name(exchange, "node id", wanted.id)?;
    let owner = wanted.caller.account();
    let count = lock_node_count(tx, wanted.org, owner.org(), owner.name())
        .await?
        .ok_or_else(|| ApiError::not_found(format!("org '{}' not found", wanted.org)))?;
    let ceiling = exchange.settings().limits.nodes;
    if wanted.caller.role != Role::Root {
        check_limits(&count, ceiling)?;
    }
    check_name_is_free(tx, wanted).await?;
    let row = row(wanted, None)?;
    let size = measure(tx, &row).await?;
    node::insert_node(tx, &row, token_hash).await?;
    size.require_room(tx, &exchange.settings(), wanted.org, wanted.id).await?;
    Ok(warning(wanted, &count, ceiling))
}

async fn measure(tx: &mut WriteTx<right::NodeWrite>, row: &NodeRow) -> Result<SizeBefore, ApiError> {
    SizeBefore::of_node(tx, (row.record_bytes(), NODE_SHARE), &row.org, &row.node).await
}

fn check_limits(count: &NodeCount, ceiling: i64) -> Result<(), ApiError> {
    if count.of_owner >= ceiling {
        return Err(ApiError::access_denied(format!(
            "you own {} nodes, the exchange allows {ceiling} for each user",
            count.of_owner
        )));
    }
    if count.org_limit != 0 && count.in_org >= count.org_limit {
        return Err(ApiError::access_denied(format!(
            "Your current total number of nodes, {}, is either equal to or over the org limit of {} nodes",
            count.in_org, count.org_limit
        )));
    }
    Ok(())
}

/// A login must not be shadowed by another kind of login with the same name.
async fn check_name_is_free(tx: &mut WriteTx<right::NodeWrite>, wanted: &Wanted<'_>) -> Result<(), ApiError> {
    match find_identity(tx, wanted.org, wanted.id).await? {
        Some(other) if other.kind != IdentityKind::Node => Err(ApiError::conflict(format!(
            "'{}/{}' is already the name of a user or agbot",
            wanted.org, wanted.id
        ))),
        _ => Ok(()),
    }
}

/// Within 5 % of the limit the response contains a warning.
fn warning(wanted: &Wanted<'_>, count: &NodeCount, ceiling: i64) -> Option<String> {
    let (limit, used) = if count.org_limit > 0 && wanted.caller.role != Role::Root {
        (count.org_limit, count.in_org + 1)
    } else {
        (ceiling, count.of_owner + 1)
    };
    ((limit - used).saturating_mul(20) <= limit).then(|| {
        format!("node added or updated; organization {} is near or at its limit of {limit} nodes", wanted.org)
    })
}

fn row(wanted: &Wanted<'_>, existing: Option<NodeRow>) -> Result<NodeRow, ApiError> {
    let request = wanted.request;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let owner = wanted.caller.account();
    let (pattern, public_key) = match (&existing, &request.token) {
        (Some(existing), None) => (existing.pattern.clone(), existing.public_key.clone()),
        _ => (text(&request.pattern), text(&request.public_key)),
    };
    Ok(NodeRow {
        org: wanted.org.to_owned(),
        node: wanted.id.to_owned(),
        name: request.name.clone(),
        owner_org: owner.org().to_owned(),
        owner: owner.name().to_owned(),
        node_type: request.node_type.clone().unwrap_or_else(|| "device".to_owned()),
        pattern,
        registered_services: json(&request.registered_services)?,
        user_input: json(&request.user_input)?,
        msg_end_point: text(&request.msg_end_point),
        software_versions: versions_json(request.software_versions.clone())?,
        public_key,
        arch: text(&request.arch),
        heartbeat_intervals: json(&request.heartbeat_intervals.unwrap_or_default())?,
        cluster_namespace: text(&request.cluster_namespace),
        is_namespace_scoped: request.is_namespace_scoped.unwrap_or_default(),
        updated_at: wanted.now,
        seen_at: None,
        ha_group: None,
        agent_state: AgentState::Running.word().to_owned(),
        // Only a report of the node writes these.
        monitor_state: NodeMonitorState::default().word().to_owned(),
        monitor_state_since: None,
        compat_version: None,
        agent_runs: None,
        spec: existing.map_or_else(new_spec, |existing| existing.spec),
    })
}
