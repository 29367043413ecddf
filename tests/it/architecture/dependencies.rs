//! Third-party crates: licenses, sources, bans, and that each manifest lists only what its crate uses.

use std::sync::LazyLock;

use serde_json::Value;

use super::source::{sources, without_comments_and_strings};
use super::{METADATA, items, members, root, text};
use crate::support::wait::must;

/// The rules of `deny.toml`.
static RULES: LazyLock<Value> = LazyLock::new(|| {
    let rules = must(std::fs::read_to_string(root().join("deny.toml")), "deny.toml");
    must(toml::from_str(&rules), "deny.toml")
});

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Dependencies that no source names.
const UNNAMED: [(&str, &str, &str); 1] =
    [("store", "sqlx-core", "selects the TLS library of sqlx by a feature")];

#[test]
fn licenses_are_permissive() {
    let mut wrong = Vec::new();
    for package in items(&METADATA, "packages").filter(|package| !package["source"].is_null()) {
        let license = text(package, "license");
        if !is_allowed(license) {
            wrong.push(format!("{} {}: {license}", text(package, "name"), text(package, "version")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn third_party_crates_come_from_the_registry_and_none_is_banned() {
    let mut wrong = Vec::new();
    for package in items(&METADATA, "packages").filter(|package| !package["source"].is_null()) {
        let name = text(package, "name");
        let registry = text(package, "source").strip_prefix("registry+").unwrap_or_default();
        if !texts(&RULES["sources"]["allow-registry"]).any(|allowed| allowed == registry) {
            wrong.push(format!("{name} comes from {}", text(package, "source")));
        }
        let bans = items(&RULES["bans"], "deny").filter(|ban| text(ban, "name") == name);
        wrong.extend(bans.map(|ban| format!("{name}: {}", text(ban, "reason"))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn manifests_list_only_what_is_used() {
    let members = members();
    let mut code: Vec<String> = vec![String::new(); members.len()];
    for source in sources() {
        let owner = members
            .iter()
            .enumerate()
            .filter(|(_, member)| source.path.starts_with(&member.directory))
            .max_by_key(|(_, member)| member.directory.len());
        if let Some((index, _)) = owner {
            code[index].push_str(&without_comments_and_strings(&source.text));
        }
    }
    let mut unused = Vec::new();
    for (member, code) in members.iter().zip(&code) {
        for dependency in &member.dependencies {
            let identifier = dependency.name.replace('-', "_");
            let is_listed =
                UNNAMED.iter().any(|(owner, name, _)| *owner == member.name && *name == dependency.name);
            if !is_listed && !names(code, &identifier) {
                unused.push(format!("{}: {}", member.name, dependency.name));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn shared_versions_are_those_of_dependencies_that_are_used() {
    let manifest = must(std::fs::read_to_string(root().join("Cargo.toml")), "Cargo.toml");
    let shared = manifest.split_once("\n[workspace.dependencies]\n").map_or("", |(_, rest)| rest);
    let shared = shared.split("\n[").next().unwrap_or_default();
    let names = shared.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let members = members();
    let is_used = |name: &str| {
        let mut dependencies = members.iter().flat_map(|member| &member.dependencies);
        dependencies.any(|dependency| dependency.name == name)
    };
    let unused: Vec<&str> = names.filter(|name| !name.starts_with('#') && !is_used(name)).collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Returns whether `code` has `identifier` as a whole word.
fn names(code: &str, identifier: &str) -> bool {
    code.match_indices(identifier).any(|(start, _)| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let before = code[..start].chars().next_back();
        let after = code[start + identifier.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns whether the terms of a license expression (SPDX) can be met with those that `deny.toml` allows.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim().replace('/', " OR ");
    let alternatives = split(&expression, " OR ");
    if alternatives.len() > 1 {
        return alternatives.iter().any(|one| is_allowed(one));
    }
    let conditions = split(&expression, " AND ");
    if conditions.len() > 1 {
        return conditions.iter().all(|one| is_allowed(one));
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        // An exception (`WITH …`) only permits more.
        None => {
            let license = expression.split(" WITH ").next().unwrap_or_default();
            texts(&RULES["licenses"]["allow"]).any(|allowed| allowed == license)
        }
    }
}

/// Splits at `separator` outside of parentheses.
fn split<'a>(expression: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (position, _) in expression.match_indices(separator) {
        let before = &expression[..position];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(&expression[start..position]);
            start = position + separator.len();
        }
    }
    parts.push(&expression[start..]);
    parts
}

#[test]
fn license_expressions_are_understood() {
    for allowed in [
        "MIT",
        "MIT/GPL-3.0",
        "GPL-2.0 OR (MIT AND ISC)",
        "Apache-2.0 WITH LLVM-exception",
        "(MIT OR X) AND ISC",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR AGPL-3.0) AND MIT"] {
        assert!(!is_allowed(refused), "{refused}");
    }
}
