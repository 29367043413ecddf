//! Effects of a write of a document now, as far as the API knows them.

use evenkeel_wire::agbot::plan::{DependencyWrite, PlanResponse, PlannedStops};
use serde_json::Value;

use super::difference::Difference;
use super::kind::{Revisable, RevisableKind};
use super::stored::{StoredDocument, changed_members};
use super::text::{compared_text, shown_text};
use crate::failure::Failure;
use crate::plan_token::token_of;
use crate::session::Reader;

/// Effects of a write of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedDocument {
    /// Difference to the stored document.
    pub(crate) difference: Difference,
    /// The plan of a deployment policy; none for other documents, and when no agbot of the hub serves the policy.
    pub(crate) policy: Option<PlanResponse>,
    /// Deployment policies that lose instances by the write of another document.
    pub(crate) stops: Vec<PlannedStops>,
    /// True if the API plans documents of this kind.
    pub(crate) is_planned: bool,
    /// Differs when the document, the stored one or the effects do.
    pub(crate) token: String,
}

impl PlannedDocument {
    /// Plans a write.
    ///
    /// # Errors
    /// When the API refuses the document, or the reader may not read what it concerns.
    pub(crate) async fn of(
        reader: &Reader,
        document: &Revisable,
        stored: Option<&StoredDocument>,
        wanted: &Value,
    ) -> Result<Self, Failure> {
        let policy = match document.kind {
            RevisableKind::DeploymentPolicy => {
                let planned =
                    reader.client.plan_deployment_policy(&document.org, &document.name, Some(wanted));
                planned.await?
            }
            _ => None,
        };
        let stops = stops(reader, document, stored, wanted).await?;
        let is_planned = policy.is_some() || stops.is_some();
        Ok(Self::new(document, (stored, wanted), policy, stops.unwrap_or_default(), is_planned))
    }

    fn new(
        document: &Revisable,
        (stored, wanted): (Option<&StoredDocument>, &Value),
        policy: Option<PlanResponse>,
        stops: Vec<PlannedStops>,
        is_planned: bool,
    ) -> Self {
        let before = stored.map_or(&Value::Null, |stored| &stored.document);
        let difference = difference(before, wanted);
        let of_policy = policy.as_ref().map(|plan| plan.token.as_str());
        let losses: Vec<String> =
            stops.iter().map(|one| format!("{} {} {}", one.policy, one.instances, one.stopped)).collect();
        let of_stored = stored.map(|stored| shown_text(&stored.document));
        let token = token_of(&(document, of_stored, shown_text(wanted), of_policy, losses));
        Self { difference, policy, stops, is_planned, token }
    }

    /// Returns the token to which a write by the command line can be bound; empty without one.
    pub(crate) fn command_token(&self) -> &str {
        self.policy.as_ref().map_or("", |plan| &plan.token)
    }
}

/// Returns the difference of two documents; null is the empty one.
pub(crate) fn difference(before: &Value, after: &Value) -> Difference {
    let text = |document: &Value| if document.is_null() { String::new() } else { compared_text(document) };
    Difference::of(&text(before), &text(after))
}

/// Returns what a write of something stops that deployment policies depend on; none if the API does not plan it.
async fn stops(
    reader: &Reader,
    document: &Revisable,
    stored: Option<&StoredDocument>,
    wanted: &Value,
) -> Result<Option<Vec<PlannedStops>>, Failure> {
    let name = document.name.clone();
    let write = match document.kind {
        RevisableKind::NodePolicy => {
            DependencyWrite::NodePolicy { node: name, policy: wanted.as_object().cloned() }
        }
        RevisableKind::HaGroup => {
            let members = wanted.get("members").and_then(Value::as_array).into_iter().flatten();
            let members = members.filter_map(Value::as_str).map(str::to_owned).collect();
            DependencyWrite::HaGroup { group: name, members: Some(members) }
        }
        RevisableKind::OrgSettings => {
            let before = stored.map(|stored| stored.document.clone()).unwrap_or_default();
            DependencyWrite::Settings { settings: changed_members(&before, wanted) }
        }
        _ => return Ok(None),
    };
    let found = reader.client.plan_stops(&document.org, &write).await?;
    Ok(found.map(|found| found.policies))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(stored: &Value, wanted: &Value, token: &str) -> PlannedDocument {
        let document = Revisable::new(RevisableKind::DeploymentPolicy, "o", "p");
        let stored = StoredDocument { document: stored.clone(), owner: None };
        let policy: Option<PlanResponse> =
            serde_json::from_value(json!({"policy": "o/p", "token": token, "complete": true, "units": []}))
                .ok();
        assert!(policy.is_some());
        PlannedDocument::new(&document, (Some(&stored), wanted), policy, Vec::new(), true)
    }

    #[test]
    fn token_changes_with_the_document_the_stored_one_and_the_plan() {
        let (one, two) = (json!({"label": "a", "b": 1}), json!({"b": 1, "label": "b"}));
        let token = plan(&one, &two, "0a").token;
        let reordered = json!({"b": 1, "label": "a"});
        assert_eq!(plan(&reordered, &two, "0a").token, token, "the order of members means nothing");
        for other in [plan(&two, &two, "0a"), plan(&one, &one, "0a"), plan(&one, &two, "0b")] {
            assert_ne!(other.token, token);
        }
    }

    #[test]
    fn plan_shows_the_difference_and_whether_there_is_one() {
        let found = plan(&json!({"label": "a"}), &json!({"label": "b", "description": ""}), "0a");
        assert_eq!((found.difference.removed, found.difference.added), (1, 1));
        assert_eq!(found.command_token(), "0a");
        assert!(
            plan(&json!({"label": "a"}), &json!({"label": "a", "constraints": []}), "").difference.is_empty()
        );
    }
}
