//! Reads input of users: JSON and YAML files, secrets, keys.
//!
//! Every option that names a file reads it here, by the rules of the existing tool: comments (`/* … */`, and lines that begin with `//`),
//! variables ([`crate::variables`]), names of members without regard to case, null as absent, and unknown members left out with a warning.
//! Source: agbot 5.1.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_domain::policy::reference_json::{Unknown, from_value, read_naming};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::members;
use crate::output::warn;
use crate::repeated::repeated_names;
use crate::text_file::{read_text, shown, without_comments};
use crate::variables::{self, Variables};

/// The settings of a deployment policy that the reference does not have.
const SETTINGS: &str = "orchestration";
/// Most warnings about one document.
const MOST_WARNINGS: usize = 20;

/// Source of a document, for messages.
#[derive(Debug)]
struct Source<'a> {
    /// The name of the file, or of the part of one.
    name: String,
    /// The text without comments; empty if the document is only a part of it.
    text: &'a str,
}

/// Reads one document that has a shape, and returns it with its members in the spelling of the exchange.
///
/// # Errors
/// With status 4 when the file cannot be read, 3 when its content has another shape. With `--strict` also 3 for unknown members, and 1 for
/// variables that are not set.
pub fn read_shape<T: DeserializeOwned + Serialize>(path: &Path, context: &Context) -> Outcome<Value> {
    read_shaped::<T>(path, context).map(|shaped| shaped.document)
}

/// A document in its shape.
#[derive(Debug)]
pub struct Shaped {
    /// The document.
    pub document: Value,
    /// The members that were left out.
    pub unknown: Vec<Unknown>,
}

/// Like [`read_shape`], and returns the members that were left out.
///
/// # Errors
/// See [`read_shape`].
pub fn read_shaped<T: DeserializeOwned + Serialize>(path: &Path, context: &Context) -> Outcome<Shaped> {
    let (documents, text) = read_file(path, context)?;
    let document = only(path, documents)?;
    normalized::<T>(&document, &Source { name: shown(path), text: &text }, context)
}

/// Returns a document of a file as a typed value.
///
/// # Errors
/// With status 3.
pub fn typed<V: DeserializeOwned>(path: &Path, shaped: &Shaped) -> Outcome<V> {
    from_value(&shaped.document).map_err(|error| not_json(&shown(path), &error.reason()))
}

/// Reads a part of a document into its type; `name` names it in messages.
///
/// # Errors
/// See [`read_shape`].
pub fn shaped<T: DeserializeOwned + Serialize>(
    name: &str,
    part: &Value,
    context: &Context,
) -> Outcome<Shaped> {
    normalized::<T>(part, &Source { name: name.to_owned(), text: "" }, context)
}

/// Reads one document of any shape.
///
/// # Errors
/// See [`read_shape`].
pub fn read_json(path: &Path, context: &Context) -> Outcome<Value> {
    only(path, read_documents(path, context)?)
}

/// Reads a JSON document, or any number of YAML documents, of any shape.
///
/// # Errors
/// See [`read_shape`].
pub fn read_documents(path: &Path, context: &Context) -> Outcome<Vec<Value>> {
    read_file(path, context).map(|(documents, _)| documents)
}

fn only(path: &Path, mut documents: Vec<Value>) -> Outcome<Value> {
    match (documents.pop(), documents.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(not_json(&shown(path), "it is empty")),
        (Some(_), _) => Err(not_json(&shown(path), "it holds several documents, and one is expected")),
    }
}

/// The documents of a file with variables filled in, and its text without comments.
fn read_file(path: &Path, context: &Context) -> Outcome<(Vec<Value>, String)> {
    let text = read_text(path)?;
    // Some editors begin a text with this character, the byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut variables = Variables::beside(path, &context.settings)?;
    let failed = |error: &dyn std::fmt::Display| not_json(&shown(path), &error.to_string());
    if is_json(path, text) {
        let bare = without_comments(text);
        let filled = variables.fill_in_json(&bare);
        variables.report(path, context.is_strict)?;
        let document = serde_json::from_str(&filled).map_err(|error| failed(&error))?;
        let names = |text: &str| repeated_names(&mut serde_json::Deserializer::from_str(text));
        let repeated = names(&filled).map_err(|error| failed(&error))?;
        if !repeated.is_empty() {
            let written = names(&variables::left_as_they_are(&bare)).unwrap_or_default();
            if let Some(name) = repeated.difference(&written).next() {
                return Err(failed(&same_name(name)));
            }
        }
        report_repeated(path, &repeated, context.is_strict)?;
        return Ok((vec![document], filled));
    }
    let mut documents = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        documents.push(Value::deserialize(document).map_err(|error| failed(&error))?);
    }
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let repeated = repeated_names(document).map_err(|error| failed(&error))?;
        report_repeated(path, &repeated, context.is_strict)?;
    }
    // A separator at the end of the file starts an empty document.
    documents.retain(|document| !document.is_null());
    for document in &mut documents {
        variables.fill_in(document).map_err(|name| failed(&same_name(&name)))?;
    }
    variables.report(path, context.is_strict)?;
    Ok((documents, text.to_owned()))
}

fn same_name(name: &str) -> String {
    format!("with its variables filled in, two members of one object have the name {name}")
}

/// Warns about names that were written twice: as in the reference's programs the last member counts.
fn report_repeated(path: &Path, repeated: &BTreeSet<String>, is_strict: bool) -> Outcome {
    let Some(name) = repeated.first() else { return Ok(()) };
    let twice = format!("two members of one object have the name {name}");
    if is_strict {
        return Err(not_json(&shown(path), &twice));
    }
    warn(format!("{}: {twice}; the last one counts", shown(path)));
    Ok(())
}

/// Returns whether a file holds JSON with comments: it begins like JSON and is not named as YAML. Everything else is YAML.
fn is_json(path: &Path, text: &str) -> bool {
    let is_named_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    !is_named_yaml && without_comments(text).trim_start().starts_with(['{', '[', '"'])
}

fn normalized<T: DeserializeOwned + Serialize>(
    document: &Value,
    source: &Source<'_>,
    context: &Context,
) -> Outcome<Shaped> {
    let Source { name, text } = source;
    let read = read_naming::<T>(document).map_err(|error| {
        let is_whole = error.path.is_empty() && !text.is_empty();
        let place = if is_whole { format!("{}: ", members::start(text)) } else { String::new() };
        not_json(name, &format!("{place}{error}"))
    })?;
    let texts: Vec<String> = read.unknown.iter().map(|one| members::unknown(one, text)).collect();
    // Without its settings a policy would run on every node that it selects.
    let misspelt = read.unknown.iter().position(|one| one.meant == Some(SETTINGS));
    if let Some(position) = if context.is_strict && !texts.is_empty() { Some(0) } else { misspelt } {
        return Err(not_json(name, &texts[position]));
    }
    for text in texts.iter().take(MOST_WARNINGS) {
        warn(format!("{name}: {text}; it is left out"));
    }
    if let Some(more) = texts.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        warn(format!("{name}: {more} more unknown members are left out"));
    }
    let mut shaped = serde_json::to_value(&read.value).map_err(|error| not_json(name, &error.to_string()))?;
    // Unlike elsewhere, null does not mean absent here: it removes the settings.
    if document.get(SETTINGS).is_some_and(Value::is_null) {
        shaped[SETTINGS] = Value::Null;
    }
    Ok(Shaped { document: shaped, unknown: read.unknown })
}

/// The value of one of our templates, without its comments.
pub fn template(text: &str) -> Value {
    serde_json::from_str(&without_comments(text)).expect("templates are JSON with comments")
}

fn not_json(name: &str, why: &str) -> CliError {
    CliError::new(
        Exit::Json,
        format!("the content of {name} cannot be used"),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::DeploymentPolicyFile;

    #[test]
    fn yaml_is_taken_wherever_json_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let read = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            read_json(&path, &Context::default()).map_err(|error| error.exit)
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
    fn variable_that_is_not_set_stays_and_is_an_error_when_that_is_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        std::fs::write(&path, r#"{"command": "echo $f $HZN_DEVICE_ID", "$ORG": "$ORG"}"#).expect("a file");
        std::fs::write(directory.path().join("hzn.json"), r#"{"MetadataVars": {"ORG": "acme"}}"#)
            .expect("a file");
        let found = read_json(&path, &Context::default()).expect("a document");
        assert_eq!(found, json!({"command": "echo $f $HZN_DEVICE_ID", "acme": "acme"}));
        let strict = Context { is_strict: true, ..Context::default() };
        let error = read_json(&path, &strict).expect_err("unset variables");
        assert_eq!(error.exit, Exit::Input);
        assert!(error.to_string().contains("x.json") && error.why.contains("HZN_DEVICE_ID, f"), "{error}");
    }

    #[test]
    fn names_that_become_equal_are_refused_and_repeated_ones_are_an_error_when_that_is_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("hzn.json"), r#"{"MetadataVars": {"A": "x", "N": "1"}}"#)
            .expect("a file");
        let read = |name: &str, text: &str, is_strict: bool| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            read_json(&path, &Context { is_strict, ..Context::default() })
        };
        for (name, text) in [
            ("x.json", r#"{"s": {"$A": 1, "${A}": 2}, "n": $N}"#),
            ("x.json", r#"{"$A": 1, "x": $N}"#),
            ("x.yaml", "s:\n  $A: 1\n  ${A}: 2\n"),
        ] {
            let error = read(name, text, false).expect_err(text);
            assert_eq!(error.exit, Exit::Json);
            assert!(error.why.contains("two members of one object have the name x"), "{error}");
        }
        for (name, text) in [("x.json", r#"{"a": 1, "n": $N, "a": 2}"#), ("x.yaml", "a: 1\nn: 1\na: 2\n")] {
            let found = read(name, text, false).map_err(|error| error.to_string());
            assert_eq!(found, Ok(json!({"a": 2, "n": 1})), "as in the reference's programs");
            let error = read(name, text, true).expect_err(text);
            assert!(error.why.contains("the name a"), "{error}");
        }
    }

    #[test]
    fn marks_of_editors_are_skipped_and_other_bytes_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read_json(&path, &Context::default()).map_err(|error| error.exit)
        };
        assert_eq!(read("\u{feff}{\"a\": 1}".as_bytes()), Ok(json!({"a": 1})));
        assert_eq!(read("\u{feff}a: 1\n".as_bytes()), Ok(json!({"a": 1})));
        assert_eq!(read(b"{\"a\": \"\xff\"}"), Err(Exit::File));
        assert_eq!(read(b""), Err(Exit::Json));
        assert_eq!(
            read_json(directory.path(), &Context::default()).map_err(|error| error.exit),
            Err(Exit::File)
        );
    }

    #[test]
    fn error_names_line_and_column_of_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file");
            let strict = Context { is_strict: true, ..Context::default() };
            let error = read_shape::<DeploymentPolicyFile>(&path, &strict).expect_err(text);
            assert_eq!(error.exit, Exit::Json, "{error}");
            assert!(error.what.contains(name), "{error}");
            error.why
        };
        assert!(error("p.json", "{\n /* name */ label: 1}").ends_with("at line 2 column 13"));
        assert!(error("p.json", "{\n /* name */ \"lable\": \"\"}").starts_with("line 2 column 13 has"));
        assert_eq!(
            error("p.json", "label"),
            "line 1 column 1: invalid type: string \"label\", expected an object"
        );
        assert!(error("p.yaml", "label: [\n").contains("line 2"));
        assert!(error("p.yaml", "# a policy\nlable: l\n").starts_with("line 2 column 1 has"));
    }

    #[test]
    fn files_that_are_missing_or_no_json_have_their_own_status() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        let context = Context::default();
        assert_eq!(read_json(&path, &context).map_err(|error| error.exit), Err(Exit::File));
        std::fs::write(&path, "{").expect("a file");
        assert_eq!(read_json(&path, &context).map_err(|error| error.exit), Err(Exit::Json));
    }
}
