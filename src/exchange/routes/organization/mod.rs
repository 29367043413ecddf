//! Organizations: list, read, create, replace, patch, delete, and the organizations of a cloud account.
//!
//! Source: exchange contract 4.2.

mod read;
mod write;

use axum::routing::{delete, get, patch, post, put};
use evenkeel_exchange_store::organization::Organization;
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::organization::{
    CloudAccount, OrganizationAnswer, OrganizationsAnswer, OrganizationsQuery, PatchOrganization,
    PutOrganization,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::{ApiResponse, AttributeAnswer};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "organizations";
const ONE: &str = "/orgs/{organization}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, "/orgs", "list_organizations", get(read::list_organizations))
            .doc(TAG, "Lists the organizations that the caller may know of")
            .query::<OrganizationsQuery>()
            .answer::<OrganizationsAnswer>(200, "the organizations")
            .answer::<OrganizationsAnswer>(404, "none"),
        endpoint(Method::GET, ONE, "get_organization", get(read::get_organization))
            .doc(TAG, "Answers one organization, or one attribute of it")
            .query::<AttributeQuery>()
            .answer_either::<OrganizationsAnswer, AttributeAnswer>(200, "the organization, or the attribute")
            .answer_either::<OrganizationsAnswer, ApiResponse>(404, "there is none"),
        endpoint(Method::POST, ONE, "create_organization", post(write::create_organization))
            .doc(TAG, "Creates an organization")
            .body::<PutOrganization>()
            .answer::<ApiResponse>(201, "created")
            .answer::<ApiResponse>(409, "it exists"),
        endpoint(Method::PUT, ONE, "replace_organization", put(write::replace_organization))
            .doc(TAG, "Replaces everything of an organization but its id")
            .body::<PutOrganization>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::PATCH, ONE, "patch_organization", patch(write::patch_organization))
            .doc(TAG, "Changes one attribute of an organization")
            .body::<PatchOrganization>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, ONE, "delete_organization", delete(write::delete_organization))
            .doc(TAG, "Deletes an organization with everything in it")
            .answer_with(204, "deleted", Content::None),
        endpoint(Method::POST, "/myorgs", "list_my_organizations", post(read::list_my_organizations))
            .doc(TAG, "Lists the organizations that belong to accounts of a cloud")
            .unaudited("it only reads")
            .list_body::<CloudAccount>()
            .answer::<OrganizationsAnswer>(200, "the organizations")
            .answer::<OrganizationsAnswer>(404, "none"),
    ]
}

/// A stored part as its type; what was never set is the default.
fn part<T: DeserializeOwned + Default>(stored: Option<Value>) -> T {
    stored.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

fn answer(organization: Organization) -> (String, OrganizationAnswer) {
    let answer = OrganizationAnswer {
        org_type: organization.org_type,
        label: organization.label,
        description: organization.description,
        last_updated: wire_time(organization.updated_at),
        tags: organization.tags,
        limits: part(organization.limits),
        heartbeat_intervals: part(organization.heartbeat_intervals),
    };
    (organization.org, answer)
}

fn answers(organizations: Vec<Organization>) -> OrganizationsAnswer {
    OrganizationsAnswer { orgs: organizations.into_iter().map(answer).collect(), last_index: 0 }
}
