//! The search of the manual on the server, for browsers without script and as the page of all results.
//!
//! It reads the lines of the index as they are; `book/search_index.rs` describes them, and `pages/assets/evenkeel.js` weighs in the same way.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::StatusCode;
use evenkeel_pages::{Area, Frame, Markup};

use crate::book::{INDEX, NAVIGATION, SEARCH_FORM};

/// Letters of a query.
const LONGEST_QUERY: usize = 200;
/// Words of a query that are searched.
const MOST_WORDS: usize = 10;
const MOST_HITS: usize = 40;
/// Long pages with many headings do not displace the page about a word.
const MOST_OF_HEADINGS: usize = 36;

/// A page that has all words of a query.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    href: String,
    title: &'static str,
    section: &'static str,
    /// The first heading with all words.
    heading: Option<&'static str>,
}

/// The best pages for a query, and how many there are.
#[derive(Debug, Default)]
struct Found {
    count: usize,
    hits: Vec<Hit>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Results<'a> {
    query: &'a str,
    problem: Option<String>,
    hits: &'a [Hit],
    count: usize,
}

/// Returns the page of results for a query.
pub(crate) fn search_page(query: &str) -> (StatusCode, String) {
    let length = query.chars().count();
    if length > LONGEST_QUERY {
        let problem = format!("q: a search has at most {LONGEST_QUERY} characters, this one has {length}.");
        return (StatusCode::BAD_REQUEST, results("", Some(problem), &Found::default()));
    }
    (StatusCode::OK, results(query.trim(), None, &search(INDEX, query)))
}

/// Returns the page for a query that cannot be read.
pub(crate) fn unreadable_query() -> (StatusCode, String) {
    let problem = "q: a search is one text, with percent-encoded UTF-8.".to_owned();
    (StatusCode::BAD_REQUEST, results("", Some(problem), &Found::default()))
}

fn results(query: &str, problem: Option<String>, found: &Found) -> String {
    let page = Results { query, problem, hits: &found.hits, count: found.count };
    let main = Markup::render(&page).expect("the template calls no fallible filter");
    let title = if query.is_empty() { "Search".to_owned() } else { format!("Search: {query}") };
    let (tools, aside) = (&Markup::trusted(SEARCH_FORM), &Markup::trusted(NAVIGATION));
    let outline = &Markup::default();
    Frame {
        title: &title,
        area: Area::Manual,
        head_links: &[],
        scripts: &[],
        tools,
        aside,
        main: &main,
        outline,
    }
    .html()
}

fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Returns the pages that have all words of a query, each as the beginning of a word, the best first.
fn search(index: &'static str, query: &str) -> Found {
    let mut words = words_of(query);
    let common = index.lines().find_map(|line| line.strip_prefix("C\t")).unwrap_or_default();
    words.retain(|word| common.split(' ').all(|one| one != word));
    words.truncate(MOST_WORDS);
    let weights: Vec<BTreeMap<usize, usize>> = words.iter().map(|word| weigh(index, word)).collect();
    let Some((first, others)) = weights.split_first() else { return Found::default() };
    let sum = |(page, weight): (&usize, &usize)| {
        let rest: Option<Vec<&usize>> = others.iter().map(|one| one.get(page)).collect();
        rest.map(|rest| (*page, weight + rest.into_iter().sum::<usize>()))
    };
    let mut found: Vec<(usize, usize)> = first.iter().filter_map(sum).collect();
    found.sort_by_key(|(page, weight)| (usize::MAX - weight, *page));
    let best = found.iter().take(MOST_HITS);
    Found { count: found.len(), hits: best.filter_map(|(page, _)| hit(index, *page, &words)).collect() }
}

/// Returns the weight of each page with `word`.
fn weigh(index: &str, word: &str) -> BTreeMap<usize, usize> {
    let (mut weights, mut of_headings) = (BTreeMap::new(), BTreeMap::new());
    let mut page_count = 0;
    for line in index.lines() {
        let mut parts = line.split('\t');
        let (kind, first, second) =
            (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match kind {
            Some("P") => {
                add(&mut weights, page_count, count(second, word, 60));
                page_count += 1;
            }
            Some("H") => {
                let text = parts.next().unwrap_or_default();
                add(&mut of_headings, first.parse().unwrap_or_default(), count(text, word, 12));
            }
            Some("W") if first.starts_with(word) => {
                let factor = if first == word { 2 } else { 1 };
                for entry in second.split(' ') {
                    let (page, times) = entry.split_once(':').unwrap_or((entry, "1"));
                    let times: usize = times.parse().unwrap_or(1);
                    add(&mut weights, page.parse().unwrap_or_default(), times * factor);
                }
            }
            _ => {}
        }
    }
    for (page, weight) in of_headings {
        add(&mut weights, page, weight.min(MOST_OF_HEADINGS));
    }
    weights
}

fn add(weights: &mut BTreeMap<usize, usize>, page: usize, weight: usize) {
    if weight > 0 {
        *weights.entry(page).or_default() += weight;
    }
}

/// Returns `exact` for each word of a text that is `word`, and half of it for each that begins so.
fn count(text: &str, word: &str, exact: usize) -> usize {
    let weight = |one: &String| match one {
        one if one == word => exact,
        one if one.starts_with(word) => exact / 2,
        _ => 0,
    };
    words_of(text).iter().map(weight).sum()
}

fn hit(index: &'static str, page: usize, words: &[String]) -> Option<Hit> {
    let mut parts = index.lines().nth(page)?.strip_prefix("P\t")?.split('\t');
    let (href, title, section) = (parts.next()?, parts.next()?, parts.next()?);
    let prefix = format!("H\t{page}\t");
    // The words, most of the index, come last.
    let before_words = index.lines().take_while(|line| !line.starts_with('W'));
    let mut headings = before_words.filter_map(|line| line.strip_prefix(prefix.as_str())?.split_once('\t'));
    let has_all = |text: &str| {
        let own = words_of(text);
        words.iter().all(|word| own.iter().any(|one| one.starts_with(word.as_str())))
    };
    let heading = headings.find(|(_, text)| has_all(text));
    let href = heading.map_or_else(|| href.to_owned(), |(id, _)| format!("{href}#{id}"));
    Some(Hit { href, title, section, heading: heading.map(|(_, text)| text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "P\t/manual/a\tDrain a node\tHow to\nP\t/manual/b\tThe command line\tReference\nH\t1\tdrain\thzn node drain\n\
                         H\t1\tdrain-1\tdrain again\nC\ta the\nW\tdrain\t0:3 1:9\nW\tdrains\t0\nW\tnode\t0:2 1\n";

    fn titles(query: &str) -> Vec<&'static str> {
        search(SMALL, query).hits.into_iter().map(|hit| hit.title).collect()
    }

    #[test]
    fn pages_have_every_word_and_the_best_comes_first() {
        assert_eq!(titles("drain"), ["Drain a node", "The command line"]);
        assert_eq!(titles("DRAI"), ["Drain a node", "The command line"]);
        assert_eq!(titles("drains"), ["Drain a node"]);
        assert_eq!(titles("line drain"), ["The command line"]);
        assert_eq!(titles("the drains"), ["Drain a node"]);
        for none in ["", "  ", "the", "nothing", "drain nothing", "\"'<>"] {
            assert!(titles(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn hit_leads_to_the_first_heading_with_all_words() {
        let hits = search(SMALL, "node drain").hits;
        let of = |title: &str| hits.iter().find(|hit| hit.title == title).expect("a hit");
        assert_eq!(of("The command line").href, "/manual/b#drain");
        assert_eq!(of("The command line").heading, Some("hzn node drain"));
        assert_eq!((of("Drain a node").href.as_str(), of("Drain a node").heading), ("/manual/a", None));
    }

    #[test]
    fn words_of_the_manual_are_found() {
        for (query, href) in [
            ("drain", "/manual/how-to/drain-a-node"),
            ("TLS", "/manual/how-to/set-up-tls"),
            ("how to drain a node", "/manual/how-to/drain-a-node"),
            ("five minutes", "/manual/tutorial/five-minutes"),
            ("sequencer lease", "/manual/adr/0001-sequencer-lease-is-a-row-lock"),
        ] {
            let hits = search(INDEX, query).hits;
            assert!(hits[0].href.starts_with(href), "{query}: {hits:?}");
        }
    }

    #[test]
    fn query_is_escaped() {
        let (status, page) = search_page("<script>alert(\"x\")</script> & drain");
        assert_eq!(status, StatusCode::OK);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(page.contains("value=\"&#60;script&#62;alert(&#34;x&#34;)"), "{page}");
    }

    #[test]
    fn long_query_is_refused_with_its_limit() {
        assert_eq!(search_page(&"ä".repeat(LONGEST_QUERY)).0, StatusCode::OK);
        let (status, page) = search_page(&"ä".repeat(LONGEST_QUERY + 1));
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(page.contains("q: a search has at most 200 characters, this one has 201."), "{page}");
        assert_eq!(unreadable_query().0, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn page_says_how_many_pages_there_are() {
        assert!(search_page("qqqq").1.contains("No page has all these words"));
        assert!(search_page("drain").1.contains("pages with"));
        assert!(search_page("").1.contains("Type one or more words"));
    }
}
