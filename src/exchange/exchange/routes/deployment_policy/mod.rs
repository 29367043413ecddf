//! Deployment policies.
//!
//! Source: exchange-api 4.8.

mod extent;
mod get;
mod orchestration;
mod patch;
mod write;

pub(super) use orchestration::require_interval;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::deployment_policy::DeploymentPoliciesResponse;
use evenkeel_wire::exchange::utility::ApiResponse;

use crate::ApiError;
use crate::operation::row::{delete, get, patch, post, put};
use crate::operation::{Content, Operation};

const TAG: &str = "deployment policies";
const LIST: &str = "/orgs/{organization}/business/policies";
const ONE: &str = "/orgs/{organization}/business/policies/{policy}";
const ONE_ALIAS: &str = "/orgs/{organization}/deployment/policies/{policy}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get(LIST, "list_deployment_policies", get::list_deployment_policies)
            .alias("/orgs/{organization}/deployment/policies")
            .doc(TAG, "Lists the deployment policies of an organization")
            .success("the policies")
            .empty("there is none"),
        get(ONE, "get_deployment_policy", get::get_deployment_policy)
            .alias(ONE_ALIAS)
            .doc(TAG, "Reads a deployment policy, or one attribute of it")
            .success("the policy or the attribute")
            .response_with(
                404,
                "there is none",
                Content::either::<DeploymentPoliciesResponse, ApiResponse>(),
            ),
        post(ONE, "create_deployment_policy", write::create_deployment_policy)
            .alias(ONE_ALIAS)
            .doc(TAG, "Publishes a deployment policy")
            .creates()
            .audit(Subject::DeploymentPolicy)
            .success("published"),
        put(ONE, "replace_deployment_policy", write::replace_deployment_policy)
            .alias(ONE_ALIAS)
            .doc(TAG, "Replaces a deployment policy; its owner stays")
            .audit(Subject::DeploymentPolicy)
            .success("replaced")
            .response::<ApiResponse>(409, "nodes have tasks of the policy, so that its mode cannot change"),
        patch(ONE, "patch_deployment_policy", patch::patch_deployment_policy)
            .alias(ONE_ALIAS)
            .doc(TAG, "Changes one attribute of a deployment policy")
            .audit(Subject::DeploymentPolicy)
            .success("changed")
            .response::<ApiResponse>(409, "nodes have tasks of the policy, so that its mode cannot change"),
        delete(ONE, "delete_deployment_policy", write::delete_deployment_policy)
            .alias(ONE_ALIAS)
            .doc(TAG, "Removes a deployment policy with its search sessions")
            .audit(Subject::DeploymentPolicy)
            .success("removed"),
    ]
}

/// Returns the feed record of a change to a deployment policy.
fn change(org: &str, policy: &str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: policy.to_owned(),
        category: "policy",
        resource: "policy",
        operation,
        is_public: false,
    }
}

fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("business policy '{org}/{id}' not found"))
}
