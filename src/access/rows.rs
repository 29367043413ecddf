//! Which rows of a list a caller sees once the list itself is allowed.
//!
//! Source: exchange contract 3.5, with the improvement of 11.2: nothing private is shown outside its organization.

use crate::{Account, Caller, Role};

/// Rows a caller sees: all, or public ones and those of its own organization, there perhaps only the ones it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFilter {
    sees_all: bool,
    org: String,
    owner: Option<Account>,
}

impl RowFilter {
    /// Every row is seen.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// Organization whose private rows are seen too.
    #[must_use]
    pub fn org(&self) -> &str {
        &self.org
    }

    /// Of the private rows only those of this account; `None`: of every account.
    #[must_use]
    pub fn owner(&self) -> Option<&Account> {
        self.owner.as_ref()
    }

    /// Whether one row is seen.
    #[must_use]
    pub fn shows(&self, org: &str, owner: &Account, is_public: bool) -> bool {
        let is_owned = self.owner.as_ref().is_none_or(|wanted| wanted == owner);
        self.sees_all || is_public || (org == self.org && is_owned)
    }
}

/// Services of one organization: a plain user sees its own and public ones.
#[must_use]
pub fn service_rows(caller: &Caller) -> RowFilter {
    let owner = (caller.role == Role::User).then(|| caller.account());
    RowFilter { owner, ..organization_rows(caller) }
}

/// The catalogue of services, and patterns: everything of the caller's organization, elsewhere what is public.
#[must_use]
pub fn organization_rows(caller: &Caller) -> RowFilter {
    let sees_all = caller.role == Role::Root || caller.is_multi_tenant();
    RowFilter { sees_all, org: caller.org.clone(), owner: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, org: &str, id: &str) -> Caller {
        Caller { role, org: org.into(), id: id.into(), owner: None }
    }

    fn account(org: &str, name: &str) -> Account {
        Account { org: org.into(), name: name.into() }
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
    fn nobody_but_root_and_multi_tenant_agbots_sees_private_rows_of_others() {
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
