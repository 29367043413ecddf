//! Ids of users.

use std::{fmt, sync::Arc};

/// The id of a user.
///
/// # Shape
/// Text `org/name`. The exchange allows slashes in both, so the end of the organization is kept: without it, users of different
/// organizations could be equal. Orders as text. Cloning copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId {
    text: Arc<str>,
    org_end: usize,
}

impl UserId {
    /// Puts an organization and a name together.
    pub fn new(org: &str, name: &str) -> Self {
        Self { text: format!("{org}/{name}").into(), org_end: org.len() }
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the organization.
    pub fn org(&self) -> &str {
        &self.text[..self.org_end]
    }

    /// Returns the name inside the organization.
    pub fn name(&self) -> &str {
        &self.text[self.org_end + 1..]
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_different_organizations_differ_whatever_they_are_called() {
        let (one, other) = (UserId::new("a", "b/c"), UserId::new("a/b", "c"));
        assert_eq!((one.org(), one.name()), ("a", "b/c"));
        assert_eq!((other.org(), other.name()), ("a/b", "c"));
        assert_ne!(one, other);
        assert_eq!(UserId::new("", "").to_string(), "/");
    }
}
