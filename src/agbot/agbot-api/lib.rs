//! The agbot's own API: its operations, the rights of their callers, and what is shown of the model.
//!
//! It uses the handles of a running agbot and never the other way round: an agbot decides the same without an API. The caller is known
//! to the exchange only, which is asked with its credentials.

mod api;
mod shown;

pub use api::{AgbotApi, LoginGuard, part};
