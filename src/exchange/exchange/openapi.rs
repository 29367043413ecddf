//! The exchange's part of the API document, and the document that it serves.

use std::iter;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use evenkeel_api::{About, Part, document};

use crate::{API_VERSION, ApiError, routes};

/// Description of the whole API.
pub const ABOUT: About = About {
    title: "Evenkeel",
    description: "The record of organizations, nodes, services, policies, agreements and HA groups, and the API of the agbot.",
    version: API_VERSION,
};

const EXAMPLES: [&str; 16] = [
    include_str!("examples/administration.json"),
    include_str!("examples/agbot.json"),
    include_str!("examples/audit.json"),
    include_str!("examples/changes.json"),
    include_str!("examples/deployment_policy.json"),
    include_str!("examples/general.json"),
    include_str!("examples/ha_group.json"),
    include_str!("examples/management_policy.json"),
    include_str!("examples/message.json"),
    include_str!("examples/node.json"),
    include_str!("examples/node_part.json"),
    include_str!("examples/organization.json"),
    include_str!("examples/pattern.json"),
    include_str!("examples/search.json"),
    include_str!("examples/service.json"),
    include_str!("examples/user.json"),
];

/// The exchange's operations.
#[must_use]
pub fn part() -> Part {
    Part {
        operations: routes::all().iter().map(crate::operation::Operation::described).collect(),
        examples: &EXAMPLES,
    }
}

/// The document of everything that a listener serves, written when it is first asked for.
#[derive(Clone)]
pub(crate) struct ServedDocument {
    others: Arc<[fn() -> Part]>,
    text: Arc<OnceLock<Bytes>>,
}

impl ServedDocument {
    /// The document of the exchange and of what is served beside it.
    pub(crate) fn beside(others: &[fn() -> Part]) -> ServedDocument {
        ServedDocument { others: Arc::from(others), text: Arc::default() }
    }

    /// The document as JSON.
    pub(crate) fn text(&self) -> Result<Bytes, ApiError> {
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let parts: Vec<Part> = iter::once(part()).chain(self.others.iter().map(|other| other())).collect();
        let written = document(&ABOUT, &parts).and_then(|document| document.to_json());
        let text = written
            .map_err(|error| ApiError::internal(format!("the document cannot be written: {error}")))?;
        Ok(self.text.get_or_init(|| Bytes::from(text)).clone())
    }
}
