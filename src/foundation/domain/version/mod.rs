//! Versions and version ranges of the compatible product, including its quirks.
//!
//! Nothing here uses a version library, because the wire's rules differ from every one: missing groups are zero, leading
//! zeros are allowed and kept, one special word means "without end". Source: agreement-protocol 3.5.

mod range;
mod single;

#[cfg(test)]
mod tests;

pub use range::{VersionRange, is_range_expression};
pub use single::{INFINITY, Version, is_property_version, is_version};

/// The error of an invalid version or version range, or of an impossible change of a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text does not follow the version syntax.
    #[error("\"{text}\" is not a version")]
    NotAVersion { text: String },
    /// The text does not follow the range syntax.
    #[error("\"{text}\" is not a version range: {reason}")]
    NotARange { text: String, reason: &'static str },
    /// The requested end is below the start, or equal to it without both being part of the range.
    #[error("the end {ceiling} leaves nothing of a range that starts at {start}")]
    CeilingBelowStart { ceiling: String, start: String },
}
