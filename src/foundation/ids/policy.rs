//! Ids of the deployment policies that stand for services of patterns.

use crate::PolicyId;

/// Prefix of the ids of patterns' services among policies.
const PATTERN: &str = "pattern";

impl PolicyId {
    /// Returns the id of a pattern's service: `org/pattern/PATTERN/SERVICE`.
    ///
    /// `service`: the name of the internal policy (agreement protocol 3.1). The pattern's name is kept separately, because two
    /// patterns can produce the same internal name.
    pub fn of_pattern(org: &str, pattern: &str, service: &str) -> Self {
        Self::new(org, &format!("{PATTERN}/{pattern}/{service}"))
    }

    /// Returns the pattern (without its organization) if this is the id of a pattern's service.
    pub fn pattern(&self) -> Option<&str> {
        self.of_pattern_parts().map(|(pattern, _)| pattern)
    }

    /// Returns the name of the internal policy if this is the id of a pattern's service.
    pub fn pattern_service(&self) -> Option<&str> {
        self.of_pattern_parts().map(|(_, service)| service)
    }

    fn of_pattern_parts(&self) -> Option<(&str, &str)> {
        self.name().strip_prefix(PATTERN)?.strip_prefix('/')?.split_once('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_of_a_pattern_is_named_apart_from_policies() {
        let id = PolicyId::of_pattern("o", "p", "p_s_o_amd64");
        assert_eq!(id.as_str(), "o/pattern/p/p_s_o_amd64");
        assert_eq!((id.pattern(), id.pattern_service()), (Some("p"), Some("p_s_o_amd64")));
        assert_eq!(PolicyId::new("o", "pattern").pattern(), None);
        assert_eq!(PolicyId::new("o", "patterns/p/s").pattern(), None);
    }
}
