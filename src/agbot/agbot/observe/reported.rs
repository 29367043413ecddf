//! Records reports of the engine about what it observes.

use evenkeel_planner::command::Lease;
use evenkeel_planner::health::{Entity, SystemReport};

use crate::AgbotError;
use crate::act::health;
use crate::context::Context;

/// Records reports about an entity, unless another agbot has the partition by now.
pub(super) async fn send(
    context: &Context,
    lease: Lease,
    entity: &Entity,
    reports: &[SystemReport],
    ttl_secs: u64,
) -> Result<(), AgbotError> {
    match health::report(context, lease, entity, reports, ttl_secs).await {
        Ok(()) | Err(AgbotError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
