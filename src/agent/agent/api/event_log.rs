//! `/eventlog`: the entries of the agent's event log, selected and removed on request.

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use evenkeel_wire::agent::event_log::{EventLogEntry, MessageMeta, SurfacedError};
use serde_json::{Value, json};

use super::{Api, Refusal};
use crate::{
    journal::{Journal, LogEntry},
    step::SurfaceError,
};

/// Conditions of a query: attribute, and the value with its operator in front.
type Conditions = Vec<(String, String)>;

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/eventlog", get(list_current).delete(remove))
        .route("/eventlog/all", get(list_all))
        .route("/eventlog/prune", delete(prune))
        .route("/eventlog/surface", get(surface))
}

fn record(entry: &LogEntry) -> EventLogEntry {
    EventLogEntry {
        record_id: entry.id.to_string(),
        timestamp: entry.at,
        severity: "info".to_owned(),
        message: entry.message.clone(),
        source_type: "agreement".to_owned(),
        message_meta: MessageMeta { message_key: entry.message.clone(), message_args: Vec::new() },
        ..EventLogEntry::default()
    }
}

/// Returns whether an entry meets every condition: `value` is equality, `~value` containment, `<value` and `>value` compare numbers.
fn is_selected(record: &EventLogEntry, conditions: &Conditions) -> bool {
    // Conditions name members as the API spells them.
    let members = json!(record);
    conditions.iter().all(|(attribute, condition)| {
        let found = match members.get(attribute) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => return false,
        };
        let compare = |wanted: &str, order| {
            let (Ok(found), Ok(wanted)) = (found.parse::<u64>(), wanted.parse::<u64>()) else { return false };
            found.cmp(&wanted) == order
        };
        match condition.split_at_checked(1) {
            Some(("~", text)) => found.contains(text),
            Some(("<", number)) => compare(number, std::cmp::Ordering::Less),
            Some((">", number)) => compare(number, std::cmp::Ordering::Greater),
            _ => found == *condition,
        }
    })
}

fn selected(journal: &Journal, from: u64, conditions: &Conditions) -> Vec<EventLogEntry> {
    let entries = journal.log.iter().filter(|entry| entry.id >= from).map(record);
    entries.filter(|record| is_selected(record, conditions)).collect()
}

/// Entries since the node was last unregistered.
async fn list_current(
    State(api): State<Api>,
    Query(conditions): Query<Conditions>,
) -> Result<Json<Vec<EventLogEntry>>, Refusal> {
    let journal = api.journal().await?;
    Ok(Json(selected(&journal, journal.first_entry, &conditions)))
}

async fn list_all(
    State(api): State<Api>,
    Query(conditions): Query<Conditions>,
) -> Result<Json<Vec<EventLogEntry>>, Refusal> {
    Ok(Json(selected(&api.journal().await?, 0, &conditions)))
}

async fn remove(State(api): State<Api>, Query(conditions): Query<Conditions>) -> Result<Removed, Refusal> {
    remove_where(&api, move |_, entry| is_selected(&record(entry), &conditions)).await
}

/// Removes the entries of earlier registrations.
async fn prune(State(api): State<Api>) -> Result<Removed, Refusal> {
    remove_where(&api, |first_entry, entry| entry.id < first_entry).await
}

/// The number of removed entries; status 204 if there are none.
struct Removed(usize);

impl IntoResponse for Removed {
    fn into_response(self) -> Response {
        match self.0 {
            0 => StatusCode::NO_CONTENT.into_response(),
            count => Json(count).into_response(),
        }
    }
}

async fn remove_where(
    api: &Api,
    is_obsolete: impl Fn(u64, &LogEntry) -> bool + Send + 'static,
) -> Result<Removed, Refusal> {
    let count = api
        .handle
        .with(move |journal| {
            let (before, first_entry) = (journal.log.len(), journal.first_entry);
            journal.log.retain(|entry| !is_obsolete(first_entry, entry));
            before - journal.log.len()
        })
        .await?;
    Ok(Removed(count))
}

async fn surface(State(api): State<Api>) -> Result<Json<Vec<SurfacedError>>, Refusal> {
    let journal = api.journal().await?;
    Ok(Json(journal.state.errors.iter().map(SurfaceError::record).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_selected_by_value_text_and_number() {
        let mut journal = Journal::default();
        journal.log_event("agreement a1 is accepted".to_owned(), 100);
        journal.log_event("service web is started".to_owned(), 200);
        let count = |attribute: &str, condition: &str| {
            selected(&journal, 0, &vec![(attribute.to_owned(), condition.to_owned())]).len()
        };
        assert_eq!((count("severity", "info"), count("severity", "error")), (2, 0));
        assert_eq!((count("message", "~web"), count("message", "web")), (1, 0));
        assert_eq!(
            (count("timestamp", ">100"), count("timestamp", "<100"), count("record_id", "0")),
            (1, 0, 1)
        );
        assert_eq!((count("unknown", "x"), selected(&journal, 1, &Vec::new()).len()), (0, 1));
    }
}
