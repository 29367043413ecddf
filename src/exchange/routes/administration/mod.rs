//! Administration of the exchange: status pages, running configuration, caches, starting from nothing; versions of agent files.
//!
//! Source: exchange contract 4.1 and 4.2.

mod action;
mod agent_file;
mod status;

use axum::routing::{delete, get, post, put};
use evenkeel_wire::exchange::administration::{
    AdminStatus, AgentFileVersions, ConfigurationChange, EmptyToken, OrganizationStatus, OrganizationsStatus,
    PutAgentFileVersions,
};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "administration";
const ORGANIZATIONS: &str = "organizations";
const AGENT_FILES: &str = "/orgs/{organization}/AgentFileVersion";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut all = status_endpoints();
    all.extend(action_endpoints());
    all.extend(organization_endpoints());
    all
}

fn status_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, "/admin/status", "get_status", get(status::get_status))
            .doc(TAG, "Counts what the caller may know of the exchange")
            .answer::<AdminStatus>(200, "the counts"),
        endpoint(
            Method::GET,
            "/admin/orgstatus",
            "get_organizations_status",
            get(status::get_organizations_status),
        )
        .doc(TAG, "Counts the nodes of organizations")
        .answer::<OrganizationsStatus>(200, "the counts"),
        endpoint(
            Method::GET,
            "/orgs/{organization}/status",
            "get_organization_status",
            get(status::get_organization_status),
        )
        .doc(ORGANIZATIONS, "Counts what the caller may know of one organization")
        .answer::<OrganizationStatus>(200, "the counts"),
    ]
}

fn action_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::PUT, "/admin/config", "set_configuration", put(action::set_configuration))
            .doc(TAG, "Sets one value of the running configuration of this exchange")
            .body::<ConfigurationChange>()
            .answer::<ApiResponse>(201, "set"),
        endpoint(Method::POST, "/admin/reload", "reload_configuration", post(action::reload_configuration))
            .doc(TAG, "Brings the configuration back to what the exchange was started with")
            .answer::<ApiResponse>(201, "reloaded"),
        endpoint(Method::POST, "/admin/clearauthcaches", "clear_caches", post(action::clear_caches))
            .doc(TAG, "Makes every exchange forget the logins that it has checked")
            .answer::<ApiResponse>(201, "forgotten"),
        endpoint(Method::GET, "/admin/dropdb/token", "get_drop_token", get(action::get_drop_token))
            .doc(TAG, "Answers an empty token, which older clients ask for")
            .answer::<EmptyToken>(200, "no token is needed"),
        endpoint(Method::POST, "/admin/dropdb", "drop_database", post(action::drop_database))
            .doc(TAG, "Removes everything but the root user")
            .answer::<ApiResponse>(201, "removed"),
        endpoint(Method::POST, "/admin/initdb", "init_database", post(action::init_database))
            .doc(TAG, "Makes what every exchange has from its first start on, as far as it is missing")
            .answer::<ApiResponse>(201, "made"),
    ]
}

fn organization_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, AGENT_FILES, "get_agent_files", get(agent_file::get_agent_files))
            .doc(ORGANIZATIONS, "Answers the versions that agents upgrade to; the organization is always IBM")
            .answer::<AgentFileVersions>(200, "the versions"),
        endpoint(Method::PUT, AGENT_FILES, "replace_agent_files", put(agent_file::replace_agent_files))
            .doc(ORGANIZATIONS, "Replaces the versions that agents upgrade to")
            .body::<PutAgentFileVersions>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::DELETE, AGENT_FILES, "delete_agent_files", delete(agent_file::delete_agent_files))
            .doc(ORGANIZATIONS, "Removes the versions that agents upgrade to")
            .answer_with(204, "removed", Content::None),
    ]
}
