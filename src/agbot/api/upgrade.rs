//! May this member upgrade its agent now? Both forms of the question, one decision.
//!
//! Source: seed 004, "Agbot APIs" (200 or 409); agbot 3.3 (201, 409, 400, 401); orchestration E6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner::agent_upgrade::MemberView;
use evenkeel_planner::event::Event;
use evenkeel_planner::facts::HaGroupFacts;
use evenkeel_planner::model::Liveness;
use evenkeel_wire::agbot::upgrade::UpgradeRequest;
use evenkeel_wire::exchange::ha_group::HaGroupMemberStatus;
use evenkeel_wire::exchange::node::NodeAnswer;
use evenkeel_wire::exchange::node_orchestration::Availability;
use http::{HeaderMap, StatusCode};

use super::caller::{SeenNodes, Verdict, credentials, read_node};
use super::hidden;
use super::{Running, answer};
use crate::act::AgentUpgradeRequest;
use crate::context::Context;
use crate::observe::facts;

/// `POST /org/{org}/node/{node}/upgrade`: 200 go ahead, 409 not now.
pub(super) async fn upgrade_node(
    Running(context): Running,
    Path((org, node)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(Json(request)) = Json::<UpgradeRequest>::from_bytes(&body) else {
        return answer(
            StatusCode::BAD_REQUEST,
            "the body must be {\"nmp\": \"org/name of a management policy\"}",
        );
    };
    let found = match own_node(&context, &headers, &org, &node).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let nmp = match request.nmp.split_once('/') {
        Some((nmp_org, name)) if !nmp_org.is_empty() && !name.is_empty() => NmpId::new(nmp_org, name),
        None if !request.nmp.is_empty() => NmpId::new(&org, &request.nmp),
        _ => return answer(StatusCode::BAD_REQUEST, "nmp must name a management policy"),
    };
    let Some(group) = found.ha_group.clone().filter(|group| !group.is_empty()) else {
        return answer(StatusCode::OK, format!("node {org}/{node} is in no HA group and may upgrade"));
    };
    let asked = Asked { group: GroupId::new(&org, &group), node: NodeId::new(&org, &node), nmp };
    decide(&context, &asked, found, StatusCode::OK).await
}

/// `POST /org/{org}/hagroup/{group}/nodemanagement/{node}/{nmp}`: 201 go ahead, 409 not now.
pub(super) async fn manage_node(
    Running(context): Running,
    Path((org, group, node, nmp)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let found = match own_node(&context, &headers, &org, &node).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    if found.ha_group.as_deref() != Some(group.as_str()) {
        return answer(StatusCode::BAD_REQUEST, format!("node {org}/{node} is not in HA group {group}"));
    }
    let nmp = NmpId::new(&org, nmp.strip_prefix(&format!("{org}/")).unwrap_or(&nmp));
    let asked = Asked { group: GroupId::new(&org, &group), node: NodeId::new(&org, &node), nmp };
    decide(&context, &asked, found, StatusCode::CREATED).await
}

/// The node, read with its own credentials.
async fn own_node(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    node: &str,
) -> Result<NodeAnswer, Response> {
    let Some(caller) = credentials(headers) else {
        return Err(answer(StatusCode::UNAUTHORIZED, "the node's credentials are needed"));
    };
    if caller.org != org || caller.id != node {
        return Err(match read_node(context, caller.clone(), &caller.org, &caller.id).await {
            Verdict::Refused(status, why) => answer(status, why),
            _ => {
                answer(StatusCode::BAD_REQUEST, format!("the credentials are not those of node {org}/{node}"))
            }
        });
    }
    match read_node(context, caller, org, node).await {
        Verdict::Good(found) => Ok(*found),
        Verdict::NotTheNode => Err(answer(StatusCode::BAD_REQUEST, format!("{org}/{node} is not a node"))),
        Verdict::Refused(status, why) => Err(answer(status, why)),
    }
}

/// Who asks for what.
struct Asked {
    group: GroupId,
    node: NodeId,
    nmp: NmpId,
}

async fn decide(context: &Arc<Context>, asked: &Asked, found: NodeAnswer, yes: StatusCode) -> Response {
    let Asked { group, node, nmp } = asked;
    let facts = match facts::node(node, found) {
        Ok(facts) => facts,
        Err(error) => return answer(StatusCode::SERVICE_UNAVAILABLE, ClientError::from(error).to_string()),
    };
    let (ha_group, members) = match members(context, group, nmp).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let question = AgentUpgradeRequest {
        group: ha_group.clone(),
        members,
        node: node.clone(),
        nmp: nmp.clone(),
        at: context.now(),
    };
    match context.claims.grant(question).await {
        Ok(Ok(claim)) => {
            // The replica may not have heard of node and group yet; without them the claim would look like a leftover.
            let events = vec![
                Event::NodeChanged { node: Box::new(facts) },
                Event::HaGroupChanged { group: Box::new(ha_group) },
                Event::ClaimRecorded { claim: Box::new(claim) },
            ];
            context.send_events(events).await;
            answer(yes, format!("Node {node} can start executing nmp {}.", nmp.name()))
        }
        Ok(Err(blocked)) => {
            // A node may read neither its group nor the other members.
            let blocked = hidden::reason(blocked, &SeenNodes::Only(BTreeSet::from([node.clone()])));
            let text = format!("Node {node} can not start executing nmp {}: {blocked}", nmp.name());
            answer(StatusCode::CONFLICT, text)
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "an upgrade could not be decided");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "the agbot's database does not answer; ask again")
        }
    }
}

/// The group as the exchange has it now, and what is known of its members.
async fn members(
    context: &Context,
    id: &GroupId,
    nmp: &NmpId,
) -> Result<(HaGroupFacts, BTreeMap<NodeId, MemberView>), Response> {
    let busy = |error: ClientError| answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let group = context.client.ha_group(id.org(), id.name()).await.map_err(busy)?;
    let Some(group) = group.map(|group| facts::ha_group(id.org(), group)) else {
        return Err(answer(StatusCode::BAD_REQUEST, format!("there is no HA group {id}")));
    };
    let reported =
        match context.client.ha_group_status(id.org(), id.name(), nmp.name()).await.map_err(busy)? {
            Some(found) => {
                found.into_iter().map(|(node, status)| (NodeId::from_text(&node), status)).collect()
            }
            None => ask_members(context, &group, nmp).await.map_err(busy)?,
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

/// Asks for each member, at an exchange that does not answer for a whole group.
async fn ask_members(
    context: &Context,
    group: &HaGroupFacts,
    nmp: &NmpId,
) -> Result<BTreeMap<NodeId, HaGroupMemberStatus>, ClientError> {
    let mut reported = BTreeMap::new();
    for member in &group.members {
        let status = context.client.management_status(member.org(), member.name(), nmp.name()).await?;
        let node = context.client.node(member.org(), member.name()).await?;
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
