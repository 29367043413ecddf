//! JSON as the reference reads and writes it, where that differs from the usual.
//!
//! Reading ([`from_text`], [`from_value`]): names of members match without regard to case, null means "not there". Writing
//! ([`to_text`]): `<`, `>` and `&` are escaped, numbers have the reference's spelling, so that a text can be compared byte by
//! byte. Source: agreement protocol, "Internal policy object", and the recorded texts.

mod read;
mod write;

pub use read::{from_text, from_value};
pub use write::to_text;
pub(crate) use write::{plain_value, properties};

#[cfg(test)]
mod tests;

/// Says why a text was not understood.
#[derive(Debug, thiserror::Error)]
#[error("the text is not the JSON that was expected")]
pub struct DecodeError(#[from] serde_json::Error);

impl DecodeError {
    /// Makes an error of what only the wanted structure can know.
    pub(crate) fn custom(reason: &str) -> Self {
        Self(serde::de::Error::custom(reason))
    }

    /// Returns in words what is wrong and where.
    pub fn reason(&self) -> String {
        self.0.to_string()
    }
}
