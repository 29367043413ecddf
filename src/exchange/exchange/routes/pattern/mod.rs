//! Patterns and their keys.
//!
//! Source: exchange-api 4.7, 3.5.

mod get;
mod patch;
mod write;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::pattern::PatternsResponse;
use evenkeel_wire::exchange::utility::ApiResponse;

use super::signing_key::{PatternKeys, key_operations};
use crate::ApiError;
use crate::operation::row::{delete, get, patch, post, put};
use crate::operation::{Content, Operation};

const TAG: &str = "patterns";
const LIST: &str = "/orgs/{organization}/patterns";
const ONE: &str = "/orgs/{organization}/patterns/{pattern}";
const ONE_ALIAS: &str = "/orgs/{organization}/deployment/patterns/{pattern}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = pattern_operations();
    operations.extend(key_operations::<PatternKeys>(
        TAG,
        "/orgs/{organization}/patterns/{pattern}/keys",
        "/orgs/{organization}/patterns/{pattern}/keys/{key}",
        &[(
            "/orgs/{organization}/deployment/patterns/{pattern}/keys",
            "/orgs/{organization}/deployment/patterns/{pattern}/keys/{key}",
        )],
    ));
    operations
}

fn pattern_operations() -> Vec<Operation> {
    vec![
        get(LIST, "list_patterns", get::list_patterns)
            .alias("/orgs/{organization}/deployment/patterns")
            .alias("/catalog/{organization}/patterns")
            .alias("/catalog/{organization}/deployment/patterns")
            .doc(TAG, "Lists the patterns of an organization that the caller may see")
            .success("the patterns")
            .empty("there is none"),
        get("/catalog/patterns", "list_catalog_patterns", get::list_catalog_patterns)
            .alias("/deployment/patterns")
            .doc(TAG, "Lists patterns of all organizations that the caller may see")
            .success("the patterns")
            .empty("there is none"),
        get(ONE, "get_pattern", get::get_pattern)
            .alias(ONE_ALIAS)
            .doc(TAG, "Reads a pattern, or one attribute of it")
            .success("the pattern or the attribute")
            .response_with(404, "there is none", Content::either::<PatternsResponse, ApiResponse>()),
        post(ONE, "create_pattern", write::create_pattern)
            .alias(ONE_ALIAS)
            .doc(TAG, "Publishes a pattern")
            .creates()
            .audit(Subject::Pattern)
            .success("published"),
        put(ONE, "replace_pattern", write::replace_pattern)
            .alias(ONE_ALIAS)
            .doc(TAG, "Replaces a pattern; the caller becomes its owner")
            .audit(Subject::Pattern)
            .success("replaced"),
        patch(ONE, "patch_pattern", patch::patch_pattern)
            .alias(ONE_ALIAS)
            .doc(TAG, "Changes one attribute of a pattern")
            .audit(Subject::Pattern)
            .success("changed"),
        delete(ONE, "delete_pattern", write::delete_pattern)
            .alias(ONE_ALIAS)
            .doc(TAG, "Removes a pattern with its keys; nodes that use it keep its name")
            .audit(Subject::Pattern)
            .success("removed"),
    ]
}

/// Returns the feed record of a change to a pattern; `is_public` is the value at the time of the change.
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
