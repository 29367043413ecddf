//! Administration of the exchange: status pages, running configuration, caches, starting from nothing; versions of agent files.
//!
//! Source: exchange-api 4.1, 4.2.

mod action;
mod agent_file;
mod status;

use evenkeel_exchange_store::audit_state::Subject;

use crate::operation::Operation;
use crate::operation::row::{delete, get, post, put};

const TAG: &str = "administration";
const ORGANIZATIONS: &str = "organizations";
const AGENT_FILES: &str = "/orgs/{organization}/AgentFileVersion";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut all = status_operations();
    all.extend(action_operations());
    all.extend(organization_operations());
    all
}

fn status_operations() -> Vec<Operation> {
    vec![
        get("/admin/status", "get_status", status::get_status)
            .doc(TAG, "Returns the counts of the exchange that the caller may see")
            .success("the counts"),
        get("/admin/orgstatus", "get_organizations_status", status::get_organizations_status)
            .doc(TAG, "Counts the nodes of organizations")
            .success("the counts"),
        get("/orgs/{organization}/status", "get_organization_status", status::get_organization_status)
            .doc(ORGANIZATIONS, "Returns the counts of one organization that the caller may see")
            .success("the counts"),
    ]
}

fn action_operations() -> Vec<Operation> {
    vec![
        put("/admin/config", "set_configuration", action::set_configuration)
            .doc(TAG, "Sets one value of the running configuration of this exchange")
            .success("set"),
        post("/admin/reload", "reload_configuration", action::reload_configuration)
            .doc(TAG, "Resets the configuration to that with which the exchange was started")
            .success("reloaded"),
        post("/admin/clearauthcaches", "clear_caches", action::clear_caches)
            .doc(TAG, "Clears the cached credentials of every exchange")
            .success("forgotten"),
        get("/admin/dropdb/token", "get_drop_token", action::get_drop_token)
            .doc(TAG, "Returns an empty token, which older clients request")
            .success("no token is needed"),
        post("/admin/dropdb", "drop_database", action::drop_database)
            .doc(TAG, "Removes everything but the root user")
            .success("removed"),
        post("/admin/initdb", "init_database", action::init_database)
            .doc(TAG, "Creates the initial contents of an exchange as far as they are missing")
            .success("made"),
    ]
}

fn organization_operations() -> Vec<Operation> {
    vec![
        get(AGENT_FILES, "get_agent_files", agent_file::get_agent_files)
            .doc(ORGANIZATIONS, "Returns the versions that agents upgrade to; the organization is always IBM")
            .success("the versions"),
        put(AGENT_FILES, "replace_agent_files", agent_file::replace_agent_files)
            .doc(ORGANIZATIONS, "Replaces the versions that agents upgrade to")
            .audit(Subject::AgentFileVersion)
            .success("replaced"),
        delete(AGENT_FILES, "delete_agent_files", agent_file::delete_agent_files)
            .doc(ORGANIZATIONS, "Removes the versions that agents upgrade to")
            .audit(Subject::AgentFileVersion)
            .success("removed"),
    ]
}
