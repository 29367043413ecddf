//! Approvals of plans by a second person.

use evenkeel_wire::exchange::plan_approval::{
    APPROVAL, AppliedPlanApproval, ApprovalWrite, DecidePlanApproval, PlanApproval, PlanApprovalsQuery,
    PlanApprovalsResponse, PostPlanApproval, RequestPlanApproval, UsePlanApproval,
};
use evenkeel_wire::exchange::revision::REASON;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::encode;
use crate::{Client, ClientError, Path, RawResponse};

/// A decision about a request for an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The plan is approved.
    Approve,
    /// It is rejected.
    Reject,
    /// The request is canceled.
    Cancel,
}

impl ApprovalDecision {
    /// Returns its name in paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Cancel => "cancel",
        }
    }
}

fn approvals_path(org: &str) -> Path {
    Path::org(org, &["approvals"])
}

impl Client {
    /// Returns whether an organization requires that a second person approves writes that stop, replace or start instances.
    pub async fn requires_plan_approval(&self, org: &str) -> Result<bool, ClientError> {
        let settings = self.org_orchestration(org).await?;
        Ok(settings.is_some_and(|settings| settings.as_value()["approval"] == "changes"))
    }

    /// One page of the requests for approvals of an organization, newest first.
    pub async fn plan_approvals(
        &self,
        org: &str,
        query: &PlanApprovalsQuery,
    ) -> Result<PlanApprovalsResponse, ClientError> {
        self.get_existing(approvals_path(org).parameters(query)?).await
    }

    /// A request for an approval with its write and its plan.
    pub async fn plan_approval(&self, org: &str, id: &str) -> Result<Option<PlanApproval>, ClientError> {
        self.get(approvals_path(org).push(id)).await
    }

    /// Decides about a request for an approval.
    pub async fn decide_plan_approval(
        &self,
        org: &str,
        id: &str,
        decision: ApprovalDecision,
        body: &DecidePlanApproval,
    ) -> Result<PlanApproval, ClientError> {
        self.post_for(approvals_path(org).push(id).push(decision.name()), body).await
    }

    /// Adds a request that an agbot has planned for the caller whose credentials are passed on.
    pub async fn create_plan_approval(
        &self,
        org: &str,
        body: &PostPlanApproval,
    ) -> Result<PlanApproval, ClientError> {
        self.post_for(approvals_path(org), body).await
    }

    /// Uses an approval up, before an agbot carries its action out for the caller.
    pub async fn use_plan_approval(
        &self,
        org: &str,
        id: &str,
        token: &str,
    ) -> Result<PlanApproval, ClientError> {
        let body = UsePlanApproval { token: token.to_owned() };
        self.post_for(approvals_path(org).push(id).push("use"), &body).await
    }

    /// Has an agbot plan a write and request its approval.
    pub async fn request_plan_approval(
        &self,
        org: &str,
        body: &RequestPlanApproval,
    ) -> Result<PlanApproval, ClientError> {
        self.post_for(Path::org(org, &["agbot", "approvals"]), body).await
    }

    /// Has an agbot carry out an approved write, if its plan still holds.
    pub async fn apply_plan_approval(&self, org: &str, id: &str) -> Result<AppliedPlanApproval, ClientError> {
        let path = Path::org(org, &["agbot", "approvals", id, "apply"]);
        done(&self.send(Method::POST, &path, None).await?)
    }

    /// Writes a document of an approval for the caller whose credentials are passed on; true if the policy is to be created.
    pub async fn write_approved(
        &self,
        org: &str,
        id: &str,
        (write, is_new): (&ApprovalWrite, bool),
        reason: &str,
    ) -> Result<(), ClientError> {
        let of_policy = |policy: &str| Path::org(org, &["business", "policies", policy]);
        let (method, path, body) = match write {
            ApprovalWrite::DeploymentPolicy { policy, document } => {
                let method = if is_new { Method::POST } else { Method::PUT };
                (method, of_policy(policy), Some(encode(document)?))
            }
            ApprovalWrite::DeploymentPolicyRemoval { policy } => (Method::DELETE, of_policy(policy), None),
            ApprovalWrite::Settings { settings } => {
                (Method::PATCH, Path::org(org, &["orchestration"]), Some(encode(settings)?))
            }
            ApprovalWrite::PolicyAction { .. } | ApprovalWrite::RolloutAction { .. } => {
                return Err(ClientError::Request("an action is no write of a document".to_owned()));
            }
        };
        let mut headers = HeaderMap::new();
        for (name, text) in [(APPROVAL, id), (REASON, reason)] {
            let value = HeaderValue::from_bytes(text.as_bytes());
            let value = value.map_err(|error| ClientError::Request(error.to_string()))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let response = self.send_with(method, &path, body, headers, None).await?;
        if response.status.is_success() { Ok(()) } else { Err(response.unexpected()) }
    }

    async fn post_for<B: Serialize + ?Sized, T: DeserializeOwned + Default>(
        &self,
        path: Path,
        body: &B,
    ) -> Result<T, ClientError> {
        done(&self.send(Method::POST, &path, Some(encode(body)?)).await?)
    }
}

/// Returns the body of a success; a dry run has none.
fn done<T: DeserializeOwned + Default>(response: &RawResponse) -> Result<T, ClientError> {
    match response.status.is_success() {
        true if response.body.is_empty() => Ok(T::default()),
        true => response.json(),
        false => Err(response.unexpected()),
    }
}
