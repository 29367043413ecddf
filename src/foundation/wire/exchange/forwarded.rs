//! Headers in which an agbot names the client on whose behalf it calls the exchange.
//!
//! The exchange believes them inside the same process, and from an approved agbot that proves itself by its own credentials.

/// Address of the client.
pub const CLIENT_ADDRESS: &str = "x-evenkeel-client-address";

/// Credentials of the agbot, in the form of `Authorization`.
pub const FORWARDED_BY: &str = "x-evenkeel-forwarded-by";
