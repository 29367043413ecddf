//! Untrusted texts in human-readable output: characters that a terminal obeys, or that show a text in another
//! order than it has.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns whether a character must not reach a terminal: a control character (C0, C1, DEL), one that changes the direction of a text, or an
/// invisible one that starts a line or an annotation.
#[must_use]
pub fn is_unsafe(letter: char) -> bool {
    letter.is_control() || is_reordering(letter)
}

fn is_reordering(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}'
            | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0001}'..='\u{e007f}'
    )
}

/// Returns a text without unsafe characters; line ends stay.
#[must_use]
pub fn printable(text: &str) -> String {
    let harmless = |letter: char| if is_unsafe(letter) && letter != '\n' { '\u{fffd}' } else { letter };
    text.chars().map(harmless).collect()
}

/// Returns a text without characters that no part of the program writes on purpose: C1 and DEL, and those that change the order. The
/// program itself uses line ends, tabs and escape sequences.
#[must_use]
pub fn neutralized(text: &str) -> Cow<'_, str> {
    let is_foreign = |letter: char| is_unsafe(letter) && !letter.is_ascii() || letter == '\u{7f}';
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|letter| if is_foreign(letter) { '\u{fffd}' } else { letter }).collect())
}

/// Returns JSON that means the same, with `\u` escapes for unsafe characters; line ends and tabs between its tokens stay.
#[must_use]
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |letter: char| is_unsafe(letter) && !matches!(letter, '\n' | '\t');
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if is_escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: [char; 14] = [
        '\u{1b}',
        '\u{7}',
        '\r',
        '\u{7f}',
        '\u{9b}',
        '\u{85}',
        '\u{202e}',
        '\u{202a}',
        '\u{2066}',
        '\u{2069}',
        '\u{200f}',
        '\u{61c}',
        '\u{2028}',
        '\u{e0041}',
    ];

    #[test]
    fn what_a_terminal_obeys_or_reorders_is_replaced() {
        for letter in HOSTILE {
            let text = printable(&format!("a{letter}b\nc"));
            assert_eq!(text, "a\u{fffd}b\nc", "{letter:?}");
        }
        assert_eq!(printable("Grüße, 日本, שלום, 👩‍🔬"), "Grüße, 日本, שלום, 👩‍🔬");
    }

    #[test]
    fn what_the_program_writes_itself_stays() {
        assert_eq!(neutralized("\u{1b}[1mA\u{1b}[0m\tb\n"), "\u{1b}[1mA\u{1b}[0m\tb\n");
        assert_eq!(neutralized("a\u{202e}\u{9b}b\u{7f}"), "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn escaped_json_means_the_same() {
        for letter in HOSTILE {
            let value = serde_json::json!({"name": format!("a{letter}b"), "list": [1]});
            let json = format!("{value:#}\n");
            let escaped = escaped_json(&json);
            assert!(!escaped.contains(|one: char| is_unsafe(one) && one != '\n'), "{letter:?}");
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"),
                value,
                "{letter:?}"
            );
        }
    }
}
