//! Callers of the agbot's API and the nodes that they may read. The exchange is queried with the caller's own
//! credentials, so that its rules hold here too.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_agbot::{Context, SHARED_ORG};
use evenkeel_api::Refusal;
use evenkeel_client::{Client, ClientError, Credentials, Path};
use evenkeel_domain::assigned_role::AssignedRole;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::health::Entity;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use evenkeel_wire::exchange::forwarded::CLIENT_ADDRESS;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::user::UserResponse;
use http::{HeaderMap, StatusCode, header};

use super::list_reads::READS;
use crate::shown::SeenNodes;

/// Organization of root.
const ROOT_ORG: &str = "root";

/// Reads Basic credentials from the request.
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, secret) = text.split_once(':')?;
    let (org, id) = name.split_once('/')?;
    (!org.is_empty() && !id.is_empty() && !secret.is_empty()).then(|| Credentials::new(org, id, secret))
}

/// Returns under which name a caller calls, for the record of what was refused.
pub(super) fn claimed_name(headers: &HeaderMap) -> String {
    credentials(headers).map_or_else(|| "unknown".to_owned(), |caller| caller.node().to_string())
}

/// Returns the name of the account of a caller, whatever the key or the spelling of its credentials.
///
/// # Errors
/// 401 without good credentials, 503 when the exchange does not respond.
pub(super) async fn account_name(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<String, Refusal> {
    let own = own_name(context, headers, org, |_, _| true).await?;
    Ok(own.unwrap_or_else(|| claimed_name(headers)))
}

/// Returns the name of the caller's user, in the organization or in that of root, if it is wanted.
async fn own_name(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    is_wanted: impl Fn(&str, &UserResponse) -> bool,
) -> Result<Option<String>, Refusal> {
    let client = as_caller(context, headers)?;
    for place in [org, ROOT_ORG] {
        match client.own_user(place).await {
            Ok(Some((name, user))) if is_wanted(place, &user) => return Ok(Some(name)),
            // A node, an agbot, or an account of another organization has no user here.
            Ok(_) | Err(ClientError::Status { status: 400 | 403 | 404, .. }) => {}
            Err(error) => return Err(refused(error, org)),
        }
    }
    Ok(None)
}

/// Reads the node in the path with its own credentials: that is the proof of who calls.
///
/// # Errors
/// 400 when the credentials are those of another login or the login is not a node, 401 without good
/// credentials, 503 when the exchange does not respond.
pub(super) async fn own_node(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    node: &str,
) -> Result<NodeResponse, Refusal> {
    let Some(caller) = credentials(headers) else {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "the node's credentials are needed"));
    };
    let is_itself = caller.org == org && caller.id == node;
    let found = read_itself(context, headers, caller).await?.filter(|_| is_itself);
    found.ok_or_else(|| {
        let message = if is_itself {
            format!("{org}/{node} is not a node")
        } else {
            format!("the credentials are not those of node {org}/{node}")
        };
        Refusal::new(StatusCode::BAD_REQUEST, message)
    })
}

/// Returns whether the caller is a node.
///
/// # Errors
/// 401 without good credentials, 503 when the exchange does not respond.
pub(super) async fn is_node(context: &Context, headers: &HeaderMap, node: &NodeId) -> Result<bool, Refusal> {
    match credentials(headers).filter(|caller| caller.node() == *node) {
        Some(caller) => Ok(read_itself(context, headers, caller).await?.is_some()),
        None => Ok(false),
    }
}

/// Reads a deployment policy as the agbot, for a node that reports about its instance. Nodes of other organizations learn of the policies of
/// the shared organization, and of those that they run.
///
/// # Errors
/// 403 for a node that may not read policies of the organization, 404 when the policy does not exist, 503 when the exchange does not respond.
pub(super) async fn served_policy(
    context: &Context,
    (org, policy): (&str, &str),
    node: &NodeId,
) -> Result<(), Refusal> {
    let missing = || missing_policy(org, policy);
    let instance = Entity::Instance(PolicyId::new(org, policy), node.clone());
    if ![node.org(), SHARED_ORG].contains(&org) && !context.model().has_health_entity(&instance) {
        return Err(no_policies(org));
    }
    if context.model().policy(&PolicyId::new(org, policy)).is_some() {
        return Ok(());
    }
    if policy.contains('\0') || policy.len() > evenkeel_api::MAX_ID {
        return Err(missing());
    }
    match context.client.deployment_policy(org, policy).await {
        Ok(found) => found.map(|_| ()).ok_or_else(missing),
        Err(error) => Err(refused(error, org)),
    }
}

/// Reads a node with its own credentials; `None` when these are not of a node.
async fn read_itself(
    context: &Context,
    headers: &HeaderMap,
    caller: Credentials,
) -> Result<Option<NodeResponse>, Refusal> {
    let node = caller.node();
    let client = as_caller(context, headers)?;
    match client.node(&node).await {
        Ok(found) => Ok(found),
        Err(ClientError::Status { status: 403 | 404, .. }) => Ok(None),
        Err(error) => Err(refused(error, node.org())),
    }
}

/// Checks that the caller administrates the organization: root, or an administrator of it. Returns the
/// caller's name.
///
/// # Errors
/// 401 without valid credentials, 403 for all other callers, 503 when the exchange does not respond.
pub(super) async fn may_administrate(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<String, Refusal> {
    // The exchange shows a login that a role limits as no administrator.
    let administrates = |place: &str, user: &UserResponse| {
        user.admin && user.role.is_none() && (place == org || user.hub_admin)
    };
    own_name(context, headers, org, administrates).await?.ok_or_else(|| {
        Refusal::new(StatusCode::FORBIDDEN, format!("an administrator of organization '{org}' is needed"))
    })
}

/// Asks the exchange which nodes of the organization the caller may read.
///
/// # Errors
/// 401 without good credentials, 403 when the caller may read no list of the organization's nodes and is not
/// a node of it, 503 when the exchange does not respond.
///
/// # Source
/// Exchange-api 3.2 (rows "READ on all nodes", "nodes list" and "node read").
pub(super) async fn seen_nodes(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<SeenNodes, Refusal> {
    let client = as_caller(context, headers)?;
    if client.may_read_all_nodes(org).await.map_err(|error| refused(error, org))? {
        return Ok(SeenNodes::All);
    }
    let _permit = READS.permit(headers).await;
    let nodes = match client.list_node_ids(org).await {
        Ok(ids) => ids,
        Err(ClientError::Status { status: 403, .. }) => itself(&client, headers, org).await?,
        Err(error) => return Err(refused(error, org)),
    };
    Ok(SeenNodes::Only(nodes))
}

/// Asks the exchange which nodes of several organizations the caller may read; of those that it may not list, none.
///
/// # Errors
/// As [`seen_nodes`], apart from 403.
pub(super) async fn seen_nodes_of(
    context: &Context,
    headers: &HeaderMap,
    orgs: BTreeSet<String>,
) -> Result<SeenNodes, Refusal> {
    let mut seen = BTreeMap::new();
    for org in orgs {
        let nodes = match seen_nodes(context, headers, &org).await {
            Ok(nodes) => nodes,
            Err(refusal) if refusal.is_forbidden() => SeenNodes::Only(BTreeSet::new()),
            Err(refusal) => return Err(refusal),
        };
        seen.insert(org, nodes);
    }
    Ok(if seen.values().all(SeenNodes::is_all) { SeenNodes::All } else { SeenNodes::PerOrg(seen) })
}

/// Reads a deployment policy as the caller.
///
/// # Errors
/// As [`find_policy`], and 404 when it does not exist.
pub(super) async fn readable_policy(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    policy: &str,
) -> Result<DeploymentPolicyResponse, Refusal> {
    find_policy(context, headers, org, policy).await?.ok_or_else(|| missing_policy(org, policy))
}

/// Reads a deployment policy as the caller; `None` when it does not exist and the caller might read it.
///
/// # Errors
/// 401 without good credentials, 403 when the caller may not read policies of the organization, 404 when no policy can have the name, 503
/// when the exchange does not respond.
pub(super) async fn find_policy(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    policy: &str,
) -> Result<Option<DeploymentPolicyResponse>, Refusal> {
    // The database has no such character in its texts, and no name is longer.
    if policy.contains('\0') || policy.len() > evenkeel_api::MAX_ID {
        return Err(missing_policy(org, policy));
    }
    let client = as_caller(context, headers)?;
    match client.deployment_policy(org, policy).await {
        Ok(found) => Ok(found),
        Err(ClientError::Status { status: 403, .. }) => Err(no_policies(org)),
        Err(error) => Err(refused(error, org)),
    }
}

/// Checks that the caller may read the deployment policies of an organization. The exchange does not say so of one that does not exist.
///
/// # Errors
/// 401 without good credentials, 403 when the caller may not, 503 when the exchange does not respond.
pub(super) async fn may_read_policies(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<(), Refusal> {
    let may_read = as_caller(context, headers)?.may_read_policies(org).await;
    if may_read.map_err(|error| refused(error, org))? { Ok(()) } else { Err(no_policies(org)) }
}

fn no_policies(org: &str) -> Refusal {
    let message = format!("reading deployment policies of organization '{org}' is needed");
    Refusal::new(StatusCode::FORBIDDEN, message)
}

pub(super) fn missing_policy(org: &str, policy: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("the deployment policy {org}/{policy} does not exist"))
}

/// Returns the name of a caller who may act on a deployment policy, with the policy: its owner, an administrator of its organization, or a
/// deployer whose role includes it.
///
/// # Errors
/// See [`readable_policy`]; 403 for all other callers.
pub(super) async fn may_operate(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
    policy: &str,
) -> Result<(String, DeploymentPolicyResponse), Refusal> {
    let found = readable_policy(context, headers, org, policy).await?;
    let forbidden = match may_administrate(context, headers, org).await {
        Err(refusal) if refusal.is_forbidden() => {
            let message =
                format!("the owner of the policy or an administrator of organization '{org}' is needed");
            Refusal::new(StatusCode::FORBIDDEN, message)
        }
        outcome => return outcome.map(|name| (name, found)),
    };
    match own_user(context, headers, org).await? {
        Some((name, user)) if operates(&user, policy, name == found.owner) => Ok((name, found)),
        Some((_, user)) => Err(beyond_role(&user).unwrap_or(forbidden)),
        None => Err(forbidden),
    }
}

/// Returns the name of a caller who may change the rollouts of a deployment policy: an administrator of its organization, or a deployer
/// whose role includes it.
///
/// # Errors
/// 401 without good credentials, 403 for all other callers, 503 when the exchange does not respond.
pub(super) async fn may_operate_rollouts(
    context: &Context,
    headers: &HeaderMap,
    (org, policy): (&str, &str),
) -> Result<String, Refusal> {
    let forbidden = match may_administrate(context, headers, org).await {
        Err(refusal) if refusal.is_forbidden() => refusal,
        outcome => return outcome,
    };
    match own_user(context, headers, org).await? {
        // Rollouts belong to no user.
        Some((name, user)) if user.role.is_some() && operates(&user, policy, false) => Ok(name),
        Some((_, user)) => Err(beyond_role(&user).unwrap_or(forbidden)),
        None => Err(forbidden),
    }
}

/// Checks that the caller reads what the administrators of an organization read: they, root, and its viewers and deployers.
///
/// # Errors
/// 401 without good credentials, 403 for all other callers, 503 when the exchange does not respond.
pub(super) async fn may_inspect(context: &Context, headers: &HeaderMap, org: &str) -> Result<(), Refusal> {
    let forbidden = match may_administrate(context, headers, org).await {
        Err(refusal) if refusal.is_forbidden() => refusal,
        outcome => return outcome.map(|_| ()),
    };
    let user = own_user(context, headers, org).await?;
    let is_reader = |(_, user): &(String, UserResponse)| user.role.is_some() && user.ordinary_user.is_none();
    if user.as_ref().is_some_and(is_reader) { Ok(()) } else { Err(forbidden) }
}

/// Returns the caller's user in an organization and its name; none for a node, an agbot, and an account of another organization.
///
/// # Errors
/// 401 without good credentials, 503 when the exchange does not respond.
async fn own_user(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<Option<(String, UserResponse)>, Refusal> {
    match as_caller(context, headers)?.own_user(org).await {
        Ok(found) => Ok(found),
        Err(ClientError::Status { status: 400 | 403 | 404, .. }) => Ok(None),
        Err(error) => Err(refused(error, org)),
    }
}

/// Returns whether a user who is no administrator may act on a deployment policy of its organization: ordinary users on those that they own, deployers
/// on those of their role. One that is limited by its API key has to be both. A role that is unknown here allows nothing.
fn operates(user: &UserResponse, policy: &str, is_owner: bool) -> bool {
    let Some(role) = &user.role else { return is_owner };
    let role = AssignedRole::read(role, user.policies.as_deref().unwrap_or_default()).ok().flatten();
    role.is_some_and(|role| role.writes_policy(policy)) && (is_owner || user.ordinary_user.is_none())
}

/// Returns the refusal of what the role of a user does not allow; none for a user without a role.
fn beyond_role(user: &UserResponse) -> Option<Refusal> {
    let role = user.role.as_ref()?;
    let policies = user.policies.as_ref().map(|names| format!(" of {}", names.join(", ")));
    let text = format!("the role {role}{} of the caller does not allow this", policies.unwrap_or_default());
    Some(Refusal::new(StatusCode::FORBIDDEN, text))
}

/// Returns the name of a caller and the nodes of an organization that the caller may act on: all for its administrators, those that a user
/// owns for others.
///
/// # Errors
/// 401 without good credentials, 403 for nodes and for accounts of other organizations, 503 when the exchange does not respond.
pub(super) async fn operated_nodes(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<(String, SeenNodes), Refusal> {
    let forbidden = match may_administrate(context, headers, org).await {
        Ok(name) => return Ok((name, SeenNodes::All)),
        Err(refusal) if refusal.is_forbidden() => refusal,
        Err(refusal) => return Err(refusal),
    };
    let name = match own_user(context, headers, org).await? {
        Some((name, user)) => match beyond_role(&user) {
            None => name,
            Some(refusal) => return Err(refusal),
        },
        None => return Err(forbidden),
    };
    // A user may list the nodes that it owns, and no others.
    match seen_nodes(context, headers, org).await? {
        SeenNodes::Only(nodes) => Ok((name, SeenNodes::Only(nodes))),
        SeenNodes::All | SeenNodes::PerOrg(_) => Err(forbidden),
    }
}

/// Returns the nodes of an organization whose policies and user input the caller may write: those of [`operated_nodes`], and a node
/// itself.
///
/// # Errors
/// As [`operated_nodes`], apart from a node of the organization.
pub(super) async fn written_nodes(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<SeenNodes, Refusal> {
    let forbidden = match operated_nodes(context, headers, org).await {
        Ok((_, nodes)) => return Ok(nodes),
        Err(refusal) if refusal.is_forbidden() => refusal,
        Err(refusal) => return Err(refusal),
    };
    let client = as_caller(context, headers)?;
    itself(&client, headers, org)
        .await
        .map(SeenNodes::Only)
        .map_err(|refusal| if refusal.is_forbidden() { forbidden } else { refusal })
}

/// What a caller may see of the status of the agbot beside its health.
pub(super) enum SeenStatus {
    /// Nothing.
    Health,
    /// Counts, and names of its organization.
    OfOrg(String),
    /// Counts and names: root and administrators of the hub.
    All,
}

impl SeenStatus {
    /// Returns whether the caller sees what concerns an organization.
    pub(super) fn shows(&self, org: &str) -> bool {
        match self {
            Self::Health => false,
            Self::OfOrg(own) => own == org,
            Self::All => true,
        }
    }
}

/// Returns what the caller may see: counts if the exchange shows its own, and names of the organization in which the caller logged in.
pub(super) async fn seen_status(context: &Context, headers: &HeaderMap) -> SeenStatus {
    let Ok(client) = as_caller(context, headers) else { return SeenStatus::Health };
    let path = Path::new(&["admin", "status"]);
    if !client.get::<serde_json::Value>(path).await.is_ok_and(|found| found.is_some()) {
        return SeenStatus::Health;
    }
    let named = || headers.get("x-organization")?.to_str().ok().map(str::to_owned);
    match credentials(headers).map(|caller| caller.org).or_else(named) {
        Some(org) if org == ROOT_ORG => SeenStatus::All,
        org => SeenStatus::OfOrg(org.unwrap_or_default()),
    }
}

/// Asks the exchange which nodes the caller may read of those that the policies and patterns of an organization are served to, besides
/// those of the organization itself.
///
/// # Errors
/// As [`seen_nodes`].
pub(super) async fn seen_nodes_of_policies(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<SeenNodes, Refusal> {
    let own = seen_nodes(context, headers, org).await?;
    if !own.is_all() {
        return Ok(own);
    }
    let entries = context.served_entries().await.map_err(|error| refused(error, org))?;
    let abroad = entries.node_orgs_of_org(org);
    if abroad.iter().all(|one| one.as_str() == org) {
        return Ok(own);
    }
    let orgs = abroad.iter().map(ToString::to_string).chain([org.to_owned()]).collect();
    seen_nodes_of(context, headers, orgs).await
}

/// The node that calls.
async fn itself(client: &Client, headers: &HeaderMap, org: &str) -> Result<BTreeSet<NodeId>, Refusal> {
    let forbidden =
        || Refusal::new(StatusCode::FORBIDDEN, format!("reading nodes of organization '{org}' is needed"));
    let caller = credentials(headers).filter(|caller| caller.org == org).ok_or_else(forbidden)?;
    match client.node(&caller.node()).await {
        Ok(Some(_)) => Ok(BTreeSet::from([caller.node()])),
        Ok(None) => Err(forbidden()),
        Err(error) => Err(refused(error, org)),
    }
}

pub(super) fn as_caller(context: &Context, headers: &HeaderMap) -> Result<Client, Refusal> {
    let value = headers
        .get(header::AUTHORIZATION)
        .ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "credentials of the exchange are needed"))?;
    let organization = headers.get("x-organization").cloned();
    let address = headers.get(CLIENT_ADDRESS).cloned();
    Ok(context.client.with_authorization(value.clone(), organization, address))
}

fn refused(error: ClientError, org: &str) -> Refusal {
    let (status, message) = match error {
        ClientError::Status { status: 401, .. } => {
            (StatusCode::UNAUTHORIZED, "the exchange does not accept the credentials".to_owned())
        }
        ClientError::Status { status: 403, .. } => {
            (StatusCode::FORBIDDEN, format!("reading nodes of organization '{org}' is needed"))
        }
        ClientError::Status { status: 400, msg, .. } => (StatusCode::BAD_REQUEST, msg),
        ClientError::Status { status: 429, msg, retry_after, .. } => {
            return Refusal::too_many(retry_after.unwrap_or(1), msg);
        }
        error => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    };
    Refusal::new(status, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(role: Option<&str>, policies: &[&str], ordinary_user: Option<bool>) -> UserResponse {
        let policies = policies.iter().map(|policy| (*policy).to_owned()).collect::<Vec<_>>();
        UserResponse {
            role: role.map(str::to_owned),
            policies: (!policies.is_empty()).then_some(policies),
            ordinary_user,
            ..UserResponse::default()
        }
    }

    #[test]
    fn owners_and_deployers_of_a_policy_operate_it() {
        for (user, of_own, of_others) in [
            (user(None, &[], None), true, false),
            (user(Some("viewer"), &[], None), false, false),
            (user(Some("deployer"), &["shop-*"], None), true, true),
            (user(Some("deployer"), &["web"], None), false, false),
            (user(Some("deployer"), &["shop-*"], Some(true)), true, false),
            (user(Some("viewer"), &[], Some(true)), false, false),
            // Of a later exchange, or malformed.
            (user(Some("auditor"), &[], None), false, false),
            (user(Some("deployer"), &[], None), false, false),
            (user(Some("user"), &[], None), false, false),
        ] {
            let found = [true, false].map(|is_owner| operates(&user, "shop-1", is_owner));
            assert_eq!(found, [of_own, of_others], "{user:?}");
        }
    }

    #[test]
    fn refusal_names_the_role_and_its_policies() {
        assert!(beyond_role(&user(None, &[], None)).is_none());
        let refusal = beyond_role(&user(Some("deployer"), &["a", "b*"], None)).expect("a refusal");
        assert_eq!(refusal.message(), "the role deployer of a, b* of the caller does not allow this");
        assert!(refusal.is_forbidden());
    }
}
