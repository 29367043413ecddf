//! Runs checks that panic on the recorded responses of the reference implementation; the files are found by the domain's reader.

use std::panic;

use evenkeel_domain::vectors_reader;
use serde_json::Value;

/// Runs `check` on every line; reports all failing lines and fails when there is none to read.
pub fn for_each(file: &str, check: impl Fn(&Value)) {
    vectors_reader::for_each_line(file.trim_end_matches(".jsonl"), |vector| {
        panic::catch_unwind(panic::AssertUnwindSafe(|| check(vector)))
            .map_err(|_| format!("{}: see the panic above", vector["about"]))
    });
}

/// The value without members that are null: null and missing mean the same in the vectors.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
