//! Roles that limit an account or an API key: read-only, and deployer of chosen policies.
//!
//! What each may do is in the permission table of `access`; this module reads, compares and intersects them.

use std::collections::BTreeSet;

/// Most patterns of one role.
pub const MAX_PATTERNS: usize = 32;
/// Longest pattern, in bytes.
pub const MAX_PATTERN: usize = 256;
/// The word for an ordinary user, who has no such role.
pub const NO_ROLE: &str = "user";

const VIEWER: &str = "viewer";
const DEPLOYER: &str = "deployer";

/// A role of an account or an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignedRole {
    /// Reads everything of its organization except secrets, and changes nothing.
    Viewer,
    /// Reads the same, and writes and operates the deployment policies that the patterns match.
    Deployer(PolicyPatterns),
}

/// Patterns of names of deployment policies: whole names, or beginnings of names that end in `*`. Sorted, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyPatterns(BTreeSet<String>);

/// The reason why a role is invalid. Each names the member and the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// No role has this name.
    #[error("role: must be one of {NO_ROLE}, {VIEWER} and {DEPLOYER}")]
    Unknown,
    /// Patterns without a role that has any.
    #[error("policies: only the role {DEPLOYER} has policies")]
    Unexpected,
    /// A deployer of nothing.
    #[error(
        "policies: the role {DEPLOYER} needs at least one name of a deployment policy, or beginning of names such as \"shop-*\""
    )]
    Missing,
    /// Too many patterns.
    #[error("policies: at most {MAX_PATTERNS} are allowed")]
    TooMany,
    /// An invalid pattern, by its position.
    #[error("policies[{0}]: {1}")]
    Pattern(usize, &'static str),
}

impl PolicyPatterns {
    /// Reads patterns.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn read(texts: &[String]) -> Result<PolicyPatterns, RoleError> {
        match texts.len() {
            0 => return Err(RoleError::Missing),
            count if count > MAX_PATTERNS => return Err(RoleError::TooMany),
            _ => {}
        }
        for (position, text) in texts.iter().enumerate() {
            check(text).map_err(|why| RoleError::Pattern(position, why))?;
        }
        Ok(PolicyPatterns(texts.iter().cloned().collect()))
    }

    /// Returns whether the name of a policy, without its organization, matches a pattern.
    #[must_use]
    pub fn matches(&self, policy: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => policy.starts_with(beginning),
            None => policy == pattern,
        })
    }

    /// Returns the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns whether each name that matches the other patterns matches these.
    #[must_use]
    pub fn cover(&self, others: &PolicyPatterns) -> bool {
        others.0.iter().all(|other| self.covers_one(other))
    }

    fn covers_one(&self, other: &str) -> bool {
        self.0.iter().any(|pattern| is_within(other, pattern))
    }

    /// Returns patterns of the names that match both.
    #[must_use]
    pub fn intersection(&self, other: &PolicyPatterns) -> PolicyPatterns {
        let here = self.0.iter().filter(|pattern| other.covers_one(pattern));
        let there = other.0.iter().filter(|pattern| self.covers_one(pattern));
        PolicyPatterns(here.chain(there).cloned().collect())
    }
}

/// Returns whether each name that matches a pattern matches another one.
fn is_within(pattern: &str, other: &str) -> bool {
    match other.strip_suffix('*') {
        Some(beginning) => pattern.strip_suffix('*').unwrap_or(pattern).starts_with(beginning),
        None => pattern == other,
    }
}

fn check(pattern: &str) -> Result<(), &'static str> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    if pattern.is_empty() {
        return Err("must not be empty");
    }
    if pattern.len() > MAX_PATTERN {
        return Err("must not have more than 256 bytes");
    }
    if name.contains('*') {
        return Err("* may only be the last character");
    }
    if name.contains('/') {
        return Err("must be the name of a deployment policy without its organization");
    }
    if name.chars().any(|sign| sign.is_control() || sign.is_whitespace()) {
        return Err("must not contain spaces or control characters");
    }
    Ok(())
}

impl AssignedRole {
    /// Reads a role by its name; `None` for that of an ordinary user.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn read(name: &str, policies: &[String]) -> Result<Option<AssignedRole>, RoleError> {
        let role = match name {
            DEPLOYER => {
                return PolicyPatterns::read(policies).map(|patterns| Some(AssignedRole::Deployer(patterns)));
            }
            VIEWER => Some(AssignedRole::Viewer),
            NO_ROLE => None,
            _ => return Err(RoleError::Unknown),
        };
        if policies.is_empty() { Ok(role) } else { Err(RoleError::Unexpected) }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            AssignedRole::Viewer => VIEWER,
            AssignedRole::Deployer(_) => DEPLOYER,
        }
    }

    /// Returns the patterns of its policies; none for a viewer.
    #[must_use]
    pub fn policies(&self) -> Vec<String> {
        match self {
            AssignedRole::Viewer => Vec::new(),
            AssignedRole::Deployer(patterns) => patterns.iter().map(str::to_owned).collect(),
        }
    }

    /// Returns whether it allows to write and to operate a deployment policy, by its name without the organization.
    #[must_use]
    pub fn writes_policy(&self, policy: &str) -> bool {
        match self {
            AssignedRole::Viewer => false,
            AssignedRole::Deployer(patterns) => patterns.matches(policy),
        }
    }

    /// Returns whether it allows everything that another role allows.
    #[must_use]
    pub fn covers(&self, other: &AssignedRole) -> bool {
        match (self, other) {
            (_, AssignedRole::Viewer) => true,
            (AssignedRole::Viewer, AssignedRole::Deployer(_)) => false,
            (AssignedRole::Deployer(patterns), AssignedRole::Deployer(others)) => patterns.cover(others),
        }
    }

    /// Returns the role that allows what both allow.
    #[must_use]
    pub fn intersection(&self, other: &AssignedRole) -> AssignedRole {
        match (self, other) {
            (AssignedRole::Deployer(patterns), AssignedRole::Deployer(others)) => {
                AssignedRole::Deployer(patterns.intersection(others))
            }
            _ => AssignedRole::Viewer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> PolicyPatterns {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyPatterns::read(&texts).unwrap_or_else(|error| panic!("{texts:?}: {error}"))
    }

    #[test]
    fn pattern_is_a_whole_name_or_the_beginning_of_names() {
        let some = patterns(&["shop", "web-*"]);
        for (name, is_matched) in [
            ("shop", true),
            ("shop2", false),
            ("Shop", false),
            ("web-", true),
            ("web-a", true),
            ("web", false),
            ("a-web-a", false),
            ("", false),
        ] {
            assert_eq!(some.matches(name), is_matched, "{name}");
        }
        assert!(patterns(&["*"]).matches("anything"));
    }

    #[test]
    fn intersection_matches_what_both_match_and_covering_is_inclusion() {
        let all =
            [&["*"][..], &["a*"], &["ab*"], &["ab"], &["b"], &["a*", "b"], &["ab", "b*"], &["abc", "abd*"]];
        let names = ["", "a", "ab", "abc", "abd", "abde", "b", "bc", "c"];
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))) {
            let (left, right) = (patterns(one), patterns(other));
            let both = left.intersection(&right);
            for name in names {
                let expected = left.matches(name) && right.matches(name);
                assert_eq!(both.matches(name), expected, "{one:?} and {other:?}: {name}");
            }
            assert!(left.cover(&both) && right.cover(&both), "{one:?} and {other:?}");
            if left.cover(&right) {
                assert!(
                    names.iter().all(|name| !right.matches(name) || left.matches(name)),
                    "{one:?} {other:?}"
                );
                assert_eq!(both, right, "{one:?} {other:?}");
            }
        }
        assert!(patterns(&["a*"]).intersection(&patterns(&["b"])).iter().next().is_none());
        assert!(!patterns(&["ab*"]).cover(&patterns(&["a*"])));
    }

    #[test]
    fn invalid_roles_are_refused_by_member_and_rule() {
        let refused = |name: &str, policies: &[&str]| {
            let policies: Vec<String> = policies.iter().map(|text| (*text).to_owned()).collect();
            AssignedRole::read(name, &policies).map_err(|error| error.to_string()).expect_err(name)
        };
        assert!(refused("admin", &[]).starts_with("role: must be one of user, viewer and deployer"));
        assert!(refused("", &[]).starts_with("role:"));
        assert!(refused("viewer", &["a"]).starts_with("policies: only the role deployer"));
        assert!(refused("user", &["a"]).starts_with("policies: only the role deployer"));
        assert!(refused("deployer", &[]).starts_with("policies: the role deployer needs"));
        assert!(refused("deployer", &["a"; 33]).starts_with("policies: at most 32"));
        for hostile in ["", "a*b", "**", "*a", "o/p", "a b", "a\0", "a\nb", "\u{a0}", &"x".repeat(257)] {
            let text = refused("deployer", &["a", hostile]);
            assert!(text.starts_with("policies[1]: "), "{text}");
        }
        assert_eq!(AssignedRole::read("user", &[]), Ok(None));
        assert_eq!(AssignedRole::read("viewer", &[]), Ok(Some(AssignedRole::Viewer)));
    }

    #[test]
    fn deployer_covers_viewers_and_narrower_deployers_only() {
        let deployer = |texts: &[&str]| AssignedRole::Deployer(patterns(texts));
        let wide = deployer(&["a*"]);
        assert!(wide.covers(&AssignedRole::Viewer) && wide.covers(&deployer(&["ab", "ac*"])));
        assert!(!wide.covers(&deployer(&["ab", "b"])) && !AssignedRole::Viewer.covers(&wide));
        assert_eq!(wide.intersection(&AssignedRole::Viewer), AssignedRole::Viewer);
        assert_eq!(wide.intersection(&deployer(&["ab", "b*"])), deployer(&["ab"]));
        assert!(wide.writes_policy("ab") && !wide.writes_policy("b"));
        assert!(!AssignedRole::Viewer.writes_policy("ab"));
    }
}
