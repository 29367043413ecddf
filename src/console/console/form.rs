//! Fields of forms and queries.

use std::convert::Infallible;
use std::str::FromStr;

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

    /// Returns a number; none if the field is empty or missing.
    ///
    /// # Errors
    /// When it is something else.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map(Some);
        number.map_err(|_| Failure::Input(format!("{name} must be a non-negative integer")))
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
        assert_eq!(form.number::<u32>("b").unwrap(), None);
        let error = form.number::<u32>("a").unwrap_err().to_string();
        assert_eq!(error, "a must be a non-negative integer");
    }
}
