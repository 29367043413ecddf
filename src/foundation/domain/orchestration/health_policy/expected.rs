//! Expected contents of the body of a healthy response.

use regex::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

/// Longest text or expression, in bytes.
pub(super) const MAX_BYTES: usize = 1024;
/// Maximum size of a compiled expression, in bytes. Matching takes time linear in the size of the body, so this bounds a check.
const MAX_COMPILED: usize = 256 * 1024;
/// Marks a regular expression.
const EXPRESSION: &str = "re:";

/// The required content of the body of a healthy response: a text, or a match of a regular expression.
#[derive(Debug, Clone)]
pub struct Expected {
    text: String,
    expression: Option<Regex>,
}

impl Expected {
    /// Parses a text; `re:` marks a regular expression.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(format!("must have 1 to {MAX_BYTES} bytes"));
        }
        let compile = |pattern| RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
        let expression = text.strip_prefix(EXPRESSION).map(compile).transpose().map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("is not a regular expression: {reason}")
        })?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Returns whether a body contains it.
    #[must_use]
    pub fn is_in(&self, body: &str) -> bool {
        match &self.expression {
            Some(expression) => expression.is_match(body),
            None => body.contains(&self.text),
        }
    }

    /// Returns its written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Expected {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expected {}

impl Serialize for Expected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
