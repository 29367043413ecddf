//! Entities that reports concern.

use std::fmt;

use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId};
use serde::{Deserialize, Serialize};

use crate::workload::{Part, UnitId};

/// An entity that a report concerns.
///
/// # Shape
/// An organization holds nodes, HA groups and workloads; a workload its units; a unit its instances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entity {
    /// An organization.
    Org(OrgId),
    /// A node.
    Node(NodeId),
    /// An HA group.
    Group(GroupId),
    /// A deployment policy.
    Workload(PolicyId),
    /// A workload unit.
    WorkloadUnit(UnitId),
    /// A workload on a node.
    Instance(PolicyId, NodeId),
}

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityKind {
    /// See [`Entity::Org`].
    Org,
    /// See [`Entity::Node`].
    Node,
    /// See [`Entity::Group`].
    Group,
    /// See [`Entity::Workload`].
    Workload,
    /// See [`Entity::WorkloadUnit`].
    WorkloadUnit,
    /// See [`Entity::Instance`].
    Instance,
}

impl EntityKind {
    const ALL: [Self; 6] =
        [Self::Org, Self::Node, Self::Group, Self::Workload, Self::WorkloadUnit, Self::Instance];

    /// Reads the word; none when there is no such kind.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Org => "org",
            Self::Node => "node",
            Self::Group => "hagroup",
            Self::Workload => "workload",
            Self::WorkloadUnit => "unit",
            Self::Instance => "instance",
        }
    }
}

impl Entity {
    /// Returns the kind.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::Org(_) => EntityKind::Org,
            Self::Node(_) => EntityKind::Node,
            Self::Group(_) => EntityKind::Group,
            Self::Workload(_) => EntityKind::Workload,
            Self::WorkloadUnit(_) => EntityKind::WorkloadUnit,
            Self::Instance(..) => EntityKind::Instance,
        }
    }

    /// Returns the organization.
    pub fn org(&self) -> &str {
        match self {
            Self::Org(org) => org.as_str(),
            Self::Node(node) => node.org(),
            Self::Group(group) => group.org(),
            Self::Workload(policy) | Self::Instance(policy, _) => policy.org(),
            Self::WorkloadUnit(unit_id) => unit_id.policy.org(),
        }
    }

    /// Returns the node that it is, or is on.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Node(node) | Self::Instance(_, node) => Some(node),
            _ => None,
        }
    }

    /// Returns the policy that it belongs to.
    pub fn policy(&self) -> Option<&PolicyId> {
        match self {
            Self::Workload(policy) | Self::Instance(policy, _) => Some(policy),
            Self::WorkloadUnit(unit_id) => Some(&unit_id.policy),
            _ => None,
        }
    }

    /// Returns the key of its rows: the word of its kind, its name, and the discriminator of units and
    /// instances of one policy.
    pub fn key(&self) -> (&'static str, &str, &str) {
        let word = self.kind().word();
        match self {
            Self::Org(org) => (word, org.as_str(), ""),
            Self::Node(node) => (word, node.as_str(), ""),
            Self::Group(group) => (word, group.as_str(), ""),
            Self::Workload(policy) => (word, policy.as_str(), ""),
            Self::Instance(policy, node) => (word, policy.as_str(), node.as_str()),
            Self::WorkloadUnit(UnitId { policy, part: Part::All }) => (word, policy.as_str(), ""),
            Self::WorkloadUnit(UnitId { policy, part: Part::Group(group) }) => {
                (word, policy.as_str(), group.as_str())
            }
        }
    }

    /// Returns the entity of a key; none when there is no such kind.
    pub fn from_key(kind: &str, name: &str, part: &str) -> Option<Self> {
        Some(match EntityKind::from_word(kind)? {
            EntityKind::Org => Self::Org(name.parse().ok()?),
            EntityKind::Node => Self::Node(NodeId::from_text(name)),
            EntityKind::Group => Self::Group(GroupId::from_text(name)),
            EntityKind::Workload => Self::Workload(PolicyId::from_text(name)),
            EntityKind::WorkloadUnit => {
                let part = if part.is_empty() { Part::All } else { Part::Group(GroupId::from_text(part)) };
                Self::WorkloadUnit(UnitId { policy: PolicyId::from_text(name), part })
            }
            EntityKind::Instance => Self::Instance(PolicyId::from_text(name), NodeId::from_text(part)),
        })
    }
}

/// The id that the API shows: `org`, `org/name`, `org/policy/unit` or `org/policy@node`.
impl fmt::Display for Entity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Org(org) => formatter.write_str(org.as_str()),
            Self::Node(node) => formatter.write_str(node.as_str()),
            Self::Group(group) => formatter.write_str(group.as_str()),
            Self::Workload(policy) => formatter.write_str(policy.as_str()),
            Self::WorkloadUnit(unit_id) => write!(formatter, "{}/{}", unit_id.policy, unit_id.name()),
            Self::Instance(policy, node) if node.org() == policy.org() => {
                write!(formatter, "{policy}@{}", node.name())
            }
            Self::Instance(policy, node) => write!(formatter, "{policy}@{node}"),
        }
    }
}
