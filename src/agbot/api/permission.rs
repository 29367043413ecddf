//! Rights to the agbot's API: values that only a check can make, so that a handler which takes one cannot run unchecked.

use evenkeel_api::RequiredAccess;
use evenkeel_wire::exchange::node::NodeResponse;
use http::HeaderMap;

use super::caller::{SeenNodes, may_administrate, own_node, seen_nodes, sees_counts};
use super::pipeline::{Names, Op, Refusal};

/// A right as a type.
pub(super) trait Right: Send + Sync + 'static {
    /// Its name in the rows of operations.
    const ACCESS: RequiredAccess;

    /// What the check finds out about the caller.
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
    /// As [`Right::check`].
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

/// The rights.
pub(super) mod right {
    use super::{HeaderMap, Names, NodeResponse, Op, Refusal, RequiredAccess, Right, SeenNodes};

    /// To change rollouts and claims of an organization: its administrators and root.
    pub(in crate::api) enum OrgAdminister {}

    /// To read of the nodes of an organization that the exchange shows to the caller.
    pub(in crate::api) enum NodesRead {}

    /// To act as the node in the path.
    pub(in crate::api) enum NodeItself {}

    /// To read the health of the agbot: everyone, also without credentials.
    pub(in crate::api) enum HealthRead {}

    impl Right for OrgAdminister {
        const ACCESS: RequiredAccess = RequiredAccess::Right("OrgAdminister");

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

    impl Right for NodeItself {
        const ACCESS: RequiredAccess = RequiredAccess::Right("NodeItself");

        type Proof = NodeResponse;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<NodeResponse, Refusal> {
            let org = op.path.org().unwrap_or_default();
            super::own_node(&op.context, headers, org, op.path.node().unwrap_or_default()).await
        }
    }

    impl Right for HealthRead {
        const ACCESS: RequiredAccess = RequiredAccess::Public;

        /// Whether the exchange shows its counts to the caller.
        type Proof = bool;

        async fn check<P: Names>(op: &Op<P>, headers: &HeaderMap) -> Result<bool, Refusal> {
            Ok(super::sees_counts(&op.context, headers).await)
        }
    }
}
