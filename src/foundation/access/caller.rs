//! The caller of a request.

use std::fmt;
use std::sync::Arc;

use evenkeel_domain::assigned_role::AssignedRole;
use evenkeel_ids::UserId;

use crate::MULTI_TENANT_ORG;

/// Kind of caller.
///
/// # Source
/// Exchange-api 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The root user.
    Root,
    /// Administrator of the hub: an account of org `root`.
    HubAdmin,
    /// Administrator of one organization.
    OrgAdmin,
    /// Ordinary user.
    User,
    /// Edge node.
    Node,
    /// Agreement bot that an administrator approved.
    Agbot,
    /// Agreement bot that no administrator approved: it has no right that its owner lacks.
    UnapprovedAgbot,
    /// An account, or a login with an API key, that reads its organization and changes nothing.
    Viewer,
    /// The same, which writes and operates the deployment policies that match its patterns.
    Deployer,
}

impl Role {
    /// Returns whether the caller is root, or an administrator of the hub or of an organization.
    #[must_use]
    pub fn is_administrator(self) -> bool {
        matches!(self, Role::Root | Role::HubAdmin | Role::OrgAdmin)
    }

    /// Returns whether the caller is an agbot, approved or not.
    #[must_use]
    pub fn is_agbot(self) -> bool {
        matches!(self, Role::Agbot | Role::UnapprovedAgbot)
    }
}

impl From<&AssignedRole> for Role {
    fn from(role: &AssignedRole) -> Role {
        match role {
            AssignedRole::Viewer => Role::Viewer,
            AssignedRole::Deployer(_) => Role::Deployer,
        }
    }
}

/// The role that limits a caller: that of its account, that of its API key, or what both allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The role.
    pub role: AssignedRole,
    /// The API key of the login has a role.
    pub is_of_key: bool,
}

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Kind of caller.
    pub role: Role,
    /// Organization of the caller.
    pub org: String,
    /// Id inside the organization.
    pub id: String,
    /// Owner of a node or agbot; `None` for users.
    pub owner: Option<UserId>,
    /// Id of the API key of a login by key, which acts under the name of its account.
    pub api_key: Option<Arc<str>>,
    /// The role that limits it: of a [`Role::Viewer`] or [`Role::Deployer`] its own; of a [`Role::User`] that of its API key, which then
    /// allows what both the user and the role may.
    pub assignment: Option<Arc<Assignment>>,
}

impl Caller {
    /// The caller with this role, without an owner, an API key or an assigned role.
    #[must_use]
    pub fn new(role: Role, org: &str, id: &str) -> Caller {
        Caller { role, org: org.to_owned(), id: id.to_owned(), owner: None, api_key: None, assignment: None }
    }

    /// Limits the caller to what its account and the API key of its login were assigned.
    ///
    /// What a role allows is allowed to the administrators of the organization, so that it replaces their role. It does not replace that of an ordinary
    /// user: of what the role allows, the user keeps what it may do itself.
    #[must_use]
    pub fn limited(self, of_account: Option<AssignedRole>, of_key: Option<AssignedRole>) -> Caller {
        let is_of_key = of_key.is_some();
        let is_ordinary = of_account.is_none() && self.role != Role::OrgAdmin;
        let assigned = match (of_account, of_key) {
            (Some(account), Some(key)) => account.intersection(&key),
            (Some(role), None) | (None, Some(role)) => role,
            (None, None) => return self,
        };
        // Roles belong to organizations: the logins of the hub have none, and one that were found would leave it what a user may.
        let role = match (is_ordinary, self.role) {
            (false, _) => Role::from(&assigned),
            (true, Role::Root | Role::HubAdmin) => Role::User,
            (true, role) => role,
        };
        Caller { role, assignment: Some(Arc::new(Assignment { role: assigned, is_of_key })), ..self }
    }

    /// Returns the role that limits it, if one does.
    #[must_use]
    pub fn assigned_role(&self) -> Option<&AssignedRole> {
        self.assignment.as_ref().map(|assignment| &assignment.role)
    }

    /// Returns whether its column of the permission table is that of its assigned role.
    pub(super) fn has_assigned_column(&self) -> bool {
        matches!(self.role, Role::Viewer | Role::Deployer)
    }

    /// Returns whether it logged in with an API key that has a role.
    #[must_use]
    pub fn has_limited_key(&self) -> bool {
        self.assignment.as_ref().is_some_and(|assignment| assignment.is_of_key)
    }

    /// Returns the role of the API key of its login, as far as its account has it, if the key has one.
    #[must_use]
    pub fn key_role(&self) -> Option<&AssignedRole> {
        self.assigned_role().filter(|_| self.has_limited_key())
    }

    /// Returns whether its assigned role allows to write a deployment policy, by its bare id.
    #[must_use]
    pub fn writes_policy(&self, policy: &str) -> bool {
        self.assigned_role().is_some_and(|role| role.writes_policy(policy))
    }

    /// Returns whether the caller is an agbot of the multi-tenant organization, which reads every organization.
    #[must_use]
    pub fn is_multi_tenant(&self) -> bool {
        self.role == Role::Agbot && self.org == MULTI_TENANT_ORG
    }

    /// Returns whether the caller is a user, as opposed to a node or agbot.
    #[must_use]
    pub fn is_person(&self) -> bool {
        !matches!(self.role, Role::Node | Role::Agbot | Role::UnapprovedAgbot)
    }

    /// Returns whether the caller is root or an administrator of the given organization.
    #[must_use]
    pub fn is_admin_of(&self, org: &str) -> bool {
        self.role == Role::Root || (self.role == Role::OrgAdmin && self.org == org)
    }

    /// Returns whether the caller is this account.
    #[must_use]
    pub fn is_account(&self, account: &UserId) -> bool {
        self.is_person() && self.org == account.org() && self.id == account.name()
    }

    /// Returns whether the caller has the rights of an owner to what this account owns: the account itself, or its unapproved agbot.
    #[must_use]
    pub fn acts_for(&self, account: &UserId) -> bool {
        self.is_account(account)
            || (self.role == Role::UnapprovedAgbot && self.owner.as_ref() == Some(account))
    }

    /// Returns the account that lists are limited to: a plain user sees what it owns, and so does its agbot until an administrator
    /// approves it. Viewers and deployers see the organization as its administrators do.
    #[must_use]
    pub fn visible_owner(&self) -> Option<UserId> {
        matches!(self.role, Role::User | Role::UnapprovedAgbot).then(|| self.account())
    }

    /// Returns whether the caller may approve agbots of an organization, and confirm what agbots serve to its nodes: its administrators, and
    /// those of the hub.
    #[must_use]
    pub fn may_approve_in(&self, org: &str) -> bool {
        self.role == Role::HubAdmin || self.is_admin_of(org)
    }

    /// Returns the owner of resources that the caller creates: itself for users, its owner for nodes and agbots.
    #[must_use]
    pub fn account(&self) -> UserId {
        match &self.owner {
            Some(owner) => owner.clone(),
            None => UserId::new(&self.org, &self.id),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.id)
    }
}
