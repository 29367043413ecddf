//! One table of routes for each part of the API: the router and the API document are made from the same rows.
//!
//! The exchange and the agbot keep their tables beside their handlers; this crate defines the rows, the pipeline from a request to its
//! handler, the conversion of rows to a document, and pages of long lists. Who decides about a right is no matter of this crate.

mod audit;
mod content;
mod document;
mod endpoint;
mod examples;
mod general;
mod handler;
mod input;
mod pages;
mod parameter;
mod path;
mod refusal;
mod request;
mod response;
mod selected_page;

pub use audit::{AuditFacts, AuditedOperation};
pub use content::Content;
pub use document::{About, Part, document};
pub use endpoint::{DocumentedResponse, Effect, Endpoint, Operation, RequiredAccess, endpoint};
pub use examples::Examples;
pub use handler::{Authorized, Call, Handler, Op, Run, carry_out, delete, get, patch, post, put};
pub use input::{Input, NoInput, Parameters, Query};
pub use pages::{Page, PageError};
pub use parameter::MAX_ID;
pub use path::{OrgPath, PartPath, PathParameters, PathValues, Positions, ResourcePath};
pub use refusal::{CodeForm, Refusal};
pub use request::{ApiRequest, BodyKind};
pub use response::{
    Accepted, Created, Documented, DocumentedBody, Either, List, ListOf, Listing, NoContent, SearchResult,
    Text, WholeList,
};
pub use selected_page::{ElementFilter, ListShape, MAX_COUNT, MAX_EXAMINED, PageSelection};

/// Start of the paths of the whole API.
pub const PREFIX: &str = "/v1";
