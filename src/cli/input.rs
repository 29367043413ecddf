//! Reads what a user gives: JSON files, secrets, keys.
//!
//! Files may hold comments (`/* … */` and lines that begin with `//`), as the templates do, and name variables of the
//! environment as `$NAME` or `${NAME}`; variables that are not set stay as they are.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{CliError, Exit, Outcome};
use crate::settings::Settings;

/// Most bytes that are read of a file or of standard input.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Reads a text file, or standard input for `-`.
///
/// # Errors
/// With status 4.
pub fn read_text(path: &Path) -> Outcome<String> {
    let read = |reader: &mut dyn Read| {
        let mut text = String::new();
        reader.take(LARGEST).read_to_string(&mut text).map(|_| text)
    };
    let text = if path == Path::new("-") {
        read(&mut std::io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(|mut file| read(&mut file))
    };
    text.map_err(|error| CliError::file("reading", path, &error))
}

/// Reads JSON with comments and variables.
///
/// # Errors
/// With status 4 when the file cannot be read, 3 when it holds something else.
pub fn read_json(path: &Path, settings: &Settings) -> Outcome<Value> {
    let text = read_text(path)?;
    let mut value: Value =
        serde_json::from_str(&without_comments(&text)).map_err(|error| not_json(path, &error))?;
    fill_in(&mut value, settings);
    Ok(value)
}

/// Reads JSON of a certain shape.
///
/// # Errors
/// As [`read_json`].
pub fn read_shape<T: DeserializeOwned>(path: &Path, settings: &Settings) -> Outcome<T> {
    serde_json::from_value(read_json(path, settings)?).map_err(|error| not_json(path, &error))
}

/// The value of a template of ours, without its comments.
pub fn template(text: &str) -> Value {
    serde_json::from_str(&without_comments(text)).expect("templates are JSON with comments")
}

fn not_json(path: &Path, error: &serde_json::Error) -> CliError {
    CliError::new(
        Exit::Json,
        format!("the content of {} cannot be used", path.display()),
        error.to_string(),
        "correct the file; the commands named `new` print templates",
    )
}

/// A secret argument, or the first line of standard input for `-`.
///
/// # Errors
/// With status 1 when it is empty.
pub fn secret(argument: &str, meaning: &str) -> Outcome<String> {
    let mut value = argument.to_owned();
    if argument == "-" {
        value.clear();
        std::io::stdin()
            .read_line(&mut value)
            .map_err(|error| CliError::file("reading", Path::new("standard input"), &error))?;
        value.truncate(value.trim_end_matches(['\r', '\n']).len());
    }
    if value.is_empty() {
        let what = format!("the {meaning} is empty");
        return Err(CliError::input(
            what,
            "an empty secret protects nothing",
            "give one, or - to read it from standard input",
        ));
    }
    Ok(value)
}

/// Removes comments outside of texts; line ends stay, so that positions in error messages are right.
fn without_comments(text: &str) -> String {
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
            bare.extend(rest[..end].chars().filter(|letter| *letter == '\n'));
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

fn fill_in(value: &mut Value, settings: &Settings) {
    match value {
        Value::String(text) => *text = with_variables(text, settings),
        Value::Array(elements) => elements.iter_mut().for_each(|element| fill_in(element, settings)),
        Value::Object(members) => members.values_mut().for_each(|member| fill_in(member, settings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn with_variables(text: &str, settings: &Settings) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        filled.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        let (name, length) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let end = after.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
                let name = &after[..end.unwrap_or(after.len())];
                (name, name.len())
            }
        };
        let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
        match settings.variable(name).filter(|_| is_name) {
            Some(value) => filled.push_str(value),
            None => filled.push_str(&rest[start..=start + length]),
        }
        rest = &after[length..];
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn comments_go_and_texts_stay() {
        let text = "{ /* a\n comment */ \"a\": \"/* no */ // \\\" no\", // yes\n \"b\": 1 }";
        let value: Value = serde_json::from_str(&without_comments(text)).expect("JSON");
        assert_eq!(value, json!({"a": "/* no */ // \" no", "b": 1}));
        assert_eq!(without_comments("/* open"), "");
        assert_eq!(without_comments("\"\\"), "\"\\");
    }

    #[test]
    fn set_variables_are_filled_in_and_others_stay() {
        let variables =
            BTreeMap::from([("ARCH".to_owned(), "amd64".to_owned()), ("arch".to_owned(), "x".to_owned())]);
        let settings = Settings::read(variables, Path::new("/nonexistent"), None);
        let fill = |text: &str| with_variables(text, &settings);
        assert_eq!(fill("a_$ARCH/${ARCH}b"), "a_amd64/amd64b");
        assert_eq!(fill("$UNSET ${UNSET} $ $$ ${ $arch 5$"), "$UNSET ${UNSET} $ $$ ${ $arch 5$");
    }

    #[test]
    fn files_that_are_missing_or_no_json_have_their_own_status() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.json");
        let settings = Settings::default();
        assert_eq!(read_json(&path, &settings).map_err(|error| error.exit), Err(Exit::File));
        std::fs::write(&path, "{").expect("a file");
        assert_eq!(read_json(&path, &settings).map_err(|error| error.exit), Err(Exit::Json));
    }
}
