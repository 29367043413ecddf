//! The exchange's part of the API document, and the document that it serves.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use evenkeel_api::{About, Part, document};

use crate::{API_VERSION, ApiError, routes};

/// What the document says of the whole API.
pub const ABOUT: About = About {
    title: "Evenkeel",
    description: "The record of organizations, nodes, services, policies, agreements and HA groups, and what the agbot does with it.",
    version: API_VERSION,
};

/// The exchange's operations.
#[must_use]
pub fn part() -> Part {
    Part {
        operations: routes::all().iter().map(crate::endpoint::Endpoint::described).collect(),
        examples: include_str!("examples.json"),
    }
}

/// The document of everything that a listener serves, written when it is first asked for.
#[derive(Clone)]
pub(crate) struct Served {
    parts: Arc<Vec<Part>>,
    text: Arc<OnceLock<Bytes>>,
}

impl Served {
    /// The document of the exchange and of what is served beside it.
    pub(crate) fn beside(others: Vec<Part>) -> Served {
        let mut parts = vec![part()];
        parts.extend(others);
        Served { parts: Arc::new(parts), text: Arc::default() }
    }

    /// The document as JSON.
    pub(crate) fn text(&self) -> Result<Bytes, ApiError> {
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let written = document(&ABOUT, &self.parts).and_then(|document| document.to_json());
        let text = written
            .map_err(|error| ApiError::internal(format!("the document cannot be written: {error}")))?;
        Ok(self.text.get_or_init(|| Bytes::from(text)).clone())
    }
}
