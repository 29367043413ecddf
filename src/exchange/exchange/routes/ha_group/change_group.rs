//! The transactions that change groups.
//!
//! Each locks the row of its group, then the rows of all affected nodes ordered by id, then reads
//! memberships: conflicting writers of the same nodes are serialized, and the loser learns which group has
//! won. Only the row of a member states the group of a node, so group and nodes cannot disagree.

use std::collections::BTreeSet;

use evenkeel_access::{
    Caller, HaGroupFacts, HaGroupRefused, Permission, check_ha_group_change, makes_admin_groups,
    may_move_node, right,
};
use evenkeel_domain::orchestration::HaGroupOrchestration;
use evenkeel_domain::orchestration::health_policy::Target;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::ha_group::{self, Candidate, HaGroup};
use evenkeel_exchange_store::node_limit::lock_owner;
use evenkeel_exchange_store::scope;
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::node_task::TASKS_SOFTWARE;
use serde_json::json;

use super::form::{WantedGroup, not_all_nodes};
use crate::ApiError;
use crate::operation::{ExchangeRequest, Op};
use crate::routes::deployment_policy::require_interval;
use crate::routes::shape::require_below_limit;
use crate::transaction::WriteTx;

/// Names of nodes and groups in one refusal, at most.
const NAMED_CONFLICTS: usize = 10;
const CLUSTER: &str = "cluster";

/// Creates a group with its members.
pub(super) async fn create<P>(
    op: &Op<P>,
    permission: &Permission<right::HaGroupWrite>,
    wanted: &WantedGroup,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let (org, name) = (&wanted.org, &wanted.name);
    let members = wanted.members.clone().unwrap_or_default();
    op.write(permission, "ha_group.create", async |mut tx| {
        tx.set_subject(Subject::HaGroup.of(org, name)).await?;
        check_health_policy(&mut tx, wanted).await?;
        let owner = caller.account();
        lock_owner(&mut tx, owner.org(), owner.name()).await?;
        let owned = ha_group::count_owned(&mut tx, &owner).await?;
        require_below_limit("high availability node groups", owned, exchange.settings().limits.ha_groups)?;
        let group = HaGroup {
            org: org.clone(),
            name: name.clone(),
            description: wanted.description.clone(),
            orchestration: wanted.orchestration.iter().flatten().next().map(|given| json!(given)),
            is_admin: makes_admin_groups(caller, org),
            owner: Some(owner),
            updated_at: exchange.now(),
        };
        ha_group::insert_group(&mut tx, &group).await.map_err(|error| {
            ApiError::from(error)
                .explain("ha_group_org_name_key", || {
                    ApiError::conflict(format!("high availability node group '{org}/{name}' already exists"))
                })
                .explain("ha_group_org_fk", || ApiError::not_found(format!("org '{org}' not found")))
        })?;
        let candidates = ha_group::lock_candidates(&mut tx, org, &members).await?;
        check_new_members(caller, org, &members, &candidates)?;
        check_clusters(wanted, &members, &candidates)?;
        check_count(&group, members.len())?;
        check_agents(wanted, &members, &candidates)?;
        insert_members(&mut tx, org, name, &members).await?;
        tx.finish(changes(org, name, &members, "created"))
    })
    .await
}

/// Replaces members, description or both of a group.
pub(super) async fn update<P>(
    op: &Op<P>,
    permission: &Permission<right::HaGroupWrite>,
    wanted: &WantedGroup,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let (org, name) = (&wanted.org, &wanted.name);
    op.write(permission, "ha_group.update", async |mut tx| {
        tx.set_subject(Subject::HaGroup.of(org, name)).await?;
        check_health_policy(&mut tx, wanted).await?;
        let group = lock(&mut tx, org, name).await?;
        let old = ha_group::list_members(&mut tx, org, name).await?;
        let new = wanted.members.as_ref().unwrap_or(&old);
        let concerned: Vec<String> =
            old.iter().chain(new).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let candidates = ha_group::lock_candidates(&mut tx, org, &concerned).await?;
        check_change(caller, &group, owners(&candidates, &old))?;
        let gained = without(new, &old);
        let lost = without(&old, new);
        check_new_members(caller, org, &gained, &candidates)?;
        check_clusters(wanted, &gained, &candidates)?;
        if !lost.is_empty() {
            ha_group::delete_members(&mut tx, org, name, &lost).await?;
        }
        insert_members(&mut tx, org, name, &gained).await?;
        let next = HaGroup {
            description: wanted.description.clone().or_else(|| group.description.clone()),
            orchestration: match &wanted.orchestration {
                Some(given) => given.as_ref().map(|given| json!(given)),
                None => group.orchestration,
            },
            updated_at: exchange.now(),
            ..group
        };
        check_count(&next, new.len())?;
        check_agents(wanted, new, &candidates)?;
        ha_group::update_group(&mut tx, &next).await?;
        let listed: &[String] = if wanted.members.is_some() { &concerned } else { &[] };
        tx.finish(changes(org, name, listed, "modified"))
    })
    .await
}

/// Removes a group; its nodes are then in no group. Returns the warnings about policies whose scope names it.
pub(super) async fn delete<P>(
    op: &Op<P>,
    permission: &Permission<right::HaGroupWrite>,
    org: &str,
    name: &str,
) -> Result<Vec<String>, ApiError> {
    op.write(permission, "ha_group.delete", async |mut tx| {
        let group = lock(&mut tx, org, name).await?;
        let members = ha_group::lock_members(&mut tx, org, name).await?;
        check_change(&op.caller, &group, members.iter().map(|member| &member.owner))?;
        ha_group::delete_group(&mut tx, org, name).await?;
        let mut members: Vec<String> = members.into_iter().map(|member| member.node).collect();
        members.sort_unstable();
        let policies = scope::list_policies_of_group(&mut tx, org, name).await?;
        let lost = scope_is_gone(org, &policies).into_iter().collect();
        tx.finish_with(changes(org, name, &members, "deleted"), lost)
    })
    .await
}

/// Returns the warnings about policies whose scope names a removed group. Policies of other organizations are
/// only counted.
fn scope_is_gone(org: &str, policies: &[(String, String)]) -> Option<String> {
    let own: Vec<&str> =
        policies.iter().filter(|(of, _)| of == org).map(|(_, policy)| policy.as_str()).collect();
    let others = match policies.len() - own.len() {
        0 => None,
        count => Some(format!("{count} of other organizations")),
    };
    let named: Vec<&str> = own.into_iter().chain(others.as_deref()).collect();
    (!named.is_empty()).then(|| {
        format!(
            "the scope of these deployment policies names the group: {}; what runs for them there stays, and nothing new \
             starts until their scope is changed or the group is there again",
            named.join(", ")
        )
    })
}

/// Puts one node into a group.
pub(super) async fn add_node<P>(
    op: &Op<P>,
    permission: &Permission<right::HaGroupWrite>,
    (org, name): (&str, &str),
    node: &str,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let added = vec![node.to_owned()];
    op.write(permission, "ha_group.add_node", async |mut tx| {
        let group = lock(&mut tx, org, name).await?;
        let members = ha_group::list_members(&mut tx, org, name).await?;
        let concerned: Vec<String> =
            members.iter().chain(&added).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let candidates = ha_group::lock_candidates(&mut tx, org, &concerned).await?;
        check_change(caller, &group, owners(&candidates, &members))?;
        refuse_conflicts(&mut tx, org, &added, None).await?;
        if !candidates.iter().any(|candidate| candidate.node == node) {
            return Err(ApiError::not_found(format!("node '{org}/{node}' not found")));
        }
        check_new_members(caller, org, &added, &candidates)?;
        insert_members(&mut tx, org, name, &added).await?;
        ha_group::update_group(&mut tx, &HaGroup { updated_at: exchange.now(), ..group }).await?;
        tx.finish(changes(org, name, &added, "modified"))
    })
    .await
}

/// Takes one node out of a group.
pub(super) async fn remove_node<P>(
    op: &Op<P>,
    permission: &Permission<right::HaGroupWrite>,
    (org, name): (&str, &str),
    node: &str,
) -> Result<(), ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let removed = vec![node.to_owned()];
    let absent = || {
        ApiError::not_found(format!("high availability node group member '{org}/{name}/{node}' not found"))
    };
    op.write(permission, "ha_group.remove_node", async |mut tx| {
        let group = ha_group::lock_group(&mut tx, org, name).await?.ok_or_else(absent)?;
        let members = ha_group::lock_members(&mut tx, org, name).await?;
        if !members.iter().any(|member| member.node == node) {
            return Err(absent());
        }
        check_change(caller, &group, members.iter().map(|member| &member.owner))?;
        ha_group::delete_members(&mut tx, org, name, &removed).await?;
        check_count(&group, members.len() - 1)?;
        ha_group::update_group(&mut tx, &HaGroup { updated_at: exchange.now(), ..group }).await?;
        tx.finish(changes(org, name, &removed, "modified"))
    })
    .await
}

async fn lock(tx: &mut WriteTx<right::HaGroupWrite>, org: &str, name: &str) -> Result<HaGroup, ApiError> {
    ha_group::lock_group(tx, org, name)
        .await?
        .ok_or_else(|| ApiError::not_found(format!("high availability node group '{org}/{name}' not found")))
}

/// Refuses a health policy that checks more often than the organization allows.
async fn check_health_policy(
    tx: &mut WriteTx<right::HaGroupWrite>,
    wanted: &WantedGroup,
) -> Result<(), ApiError> {
    let Some(Some(orchestration)) = &wanted.orchestration else { return Ok(()) };
    require_interval(tx, &wanted.org, Some(&json!(orchestration)), Target::Group).await
}

/// At least one member must always be left undisrupted.
fn check_count(group: &HaGroup, count: usize) -> Result<(), ApiError> {
    let Some(document) = &group.orchestration else { return Ok(()) };
    let checked = HaGroupOrchestration::try_from(document.clone()).and_then(|one| one.check_members(count));
    checked.map_err(|error| ApiError::invalid_input(error.to_string()))
}

/// Refuses a health policy that the agents of the members cannot carry out.
fn check_agents(wanted: &WantedGroup, members: &[String], candidates: &[Candidate]) -> Result<(), ApiError> {
    let Some(Some(orchestration)) = &wanted.orchestration else { return Ok(()) };
    let is_capable = |candidate: &&Candidate| {
        let is_member = members.binary_search(&candidate.node).is_ok();
        is_member && candidate.orchestration.as_deref() == Some(TASKS_SOFTWARE.1)
    };
    let capable = candidates.iter().filter(is_capable).count();
    let checked = orchestration.check_agents(capable, members.len());
    checked.map_err(|error| ApiError::invalid_input(error.to_string()))
}

/// Nodes of one sorted list that are not in the other.
fn without(nodes: &[String], others: &[String]) -> Vec<String> {
    nodes.iter().filter(|node| others.binary_search(node).is_err()).cloned().collect()
}

/// Owners of the members; both lists are sorted by id.
fn owners<'a>(candidates: &'a [Candidate], members: &'a [String]) -> impl Iterator<Item = &'a UserId> {
    candidates
        .iter()
        .filter(|candidate| members.binary_search(&candidate.node).is_ok())
        .map(|candidate| &candidate.owner)
}

fn check_change<'a>(
    caller: &Caller,
    group: &HaGroup,
    member_owners: impl Iterator<Item = &'a UserId>,
) -> Result<(), ApiError> {
    let facts = HaGroupFacts { org: &group.org, is_admin: group.is_admin, owner: group.owner.as_ref() };
    check_ha_group_change(caller, facts, member_owners).map_err(|refused| {
        let reason = match refused {
            HaGroupRefused::AdminGroup => "an administrator created the group",
            HaGroupRefused::ForeignNodes => "nodes of the group belong to other users",
            HaGroupRefused::ForeignGroup => "the group is empty and another user created it",
        };
        ApiError::access_denied(format!(
            "Access denied: '{caller}' does not have authorization to change high availability node group '{}/{}': {reason}",
            group.org, group.name
        ))
    })
}

/// Every node that enters must exist and must be one that the caller may change.
fn check_new_members(
    caller: &Caller,
    org: &str,
    nodes: &[String],
    candidates: &[Candidate],
) -> Result<(), ApiError> {
    let entering: Vec<&Candidate> = entering(nodes, candidates).collect();
    let may_enter = |candidate: &&Candidate| may_move_node(caller, org, &candidate.owner);
    if entering.len() < nodes.len() || !entering.iter().all(may_enter) {
        return Err(not_all_nodes(caller));
    }
    Ok(())
}

fn check_clusters(wanted: &WantedGroup, nodes: &[String], candidates: &[Candidate]) -> Result<(), ApiError> {
    let mut entering = entering(nodes, candidates);
    match entering
        .find(|candidate| candidate.node_type.eq_ignore_ascii_case(CLUSTER) && !wanted.allows_clusters)
    {
        Some(cluster) => Err(ApiError::invalid_input(format!(
            "members: node '{}/{}' is a cluster: clusters have their own high availability",
            wanted.org, cluster.node
        ))),
        None => Ok(()),
    }
}

/// Both lists are sorted by id.
fn entering<'a>(nodes: &'a [String], candidates: &'a [Candidate]) -> impl Iterator<Item = &'a Candidate> {
    candidates.iter().filter(|candidate| nodes.binary_search(&candidate.node).is_ok())
}

/// Puts locked nodes into the group, all or none.
async fn insert_members(
    tx: &mut WriteTx<right::HaGroupWrite>,
    org: &str,
    name: &str,
    nodes: &[String],
) -> Result<(), ApiError> {
    if nodes.is_empty() {
        return Ok(());
    }
    if ha_group::insert_members(tx, org, name, nodes).await? == nodes.len() as u64 {
        return Ok(());
    }
    refuse_conflicts(tx, org, nodes, Some(name)).await?;
    // The conflicting node has just left its group; only a write that does not lock nodes can do that.
    Err(ApiError::conflict(format!(
        "members of high availability node group '{org}/{name}' were changed by another request"
    )))
}

/// 409 when one of the nodes is in a group, naming both. `entering` is the group that nodes are being put into: what is in it already
/// got there by this request.
async fn refuse_conflicts(
    tx: &mut WriteTx<right::HaGroupWrite>,
    org: &str,
    nodes: &[String],
    entering: Option<&str>,
) -> Result<(), ApiError> {
    let mut taken = ha_group::list_memberships(tx, org, nodes).await?;
    taken.retain(|membership| entering != Some(membership.ha_group.as_str()));
    if taken.is_empty() {
        return Ok(());
    }
    let more = taken.len().saturating_sub(NAMED_CONFLICTS);
    taken.truncate(NAMED_CONFLICTS);
    let named: Vec<String> = taken
        .iter()
        .map(|membership| {
            format!(
                "node '{}' is already in high availability node group '{}'",
                membership.node, membership.ha_group
            )
        })
        .collect();
    let rest = if more > 0 { format!(", and {more} more nodes are in groups") } else { String::new() };
    Err(ApiError::conflict(format!("{}{rest}", named.join(", "))))
}

/// Returns the feed records of a change: one for each node, then one for the group.
fn changes(org: &str, name: &str, nodes: &[String], operation: &'static str) -> Vec<Change> {
    let row = |id: &str, category, operation| Change {
        org: org.to_owned(),
        id: id.to_owned(),
        category,
        resource: category,
        operation,
        is_public: false,
    };
    nodes.iter().map(|node| row(node, "node", "modified")).chain([row(name, "ha_group", operation)]).collect()
}
