//! Requests that write groups, validated as far as possible without the database.

use std::collections::BTreeSet;

use evenkeel_access::Caller;
use evenkeel_domain::orchestration::HaGroupOrchestration;

use crate::ApiError;
use crate::routes::shape::{MAX_PART, require_length};

/// Longest accepted name: longer ones cannot be keys.
const MAX_NAME: usize = 1024;

/// Desired state of a group.
#[derive(Debug, Clone)]
#[expect(clippy::option_option, reason = "absent, null and given are different")]
pub struct WantedGroup {
    /// Organization.
    pub org: String,
    /// Name of the group.
    pub name: String,
    /// None: leave it as it is.
    pub description: Option<String>,
    /// Sorted ids without organization; none: leave them as they are.
    pub members: Option<Vec<String>>,
    /// Limit of members that may be disrupted at once, or its removal; none leaves it as it is.
    pub orchestration: Option<Option<HaGroupOrchestration>>,
    /// True if clusters may be members, as the routes of the reference allow. Clusters have their own high
    /// availability, so documents refuse them.
    pub allows_clusters: bool,
}

impl WantedGroup {
    /// Brings the members into their plain form.
    ///
    /// # Errors
    /// 400 when the description is too long; 403 when one node is named both with and without its organization: the reference counts two nodes, of which one is missing.
    pub fn new(
        caller: &Caller,
        org: String,
        name: String,
        description: Option<String>,
        members: Option<Vec<String>>,
    ) -> Result<WantedGroup, ApiError> {
        require_length("description", description.as_ref().map_or(0, String::len), MAX_PART)?;
        let members = match members {
            Some(members) => Some(plain_ids(&org, members).ok_or_else(|| not_all_nodes(caller))?),
            None => None,
        };
        Ok(WantedGroup { org, name, description, members, orchestration: None, allows_clusters: true })
    }
}

/// Checks a name that did not come in the path.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
        return Err(ApiError::invalid_input(format!(
            "name: must have 1 to {MAX_NAME} bytes and no NUL character"
        )));
    }
    Ok(())
}

/// The 403 for a list with nodes that do not exist or belong to another owner.
pub fn not_all_nodes(caller: &Caller) -> ApiError {
    ApiError::access_denied(format!(
        "Access denied: '{caller}' does not have authorization: WRITE_ALL_NODES: \
         every member must exist and be a node that the caller may change"
    ))
}

/// Ids without the organization, each once, sorted; `None` when different texts name the same node.
fn plain_ids(org: &str, members: Vec<String>) -> Option<Vec<String>> {
    let given: BTreeSet<String> = members.into_iter().collect();
    let prefix = format!("{org}/");
    let plain: BTreeSet<String> =
        given.iter().map(|id| id.strip_prefix(&prefix).unwrap_or(id).to_owned()).collect();
    (plain.len() == given.len()).then(|| plain.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(given: &[&str]) -> Option<Vec<String>> {
        plain_ids("o", given.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn members_are_plain_sorted_and_unique() {
        assert_eq!(ids(&["o/b", "a", "a"]), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(ids(&["p/b"]), Some(vec!["p/b".to_owned()]));
        assert_eq!(ids(&["b", "o/b"]), None);
    }
}
