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
    AccountFacts, AccountRows, FlagsRefused, ROOT_NAME, check_flags, check_role, is_root, listed_accounts,
    may_assign_role, may_change_admin_flag, may_change_hub_admin_flag, sees_account,
};
pub use caller::{Assignment, Caller, Role};
pub use ha_group::{
    HaGroupFacts, HaGroupRefused, check_ha_group_change, makes_admin_groups, may_move_node, seen_members,
    sees_admin_descriptions,
};
pub use permission::{Permission, PermissionCondition, Right, WriteRight};
pub use reserved::{API_KEY_LOGIN, LoginKind, OWN_NAMES, is_reserved_name};
pub use rows::{RowFilter, organization_rows, service_rows};
pub use table::{Access, right};

pub use evenkeel_domain::assigned_role::AssignedRole;
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
    if probes_existence(caller, access, target) {
        return Decision::NeedsFacts;
    }
    let decisions = table::cells(access, caller, target.org).map(|cell| decide_cell(cell, caller, target));
    decisions.fold(Decision::Allow, stricter)
}

/// Decides by one cell as far as possible without the facts of the target.
fn decide_cell(cell: Cell, caller: &Caller, target: Target<'_>) -> Decision {
    match cell {
        Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyDeployed if target.id.is_none() => Decision::Allow,
        Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyPublic | Cell::OnlyDeployed => Decision::NeedsFacts,
        cell if is_allowed_as_is(cell, caller, target) => Decision::Allow,
        _ => Decision::Deny,
    }
}

/// Returns whether a cell allows an access whatever the facts of the target are.
fn is_allowed_as_is(cell: Cell, caller: &Caller, target: Target<'_>) -> bool {
    let is_itself = target.org == caller.org && target.id == Some(caller.id.as_str());
    match cell {
        Cell::Yes => true,
        Cell::OnlySelf => is_itself,
        Cell::OnlySelfInPerson => is_itself && !caller.has_limited_key(),
        Cell::OnlyMatching => target.id.is_some_and(|id| caller.writes_policy(id)),
        Cell::No | Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyPublic | Cell::OnlyDeployed => false,
    }
}

/// Returns the decision of two that allows less.
fn stricter(one: Decision, other: Decision) -> Decision {
    match (one, other) {
        (Decision::Allow, decision) | (decision, Decision::Allow) => decision,
        (Decision::NeedsFacts, Decision::NeedsFacts) => Decision::NeedsFacts,
        _ => Decision::Deny,
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
    if facts.is_none() && probes_existence(caller, access, target) {
        return Decision::NotFound;
    }
    let mut cells = table::cells(access, caller, target.org);
    if cells.all(|cell| is_allowed(cell, caller, target, facts)) { Decision::Allow } else { Decision::Deny }
}

/// Returns whether a cell allows an access to a target with these facts.
fn is_allowed(cell: Cell, caller: &Caller, target: Target<'_>, facts: Option<&Facts>) -> bool {
    let is_owner = |facts: &Facts| facts.owner.as_ref().is_some_and(|owner| caller.acts_for(owner));
    match (cell, facts) {
        (Cell::OnlyOwned | Cell::OnlyVisible | Cell::OnlyDeployed, None) => true,
        (Cell::OnlyOwned, Some(facts)) => is_owner(facts),
        (Cell::OnlyVisible, Some(facts)) => facts.is_public || is_owner(facts),
        (Cell::OnlyPublic, Some(facts)) => facts.is_public,
        (Cell::OnlyDeployed, Some(facts)) => facts.is_public || facts.is_deployed,
        (Cell::OnlyPublic, None) => false,
        (cell, _) => is_allowed_as_is(cell, caller, target),
    }
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
mod role_tests;
#[cfg(test)]
mod tests;
