//! Links to changes, or the reason why the reader may not make them.

use super::address;

/// A control that leads to a change. Templates show it like a control of an action.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangeLink {
    pub(crate) text: &'static str,
    pub(crate) href: String,
    /// Why it is disabled; empty if it is not.
    pub(crate) objection: String,
}

impl ChangeLink {
    /// A link to the form of a change, or to its plan if it has no form.
    pub(crate) fn new(
        org: &str,
        change: &'static str,
        text: &'static str,
        fields: &[(&str, &str)],
        objection: &str,
    ) -> Self {
        let href = address(org, change, fields.iter().copied(), false);
        Self { text, href, objection: objection.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_what_is_given() {
        let link = ChangeLink::new("o", "user-role", "Change", &[("user", "a&b/\u{202e}"), ("role", "")], "");
        assert_eq!(link.href, "/console/orgs/o/change/user-role?user=a%26b%2F%E2%80%AE");
        assert_eq!(
            ChangeLink::new("o/p", "user-create", "Create", &[], "no").href,
            "/console/orgs/o%2Fp/change/user-create"
        );
    }
}
