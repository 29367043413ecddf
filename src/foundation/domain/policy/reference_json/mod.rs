//! JSON as the reference reads and writes it, where that deviates from the standard.
//!
//! Reading ([`from_text`], [`from_value`]): names of members match regardless of case, null means absent. Writing
//! ([`to_text`]): `<`, `>` and `&` are escaped, numbers have the reference's spelling, so that texts can be compared byte by
//! byte. Source: agreement-protocol 3.2 (and the recorded texts).

mod read;
mod write;

pub use read::{from_text, from_value, read_naming};
pub use write::to_text;
pub(crate) use write::{plain_value, properties};

#[cfg(test)]
mod tests;

/// A value that was read, with what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// The value.
    pub value: T,
    /// The members that its structure does not have.
    pub unknown: Vec<Unknown>,
}

/// A member that a structure does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its path, such as `service.arhc`.
    pub path: String,
    /// The member that was probably meant.
    pub meant: Option<&'static str>,
}

/// The error of a member of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{reason}", if path.is_empty() { "" } else { ": " })]
pub struct MemberError {
    /// The path of the member; empty for the whole document.
    pub path: String,
    /// Description of what was expected.
    pub reason: String,
}

/// The error of an invalid text.
#[derive(Debug, thiserror::Error)]
#[error("the text is not the JSON that was expected")]
pub struct DecodeError(#[from] serde_json::Error);

impl DecodeError {
    /// Creates an error from the wanted structure's own checks.
    pub(crate) fn custom(reason: &str) -> Self {
        Self(serde::de::Error::custom(reason))
    }

    /// Returns the human-readable error and its position.
    pub fn reason(&self) -> String {
        self.0.to_string()
    }
}
