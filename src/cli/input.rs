//! Reads what a user gives: JSON and YAML files, secrets, keys.
//!
//! Files may hold comments (`/* … */` and lines that begin with `//`), as the templates do, and name variables of the
//! environment as `$NAME` or `${NAME}`, where a name begins with a capital letter. A variable that is not set is an error;
//! `$$NAME` stands for the text `$NAME`.

use std::io::Read;
use std::path::Path;

use evenkeel_domain::orchestration::object::Members;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{CliError, Exit, Outcome};
use crate::members;
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

/// Reads one JSON or YAML document with variables; JSON may hold comments.
///
/// # Errors
/// With status 4 when the file cannot be read, 3 when it holds something else, 1 for a variable that is not set.
pub fn read_json(path: &Path, settings: &Settings) -> Outcome<Value> {
    only(path, read_documents(path, settings)?)
}

/// Reads one document with variables that is an object with known members.
///
/// # Errors
/// As [`read_json`], and with status 3 for anything but an object and for a member that is not `known`.
pub fn read_object(path: &Path, settings: &Settings, known: &Members) -> Outcome<Value> {
    let text = read_text(path)?;
    let mut document = only(path, parsed(path, &text)?)?;
    let bare = if is_json(path, &text) { without_comments(&text) } else { text };
    members::check(&document, &bare, known).map_err(|why| not_json(path, &why))?;
    fill_in(&mut document, settings).map_err(|name| unset_variable(path, &name))?;
    Ok(document)
}

fn only(path: &Path, mut documents: Vec<Value>) -> Outcome<Value> {
    match (documents.pop(), documents.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(not_json(path, "it is empty")),
        (Some(_), _) => Err(not_json(path, "it holds several documents, and one is expected")),
    }
}

/// Reads a JSON document, or any number of YAML documents, with variables.
///
/// # Errors
/// As [`read_json`].
pub fn read_documents(path: &Path, settings: &Settings) -> Outcome<Vec<Value>> {
    let text = read_text(path)?;
    let mut documents = parsed(path, &text)?;
    for document in &mut documents {
        fill_in(document, settings).map_err(|name| unset_variable(path, &name))?;
    }
    Ok(documents)
}

/// Returns whether a file holds JSON with comments: it begins like JSON and is not named as YAML. Everything else is YAML.
fn is_json(path: &Path, text: &str) -> bool {
    let is_named_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    !is_named_yaml && without_comments(text).trim_start().starts_with(['{', '[', '"'])
}

fn parsed(path: &Path, text: &str) -> Outcome<Vec<Value>> {
    if is_json(path, text) {
        let value = serde_json::from_str(&without_comments(text))
            .map_err(|error| not_json(path, &error.to_string()))?;
        return Ok(vec![value]);
    }
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let documents: Vec<Value> = documents
        .collect::<Result<_, serde_yaml_ng::Error>>()
        .map_err(|error| not_json(path, &error.to_string()))?;
    // A separator at the end begins an empty document.
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn unset_variable(path: &Path, name: &str) -> CliError {
    CliError::input(
        format!("{} cannot be used", path.display()),
        format!("it names the variable {name}, which is not set"),
        format!("set {name} in the environment, or write $${name} where the text ${name} is meant"),
    )
}

/// Reads JSON of a certain shape.
///
/// # Errors
/// As [`read_json`].
pub fn read_shape<T: DeserializeOwned>(path: &Path, settings: &Settings) -> Outcome<T> {
    serde_json::from_value(read_json(path, settings)?).map_err(|error| not_json(path, &error.to_string()))
}

/// The value of a template of ours, without its comments.
pub fn template(text: &str) -> Value {
    serde_json::from_str(&without_comments(text)).expect("templates are JSON with comments")
}

fn not_json(path: &Path, why: &str) -> CliError {
    CliError::new(
        Exit::Json,
        format!("the content of {} cannot be used", path.display()),
        why,
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

/// Blanks comments outside of texts out; everything else stays in its line and column, so that positions in error messages are right.
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

/// Replaces variables in every text; the error is the name of a variable that is not set.
fn fill_in(value: &mut Value, settings: &Settings) -> Result<(), String> {
    match value {
        Value::String(text) => *text = with_variables(text, settings)?,
        Value::Array(elements) => elements.iter_mut().try_for_each(|element| fill_in(element, settings))?,
        Value::Object(members) => members.values_mut().try_for_each(|member| fill_in(member, settings))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn with_variables(text: &str, settings: &Settings) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some((_, length)) = rest.strip_prefix('$').and_then(|escaped| variable(escaped)) {
            filled.push_str(&rest[1..=length]);
            rest = &rest[1 + length..];
        } else if let Some((name, length)) = variable(rest) {
            let value = settings.variable(name).or_else(|| settings.find(name)).ok_or(name)?;
            filled.push_str(value);
            rest = &rest[length..];
        } else {
            filled.push('$');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The variable that a text begins with: its name, and the length of what names it.
fn variable(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('$')?;
    let (name, length) = match after.strip_prefix('{') {
        Some(inner) => inner.split_once('}').map(|(name, _)| (name, name.len() + 3))?,
        None => {
            let end = after.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
            let name = &after[..end.unwrap_or(after.len())];
            (name, name.len() + 1)
        }
    };
    let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, length))
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
        assert_eq!(without_comments("/* open"), "       ");
        assert_eq!(without_comments("{ /* \n */ 1 } // end\n"), "{    \n    1 } \n");
        assert_eq!(without_comments("\"\\"), "\"\\");
    }

    #[test]
    fn variables_are_filled_in_and_an_unset_one_is_an_error() {
        let variables =
            BTreeMap::from([("ARCH".to_owned(), "amd64".to_owned()), ("arch".to_owned(), "x".to_owned())]);
        let settings = Settings::read(variables, Path::new("/nonexistent"), None);
        let fill = |text: &str| with_variables(text, &settings);
        assert_eq!(fill("a_$ARCH/${ARCH}b").as_deref(), Ok("a_amd64/amd64b"));
        assert_eq!(fill("v$UNSET").as_deref(), Err(&"UNSET".to_owned()));
        assert_eq!(fill("${UNSET}!").as_deref(), Err(&"UNSET".to_owned()));
        let literal = "$ $$ ${ $arch 5$ ${a b} ${";
        assert_eq!(fill(literal).as_deref(), Ok(literal));
        assert_eq!(fill("$$ARCH $${UNSET}").as_deref(), Ok("$ARCH ${UNSET}"));
    }

    #[test]
    fn yaml_is_taken_wherever_json_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let read = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            read_json(&path, &Settings::default()).map_err(|error| error.exit)
        };
        let expected = json!({"label": "no", "service": {"versions": [{"version": "1.10"}]}, "count": 3});
        let yaml = "# a comment\nlabel: no\nservice:\n  versions:\n    - version: '1.10'\ncount: 3\n";
        assert_eq!(read("p.yaml", yaml), Ok(expected.clone()));
        assert_eq!(read("p.txt", yaml), Ok(expected.clone()));
        assert_eq!(read("p.yml", &expected.to_string()), Ok(expected.clone()), "JSON is YAML");
        assert_eq!(read("written.yaml", &crate::yaml::to_yaml(&expected)), Ok(expected));
        assert_eq!(read("broken.yaml", "a: [1"), Err(Exit::Json));
        assert_eq!(read("two.yaml", "a: 1\n---\nb: 2\n"), Err(Exit::Json));
        assert_eq!(read("empty.yaml", "\n"), Err(Exit::Json));
    }

    #[test]
    fn error_names_file_and_variable() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        std::fs::write(&path, r#"{"version": "$VERSION"}"#).expect("a file");
        let error = read_json(&path, &Settings::default()).expect_err("an unset variable");
        assert_eq!(error.exit, Exit::Input);
        assert!(error.to_string().contains("x.json") && error.why.contains("VERSION"), "{error}");
    }

    #[test]
    fn error_names_line_and_column_of_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            let error = read_object(&path, &Settings::default(), &members::POLICY).expect_err(text);
            assert_eq!(error.exit, Exit::Json, "{error}");
            assert!(error.what.contains(name), "{error}");
            error.why
        };
        assert!(error("p.json", "{\n /* name */ label: 1}").ends_with("at line 2 column 13"));
        assert!(error("p.json", "{\n /* name */ \"lable\": \"\"}").starts_with("line 2 column 13 has"));
        assert!(error("p.json", "label").starts_with("line 1 column 1 holds a text"));
        assert!(error("p.yaml", "label: [\n").contains("line 2"));
        assert!(error("p.yaml", "# a policy\nlable: l\n").starts_with("line 2 column 1 has"));
    }

    #[test]
    fn files_that_are_missing_or_no_json_have_their_own_status() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        let settings = Settings::default();
        assert_eq!(read_json(&path, &settings).map_err(|error| error.exit), Err(Exit::File));
        std::fs::write(&path, "{").expect("a file");
        assert_eq!(read_json(&path, &settings).map_err(|error| error.exit), Err(Exit::Json));
    }
}
