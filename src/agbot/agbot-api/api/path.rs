//! The paths of the agbot's API, and what of them rights are about.

use evenkeel_api::{OrgPath, PathParameters, paths};

paths! {
    /// A node in a path.
    pub(super) struct NodePath { org, node }

    /// An HA group in a path.
    pub(super) struct GroupPath { org, hagroup }

    /// A member of an HA group in a path.
    pub(super) struct MemberPath { org, hagroup, node }

    /// An HA group in a path, and the id of an action on it.
    pub(super) struct GroupActionPath { org, hagroup, action }

    /// A deployment policy in a path, and what to do about its rollouts.
    pub(super) struct RolloutPath { org, policy, action }

    /// A request for an approval in a path.
    pub(super) struct ApprovalPath { org, approval }

    /// An agreement in a path.
    pub(super) struct AgreementPath { org, agreement }

    /// A management policy for a member of an HA group in a path.
    pub(super) struct ManagementPath { org, hagroup, node, nmp }

    /// A deployment policy in a path.
    pub(super) struct PolicyPath { org, policy }

    /// A workload unit of a deployment policy in a path.
    pub(super) struct WorkloadUnitPath { org, policy, unit }

    /// A deployment policy in a path, and an action on it, or the id of one.
    pub(super) struct PolicyActionPath { org, policy, action }

    /// A saved view in a path.
    pub(super) struct ViewPath { org, view }

    /// A problem that a person has to resolve, in a path.
    pub(super) struct MatterPath { org, matter }

    /// The instance of a deployment policy on a node in a path.
    pub(super) struct InstancePath { org, policy, node }
}

/// A path of an organization.
pub(super) trait OfOrg: PathParameters {
    /// The organization.
    fn organization(&self) -> &str;
}

/// A path of a node.
pub(super) trait OfNode: OfOrg {
    /// The bare id of the node.
    fn node(&self) -> &str;
}

/// A path of a deployment policy.
pub(super) trait OfPolicy: OfOrg {
    /// The bare id of the policy.
    fn policy(&self) -> &str;

    /// Action on the policy.
    fn action(&self) -> Option<&str> {
        None
    }
}

macro_rules! of {
    ($($path:ident $(: $resource:ident $name:ident $(, $part:ident)?)*;)*) => {$(
        impl OfOrg for $path {
            fn organization(&self) -> &str {
                &self.org
            }
        }

        $(impl $resource for $path {
            fn $name(&self) -> &str {
                &self.$name
            }

            $(fn $part(&self) -> Option<&str> {
                Some(&self.$part)
            })?
        })*
    )*};
}

of! {
    OrgPath;
    NodePath: OfNode node;
    GroupPath;
    MemberPath;
    GroupActionPath;
    RolloutPath: OfPolicy policy;
    ApprovalPath;
    AgreementPath;
    ManagementPath: OfNode node;
    PolicyPath: OfPolicy policy;
    WorkloadUnitPath: OfPolicy policy;
    PolicyActionPath: OfPolicy policy, action;
    ViewPath;
    MatterPath;
    InstancePath: OfNode node: OfPolicy policy;
}
