//! Words that no identifier and no text uses, because the field has a standard term for what they meant.

use std::collections::BTreeSet;

use super::source::{Source, comments_and_strings, files, read, sources, without_comments_and_strings};
use super::{differences, root, writes_golden};
use crate::support::wait::must;

/// Words of which no part of an identifier may consist, with the standard term.
const WORDS: &[(&[&str], &str)] = &[
    (&["answer", "answers", "answered", "answering"], "response, status code"),
    (&["beat"], "heartbeat"),
    (&["bell", "ring"], "notifier, notify"),
    (&["copies", "copy"], "instance"),
    (&["enemy"], "attacker"),
    (&["floor"], "minimum available"),
    (&["folder", "folders"], "directory"),
    (&["front"], "request pipeline, middleware"),
    (&["hands"], "in-flight commands, concurrency limit"),
    (&["happening", "happenings"], "scheduled event"),
    (&["importance", "polite"], "low-priority thread, niceness"),
    (&["lane", "lanes"], "priority class, queue"),
    (&["look", "looks"], "reconcile, read"),
    (&["maker"], "third-party"),
    (&["neighborhood", "neighborhoods", "neighbourhood", "neighbourhoods"], "client prefix"),
    (&["noted"], "served policy"),
    (&["numbering"], "sequencing, sequence number"),
    (&["patience"], "timeout, deadline"),
    (&["places"], "permits, slots"),
    (&["replica"], "model, cache"),
    (&["rubbish"], "dead tuples, garbage"),
    (&["stranger", "strangers"], "unauthenticated client"),
    (&["suspect", "suspects"], "recently failed client"),
    (&["sweep", "sweeps"], "claim expiry"),
    (&["tell", "tells", "told"], "enqueue, send, report, emit"),
    (&["watchman"], "invariant checker"),
    (&["wish", "wishes"], "claim request"),
];

/// Identifiers that may not be used as a whole, because alone they do not say what they mean.
const WHOLE: &[(&[&str], &str)] = &[
    (&["unit", "units", "Unit", "Units"], "group rollout, workload unit"),
    (&["served", "Served"], "served policy"),
];

/// Words of [`WORDS`] that have their plain meaning in a text.
const PLAIN: [&str; 8] = ["copies", "copy", "front", "look", "looks", "maker", "places", "replica"];

/// Phrases that no comment, message or page contains, with the standard term.
const PHRASES: &[(&[&str], &str)] = &[
    (&["a look", "looked at", "looks at", "look at"], "reconcile, read, check"),
    (&["sign of life", "signs of life"], "heartbeat"),
    (&["short way", "long way"], "fast path, slow path"),
    (&["held up", "kept waiting"], "blocked by, waits for"),
    (&["of another maker"], "third-party"),
    (&["programs of postgresql"], "PostgreSQL binaries"),
    (&["its log tells why"], "see the server log"),
    (&["taken back"], "rolled back, reverted"),
    (&["text for people"], "human-readable message"),
    (&["those who wait"], "wait queue"),
    (&["told to stop"], "signal received, draining"),
    (&["whoever"], "the caller, the node"),
    (&["a whole number"], "non-negative integer"),
];

/// Where such words stand nevertheless: names that others gave, and names that are stored.
const KEPT: [&str; 5] =
    ["floor lost", "postgres folder", "search session answer", "socket folder", "unless noted"];

/// Identifiers of the standard library and of third-party crates.
const FOREIGN: [&str; 16] = [
    "Copy",
    "floor",
    "copy",
    "Unit",
    "unit",
    "copy_bidirectional",
    "copy_from_slice",
    "copy_in_raw",
    "copy_out_raw",
    "front",
    "pop_front",
    "push_front",
    "front_mut",
    "look_up",
    "copy_within",
    "trivially_copy_pass_by_ref",
];

const GOLDEN: &str = "tests/golden/words.txt";

#[test]
fn identifiers_use_the_standard_terms() {
    let mut found = BTreeSet::new();
    for source in sources().iter().filter(|source| !source.path.starts_with("tests/it/architecture/")) {
        let code = without_comments_and_strings(&source.text);
        let identifiers = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for identifier in identifiers.filter(|identifier| !FOREIGN.contains(identifier)) {
            found.extend(standard_term(identifier).map(|term| format!("{identifier}: {term}")));
        }
    }
    if writes_golden() {
        let lines: String = found.iter().map(|line| format!("{line}\n")).collect();
        must(std::fs::write(root().join(GOLDEN), lines), GOLDEN);
    }
    let golden = must(std::fs::read_to_string(root().join(GOLDEN)), GOLDEN);
    let expected: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    let (added, removed) = differences(&found, &expected);
    assert!(added.is_empty(), "use the standard terms after the colons: {added:#?}");
    assert!(removed.is_empty(), "no longer used, remove these lines from {GOLDEN}: {removed:#?}");
}

/// Returns the term to use instead, if `identifier` has a word that is not used.
fn standard_term(identifier: &str) -> Option<&'static str> {
    let whole = WHOLE.iter().find(|(words, _)| words.contains(&identifier));
    let parts = parts(identifier);
    let word = || WORDS.iter().find(|(words, _)| parts.iter().any(|part| words.contains(&part.as_str())));
    whole.or_else(word).map(|(_, term)| *term)
}

#[test]
fn texts_use_the_standard_terms() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.path.starts_with("tests/it/architecture/")) {
        for (line, text) in comments_and_strings(&source.text) {
            found.extend(term_for_text(text).map(|term| format!("{}:{line}: {term}", source.path)));
        }
    }
    for page in pages() {
        for (line, text) in page.text.lines().enumerate() {
            found.extend(term_for_text(text).map(|term| format!("{}:{}: {term}", page.path, line + 1)));
        }
    }
    assert!(found.is_empty(), "use the standard terms: {found:#?}");
}

/// Returns the texts beside the sources that somebody reads.
fn pages() -> Vec<Source> {
    let single = ["README.md", "CHANGELOG.md", "openapi/exchange.json", ".ci/run"];
    let mut pages: Vec<Source> = single.iter().map(|path| read(&root().join(path))).collect();
    for (directory, extension) in [("docs", "md"), ("docs", "yml"), ("tests", "sh")] {
        let found = files(&root().join(directory), extension);
        assert!(!found.is_empty(), "{directory} has no {extension}");
        pages.extend(found.iter().map(|path| read(path)));
    }
    pages
}

/// Returns the first word or phrase of a text that is not used, and the term to use instead.
fn term_for_text(text: &str) -> Option<String> {
    let words: Vec<String> = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut words = format!(" {} ", words.join(" "));
    for kept in KEPT {
        words = words.replace(&format!(" {kept} "), " ");
    }
    let has = |phrase: &&&str| !PLAIN.contains(phrase) && words.contains(&format!(" {phrase} "));
    let mut all = WORDS.iter().chain(PHRASES);
    all.find_map(|(phrases, term)| phrases.iter().find(has).map(|phrase| format!("{phrase}: {term}")))
}

/// Splits `snake_case` and `CamelCase` into lower-case words.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in identifier.split('_') {
        let mut was_lower = true;
        for letter in piece.chars() {
            if (letter.is_uppercase() && was_lower) || parts.is_empty() {
                parts.push(String::new());
            }
            was_lower = letter.is_lowercase();
            if let Some(last) = parts.last_mut() {
                last.extend(letter.to_lowercase());
            }
        }
        parts.push(String::new());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn identifiers_are_split_into_words() {
    assert_eq!(parts("last_copyOfNode"), ["last", "copy", "of", "node"]);
    assert_eq!(parts("START_TIMEOUT"), ["start", "timeout"]);
    assert_eq!(standard_term("FloorLost"), Some("minimum available"));
    assert_eq!(standard_term("add_unit"), None);
    let found = term_for_text("A node that shows a Sign of\n life is heard.");
    assert_eq!(found.as_deref(), Some("sign of life: heartbeat"));
    assert_eq!(term_for_text("What replica means there; `postgres-folder`."), None);
}
