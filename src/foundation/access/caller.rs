//! The caller of a request.

use std::fmt;
use std::sync::Arc;

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
}

impl Role {
    /// Returns whether the caller is an agbot, approved or not.
    #[must_use]
    pub fn is_agbot(self) -> bool {
        matches!(self, Role::Agbot | Role::UnapprovedAgbot)
    }
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
}

impl Caller {
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
    /// approves it.
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
