//! Shapes of requests, answers, the change feed and agreement messages, their codec and their signatures.
//!
//! Pure: nothing here reads a clock, a file or a socket; randomness comes in as an argument.

pub mod agbot;
pub mod agreement;
pub mod base64_text;
pub mod exchange;
mod json_fields;
mod pem_block;
mod pss;
pub mod signature;

#[cfg(test)]
mod hostile_input;
#[cfg(test)]
mod vector_file;
