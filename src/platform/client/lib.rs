//! Typed client of the exchange's and the agbot's APIs, over HTTP or directly into a router of the same process.
//!
//! Every other role talks to the hub through this crate, so that each runs alone and against any other
//! implementation of the API. Secrets never reach the log.

mod client;
mod credentials;
mod error;
mod path;
mod probe;
mod resource;
mod retry;
mod run_header;
mod transport;

pub use client::{Client, RawResponse, Refusal, Written};
pub use credentials::Credentials;
pub use error::ClientError;
pub use path::Path;
pub use probe::{
    AddressRule, AllowedAddresses, Networks, ProbeClient, ProbeGuard, ProbeSchedule, RequestError,
    pause_after,
};
pub use resource::{
    ApprovalDecision, ConfigStateChange, DocumentPath, HealthSubject, MessagePage, NodeChange, ReasonRecords,
    Records, RecordsPage, Resource, RolloutRecords, TaskReported, Unregistered,
};
pub use retry::RetryDelay;
pub use run_header::RunHeader;
pub use transport::{HttpSettings, Observer, Pieces, Transport, is_plain_off_loopback};

#[cfg(test)]
mod tests;
