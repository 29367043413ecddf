//! One table of routes for each part of the API: the router and the API document are made from the same rows.
//!
//! The exchange and the agbot keep their tables beside their handlers; this crate defines the rows, their
//! conversion to a document, and pages of long lists.

mod content;
mod document;
mod endpoint;
mod examples;
mod general;
mod pages;
mod parameter;
mod response;

pub use content::Content;
pub use document::{About, Part, document};
pub use endpoint::{DocumentedResponse, Endpoint, Operation, RequiredAccess, endpoint};
pub use examples::Examples;
pub use pages::{Page, PageError};
pub use parameter::MAX_ID;
pub use response::{
    Accepted, Created, Documented, DocumentedBody, Either, List, ListOf, Listing, NoContent, SearchResult,
    Text, WholeList,
};

/// Start of the paths of the whole API.
pub const PREFIX: &str = "/v1";
