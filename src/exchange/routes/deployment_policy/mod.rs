//! Deployment policies.
//!
//! Source: exchange contract 4.8.

mod get;
mod patch;
mod write;

use axum::routing::{delete, get, patch, post, put};
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::deployment_policy::{
    DeploymentPoliciesAnswer, DeploymentPoliciesQuery, PatchDeploymentPolicy, PostDeploymentPolicy,
};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::utility::{ApiResponse, AttributeAnswer};
use http::Method;

use crate::ApiError;
use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "deployment policies";
const LIST: &str = "/orgs/{organization}/business/policies";
const ONE: &str = "/orgs/{organization}/business/policies/{policy}";
const ONE_ALIAS: &str = "/orgs/{organization}/deployment/policies/{policy}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, LIST, "list_deployment_policies", get(get::list_deployment_policies))
            .alias("/orgs/{organization}/deployment/policies")
            .doc(TAG, "Lists the deployment policies of an organization")
            .query::<DeploymentPoliciesQuery>()
            .answer::<DeploymentPoliciesAnswer>(200, "the policies")
            .answer::<DeploymentPoliciesAnswer>(404, "there is none"),
        endpoint(Method::GET, ONE, "get_deployment_policy", get(get::get_deployment_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Reads a deployment policy, or one attribute of it")
            .query::<AttributeQuery>()
            .answer_with(
                200,
                "the policy or the attribute",
                Content::either::<DeploymentPoliciesAnswer, AttributeAnswer>(),
            )
            .answer_with(404, "there is none", Content::either::<DeploymentPoliciesAnswer, ApiResponse>()),
        endpoint(Method::POST, ONE, "create_deployment_policy", post(write::create_deployment_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Publishes a deployment policy")
            .body::<PostDeploymentPolicy>()
            .answer::<ApiResponse>(201, "published"),
        endpoint(Method::PUT, ONE, "replace_deployment_policy", put(write::replace_deployment_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Replaces a deployment policy; its owner stays")
            .body::<PostDeploymentPolicy>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::PATCH, ONE, "patch_deployment_policy", patch(patch::patch_deployment_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Changes one attribute of a deployment policy")
            .body::<PatchDeploymentPolicy>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, ONE, "delete_deployment_policy", delete(write::delete_deployment_policy))
            .alias(ONE_ALIAS)
            .doc(TAG, "Removes a deployment policy with its search sessions")
            .answer_with(204, "removed", Content::None),
    ]
}

/// What the feed tells of a deployment policy.
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
