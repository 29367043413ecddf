//! Decides who may access an exchange resource: one table, no rules anywhere else.
//!
//! Pure: the facts about the target (owner, public flag) are passed in. Source: exchange-api 3, 11.2.

mod account;
mod caller;
mod ha_group;
mod permission;
mod reserved;
mod rows;
mod table;

pub use account::{
    AccountFacts, FlagsRefused, ROOT_NAME, check_flags, is_root, may_change_admin_flag,
    may_change_hub_admin_flag, sees_account,
};
pub use caller::{Caller, Role};
pub use ha_group::{
    HaGroupFacts, HaGroupRefused, check_ha_group_change, makes_admin_groups, may_move_node, seen_members,
    sees_admin_descriptions,
};
pub use permission::{Permission, PermissionCondition, Right, WriteRight};
pub use reserved::{API_KEY_LOGIN, LoginKind, OWN_NAMES, is_reserved_name};
pub use rows::{RowFilter, organization_rows, service_rows};
pub use table::{Access, right};

use evenkeel_ids::UserId;
use table::Cell;

/// The organization of the agbots that serve every organization.
pub const MULTI_TENANT_ORG: &str = "IBM";
/// The organization of root and the hub admins.
pub const ROOT_ORG: &str = "root";

/// The facts about an existing resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Account that owns the row; `None` for kinds without an owner.
    pub owner: Option<UserId>,
    /// Readable from every organization (services and patterns only).
    pub is_public: bool,
    /// The owner of the calling node may read it, or an approved agbot deploys it to the node (services only).
    pub is_deployed: bool,
}

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Organization in the path.
    pub org: &'a str,
    /// Bare id of the resource; `None` for a list or an action.
    pub id: Option<&'a str>,
}

/// The outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Allowed.
    Allow,
    /// The caller is known but may not do this (403).
    Deny,
    /// The caller may not even learn whether it exists (404 of the access layer).
    NotFound,
    /// The decision depends on the target: load its facts and call [`decide_with_facts`].
    NeedsFacts,
}

/// Decides as far as possible without the facts of the target.
///
/// # Source
/// Exchange-api 3.1 to 3.4.
#[must_use]
pub fn decide(caller: &Caller, access: Access, target: Target<'_>) -> Decision {
    if is_sealed(caller, access, target) {
        return Decision::Deny;
    }
    let cell = table::cell(access, caller, target.org);
    if probes_existence(caller, access, target) {
        return Decision::NeedsFacts;
    }
    match cell {
        Cell::Yes => Decision::Allow,
        Cell::No => Decision::Deny,
        Cell::OnlySelf if target.id == Some(caller.id.as_str()) && target.org == caller.org => {
            Decision::Allow
        }
        Cell::OnlySelf => Decision::Deny,
        Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyDeployed if target.id.is_none() => Decision::Allow,
        Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyPublic | Cell::OnlyDeployed => Decision::NeedsFacts,
    }
}

/// Decides with the facts of the target; `None` means that it does not exist.
///
/// # Source
/// Exchange-api 3.1 (an absent resource counts as owned by a caller of its own organization; a read of it in another organization is refused as not
/// found).
#[must_use]
pub fn decide_with_facts(
    caller: &Caller,
    access: Access,
    target: Target<'_>,
    facts: Option<&Facts>,
) -> Decision {
    let Some(facts) = facts else {
        if probes_existence(caller, access, target) {
            return Decision::NotFound;
        }
        return match table::cell(access, caller, target.org) {
            Cell::Yes | Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyDeployed => Decision::Allow,
            Cell::OnlySelf if target.id == Some(caller.id.as_str()) => Decision::Allow,
            Cell::OnlySelf | Cell::OnlyPublic | Cell::No => Decision::Deny,
        };
    };
    let is_owner = || facts.owner.as_ref().is_some_and(|owner| caller.acts_for(owner));
    let allowed = match table::cell(access, caller, target.org) {
        Cell::Yes => true,
        Cell::No => false,
        Cell::OnlySelf => target.org == caller.org && target.id == Some(caller.id.as_str()),
        Cell::OnlyOwned => is_owner(),
        Cell::OnlyVisible => facts.is_public || is_owner(),
        Cell::OnlyPublic => facts.is_public,
        Cell::OnlyDeployed => facts.is_public || facts.is_deployed,
    };
    if allowed { Decision::Allow } else { Decision::Deny }
}

/// The root organization is fixed: it cannot be deleted, and only root itself changes it.
fn is_sealed(caller: &Caller, access: Access, target: Target<'_>) -> bool {
    target.org == ROOT_ORG
        && (access == Access::OrgDelete || (access == Access::OrgChange && caller.role != Role::Root))
}

/// Returns whether the request reads an absent id in another organization, which is "not found" unless the caller may read everything there.
fn probes_existence(caller: &Caller, access: Access, target: Target<'_>) -> bool {
    target.id.is_some()
        && access.is_read_of_one()
        && target.org != caller.org
        && !caller.is_multi_tenant()
        && caller.role != Role::HubAdmin
}

#[cfg(test)]
mod tests;
