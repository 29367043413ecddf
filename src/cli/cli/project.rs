//! `hzn.json`: the configuration of a project, and `hzn util configconv`.
//!
//! Its variables fill in files; its organization and key files are defaults of commands that run in the
//! directory of the project. Addresses and credentials are not taken from it: otherwise the author of the
//! project would decide where the user's credentials are sent.
//! Source: agbot 5.1.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::{CliError, Exit, Outcome};
use crate::output::show_text;
use crate::text_file::{read_text, without_comments};

/// The configuration file.
const FILE: &str = "hzn.json";
/// The directory of a project's files.
const DIRECTORY: &str = "horizon";
/// The file by which a project is recognized.
const DEFINITION: &str = "service.definition.json";
/// The directory of a project with the services that it requires.
const DEPENDENCIES: &str = "dependencies";
/// The member with the variables that are not settings.
const VARIABLES: &str = "MetadataVars";

/// Names and values of a configuration, in the order of the file: settings first.
pub type Pairs = Vec<(String, String)>;

/// Returns the variables of the configuration in a directory, or in `horizon` below it; none without a configuration.
///
/// # Errors
/// With status 3 or 4 when it cannot be used.
pub fn variables_in(directory: &Path) -> Outcome<BTreeMap<String, String>> {
    let candidates = [directory.join(FILE), directory.join(DIRECTORY).join(FILE)];
    let file = candidates.iter().find(|file| file.is_file());
    file.map_or_else(|| Ok(BTreeMap::new()), |file| Ok(read(file)?.into_iter().collect()))
}

/// Returns the configuration file of the project in a directory, as the existing tool finds it.
pub fn file_of_project(directory: &Path) -> Option<PathBuf> {
    let is_dependency = directory.file_name().is_some_and(|name| name == DEPENDENCIES);
    let above = directory.parent().filter(|_| is_dependency).map(Path::to_owned);
    let candidates = [Some(directory.to_owned()), Some(directory.join(DIRECTORY)), above];
    let found = candidates.into_iter().flatten().find(|place| place.join(DEFINITION).is_file());
    found.map(|place| place.join(FILE)).filter(|file| file.is_file())
}

/// Reads a configuration file.
///
/// # Errors
/// With status 4 when it cannot be read, 3 when it is not a configuration.
pub fn read(file: &Path) -> Outcome<Pairs> {
    parsed(&read_text(file)?).map_err(|why| {
        let advice = format!("it is an object of texts, with {VARIABLES} as another one");
        CliError::new(Exit::Json, format!("the configuration {} cannot be used", file.display()), why, advice)
    })
}

/// Parses a configuration.
///
/// # Errors
/// A description of the rule that it breaks.
pub fn parsed(text: &str) -> Result<Pairs, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document: Value = serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string())?;
    let Value::Object(members) = document else { return Err("it is not an object".to_owned()) };
    let (mut pairs, mut variables) = (Pairs::new(), Pairs::new());
    for (name, value) in members {
        match value {
            Value::Object(inner) if name.eq_ignore_ascii_case(VARIABLES) => {
                for (inner_name, value) in inner {
                    let text =
                        scalar(&value).ok_or_else(|| format!("{VARIABLES}.{inner_name} is not text"))?;
                    variables.push((inner_name, text));
                }
            }
            value => pairs.extend(scalar(&value).map(|text| (name, text))),
        }
    }
    pairs.append(&mut variables);
    Ok(pairs)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Prints a configuration as commands of a shell.
///
/// # Errors
/// With status 3 or 4 when it cannot be used.
pub fn convert(file: &Path) -> Outcome {
    let mut lines = String::new();
    for (name, value) in read(file)? {
        if value.is_empty() || !is_shell_name(&name) {
            continue;
        }
        if value.contains(|letter: char| letter.is_control()) {
            return Err(CliError::new(
                Exit::Json,
                format!("the configuration {} cannot be converted", file.display()),
                format!("the value of {name} has several lines or a control character"),
                "give it one line",
            ));
        }
        // Writing to a text cannot fail.
        let _ = writeln!(lines, "export {name}={}", quoted(&value));
    }
    show_text(&lines)
}

fn is_shell_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Values with characters that are special to a shell are quoted, because the output is evaluated.
fn quoted(value: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_./:@%+=,-".contains(letter);
    if value.chars().all(is_plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = r#"{
        /* of the project */
        "HZN_ORG_ID": "acme", "HZN_LANG": null,
        "MetadataVars": {"SERVICE_NAME": "cam", "VERSION": 2, "PLAIN": "a b; 'c'"}
    }"#;

    #[test]
    fn configuration_is_found_beside_a_file_and_in_a_project() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        assert_eq!(variables_in(root).map(|found| found.len()), Ok(0));
        std::fs::create_dir_all(root.join("horizon/dependencies")).expect("directories");
        std::fs::write(root.join("horizon/hzn.json"), CONFIGURATION).expect("a file");
        let found = variables_in(root).expect("variables");
        assert_eq!(found.get("SERVICE_NAME").map(String::as_str), Some("cam"));
        assert_eq!(variables_in(&root.join("horizon")).map(|found| found.len()), Ok(4));
        assert_eq!(file_of_project(root), None, "no service is defined");
        std::fs::write(root.join("horizon/service.definition.json"), "{}").expect("a file");
        let file = root.join("horizon/hzn.json");
        for place in [root.to_owned(), root.join("horizon"), root.join("horizon/dependencies")] {
            assert_eq!(file_of_project(&place), Some(file.clone()), "{}", place.display());
        }
        std::fs::write(&file, "{").expect("a file");
        assert_eq!(variables_in(root).map_err(|error| error.exit), Err(Exit::Json));
    }

    #[test]
    fn configuration_holds_settings_and_variables_as_texts() {
        let pairs = parsed(CONFIGURATION).expect("pairs");
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["HZN_ORG_ID", "SERVICE_NAME", "VERSION", "PLAIN"]);
        assert_eq!(pairs[2].1, "2");
        assert_eq!(quoted(&pairs[3].1), r"'a b; '\''c'\'''");
        assert_eq!(quoted("openhorizon/ibm.helloworld:1.0"), "openhorizon/ibm.helloworld:1.0");
        assert!(parsed(r#"{"MetadataVars": {"A": []}}"#).is_err() && parsed("[]").is_err());
    }
}
