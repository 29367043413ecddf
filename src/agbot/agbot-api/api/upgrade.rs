//! Permission for a member to upgrade its agent now: both forms of the request, one decision.
//!
//! Source: requirements 004 ("Agbot APIs", 200 or 409); agbot 3.3 (201, 409, 400, 401); orchestration E6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot::{AgentUpgradeRequest, Context, facts};
use evenkeel_agreement::agent_upgrade::MemberView;
use evenkeel_api::{BodyKind, Content, Created, Input, Refusal};
use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Liveness;
use evenkeel_planner_record::facts::HaGroupFacts;
use evenkeel_wire::agbot::upgrade::UpgradeRequest;
use evenkeel_wire::exchange::ha_group::HaGroupMemberStatus;
use evenkeel_wire::exchange::management_policy::ManagementPolicyResponse;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;

use super::path::{ManagementPath, NodePath};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent};
use crate::shown::{SeenNodes, hidden};

impl Input<AgbotRequest> for UpgradeRequest {
    const KIND: BodyKind = BodyKind::Raw;

    const PRECEDES_PERMISSION: bool = true;

    fn read(sent: Sent) -> Result<UpgradeRequest, Refusal> {
        const MESSAGE: &str = "the body must be {\"nmp\": \"org/name of a management policy\"}";
        let request = Json::<UpgradeRequest>::from_bytes(&sent.body);
        request.map(|Json(request)| request).map_err(|_| Refusal::invalid_input(MESSAGE))
    }

    fn body() -> Content {
        Content::read::<UpgradeRequest>()
    }
}

/// Decides whether a node may upgrade its agent: 200 go ahead, 409 not now.
pub(super) async fn upgrade_node(
    op: Op<NodePath>,
    permission: Permission<right::NodeItself>,
    request: UpgradeRequest,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: NodePath { org, node }, .. } = op;
    let found = permission.into_proof();
    let nmp = match request.nmp.split_once('/') {
        Some((nmp_org, name)) if !nmp_org.is_empty() && !name.is_empty() => NmpId::new(nmp_org, name),
        None if !request.nmp.is_empty() => NmpId::new(&org, &request.nmp),
        _ => return Err(Refusal::new(StatusCode::BAD_REQUEST, "nmp must name a management policy")),
    };
    let policy = policy_of(&context, &org, &nmp).await?;
    let message = match found.ha_group.clone().filter(|group| !group.is_empty()) {
        Some(group) => {
            let (group, node) = (GroupId::new(&org, &group), NodeId::new(&org, &node));
            decide(&context, &Asked { group, node, nmp, policy }, found).await?
        }
        None => format!("node {org}/{node} is in no HA group and may upgrade"),
    };
    Ok(Json(said(StatusCode::OK, message)))
}

/// Decides whether a member of a group may carry out a management policy: 201 go ahead, 409 not now.
pub(super) async fn manage_node(
    op: Op<ManagementPath>,
    permission: Permission<right::NodeItself>,
) -> Result<Created<ApiResponse>, Refusal> {
    let Op {
        request: AgbotRequest { context, .. },
        path: ManagementPath { org, hagroup: group, node, nmp },
        ..
    } = op;
    let found = permission.into_proof();
    if found.ha_group.as_deref() != Some(group.as_str()) {
        let message = format!("node {org}/{node} is not in HA group {group}");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    }
    let nmp = NmpId::new(&org, nmp.strip_prefix(&format!("{org}/")).unwrap_or(&nmp));
    let policy = policy_of(&context, &org, &nmp).await?;
    let asked = Asked { group: GroupId::new(&org, &group), node: NodeId::new(&org, &node), nmp, policy };
    Ok(Created(said(StatusCode::CREATED, decide(&context, &asked, found).await?)))
}

/// A request for an upgrade.
struct Asked {
    group: GroupId,
    node: NodeId,
    nmp: NmpId,
    policy: ManagementPolicyResponse,
}

/// Takes the claim for a node; permits it to go ahead.
///
/// # Errors
/// 409 when it may not, 400, 500 and 503 when that cannot be decided.
async fn decide(context: &Arc<Context>, asked: &Asked, found: NodeResponse) -> Result<String, Refusal> {
    let Asked { group, node, nmp, policy } = asked;
    let facts = facts::node(node, found);
    let (ha_group, members) = members(context, group, nmp).await?;
    let question = AgentUpgradeRequest {
        group: ha_group.clone(),
        members,
        node: node.clone(),
        nmp: nmp.clone(),
        drains: drains(policy)?,
        at: context.now(),
    };
    match context.claims.grant(question).await {
        Ok(Ok(claim)) => {
            let is_drain = claim.purpose.is_agent_drain();
            // The model may not have read node and group yet; without them the claim would look like a leftover.
            let events = vec![
                Event::NodeChanged { node: Box::new(facts) },
                Event::HaGroupChanged { group: Box::new(ha_group) },
                Event::ClaimRecorded { claim: Box::new(claim) },
            ];
            context.send_events(events).await;
            let left = if is_drain { context.model().instances_on(node) } else { 0 };
            if left > 0 {
                let text = format!(
                    "Node {node} can not start executing nmp {}: it is drained first, and {left} of its services still run",
                    nmp.name()
                );
                return Err(Refusal::new(StatusCode::CONFLICT, text));
            }
            Ok(format!("Node {node} can start executing nmp {}.", nmp.name()))
        }
        Ok(Err(blocked)) => {
            // A node may read neither its group nor the other members.
            let blocked = hidden::reason(blocked, &SeenNodes::Only(BTreeSet::from([node.clone()])));
            let text = format!("Node {node} can not start executing nmp {}: {blocked}", nmp.name());
            Err(Refusal::new(StatusCode::CONFLICT, text))
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "an upgrade could not be decided");
            let message = "the agbot's database does not respond; try again";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message))
        }
    }
}

/// Returns the management policy that a node names. Those of other organizations manage none of its nodes.
///
/// # Errors
/// 404 when there is none: no claim would be held for it, and every member would be allowed to go ahead.
async fn policy_of(context: &Context, org: &str, nmp: &NmpId) -> Result<ManagementPolicyResponse, Refusal> {
    let found = if nmp.org() == org {
        context.client.management_policy(org, nmp.name()).await.map_err(unavailable)?
    } else {
        None
    };
    found.ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, format!("there is no management policy {nmp} for nodes of {org}"))
    })
}

/// Returns whether a management policy has members of HA groups drained before their agents are upgraded.
///
/// # Source
/// Orchestration E6.4.
fn drains(policy: &ManagementPolicyResponse) -> Result<bool, Refusal> {
    let upgrade = policy.agent_upgrade_policy().map_err(|error| unavailable(ClientError::from(error)))?;
    Ok(upgrade.is_some_and(|upgrade| upgrade.drain))
}

/// The body that deployed agents know: `code` is the number of the status.
///
/// # Source
/// Agbot 3.3.
fn said(status: StatusCode, msg: String) -> ApiResponse {
    ApiResponse { code: status.as_u16().to_string(), msg }
}

fn unavailable(error: ClientError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// The group as the exchange has it now, and what is known of its members.
async fn members(
    context: &Context,
    id: &GroupId,
    nmp: &NmpId,
) -> Result<(HaGroupFacts, BTreeMap<NodeId, MemberView>), Refusal> {
    let group = context.client.ha_group(id.org(), id.name()).await.map_err(unavailable)?;
    let Some(group) = group.map(|group| facts::ha_group(id.org(), group)) else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("there is no HA group {id}")));
    };
    let reported =
        match context.client.ha_group_status(id.org(), id.name(), nmp.name()).await.map_err(unavailable)? {
            Some(found) => {
                found.into_iter().map(|(node, status)| (NodeId::from_text(&node), status)).collect()
            }
            None => ask_members(context, &group, nmp).await.map_err(unavailable)?,
        };
    let (model, now) = (context.model(), context.now());
    let view = |member: &NodeId| {
        let liveness = match model.node(member) {
            Some(_) => model.liveness(member, now),
            None => Liveness::NeverHeard,
        };
        let status = reported.get(member);
        // A member that is paused cannot take over what another one runs.
        let is_away = status.is_some_and(|status| status.availability != Availability::Active);
        MemberView { liveness, is_away, nmp_status: status.and_then(|status| status.status.clone()) }
    };
    let views = group.members.iter().map(|member| (member.clone(), view(member))).collect();
    drop(model);
    Ok((group, views))
}

/// Asks for each member individually, at an exchange without the route for a whole group.
async fn ask_members(
    context: &Context,
    group: &HaGroupFacts,
    nmp: &NmpId,
) -> Result<BTreeMap<NodeId, HaGroupMemberStatus>, ClientError> {
    let mut reported = BTreeMap::new();
    for member in &group.members {
        let status = context.client.management_status(member, nmp.name()).await?;
        let node = context.client.node(member).await?;
        let status = HaGroupMemberStatus {
            availability: node.and_then(|node| node.orchestration).unwrap_or_default().availability,
            status: status
                .map(|status| status.agent_upgrade_policy_status())
                .transpose()?
                .map(|status| status.status),
        };
        reported.insert(member.clone(), status);
    }
    Ok(reported)
}
