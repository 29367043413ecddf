//! Visibility and changes of accounts.
//!
//! Source: exchange-api 3.2 (note 3), 4.3.

use crate::{Caller, ROOT_ORG, Role};

/// The name of the root user inside [`ROOT_ORG`].
pub const ROOT_NAME: &str = "root";

/// The facts about an account that the rules need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountFacts<'a> {
    /// Organization.
    pub org: &'a str,
    /// Name inside the organization.
    pub name: &'a str,
    /// Administrator of the organization.
    pub is_admin: bool,
    /// Administrator of the hub.
    pub is_hub_admin: bool,
}

impl AccountFacts<'_> {
    /// Returns whether this is the root user.
    #[must_use]
    pub fn is_root(&self) -> bool {
        is_root(self.org, self.name)
    }
}

/// Returns whether a login is that of the root user.
#[must_use]
pub fn is_root(org: &str, name: &str) -> bool {
    org == ROOT_ORG && name == ROOT_NAME
}

/// Returns whether the caller sees the account, and may change it when the table lets it change accounts at all.
///
/// An invisible account is absent for the caller. Hub admins see administrators only, and only root sees root.
#[must_use]
pub fn sees_account(caller: &Caller, account: AccountFacts<'_>) -> bool {
    match caller.role {
        Role::Root => true,
        Role::HubAdmin => (account.is_admin || account.is_hub_admin) && !account.is_root(),
        Role::OrgAdmin | Role::Viewer | Role::Deployer => account.org == caller.org && !account.is_hub_admin,
        Role::User => account.org == caller.org && account.name == caller.id,
        Role::Node | Role::Agbot | Role::UnapprovedAgbot => false,
    }
}

/// The accounts of one organization that a list shows, once the list itself is allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountRows {
    /// Only administrators of the organization and of the hub.
    pub only_administrators: bool,
    /// No administrators of the hub.
    pub hides_hub_admins: bool,
    /// Not root.
    pub hides_root: bool,
}

impl AccountRows {
    /// Name of the account that is hidden in an organization.
    #[must_use]
    pub fn hidden_name(self, org: &str) -> Option<&'static str> {
        (self.hides_root && org == ROOT_ORG).then_some(ROOT_NAME)
    }
}

/// Returns the accounts that a caller sees in a list that it may read: those of [`sees_account`]. Other callers than administrators read single
/// accounts only, and are not limited here.
#[must_use]
pub fn listed_accounts(caller: &Caller) -> AccountRows {
    match caller.role {
        Role::HubAdmin => {
            AccountRows { only_administrators: true, hides_root: true, ..AccountRows::default() }
        }
        Role::OrgAdmin | Role::Viewer | Role::Deployer => {
            AccountRows { hides_hub_admins: true, ..AccountRows::default() }
        }
        Role::Root | Role::User | Role::Node | Role::Agbot | Role::UnapprovedAgbot => AccountRows::default(),
    }
}

/// Returns whether the caller may set or clear the administrator flag of an existing account that it sees; plain users may not, and
/// the flag of hub admins and of root never changes.
#[must_use]
pub fn may_change_admin_flag(caller: &Caller, account: AccountFacts<'_>) -> bool {
    caller.role.is_administrator() && !account.is_hub_admin && sees_account(caller, account)
}

/// Returns whether the caller may give a role to an existing account, or take it away: only root and administrators of its organization.
#[must_use]
pub fn may_assign_role(caller: &Caller, account: AccountFacts<'_>) -> bool {
    caller.is_admin_of(account.org) && sees_account(caller, account)
}

/// Returns whether the caller may set or clear the hub administrator flag of an existing account: only root and hub admins, and never of an
/// administrator of an organization.
#[must_use]
pub fn may_change_hub_admin_flag(caller: &Caller, account: AccountFacts<'_>) -> bool {
    matches!(caller.role, Role::Root | Role::HubAdmin) && !account.is_admin && sees_account(caller, account)
}

/// The reason why an account of the organization may not get these flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagsRefused {
    /// No account becomes root, and plain users create no administrators.
    AdminByNonAdmin,
    /// The root organization holds root and hub admins only.
    PlainInRootOrg,
    /// Only root and hub admins create hub admins.
    HubAdminByOther,
    /// Hub admins exist in the root organization only.
    HubAdminOutsideRootOrg,
    /// Hub admins create administrators only.
    PlainByHubAdmin,
    /// Only administrators of the organization give roles.
    RoleByOther,
    /// An administrator has all rights of a role.
    RoleOfAdministrator,
}

/// Checks the role of an account that the caller creates or changes; `is_administrator`: the account is one, of the organization or the hub.
///
/// # Errors
/// The first broken rule.
pub fn check_role(caller: &Caller, org: &str, is_administrator: bool) -> Result<(), FlagsRefused> {
    if !caller.is_admin_of(org) {
        return Err(FlagsRefused::RoleByOther);
    }
    if is_administrator { Err(FlagsRefused::RoleOfAdministrator) } else { Ok(()) }
}

/// Checks the flags of an account that the caller creates or replaces, in the order of the contract.
///
/// # Errors
/// The first broken rule.
pub fn check_flags(caller: &Caller, org: &str, admin: bool, hub_admin: bool) -> Result<(), FlagsRefused> {
    if admin && (hub_admin || !caller.role.is_administrator()) {
        return Err(FlagsRefused::AdminByNonAdmin);
    }
    if org == ROOT_ORG && !hub_admin {
        return Err(FlagsRefused::PlainInRootOrg);
    }
    if hub_admin && !matches!(caller.role, Role::Root | Role::HubAdmin) {
        return Err(FlagsRefused::HubAdminByOther);
    }
    if hub_admin && org != ROOT_ORG {
        return Err(FlagsRefused::HubAdminOutsideRootOrg);
    }
    if caller.role == Role::HubAdmin && !admin && !hub_admin {
        return Err(FlagsRefused::PlainByHubAdmin);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, org: &str, id: &str) -> Caller {
        Caller::new(role, org, id)
    }

    fn plain<'a>(org: &'a str, name: &'a str) -> AccountFacts<'a> {
        AccountFacts { org, name, is_admin: false, is_hub_admin: false }
    }

    #[test]
    fn plain_accounts_are_absent_for_hub_admins_and_root_is_absent_for_all_others() {
        let hub_admin = caller(Role::HubAdmin, "root", "h");
        assert!(!sees_account(&hub_admin, plain("o", "u")));
        assert!(sees_account(&hub_admin, AccountFacts { is_admin: true, ..plain("o", "u") }));
        let root = AccountFacts { is_admin: true, is_hub_admin: true, ..plain("root", "root") };
        assert!(!sees_account(&hub_admin, root));
        assert!(!sees_account(&caller(Role::OrgAdmin, "root", "x"), root));
        assert!(sees_account(&caller(Role::Root, "root", "root"), root));
    }

    #[test]
    fn lists_show_the_accounts_that_their_reader_sees() {
        for (role, org) in [(Role::Root, "root"), (Role::HubAdmin, "root"), (Role::OrgAdmin, "o")] {
            let caller = caller(role, org, "c");
            let rows = listed_accounts(&caller);
            for (org, name) in [("o", "u"), ("root", "root"), ("root", "h")] {
                for (is_admin, is_hub_admin) in [(false, false), (true, false), (false, true), (true, true)] {
                    let account = AccountFacts { org, name, is_admin, is_hub_admin };
                    let is_listed = (!rows.only_administrators || is_admin || is_hub_admin)
                        && !(rows.hides_hub_admins && is_hub_admin)
                        && rows.hidden_name(org) != Some(name);
                    // Administrators of an organization list that one only.
                    if role != Role::OrgAdmin || org == caller.org {
                        assert_eq!(is_listed, sees_account(&caller, account), "{role:?} {account:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_account_becomes_root_and_only_the_hub_creates_hub_admins() {
        let admin = caller(Role::OrgAdmin, "o", "a");
        let root = caller(Role::Root, "root", "root");
        assert_eq!(check_flags(&root, "root", true, true), Err(FlagsRefused::AdminByNonAdmin));
        assert_eq!(check_flags(&root, "root", false, false), Err(FlagsRefused::PlainInRootOrg));
        assert_eq!(check_flags(&root, "o", false, true), Err(FlagsRefused::HubAdminOutsideRootOrg));
        assert_eq!(check_flags(&admin, "o", false, true), Err(FlagsRefused::HubAdminByOther));
        assert_eq!(check_flags(&admin, "o", true, false), Ok(()));
        assert_eq!(
            check_flags(&caller(Role::HubAdmin, "root", "h"), "o", false, false),
            Err(FlagsRefused::PlainByHubAdmin)
        );
    }

    #[test]
    fn only_administrators_of_the_organization_give_roles_and_never_to_administrators() {
        for (role, org, expected) in [
            (Role::Root, "root", Ok(())),
            (Role::OrgAdmin, "o", Ok(())),
            (Role::OrgAdmin, "p", Err(FlagsRefused::RoleByOther)),
            (Role::HubAdmin, "root", Err(FlagsRefused::RoleByOther)),
            (Role::User, "o", Err(FlagsRefused::RoleByOther)),
            (Role::Viewer, "o", Err(FlagsRefused::RoleByOther)),
            (Role::Deployer, "o", Err(FlagsRefused::RoleByOther)),
        ] {
            let caller = caller(role, org, "c");
            assert_eq!(check_role(&caller, "o", false), expected, "{role:?} {org}");
            assert_eq!(may_assign_role(&caller, plain("o", "u")), expected.is_ok(), "{role:?} {org}");
        }
        let admin = caller(Role::OrgAdmin, "o", "a");
        assert_eq!(check_role(&admin, "o", true), Err(FlagsRefused::RoleOfAdministrator));
        assert!(check_flags(&caller(Role::Viewer, "o", "c"), "o", true, false).is_err());
        assert!(!may_change_admin_flag(&caller(Role::Deployer, "o", "c"), plain("o", "u")));
    }

    #[test]
    fn flags_of_administrators_of_the_hub_do_not_change_by_the_other_flag() {
        let root = caller(Role::Root, "root", "root");
        let hub_admin = AccountFacts { is_hub_admin: true, ..plain("root", "h") };
        assert!(!may_change_admin_flag(&root, hub_admin));
        assert!(may_change_hub_admin_flag(&root, hub_admin));
        assert!(!may_change_admin_flag(&caller(Role::User, "o", "u"), plain("o", "u")));
    }
}
