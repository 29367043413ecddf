//! The agbot's own rows as events: read whole at start and after a take-over; claims and open rollouts are looked at every
//! second, because other agbots and users write them too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_planner::claims::{Claim, ClaimRef, ClaimRequest, Scope};
use evenkeel_planner::event::Event;
use evenkeel_planner::ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner::rolling::Rollout;
use evenkeel_store::agbot::claim::{self, ClaimRow, EndedClaim, NewClaim};
use evenkeel_store::agbot::partition::LeaseRow;
use evenkeel_store::agbot::{agreement, rollout};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::AgbotError;
use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(1);

/// Runs until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
        match shared_events(&context).await {
            Ok(events) => context.tell(events).await,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "claims and rollouts could not be read"
                );
            }
        }
    }
}

async fn shared_events(context: &Context) -> Result<Vec<Event>, AgbotError> {
    let mut events = claim_events(context).await?;
    events.extend(rollout_events(context).await?);
    Ok(events)
}

/// Open rollouts that are newer than what the replica knows.
async fn rollout_events(context: &Context) -> Result<Vec<Event>, AgbotError> {
    let rows = rollout::list_open(&mut *context.database.acquire().await?).await?;
    let stored = rows.into_iter().map(serde_json::from_value).collect::<Result<Vec<Rollout>, _>>()?;
    let known: BTreeMap<_, u64> = {
        let model = context.model();
        model.rollouts().map(|one| ((one.group.clone(), one.policy.clone()), one.revision)).collect()
    };
    let is_newer = |one: &Rollout| {
        known.get(&(one.group.clone(), one.policy.clone())).is_none_or(|&revision| revision < one.revision)
    };
    Ok(stored
        .into_iter()
        .filter(is_newer)
        .map(|rollout| Event::RolloutRecorded { rollout: Box::new(rollout) })
        .collect())
}

/// Claims that differ from what the replica knows.
async fn claim_events(context: &Context) -> Result<Vec<Event>, AgbotError> {
    let rows = claim::list_all(&mut *context.database.acquire().await?).await?;
    let stored = rows.into_iter().map(claim_of).collect::<Result<Vec<Claim>, _>>()?;
    let known: Vec<Claim> = context.model().claims().cloned().collect();
    let keys: BTreeSet<_> = stored.iter().map(Claim::key).collect();
    let mut events: Vec<Event> = known
        .iter()
        .map(Claim::key)
        .filter(|key| !keys.contains(key))
        .map(|key| Event::ClaimRemoved { key })
        .collect();
    events.extend(
        stored
            .into_iter()
            .filter(|claim| !known.contains(claim))
            .map(|claim| Event::ClaimRecorded { claim: Box::new(claim) }),
    );
    Ok(events)
}

/// Everything the agbot has recorded.
///
/// # Errors
/// When the database does not answer or a record cannot be read.
pub(crate) async fn read_all(context: &Context) -> Result<Vec<Event>, AgbotError> {
    let mut connection = context.database.acquire().await?;
    let mut events = Vec::new();
    for record in agreement::list_live(&mut connection).await? {
        events.push(Event::AgreementRecorded { agreement: Box::new(serde_json::from_value(record)?) });
    }
    for row in agreement::list_usage(&mut connection).await? {
        events.push(Event::UsageRecorded {
            node: NodeId::from_text(&row.node),
            policy: PolicyId::from_text(&row.policy),
            usage: row.usage.map(serde_json::from_value).transpose()?,
            backoff: row.backoff.map(serde_json::from_value).transpose()?,
        });
    }
    for record in rollout::list_rollouts(&mut connection).await? {
        events.push(Event::RolloutRecorded { rollout: Box::new(serde_json::from_value(record)?) });
    }
    connection.release();
    events.extend(claim_events(context).await?);
    Ok(events)
}

/// A stored row as a claim.
///
/// # Errors
/// When purpose or phase cannot be read.
pub(crate) fn claim_of(row: ClaimRow) -> Result<Claim, AgbotError> {
    Ok(Claim {
        group: GroupId::from_text(&row.ha_group),
        scope: Scope::from_text(&row.scope),
        node: NodeId::from_text(&row.node),
        purpose: serde_json::from_value(row.purpose)?,
        version: row.version,
        fencing: row.fencing.unsigned_abs(),
        phase: serde_json::from_value(serde_json::Value::String(row.phase))?,
        since: row.since,
        phase_since: row.phase_at,
        deadline: row.deadline,
    })
}

/// A claim to insert, if its group still has this revision. `waits_end_before`: for agent claims.
///
/// # Errors
/// Never in practice: purpose and phase are plain data.
pub(crate) fn new_claim(
    request: &ClaimRequest,
    revision: i64,
    now: Timestamp,
    waits_end_before: Option<Timestamp>,
) -> Result<NewClaim, AgbotError> {
    let claim = request.clone().into_claim(0, now);
    let row = ClaimRow {
        ha_group: claim.group.as_str().to_owned(),
        scope: claim.scope.text().to_owned(),
        node: claim.node.as_str().to_owned(),
        purpose: serde_json::to_value(&claim.purpose)?,
        version: claim.version,
        fencing: 0,
        phase: phase_text(claim.phase)?,
        since: claim.since,
        phase_at: claim.phase_since,
        deadline: claim.deadline,
    };
    Ok(NewClaim {
        row,
        revision,
        seen_running: serde_json::to_value(&request.seen_running)?,
        waits_end_before,
    })
}

/// A claim to remove.
pub(crate) fn ended(claim: &ClaimRef, why: &str, lease: Option<LeaseRow>) -> EndedClaim {
    EndedClaim {
        ha_group: claim.group.as_str().to_owned(),
        scope: claim.scope.text().to_owned(),
        fencing: claim.fencing.cast_signed(),
        why: why.to_owned(),
        lease,
    }
}

/// A phase as it is stored.
pub(crate) fn phase_text(phase: evenkeel_planner::claims::Phase) -> Result<String, AgbotError> {
    let value = serde_json::to_value(phase)?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}
