//! Partition leases: shares the partitions between agbots, takes over those of crashed agbots, and releases its own at the end.
//!
//! Each agbot holds about the same number. A lease not renewed in time is lost; the fencing number makes commands of a late agbot
//! harmless. Source: design 4.4.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::partition::{self, LeaseRow};
use evenkeel_planner_model::event::Event;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::{StoreError, retry};
use jiff::{SignedDuration, Timestamp};

use crate::AgbotError;
use crate::context::{Context, EngineHandle};
use crate::observe::log;
use crate::observe::status::heartbeats;

/// Pause between renewals before the exchange has been read.
const BEFORE_LOADED: Duration = Duration::from_millis(100);
/// Pause before records that could not be read at a take-over are read again.
const RETRY: Duration = Duration::from_millis(250);

/// Renews the partition leases of this agbot, and releases its partitions at the end.
pub(crate) struct LeaseKeeper {
    context: Arc<Context>,
    leases: Leases,
    pause: Duration,
}

impl LeaseKeeper {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, leases: Leases::default(), pause: BEFORE_LOADED }
    }
}

impl Worker for LeaseKeeper {
    type Error = StoreError;
    const NAME: &'static str = "leases";

    async fn pass(&mut self) -> Result<(), StoreError> {
        let context = &self.context;
        let period =
            if context.reading.is_loaded() { context.settings.lease_time / 4 } else { BEFORE_LOADED };
        // A failed renewal is tried again after the usual pause.
        self.pause = period;
        self.pause = self.leases.renew(context).await?;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    async fn finish(&mut self) {
        if let Err(error) = release_partitions(&self.context).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "partitions not released, their leases will expire"
            );
        }
    }
}

/// The partitions of this agbot.
#[derive(Debug, Default)]
struct Leases {
    /// Partitions this agbot decides about, with their fencing numbers: the records of all of them have been read.
    held: BTreeMap<u32, u64>,
    leaving: BTreeSet<i32>,
}

impl Leases {
    /// Renews the leases and takes over partitions that are new. Returns the pause before the next renewal.
    async fn renew(&mut self, context: &Context) -> Result<Duration, StoreError> {
        if context.reading.is_loaded() && !has_current_records(context) {
            // The leases expire by themselves, and an agbot that can read the records takes the partitions.
            self.give_up(context, "their records cannot be read").await;
            return Ok(RETRY);
        }
        if context.outbox.take_refusal() {
            self.give_up(context, "the exchange has no fencing numbers for them").await;
            release_leases(context).await?;
            return Ok(RETRY);
        }
        let (shares, confirmed) = match renew(context, &self.leaving).await {
            Ok(renewed) => renewed,
            Err(error) => {
                if !matches!(error, StoreError::Contention { .. }) {
                    self.give_up(context, "their leases could not be renewed").await;
                }
                return Err(error);
            }
        };
        self.leaving = shares.leaving;
        // The owner of the partitions renews their health reports.
        context.send_events(vec![Event::PartitionsConfirmed { at: confirmed }]).await;
        // Before the exchange is read everything would count as deleted: nothing may be decided until then.
        if !context.reading.is_loaded() {
            return Ok(BEFORE_LOADED);
        }
        let is_complete = self.hold(context, by_number(&shares.kept)).await;
        Ok(if is_complete { context.settings.lease_time / 4 } else { RETRY })
    }

    /// Owns exactly these partitions from now on, except new ones whose records cannot be read. Returns whether there are none.
    async fn hold(&mut self, context: &Context, mut leases: BTreeMap<u32, u64>) -> bool {
        let leased = leases.len();
        let is_held = |partition: &u32, fencing: &u64| self.held.get(partition) == Some(fencing);
        let gained = leases.iter().filter(|(partition, fencing)| !is_held(partition, fencing)).count();
        if gained > 0
            // Records that another agbot wrote before the lease was taken must be known before anything is decided.
            && let Err(error) = catch_up(context).await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                partitions = gained,
                "partitions not taken over before their records and heartbeats are read, retrying"
            );
            leases.retain(|partition, fencing| is_held(partition, fencing));
        }
        let is_complete = leases.len() == leased;
        if leases != self.held {
            tracing::info!(partitions = leases.len(), "holding partitions");
            self.held.clone_from(&leases);
            context.send_events(vec![Event::PartitionsChanged { leases }, Event::FullReconcile]).await;
        }
        if gained > 0 && is_complete {
            // Messages that arrived while these partitions had no owner were left in the mailbox.
            context.mailbox.mail.notify_one();
        }
        is_complete
    }

    async fn give_up(&mut self, engine: &EngineHandle, why: &str) {
        if !self.held.is_empty() {
            tracing::warn!(partitions = self.held.len(), why, "partitions released");
            self.held.clear();
            engine.send_events(vec![Event::PartitionsChanged { leases: BTreeMap::new() }]).await;
        }
    }
}

/// Reads what was written meanwhile. An agbot that stood still would take all nodes for silent, so it reads their heartbeats first.
async fn catch_up(context: &Context) -> Result<(), AgbotError> {
    if context.reading.age_of_heartbeats().is_some_and(|age| age > context.settings.lease_time) {
        heartbeats(context).await?;
    }
    log::catch_up(context).await
}

/// Returns whether the records were read within the duration of a lease.
fn has_current_records(context: &Context) -> bool {
    context.reading.records.age().is_some_and(|age| age < context.settings.lease_time)
}

/// The partitions to keep and to release.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shares {
    kept: Vec<LeaseRow>,
    /// Partitions that are no longer decided about. They are released at the next renewal, when the commands in flight are done: a
    /// reply that is acknowledged under a lease that another agbot holds by then would be lost.
    leaving: BTreeSet<i32>,
    released: Vec<i32>,
}

impl Shares {
    /// Divides the held partitions; those in `leaving` have been idle since the previous renewal.
    fn of(mut held: Vec<LeaseRow>, fair: usize, leaving: &BTreeSet<i32>) -> Shares {
        // The same ones are kept each time.
        held.sort_by_key(|row| row.partition);
        let surplus = held.split_off(fair.min(held.len())).into_iter().map(|row| row.partition);
        let (released, leaving): (Vec<i32>, Vec<i32>) = surplus.partition(|number| leaving.contains(number));
        Shares { kept: held, leaving: leaving.into_iter().collect(), released }
    }
}

fn by_number(rows: &[LeaseRow]) -> BTreeMap<u32, u64> {
    rows.iter().map(|row| (row.partition.unsigned_abs(), row.fencing.unsigned_abs())).collect()
}

/// The fencing numbers of partitions that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FencingNumbers {
    /// The one that the exchange gave.
    Given(i64),
    /// The next of each partition: the exchange gives none.
    Own,
    /// None: nothing can be taken now.
    Unknown,
}

impl FencingNumbers {
    /// Returns the number that the exchange gave.
    fn given(self) -> Option<i64> {
        match self {
            FencingNumbers::Given(number) => Some(number),
            FencingNumbers::Own | FencingNumbers::Unknown => None,
        }
    }
}

/// Asks the exchange for a fencing number, if there is a partition to take: it accepts tasks only under numbers that it gave.
async fn fencing_numbers(context: &Context) -> Result<FencingNumbers, StoreError> {
    let seconds = context.settings.lease_time.as_secs_f64();
    let last = context
        .database
        .read(async |connection| partition::last_fencing_of_free(connection, seconds).await)
        .await?;
    let last = match last {
        Some(last) => last,
        // The rows of the partitions are not there yet.
        None if !context.reading.is_loaded() => 0,
        None => return Ok(FencingNumbers::Unknown),
    };
    let (org, id) = (&context.settings.org, &context.settings.id);
    match context.client.fencing_number(org, id, last).await {
        Ok(Some(number)) => Ok(FencingNumbers::Given(number)),
        Ok(None) => Ok(FencingNumbers::Own),
        Err(error) => {
            if context.reading.is_loaded() {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "no partitions taken over: the exchange assigns no fencing number, retrying"
                );
            }
            Ok(FencingNumbers::Unknown)
        }
    }
}

/// Renews the leases; returns them, and when the owner of each partition renewed its own at the latest.
async fn renew(
    context: &Context,
    leaving: &BTreeSet<i32>,
) -> Result<(Shares, BTreeMap<u32, Timestamp>), StoreError> {
    let numbers = fencing_numbers(context).await?;
    let seconds = context.settings.lease_time.as_secs_f64();
    let count = i32::try_from(context.settings.planner.partition_count).unwrap_or(i32::MAX);
    let owner = context.instance;
    retry("lease.renew", || async {
        let mut tx = context.database.begin().await?;
        partition::insert_partitions(&mut tx, count).await?;
        let agbots = partition::refresh_instance(&mut tx, owner, seconds).await?.max(1);
        let rows = partition::extend_leases(&mut tx, owner, seconds).await?;
        let fair = (i64::from(count) + agbots - 1) / agbots;
        let missing = fair - rows.len() as i64;
        let mut shares = Shares::of(rows, usize::try_from(fair).unwrap_or_default(), leaving);
        if missing > 0 {
            if numbers != FencingNumbers::Unknown {
                let taken = partition::take_free(&mut tx, owner, seconds, missing, numbers.given()).await?;
                shares.kept.extend(taken);
            }
        } else if !shares.released.is_empty() {
            partition::release(&mut tx, owner, &shares.released).await?;
        }
        let leased = partition::list_leased(&mut tx).await?;
        tx.commit().await?;
        let now = context.now();
        let confirmed = leased.into_iter().map(|(number, left)| {
            let age = SignedDuration::try_from_secs_f64(seconds - left).unwrap_or_default();
            (number.unsigned_abs(), now.checked_sub(age).unwrap_or(now).min(now))
        });
        Ok::<_, StoreError>((shares, confirmed.collect()))
    })
    .await
}

async fn release_leases(context: &Context) -> Result<(), StoreError> {
    let mut tx = context.database.begin().await?;
    partition::release(&mut tx, context.instance, &[]).await?;
    tx.commit().await
}

async fn release_partitions(context: &Context) -> Result<(), StoreError> {
    let mut tx = context.database.begin().await?;
    partition::release(&mut tx, context.instance, &[]).await?;
    partition::delete_instance(&mut tx, context.instance).await?;
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: impl IntoIterator<Item = i32>) -> Vec<LeaseRow> {
        numbers.into_iter().map(|partition| LeaseRow { partition, fencing: 1 }).collect()
    }

    #[test]
    fn surplus_is_idle_for_one_renewal_before_another_agbot_gets_it() {
        let first = Shares::of(rows([3, 1, 0, 2]), 2, &BTreeSet::new());
        assert_eq!(first, Shares { kept: rows([0, 1]), leaving: [2, 3].into(), released: vec![] });
        let second = Shares::of(rows([0, 1, 2, 3]), 2, &first.leaving);
        assert_eq!(second, Shares { kept: rows([0, 1]), leaving: [].into(), released: vec![2, 3] });
    }

    #[test]
    fn idle_partition_is_kept_when_the_other_agbot_went_away() {
        let shares = Shares::of(rows([0, 1, 2, 3]), 4, &[2, 3].into());
        assert_eq!(shares, Shares { kept: rows([0, 1, 2, 3]), ..Shares::default() });
        assert_eq!(Shares::of(rows([]), 4, &BTreeSet::new()), Shares::default());
    }

    #[test]
    fn only_idle_partitions_are_released() {
        let shares = Shares::of(rows([0, 1, 2, 3]), 1, &[2, 3].into());
        assert_eq!(shares, Shares { kept: rows([0]), leaving: [1].into(), released: vec![2, 3] });
    }
}
