//! Variables in files: `$NAME` and `${NAME}` in texts, in names of members, and in JSON also in place of a value.
//!
//! A value comes from the environment, else from the configuration files of the user and the machine, else from
//! `hzn.json` beside the file (in its directory or in `horizon` below it), else from that of the project in the current
//! directory; `ARCH` is the architecture of this machine unless it is set. A variable that is not set stays unchanged,
//! because commands in deployments have variables of their own. `$$NAME` stands for the text `$NAME`. Source: agbot
//! 5.1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use crate::exit::{CliError, Outcome};
use crate::output::warn;
use crate::settings::Settings;
use crate::text_file::shown;
use crate::{machine, project};

/// The variable that is the architecture of this machine unless it is set.
const ARCHITECTURE: &str = "ARCH";

/// The variables that one file may name.
#[derive(Debug)]
pub struct Variables<'a> {
    settings: &'a Settings,
    beside: BTreeMap<String, String>,
    unset: BTreeSet<String>,
}

impl<'a> Variables<'a> {
    /// The variables of a file.
    ///
    /// # Errors
    /// With status 3 or 4 when the configuration beside it cannot be used.
    pub fn beside(path: &Path, settings: &'a Settings) -> Outcome<Self> {
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        Ok(Self { settings, beside: project::variables_in(directory)?, unset: BTreeSet::new() })
    }

    fn find(&self, name: &str) -> Option<&str> {
        let beside = || self.beside.get(name).map(String::as_str);
        let found = self.settings.variable_in_file(name).or_else(beside);
        let found = found.or_else(|| self.settings.of_project(name));
        if name == ARCHITECTURE {
            found.filter(|arch| !arch.is_empty()).or(Some(machine::ARCH))
        } else {
            found
        }
    }

    /// Fills in a JSON text: inside of quotes values are escaped.
    pub fn fill_in_json(&mut self, text: &str) -> String {
        json_filled(text, |rest, is_quoted| {
            let (value, length) = self.expanded(rest);
            let escaped = Value::from(value.as_str()).to_string();
            (if is_quoted { escaped[1..escaped.len() - 1].to_owned() } else { value }, length)
        })
    }

    /// Fills in every text of a document, and the names of members.
    ///
    /// # Errors
    /// A name that two members of one object have then.
    pub fn fill_in(&mut self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::String(text) => *text = self.filled(text),
            Value::Array(elements) => elements.iter_mut().try_for_each(|element| self.fill_in(element))?,
            Value::Object(members) => {
                let mut filled = Map::new();
                for (name, mut member) in std::mem::take(members) {
                    self.fill_in(&mut member)?;
                    let name = self.filled(&name);
                    if filled.insert(name.clone(), member).is_some() {
                        return Err(name);
                    }
                }
                *members = filled;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn filled(&mut self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            filled.push_str(&rest[..start]);
            let (value, length) = self.expanded(&rest[start..]);
            filled.push_str(&value);
            rest = &rest[start + length..];
        }
        filled.push_str(rest);
        filled
    }

    /// Returns the replacement for the variable at the start of a text, and the length of the variable.
    fn expanded(&mut self, text: &str) -> (String, usize) {
        if let Some((_, length)) = text.strip_prefix('$').and_then(named) {
            return (text[1..=length].to_owned(), 1 + length);
        }
        let Some((name, length)) = named(text) else { return ("$".to_owned(), 1) };
        match self.find(name) {
            Some(value) => (value.to_owned(), length),
            None => {
                self.unset.insert(name.to_owned());
                (text[..length].to_owned(), length)
            }
        }
    }

    /// Warns about variables that are not set.
    ///
    /// # Errors
    /// With status 1 if `--strict` is given.
    pub fn report(&self, path: &Path, is_strict: bool) -> Outcome {
        let Some(first) = self.unset.first() else { return Ok(()) };
        let (file, names) =
            (shown(path), self.unset.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        if is_strict {
            return Err(CliError::input(
                format!("{file} cannot be used"),
                format!("it names variables that are not set: {names}"),
                format!("set them in the environment, or write $${first} where the text ${first} is meant"),
            ));
        }
        warn(format!("{file} names variables that are not set, and they stay as they are: {names}"));
        Ok(())
    }
}

/// Returns a JSON text in which variables inside strings are unchanged, and those in place of a value are replaced by null.
pub fn left_as_they_are(text: &str) -> String {
    json_filled(text, |rest, is_quoted| match named(rest) {
        Some((_, length)) if !is_quoted => ("null".to_owned(), length),
        _ => ("$".to_owned(), 1),
    })
}

/// Replaces variables in a JSON text. `replace` gets the text from the dollar sign on, and whether it is inside of
/// quotes; it returns the replacement, and the length of the text that it replaces.
fn json_filled(text: &str, mut replace: impl FnMut(&str, bool) -> (String, usize)) -> String {
    let mut filled = String::with_capacity(text.len());
    let (mut is_quoted, mut rest) = (false, text);
    while let Some(at) = rest.find(['"', '\\', '$']) {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with('$') {
            let (value, length) = replace(rest, is_quoted);
            filled.push_str(&value);
            length
        } else {
            is_quoted ^= rest.starts_with('"');
            let count = if rest.starts_with('\\') { 2 } else { 1 };
            let length = rest.chars().take(count).map(char::len_utf8).sum();
            filled.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    filled.push_str(rest);
    filled
}

/// Returns the name of the variable at the start of a text, and the length of the reference to it.
fn named(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('$')?;
    let (name, length) = match after.strip_prefix('{') {
        Some(inner) => inner.split_once('}').map(|(name, _)| (name, name.len() + 3))?,
        None => {
            let end = after.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
            let name = &after[..end.unwrap_or(after.len())];
            (name, name.len() + 1)
        }
    };
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, length))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        let pairs = [("ARCH", "amd64"), ("quote", "a\"b"), ("COUNT", "5"), ("EMPTY", "")];
        let variables = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings::read(variables.into(), Path::new("/nonexistent"), None)
    }

    fn of<'a>(settings: &'a Settings, beside: &[(&str, &str)]) -> Variables<'a> {
        let beside = beside.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Variables { settings, beside, unset: BTreeSet::new() }
    }

    #[test]
    fn variables_are_filled_in_and_those_that_are_not_set_stay() {
        let settings = settings();
        let mut variables = of(&settings, &[("ARCH", "arm"), ("SERVICE_NAME", "cam")]);
        let mut fill = |text: &str| variables.filled(text);
        assert_eq!(
            fill("a_$ARCH/${ARCH}b-$SERVICE_NAME"),
            "a_amd64/amd64b-cam",
            "the environment comes first"
        );
        assert_eq!(fill("v$EMPTY."), "v.");
        let bare =
            Settings::read([("ARCH".to_owned(), String::new())].into(), Path::new("/nonexistent"), None);
        assert_eq!(of(&bare, &[]).filled("s_$ARCH"), format!("s_{}", machine::ARCH), "that of this machine");
        let shell =
            "for f in $(ls *); do echo $f ${f%.txt} $1 $? $$ ${HZN_DEVICE_ID} $UNSET; done $ ${ ${a b}";
        assert_eq!(fill(shell), shell);
        assert_eq!(fill("$$ARCH $${UNSET} $$f"), "$ARCH ${UNSET} $f");
        assert_eq!(variables.unset.iter().collect::<Vec<_>>(), ["HZN_DEVICE_ID", "UNSET", "f"]);
        assert!(variables.report(Path::new("x"), false).is_ok());
        let error = variables.report(Path::new("x"), true).unwrap_err();
        assert!(error.why.ends_with("HZN_DEVICE_ID, UNSET, f"), "{error}");
    }

    #[test]
    fn json_is_filled_in_in_texts_names_and_values() {
        let settings = settings();
        let mut variables = of(&settings, &[]);
        let filled = variables.fill_in_json(
            r#"{"$ARCH": "x$quote\\$ARCH\"", "n": $COUNT, "${ARCH}s": "$UNSET", "e": "$EMPTY"}"#,
        );
        let value: Value = serde_json::from_str(&filled).expect("JSON");
        assert_eq!(value, json!({"amd64": "xa\"b\\amd64\"", "n": 5, "amd64s": "$UNSET", "e": ""}));
    }

    #[test]
    fn documents_are_filled_in_in_texts_and_names() {
        let settings = settings();
        let mut variables = of(&settings, &[]);
        let mut value = json!({"services": {"$ARCH": {"image": ["i_$ARCH"]}}, "n": 5});
        variables.fill_in(&mut value).expect("no name twice");
        assert_eq!(value, json!({"services": {"amd64": {"image": ["i_amd64"]}}, "n": 5}));
        assert_eq!(variables.fill_in(&mut json!({"$ARCH": 1, "${ARCH}": 2})), Err("amd64".to_owned()));
    }
}
