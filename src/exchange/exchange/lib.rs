//! The exchange: the REST record of who and what exists, wire-compatible with the Open Horizon exchange.
//!
//! Each [`operation`] is declared by one row beside its handler under [`routes`]; a handler takes the permission that it needs. Rules
//! of permission live in `evenkeel_access`, SQL in `evenkeel_exchange_store`, JSON shapes in `evenkeel_wire::exchange`.

pub mod error;
pub mod feed;
pub mod openapi;
pub mod operation;
pub mod routes;
pub mod state;

mod agent_run;
mod api;
mod audit;
mod auth;
mod configuration;
mod conversation;
mod dot_segments;
mod extract;
mod heartbeat;
mod housekeeping;
mod limit;
mod mailbox_usage;
mod notice;
mod org_settings;
mod permission;
mod request_times;
mod seed;
mod settings;
mod transaction;

pub use auth::SecretHasher;
pub use error::ApiError;
pub use evenkeel_exchange_store::document_revision::RevisionLimits;
pub use evenkeel_exchange_store::message::Volume;
pub use evenkeel_http_server::limit::Rate;
pub use evenkeel_oidc::{GroupRole, OidcSettings, Role as OidcRole};
pub use limit::RateLimits;
pub use settings::{
    DocumentBytes, ExchangeSettings, InvalidConstraints, MailboxLimits, RevisionSettings, WeakIdentities,
};
pub use state::{Exchange, StartError};

/// Version of the compatible API that clients compare with their minimum.
pub const API_VERSION: &str = "2.154.0";
