//! Documents that are stored although they cannot work: with a warning, like the reference, or rejected if so
//! configured.
//!
//! A policy with a constraint that cannot be read selects nothing. The warning is a header, because the body
//! of the response is that of the reference, byte by byte.

use axum::response::{IntoResponse, Response};
use evenkeel_api::{Content, Documented};
use evenkeel_domain::policy::ConstraintList;
use evenkeel_domain::review::Finding;
use http::HeaderValue;
use http::header::WARNING;

use crate::settings::InvalidConstraints;
use crate::{ApiError, Exchange};

/// Maximum number of warnings in one response; one wrong constraint is enough to know that the policy is
/// inert.
const LARGEST_COUNT: usize = 8;
/// Longest text of one warning.
const LONGEST_TEXT: usize = 300;

/// Problems of one body.
#[derive(Debug)]
pub struct WriteWarnings {
    rule: InvalidConstraints,
    texts: Vec<String>,
}

impl WriteWarnings {
    /// Begins with nothing, under the rule of the exchange.
    #[must_use]
    pub fn new(exchange: &Exchange) -> Self {
        Self { rule: exchange.settings().invalid_constraints, texts: Vec::new() }
    }

    /// Checks the constraints of a field, `constraints` or `deployment.constraints`.
    ///
    /// # Errors
    /// 400 naming the field and the place, for more constraints, longer ones and deeper ones than anything could evaluate; for any
    /// that cannot be read only when the exchange is set to refuse them.
    pub fn check(&mut self, field: &str, constraints: &[String]) -> Result<(), ApiError> {
        let list: ConstraintList = constraints.iter().map(String::as_str).collect();
        list.check_limits().map_err(|error| ApiError::invalid_input(format!("{field}: {error}")))?;
        for error in list.errors() {
            let text = format!("{field}: {error}");
            match self.rule {
                InvalidConstraints::Refuse => return Err(ApiError::invalid_input(text)),
                InvalidConstraints::Warn => self.texts.push(format!("the policy selects nothing: {text}")),
            }
        }
        Ok(())
    }

    /// Adds what can never work, or is probably not meant.
    pub fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.texts.extend(findings.into_iter().map(|finding| finding.to_string()));
    }

    /// Adds the warnings to the response of a write, and others after them.
    pub fn on_with<T>(mut self, response: T, others: Vec<String>) -> Warned<T> {
        self.texts.extend(others);
        Warned::new(response, &self.texts)
    }

    /// Adds the warnings to the response of a write.
    pub fn on<T>(self, response: T) -> Warned<T> {
        Warned::new(response, &self.texts)
    }
}

/// A response with warnings in its headers.
pub struct Warned<T> {
    response: T,
    warnings: Vec<HeaderValue>,
}

impl<T> Warned<T> {
    /// Adds warnings to a response.
    pub fn new(response: T, texts: &[String]) -> Self {
        let texts = texts.iter().take(LARGEST_COUNT);
        let warnings = texts.filter_map(|text| HeaderValue::from_str(&warning(text)).ok()).collect();
        Self { response, warnings }
    }
}

impl<T: IntoResponse> IntoResponse for Warned<T> {
    fn into_response(self) -> Response {
        let mut response = self.response.into_response();
        for warning in self.warnings {
            response.headers_mut().append(WARNING, warning);
        }
        response
    }
}

impl<T: Documented> Documented for Warned<T> {
    fn responses() -> Vec<(u16, Content)> {
        T::responses()
    }
}

/// A warning in the form of RFC 7234, section 5.5: a miscellaneous one that stays.
fn warning(text: &str) -> String {
    let plain = text.chars().take(LONGEST_TEXT).map(|letter| match letter {
        ' '..='~' => letter,
        _ => '?',
    });
    let mut quoted = String::from("299 evenkeel \"");
    for letter in plain {
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_one_quoted_text_of_visible_letters() {
        let text = warning("the policy selects nothing: constraints: near \"\u{e4} \\ \n\"");
        assert_eq!(text, "299 evenkeel \"the policy selects nothing: constraints: near \\\"? \\\\ ?\\\"\"");
        assert!(warning(&"x".repeat(1_000)).len() < 400);
    }
}
