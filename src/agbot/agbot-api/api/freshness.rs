//! Waits until the agbot works with what its caller has just written.
//!
//! The exchange acknowledges a write of a deployment policy, and the agbot reads it from the change feed a moment later. An action that
//! follows the write at once must not be judged by what the policy was before.

use std::time::Duration;

use evenkeel_agbot::EngineHandle;
use evenkeel_agbot::facts::instant;
use evenkeel_ids::PolicyId;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use jiff::Timestamp;
use tokio::time::Instant;

/// An agbot that is further behind than this decides on what it knows.
const LIMIT: Duration = Duration::from_secs(3);
/// Interval between reads of the model.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the agbot has read a deployment policy as it is stored, and its workload follows it.
pub(super) async fn follow_policy(
    engine: &EngineHandle,
    policy: &PolicyId,
    stored: &DeploymentPolicyResponse,
) {
    let written_at = instant(&stored.last_updated);
    let began = Instant::now();
    while !is_followed(engine, policy, written_at) && began.elapsed() < LIMIT {
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same for a reader, as far as the policy was written a moment ago: an agbot that does not serve it never follows.
pub(super) async fn follow_recent_write(
    engine: &EngineHandle,
    policy: &PolicyId,
    stored: Option<&DeploymentPolicyResponse>,
) {
    let Some(stored) = stored else { return };
    let age = instant(&stored.last_updated).map(|written_at| engine.now().duration_since(written_at));
    if age.is_some_and(|age| age.unsigned_abs() < LIMIT) {
        follow_policy(engine, policy, stored).await;
    }
}

fn is_followed(engine: &EngineHandle, policy: &PolicyId, written_at: Option<Timestamp>) -> bool {
    let model = engine.model();
    let Some(facts) = model.written_policy(policy).filter(|facts| facts.last_updated >= written_at) else {
        return false;
    };
    let record = model.workload(policy);
    match &facts.orchestration.document {
        Some(_) => record.is_some_and(|record| record.written(facts, engine.now()).is_none()),
        None => record.is_none(),
    }
}
