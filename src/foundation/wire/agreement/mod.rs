//! The messages by which an agbot and a node agree, and how they travel (agreement protocol 1 and 2).

pub mod envelope;
pub mod keys;
pub mod message;
pub mod reason;

pub use envelope::{EnvelopeError, ReplayGuard, open, seal};
pub use keys::{KeyError, PrivateKey, PublicKey};
pub use message::{Body, Message, PROTOCOL};
