//! Documents as texts: read from a form, and shown in one.

use evenkeel_domain::text::escaped_json;
use serde_json::{Map, Value};

/// Largest document of a form, in bytes.
pub(crate) const MAX_DOCUMENT: usize = 262_144;

/// Member whose empty values have a meaning.
const SETTINGS: &str = "orchestration";

/// Reads the document of a form.
///
/// # Errors
/// The rule that it breaks, with the line.
pub(crate) fn read_document(text: &str) -> Result<Value, String> {
    if text.len() > MAX_DOCUMENT {
        return Err(format!("the document has {} bytes, and may have {MAX_DOCUMENT}", text.len()));
    }
    let document: Value =
        serde_json::from_str(text).map_err(|error| format!("the document is not JSON: {error}"))?;
    if document.is_object() { Ok(document) } else { Err("the document must be a JSON object".to_owned()) }
}

/// Returns a text of a form as the form can show it again: pages have line feeds, and no tabs or characters that control a terminal.
pub(crate) fn kept_text(text: &str) -> String {
    escaped_json(&text.replace("\r\n", "\n").replace('\t', "    ")).into_owned()
}

/// Returns a document as a text with its members in the order of their names.
pub(crate) fn shown_text(document: &Value) -> String {
    let text = serde_json::to_string_pretty(&sorted(document, &|_, _| true)).unwrap_or_default();
    escaped_json(&text).into_owned()
}

/// Returns a document as a text to compare: without members that mean the same as absent ones.
pub(super) fn compared_text(document: &Value) -> String {
    shown_text(&sorted(document, &|name, value| name == SETTINGS || !is_empty(value)))
}

/// Returns whether two documents mean the same.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    compared_text(one) == compared_text(other)
}

fn sorted(value: &Value, is_kept: &dyn Fn(&str, &Value) -> bool) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let sorted_members: Map<String, Value> = names
                .into_iter()
                .filter_map(|name| {
                    let value = members.get(name).filter(|value| is_kept(name, value))?;
                    // Empty values are settings there.
                    let all: &dyn Fn(&str, &Value) -> bool = &|_, _| true;
                    let is_kept = if name == SETTINGS { all } else { is_kept };
                    Some((name.clone(), sorted(value, is_kept)))
                })
                .collect();
            Value::Object(sorted_members)
        }
        Value::Array(elements) => {
            Value::Array(elements.iter().map(|element| sorted(element, is_kept)).collect())
        }
        other => other.clone(),
    }
}

/// Returns whether a member of the exchange's documents means the same as an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_is_no_object_is_refused_with_the_rule() {
        let refused = |text: &str| read_document(text).expect_err(text);
        assert!(refused("{\n  \"a\": 1,\n}").contains("line 3"), "{}", refused("{\n  \"a\": 1,\n}"));
        assert_eq!(refused("[1]"), "the document must be a JSON object");
        assert!(refused("").starts_with("the document is not JSON: "));
        assert!(refused(&"[".repeat(100_000)).contains("recursion limit"));
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MAX_DOCUMENT));
        let size = long.len();
        assert_eq!(refused(&long), format!("the document has {size} bytes, and may have 262144"));
    }

    #[test]
    fn shown_text_means_the_document_whatever_characters_it_has() {
        let document = json!({"b": "a\u{202e}b\u{85}<\t", "a": [{"d": 1, "c": null}]});
        let text = shown_text(&document);
        assert_eq!(read_document(&text), Ok(document));
        assert!(text.contains(r"a\u202eb\u0085<\t") && text.find("\"a\"") < text.find("\"b\""), "{text}");
    }

    #[test]
    fn kept_text_has_no_characters_that_a_page_would_replace() {
        let kept = kept_text("{\r\n\t\"a\": \"\u{202e}\",\r\n");
        assert_eq!(kept, "{\n    \"a\": \"\\u202e\",\n");
        assert_eq!(evenkeel_domain::text::printable(&kept), kept);
    }

    #[test]
    fn comparison_leaves_out_what_means_nothing_except_in_settings() {
        let text = compared_text(&json!({
            "label": "a", "description": "", "userInput": [], "service": {"nodeHealth": {}, "arch": ""},
            "orchestration": {"scope": {}, "rollback": null}, "enabled": false,
        }));
        let expected =
            json!({"enabled": false, "label": "a", "orchestration": {"rollback": null, "scope": {}}});
        assert_eq!(text, serde_json::to_string_pretty(&expected).unwrap_or_default());
    }
}
