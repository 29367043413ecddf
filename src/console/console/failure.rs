//! Failures of a page, as pages.

use axum::response::{IntoResponse, Response};
use evenkeel_client::ClientError;
use http::StatusCode;

use crate::layout;
use crate::session::to_login;

/// A reason why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The API refused or did not respond.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// There is no such object.
    #[error("{0}")]
    Missing(String),
    /// The request breaks a rule.
    #[error("{0}")]
    Input(String),
}

impl Failure {
    /// Returns whether the API refused what the reader has chosen.
    pub(crate) fn is_input(&self) -> bool {
        matches!(self, Self::Api(error) if error.status() == Some(400))
    }

    /// Returns whether the API refused a document that the reader wants to write, or the write of it.
    pub(crate) fn is_about_document(&self) -> bool {
        matches!(self, Self::Api(error) if matches!(error.status(), Some(400 | 403 | 404 | 409 | 413 | 422)))
    }

    /// Returns the status if the API refused what the reader wants, for a reason that the reader can end; none for missing rights and for failures.
    pub(crate) fn refusal(&self) -> Option<StatusCode> {
        let Self::Api(error) = self else { return None };
        let status = error.status().filter(|status| matches!(status, 400 | 404 | 409 | 413 | 429))?;
        StatusCode::from_u16(status).ok()
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Input(_) => StatusCode::BAD_REQUEST,
            Self::Api(error) => {
                let status = error.status().and_then(|status| StatusCode::from_u16(status).ok());
                status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
        }
    }

    fn title(&self) -> &'static str {
        match self.status() {
            StatusCode::FORBIDDEN => "Not permitted",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "The request cannot be read",
            StatusCode::CONFLICT => "Not now",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            _ => "The page cannot be shown now",
        }
    }

    /// Returns the message of the API, or the rule.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Api(ClientError::Status { msg, .. }) if !msg.is_empty() => msg.clone(),
            other => other.to_string(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if matches!(&self, Self::Api(error) if error.is_unauthorized()) {
            return to_login("/console");
        }
        layout::failure(self.status(), self.title(), &self.text())
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn refusal(status: u16) -> Failure {
        let (code, msg) = ("c".to_owned(), "the reason".to_owned());
        Failure::Api(ClientError::Status { status, code, msg, retry_after: None })
    }

    #[test]
    fn refusals_keep_their_status_and_reason() {
        for status in [400, 403, 404, 409, 429, 503] {
            assert_eq!(refusal(status).into_response().status().as_u16(), status);
            assert_eq!(refusal(status).text(), "the reason");
        }
        let lost = ClientError::Transport { retryable: true, reason: "gone".to_owned() };
        assert_eq!(Failure::from(lost).into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn readers_can_end_some_refusals() {
        let found = |status| refusal(status).refusal().map(|status| status.as_u16());
        for status in [400, 404, 409, 429] {
            assert_eq!(found(status), Some(status));
        }
        for status in [401, 403, 500, 503] {
            assert_eq!(found(status), None, "{status}");
        }
        assert_eq!(Failure::Missing("m".to_owned()).refusal(), None);
    }

    #[test]
    fn session_that_has_ended_leads_to_the_login() {
        let response = refusal(401).into_response();
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[header::LOCATION], "/console/login?next=%2Fconsole");
    }
}
