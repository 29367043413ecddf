//! Tails the log of changed records, so that the model holds the agreements, claims, rollouts and usage of all agbots on the database.
//!
//! The log is the only source of records for the model, apart from the outcomes of this agbot's own commands. At start, when the
//! position is lost, and for the periodic comparison all records are read in bulk. Source: docs/adr/0015-agbots-tail-a-log-of-records.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot_store::agreement::UsageRow;
use evenkeel_agbot_store::change::{self, Position, RecordKey, Records};
use evenkeel_agbot_store::health::{EntityKey, HealthRow};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::{ENDED_MEMORY_SECS, RecordKeys};
use evenkeel_planner_record::blocklist::BlocklistKey;
use evenkeel_planner_record::claims::Scope;
use evenkeel_planner_record::health::{HealthEvent, Registration, StoredReport};
use evenkeel_planner_record::workload::Task;
use evenkeel_runtime::worker::Worker;
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::AgbotError;
use crate::context::{Context, EngineHandle};
use crate::records::{claim_of, entity_key, entity_of, entry_of, workload_of};

/// Pause between two reads of the log.
const PERIOD: Duration = Duration::from_millis(300);
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Events sent to the engine at once: fewer than trigger a full reconcile.
const PART: usize = 32;

/// Reads what was committed before this call. The engine gets it before any event that the caller sends afterwards.
///
/// # Errors
/// When the database does not respond or a record cannot be read. The next read is then in bulk.
pub(crate) async fn catch_up(context: &Context) -> Result<(), AgbotError> {
    read(context, false).await
}

/// Reads all records instead of only the changed ones.
///
/// # Errors
/// As for [`catch_up`].
pub(crate) async fn compare(context: &Context) -> Result<(), AgbotError> {
    read(context, true).await
}

impl Context {
    /// Reads what was committed before this call, and waits until it is in the model.
    ///
    /// The engine then acts at once, so that the next read of the status shows an action; otherwise both would wait for the next read of
    /// the log. A log that cannot be read is read again soon, and delays nothing but that.
    pub async fn follow_records(&self) {
        if let Err(error) = catch_up(self).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "the log of records was not read");
        }
        self.events_applied().await;
    }
}

async fn read(context: &Context, is_bulk: bool) -> Result<(), AgbotError> {
    let mut position = context.reading.records.position().await;
    let began = Instant::now();
    let after = position.take().filter(|_| !is_bulk);
    let is_complete = after.is_none();
    let (events, end) = match after {
        Some(after) => read_after(context, &after).await?,
        None => read_all(context).await?,
    };
    let part = if is_complete { usize::MAX } else { PART };
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        context.send_events(events.by_ref().take(part).collect()).await;
    }
    *position = Some(end);
    context.reading.records.note_read(began);
    Ok(())
}

pub(crate) struct LogTail {
    context: Arc<Context>,
    pause: Duration,
}

impl LogTail {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, pause: PERIOD }
    }
}

impl Worker for LogTail {
    type Error = AgbotError;
    const NAME: &'static str = "record_log";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        let result = catch_up(&self.context).await;
        self.pause = if result.is_ok() { PERIOD } else { (self.pause * 2).min(LONGEST_PAUSE) };
        result
    }

    fn pause(&self) -> Duration {
        self.pause
    }
}

async fn read_after(context: &Context, after: &Position) -> Result<(Vec<Event>, Position), AgbotError> {
    let read = context.database.read(async |connection| {
        let Some((keys, end)) = change::list_after(connection, after).await? else {
            return Ok::<_, AgbotError>(None);
        };
        Ok(Some((change::read_records(connection, &keys).await?, keys, end)))
    });
    let Some((records, keys, end)) = read.await? else {
        tracing::info!("the log of changed records begins after the last read, reading all records");
        return read_all(context).await;
    };
    Ok((new_to_model(context, changed(keys, records)?), end))
}

async fn read_all(context: &Context) -> Result<(Vec<Event>, Position), AgbotError> {
    let now = context.now();
    let memory = SignedDuration::from_secs(ENDED_MEMORY_SECS.cast_signed());
    let ended_since = now.saturating_sub(memory).unwrap_or(now);
    let read = context.database.read(async |connection| {
        // Changes during the read of the tables are read again by the next read.
        let end = change::find_end(connection).await?;
        let events = recorded(change::read_all(connection, ended_since).await?)?;
        // A record of the model that was not found may have been inserted after its table was read.
        let held = keys_of(context.model().record_keys());
        let missing = without(held, &events);
        let found = change::read_records(connection, &missing).await?;
        let mut all = changed(missing, found)?;
        all.extend(events);
        Ok::<_, AgbotError>((all, end))
    });
    let (all, end) = read.await?;
    Ok((new_to_model(context, all), end))
}

/// Removes events that the model already reflects: this agbot's own changes, and everything that a bulk read confirms.
fn new_to_model(engine: &EngineHandle, mut events: Vec<Event>) -> Vec<Event> {
    let model = engine.model();
    events.retain(|event| !model.is_recorded(event));
    events
}

fn recorded(records: Records) -> Result<Vec<Event>, AgbotError> {
    let mut events = Vec::new();
    for record in records.agreements {
        events.push(Event::AgreementRecorded { agreement: Box::new(decoded("agreement", record, &["id"])?) });
    }
    for row in records.usage {
        events.push(usage_event(row)?);
    }
    for record in records.rollouts {
        let rollout = decoded("rollout", record, &["policy", "group"])?;
        events.push(Event::RolloutRecorded { rollout: Box::new(rollout) });
    }
    for row in records.claims {
        events.push(Event::ClaimRecorded { claim: Box::new(claim_of(row)?) });
    }
    for row in records.blocklist {
        let (key, entry) = entry_of(row)?;
        events.push(Event::BlocklistRecorded { key, entry: Some(Box::new(entry)) });
    }
    // An action of a user changes them together with the workload, and is judged by them.
    for row in records.instances {
        let instance = decoded("instance", row.record, &[])?;
        let instance = Some(Box::new(instance));
        events.push(Event::InstanceRecorded { policy: row.policy, node: row.node, instance });
    }
    for row in records.workloads {
        events.push(Event::WorkloadRecorded { workload: Box::new(workload_of(row)?) });
    }
    events.extend(health_events(records.health)?);
    for record in records.registrations {
        let registration: Registration = decoded("registration", record, &["target"])?;
        let target = registration.target.clone();
        events.push(Event::RegistrationRecorded { target, registration: Some(Box::new(registration)) });
    }
    let tasks = records.tasks.into_iter().map(|record| decoded("task", record, &["id"]));
    let mut tasks = tasks.collect::<Result<Vec<Task>, AgbotError>>()?;
    // The reason for which a task stops is derived from the one that replaces it.
    tasks.sort_by_key(|task| !task.is_wanted());
    events.extend(tasks.into_iter().map(|task| Event::TaskRecorded { task: Box::new(task) }));
    Ok(events)
}

/// Returns an event for each entity with health events.
fn health_events(rows: Vec<HealthRow>) -> Result<Vec<Event>, AgbotError> {
    let mut found: BTreeMap<EntityKey, Vec<HealthEvent>> = BTreeMap::new();
    for row in rows {
        let report: StoredReport = decoded("health event", row.record, &["source", "property"])?;
        found.entry(row.entity).or_default().push(HealthEvent::of(&report));
    }
    let found = found.into_iter();
    found.map(|(key, events)| Ok(Event::HealthRecorded { entity: entity_of(&key)?, events })).collect()
}

/// Decodes a record whose key is in these fields.
fn decoded<T: DeserializeOwned>(kind: &str, record: Value, key: &[&str]) -> Result<T, AgbotError> {
    T::deserialize(&record).map_err(|source| {
        let values: Vec<&str> = key.iter().filter_map(|field| record.get(field)?.as_str()).collect();
        AgbotError::UnreadableRecord { record: format!("{kind} {}", values.join(" of ")), source }
    })
}

fn usage_event(row: UsageRow) -> Result<Event, AgbotError> {
    let unreadable = |source| AgbotError::UnreadableRecord {
        record: format!("the use of policy {} on node {}", row.policy, row.node),
        source,
    };
    let usage = row.usage.map(serde_json::from_value).transpose().map_err(unreadable)?;
    let backoff = row.backoff.map(serde_json::from_value).transpose().map_err(unreadable)?;
    Ok(Event::UsageRecorded { node: row.node, policy: row.policy, usage, backoff })
}

/// Returns the events for the records with these keys: a record that is not found was deleted.
fn changed(keys: BTreeSet<RecordKey>, found: Records) -> Result<Vec<Event>, AgbotError> {
    let found = recorded(found)?;
    let removed = without(keys, &found).into_iter().map(removal);
    let mut events: Vec<Event> = removed.collect::<Result<_, _>>()?;
    events.extend(found);
    Ok(events)
}

fn without(mut keys: BTreeSet<RecordKey>, events: &[Event]) -> BTreeSet<RecordKey> {
    for key in events.iter().filter_map(key_of) {
        keys.remove(&key);
    }
    keys
}

fn removal(key: RecordKey) -> Result<Event, AgbotError> {
    Ok(match key {
        RecordKey::Agreement(agreement) => Event::AgreementRemoved { agreement },
        RecordKey::Usage(node, policy) => Event::UsageRecorded { node, policy, usage: None, backoff: None },
        RecordKey::Claim(group, scope) => Event::ClaimRemoved { key: (group, Scope::from_text(&scope)) },
        RecordKey::Rollout(group, policy) => Event::RolloutRemoved { group, policy },
        RecordKey::Workload(policy) => Event::WorkloadRemoved { policy },
        RecordKey::Task(task) => Event::TaskRemoved { task },
        RecordKey::Instance(policy, node) => Event::InstanceRecorded { policy, node, instance: None },
        RecordKey::Health(key) => Event::HealthRecorded { entity: entity_of(&key)?, events: Vec::new() },
        RecordKey::Registration(key) => {
            Event::RegistrationRecorded { target: entity_of(&key)?, registration: None }
        }
        RecordKey::Blocklist(node, service, version) => {
            Event::BlocklistRecorded { key: BlocklistKey { node, service, version }, entry: None }
        }
    })
}

fn key_of(event: &Event) -> Option<RecordKey> {
    match event {
        Event::AgreementRecorded { agreement } => Some(RecordKey::Agreement(agreement.id.clone())),
        Event::UsageRecorded { node, policy, .. } => Some(RecordKey::Usage(node.clone(), policy.clone())),
        Event::ClaimRecorded { claim } => {
            Some(RecordKey::Claim(claim.group.clone(), claim.scope.text().to_owned()))
        }
        Event::RolloutRecorded { rollout } => {
            Some(RecordKey::Rollout(rollout.group.clone(), rollout.policy.clone()))
        }
        Event::WorkloadRecorded { workload } => Some(RecordKey::Workload(workload.policy.clone())),
        Event::TaskRecorded { task } => Some(RecordKey::Task(task.id.clone())),
        Event::InstanceRecorded { policy, node, .. } => {
            Some(RecordKey::Instance(policy.clone(), node.clone()))
        }
        Event::HealthRecorded { entity, .. } => Some(RecordKey::Health(entity_key(entity))),
        Event::RegistrationRecorded { target, .. } => Some(RecordKey::Registration(entity_key(target))),
        Event::BlocklistRecorded { key, .. } => Some(blocklist_key(key.clone())),
        _ => None,
    }
}

fn blocklist_key(BlocklistKey { node, service, version }: BlocklistKey) -> RecordKey {
    RecordKey::Blocklist(node, service, version)
}

fn keys_of(held: RecordKeys) -> BTreeSet<RecordKey> {
    let agreements = held.agreements.into_iter().map(RecordKey::Agreement);
    let usage = held.usage.into_iter().map(|(node, policy)| RecordKey::Usage(node, policy));
    let claims = held.claims.into_iter();
    let claims = claims.map(|(group, scope)| RecordKey::Claim(group, scope.text().to_owned()));
    let rollouts = held.rollouts.into_iter().map(|(group, policy)| RecordKey::Rollout(group, policy));
    let workloads = held.workloads.into_iter().map(RecordKey::Workload);
    let tasks = held.tasks.into_iter().map(RecordKey::Task);
    let instances = held.instances.into_iter();
    let instances = instances.map(|(policy, node)| RecordKey::Instance(policy, node));
    let health = held.health.iter().map(|entity| RecordKey::Health(entity_key(entity)));
    let registrations = held.registrations.iter();
    let registrations = registrations.map(|target| RecordKey::Registration(entity_key(target)));
    let blocklist = held.blocklist.into_iter().map(blocklist_key);
    let of_workloads =
        workloads.chain(tasks).chain(instances).chain(health).chain(blocklist).chain(registrations);
    agreements.chain(usage).chain(claims).chain(rollouts).chain(of_workloads).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_record_is_named() {
        let record =
            serde_json::json!({"group": "o/g", "policy": "o/p", "state": {"state": "of-a-newer-version"}});
        let found = Records { rollouts: vec![record], ..Records::default() };
        let error = recorded(found).err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("the agbot's record of rollout o/p of o/g cannot be read; is it of a newer version?")
        );
    }
}
