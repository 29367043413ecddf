//! A service that a body names and that does not exist.
//!
//! Source: exchange-api 4.8 (validation).

/// A referenced service that does not exist, as clients read it; what is `None` may be any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the following referenced service does not exist in the exchange: org={org}, url={url}, version={}, arch={}",
    .version.unwrap_or("any"),
    .arch.unwrap_or("any")
)]
pub struct MissingService<'a> {
    /// Its organization.
    pub org: &'a str,
    /// Its url.
    pub url: &'a str,
    /// The version.
    pub version: Option<&'a str>,
    /// The architecture.
    pub arch: Option<&'a str>,
}
