//! Forbidden effects in pure code.

use super::source::{sources, without_comments_and_strings};
use super::{members, root};
use crate::support::wait::must;

/// Crates whose code computes and does nothing else.
const PURE_CRATES: [&str; 15] = [
    "ids",
    "domain",
    "access",
    "wire",
    "planner-record",
    "change",
    "placement",
    "planner-model",
    "reconcile",
    "status",
    "agreement",
    "explain",
    "health",
    "planner",
    "simulator",
];

/// Directories with pure code inside other crates.
const PURE_DIRECTORIES: [&str; 1] = ["src/agent/agent/step/"];

/// Sources of pure crates that only tests use.
const TEST_SOURCES: [(&str, &str); 3] = [
    (
        "src/foundation/domain/vectors_reader.rs",
        "reads recorded vectors; compiled with the feature `vectors` only",
    ),
    ("src/agbot/planner-model/vectors.rs", "compares with recorded vectors"),
    ("src/foundation/wire/hostile_input.rs", "feeds altered messages"),
];

/// Texts that must not occur in pure code.
const FORBIDDEN: [&str; 19] = [
    "async fn",
    "async move",
    ".await",
    "tokio::",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "rand::rng(",
    "rand::random",
    "println!",
    "tracing::",
    "reqwest::",
];

/// Third-party crates that pure crates may not use, not even in tests. Optional ones are for the crates above that ask for them.
const IMPURE_CRATES: [&str; 16] = [
    "axum",
    "bollard",
    "hyper",
    "hyper-util",
    "libc",
    "nix",
    "reqwest",
    "rustls",
    "sqlx",
    "tempfile",
    "tokio",
    "tokio-util",
    "tower",
    "tracing",
    "tracing-subscriber",
    "anyhow",
];

#[test]
fn pure_code_reads_no_clock_and_does_no_io() {
    let members = members();
    let pure_members = members.iter().filter(|member| PURE_CRATES.contains(&member.name.as_str()));
    let pure_crates: Vec<String> = pure_members.map(|member| format!("{}/", member.directory)).collect();
    assert_eq!(pure_crates.len(), PURE_CRATES.len(), "{pure_crates:?}");
    let mut wrong = Vec::new();
    for source in sources() {
        let in_pure_crate = pure_crates.iter().any(|directory| source.path.starts_with(directory));
        let in_pure_directory = PURE_DIRECTORIES.iter().any(|directory| source.path.starts_with(directory));
        let is_listed = TEST_SOURCES.iter().any(|(path, _)| *path == source.path);
        if source.is_test() || is_listed || !(in_pure_crate || in_pure_directory) {
            continue;
        }
        let code = without_comments_and_strings(source.product_text());
        wrong.extend(
            FORBIDDEN.iter().filter(|one| contains(&code, one)).map(|one| format!("{}: {one}", source.path)),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns whether `code` has `forbidden`, and not only as the beginning of a longer name.
fn contains(code: &str, forbidden: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(forbidden).any(|(start, _)| {
        let after = code[start + forbidden.len()..].chars().next();
        !forbidden.ends_with(is_part) || !after.is_some_and(is_part)
    })
}

#[test]
fn pure_crates_depend_on_pure_crates() {
    let mut wrong = Vec::new();
    for member in members().iter().filter(|member| PURE_CRATES.contains(&member.name.as_str())) {
        let used = member.dependencies.iter().filter(|one| !one.is_optional);
        let impure = used.filter(|one| IMPURE_CRATES.contains(&one.name.as_str()));
        wrong.extend(impure.map(|dependency| format!("{} uses {}", member.name, dependency.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Clippy reads one `clippy.toml` for a crate, the nearest: those of pure crates repeat the limits of the root.
#[test]
fn pure_crates_have_a_stricter_clippy_configuration() {
    let read = |path: &str| std::fs::read_to_string(root().join(path));
    let limits = must(read("clippy.toml"), "clippy.toml");
    for member in members().iter().filter(|member| PURE_CRATES.contains(&member.name.as_str())) {
        let own = must(read(&format!("{}/clippy.toml", member.directory)), "clippy.toml of a pure crate");
        for line in limits.lines().filter(|line| line.contains("-threshold = ")) {
            assert!(own.lines().any(|one| one == line), "{}/clippy.toml lacks {line}", member.directory);
        }
        for path in [
            "jiff::Timestamp::now",
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "collections::HashMap",
        ] {
            assert!(own.contains(path), "{}/clippy.toml does not forbid {path}", member.directory);
        }
    }
}
