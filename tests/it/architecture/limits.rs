//! Sizes of files and functions. The largest size of a function and the number of its parameters are clippy's.

use super::source::{Source, sources};

/// Lines of a source file.
const MOST_LINES: usize = 600;
/// Lines of a file of tests.
const MOST_TEST_LINES: usize = 800;

/// Files that are longer, each with its length and the reason. Lengths may only shrink.
const LONGER_FILES: [(&str, usize, &str); 0] = [];

#[test]
fn files_are_short() {
    let sources = sources();
    let mut wrong = Vec::new();
    for source in &sources {
        let limit = if source.is_test() { MOST_TEST_LINES } else { MOST_LINES };
        let exception = LONGER_FILES.iter().find(|(path, ..)| *path == source.path);
        let limit = exception.map_or(limit, |(_, lines, _)| *lines);
        let lines = source.text.lines().count();
        if lines > limit {
            wrong.push(format!("{}: {lines} lines, {limit} are allowed", source.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let product = sources.iter().filter(|source| !source.is_test());
    let lengths = sorted(product.map(|source| source.text.lines().count()));
    assert!(percentile(&lengths, 50) <= 150, "median of files: {} lines", percentile(&lengths, 50));
    assert!(percentile(&lengths, 90) <= 400, "90th percentile of files: {} lines", percentile(&lengths, 90));
}

#[test]
fn most_functions_are_short() {
    let lengths = sorted(sources().iter().flat_map(function_lengths));
    assert!(lengths.len() > 3000, "only {} functions are found", lengths.len());
    assert!(percentile(&lengths, 50) <= 12, "median of functions: {} lines", percentile(&lengths, 50));
    assert!(
        percentile(&lengths, 90) <= 45,
        "90th percentile of functions: {} lines",
        percentile(&lengths, 90)
    );
}

fn sorted(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut lengths: Vec<usize> = lengths.collect();
    lengths.sort_unstable();
    lengths
}

fn percentile(sorted: &[usize], percent: usize) -> usize {
    sorted[sorted.len() * percent / 100]
}

/// Returns the lines of each function with a body, which by rustfmt ends at the next `}` with the same indentation.
fn function_lengths(source: &Source) -> Vec<usize> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut lengths = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indentation = &line[..line.len() - code.len()];
        if !is_function(code) || code.ends_with(';') {
            continue;
        }
        let end = format!("{indentation}}}");
        let is_end = |line: &&str| **line == end || (line.starts_with(&end) && line.len() > end.len());
        let length = if code.ends_with('}') { Some(0) } else { lines[start..].iter().position(is_end) };
        lengths.extend(length.map(|length| length + 1));
    }
    lengths
}

fn is_function(code: &str) -> bool {
    let visibility = code.strip_prefix("pub").map_or(code, |rest| match rest.strip_prefix('(') {
        Some(inner) => inner.split_once(") ").map_or(code, |(_, rest)| rest),
        None => rest.trim_start(),
    });
    let mut words = visibility.split(' ');
    words.by_ref().find(|word| !matches!(*word, "const" | "async")) == Some("fn")
}
