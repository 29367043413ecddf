//! Reads files of test vectors: one JSON object per line, from `$VECTORS_DIR` or the folder beside the project.

use std::{env, fs, panic, path::PathBuf};

use serde_json::Value;

/// Runs `check` on every line; reports all failing lines and fails when there is none to read.
pub fn for_each(file: &str, check: impl Fn(&Value)) {
    let folder = env::var_os("VECTORS_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/vectors"),
        PathBuf::from,
    );
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut failed = Vec::new();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let vector: Value = serde_json::from_str(line).expect("a vector is a JSON object");
        count += 1;
        if panic::catch_unwind(panic::AssertUnwindSafe(|| check(&vector))).is_err() {
            failed.push(format!("{} {}", vector["id"], vector["about"]));
        }
    }
    println!("{file}: {count} vectors");
    assert!(count > 0, "{file} holds no vectors");
    assert!(failed.is_empty(), "{} of {count} vectors failed:\n{}", failed.len(), failed.join("\n"));
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
