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
    /// Returns the subject that evaluations name by kind and id; `None` for a kind or an id that is unknown.
    ///
    /// # Shape
    /// The policy of a pattern's service has slashes in its name: a unit is what follows the last one. The node of an instance has its organization if
    /// that is another one.
    #[must_use]
    pub fn of(entity: &str, id: &str) -> Option<Self> {
        if entity == "org" {
            return Some(Self::Org { org: id.to_owned() });
        }
        let (org, name) = id.split_once('/')?;
        let (org, name) = (org.to_owned(), name.to_owned());
        Some(match entity {
            "node" => Self::Node { org, node: name },
            "hagroup" => Self::Group { org, group: name },
            "workload" => Self::Workload { org, policy: name },
            "unit" => {
                let (policy, unit) = name.rsplit_once('/')?;
                Self::WorkloadUnit { org, policy: policy.to_owned(), unit: unit.to_owned() }
            }
            "instance" => {
                let (policy, node) = name.split_once('@')?;
                Self::Instance { org, policy: policy.to_owned(), node: node.to_owned() }
            }
            _ => return None,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read_from_the_ids_of_evaluations() {
        for (entity, id, text) in [
            ("org", "o", "organization o"),
            ("node", "o/n", "node o/n"),
            ("hagroup", "o/g", "HA group o/g"),
            ("workload", "o/cam", "deployment policy o/cam"),
            ("workload", "o/pattern/edge/cam", "deployment policy o/pattern/edge/cam"),
            ("unit", "o/cam/g1", "unit g1 of deployment policy o/cam"),
            ("unit", "o/pattern/edge/cam/all", "unit all of deployment policy o/pattern/edge/cam"),
            ("instance", "o/cam@n1", "instance of deployment policy o/cam on node n1"),
            ("instance", "o/cam@other/n1", "instance of deployment policy o/cam on node other/n1"),
            (
                "instance",
                "o/pattern/edge/cam@other/n1",
                "instance of deployment policy o/pattern/edge/cam on node other/n1",
            ),
        ] {
            let subject = HealthSubject::of(entity, id).map(|subject| subject.to_string());
            assert_eq!(subject.as_deref(), Some(text), "{entity} {id}");
        }
        for (entity, id) in [("planet", "o/n"), ("node", "n"), ("unit", "o/cam"), ("instance", "o/cam")] {
            assert_eq!(HealthSubject::of(entity, id), None, "{entity} {id}");
        }
    }
}
