//! Keys of resources in lists over several organizations.

/// Organization and bare id of a resource: where a page of a list over organizations ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceKey {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub id: String,
}
