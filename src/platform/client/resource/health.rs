//! Health of organizations, nodes, HA groups, deployment policies, units and instances. The calls go to the agbot's own address.

use std::fmt;

use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::health::{HealthQuery, HealthReport};
use http::{Method, StatusCode};

use crate::client::encode;
use crate::{Client, ClientError, Path};

/// Subject of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthSubject {
    /// An organization.
    Org {
        /// The organization.
        org: String,
    },
    /// A node.
    Node {
        /// The organization.
        org: String,
        /// The node.
        node: String,
    },
    /// An HA group.
    Group {
        /// The organization.
        org: String,
        /// The group.
        group: String,
    },
    /// A deployment policy.
    Workload {
        /// The organization.
        org: String,
        /// The policy.
        policy: String,
    },
    /// A unit of a deployment policy.
    WorkloadUnit {
        /// The organization.
        org: String,
        /// The policy.
        policy: String,
        /// The unit.
        unit: String,
    },
    /// The instance of a deployment policy on a node.
    Instance {
        /// The organization.
        org: String,
        /// The policy.
        policy: String,
        /// The node; with its organization, if that is another one.
        node: String,
    },
}

impl HealthSubject {
    fn path(&self) -> Path {
        let policies = "business";
        match self {
            Self::Org { org } => Path::org(org, &["health"]),
            Self::Node { org, node } => Path::org(org, &["nodes", node, "health"]),
            Self::Group { org, group } => Path::org(org, &["hagroups", group, "health"]),
            Self::Workload { org, policy } => Path::org(org, &[policies, "policies", policy, "health"]),
            Self::WorkloadUnit { org, policy, unit } => {
                Path::org(org, &[policies, "policies", policy, "units", unit, "health"])
            }
            Self::Instance { org, policy, node } => {
                Path::org(org, &[policies, "policies", policy, "instances", node, "health"])
            }
        }
    }
}

impl fmt::Display for HealthSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Org { org } => write!(formatter, "organization {org}"),
            Self::Node { org, node } => write!(formatter, "node {org}/{node}"),
            Self::Group { org, group } => write!(formatter, "HA group {org}/{group}"),
            Self::Workload { org, policy } => write!(formatter, "deployment policy {org}/{policy}"),
            Self::WorkloadUnit { org, policy, unit } => {
                write!(formatter, "unit {unit} of deployment policy {org}/{policy}")
            }
            Self::Instance { org, policy, node } => {
                write!(formatter, "instance of deployment policy {org}/{policy} on node {node}")
            }
        }
    }
}

impl Client {
    /// Targets of health checks with the agbots that check them, as the agbot sent them; `None` from an agbot that has no such registry.
    pub async fn health_registry_record(&self, org: &str) -> Result<Option<RawJson>, ClientError> {
        self.get(Path::org(org, &["health", "registry"])).await
    }

    /// Health, as the agbot sent it; `None` if the entity does not exist (404).
    pub async fn health_record(
        &self,
        subject: &HealthSubject,
        query: &HealthQuery,
    ) -> Result<Option<RawJson>, ClientError> {
        self.get(subject.path().parameters(query)?).await
    }

    /// Sends a report about an entity; `None` if the entity does not exist (404).
    pub async fn report_health(
        &self,
        subject: &HealthSubject,
        report: &HealthReport,
    ) -> Result<Option<()>, ClientError> {
        let response = self.send(Method::POST, &subject.path(), Some(encode(report)?)).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(())),
            _ => Err(response.unexpected()),
        }
    }
}
