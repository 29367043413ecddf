//! Sources of rules that comments name: each exists in `docs/design`, whose README describes the grammar.

use std::collections::{BTreeMap, BTreeSet};

use super::root;
use super::scenarios::ids;
use super::source::sources;
use crate::support::wait::must;

const DIRECTORY: &str = "docs/design";

/// Documents that a source may name: pages, or directories of pages, of `docs/design`.
const DOCUMENTS: [&str; 7] =
    ["agbot", "agreement-protocol", "design", "engine", "exchange-api", "orchestration", "requirements"];

/// Beginnings of parts that name a standard.
const STANDARDS: [&str; 3] = ["RFC ", "OpenID Connect Core ", "OpenID Connect Discovery "];

#[test]
fn every_source_names_a_document_and_ids_in_it() {
    let documents: BTreeMap<&str, Document> = DOCUMENTS.iter().map(|name| (*name, read(name))).collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for source in sources() {
        for (line, text) in references(&source.text) {
            count += 1;
            let unresolved = unresolved(&documents, &text).into_iter();
            wrong.extend(unresolved.map(|id| format!("{}:{line}: {id}", source.path)));
        }
    }
    assert!(wrong.is_empty(), "{DIRECTORY}/README.md shows how a source is written; not found: {wrong:#?}");
    assert!(count > 400, "only {count} sources are found");
}

#[test]
fn every_scenario_of_the_design_has_a_row() {
    let table = must(std::fs::read_to_string(root().join(super::scenarios::PAGE)), super::scenarios::PAGE);
    let rows: BTreeSet<String> = ids(&table).collect();
    let missing: Vec<String> =
        read("orchestration").scenarios.into_iter().filter(|id| !rows.contains(id)).collect();
    assert!(missing.is_empty(), "scenarios without a row in {}: {missing:?}", super::scenarios::PAGE);
}

/// Content of a document.
#[derive(Default)]
struct Document {
    /// Text by the first word of its heading, without deeper sections.
    sections: BTreeMap<String, String>,
    /// First cells of rows.
    rows: BTreeSet<String>,
    scenarios: BTreeSet<String>,
}

impl Document {
    fn add(&mut self, page: &str) {
        let (mut section, mut is_code) = (String::new(), false);
        for line in page.lines() {
            is_code ^= line.starts_with("```");
            let title = line.trim_start_matches('#').strip_prefix(' ');
            if let Some(title) = title.filter(|_| !is_code && line.starts_with('#')) {
                let word = title.split(' ').next().unwrap_or_default();
                word.trim_end_matches('.').clone_into(&mut section);
            }
            let cell = line.strip_prefix("| ").and_then(|cells| cells.split_once(" |"));
            self.rows.extend(cell.map(|(cell, _)| cell.to_owned()));
            let text = self.sections.entry(section.clone()).or_default();
            text.push_str(line);
            text.push('\n');
        }
        self.scenarios.extend(ids(page));
    }

    /// Returns whether an id is a heading, a rule of one, a row or a scenario.
    fn has(&self, id: &str) -> bool {
        // A number alone is a position in some table.
        let is_row = || id.contains(|letter: char| !letter.is_ascii_digit()) && self.rows.contains(id);
        let is_section = !id.is_empty() && self.sections.contains_key(id);
        is_section || is_row() || self.scenarios.contains(id) || self.has_rule(id)
    }

    fn has_rule(&self, id: &str) -> bool {
        let Some((section, number)) = id.rsplit_once(['.', '-']) else { return false };
        let (item, row) = (format!("{number}. "), format!("| {number} |"));
        let is_rule = |line: &str| line.starts_with(&item) || line.starts_with(&row);
        self.sections.get(section).is_some_and(|text| text.lines().any(is_rule))
    }
}

/// Reads a document, a page or a directory of pages.
fn read(name: &str) -> Document {
    let directory = root().join(DIRECTORY).join(name);
    let mut pages = vec![directory.with_extension("md")];
    if directory.is_dir() {
        let entries = must(std::fs::read_dir(&directory), name);
        pages = entries.map(|entry| must(entry, name).path()).collect();
    }
    let mut document = Document::default();
    for page in pages {
        document.add(&must(std::fs::read_to_string(&page), name));
    }
    document
}

/// Returns the text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Returns the sources that the comments of a file name, each with the number of its line and without notes.
fn references(code: &str) -> Vec<(usize, String)> {
    let lines: Vec<Option<&str>> = code.lines().map(comment).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(line) = line else { continue };
        let begin = match line.split_once("Source:") {
            Some((_, text)) if text.is_empty() || text.starts_with(' ') => text,
            _ if *line == "# Source" => "",
            _ => continue,
        };
        let is_continued = |line: &&str| !line.is_empty() && !line.starts_with("# ");
        let rest = lines[index + 1..].iter().map_while(|line| line.filter(is_continued));
        let text: Vec<&str> = std::iter::once(begin).chain(rest).collect();
        found.push((index + 1, first_sentence(&text.join(" "))));
    }
    found
}

/// Returns the first sentence of a text without what is in parentheses, or the whole text if no period ends one.
fn first_sentence(text: &str) -> String {
    let (mut sentence, mut depth) = (String::new(), 0);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_last = letter == '.' && letters.peek().is_none_or(|next| next.is_whitespace());
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth > 0 => {}
            _ if is_last => return sentence,
            _ => sentence.push(letter),
        }
    }
    text.to_owned()
}

/// Returns the parts and ids of a source that name nothing.
fn unresolved(documents: &BTreeMap<&str, Document>, text: &str) -> Vec<String> {
    text.split(';').map(str::trim).flat_map(|part| unresolved_ids(documents, part)).collect()
}

fn unresolved_ids(documents: &BTreeMap<&str, Document>, part: &str) -> Vec<String> {
    let is_record = part.starts_with("docs/adr/") && root().join(part).is_file();
    if is_record || STANDARDS.iter().any(|standard| part.starts_with(standard)) {
        return Vec::new();
    }
    let (name, ids) = part.split_once(' ').unwrap_or((part, ""));
    let Some(document) = documents.get(name.to_lowercase().as_str()) else { return vec![part.to_owned()] };
    let ids = ids.split(',').flat_map(|range| range.split(" to ")).map(str::trim);
    ids.filter(|id| !document.has(id)).map(|id| format!("{name} {id}")).collect()
}

#[test]
fn sources_that_name_nothing_are_found() {
    let mut document = Document::default();
    document.add(
        "# Page\n## A1. One\n1. first\n- A1-S1 G: x\n### A1.2 Two\n| A3.1 | `x` |\n| 7 | y |\n```\n# code\n```\n",
    );
    let documents = BTreeMap::from([("orchestration", document)]);
    let wrong = |code: &str| {
        let found = references(code);
        assert_eq!(found.len(), 1, "{code}");
        unresolved(&documents, &found[0].1)
    };
    let right = "//! Text. Source: orchestration A1, A1.1 (note; A9. More), A1.2 to\n//! A3.1, A1-S1; RFC 7519. B9.\n";
    assert!(wrong(right).is_empty(), "{:?}", wrong(right));
    assert!(wrong("    /// # Source\n    /// Orchestration A1.\n    /// # Units\n").is_empty());
    assert_eq!(
        wrong("// Source: orchestration A2, A1.3, 7, code, A1-S2.\n"),
        [
            "orchestration A2",
            "orchestration A1.3",
            "orchestration 7",
            "orchestration code",
            "orchestration A1-S2"
        ]
    );
    assert_eq!(wrong("//! Source: manual 3; docs/adr/none.md.\n"), ["manual 3", "docs/adr/none.md"]);
    assert_eq!(wrong("//! Source: orchestration.\n"), ["orchestration "]);
    assert_eq!(wrong("//! Source: orchestration A1 without an end\n"), ["orchestration A1 without an end"]);
}
