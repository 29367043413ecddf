//! Rights to the agbot's API: values that only a check can make, so that a handler which takes one cannot run unchecked.

use evenkeel_api::{Authorized, PathParameters, Refusal, RequiredAccess};
use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use evenkeel_wire::exchange::node::NodeResponse;

use super::actions::note_denied;
use super::caller::{
    SeenStatus, claimed_name, find_policy, is_node, may_administrate, may_inspect, may_operate,
    may_operate_rollouts, may_read_policies, missing_policy, operated_nodes, own_node, seen_nodes,
    seen_nodes_of, seen_nodes_of_policies, seen_status, served_policy, written_nodes,
};
use super::login;
use super::orchestration::node_of;
use super::path::{InstancePath, NodePath, OfNode, OfOrg, OfPolicy};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::SeenNodes;

/// A right as a type.
pub(super) trait Right: Send + Sync + 'static {
    /// Its name in the rows of operations.
    const ACCESS: RequiredAccess;

    /// Facts about the caller that the check returns.
    type Proof: Send + Sync;
}

/// A right to what the path `P` names.
pub(super) trait RightTo<P>: Right {
    /// Asks the exchange with the caller's credentials.
    ///
    /// # Errors
    /// 400, 401, 403 or 429 as the exchange responds, 503 when it does not respond.
    fn check(request: &AgbotRequest, path: &P) -> impl Future<Output = Result<Self::Proof, Refusal>> + Send;
}

/// Proof that a caller has the right `R`, with what the check found out.
pub(super) struct Permission<R: Right>(R::Proof);

impl<R: RightTo<P>, P: PathParameters> Authorized<AgbotRequest, P> for Permission<R> {
    const ACCESS: RequiredAccess = R::ACCESS;

    /// Within the limits on failed logins.
    async fn ask<Q: Sync>(op: &Op<P, Q>) -> Result<Permission<R>, Refusal> {
        let guard = op.login_guard.as_deref();
        if let Some(guard) = guard {
            login::check(guard, &op.headers)?;
        }
        let outcome = R::check(&op.request, &op.path).await;
        let is_login = !matches!(R::ACCESS, RequiredAccess::Public);
        if let Some(guard) = guard.filter(|_| is_login) {
            login::count(guard, &op.headers, outcome.as_ref());
        }
        if let Some(client) = op.client.as_ref().filter(|_| is_login && outcome.is_ok()) {
            client.note_login();
        }
        outcome.map(Permission)
    }
}

impl<R: Right> Permission<R> {
    /// Takes what the check found out.
    pub(super) fn into_proof(self) -> R::Proof {
        self.0
    }
}

impl<R: Right<Proof = String>> Permission<R> {
    /// The name of the caller.
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
        AgbotRequest, DeploymentPolicyResponse, InstancePath, NodePath, NodeResponse, OfNode, OfOrg,
        OfPolicy, PlannedPolicy, ReadPolicy, Refusal, RequiredAccess, Right, RightTo, SeenNodes, SeenStatus,
    };

    macro_rules! rights {
        ($($(#[$about:meta])* $name:ident: $access:expr => $proof:ty;)*) => {$(
            $(#[$about])*
            pub(in crate::api) enum $name {}

            impl Right for $name {
                const ACCESS: RequiredAccess = $access;

                type Proof = $proof;
            }
        )*};
    }

    rights! {
        /// To change rollouts and claims of an organization: its administrators and root. Proven by the caller's name.
        OrgAdminister: RequiredAccess::Right("OrgAdminister") => String;

        /// To read what its administrators read of an organization: they, root, and its viewers and deployers.
        OrgInspect: RequiredAccess::Right("OrgInspect") => ();

        /// To change the rollouts of a deployment policy: administrators of its organization and root, and deployers whose role includes the
        /// policy. Proven by the caller's name.
        RolloutOperate: RequiredAccess::Right("RolloutOperate") => String;

        /// To read of the nodes of an organization that the exchange shows to the caller. Proven by these.
        NodesRead: RequiredAccess::Right("NodesRead") => SeenNodes;

        /// To read what the agbot did for the policies of an organization, as far as it concerns nodes that the exchange shows to the
        /// caller. Proven by these.
        HistoryRead: RequiredAccess::Right("NodesRead") => SeenNodes;

        /// To read the status of a deployment policy: accounts that may read the policy.
        PolicyRead: RequiredAccess::Right("PolicyRead") => ReadPolicy;

        /// To plan writes of a deployment policy: accounts that may read the policy, or would if it existed.
        PolicyPlan: RequiredAccess::Right("PolicyRead") => PlannedPolicy;

        /// To plan writes of what deployment policies of an organization depend on: callers that may read its policies, for what they may
        /// write. Proven by the nodes of the organization that the caller may write: all for those who administrate it.
        StopsPlan: RequiredAccess::Right("PolicyRead") => SeenNodes;

        /// To request approvals of writes in an organization and to apply them: callers that may read its policies. The exchange decides which
        /// users may, and about which writes.
        PlanApprovalWrite: RequiredAccess::Right("PlanApprovalWrite") => ();

        /// To act on a deployment policy: its owner, administrators of its organization and root, and deployers whose role includes it. Proven by the caller's name and the policy.
        PolicyOperate: RequiredAccess::Right("PolicyOperate") => (String, DeploymentPolicyResponse);

        /// To act on the nodes of an organization: its administrators and root on all, users on those that they own. Proven by the caller's
        /// name and these nodes.
        NodesOperate: RequiredAccess::Right("NodesOperate") => (String, SeenNodes);

        /// To act as the node in the path.
        NodeItself: RequiredAccess::Right("NodeItself") => NodeResponse;

        /// To report about the node in the path: the node, administrators of its organization and root. Proven by the caller's name.
        NodeReport: RequiredAccess::Right("NodeReport") => String;

        /// To report about the instance of a policy on a node: the node, and users who may act on the policy. Proven by the caller's name.
        InstanceReport: RequiredAccess::Right("InstanceReport") => String;

        /// To read the health of the agbot: everyone, also without credentials. Proven by what the caller may see besides.
        HealthRead: RequiredAccess::Public => SeenStatus;
    }

    impl<P: OfOrg> RightTo<P> for OrgAdminister {
        async fn check(request: &AgbotRequest, path: &P) -> Result<String, Refusal> {
            super::may_administrate(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfOrg> RightTo<P> for OrgInspect {
        async fn check(request: &AgbotRequest, path: &P) -> Result<(), Refusal> {
            super::may_inspect(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfPolicy> RightTo<P> for RolloutOperate {
        async fn check(request: &AgbotRequest, path: &P) -> Result<String, Refusal> {
            let policy = (path.organization(), path.policy());
            super::may_operate_rollouts(&request.context, &request.headers, policy).await
        }
    }

    impl<P: OfOrg> RightTo<P> for NodesRead {
        async fn check(request: &AgbotRequest, path: &P) -> Result<SeenNodes, Refusal> {
            super::seen_nodes(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfOrg> RightTo<P> for HistoryRead {
        async fn check(request: &AgbotRequest, path: &P) -> Result<SeenNodes, Refusal> {
            super::seen_nodes_of_policies(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfPolicy> RightTo<P> for PolicyRead {
        async fn check(request: &AgbotRequest, path: &P) -> Result<ReadPolicy, Refusal> {
            let (org, policy) = (path.organization(), path.policy());
            let found = super::find_policy(&request.context, &request.headers, org, policy).await?;
            let is_left =
                || request.context.model().workload(&evenkeel_ids::PolicyId::new(org, policy)).is_some();
            if found.is_none() && !is_left() {
                return Err(super::missing_policy(org, policy));
            }
            if found.is_none() {
                super::may_read_policies(&request.context, &request.headers, org).await?;
            }
            let orgs = super::super::orchestration::node_orgs(&request.context, org, policy);
            let seen = super::seen_nodes_of(&request.context, &request.headers, orgs).await?;
            Ok(ReadPolicy { policy: found, seen })
        }
    }

    impl<P: OfPolicy> RightTo<P> for PolicyPlan {
        async fn check(request: &AgbotRequest, path: &P) -> Result<PlannedPolicy, Refusal> {
            let (org, policy) = (path.organization(), path.policy());
            let found = super::find_policy(&request.context, &request.headers, org, policy).await?;
            if found.is_none() {
                super::may_read_policies(&request.context, &request.headers, org).await?;
            }
            let orgs = super::super::plan::node_orgs(&request.context, org, policy).await?;
            let seen = super::seen_nodes_of(&request.context, &request.headers, orgs).await?;
            Ok(PlannedPolicy { policy: found, seen })
        }
    }

    impl<P: OfOrg> RightTo<P> for StopsPlan {
        async fn check(request: &AgbotRequest, path: &P) -> Result<SeenNodes, Refusal> {
            let org = path.organization();
            super::may_read_policies(&request.context, &request.headers, org).await?;
            super::written_nodes(&request.context, &request.headers, org).await
        }
    }

    impl<P: OfOrg> RightTo<P> for PlanApprovalWrite {
        async fn check(request: &AgbotRequest, path: &P) -> Result<(), Refusal> {
            super::may_read_policies(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfPolicy> RightTo<P> for PolicyOperate {
        async fn check(request: &AgbotRequest, path: &P) -> Result<Self::Proof, Refusal> {
            let (org, policy) = (path.organization(), path.policy());
            let outcome = super::may_operate(&request.context, &request.headers, org, policy).await;
            if let (Err(refusal), Some(action)) = (&outcome, path.action())
                && refusal.is_forbidden()
            {
                let caller = super::claimed_name(&request.headers);
                super::note_denied(request, caller, (org, policy), (action, refusal.message())).await?;
            }
            outcome
        }
    }

    impl<P: OfOrg> RightTo<P> for NodesOperate {
        async fn check(request: &AgbotRequest, path: &P) -> Result<Self::Proof, Refusal> {
            super::operated_nodes(&request.context, &request.headers, path.organization()).await
        }
    }

    impl<P: OfNode> RightTo<P> for NodeItself {
        async fn check(request: &AgbotRequest, path: &P) -> Result<NodeResponse, Refusal> {
            let org = path.organization();
            super::own_node(&request.context, &request.headers, org, path.node()).await
        }
    }

    impl RightTo<NodePath> for NodeReport {
        async fn check(request: &AgbotRequest, path: &NodePath) -> Result<String, Refusal> {
            let org = path.organization();
            let node = super::NodeId::new(org, path.node());
            match super::is_node(&request.context, &request.headers, &node).await? {
                true => Ok(node.to_string()),
                false => super::may_administrate(&request.context, &request.headers, org).await,
            }
        }
    }

    impl RightTo<InstancePath> for InstanceReport {
        async fn check(request: &AgbotRequest, path: &InstancePath) -> Result<String, Refusal> {
            let (org, policy) = (path.organization(), path.policy());
            let node = super::node_of(org, path.node());
            match super::is_node(&request.context, &request.headers, &node).await? {
                true => {
                    super::served_policy(&request.context, (org, policy), &node).await?;
                    Ok(node.to_string())
                }
                false => Ok(super::may_operate(&request.context, &request.headers, org, policy).await?.0),
            }
        }
    }

    impl<P: Sync> RightTo<P> for HealthRead {
        async fn check(request: &AgbotRequest, _: &P) -> Result<SeenStatus, Refusal> {
            Ok(super::seen_status(&request.context, &request.headers).await)
        }
    }
}
