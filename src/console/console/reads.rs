//! Typed reads of the API as the reader of a page.

use std::collections::BTreeMap;

use evenkeel_client::{ClientError, Path};
use evenkeel_domain::assigned_role::AssignedRole;
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::common::{CommonCauses, CommonCausesQuery};
use evenkeel_wire::agbot::event::{AgbotEvent, EventsQuery, EventsResponse};
use evenkeel_wire::agbot::fleet::{
    FleetNodes, FleetNodesQuery, FleetOverview, FleetPolicies, FleetPoliciesQuery,
};
use evenkeel_wire::agbot::history::{HistoryChanges, HistoryDiffQuery, HistoryQuery, HistoryStates};
use evenkeel_wire::agbot::orchestration::{ExplainQuery, PlacementExplanation, StatusQuery, WorkloadStatus};
use evenkeel_wire::agbot::reason::{Reason, ReasonsQuery, ReasonsResponse};
use evenkeel_wire::agbot::rollout::{RolloutsQuery, RolloutsResponse};
use evenkeel_wire::agbot::rollout_detail::RolloutDetail;
use evenkeel_wire::agbot::upgrade::UpgradesResponse;
use evenkeel_wire::exchange::user::ApiKeySummary;

use crate::failure::Failure;
use crate::session::{LABEL, Reader};

/// Organization of root.
pub(crate) const ROOT_ORG: &str = "root";

/// The reader of a page and what it may administrate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// `org/user`.
    pub(crate) name: String,
    pub(crate) is_admin: bool,
    pub(crate) is_hub_admin: bool,
    /// The role that limits it.
    pub(crate) role: Option<LimitingRole>,
}

/// A role as the API names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitingRole {
    pub(crate) name: String,
    pub(crate) policies: Vec<String>,
    /// The account is that of an ordinary user, who may do only what both it and the role may.
    pub(crate) is_of_user: bool,
}

impl LimitingRole {
    /// Returns whether the role includes a deployment policy. One that is unknown here includes none.
    fn includes(&self, policy: &str) -> bool {
        let role = AssignedRole::read(&self.name, &self.policies).ok().flatten();
        role.is_some_and(|role| role.writes_policy(policy))
    }

    /// Returns why the role does not allow to change something.
    fn refusal(&self) -> String {
        match self.policies.is_empty() {
            true => format!("your role {} changes nothing", self.name),
            false => format!(
                "your role {} changes the deployment policies {} only",
                self.name,
                self.policies.join(", ")
            ),
        }
    }
}

impl Account {
    /// Returns whether the account administrates an organization.
    pub(crate) fn administrates(&self, org: &str) -> bool {
        let own = self.org();
        self.is_admin && (own == Some(org) || own == Some(ROOT_ORG) && self.is_hub_admin)
    }

    /// Returns why the account may not act on a deployment policy; empty if it may. `owner`: its owner, `org/user`, if ownership counts.
    pub(crate) fn policy_objection(&self, (org, policy): (&str, &str), owner: Option<&str>) -> String {
        let Some(role) = self.role.as_ref().filter(|_| self.org() == Some(org)) else {
            return self.objection(org, owner);
        };
        match role.includes(policy) {
            false => role.refusal(),
            true if !role.is_of_user => String::new(),
            true => Account { role: None, ..self.clone() }.objection(org, owner),
        }
    }

    fn org(&self) -> Option<&str> {
        self.name.split_once('/').map(|(org, _)| org)
    }

    /// Returns why the role of the account forbids changes of anything but deployment policies; empty without a role.
    pub(crate) fn role_objection(&self) -> String {
        self.role.as_ref().map(LimitingRole::refusal).unwrap_or_default()
    }

    /// Returns why the account may not act on an object of an organization; empty if it may. `owner`: the owner of the object, `org/user`.
    pub(crate) fn objection(&self, org: &str, owner: Option<&str>) -> String {
        match owner {
            _ if self.role.is_some() => self.role_objection(),
            _ if self.administrates(org) || owner == Some(self.name.as_str()) => String::new(),
            Some(owner) => format!("only {owner} and administrators of {org} may do this"),
            None => format!("only administrators of {org} may do this"),
        }
    }
}

/// Returns the reader's account.
pub(crate) async fn account(reader: &Reader) -> Result<Account, Failure> {
    let found = reader.client.own_user(&reader.session.org).await?;
    let (name, user) = found.ok_or_else(|| Failure::Missing("the account no longer exists".to_owned()))?;
    let role = user.role.map(|name| LimitingRole {
        name,
        policies: user.policies.unwrap_or_default(),
        is_of_user: user.ordinary_user == Some(true),
    });
    Ok(Account { name, is_admin: user.admin, is_hub_admin: user.hub_admin, role })
}

/// Returns whether an API key is a session: others do not end, or have other labels.
pub(crate) fn is_session(key: &ApiKeySummary) -> bool {
    key.label == LABEL && key.expires_at.is_some()
}

/// Returns the sessions of the reader's account, the newest first.
pub(crate) async fn sessions(reader: &Reader) -> Result<Vec<ApiKeySummary>, Failure> {
    let found = reader.client.own_user(&reader.session.org).await?;
    let keys = found.map(|(_, user)| user.apikeys).unwrap_or_default();
    let mut sessions: Vec<_> = keys.into_iter().filter(is_session).collect();
    sessions.sort_by(|one, other| other.last_updated.cmp(&one.last_updated));
    Ok(sessions)
}

/// Returns an organization at a glance.
pub(crate) async fn overview(reader: &Reader, org: &str) -> Result<FleetOverview, Failure> {
    let path = Path::org(org, &["agbot", "overview"]);
    found(reader.client.get(path).await, || format!("the organization {org} does not exist"))
}

/// Returns a page of nodes.
pub(crate) async fn nodes(
    reader: &Reader,
    org: &str,
    query: &FleetNodesQuery,
) -> Result<FleetNodes, Failure> {
    let path = Path::org(org, &["agbot", "nodes"]).parameters(query)?;
    Ok(reader.client.get_existing(path).await?)
}

/// Returns a page of deployment policies.
pub(crate) async fn policies(
    reader: &Reader,
    org: &str,
    query: &FleetPoliciesQuery,
) -> Result<FleetPolicies, Failure> {
    let path = Path::org(org, &["agbot", "policies"]).parameters(query)?;
    Ok(reader.client.get_existing(path).await?)
}

/// Returns the state of a node against each deployment policy.
pub(crate) async fn reasons(reader: &Reader, node: &NodeId) -> Result<Vec<Reason>, Failure> {
    let query = ReasonsQuery { node: Some(node.name().to_owned()), ..ReasonsQuery::default() };
    let path = Path::org(node.org(), &["agbot", "reasons"]).parameters(&query)?;
    let found: ReasonsResponse = reader.client.get_existing(path).await?;
    Ok(found.reasons)
}

/// Returns recent events, the newest first.
pub(crate) async fn events(
    reader: &Reader,
    org: &str,
    query: &EventsQuery,
) -> Result<Vec<AgbotEvent>, Failure> {
    let path = Path::org(org, &["agbot", "events"]).parameters(query)?;
    let found: EventsResponse = reader.client.get_existing(path).await?;
    Ok(found.events)
}

/// Returns a page of the states at an instant.
pub(crate) async fn history(
    reader: &Reader,
    org: &str,
    query: &HistoryQuery,
) -> Result<HistoryStates, Failure> {
    found(reader.client.history(org, query).await, || format!("the organization {org} does not exist"))
}

/// Returns a page of the differences of two instants.
pub(crate) async fn history_changes(
    reader: &Reader,
    org: &str,
    query: &HistoryDiffQuery,
) -> Result<HistoryChanges, Failure> {
    found(reader.client.history_changes(org, query).await, || {
        format!("the organization {org} does not exist")
    })
}

/// Returns the rollouts and updates of an organization, or of one deployment policy: those in progress and the newest ones, at most `limit`.
pub(crate) async fn rollouts(
    reader: &Reader,
    (org, policy): (&str, Option<&str>),
    limit: u16,
) -> Result<RolloutsResponse, Failure> {
    let query = RolloutsQuery {
        policy: policy.map(str::to_owned),
        newest: Some(true),
        limit: Some(limit),
        ..RolloutsQuery::default()
    };
    let path = Path::org(org, &["agbot", "rollouts"]).parameters(&query)?;
    Ok(reader.client.get_existing(path).await?)
}

/// Returns the rollout of a deployment policy in detail.
pub(crate) async fn rollout(reader: &Reader, (org, policy): (&str, &str)) -> Result<RolloutDetail, Failure> {
    let path = Path::org(org, &["agbot", "rollouts", policy]);
    found(reader.client.get(path).await, || format!("there is no rollout of {org}/{policy}"))
}

/// Returns what selected nodes have in common.
pub(crate) async fn common_causes(
    reader: &Reader,
    org: &str,
    query: &CommonCausesQuery,
) -> Result<CommonCauses, Failure> {
    let path = Path::org(org, &["agbot", "nodes", "common"]).parameters(query)?;
    Ok(reader.client.get_existing(path).await?)
}

/// Returns the claims of a group, and the members that wait.
pub(crate) async fn claims(reader: &Reader, org: &str, group: &str) -> Result<UpgradesResponse, Failure> {
    let path = Path::org(org, &["hagroups", group, "upgrades"]);
    found(reader.client.get(path).await, || format!("the HA group {org}/{group} does not exist"))
}

/// Returns the status of a deployment policy.
pub(crate) async fn status(
    reader: &Reader,
    (org, policy): (&str, &str),
    query: &StatusQuery,
) -> Result<WorkloadStatus, Failure> {
    let path = Path::org(org, &["business", "policies", policy, "orchestration"]).parameters(query)?;
    found(reader.client.get(path).await, || format!("the deployment policy {org}/{policy} does not exist"))
}

/// Returns why instances of a deployment policy are where they are.
pub(crate) async fn explanation(
    reader: &Reader,
    (org, policy): (&str, &str),
    query: &ExplainQuery,
) -> Result<PlacementExplanation, Failure> {
    let path = Path::org(org, &["business", "policies", policy, "explain"]).parameters(query)?;
    found(reader.client.get(path).await, || {
        format!("the deployment policy {org}/{policy}, or the node or unit that was named, does not exist")
    })
}

/// Returns the organizations that the reader may list, by name, with their labels.
pub(crate) async fn orgs(reader: &Reader) -> Result<BTreeMap<String, String>, Failure> {
    let found = reader.client.list_orgs().await?;
    Ok(found.into_iter().map(|(org, record)| (org, record.label)).collect())
}

fn found<T>(read: Result<Option<T>, ClientError>, missing: impl FnOnce() -> String) -> Result<T, Failure> {
    read?.ok_or_else(|| Failure::Missing(missing()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, is_admin: bool, is_hub_admin: bool) -> Account {
        Account { name: name.to_owned(), is_admin, is_hub_admin, role: None }
    }

    #[test]
    fn administrators_and_owners_may_act() {
        assert!(account("o/a", true, false).administrates("o"));
        assert!(!account("p/a", true, false).administrates("o"));
        assert!(account("root/root", true, true).administrates("o"));
        assert!(!account("root/h", false, true).administrates("o"));
        let user = account("o/u", false, false);
        assert_eq!(user.objection("o", Some("o/u")), "");
        assert_eq!(user.objection("o", Some("o/v")), "only o/v and administrators of o may do this");
        assert_eq!(user.objection("o", None), "only administrators of o may do this");
    }

    #[test]
    fn roles_are_reasons_against_all_but_the_policies_of_deployers() {
        let with = |name: &str, policies: &[&str], is_of_user| Account {
            role: Some(LimitingRole {
                name: name.to_owned(),
                policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
                is_of_user,
            }),
            ..account("o/u", false, false)
        };
        let (viewer, deployer) = (with("viewer", &[], false), with("deployer", &["shop-*"], false));
        assert_eq!(viewer.objection("o", Some("o/u")), "your role viewer changes nothing");
        assert_eq!(viewer.role_objection(), "your role viewer changes nothing");
        assert_eq!(account("o/u", false, false).role_objection(), "");
        assert_eq!(viewer.policy_objection(("o", "shop-1"), Some("o/u")), "your role viewer changes nothing");
        let refusal = "your role deployer changes the deployment policies shop-* only";
        assert_eq!(deployer.objection("o", Some("o/u")), refusal);
        assert_eq!(deployer.policy_objection(("o", "web"), Some("o/u")), refusal);
        assert_eq!(deployer.policy_objection(("o", "shop-1"), Some("o/v")), "");
        assert_eq!(deployer.policy_objection(("o", "shop-1"), None), "");
        assert_eq!(deployer.policy_objection(("p", "shop-1"), None), refusal);
        let of_user = with("deployer", &["shop-*"], true);
        assert_eq!(of_user.policy_objection(("o", "shop-1"), Some("o/u")), "");
        assert!(!of_user.policy_objection(("o", "shop-1"), Some("o/v")).is_empty());
        assert!(!of_user.policy_objection(("o", "shop-1"), None).is_empty());
    }
}
