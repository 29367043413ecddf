//! The index of the search: one text, which the script and the server read.
//!
//! Its lines are, with tabs between the parts: `P`, address, title, section, for each page in the order of the book; `H`, number of the
//! page from 0, anchor, text, for each heading but the first; `C`, words that are not searched; `W`, word, numbers of the pages with it, with `:3` those that have it three
//! times or more often, with `:9` nine times. More exact counts would make the index a fifth larger and no order better.

use std::collections::BTreeMap;

use crate::contents::{Document, SECTIONS};
use crate::markdown::Article;

/// Longer words are data, such as keys and hashes.
const LONGEST_WORD: usize = 32;

/// Words that most pages have.
const COMMON: [&str; 47] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "each", "for", "from", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "no", "not", "of", "on", "only", "or", "other",
    "own", "s", "same", "so", "that", "the", "their", "them", "then", "this", "to", "was", "what", "when",
    "which", "with", "without",
];

/// Returns the index of the pages.
pub(crate) fn index(pages: &[(Document, Article)]) -> String {
    let (mut index, mut words) = (String::new(), BTreeMap::<String, Vec<(usize, usize)>>::new());
    for (document, _) in pages {
        let section = SECTIONS[document.section].title;
        index.push_str(&format!("P\t{}\t{}\t{section}\n", document.href(), document.title));
    }
    for (number, (_, article)) in pages.iter().enumerate() {
        for heading in article.headings.iter().filter(|heading| heading.level > 1) {
            let text = heading.text.split_whitespace().collect::<Vec<_>>().join(" ");
            index.push_str(&format!("H\t{number}\t{}\t{text}\n", heading.id));
        }
        for (word, count) in count(&article.words) {
            words.entry(word).or_default().push((number, count));
        }
    }
    index.push_str(&format!("C\t{}\n", COMMON.join(" ")));
    for (word, pages) in words {
        let pages: Vec<String> = pages.iter().map(|(page, count)| entry(*page, *count)).collect();
        index.push_str(&format!("W\t{word}\t{}\n", pages.join(" ")));
    }
    index
}

fn entry(page: usize, count: usize) -> String {
    match count {
        ..3 => page.to_string(),
        3..9 => format!("{page}:3"),
        9.. => format!("{page}:9"),
    }
}

fn count(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let words = text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    for word in words.filter(|word| is_indexed(word)) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn is_indexed(word: &str) -> bool {
    let has_letter = word.chars().any(char::is_alphabetic);
    let is_status = word.len() == 3 && word.chars().all(|letter| letter.is_ascii_digit());
    let length = word.chars().count();
    (2..=LONGEST_WORD).contains(&length) && (has_letter || is_status) && !COMMON.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::render;

    #[test]
    fn index_lists_pages_headings_and_words() {
        let text = "# Drain a node\n\nA drain, a drain, then `409`. The node drains.\n\n## Undo it\n";
        let document = Document {
            path: "how-to/drain.md".into(),
            section: 1,
            title: "Drain a node".into(),
            text: String::new(),
        };
        let index = index(&[(document, render(text, "how-to/drain.md"))]);
        let index = index.replace(&format!("C\t{}\n", COMMON.join(" ")), "C\n");
        let expected = "P\t/manual/how-to/drain\tDrain a node\tHow to\nH\t0\tundo-it\tUndo it\nC\nW\t409\t0\nW\tdrain\t0:3\nW\tdrains\t0\n\
                        W\tnode\t0\nW\tundo\t0\n";
        assert_eq!(index, expected);
    }
}
