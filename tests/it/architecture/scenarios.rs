//! Scenarios of the orchestration design: each has the tests that prove it.
//!
//! A test proves a scenario by naming its id in the doc comment. The page lists every id; `WRITE_GOLDEN=1` renews its tests.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, sources};
use super::{differences, root, writes_golden};
use crate::support::wait::must;

/// The page with a row for each scenario.
pub(super) const PAGE: &str = "docs/design/scenarios.md";

#[test]
fn page_of_scenarios_names_the_tests_that_prove_them() {
    let page = must(std::fs::read_to_string(root().join(PAGE)), PAGE);
    let proofs = proofs();
    let unknown: Vec<&String> = proofs.keys().filter(|id| !page.contains(&format!("\n| {id} | "))).collect();
    assert!(unknown.is_empty(), "tests name scenarios that have no row in {PAGE}: {unknown:?}");
    let lines = page.lines().map(|line| id_of(line).map_or(line.to_owned(), |id| row(id, proofs.get(id))));
    let lines: Vec<String> = lines.collect();
    if writes_golden() {
        must(std::fs::write(root().join(PAGE), lines.join("\n") + "\n"), PAGE);
        return;
    }
    let (found, expected) = (lines.into_iter().collect(), page.lines().map(str::to_owned).collect());
    let (missing, wrong) = differences(&found, &expected);
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "WRITE_GOLDEN=1 renews {PAGE}; rows that are missing: {missing:#?}; rows with other tests than there are: {wrong:#?}"
    );
}

/// Returns the scenario that a line of the page is about.
fn id_of(line: &str) -> Option<&str> {
    let (id, _) = line.strip_prefix("| ")?.split_once(" | ")?;
    is_id(id).then_some(id)
}

/// Returns the row of a scenario with the tests that prove it.
fn row(id: &str, tests: Option<&BTreeSet<String>>) -> String {
    let tests: Vec<String> = tests.into_iter().flatten().map(|name| format!("`{name}`")).collect();
    format!("| {id} | {} |", tests.join(", "))
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
pub(super) fn ids(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words.filter(|word| is_id(word)).map(str::to_owned)
}

fn is_id(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('-') {
        Some(("HA", number)) => is_number(number),
        Some((section, number)) => {
            let chapter = section.strip_prefix(|letter: char| letter.is_ascii_uppercase()).unwrap_or(section);
            let is_section = !section.is_empty() && (chapter.is_empty() || is_number(chapter));
            is_section && number.strip_prefix('S').is_some_and(is_number)
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
