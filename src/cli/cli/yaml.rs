//! Writes a JSON value as YAML 1.2 in block style, so that any parser returns exactly the same value.
//!
//! Plain scalars are written only if no parser can take them for anything else; all other strings are quoted as in
//! JSON, which is valid YAML.

use evenkeel_domain::text::is_unsafe;
use serde_json::Value;

/// Longest key that is written before a colon on the same line; parsers need not accept longer ones.
const LONGEST_SIMPLE_KEY: usize = 500;

/// The value as a YAML document.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => write_members(members, 0, &mut text),
        Value::Array(elements) if !elements.is_empty() => write_elements(elements, 0, &mut text),
        scalar => {
            text.push_str(&scalar_text(scalar));
            text.push('\n');
        }
    }
    text
}

fn write_members(members: &serde_json::Map<String, Value>, indent: usize, text: &mut String) {
    for (position, (key, value)) in members.iter().enumerate() {
        if position > 0 {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        let key = quoted_if_needed(key);
        if key.len() > LONGEST_SIMPLE_KEY {
            text.push_str(&format!("? {key}\n"));
            text.extend(std::iter::repeat_n(' ', indent));
        } else {
            text.push_str(&key);
        }
        text.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', indent + 2));
                write_members(inner, indent + 2, text);
            }
            Value::Array(inner) if !inner.is_empty() => {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', indent + 2));
                write_elements(inner, indent + 2, text);
            }
            scalar => text.push_str(&format!(" {}\n", scalar_text(scalar))),
        }
    }
}

fn write_elements(elements: &[Value], indent: usize, text: &mut String) {
    for (position, element) in elements.iter().enumerate() {
        if position > 0 {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        text.push_str("- ");
        match element {
            Value::Object(inner) if !inner.is_empty() => write_members(inner, indent + 2, text),
            Value::Array(inner) if !inner.is_empty() => write_elements(inner, indent + 2, text),
            scalar => text.push_str(&format!("{}\n", scalar_text(scalar))),
        }
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => quoted_if_needed(text),
        // Numbers, literals and empty collections are written the same way in both.
        other => other.to_string(),
    }
}

fn quoted_if_needed(text: &str) -> String {
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/'))
        && !is_word_of_old_readers(text);
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// YAML 1.1 parsers read these as Booleans, null or numbers.
fn is_word_of_old_readers(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for letter in Value::String(text.to_owned()).to_string().chars() {
        let is_unprintable = is_unsafe(letter) || matches!(letter, '\u{feff}' | '\u{fffe}' | '\u{ffff}');
        if is_unprintable && u32::from(letter) > 0xffff {
            quoted.push_str(&format!("\\U{:08x}", u32::from(letter)));
        } else if is_unprintable {
            quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            quoted.push(letter);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_and_lists_are_nested_by_indentation() {
        let value = json!({"a": {"b": [1, {"c": "d", "e": []}, [2, 3]], "f": {}}, "g": null});
        let expected = "a:\n  b:\n    - 1\n    - c: d\n      e: []\n    - - 2\n      - 3\n  f: {}\ng: null\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn texts_that_could_mean_something_else_are_quoted() {
        let value =
            json!(["no", "1.5", "", "a: b", "# c", "-", "line\nend", "plain-text", "org/id", "ÿ\u{85}", "~"]);
        let expected = "- \"no\"\n- \"1.5\"\n- \"\"\n- \"a: b\"\n- \"# c\"\n- \"-\"\n- \"line\\nend\"\n- plain-text\n- org/id\n- \"ÿ\\u0085\"\n- \"~\"\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn key_too_long_for_one_line_is_written_the_explicit_way() {
        let key = "k".repeat(600);
        let mut members = serde_json::Map::new();
        members.insert(key.clone(), json!(1));
        assert_eq!(to_yaml(&Value::Object(members)), format!("? {key}\n: 1\n"));
    }

    #[test]
    fn single_values_are_documents() {
        assert_eq!(
            (to_yaml(&json!("x")), to_yaml(&json!({})), to_yaml(&json!(1.0))),
            ("x\n".into(), "{}\n".into(), "1.0\n".into())
        );
    }
}
