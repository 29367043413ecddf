//! Services, and what belongs to them.
//!
//! Source: exchange-api 4.6, 3.5.

mod dockauth;
mod get;
mod patch;
mod policy;
mod write;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::service::DockAuthResponse;
use evenkeel_wire::exchange::utility::ApiResponse;

use super::signing_key::{ServiceKeys, key_operations};
use crate::operation::row::{delete, get, patch, post, put};
use crate::operation::{Content, Operation};

const TAG: &str = "services";
const LIST: &str = "/orgs/{organization}/services";
const ONE: &str = "/orgs/{organization}/services/{service}";
const POLICY: &str = "/orgs/{organization}/services/{service}/policy";
const DOCKAUTHS: &str = "/orgs/{organization}/services/{service}/dockauths";
const DOCKAUTH: &str = "/orgs/{organization}/services/{service}/dockauths/{dockauth}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = service_operations();
    operations.extend(policy_operations());
    operations.extend(key_operations::<ServiceKeys>(
        TAG,
        "/orgs/{organization}/services/{service}/keys",
        "/orgs/{organization}/services/{service}/keys/{key}",
        &[],
    ));
    operations.extend(dockauth_operations());
    operations
}

fn service_operations() -> Vec<Operation> {
    vec![
        get(LIST, "list_services", get::list_services)
            .alias("/catalog/{organization}/services")
            .doc(TAG, "Lists the services of an organization that the caller may see")
            .success("the services")
            .empty("there is none"),
        post(LIST, "create_service", write::create_service)
            .alias("/catalog/{organization}/services")
            .doc(TAG, "Publishes a service; its id consists of url, version and architecture")
            .creates()
            .success("published"),
        get("/catalog/services", "list_catalog_services", get::list_catalog_services)
            .alias("/services")
            .doc(TAG, "Lists services of all organizations that the caller may see")
            .success("the services")
            .empty("there is none"),
        get(ONE, "get_service", get::get_service)
            .doc(TAG, "Reads a service, or one attribute of it")
            .success("the service or the attribute"),
        put(ONE, "replace_service", write::replace_service)
            .doc(TAG, "Replaces a service; the caller becomes its owner")
            .audit(Subject::Service)
            .success("replaced"),
        patch(ONE, "patch_service", patch::patch_service)
            .doc(TAG, "Changes one attribute of a service")
            .audit(Subject::Service)
            .success("changed"),
        delete(ONE, "delete_service", write::delete_service)
            .doc(TAG, "Removes a service with its policy, keys and registry credentials")
            .audit(Subject::Service)
            .success("removed"),
    ]
}

fn policy_operations() -> Vec<Operation> {
    vec![
        get(POLICY, "get_service_policy", policy::get_service_policy)
            .doc(TAG, "Reads the policy of a service")
            .success("the policy"),
        put(POLICY, "replace_service_policy", policy::replace_service_policy)
            .doc(TAG, "Adds or replaces the policy of a service")
            .audit(Subject::ServicePolicy)
            .success("stored"),
        delete(POLICY, "delete_service_policy", policy::delete_service_policy)
            .doc(TAG, "Removes the policy of a service")
            .audit(Subject::ServicePolicy)
            .success("removed"),
    ]
}

fn dockauth_operations() -> Vec<Operation> {
    vec![
        get(DOCKAUTHS, "list_service_dockauths", dockauth::list_dockauths)
            .doc(TAG, "Lists the registry credentials of a service")
            .success("the credentials")
            .response_with(404, "there are none", Content::list::<DockAuthResponse>().or::<ApiResponse>()),
        post(DOCKAUTHS, "create_service_dockauth", dockauth::create_dockauth)
            .doc(TAG, "Adds registry credentials, or refreshes equal ones")
            .audit(Subject::ServiceDockauth)
            .success("stored"),
        delete(DOCKAUTHS, "delete_service_dockauths", dockauth::delete_dockauths)
            .doc(TAG, "Removes all registry credentials of a service")
            .audit(Subject::ServiceDockauth)
            .success("removed"),
        get(DOCKAUTH, "get_service_dockauth", dockauth::get_dockauth)
            .doc(TAG, "Reads registry credentials by number")
            .success("the credentials")
            .response_with(404, "there are none", Content::list::<DockAuthResponse>().or::<ApiResponse>()),
        put(DOCKAUTH, "replace_service_dockauth", dockauth::replace_dockauth)
            .doc(TAG, "Replaces registry credentials")
            .audit(Subject::ServiceDockauth)
            .success("replaced"),
        delete(DOCKAUTH, "delete_service_dockauth", dockauth::delete_dockauth)
            .doc(TAG, "Removes registry credentials")
            .audit(Subject::ServiceDockauth)
            .success("removed"),
    ]
}

/// Returns the feed record of a change to a service or a part of it; `is_public` is the value at the time of
/// the change.
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
