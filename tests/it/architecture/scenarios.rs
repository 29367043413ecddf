//! Scenarios of the orchestration specification: each has the tests that prove it, or the section that is not built yet.
//!
//! A test proves a scenario by naming its id in the doc comment. The golden file lists every id; `WRITE_GOLDEN=1` renews it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, sources};
use super::{differences, root, writes_golden};
use crate::support::wait::must;

/// Sections with the number of their scenarios, whose ids are `A1-S1` and so on.
const SECTIONS: &[(&str, u32, &str)] = &[
    ("2", 5, "Control plane"),
    ("A1", 6, "Orchestrate modes"),
    ("A2", 4, "Topologies: failover and flex"),
    ("A3", 7, "Placement ranking"),
    ("A4", 14, "Affinity and anti-affinity"),
    ("A5", 8, "Constraint expressions"),
    ("A6", 7, "Relocation: takeover, giveback, switch, start, stop, restart"),
    ("A7", 4, "Version-compatibility gate"),
    ("A8", 6, "Parents and children"),
    ("A9", 41, "Monitor states, flags, transitions, aggregation"),
    ("A10", 6, "Maintenance and grace periods"),
    ("A11", 3, "Clearing failures"),
    ("A12", 3, "Freeze and thaw"),
    ("B1", 4, "Orchestrator scope and the two modes"),
    ("B2", 3, "Slots"),
    ("B3", 4, "Task states"),
    ("B4", 3, "Events versus reconciliation"),
    ("B5", 4, "Initial pass"),
    ("B6", 3, "Replicated reconciliation"),
    ("B7", 4, "Scale-down choice"),
    ("B8", 4, "Global reconciliation and node events"),
    ("B9", 4, "Availability and node loss"),
    ("B10", 8, "Restart supervisor"),
    ("B11", 8, "Update supervisor"),
    ("B12", 3, "Update status"),
    ("B13", 4, "Task history and reaper"),
    ("C1", 3, "What it attaches to"),
    ("C2", 5, "Schema"),
    ("C3", 5, "Detection modes and their edge meaning"),
    ("C4", 5, "URL polling"),
    ("C5", 5, "Life-cycle events"),
    ("C6", 6, "Recovery actions and order"),
    ("C7", 4, "Manual recovery"),
    ("C8", 3, "Fencing"),
    ("C9", 3, "Health registry and engine fail-over"),
    ("C10", 5, "Suspension around normal operations"),
    ("D1", 7, "Health reports and evaluation"),
    ("D2", 3, "Reports made by the engine"),
    ("D3", 5, "Why not here: the constraint elimination sequence"),
    ("D4", 6, "Node blocklist"),
    ("D5", 6, "Constraint priorities"),
    ("D6", 5, "Fault and upgrade domains"),
    ("D7", 5, "Loads, capacities, buffer"),
    ("D8", 4, "Preferred location"),
    ("D9", 5, "Behaviour during upgrades"),
    ("D10", 3, "Using health to stop upgrades"),
    ("D11", 3, "Upgrade blocked explanation"),
    ("E2", 7, "Group resource"),
    ("E3", 5, "Intended members"),
    ("E4", 6, "Minimum running guarantee"),
    ("E5", 4, "Service upgrade lock"),
    ("E6", 8, "Agent upgrades"),
    ("E8", 3, "Interplay with A–D"),
    ("E9", 3, "Tests and performance"),
    ("P", 18, "Precedence"),
];

/// Requirements on HA groups, whose ids are `HA-1` and so on: their number and the section with them.
const REQUIREMENTS: (u32, &str) = (18, "E1, Requirements");

const GOLDEN: &str = "tests/golden/scenarios.txt";

#[test]
fn every_scenario_has_a_test_or_a_section_that_is_not_built() {
    let proofs = proofs();
    let scenarios = scenarios();
    let unknown: Vec<&String> =
        proofs.keys().filter(|id| !scenarios.iter().any(|(known, _)| known == *id)).collect();
    assert!(unknown.is_empty(), "tests name scenarios that do not exist: {unknown:?}");
    let lines: Vec<String> =
        scenarios.iter().map(|(id, section)| line(id, section, proofs.get(id))).collect();
    if writes_golden() {
        must(std::fs::write(root().join(GOLDEN), lines.concat()), GOLDEN);
    }
    let golden = must(std::fs::read_to_string(root().join(GOLDEN)), GOLDEN);
    let found: BTreeSet<String> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
    let expected: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    let (missing, wrong) = differences(&found, &expected);
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "WRITE_GOLDEN=1 renews {GOLDEN}; lines that are missing: {missing:#?}; ids without a scenario, tests that do not exist, and \
         exemptions that have a test: {wrong:#?}"
    );
    assert_eq!(golden, lines.concat(), "the order of {GOLDEN}");
}

/// Returns the line of an id with the tests that prove it, or with its section.
fn line(id: &str, section: &str, tests: Option<&BTreeSet<String>>) -> String {
    match tests {
        Some(tests) => format!("{id}: {}\n", tests.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        None => format!("{id}: not built: {section}\n"),
    }
}

/// Returns every id with its section, in the order of the specification.
fn scenarios() -> Vec<(String, String)> {
    let sections = SECTIONS.iter().flat_map(|(section, count, title)| {
        (1..=*count).map(move |number| (format!("{section}-S{number}"), format!("{section}, {title}")))
    });
    let (count, section) = REQUIREMENTS;
    let requirements = (1..=count).map(|number| (format!("HA-{number}"), section.to_owned()));
    sections.chain(requirements).collect()
}

/// Returns the names of the tests by the ids that their doc comments name.
fn proofs() -> BTreeMap<String, BTreeSet<String>> {
    let mut proofs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        for (name, comment) in tests(&source) {
            for id in ids(&comment) {
                proofs.entry(id).or_default().insert(name.clone());
            }
        }
    }
    proofs
}

/// Returns the names of the tests of a file with their doc comments.
fn tests(source: &Source) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut is_test = false;
    for line in source.text.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push_str(text);
            comment.push('\n');
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        } else {
            let code = line.strip_prefix("async ").unwrap_or(line);
            if let Some((name, _)) = code.strip_prefix("fn ").and_then(|code| code.split_once('('))
                && is_test
            {
                found.push((name.to_owned(), std::mem::take(&mut comment)));
            }
            comment.clear();
            is_test = false;
        }
    }
    found
}

/// Returns the ids in a text: a section or `HA`, a hyphen, and a number that follows `S` in a section.
fn ids(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words.filter(|word| is_id(word)).map(str::to_owned)
}

fn is_id(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('-') {
        Some(("HA", number)) => is_number(number),
        Some((section, number)) => {
            number.strip_prefix('S').is_some_and(is_number)
                && SECTIONS.iter().any(|(known, ..)| *known == section)
        }
        None => false,
    }
}

#[test]
fn ids_are_found_in_doc_comments_of_tests() {
    let text =
        "/// A5-S1, HA-3; B11.7, E9-S, UTF-8 and 2-S1.\n#[test]\nfn one() {}\n/// A1-S1\nfn other() {}\n"
            .to_owned();
    let found = tests(&Source { path: String::new(), text });
    assert_eq!(found.len(), 1);
    assert_eq!(ids(&found[0].1).collect::<Vec<_>>(), ["A5-S1", "HA-3", "2-S1"]);
}
