//! The API document that a listener serves.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use evenkeel_api::{About, Part, document};

use crate::ApiError;

/// The document of everything that a listener serves, written when it is first asked for.
#[derive(Clone)]
pub(crate) struct ServedDocument {
    about: &'static About,
    parts: Arc<[fn() -> Part]>,
    text: Arc<OnceLock<Bytes>>,
}

impl ServedDocument {
    /// The document of parts of an API.
    pub(crate) fn new(about: &'static About, parts: impl IntoIterator<Item = fn() -> Part>) -> Self {
        ServedDocument { about, parts: parts.into_iter().collect(), text: Arc::default() }
    }

    /// The document as JSON.
    pub(crate) fn text(&self) -> Result<Bytes, ApiError> {
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let parts: Vec<Part> = self.parts.iter().map(|part| part()).collect();
        let written = document(self.about, &parts).and_then(|document| document.to_json());
        let text = written
            .map_err(|error| ApiError::internal(format!("the document cannot be written: {error}")))?;
        Ok(self.text.get_or_init(|| Bytes::from(text)).clone())
    }
}
