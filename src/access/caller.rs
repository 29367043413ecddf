//! Who makes a request.

use std::fmt;

use crate::MULTI_TENANT_ORG;

/// A person's login: organization and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// Organization of the account.
    pub org: String,
    /// Name inside the organization.
    pub name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.name)
    }
}

/// Kind of caller.
///
/// # Source
/// Exchange contract 2.3.
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
    /// Agreement bot.
    Agbot,
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
    /// Owner of a node or agbot; `None` for people.
    pub owner: Option<Account>,
}

impl Caller {
    /// An agbot of the multi-tenant organization reads every organization.
    #[must_use]
    pub fn is_multi_tenant(&self) -> bool {
        self.role == Role::Agbot && self.org == MULTI_TENANT_ORG
    }

    /// People, as opposed to nodes and agbots.
    #[must_use]
    pub fn is_person(&self) -> bool {
        !matches!(self.role, Role::Node | Role::Agbot)
    }

    /// Root or the administrator of the given organization.
    #[must_use]
    pub fn is_admin_of(&self, org: &str) -> bool {
        self.role == Role::Root || (self.role == Role::OrgAdmin && self.org == org)
    }

    /// Whether the caller is this person.
    #[must_use]
    pub fn is_account(&self, account: &Account) -> bool {
        self.is_person() && self.org == account.org && self.id == account.name
    }

    /// The account that owns what the caller creates: itself for people, its owner for nodes and agbots.
    #[must_use]
    pub fn account(&self) -> Account {
        match &self.owner {
            Some(owner) => owner.clone(),
            None => Account { org: self.org.clone(), name: self.id.clone() },
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.id)
    }
}
