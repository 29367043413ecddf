//! Roles of accounts and API keys as stored: a name, and the patterns of a deployer.

use evenkeel_access::AssignedRole;
use evenkeel_store::StoreError;

/// A role as two columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RoleColumns {
    pub(super) name: Option<&'static str>,
    pub(super) policies: Vec<String>,
}

impl From<Option<&AssignedRole>> for RoleColumns {
    fn from(role: Option<&AssignedRole>) -> RoleColumns {
        match role {
            Some(role) => RoleColumns { name: Some(role.name()), policies: role.policies() },
            None => RoleColumns::default(),
        }
    }
}

/// Reads a stored role. One that is invalid is no role with fewer limits: it cannot be read.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub(super) fn read_role(
    table: &'static str,
    name: Option<&str>,
    policies: &[String],
) -> Result<Option<AssignedRole>, StoreError> {
    let Some(name) = name else { return Ok(None) };
    let role = AssignedRole::read(name, policies).ok().flatten();
    role.map(Some).ok_or(StoreError::Corrupt { table, column: "role" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_is_read_as_it_was_stored_and_an_unknown_one_is_not() {
        let deployer = AssignedRole::read("deployer", &["a*".to_owned(), "b".to_owned()]).ok().flatten();
        for role in [None, Some(AssignedRole::Viewer), deployer] {
            let columns = RoleColumns::from(role.as_ref());
            assert_eq!(read_role("account", columns.name, &columns.policies).ok(), Some(role));
        }
        for (name, policies) in
            [("owner", vec![]), ("user", vec![]), ("deployer", vec![]), ("viewer", vec!["a".to_owned()])]
        {
            assert!(read_role("account", Some(name), &policies).is_err(), "{name}");
        }
    }
}
