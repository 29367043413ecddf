//! Permission to change HA groups.
//!
//! One rule for every write: administrators change every group of their organization; other users change groups that no
//! administrator created, if they own all nodes that are in the group before or after the change. A group without members
//! belongs to the user who created it. Source: exchange-api 6, 11.2-10; requirements 004 ("Exchange APIs").

use evenkeel_ids::UserId;

use crate::{Caller, Role};

/// The facts about a group that the rule needs.
#[derive(Debug, Clone, Copy)]
pub struct HaGroupFacts<'a> {
    /// Organization.
    pub org: &'a str,
    /// True if an administrator created the group.
    pub is_admin: bool,
    /// Its creator; none when that account is gone.
    pub owner: Option<&'a UserId>,
}

/// The reason why a group may not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaGroupRefused {
    /// An administrator created the group.
    AdminGroup,
    /// Some nodes have another owner.
    ForeignNodes,
    /// The group is empty and has another creator.
    ForeignGroup,
}

/// Returns whether groups that the caller creates are closed to plain users.
#[must_use]
pub fn makes_admin_groups(caller: &Caller, org: &str) -> bool {
    caller.is_admin_of(org)
}

/// Checks a change of an existing group against the owners of its nodes before the change. The permission table must have allowed the
/// access already.
///
/// # Errors
/// The first broken rule.
pub fn check_ha_group_change<'a>(
    caller: &Caller,
    group: HaGroupFacts<'_>,
    member_owners: impl IntoIterator<Item = &'a UserId>,
) -> Result<(), HaGroupRefused> {
    if caller.is_admin_of(group.org) {
        return Ok(());
    }
    if group.is_admin {
        return Err(HaGroupRefused::AdminGroup);
    }
    let mut is_empty = true;
    for owner in member_owners {
        is_empty = false;
        if !caller.is_account(owner) {
            return Err(HaGroupRefused::ForeignNodes);
        }
    }
    if is_empty && !group.owner.is_some_and(|owner| caller.is_account(owner)) {
        return Err(HaGroupRefused::ForeignGroup);
    }
    Ok(())
}

/// Returns whether the caller may add a node with this owner to a group of the organization, or remove it.
#[must_use]
pub fn may_move_node(caller: &Caller, org: &str, owner: &UserId) -> bool {
    caller.is_admin_of(org) || caller.is_account(owner)
}

/// Returns the account whose nodes the caller sees as members of groups; `None` when it sees all.
#[must_use]
pub fn seen_members(caller: &Caller) -> Option<UserId> {
    caller.visible_owner()
}

/// Returns whether the caller sees the descriptions of groups created by administrators of the organization; those of other groups are always visible.
#[must_use]
pub fn sees_admin_descriptions(caller: &Caller, org: &str) -> bool {
    caller.is_admin_of(org) || (caller.org == org && matches!(caller.role, Role::Viewer | Role::Deployer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Caller {
        Caller::new(Role::User, "o", name)
    }

    fn account(name: &str) -> UserId {
        UserId::new("o", name)
    }

    fn group(is_admin: bool, owner: &UserId) -> HaGroupFacts<'_> {
        HaGroupFacts { org: "o", is_admin, owner: Some(owner) }
    }

    #[test]
    fn user_changes_groups_whose_nodes_are_all_its_own() {
        let (mine, other) = (account("u"), account("v"));
        assert_eq!(check_ha_group_change(&user("u"), group(false, &other), [&mine, &mine]), Ok(()));
        let refused = check_ha_group_change(&user("u"), group(false, &mine), [&mine, &other]);
        assert_eq!(refused, Err(HaGroupRefused::ForeignNodes));
    }

    #[test]
    fn only_plain_users_see_no_more_than_their_own_members() {
        assert_eq!(seen_members(&user("u")), Some(account("u")));
        for role in [Role::Root, Role::HubAdmin, Role::OrgAdmin, Role::Node, Role::Agbot] {
            assert_eq!(seen_members(&Caller { role, owner: Some(account("v")), ..user("u") }), None);
        }
    }

    #[test]
    fn group_of_an_administrator_stays_closed_to_users_but_not_to_root() {
        let (mine, admin) = (account("u"), account("a"));
        assert_eq!(
            check_ha_group_change(&user("u"), group(true, &admin), [&mine]),
            Err(HaGroupRefused::AdminGroup)
        );
        let root = Caller::new(Role::Root, "root", "root");
        assert_eq!(check_ha_group_change(&root, group(true, &admin), [&mine]), Ok(()));
    }

    #[test]
    fn empty_group_is_changed_by_who_made_it() {
        let mine = account("u");
        assert_eq!(check_ha_group_change(&user("u"), group(false, &mine), []), Ok(()));
        assert_eq!(
            check_ha_group_change(&user("v"), group(false, &mine), []),
            Err(HaGroupRefused::ForeignGroup)
        );
        let orphan = HaGroupFacts { org: "o", is_admin: false, owner: None };
        assert_eq!(check_ha_group_change(&user("u"), orphan, []), Err(HaGroupRefused::ForeignGroup));
    }
}
