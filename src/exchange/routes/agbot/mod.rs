//! Agbots and everything that belongs to them.
//!
//! Source: exchange contract 4.5.

mod agreement;
mod message;
mod patch;
mod put;
mod read;
mod remove;
mod served;
mod served_pattern;
mod served_policy;

use axum::routing::{delete, get, patch, post, put};
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::agbot::{AgbotsAnswer, AgbotsQuery, PatchAgbot, PutAgbot};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "agbot";
const AGBOTS: &str = "/orgs/{organization}/agbots";
const AGBOT: &str = "/orgs/{organization}/agbots/{agreementbot}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        endpoint(Method::GET, AGBOTS, "list_agbots", get(read::list_agbots))
            .doc(TAG, "Lists the agbots of an organization")
            .query::<AgbotsQuery>()
            .answer::<AgbotsAnswer>(200, "the agbots")
            .answer::<AgbotsAnswer>(404, "no agbot fits"),
        endpoint(Method::GET, AGBOT, "get_agbot", get(read::get_agbot))
            .doc(TAG, "Answers an agbot or one attribute of it")
            .query::<AttributeQuery>()
            .answer::<AgbotsAnswer>(200, "the agbot"),
        endpoint(Method::PUT, AGBOT, "replace_agbot", put(put::replace_agbot))
            .doc(TAG, "Creates an agbot or replaces its attributes")
            .body::<PutAgbot>()
            .answer::<ApiResponse>(201, "created or replaced")
            .answer::<ApiResponse>(409, "the name is taken by another kind of login"),
        endpoint(Method::PATCH, AGBOT, "patch_agbot", patch(patch::patch_agbot))
            .doc(TAG, "Changes one attribute of an agbot")
            .body::<PatchAgbot>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, AGBOT, "delete_agbot", delete(remove::delete_agbot))
            .doc(TAG, "Removes an agbot with everything that belongs to it")
            .answer_with(204, "removed", Content::None),
        endpoint(
            Method::POST,
            "/orgs/{organization}/agbots/{agreementbot}/heartbeat",
            "heartbeat_agbot",
            post(read::heartbeat_agbot),
        )
        .doc(TAG, "Records a heartbeat of an agbot")
        .unaudited("a heartbeat: kept in memory and written in batches, nothing is decided by a single one")
        .answer::<ApiResponse>(201, "taken"),
    ];
    endpoints.extend(agreement::endpoints());
    endpoints.extend(served_pattern::endpoints());
    endpoints.extend(served_policy::endpoints());
    endpoints.extend(message::endpoints());
    endpoints
}

/// A row about an agbot or something that belongs to it.
fn agbot_change(org: &str, agbot: &str, resource: &'static str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: agbot.to_owned(),
        category: "agbot",
        resource,
        operation,
        is_public: false,
    }
}
