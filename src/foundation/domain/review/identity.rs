//! Names and secrets of what is created.

use super::Finding;
use crate::text::is_unsafe;

/// Fewest characters of a secret that is not refused.
const SHORTEST_SECRET: usize = 4;
/// Fewest characters of a secret that is not a weak one.
const SHORTEST_GOOD_SECRET: usize = 8;

/// Finds characters that make a name hard to type, read or quote; `member` is the member that holds the name.
pub fn name(member: &str, name: &str) -> Vec<Finding> {
    let refused = |letter: &char| letter.is_whitespace() || letter.is_control() || is_invisible(*letter);
    let Some(letter) = name.chars().find(refused) else { return Vec::new() };
    let what = if letter == ' ' {
        "a blank".to_owned()
    } else if letter.is_control() {
        format!("the control character U+{:04X}", u32::from(letter))
    } else {
        format!("the character U+{:04X}, which cannot be seen", u32::from(letter))
    };
    vec![Finding::error(
        member,
        format!("holds {what}: names are written without blanks and control characters"),
    )]
}

/// Finds out whether a secret protects anything.
pub fn secret(member: &str, secret: &str) -> Vec<Finding> {
    match secret.chars().count() {
        0..SHORTEST_SECRET => {
            let rule = format!("has less than {SHORTEST_SECRET} characters, which anybody guesses");
            vec![Finding::error(member, rule)]
        }
        SHORTEST_SECRET..SHORTEST_GOOD_SECRET => {
            let rule = format!("has less than {SHORTEST_GOOD_SECRET} characters, which a program guesses");
            vec![Finding::warning(member, rule)]
        }
        _ => Vec::new(),
    }
}

/// Returns whether a character has no width or turns the direction of what follows.
fn is_invisible(letter: char) -> bool {
    is_unsafe(letter)
        || matches!(letter, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{e0000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_characters_that_cannot_be_seen_are_errors() {
        for accepted in ["n1", "edge-1.plant_7", "iamtoken", "ann@plant.example", "Größe", "*"] {
            assert_eq!(name("id", accepted), [], "{accepted}");
        }
        for refused in [
            " n1",
            "n 1",
            "n\t1",
            "n\n",
            "n\u{0}",
            "n\u{7f}",
            "n\u{9b}1",
            "n\u{202e}1",
            "n\u{200b}",
            "n\u{a0}1",
        ] {
            let found = name("id", refused);
            assert!(found.len() == 1 && found[0].is_error(), "{refused:?}: {found:?}");
        }
        assert!(name("id", "n\u{1b}1")[0].rule.contains("U+001B"));
    }

    #[test]
    fn short_secrets_are_errors_and_weak_ones_warnings() {
        let severity = |text: &str| secret("password", text).first().map(Finding::is_error);
        assert_eq!(["", "x", "abc"].map(severity), [Some(true); 3]);
        assert_eq!(["abcd", "secret1"].map(severity), [Some(false); 2]);
        assert_eq!(["long enough", "äöüäöüäö"].map(severity), [None; 2]);
    }
}
