//! The error of an invalid id.

/// The error of an invalid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The organization is missing or empty, or contains a slash.
    #[error("\"{text}\" does not begin with an organization")]
    MissingOrganization { text: String },
    /// Nothing follows the organization.
    #[error("\"{text}\" has no name after the organization")]
    MissingName { text: String },
}
