//! Rights to the agbot's API: values that only a check can make, so that a handler which takes one cannot run unchecked.

use evenkeel_api::RequiredAccess;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use evenkeel_wire::exchange::node::NodeResponse;
use http::{HeaderMap, StatusCode};

use super::actions::note_denied;
use super::caller::{
    SeenNodes, calling_node, claimed_name, find_policy, may_administrate, may_operate, may_read_policies,
    missing_policy, operated_nodes, own_node, seen_nodes, seen_nodes_of, sees_counts, served_policy,
    written_nodes,
};
use super::pipeline::{Names, Op, Refusal};

/// A right as a type.
pub(super) trait Right: Send + Sync + 'static {
    /// Its name in the rows of operations.
    const ACCESS: RequiredAccess;

    /// True if operations under this right leave audit records.
    const IS_AUDITED: bool = false;

    /// Facts about the caller that the check returns.
    type Proof: Send + Sync;

    /// Asks the exchange with the caller's credentials.
    ///
    /// # Errors
    /// 400, 401, 403 or 429 as the exchange responds, 503 when it does not respond.
    fn check<P: Names>(
        op: &Op<P>,
        headers: &HeaderMap,
    ) -> impl Future<Output = Result<Self::Proof, Refusal>> + Send;
}

/// Proof that a caller has the right `R`, with what the check found out.
pub(super) struct Permission<R: Right>(R::Proof);

impl<R: Right> Permission<R> {
    /// Checks the caller of a request.
    ///
    /// # Errors
    /// See [`Right::check`].
    pub(super) async fn of<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<Permission<R>, Refusal> {
        Ok(Permission(R::check(op, headers).await?))
    }

    /// Takes what the check found out.
    pub(super) fn into_proof(self) -> R::Proof {
        self.0
    }
}

impl Permission<right::OrgAdminister> {
    /// The name of the administrator.
    pub(super) fn actor(&self) -> &str {
        &self.0
    }
}

/// A deployment policy that the caller may read, and the nodes of its organizations that the caller may read.
pub(super) struct ReadPolicy {
    /// The policy, as the exchange has it; none after it was deleted, while instances of it are left.
    pub(super) policy: Option<DeploymentPolicyResponse>,
    /// The nodes.
    pub(super) seen: SeenNodes,
}

/// A deployment policy that the caller may read, unless it is not there yet, and the nodes that the caller may read of those that it
/// concerns.
pub(super) struct PlannedPolicy {
    /// The policy, as the exchange has it.
    pub(super) policy: Option<DeploymentPolicyResponse>,
    /// The nodes.
    pub(super) seen: SeenNodes,
}

pub(super) mod right {
    use super::{
        DeploymentPolicyResponse, HeaderMap, Names, NodeResponse, Op, PlannedPolicy, ReadPolicy, Refusal,
        RequiredAccess, Right, SeenNodes, StatusCode,
    };

    /// To change rollouts and claims of an organization: its administrators and root.
    pub(in crate::api) enum OrgAdminister {}

    /// To read of the nodes of an organization that the exchange shows to the caller.
    pub(in crate::api) enum NodesRead {}

    /// To read the status of a deployment policy: accounts that may read the policy.
    pub(in crate::api) enum PolicyRead {}

    /// To plan writes of a deployment policy: accounts that may read the policy, or would if it existed.
    pub(in crate::api) enum PolicyPlan {}

    /// To plan writes of what deployment policies of an organization depend on: callers that may read its policies, for what they may
    /// write.
    pub(in crate::api) enum StopsPlan {}

    /// To act on a deployment policy: its owner, administrators of its organization and root.
    pub(in crate::api) enum PolicyOperate {}

    /// To act on the nodes of an organization: its administrators and root on all, users on those that they own.
    pub(in crate::api) enum NodesOperate {}

    /// To act as the node in the path.
    pub(in crate::api) enum NodeItself {}

    /// To report about the node in the path: the node, administrators of its organization and root.
    pub(in crate::api) enum NodeReport {}

    /// To report about the instance of a policy on a node: the node, and users who may act on the policy.
    pub(in crate::api) enum InstanceReport {}

    /// To read the health of the agbot: everyone, also without credentials.
    pub(in crate::api) enum HealthRead {}

    impl Right for OrgAdminister {
        const ACCESS: RequiredAccess = RequiredAccess::Right("OrgAdminister");

        const IS_AUDITED: bool = true;

        type Proof = String;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<String, Refusal> {
            super::may_administrate(&op.context, headers, op.path.org().unwrap_or_default()).await
        }
    }

    impl Right for NodesRead {
        const ACCESS: RequiredAccess = RequiredAccess::Right("NodesRead");

        type Proof = SeenNodes;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<SeenNodes, Refusal> {
            super::seen_nodes(&op.context, headers, op.path.org().unwrap_or_default()).await
        }
    }

    impl Right for PolicyRead {
        const ACCESS: RequiredAccess = RequiredAccess::Right("PolicyRead");

        type Proof = ReadPolicy;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<ReadPolicy, Refusal> {
            let (org, policy) = (op.path.org().unwrap_or_default(), op.path.policy().unwrap_or_default());
            let found = super::find_policy(&op.context, headers, org, policy).await?;
            let is_left = || op.context.model().workload(&evenkeel_ids::PolicyId::new(org, policy)).is_some();
            if found.is_none() && !is_left() {
                return Err(super::missing_policy(org, policy));
            }
            if found.is_none() {
                super::may_read_policies(&op.context, headers, org).await?;
            }
            let orgs = super::super::orchestration::node_orgs(&op.context, org, policy);
            let seen = super::seen_nodes_of(&op.context, headers, orgs).await?;
            Ok(ReadPolicy { policy: found, seen })
        }
    }

    impl Right for PolicyPlan {
        const ACCESS: RequiredAccess = RequiredAccess::Right("PolicyRead");

        type Proof = PlannedPolicy;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<PlannedPolicy, Refusal> {
            let (org, policy) = (op.path.org().unwrap_or_default(), op.path.policy().unwrap_or_default());
            let found = super::find_policy(&op.context, headers, org, policy).await?;
            if found.is_none() {
                super::may_read_policies(&op.context, headers, org).await?;
            }
            let orgs = super::super::plan::node_orgs(&op.context, org, policy).await?;
            let seen = super::seen_nodes_of(&op.context, headers, orgs).await?;
            Ok(PlannedPolicy { policy: found, seen })
        }
    }

    impl Right for StopsPlan {
        const ACCESS: RequiredAccess = RequiredAccess::Right("PolicyRead");

        /// The nodes of the organization that the caller may write: all for those who administrate it.
        type Proof = SeenNodes;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<SeenNodes, Refusal> {
            let org = op.path.org().unwrap_or_default();
            super::may_read_policies(&op.context, headers, org).await?;
            super::written_nodes(&op.context, headers, org).await
        }
    }

    impl Right for PolicyOperate {
        const ACCESS: RequiredAccess = RequiredAccess::Right("PolicyOperate");

        const IS_AUDITED: bool = true;

        /// The caller's name, and the policy.
        type Proof = (String, DeploymentPolicyResponse);

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<Self::Proof, Refusal> {
            let (org, policy) = (op.path.org().unwrap_or_default(), op.path.policy().unwrap_or_default());
            let outcome = super::may_operate(&op.context, headers, org, policy).await;
            if let (Err(Refusal::Message(StatusCode::FORBIDDEN, why)), Some(action)) =
                (&outcome, op.path.action())
            {
                let caller = super::claimed_name(headers);
                super::note_denied(&op.context, caller, (org, policy), (action, why)).await?;
            }
            outcome
        }
    }

    impl Right for NodesOperate {
        const ACCESS: RequiredAccess = RequiredAccess::Right("NodesOperate");

        const IS_AUDITED: bool = true;

        /// The caller's name, and the nodes.
        type Proof = (String, SeenNodes);

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<Self::Proof, Refusal> {
            super::operated_nodes(&op.context, headers, op.path.org().unwrap_or_default()).await
        }
    }

    impl Right for NodeItself {
        const ACCESS: RequiredAccess = RequiredAccess::Right("NodeItself");

        type Proof = NodeResponse;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<NodeResponse, Refusal> {
            let org = op.path.org().unwrap_or_default();
            super::own_node(&op.context, headers, org, op.path.node().unwrap_or_default()).await
        }
    }

    impl Right for NodeReport {
        const ACCESS: RequiredAccess = RequiredAccess::Right("NodeReport");

        const IS_AUDITED: bool = true;

        /// The caller's name.
        type Proof = String;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<String, Refusal> {
            let (org, node) = (op.path.org().unwrap_or_default(), op.path.node().unwrap_or_default());
            match super::calling_node(&op.context, headers, org, node).await? {
                Some(name) => Ok(name),
                None => super::may_administrate(&op.context, headers, org).await,
            }
        }
    }

    impl Right for InstanceReport {
        const ACCESS: RequiredAccess = RequiredAccess::Right("InstanceReport");

        const IS_AUDITED: bool = true;

        /// The caller's name.
        type Proof = String;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<String, Refusal> {
            let (org, policy) = (op.path.org().unwrap_or_default(), op.path.policy().unwrap_or_default());
            match super::calling_node(&op.context, headers, org, op.path.node().unwrap_or_default()).await? {
                Some(name) => {
                    super::served_policy(&op.context, org, policy).await?;
                    Ok(name)
                }
                None => Ok(super::may_operate(&op.context, headers, org, policy).await?.0),
            }
        }
    }

    impl Right for HealthRead {
        const ACCESS: RequiredAccess = RequiredAccess::Public;

        /// True if the exchange shows its status counts to the caller.
        type Proof = bool;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<bool, Refusal> {
            Ok(super::sees_counts(&op.context, headers).await)
        }
    }
}
