//! Constraints that pages write for their readers.

/// Returns whether a property can be named in a constraint as it is.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_operators_and_blanks_are_not_plain() {
        for name in ["site", "openhorizon.arch", "a_b-1"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "a b", "a==b", "a\"b", "größe", "(a)"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
