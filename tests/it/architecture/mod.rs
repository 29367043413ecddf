//! Rules of the codebase that no compiler checks: who may use whom, what pure code may not do, sizes, words, third-party
//! crates, frozen migrations.
//!
//! Each rule is a table with its exceptions, and each exception states its reason. The lists of exceptions may only shrink.

mod dependencies;
mod layers;
mod limits;
mod map;
mod migrations;
mod modules;
mod purity;
mod scenarios;
pub(crate) mod source;
mod sources;
mod types;
mod words;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::support::wait::must;

/// Output of `cargo metadata` about the workspace and its dependencies on Linux.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform"];
    let output =
        Command::new(cargo).args(arguments).arg("x86_64-unknown-linux-gnu").current_dir(root()).output();
    let output = must(output, "cargo metadata");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    must(serde_json::from_slice(&output.stdout), "JSON of cargo metadata")
});

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A crate of the workspace.
pub(crate) struct Member {
    /// Name without the prefix `evenkeel-`; the root package is `evenkeel`.
    name: String,
    /// Directory relative to the root of the workspace; empty for the root package.
    pub(crate) directory: String,
    dependencies: Vec<Dependency>,
}

/// An entry of a manifest.
struct Dependency {
    name: String,
    is_dev: bool,
    is_optional: bool,
}

impl Dependency {
    /// Returns the name of the crate of this workspace that is meant, if one is.
    fn member(&self) -> Option<&str> {
        self.name.strip_prefix("evenkeel-")
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// Returns the crates of the workspace.
pub(crate) fn members() -> Vec<Member> {
    let in_workspace = items(&METADATA, "packages").filter(|package| package["source"].is_null());
    in_workspace
        .map(|package| {
            let manifest = Path::new(text(package, "manifest_path"));
            let directory = manifest.parent().and_then(|directory| directory.strip_prefix(root()).ok());
            let name = text(package, "name");
            Member {
                name: name.strip_prefix("evenkeel-").unwrap_or(name).to_owned(),
                directory: directory.map(|path| path.display().to_string()).unwrap_or_default(),
                dependencies: items(package, "dependencies").map(dependency).collect(),
            }
        })
        .collect()
}

fn dependency(entry: &Value) -> Dependency {
    let name = entry["rename"].as_str().unwrap_or(text(entry, "name"));
    Dependency {
        name: name.to_owned(),
        is_dev: text(entry, "kind") == "dev",
        is_optional: entry["optional"] == true,
    }
}

/// Returns the lines of `found` that are not in `expected`, and those of `expected` that are not in `found`.
fn differences<'a>(
    found: &'a std::collections::BTreeSet<String>,
    expected: &'a std::collections::BTreeSet<String>,
) -> (Vec<&'a String>, Vec<&'a String>) {
    (found.difference(expected).collect(), expected.difference(found).collect())
}

/// Returns true if the golden files of this directory are to be written.
fn writes_golden() -> bool {
    std::env::var_os("WRITE_GOLDEN").is_some()
}
