//! Patterns and their keys.
//!
//! Source: exchange contract 4.7 and 3.5.

mod get;
mod patch;
mod write;

use axum::routing::{delete, get, patch, post, put};
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::pattern::{PatchPattern, PatternsAnswer, PatternsQuery, PostPattern};
use evenkeel_wire::exchange::shared::CatalogQuery;
use evenkeel_wire::exchange::utility::{ApiResponse, AttributeAnswer};
use http::Method;

use super::signing_key::{PatternKeys, key_endpoints};
use crate::ApiError;
use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "patterns";
const LIST: &str = "/orgs/{organization}/patterns";
const ONE: &str = "/orgs/{organization}/patterns/{pattern}";
const ONE_ALIAS: &str = "/orgs/{organization}/deployment/patterns/{pattern}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = pattern_endpoints();
    endpoints.extend(key_endpoints::<PatternKeys>(
        TAG,
        "/orgs/{organization}/patterns/{pattern}/keys",
        "/orgs/{organization}/patterns/{pattern}/keys/{key}",
        &[(
            "/orgs/{organization}/deployment/patterns/{pattern}/keys",
            "/orgs/{organization}/deployment/patterns/{pattern}/keys/{key}",
        )],
    ));
    endpoints
}

fn pattern_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, LIST, "list_patterns", get(get::list_patterns))
            .alias("/orgs/{organization}/deployment/patterns")
            .alias("/catalog/{organization}/patterns")
            .alias("/catalog/{organization}/deployment/patterns")
            .doc(TAG, "Lists the patterns of an organization that the caller may see")
            .query::<PatternsQuery>()
            .answer::<PatternsAnswer>(200, "the patterns")
            .answer::<PatternsAnswer>(404, "there is none"),
        endpoint(Method::GET, "/catalog/patterns", "list_catalog_patterns", get(get::list_catalog_patterns))
            .alias("/deployment/patterns")
            .doc(TAG, "Lists patterns of all organizations that the caller may see")
            .query::<PatternsQuery>()
            .query::<CatalogQuery>()
            .answer::<PatternsAnswer>(200, "the patterns")
            .answer::<PatternsAnswer>(404, "there is none"),
        endpoint(Method::GET, ONE, "get_pattern", get(get::get_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Reads a pattern, or one attribute of it")
            .query::<AttributeQuery>()
            .answer_with(
                200,
                "the pattern or the attribute",
                Content::either::<PatternsAnswer, AttributeAnswer>(),
            )
            .answer_with(404, "there is none", Content::either::<PatternsAnswer, ApiResponse>()),
        endpoint(Method::POST, ONE, "create_pattern", post(write::create_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Publishes a pattern")
            .body::<PostPattern>()
            .answer::<ApiResponse>(201, "published"),
        endpoint(Method::PUT, ONE, "replace_pattern", put(write::replace_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Replaces a pattern; the caller becomes its owner")
            .body::<PostPattern>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::PATCH, ONE, "patch_pattern", patch(patch::patch_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Changes one attribute of a pattern")
            .body::<PatchPattern>()
            .answer::<ApiResponse>(201, "changed"),
        endpoint(Method::DELETE, ONE, "delete_pattern", delete(write::delete_pattern))
            .alias(ONE_ALIAS)
            .doc(TAG, "Removes a pattern with its keys; nodes that use it keep its name")
            .answer_with(204, "removed", Content::None),
    ]
}

/// What the feed tells of a pattern; `is_public` is the value at the time of the change.
fn change(org: &str, pattern: &str, operation: &'static str, is_public: bool) -> Change {
    Change {
        org: org.to_owned(),
        id: pattern.to_owned(),
        category: "pattern",
        resource: "pattern",
        operation,
        is_public,
    }
}

fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("pattern '{org}/{id}' not found"))
}
