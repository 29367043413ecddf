//! Writes the node blocklist: each change is a function of the row, which is locked meanwhile.
//!
//! Source: orchestration D4.

use std::collections::BTreeSet;

use evenkeel_agbot_store::blocklist::{self as blocklist, BlocklistRow};
use evenkeel_agbot_store::event::{EventRow, insert_event, insert_events};
use evenkeel_agbot_store::node_lock::{NodeLock, lock_nodes};
use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::blocklist::{BlocklistChange, BlocklistEntry, BlocklistKey};
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::{PgConnection, retry};
use jiff::Timestamp;
use serde_json::json;

use crate::{AgbotError, context::Context, lease_check::check_lease, records::entry_of};

/// Actor, time and policy of a change to the blocklist, for its event.
#[derive(Clone, Copy)]
pub struct BlocklistAuthor<'a> {
    /// The user, or the agbot.
    pub actor: &'a str,
    /// The time.
    pub at: Timestamp,
    /// The deployment policy that is changed as a whole; `None` stands for the one of the entry.
    pub policy: Option<&'a PolicyId>,
}

/// Changes one row.
pub(super) async fn change(
    context: &Context,
    lease: Lease,
    key: &BlocklistKey,
    change: &BlocklistChange,
) -> Result<(), AgbotError> {
    let name = context.name();
    let author = BlocklistAuthor { actor: &name, at: context.now(), policy: None };
    retry("blocklist.change", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        write(&mut tx, &[(key.clone(), change.clone())], author).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Writes changes of rows with their events.
pub(super) async fn write(
    tx: &mut PgConnection,
    changes: &[(BlocklistKey, BlocklistChange)],
    author: BlocklistAuthor<'_>,
) -> Result<(), AgbotError> {
    let nodes: BTreeSet<&NodeId> = changes.iter().map(|(key, _)| &key.node).collect();
    lock_nodes(tx, NodeLock::Blocklist, &nodes.into_iter().collect::<Vec<_>>()).await?;
    for (key, change) in changes {
        let known = blocklist::find_entry(tx, &key.node, &key.service, &key.version).await?;
        let known: Option<BlocklistEntry> = known.map(serde_json::from_value).transpose()?;
        let next = BlocklistEntry::changed(known.as_ref(), change);
        match &next {
            Some(entry) if known.as_ref() != Some(entry) => {
                let BlocklistKey { node, service, version } = key.clone();
                let record = serde_json::to_value(entry)?;
                blocklist::upsert_entry(tx, &BlocklistRow { node, service, version, record }).await?;
            }
            None if known.is_some() => {
                let version = Some(key.version.as_str());
                blocklist::delete_entries(tx, &[&key.node], Some(&key.service), version).await?;
            }
            _ => {}
        }
        if let Some(kind) = BlocklistEntry::event_kind(known.as_ref(), change, next.as_ref()) {
            let entry = next.as_ref().or(known.as_ref());
            let text = match (&next, entry) {
                (Some(next), _) => next.text(key),
                (None, _) => cleared_text(key),
            };
            insert_event(tx, &event(kind, key, author, &text, entry)).await?;
        }
    }
    Ok(())
}

fn cleared_text(key: &BlocklistKey) -> String {
    format!("{} {} is no longer blocked", key.service, key.version)
}

fn event(
    kind: &str,
    key: &BlocklistKey,
    author: BlocklistAuthor<'_>,
    text: &str,
    entry: Option<&BlocklistEntry>,
) -> EventRow {
    let until = entry.and_then(|entry| entry.until).map(|until| format!("{until:.3}"));
    let detail = json!({
        "actor": author.actor, "service": key.service, "version": key.version, "until": until,
        "blocks": entry.map(|entry| entry.blocks), "text": text,
    });
    EventRow {
        happened_at: author.at,
        kind: kind.to_owned(),
        ha_group: None,
        node: Some(key.node.clone()),
        policy: author.policy.or(entry.and_then(|entry| entry.policy.as_ref())).cloned(),
        detail,
    }
}

/// Deletes the entries of nodes, and returns those that blocked their nodes; the end of each of these is recorded.
///
/// # Shape
/// `services`: `None` stands for every service.
///
/// # Errors
/// When the database does not respond, or a deleted entry cannot be read.
pub async fn clear_blocklist(
    tx: &mut PgConnection,
    nodes: &BTreeSet<NodeId>,
    services: Option<&BTreeSet<ServiceKey>>,
    author: BlocklistAuthor<'_>,
) -> Result<Vec<(BlocklistKey, BlocklistEntry)>, AgbotError> {
    let nodes: Vec<&NodeId> = nodes.iter().collect();
    lock_nodes(tx, NodeLock::Blocklist, &nodes).await?;
    let Some(services) = services else {
        let deleted = blocklist::delete_entries(tx, &nodes, None, None).await?;
        return note_cleared(tx, deleted, author).await;
    };
    let mut cleared = Vec::new();
    for service in services {
        let deleted = blocklist::delete_entries(tx, &nodes, Some(service), None).await?;
        cleared.extend(note_cleared(tx, deleted, author).await?);
    }
    Ok(cleared)
}

/// Records the end of the blocks of rows that a user deleted, and returns those that blocked their nodes.
async fn note_cleared(
    tx: &mut PgConnection,
    deleted: Vec<BlocklistRow>,
    author: BlocklistAuthor<'_>,
) -> Result<Vec<(BlocklistKey, BlocklistEntry)>, AgbotError> {
    let mut cleared = Vec::new();
    for row in deleted {
        let (key, entry) = entry_of(row)?;
        if entry.until.is_some() {
            cleared.push((key, entry));
        }
    }
    let rows: Vec<EventRow> = cleared
        .iter()
        .map(|(key, entry)| event("blocklist.cleared", key, author, &cleared_text(key), Some(entry)))
        .collect();
    if !rows.is_empty() {
        insert_events(tx, author.at, &rows).await?;
    }
    Ok(cleared)
}
