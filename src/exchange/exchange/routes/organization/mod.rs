//! Organizations: list, read, create, replace, patch, delete, and the organizations of a cloud account.
//!
//! Source: exchange-api 4.2.

mod orchestration;
mod read;
mod write;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::organization::Organization;
use evenkeel_wire::exchange::organization::{OrganizationResponse, OrganizationsResponse};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::audit::CHAIN_OPENER;
use crate::operation::Operation;
use crate::operation::row::{delete, get, patch, post, put};

const TAG: &str = "organizations";
const ONE: &str = "/orgs/{organization}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = orchestration::operations();
    operations.extend([
        get("/orgs", "list_organizations", read::list_organizations)
            .doc(TAG, "Lists the organizations that the caller may see")
            .success("the organizations")
            .empty("none"),
        get(ONE, "get_organization", read::get_organization)
            .doc(TAG, "Returns one organization, or one attribute of it")
            .success("the organization, or the attribute")
            .response_either::<OrganizationsResponse, ApiResponse>(404, "there is none"),
        post(ONE, CHAIN_OPENER, write::create_organization)
            .doc(TAG, "Creates an organization")
            .creates()
            .audit(Subject::Organization)
            .success("created")
            .response::<ApiResponse>(409, "it exists"),
        put(ONE, "replace_organization", write::replace_organization)
            .doc(TAG, "Replaces everything of an organization but its id")
            .audit(Subject::Organization)
            .success("replaced"),
        patch(ONE, "patch_organization", write::patch_organization)
            .doc(TAG, "Changes one attribute of an organization")
            .audit(Subject::Organization)
            .success("changed"),
        delete(ONE, "delete_organization", write::delete_organization)
            .doc(TAG, "Deletes an organization with everything in it")
            .audit(Subject::Organization)
            .success("deleted"),
        post("/myorgs", "list_my_organizations", read::list_my_organizations)
            .doc(TAG, "Lists the organizations that belong to accounts of a cloud")
            .unaudited("it only reads")
            .success("the organizations")
            .empty("none"),
    ]);
    operations
}

/// A stored part as its type; what was never set is the default.
fn part<T: DeserializeOwned + Default>(stored: Option<Value>) -> T {
    stored.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

fn response(organization: Organization) -> (String, OrganizationResponse) {
    let response = OrganizationResponse {
        org_type: organization.org_type,
        label: organization.label,
        description: organization.description,
        last_updated: wire_time(organization.updated_at),
        tags: organization.tags,
        limits: part(organization.limits),
        heartbeat_intervals: part(organization.heartbeat_intervals),
    };
    (organization.org, response)
}

fn responses(organizations: Vec<Organization>) -> OrganizationsResponse {
    OrganizationsResponse { orgs: organizations.into_iter().map(response).collect(), ..Default::default() }
}
