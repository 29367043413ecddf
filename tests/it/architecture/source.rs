//! The Rust sources of the workspace, as text.

use std::path::{Path, PathBuf};

use super::root;
use crate::support::wait::must;

/// A Rust source file.
pub(crate) struct Source {
    /// Path relative to the root of the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Returns whether the file holds tests only.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let in_tests = self.path.starts_with("tests/") || self.path.contains("/tests/");
        in_tests || name == "tests.rs" || name.ends_with("_tests.rs")
    }

    /// Returns the text without the test module at its end.
    pub(crate) fn product_text(&self) -> &str {
        let end = self.text.find("\n#[cfg(test)]\nmod ").or_else(|| self.text.find("\n#[cfg(test)]\n#[path"));
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

/// Returns all sources, sorted by path.
pub(crate) fn sources() -> Vec<Source> {
    let mut paths: Vec<PathBuf> =
        ["src", "tests/it"].iter().flat_map(|directory| files(&root().join(directory), "rs")).collect();
    paths.extend(Some(root().join("build.rs")).filter(|path| path.exists()));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// Returns the files below a directory whose names end with an extension.
pub(crate) fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in must(std::fs::read_dir(directory), "a directory") {
        let path = must(entry, "an entry").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|one| one == extension) {
            found.push(path);
        }
    }
    found
}

/// Reads a text file of the workspace.
pub(crate) fn read(path: &Path) -> Source {
    let text = must(std::fs::read_to_string(path), "a source");
    let path = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    Source { path, text }
}

/// Returns `text` with comments and literals of strings and characters blanked.
pub(crate) fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skipped = skipped_len(rest, code.chars().last());
        if skipped == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

/// Returns the comments and literals of `text`, each with the number of its first line.
pub(crate) fn comments_and_strings(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut line, mut before, mut rest) = (Vec::new(), 1, None, text);
    while let Some(letter) = rest.chars().next() {
        let skipped = skipped_len(rest, before);
        if skipped > 0 {
            found.push((line, &rest[..skipped]));
        }
        let (read, unread) = rest.split_at(skipped.max(letter.len_utf8()));
        line += read.matches('\n').count();
        before = Some(if skipped > 0 { ' ' } else { letter });
        rest = unread;
    }
    found
}

/// Returns the length of the comment or literal at the beginning of `text`, or 0.
fn skipped_len(text: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if let Some(body) = text.strip_prefix('"') {
        return 1 + string_len(body);
    }
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r')).filter(|_| !in_word);
    if let Some(body) = raw {
        let hashes = body.len() - body.trim_start_matches('#').len();
        if body[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let start = text.len() - body.len() + hashes + 1;
            return text[start..].find(&close).map_or(text.len(), |end| start + end + close.len());
        }
    }
    char_len(text)
}

/// Returns the length of what follows an opening quote, the closing quote included.
fn string_len(body: &str) -> usize {
    let mut escaped = false;
    for (position, letter) in body.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return position + 1,
            _ => {}
        }
    }
    body.len()
}

/// Returns the length of a literal of a character; 0 for a lifetime.
fn char_len(text: &str) -> usize {
    let Some(body) = text.strip_prefix('\'') else { return 0 };
    if body.starts_with('\\') {
        return body[2..].find('\'').map_or(0, |end| end + 4);
    }
    match body.chars().next() {
        Some(letter) if body[letter.len_utf8()..].starts_with('\'') => letter.len_utf8() + 2,
        _ => 0,
    }
}

#[test]
fn comments_and_literals_are_blanked() {
    let text = "let a = \"b // \\\" c\"; // d\nlet e = r#\"f \"g\" \"#; let h: &'static str = 'i'; let j = '\\n'; let k = '\"';";
    let code = without_comments_and_strings(text);
    assert_eq!(
        code.split_whitespace().collect::<Vec<_>>().join(" "),
        "let a = ; let e = ; let h: &'static str = ; let j = ; let k = ;"
    );
    let kept = comments_and_strings(text);
    assert_eq!(kept[..2], [(1, "\"b // \\\" c\""), (1, "// d")]);
    assert_eq!(kept[2], (2, "r#\"f \"g\" \"#"));
}
