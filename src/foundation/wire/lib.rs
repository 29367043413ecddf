//! Shapes of requests, responses, the change feed and agreement messages, their codec and their signatures.
//!
//! Pure: nothing here reads a clock, a file or a socket; randomness comes in as an argument.

pub mod agbot;
pub mod agent;
pub mod agreement;
pub mod base64_text;
pub mod exchange;
mod json_fields;
pub mod page;
mod pem_block;
mod pss;
mod raw_json;
pub mod signature;

pub use raw_json::RawJson;

#[cfg(test)]
mod hostile_input;
#[cfg(test)]
mod vector_file;
