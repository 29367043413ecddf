//! Services, and what belongs to them.
//!
//! Source: exchange contract 4.6 and 3.5.

mod dockauth;
mod get;
mod patch;
mod policy;
mod write;

use axum::routing::{delete, get, patch, post, put};
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::service::{
    DockAuthAnswer, PatchService, PostService, PutDockAuth, PutServicePolicy, ServicePolicyAnswer,
    ServicesAnswer, ServicesQuery,
};
use evenkeel_wire::exchange::shared::CatalogQuery;
use evenkeel_wire::exchange::utility::{ApiResponse, AttributeAnswer};
use http::Method;

use super::signing_key::{ServiceKeys, key_endpoints};
use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "services";
const LIST: &str = "/orgs/{organization}/services";
const ONE: &str = "/orgs/{organization}/services/{service}";
const POLICY: &str = "/orgs/{organization}/services/{service}/policy";
const DOCKAUTHS: &str = "/orgs/{organization}/services/{service}/dockauths";
const DOCKAUTH: &str = "/orgs/{organization}/services/{service}/dockauths/{dockauth}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = service_endpoints();
    endpoints.extend(policy_endpoints());
    endpoints.extend(key_endpoints::<ServiceKeys>(
        TAG,
        "/orgs/{organization}/services/{service}/keys",
        "/orgs/{organization}/services/{service}/keys/{key}",
        &[],
    ));
    endpoints.extend(dockauth_endpoints());
    endpoints
}

fn service_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, LIST, "list_services", get(get::list_services))
            .alias("/catalog/{organization}/services")
            .doc(TAG, "Lists the services of an organization that the caller may see")
            .query::<ServicesQuery>()
            .answer::<ServicesAnswer>(200, "the services")
            .answer::<ServicesAnswer>(404, "there is none"),
        endpoint(Method::POST, LIST, "create_service", post(write::create_service))
            .alias("/catalog/{organization}/services")
            .doc(TAG, "Publishes a service; its id is made of url, version and architecture")
            .body::<PostService>()
            .answer::<ApiResponse>(201, "published"),
        endpoint(Method::GET, "/catalog/services", "list_catalog_services", get(get::list_catalog_services))
            .alias("/services")
            .doc(TAG, "Lists services of all organizations that the caller may see")
            .query::<ServicesQuery>()
            .query::<CatalogQuery>()
            .answer::<ServicesAnswer>(200, "the services")
            .answer::<ServicesAnswer>(404, "there is none"),
        endpoint(Method::GET, ONE, "get_service", get(get::get_service))
            .doc(TAG, "Reads a service, or one attribute of it")
            .query::<AttributeQuery>()
            .answer_with(
                200,
                "the service or the attribute",
                Content::either::<ServicesAnswer, AttributeAnswer>(),
            ),
        endpoint(Method::PUT, ONE, "replace_service", put(write::replace_service))
            .doc(TAG, "Replaces a service; the caller becomes its owner")
            .body::<PostService>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::PATCH, ONE, "patch_service", patch(patch::patch_service))
            .doc(TAG, "Changes one attribute of a service")
            .body::<PatchService>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, ONE, "delete_service", delete(write::delete_service))
            .doc(TAG, "Removes a service with its policy, keys and registry credentials")
            .answer_with(204, "removed", Content::None),
    ]
}

fn policy_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, POLICY, "get_service_policy", get(policy::get_service_policy))
            .doc(TAG, "Reads the policy of a service")
            .answer::<ServicePolicyAnswer>(200, "the policy"),
        endpoint(Method::PUT, POLICY, "replace_service_policy", put(policy::replace_service_policy))
            .doc(TAG, "Adds or replaces the policy of a service")
            .body::<PutServicePolicy>()
            .answer::<ApiResponse>(201, "stored"),
        endpoint(Method::DELETE, POLICY, "delete_service_policy", delete(policy::delete_service_policy))
            .doc(TAG, "Removes the policy of a service")
            .answer_with(204, "removed", Content::None),
    ]
}

fn dockauth_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, DOCKAUTHS, "list_service_dockauths", get(dockauth::list_dockauths))
            .doc(TAG, "Lists the registry credentials of a service")
            .answer_with(200, "the credentials", Content::list::<DockAuthAnswer>())
            .answer_with(404, "there are none", Content::list::<DockAuthAnswer>().or::<ApiResponse>()),
        endpoint(Method::POST, DOCKAUTHS, "create_service_dockauth", post(dockauth::create_dockauth))
            .doc(TAG, "Adds registry credentials, or refreshes equal ones")
            .body::<PutDockAuth>()
            .answer::<ApiResponse>(201, "stored"),
        endpoint(Method::DELETE, DOCKAUTHS, "delete_service_dockauths", delete(dockauth::delete_dockauths))
            .doc(TAG, "Removes all registry credentials of a service")
            .answer_with(204, "removed", Content::None),
        endpoint(Method::GET, DOCKAUTH, "get_service_dockauth", get(dockauth::get_dockauth))
            .doc(TAG, "Reads registry credentials by number")
            .answer::<DockAuthAnswer>(200, "the credentials")
            .answer_with(404, "there are none", Content::list::<DockAuthAnswer>().or::<ApiResponse>()),
        endpoint(Method::PUT, DOCKAUTH, "replace_service_dockauth", put(dockauth::replace_dockauth))
            .doc(TAG, "Replaces registry credentials")
            .body::<PutDockAuth>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::DELETE, DOCKAUTH, "delete_service_dockauth", delete(dockauth::delete_dockauth))
            .doc(TAG, "Removes registry credentials")
            .answer_with(204, "removed", Content::None),
    ]
}

/// What the feed tells of a service and its parts; `is_public` is the value at the time of the change.
fn change(
    org: &str,
    service: &str,
    resource: &'static str,
    operation: &'static str,
    is_public: bool,
) -> Change {
    Change {
        org: org.to_owned(),
        id: service.to_owned(),
        category: "service",
        resource,
        operation,
        is_public,
    }
}
