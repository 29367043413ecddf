//! Reserved names that no login may have.
//!
//! Source: exchange-api 2.1, 4.3.

/// The login that sends an API key in place of a password.
pub const API_KEY_LOGIN: &str = "apikey";

/// Names that refer to the caller in paths of users.
pub const OWN_NAMES: [&str; 2] = [API_KEY_LOGIN, "iamapikey"];

/// Legacy login of nodes, reserved for them only.
const NODE_TOKEN_LOGIN: &str = "iamtoken";

/// The kind of login that gets a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKind {
    /// A user account.
    Account,
    /// An edge node.
    Node,
    /// An agreement bot.
    Agbot,
}

/// Returns whether no login of the kind may have the name.
///
/// A node or agbot named `apikey` could never log in: its token would be searched among the API keys. Names of users are compared in
/// any case, ids as they are.
#[must_use]
pub fn is_reserved_name(kind: LoginKind, name: &str) -> bool {
    match kind {
        LoginKind::Account => OWN_NAMES.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)),
        LoginKind::Node => OWN_NAMES.contains(&name) || name == NODE_TOKEN_LOGIN,
        LoginKind::Agbot => OWN_NAMES.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_login_has_the_name_of_api_keys() {
        for kind in [LoginKind::Account, LoginKind::Node, LoginKind::Agbot] {
            for name in OWN_NAMES {
                assert!(is_reserved_name(kind, name), "{kind:?} {name}");
            }
            assert!(!is_reserved_name(kind, "apikeys"), "{kind:?}");
        }
    }

    #[test]
    fn users_are_refused_in_any_case_and_only_nodes_cannot_be_iamtoken() {
        assert!(is_reserved_name(LoginKind::Account, "ApiKey"));
        assert!(!is_reserved_name(LoginKind::Node, "ApiKey"));
        assert!(is_reserved_name(LoginKind::Node, "iamtoken"));
        assert!(!is_reserved_name(LoginKind::Account, "iamtoken"));
    }
}
