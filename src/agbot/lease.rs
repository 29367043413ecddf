//! Shares of the work: leases partitions, takes over those of agbots that died, gives its own back at the end.
//!
//! Each agbot holds about the same number. A lease not renewed in time is lost; the fencing number makes commands of a late agbot
//! harmless. Source: design, "Several agbots".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_planner::event::Event;
use evenkeel_store::agbot::partition::{self, LeaseRow};
use evenkeel_store::{StoreError, retry};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Pause between renewals before the exchange has been read.
const BEFORE_LOADED: Duration = Duration::from_millis(100);

/// Runs until shutdown, then hands the partitions over.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let period = context.settings.lease_time / 4;
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    loop {
        match renew(&context).await {
            Ok(leases) => {
                // Before the exchange is read everything would look deleted: nothing may be decided until then.
                if leases != held && context.is_loaded() {
                    let gained =
                        leases.iter().any(|(partition, fencing)| held.get(partition) != Some(fencing));
                    tracing::info!(partitions = leases.len(), "holding partitions");
                    held.clone_from(&leases);
                    if gained {
                        // What another agbot recorded must be known before anything is decided about it.
                        context
                            .tell(crate::observe::records::read_all(&context).await.unwrap_or_default())
                            .await;
                    }
                    context.tell(vec![Event::PartitionsChanged { leases }, Event::FullReconcile]).await;
                }
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "partition leases could not be renewed"
                );
                if !held.is_empty() && !matches!(error, StoreError::Contention { .. }) {
                    held.clear();
                    context.tell(vec![Event::PartitionsChanged { leases: BTreeMap::new() }]).await;
                }
            }
        }
        let pause = if context.is_loaded() { period } else { BEFORE_LOADED };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => break,
        }
    }
    if let Err(error) = hand_over(&context).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "partitions are not handed over, their leases will end"
        );
    }
}

async fn renew(context: &Context) -> Result<BTreeMap<u32, u64>, StoreError> {
    let seconds = context.settings.lease_time.as_secs_f64();
    let count = i32::try_from(context.settings.planner.partition_count).unwrap_or(i32::MAX);
    let owner = context.instance;
    let rows = retry("lease.renew", || async {
        let mut tx = context.database.begin().await?;
        partition::insert_partitions(&mut tx, count).await?;
        let agbots = partition::refresh_instance(&mut tx, owner, seconds).await?.max(1);
        let mut rows = partition::extend_leases(&mut tx, owner, seconds).await?;
        let fair = (i64::from(count) + agbots - 1) / agbots;
        let held = rows.len() as i64;
        if held < fair {
            rows.extend(partition::take_free(&mut tx, owner, seconds, fair - held).await?);
        } else if held > fair {
            let surplus: Vec<i32> = rows
                .split_off(usize::try_from(fair).unwrap_or_default())
                .iter()
                .map(|row| row.partition)
                .collect();
            partition::release(&mut tx, owner, &surplus).await?;
        }
        tx.commit().await?;
        Ok::<Vec<LeaseRow>, StoreError>(rows)
    })
    .await?;
    Ok(rows.into_iter().map(|row| (row.partition.unsigned_abs(), row.fencing.unsigned_abs())).collect())
}

async fn hand_over(context: &Context) -> Result<(), StoreError> {
    let mut tx = context.database.begin().await?;
    partition::release(&mut tx, context.instance, &[]).await?;
    partition::delete_instance(&mut tx, context.instance).await?;
    tx.commit().await
}
