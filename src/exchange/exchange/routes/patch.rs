//! Differences of documents as JSON Patch (RFC 6902), of bounded size.

use serde_json::{Value, json};

/// Bytes of the paths and values of a patch at most: each changed element names its whole path, so that a patch may be a thousand times as
/// large as the documents.
const MOST_BYTES: usize = 1_048_576;

/// Bytes of an operation besides its path and value.
const OPERATION_BYTES: usize = 32;

/// Returns the patch that makes one document of another; the replacement of the whole document when the differences would be larger.
pub(super) fn patch(before: &Value, after: &Value) -> Value {
    let mut left = MOST_BYTES;
    if is_affordable(before, after, 0, &mut left) {
        return json!(json_patch::diff(before, after));
    }
    json!([{"op": "replace", "path": "", "value": after}])
}

/// Counts the differences below a path of some length; false when more than `left` bytes are needed.
fn is_affordable(before: &Value, after: &Value, path: usize, left: &mut usize) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let removed = before.keys().filter(|name| !after.contains_key(*name));
            removed.into_iter().all(|name| spend(path + escaped_length(name), left))
                && after.iter().all(|(name, value)| {
                    let path = path + escaped_length(name);
                    match before.get(name) {
                        Some(before) => is_affordable(before, value, path, left),
                        None => spend(path + length(value), left),
                    }
                })
        }
        (Value::Array(before), Value::Array(after)) => {
            let both = before.iter().zip(after).enumerate();
            let mut both = both.map(|(index, (before, after))| (path + digits(index), before, after));
            let common = before.len().min(after.len());
            let end = path + digits(before.len().max(after.len()));
            both.all(|(path, before, after)| is_affordable(before, after, path, left))
                && after[common..].iter().all(|value| spend(end + length(value), left))
                && before[common..].iter().all(|_| spend(end, left))
        }
        _ if before == after => true,
        _ => spend(path + length(after), left),
    }
}

fn spend(bytes: usize, left: &mut usize) -> bool {
    let needed = bytes + OPERATION_BYTES;
    let is_enough = needed <= *left;
    *left = left.saturating_sub(needed);
    is_enough
}

/// Bytes of a name in a path, with its separator.
fn escaped_length(name: &str) -> usize {
    1 + name.len() + name.matches(['~', '/']).count()
}

fn digits(index: usize) -> usize {
    2 + index.checked_ilog10().unwrap_or_default() as usize
}

fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => 2 + text.len(),
        Value::Array(values) => 2 + values.iter().map(|value| 1 + length(value)).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| 4 + name.len() + length(value)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_makes_one_document_of_the_other() {
        let before = json!({"a": 1, "b": [1, 2, 3], "c": {"d/e": "x"}, "gone": null});
        let after = json!({"a": 2, "b": [1, 3], "c": {"d/e": "y", "~": true}, "new": []});
        for (before, after) in [(&before, &after), (&after, &before), (&before, &before)] {
            let operations: json_patch::Patch =
                serde_json::from_value(patch(before, after)).expect("a patch");
            let mut made = before.clone();
            json_patch::patch(&mut made, &operations).expect("it applies");
            assert_eq!(made, *after);
        }
        assert_eq!(patch(&before, &before), json!([]));
    }

    #[test]
    fn patch_is_not_much_larger_than_the_document() {
        let document = |value: u32| json!({"k".repeat(10_000): vec![value; 100_000]});
        let (before, after) = (document(1), document(2));
        let found = patch(&before, &after);
        assert_eq!((found.as_array().map(Vec::len), &found[0]["path"]), (Some(1), &json!("")));
        assert_eq!(found[0]["value"], after);
    }
}
