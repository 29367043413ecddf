//! Kinds of documents that keep revisions, as addresses, sentences and commands name them.

use evenkeel_client::{DocumentPath, Resource};
use evenkeel_ids::NodeId;

use crate::address::address_of;
use crate::layout::Tab;

/// A kind of document that keeps revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RevisableKind {
    DeploymentPolicy,
    ManagementPolicy,
    Service,
    ServicePolicy,
    Pattern,
    HaGroup,
    NodePolicy,
    NodeSettings,
    OrgSettings,
}

/// The words for a kind.
struct Words {
    /// Segment of addresses.
    segment: &'static str,
    /// Title of the list.
    plural: &'static str,
    /// The words before the name of one.
    noun: &'static str,
}

impl RevisableKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::DeploymentPolicy,
        Self::Service,
        Self::ServicePolicy,
        Self::Pattern,
        Self::ManagementPolicy,
        Self::HaGroup,
        Self::NodePolicy,
        Self::NodeSettings,
        Self::OrgSettings,
    ];

    fn words(self) -> Words {
        let words = |segment, plural, noun| Words { segment, plural, noun };
        match self {
            Self::DeploymentPolicy => words("policies", "Deployment policies", "deployment policy"),
            Self::ManagementPolicy => {
                words("management-policies", "Management policies", "management policy")
            }
            Self::Service => words("services", "Services", "service"),
            Self::ServicePolicy => words("service-policies", "Policies of services", "policy of service"),
            Self::Pattern => words("patterns", "Patterns", "pattern"),
            Self::HaGroup => words("groups", "HA groups", "HA group"),
            Self::NodePolicy => words("node-policies", "Policies of nodes", "policy of node"),
            Self::NodeSettings => {
                words("node-settings", "Orchestration settings of nodes", "orchestration settings of node")
            }
            Self::OrgSettings => {
                words("settings", "Settings of the organization", "settings of organization")
            }
        }
    }

    /// Returns the kind that a segment of an address names.
    pub(crate) fn find(segment: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.segment() == segment)
    }

    pub(crate) fn segment(self) -> &'static str {
        self.words().segment
    }

    pub(crate) fn plural(self) -> &'static str {
        self.words().plural
    }

    /// Returns the resource whose names its documents have; none when the organization has one of the kind.
    pub(crate) fn resource(self) -> Option<Resource> {
        match self {
            Self::DeploymentPolicy => Some(Resource::DeploymentPolicy),
            Self::ManagementPolicy => Some(Resource::ManagementPolicy),
            Self::Service | Self::ServicePolicy => Some(Resource::Service),
            Self::Pattern => Some(Resource::Pattern),
            Self::HaGroup => Some(Resource::HaGroup),
            Self::NodePolicy | Self::NodeSettings => Some(Resource::Node),
            Self::OrgSettings => None,
        }
    }

    pub(crate) fn tab(self) -> Tab {
        match self {
            Self::HaGroup => Tab::Groups,
            Self::NodePolicy | Self::NodeSettings => Tab::Nodes,
            _ => Tab::Policies,
        }
    }
}

/// A document that keeps revisions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Revisable {
    pub(crate) kind: RevisableKind,
    pub(crate) org: String,
    /// Name of the document, or of the node or service that it belongs to.
    pub(crate) name: String,
}

impl Revisable {
    pub(crate) fn new(kind: RevisableKind, org: &str, name: &str) -> Self {
        Self { kind, org: org.to_owned(), name: name.to_owned() }
    }

    /// Returns the document as sentences name it.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.words().noun, self.name)
    }

    /// Returns the address below which its pages are.
    pub(crate) fn href(&self) -> String {
        let Self { kind, org, name } = self;
        address_of(org, &["documents", kind.segment(), name])
    }

    /// Returns the address of the page that the object of the document has; empty if it has none.
    pub(crate) fn object_href(&self) -> String {
        let path = match self.kind {
            RevisableKind::DeploymentPolicy => "policies",
            RevisableKind::HaGroup => "groups",
            RevisableKind::NodePolicy | RevisableKind::NodeSettings => "nodes",
            _ => return String::new(),
        };
        address_of(&self.org, &[path, &self.name])
    }

    pub(crate) fn path(&self) -> DocumentPath {
        let (org, name) = (self.org.clone(), self.name.clone());
        let node = || NodeId::new(&self.org, &self.name);
        match self.kind {
            RevisableKind::ServicePolicy => DocumentPath::ServicePolicy(org, name),
            RevisableKind::NodePolicy => DocumentPath::NodePolicy(node()),
            RevisableKind::NodeSettings => DocumentPath::NodeSettings(node()),
            RevisableKind::OrgSettings => DocumentPath::OrgSettings(org),
            RevisableKind::DeploymentPolicy => DocumentPath::Record(Resource::DeploymentPolicy, org, name),
            RevisableKind::ManagementPolicy => DocumentPath::Record(Resource::ManagementPolicy, org, name),
            RevisableKind::Service => DocumentPath::Record(Resource::Service, org, name),
            RevisableKind::Pattern => DocumentPath::Record(Resource::Pattern, org, name),
            RevisableKind::HaGroup => DocumentPath::Record(Resource::HaGroup, org, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_an_address_and_words_of_its_own() {
        let segments: BTreeSet<&str> = RevisableKind::ALL.into_iter().map(RevisableKind::segment).collect();
        let titles: BTreeSet<&str> = RevisableKind::ALL.into_iter().map(RevisableKind::plural).collect();
        assert_eq!((segments.len(), titles.len()), (RevisableKind::ALL.len(), RevisableKind::ALL.len()));
        for kind in RevisableKind::ALL {
            assert_eq!(RevisableKind::find(kind.segment()), Some(kind));
            let document = Revisable::new(kind, "o", "x y");
            assert!(document.href().starts_with("/console/orgs/o/documents/"), "{kind:?}");
        }
        assert_eq!(RevisableKind::find("policy"), None);
    }

    #[test]
    fn addresses_escape_names() {
        let policy = Revisable::new(RevisableKind::DeploymentPolicy, "o", "<a>/b");
        assert_eq!(policy.href(), "/console/orgs/o/documents/policies/%3Ca%3E%2Fb");
        assert_eq!(policy.object_href(), "/console/orgs/o/policies/%3Ca%3E%2Fb");
        assert_eq!(Revisable::new(RevisableKind::Pattern, "o", "p").object_href(), "");
    }
}
