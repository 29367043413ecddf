//! Reads the recorded results of the reference implementation, for tests only (feature `vectors`).
//!
//! The directory is `$VECTORS_DIR` (a relative one counts from the root of the repository, wherever a crate's tests run), or else
//! the one of the shared material beside the repository. See the design, "How it is tested".

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The kinds of vectors that the workspace checks: a file of the directory is named `<kind>.jsonl`.
pub const KINDS: [&str; 9] = [
    "compatibility",
    "constraints",
    "envelopes",
    "messages",
    "node_policy",
    "policies",
    "priorities",
    "signatures",
    "versions",
];

struct VectorDirectory {
    path: PathBuf,
    is_chosen: bool,
}

impl VectorDirectory {
    fn find() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        match std::env::var_os("VECTORS_DIR") {
            Some(path) => Self { path: root.join(path), is_chosen: true },
            None => Self { path: root.join("../shared/conformance/vectors"), is_chosen: false },
        }
    }

    /// Fails unless every file of a chosen directory is of a known kind and there is at least one.
    fn require_known_files(&self) {
        let entries = std::fs::read_dir(&self.path)
            .unwrap_or_else(|error| panic!("cannot read VECTORS_DIR {}: {error}", self.path.display()));
        let mut count = 0;
        for entry in entries {
            let path = entry.expect("a directory's entry is readable").path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            count += 1;
            let kind = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            assert!(KINDS.contains(&kind), "{} holds vectors of a kind that nothing checks", path.display());
        }
        assert!(count > 0, "VECTORS_DIR {} holds no vector file", self.path.display());
    }
}

/// Calls `check` with every vector of a kind and prints their number.
///
/// A kind without a file is skipped with a message: a directory chosen by `VECTORS_DIR` need not hold every kind, and a clone of
/// the repository alone has no vectors.
/// # Panics
/// When a check fails, a line is not JSON, or a file holds no line; when `VECTORS_DIR` names a directory without vector files or
/// with one of a kind that is not in [`KINDS`].
pub fn for_each_line(kind: &str, mut check: impl FnMut(&Value) -> Result<(), String>) {
    assert!(KINDS.contains(&kind), "{kind} is not among the known kinds");
    let directory = VectorDirectory::find();
    if directory.is_chosen {
        directory.require_known_files();
    }
    let path = directory.path.join(format!("{kind}.jsonl"));
    if !path.exists() {
        report(&format!("vectors: {kind}: skipped, there is no {}", path.display()));
        return;
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let mut failures = Vec::new();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        count += 1;
        let outcome = serde_json::from_str::<Value>(line)
            .map_err(|error| format!("line {count} is not JSON: {error}"))
            .and_then(|vector| check(&vector).map_err(|problem| format!("{}: {problem}", vector["id"])));
        failures.extend(outcome.err());
    }
    report(&format!("vectors: {kind}: {count} lines counted, {} failed", failures.len()));
    assert!(count > 0, "{} holds no vector", path.display());
    assert!(failures.is_empty(), "{kind}: {} of {count} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Writes directly to the error stream, so that the counts are visible although the output of passing tests is captured.
fn report(line: &str) {
    // A failed write does not affect the test.
    let _unseen = writeln!(std::io::stderr(), "{line}");
}

/// Compares a result with the recorded one, as JSON: null, an empty list and a missing member are equal, and so are `1`
/// and `1.0`.
///
/// # Errors
/// A message with both when they differ.
pub fn expect_same(what: &str, expected: &Value, got: &Value) -> Result<(), String> {
    if canonical(expected) == canonical(got) {
        return Ok(());
    }
    Err(format!("{what}: expected {expected}, got {got}"))
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), canonical(value)));
            Value::Object(members.filter(|(_, value)| !value.is_null()).collect())
        }
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        other => other.clone(),
    }
}
