//! References of an expression: `{nodename}`, `{node.zone}`.

use std::fmt;

/// A name that is resolved for each node.
///
/// # Source
/// Orchestration A5.3.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// `{nodename}` and `{nodeid}`: the id of the node in its organization.
    NodeId,
    /// `{org}`: the organization of the node.
    Organization,
    /// `{arch}`: the architecture of the node.
    Arch,
    /// `{nodetype}`: the type of the node.
    NodeType,
    /// `{hagroup}`: the HA group of the node.
    HaGroup,
    /// `{unit}`: the part of the workload that is placed.
    WorkloadUnit,
    /// `{fd}`: the fault domain of the node.
    FaultDomain,
    /// `{ud}`: the upgrade domain of the node.
    UpgradeDomain,
    /// `{svcname}`: the name of the deployment policy.
    PolicyName,
    /// `{node.X}`: a property of the node's effective deployment policy, built-in ones included.
    Node(String),
    /// `{env.X}`: a property of the deployment policy.
    Environment(String),
    /// `{labels.X}`: an entry of the node's label map.
    Label(String),
    /// Any other name: nothing resolves it.
    Unknown(String),
}

impl Reference {
    /// Returns the reference that stands between two braces; none when the text is not a name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return None;
        }
        let of_prefix = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        Some(match name {
            "nodename" | "nodeid" => Self::NodeId,
            "org" => Self::Organization,
            "arch" => Self::Arch,
            "nodetype" => Self::NodeType,
            "hagroup" => Self::HaGroup,
            "unit" => Self::WorkloadUnit,
            "fd" => Self::FaultDomain,
            "ud" => Self::UpgradeDomain,
            "svcname" => Self::PolicyName,
            _ => of_prefix("node.")
                .map(|rest| Self::Node(rest.to_owned()))
                .or_else(|| of_prefix("env.").map(|rest| Self::Environment(rest.to_owned())))
                .or_else(|| of_prefix("labels.").map(|rest| Self::Label(rest.to_owned())))
                .unwrap_or_else(|| Self::Unknown(name.to_owned())),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeId => formatter.write_str("{nodename}"),
            Self::Organization => formatter.write_str("{org}"),
            Self::Arch => formatter.write_str("{arch}"),
            Self::NodeType => formatter.write_str("{nodetype}"),
            Self::HaGroup => formatter.write_str("{hagroup}"),
            Self::WorkloadUnit => formatter.write_str("{unit}"),
            Self::FaultDomain => formatter.write_str("{fd}"),
            Self::UpgradeDomain => formatter.write_str("{ud}"),
            Self::PolicyName => formatter.write_str("{svcname}"),
            Self::Node(name) => write!(formatter, "{{node.{name}}}"),
            Self::Environment(name) => write!(formatter, "{{env.{name}}}"),
            Self::Label(name) => write!(formatter, "{{labels.{name}}}"),
            Self::Unknown(name) => write!(formatter, "{{{name}}}"),
        }
    }
}
