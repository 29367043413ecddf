//! Observes the exchange: reads it completely at start and periodically, and follows the change feed in between.

pub mod approvals;
pub mod condition;
pub mod facts;
mod full;
pub mod log;
pub(crate) mod lookup;
mod orchestration;
mod other_agbots;
pub mod read;
pub mod served_entries;
mod services;
mod state;
pub mod statistics;
pub mod status;
mod tasks;

pub use read::WrittenPolicy;
pub use served_entries::{SHARED_ORG, ServedEntries};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NmpId, NodeId, PolicyId};
use evenkeel_planner_model::event::Event;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::agbot::PatchAgbot;
use evenkeel_wire::exchange::changes::{ChangedResource, ChangesRequest};

use crate::AgbotError;
use crate::context::Context;

const PAGE: i64 = 1_000;
/// Pause between two passes.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between polls of an exchange that does not park them.
const UNPARKED: Duration = Duration::from_secs(1);

/// Observes the exchange: one pass is a full read and what follows on the feed until the next one is due.
pub(crate) struct ExchangeObserver(pub Arc<Context>);

impl Worker for ExchangeObserver {
    type Error = AgbotError;
    const NAME: &'static str = "change_feed";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), AgbotError> {
        follow(&self.0).await
    }

    fn pause(&self) -> Duration {
        PAUSE
    }
}

/// Reads everything, then follows the feed until the next comparison is due.
async fn follow(context: &Context) -> Result<(), AgbotError> {
    require_approval(context).await?;
    publish_key(context).await?;
    let mut next_change = context.client.max_change_id().await? + 1;
    let served_entries = context.served_entries().await?;
    if !context.reading.is_loaded() {
        context.send_events(status::last_alive(context).await?.into_iter().collect()).await;
    }
    let mut events = full::everything(context, &served_entries).await?;
    // Before the first decision: a policy that is left to another agbot must not be proposed.
    events.extend(other_agbots::changed(context, &served_entries).await?);
    context.send_events(events).await;
    log::compare(context).await?;
    tasks::compare(context, |_| true).await?;
    // From now on the start of the time without heartbeats is known. The reader of heartbeats continues with
    // the missing ones.
    if let Err(error) = status::heartbeats(context).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "not all heartbeats could be read at the start"
        );
    }
    context.reading.set_loaded();
    context.send_events(vec![Event::FullReconcile]).await;
    context.mailbox.mail.notify_one();
    approvals::compare(context, &served_entries, |org| !context.reading.unread.contains(org)).await?;
    let read_at = Instant::now();
    while read_at.elapsed() < context.settings.reconcile_period {
        read_unread(context, &served_entries).await?;
        let request = ChangesRequest {
            change_id: next_change,
            max_records: PAGE,
            org_list: Some(served_entries.orgs().into_iter().collect()),
            extensions: true,
            ..ChangesRequest::default()
        };
        let began = Instant::now();
        let (org, wait) = (&context.settings.org, context.settings.poll_wait);
        let (response, _) = context.client.wait_for_changes(org, &request, wait).await?;
        let is_idle = response.changes.is_empty();
        let is_stale = apply(context, &served_entries, &response.changes).await?;
        next_change = response.most_recent_change_id + 1;
        if is_stale {
            return Ok(());
        }
        if is_idle && began.elapsed() < UNPARKED {
            tokio::time::sleep(UNPARKED).await;
        }
    }
    Ok(())
}

/// Reads again what could not be read before, when it is due.
async fn read_unread(context: &Context, served_entries: &ServedEntries) -> Result<(), AgbotError> {
    let before: BTreeSet<String> = context.reading.unread.names().into_iter().collect();
    let events = full::unread(context, served_entries).await?;
    if events.is_empty() {
        return Ok(());
    }
    context.send_events(events).await;
    let is_read = |org: &str| before.contains(org) && !context.reading.unread.contains(org);
    tasks::compare(context, |node| is_read(node.org())).await?;
    approvals::compare(context, served_entries, is_read).await?;
    note_other_agbots(context, served_entries).await?;
    context.mailbox.mail.notify_one();
    Ok(())
}

/// Refuses to begin before an administrator approved this agbot: it may read nothing that it needs, and would take all nodes for deleted.
async fn require_approval(context: &Context) -> Result<(), AgbotError> {
    let (org, id) = (&context.settings.org, &context.settings.id);
    match context.client.agbot_approval(org, id).await? {
        Some(approval) if approval.approved_by.is_none() => Err(AgbotError::Unapproved(context.name())),
        _ => Ok(()),
    }
}

/// Ensures that the exchange has this agbot's messaging key.
async fn publish_key(context: &Context) -> Result<(), AgbotError> {
    let (org, id) = (&context.settings.org, &context.settings.id);
    let wanted = context.keys.public.to_base64();
    let row = context.client.agbot(org, id).await?;
    if row.is_none_or(|row| row.public_key != wanted) {
        let change = PatchAgbot { public_key: Some(wanted), ..PatchAgbot::default() };
        context.client.patch_agbot(org, id, &change).await?;
    }
    Ok(())
}

/// Converts changes into events; returns true when the served entries changed, so that everything must be read again.
async fn apply(
    context: &Context,
    served_entries: &ServedEntries,
    changes: &[ChangedResource],
) -> Result<bool, AgbotError> {
    let mut seen = BTreeSet::new();
    let mut is_stale = false;
    let is_own =
        |change: &ChangedResource| change.org_id == context.settings.org && change.id == context.settings.id;
    // Before anything is read, which takes time and may fail.
    if changes.iter().any(|change| change.resource == "agbotmsgs" && is_own(change)) {
        context.mailbox.mail.notify_one();
    }
    for change in changes {
        if !seen.insert((&change.org_id, &change.resource, &change.id, &change.operation)) {
            continue;
        }
        let is_own = is_own(change);
        match change.resource.as_str() {
            "agbotbusinesspols" | "agbotpatterns" if is_own => is_stale = true,
            "agbotapproval" if is_own => is_stale = true,
            "agbotbusinesspols" | "agbotpatterns" | "agbotapproval" => {
                note_other_agbots(context, served_entries).await?;
            }
            "agbot" if change.operation == "deleted" => note_other_agbots(context, served_entries).await?,
            "planapproval" if approvals::is_recorded(served_entries, &change.org_id) => {
                match approvals::changed(context, &change.org_id, &change.id).await {
                    Err(AgbotError::Exchange(error)) => {
                        full::note_failed(context, &change.org_id, error).await?;
                    }
                    outcome => outcome?,
                }
            }
            "org" if served_entries.is_affected_by_org(&change.org_id, &change.operation) => is_stale = true,
            _ => {
                let events = match events_of(context, served_entries, change).await {
                    Ok(events) => events,
                    Err(error) => {
                        full::note_failed(context, &change.org_id, error).await?;
                        continue;
                    }
                };
                if change.resource == "ha_group" {
                    // A node that joins a group moves to the group's partition: records that other agbots wrote about it must be known first.
                    log::catch_up(context).await?;
                }
                let capable = tasks::newly_capable(context, &events);
                context.send_events(events).await;
                if let Some(node) = capable {
                    // Reports of the node count only when the model knows it as capable.
                    context.events_applied().await;
                    tasks::compare_one(context, &node).await?;
                }
            }
        }
    }
    Ok(is_stale)
}

/// Reads again what other agbots serve.
async fn note_other_agbots(context: &Context, served_entries: &ServedEntries) -> Result<(), ClientError> {
    let changed = other_agbots::changed(context, served_entries).await?;
    context.send_events(changed.into_iter().collect()).await;
    Ok(())
}

async fn events_of(
    context: &Context,
    served_entries: &ServedEntries,
    change: &ChangedResource,
) -> Result<Vec<Event>, ClientError> {
    let org = change.org_id.as_str();
    let node = || NodeId::new(org, &change.id);
    let is_node_org = served_entries.serves_nodes_of(org);
    match change.resource.as_str() {
        "node" | "services_configstate" | "nodeorchestration" if is_node_org => {
            read::node(context, &node()).await
        }
        "nodepolicies" if is_node_org => read::node_policy(context, &node()).await,
        "nodestatus" if is_node_org => read::status(context, &node()).await,
        "nodeagreements" if is_node_org => read::node_agreements(context, &node()).await,
        "taskstatus" if is_node_org => tasks::reported(context, &node()).await,
        "nodemgmtpolstatus" if is_node_org => read::management_statuses(context, &node()).await,
        "orgorchestration" if is_node_org || served_entries.policy_orgs().any(|one| one == org) => {
            read::org_settings(context, org).await
        }
        "ha_group" if is_node_org => read::ha_group(context, &GroupId::new(org, &change.id)).await,
        "policy" => read::deployment_policy(context, served_entries, &PolicyId::new(org, &change.id)).await,
        "policyorchestration" => Ok(vec![Event::RemovalForced { policy: PolicyId::new(org, &change.id) }]),
        "pattern" => read::pattern(context, served_entries, org, &change.id).await,
        "service" | "servicepolicies" => read::service(context, org, &change.id).await,
        "mgmtpolicy" => read::management_policy(context, &NmpId::new(org, &change.id)).await,
        _ => Ok(Vec::new()),
    }
}
