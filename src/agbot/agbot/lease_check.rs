//! The check of a lease in the transaction of what is decided under it.

use evenkeel_agbot_store::partition::{self, LeaseRow};
use evenkeel_planner::command::Lease;
use evenkeel_store::PgConnection;

use crate::AgbotError;
use crate::context::Context;

/// Checks the lease and locks it until the transaction ends.
pub(crate) async fn check_lease(
    context: &Context,
    tx: &mut PgConnection,
    lease: Lease,
) -> Result<(), AgbotError> {
    let is_held = partition::lock_lease(tx, context.instance, lease_row(lease)).await?;
    if is_held { Ok(()) } else { Err(lease_lost(lease)) }
}

/// Returns the row of a lease.
pub(crate) fn lease_row(lease: Lease) -> LeaseRow {
    LeaseRow {
        partition: i32::try_from(lease.partition).unwrap_or(i32::MAX),
        fencing: lease.fencing.cast_signed(),
    }
}

/// The refusal of a command whose lease has passed to another agbot.
pub(crate) fn lease_lost(lease: Lease) -> AgbotError {
    AgbotError::Refused(format!("partition {} belongs to another agbot by now", lease.partition))
}
