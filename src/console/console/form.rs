//! Fields of forms and queries.

use std::convert::Infallible;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use crate::Console;
use crate::failure::Failure;

/// Largest form, in bytes.
const MAX_FORM: usize = 16_384;

/// Largest form with a document, in bytes: a character of it takes up to three.
const MAX_DOCUMENT_FORM: usize = 800_000;

/// The fields of a form, in their order.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the fields of a query string or a body.
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(text).into_owned().collect())
    }

    /// Returns a field; a field that is empty or missing is none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.trim());
        found.filter(|value| !value.is_empty())
    }

    /// Returns the values of a field that may be given several times, without empty ones.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(one, _)| one == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns a field as a value of its own; a field that is empty or missing is none.
    pub(crate) fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// Returns a number, zero or greater; none if the field is empty or missing.
    ///
    /// # Errors
    /// When the field is something else, or a number that is too large for its type.
    pub(crate) fn number<N: TryFrom<u64>>(&self, name: &str) -> Result<Option<N>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse::<u64>().ok().and_then(|number| N::try_from(number).ok());
        let rule = || match text.bytes().all(|digit| digit.is_ascii_digit()) {
            true => Failure::Input(format!("{name} is too large")),
            false => Failure::Input(format!("{name} must be a non-negative integer")),
        };
        number.map(Some).ok_or_else(rule)
    }

    /// Returns a field as it was sent, with blanks at its ends: secrets may have some.
    pub(crate) fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// Returns a required field as it was sent: names may have blanks at their ends.
    ///
    /// # Errors
    /// When it is empty or missing.
    pub(crate) fn require(&self, name: &str) -> Result<&str, Failure> {
        let value = self.exact(name);
        if value.is_empty() { Err(Failure::Input(format!("{name} must not be empty"))) } else { Ok(value) }
    }
}

impl FromRequest<Console> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Console) -> Result<Self, Response> {
        read_body(request, MAX_FORM).await
    }
}

async fn read_body(request: Request, longest: usize) -> Result<Form, Response> {
    let read = to_bytes(request.into_body(), longest).await;
    let bytes: Bytes = read.map_err(|_| {
        Failure::Input(format!("a form must not be longer than {longest} bytes")).into_response()
    })?;
    Ok(Form::parse(&bytes))
}

/// The fields of a form with a document.
pub(crate) struct DocumentForm(pub(crate) Form);

impl FromRequest<Console> for DocumentForm {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Console) -> Result<Self, Response> {
        read_body(request, MAX_DOCUMENT_FORM).await.map(Self)
    }
}

/// The fields of the query.
pub(crate) struct Query(pub(crate) Form);

impl FromRequestParts<Console> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Console) -> Result<Self, Infallible> {
        Ok(Self(Form::parse(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let form = Form::parse(b"a=+x+&b=&a=y&secret=+s%26+");
        assert_eq!((form.get("a"), form.get("b"), form.get("c")), (Some("x"), None, None));
        assert_eq!(form.all("a").collect::<Vec<_>>(), [" x ", "y"]);
        assert_eq!((form.exact("secret"), form.exact("c")), (" s& ", ""));
        assert_eq!(form.require("b").unwrap_err().to_string(), "b must not be empty");
    }

    #[test]
    fn numbers_are_not_negative_and_fit_their_type() {
        let form = Form::parse(
            b"zero=0&most=4294967295&more=4294967296&huge=99999999999999999999&negative=-1&word=x&none=",
        );
        assert_eq!(
            (form.number::<u32>("zero").unwrap(), form.number::<i64>("zero").unwrap()),
            (Some(0), Some(0))
        );
        assert_eq!(form.number::<u32>("most").unwrap(), Some(u32::MAX));
        assert_eq!(form.number::<i64>("more").unwrap(), Some(4_294_967_296));
        assert_eq!(
            (form.number::<u32>("none").unwrap(), form.number::<usize>("missing").unwrap()),
            (None, None)
        );
        let refused = |name: &str| {
            let [small, signed] = [form.number::<u32>(name).map(drop), form.number::<i64>(name).map(drop)];
            [small, signed].map(|read| read.map_err(|failure| failure.to_string()))
        };
        for name in ["negative", "word"] {
            let rule = Err(format!("{name} must be a non-negative integer"));
            assert_eq!(refused(name), [rule.clone(), rule]);
        }
        assert_eq!(refused("more"), [Err("more is too large".to_owned()), Ok(())]);
        assert_eq!(refused("huge"), [(); 2].map(|()| Err("huge is too large".to_owned())));
    }
}
