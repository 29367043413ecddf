//! Output of a service that runs on the node.

use serde::{Deserialize, Serialize};

/// The requested part of a service's output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceLogQuery {
    /// Name of the service, with or without its organization, or id of an instance.
    pub service: String,
    /// Name of one of its containers; needed when there are several.
    pub container: Option<String>,
    /// Number of last lines; not used with `after`.
    pub lines: Option<usize>,
    /// Position of an earlier part: only later output is returned.
    pub after: Option<String>,
}

/// A part of a service's output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceLog {
    /// Id of the instance.
    pub instance_id: String,
    /// Name of the container.
    pub container: String,
    /// The output as it was written; its last line may be incomplete.
    pub text: String,
    /// Start of the next part, to be sent as `after`.
    pub position: String,
}
