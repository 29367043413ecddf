//! Text files of users: reading them, naming them in messages, and removing comments.

use std::io::Read;
use std::path::Path;

use crate::exit::{CliError, Exit, Outcome};

/// Maximum number of bytes that are read from a file or from standard input.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Reads a text file, or standard input for `-`, unchanged.
///
/// # Errors
/// With status 4.
pub fn read_text(path: &Path) -> Outcome<String> {
    let read = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        reader.take(LARGEST + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = if path == Path::new("-") {
        read(&mut std::io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(|mut file| read(&mut file))
    };
    let bytes = bytes.map_err(|error| CliError::file("reading", path, &error))?;
    let refuse = |why: String, advice: &str| {
        Err(CliError::new(Exit::File, format!("reading {} failed", shown(path)), why, advice))
    };
    if bytes.len() as u64 > LARGEST {
        let why = format!("it is larger than {} MiB", LARGEST / (1024 * 1024));
        return refuse(why, "check that it is the file that was meant");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => refuse("it is not UTF-8 text".to_owned(), "save it as UTF-8"),
    }
}

/// The name of a file in messages.
pub fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Replaces comments outside of strings with blanks. Everything else keeps its line and column, so that positions in
/// error messages are correct.
pub fn without_comments(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_in_text = false;
    while let Some(letter) = rest.chars().next() {
        if is_in_text {
            let length = if letter == '\\' {
                rest.chars().take(2).map(char::len_utf8).sum()
            } else {
                letter.len_utf8()
            };
            is_in_text = letter != '"';
            bare.push_str(&rest[..length]);
            rest = &rest[length..];
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
            bare.extend(rest[..end].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
            rest = &rest[end..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else {
            is_in_text = letter == '"';
            bare.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn comments_go_and_texts_stay() {
        let text = "{ /* a\n comment */ \"a\": \"/* no */ // \\\" no\", // yes\n \"b\": 1 }";
        let value: Value = serde_json::from_str(&without_comments(text)).expect("JSON");
        assert_eq!(value, json!({"a": "/* no */ // \" no", "b": 1}));
        assert_eq!(without_comments("/* open"), "       ");
        assert_eq!(without_comments("{ /* \n */ 1 } // end\n"), "{    \n    1 } \n");
        assert_eq!(without_comments("\"\\"), "\"\\");
    }
}
