//! The visible rows of a list, once the list itself is allowed.
//!
//! Source: exchange-api 3.5, 11.2 (nothing private is shown outside its organization).

use evenkeel_ids::UserId;

use crate::{Caller, Role};

/// The filter of visible rows: all, or public ones and those of the caller's organization, there possibly only owned ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFilter {
    sees_all: bool,
    org: String,
    owner: Option<UserId>,
}

impl RowFilter {
    /// Returns whether every row is visible.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// Organization whose private rows are visible too.
    #[must_use]
    pub fn org(&self) -> &str {
        &self.org
    }

    /// Of the private rows only those of this account; `None`: of every account.
    #[must_use]
    pub fn owner(&self) -> Option<&UserId> {
        self.owner.as_ref()
    }

    /// Returns whether one row is visible.
    #[must_use]
    pub fn shows(&self, org: &str, owner: &UserId, is_public: bool) -> bool {
        let is_owned = self.owner.as_ref().is_none_or(|wanted| wanted == owner);
        self.sees_all || is_public || (org == self.org && is_owned)
    }
}

/// Returns the filter for services of one organization: a plain user sees its own and public ones.
#[must_use]
pub fn service_rows(caller: &Caller) -> RowFilter {
    RowFilter { owner: caller.visible_owner(), ..organization_rows(caller) }
}

/// Returns the filter for the catalog of services, and for patterns: everything of the caller's organization, elsewhere only public rows.
#[must_use]
pub fn organization_rows(caller: &Caller) -> RowFilter {
    let sees_all = caller.role == Role::Root || caller.is_multi_tenant();
    RowFilter { sees_all, org: caller.org.clone(), owner: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, org: &str, id: &str) -> Caller {
        Caller::new(role, org, id)
    }

    fn account(org: &str, name: &str) -> UserId {
        UserId::new(org, name)
    }

    #[test]
    fn plain_user_sees_own_and_public_services() {
        let rows = service_rows(&caller(Role::User, "o", "u"));
        assert!(rows.shows("o", &account("o", "u"), false));
        assert!(rows.shows("o", &account("o", "v"), true));
        assert!(!rows.shows("o", &account("o", "v"), false));
        assert!(organization_rows(&caller(Role::User, "o", "u")).shows("o", &account("o", "v"), false));
    }

    #[test]
    fn only_root_and_multi_tenant_agbots_see_private_rows_of_others() {
        let owner = account("p", "v");
        for role in [Role::OrgAdmin, Role::User, Role::Node, Role::Agbot, Role::HubAdmin] {
            let caller = caller(role, "o", "c");
            assert!(!service_rows(&caller).shows("p", &owner, false));
            assert!(!organization_rows(&caller).shows("IBM", &owner, false));
            assert!(service_rows(&caller).shows("p", &owner, true));
        }
        assert!(service_rows(&caller(Role::Root, "root", "root")).shows("p", &owner, false));
        assert!(service_rows(&caller(Role::Agbot, "IBM", "a")).shows("p", &owner, false));
    }
}
