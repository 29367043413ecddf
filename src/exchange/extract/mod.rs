//! Request parts as typed arguments of handlers.

mod body;
mod caller;
mod path;
mod query;

pub use body::{Body, ListBody, RawBody};
pub use caller::CurrentCaller;
pub use path::Path;
pub use query::Query;
