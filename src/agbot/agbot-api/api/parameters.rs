//! Query parameters that are taken out one by one, so that a refusal names the parameter and the rule that it breaks.

use axum::extract;
use evenkeel_api::{BodyKind, Input, MAX_ID, Refusal};
use evenkeel_domain::object::{Members, Object};
use evenkeel_domain::orchestration::MembersError;
use serde_json::{Map, Value};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::pipeline::{AgbotRequest, Sent};

/// The parameters of one request.
pub(super) struct Parameters(Object);

/// A query whose parameters are known.
pub(super) trait NamedQuery: IntoParams + Sized + Send + 'static {
    /// Their names.
    const KNOWN: Members;

    /// Takes the parameters out.
    ///
    /// # Errors
    /// When one of them breaks a rule.
    fn take(parameters: &mut Parameters) -> Result<Self, MembersError>;
}

pub(super) const fn known(names: &'static [&'static str]) -> Members {
    Members { known: names, unsupported: &[] }
}

/// The query string.
pub(super) struct Named<T>(pub(super) T);

impl<T: NamedQuery> Input<AgbotRequest> for Named<T> {
    const KIND: BodyKind = BodyKind::None;

    fn read(sent: Sent) -> Result<Named<T>, Refusal> {
        let pairs = extract::Query::<Vec<(String, String)>>::try_from_uri(&sent.uri);
        let pairs = pairs.map_err(|error| Refusal::invalid_input(error.to_string()))?.0;
        let read = |pairs| T::take(&mut Parameters::of(pairs, &T::KNOWN)?);
        read(pairs).map(Named).map_err(|error| Refusal::invalid_input(error.to_string()))
    }

    fn parameters() -> Vec<Parameter> {
        T::into_params(|| Some(ParameterIn::Query))
    }
}

impl Parameters {
    fn of(pairs: Vec<(String, String)>, known: &Members) -> Result<Self, MembersError> {
        let mut members = Map::new();
        for (name, text) in pairs {
            let broken =
                |rule: &str| MembersError { path: name.chars().take(64).collect(), rule: rule.to_owned() };
            if text.contains('\0') {
                return Err(broken("must not hold a NUL character"));
            }
            if members.contains_key(&name) {
                return Err(broken("must not be given twice"));
            }
            members.insert(name, Value::String(text));
        }
        Object::open(String::new(), Value::Object(members), known).map(Self)
    }

    /// Returns the error of a parameter that breaks a rule.
    pub(super) fn broken(&self, name: &str, rule: &str) -> MembersError {
        self.0.broken(name, rule)
    }

    /// Takes a text that is not empty and no longer than an id.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, MembersError> {
        self.text_of(name, MAX_ID)
    }

    /// Takes a text that is not empty, of at most this many bytes.
    pub(super) fn text_of(&mut self, name: &str, max_bytes: usize) -> Result<Option<String>, MembersError> {
        match self.0.text(name, max_bytes)? {
            Some(text) if text.is_empty() => Err(self.broken(name, "must not be empty")),
            found => Ok(found),
        }
    }

    /// Takes one of these words.
    pub(super) fn word(&mut self, name: &str, words: &[&str]) -> Result<Option<String>, MembersError> {
        match self.text(name)? {
            Some(word) if !words.contains(&word.as_str()) => {
                Err(self.broken(name, &format!("must be one of {}", words.join(", "))))
            }
            found => Ok(found),
        }
    }

    /// Takes an integer in a range.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, MembersError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<i64>().ok().filter(|number| is_plain && range.contains(number));
        number.map(Some).ok_or_else(|| {
            let rule = format!("must be an integer from {} to {}", range.start(), range.end());
            self.broken(name, &rule)
        })
    }

    /// Takes `true` or `false`.
    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, MembersError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.broken(name, "must be true or false"))
    }
}
