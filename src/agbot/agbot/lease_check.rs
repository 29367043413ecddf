//! The check of a lease in the transaction of what is decided under it.

use evenkeel_agbot_store::partition;
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::PgConnection;

use crate::{AgbotError, context::Context, records::lease_row};

/// Checks the lease and locks it until the transaction ends.
pub(crate) async fn check_lease(
    context: &Context,
    tx: &mut PgConnection,
    lease: Lease,
) -> Result<(), AgbotError> {
    let is_held = partition::lock_lease(tx, context.instance, lease_row(lease)).await?;
    if is_held { Ok(()) } else { Err(AgbotError::lease_lost(lease)) }
}
