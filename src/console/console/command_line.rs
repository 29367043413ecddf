//! Words of command lines that pages show.

/// Returns a name, a constraint or an assignment as a word of a shell.
pub(crate) fn word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+=".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) && !name.starts_with(['-', '=']) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_a_shell() {
        for (name, expected) in [
            ("edge-1", "edge-1"),
            ("edge 1", "'edge 1'"),
            ("it's", r"'it'\''s'"),
            ("--help", "'--help'"),
            ("$(id)", "'$(id)'"),
            ("site=north", "site=north"),
            ("=north", "'=north'"),
            ("a == 1 && b", "'a == 1 && b'"),
            ("", "''"),
        ] {
            assert_eq!(word(name), expected);
        }
    }
}
