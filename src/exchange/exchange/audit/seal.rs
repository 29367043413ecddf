//! Assigns numbers and hashes to committed records, chain by chain, in batches.
//!
//! The exchange that locks the only row of `audit_lease` seals; the lock ends with the short transaction.
//! Writes do not wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_exchange_store::audit::{self, AuditRow};
use evenkeel_exchange_store::audit_chain::{self, Chain};
use evenkeel_runtime::worker::Worker;
use evenkeel_store::{Database, StoreError, retry};
use evenkeel_wire::exchange::audit::{AuditRecord, hex};
use evenkeel_wire::exchange::time::wire_time;
use jiff::{SignedDuration, Timestamp};

use super::CHAIN_OPENER;
use crate::Exchange;

/// Records sealed by one transaction: with more, the requests of that moment would wait for the processor.
const BATCH: i64 = 100;
/// Time for which a record waits to be sealed, at most, when its exchange runs.
const PERIOD: Duration = Duration::from_secs(1);
/// Every so many periods records of other exchanges are looked for: of one that ended before it could seal them.
const OTHERS: u32 = 15;

/// Seals committed records; those of the last requests at the end.
pub(crate) struct AuditSealer {
    exchange: Exchange,
    period: u32,
}

impl AuditSealer {
    pub(crate) fn new(exchange: Exchange) -> Self {
        Self { exchange, period: 0 }
    }
}

impl Worker for AuditSealer {
    type Error = StoreError;
    const NAME: &'static str = "audit_sealer";

    async fn pass(&mut self) -> Result<(), StoreError> {
        self.period = self.period.wrapping_add(1);
        let result = pass(&self.exchange, self.period.is_multiple_of(OTHERS)).await;
        if result.is_err() {
            self.exchange.auditor().note_written();
        }
        result
    }

    fn pause(&self) -> Duration {
        PERIOD
    }

    fn first_pause(&self) -> Duration {
        PERIOD
    }

    async fn finish(&mut self) {
        if let Err(error) = pass(&self.exchange, true).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the last audit records were not sealed, another exchange will seal them"
            );
        }
    }
}

async fn pass(exchange: &Exchange, checks_others: bool) -> Result<(), StoreError> {
    exchange.auditor().flush(exchange.database()).await?;
    if exchange.auditor().take_written()
        || (checks_others
            && exchange.database().read(async |connection| audit::has_unsealed(connection).await).await?)
    {
        seal_all(exchange.database()).await?;
    }
    Ok(())
}

/// Seals every record that is committed by now.
///
/// # Errors
/// When the store does not respond.
pub(crate) async fn seal_all(database: &Database) -> Result<(), StoreError> {
    loop {
        let sealed = retry("audit.seal", || seal(database)).await?;
        if (sealed as i64) < BATCH {
            return Ok(());
        }
    }
}

async fn seal(database: &Database) -> Result<usize, StoreError> {
    let mut tx = database.begin().await?;
    audit_chain::lock_lease(&mut tx).await?;
    let mut rows = audit::take_unsealed(&mut tx, BATCH).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let mut orgs: Vec<String> = rows.iter().map(|row| row.org.clone()).collect();
    orgs.sort_unstable();
    orgs.dedup();
    let known = audit_chain::lock_chains(&mut tx, &orgs).await?;
    let mut chains: BTreeMap<String, Chain> =
        known.into_iter().map(|chain| (chain.org.clone(), chain)).collect();
    for row in &mut rows {
        let chain = chains.entry(row.org.clone()).or_insert_with(|| begin(&row.org));
        append(chain, row);
    }
    audit_chain::insert_sealed(&mut tx, &rows).await?;
    let chains: Vec<Chain> = chains.into_values().collect();
    audit_chain::upsert_chains(&mut tx, &chains).await?;
    tx.commit().await?;
    Ok(rows.len())
}

/// A chain before its first record.
fn begin(org: &str) -> Chain {
    Chain {
        org: org.to_owned(),
        last_number: 0,
        last_hash: vec![0; 32],
        begin_number: 0,
        begin_hash: vec![0; 32],
        opened_at: 0,
    }
}

/// Puts a record behind the last one of its chain.
fn append(chain: &mut Chain, row: &mut AuditRow) {
    row.number = chain.last_number + 1;
    row.previous_hash.clone_from(&chain.last_hash);
    row.hash = bytes_of(&shown(row).computed_hash());
    chain.last_number = row.number;
    chain.last_hash.clone_from(&row.hash);
    if row.operation == CHAIN_OPENER && row.status < 300 {
        chain.opened_at = row.number;
    }
}

/// A record as the API shows it.
pub(crate) fn shown(row: &AuditRow) -> AuditRecord {
    let state = |hash: &Option<Vec<u8>>| hash.as_deref().map(hex).unwrap_or_default();
    AuditRecord {
        org: row.org.clone(),
        number: row.number,
        time: wire_time(row.recorded_at),
        caller: row.caller.clone(),
        role: row.caller_role.clone(),
        address: row.address.clone(),
        request: row.request.clone(),
        method: row.method.clone(),
        operation: row.operation.clone(),
        resource: row.resource.clone(),
        status: row.status,
        before: state(&row.state_before),
        after: state(&row.state_after),
        previous: hex(&row.previous_hash),
        hash: hex(&row.hash),
    }
}

/// The bytes of hexadecimal digits that [`hex`] made.
fn bytes_of(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| {
            digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or_default()
        })
        .collect()
}

/// Removes records older than `age`, from the beginning of each chain; the hash of the last one removed becomes its new beginning.
///
/// # Errors
/// When the store does not respond.
pub(crate) async fn prune(
    database: &Database,
    now: Timestamp,
    age: SignedDuration,
) -> Result<u64, StoreError> {
    let before = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
    let prunable =
        database.read(async |connection| audit_chain::list_prunable(connection, before).await).await?;
    let mut removed = 0;
    for (org, number) in prunable {
        removed += retry("audit.prune", || async {
            let mut tx = database.begin().await?;
            audit_chain::lock_chains(&mut tx, std::slice::from_ref(&org)).await?;
            let removed = audit_chain::prune(&mut tx, &org, number).await?;
            tx.commit().await?;
            Ok::<_, StoreError>(removed)
        })
        .await?;
    }
    Ok(removed)
}
