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
        Role::OrgAdmin => account.org == caller.org && !account.is_hub_admin,
        Role::User => account.org == caller.org && account.name == caller.id,
        Role::Node | Role::Agbot | Role::UnapprovedAgbot => false,
    }
}

/// Returns whether the caller may set or clear the administrator flag of an existing account that it sees; plain users may not, and
/// the flag of hub admins and of root never changes.
#[must_use]
pub fn may_change_admin_flag(caller: &Caller, account: AccountFacts<'_>) -> bool {
    caller.role != Role::User && !account.is_hub_admin && sees_account(caller, account)
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
}

/// Checks the flags of an account that the caller creates or replaces, in the order of the contract.
///
/// # Errors
/// The first broken rule.
pub fn check_flags(caller: &Caller, org: &str, admin: bool, hub_admin: bool) -> Result<(), FlagsRefused> {
    if admin && (hub_admin || caller.role == Role::User) {
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
        Caller { role, org: org.into(), id: id.into(), owner: None, api_key: None }
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
    fn flags_of_administrators_of_the_hub_do_not_change_by_the_other_flag() {
        let root = caller(Role::Root, "root", "root");
        let hub_admin = AccountFacts { is_hub_admin: true, ..plain("root", "h") };
        assert!(!may_change_admin_flag(&root, hub_admin));
        assert!(may_change_hub_admin_flag(&root, hub_admin));
        assert!(!may_change_admin_flag(&caller(Role::User, "o", "u"), plain("o", "u")));
    }
}
