//! Terms of constraints that are not satisfied.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The owner of a failed constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A constraint of the deployment policy, tested against the node's properties.
    DeploymentPolicy,
    /// A constraint of the service's policy, tested against the node's properties.
    ServicePolicy,
    /// A constraint of the node, tested against the properties of policy and service.
    Node,
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::DeploymentPolicy => "deployment policy",
            Self::ServicePolicy => "service policy",
            Self::Node => "node policy",
        })
    }
}

/// A term that is not satisfied, with the actual value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedClause {
    /// The owner of the constraint.
    pub side: Side,
    /// The whole constraint as written, shortened when it is long.
    pub constraint: String,
    /// The term inside it that is false, shortened like the constraint; the whole constraint when it cannot be read.
    pub clause: String,
    /// Property the term is about, shortened like the constraint; empty when the constraint cannot be read.
    pub property: String,
    /// Actual value; none when the property is missing.
    pub actual: Option<Value>,
}

impl fmt::Display for FailedClause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} wants `{}`", self.side, self.clause)?;
        match &self.actual {
            _ if self.property.is_empty() => formatter.write_str(", which cannot be read"),
            Some(value) => write!(formatter, ", but {} is {value}", self.property),
            None => write!(formatter, ", but {} is missing", self.property),
        }
    }
}
