//! The rollout of a deployment policy in detail: waves, steps, the time left, and what failing nodes have in common.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::common::CommonCauses;

/// The rollout of a deployment policy in detail.
///
/// # Shape
/// What would reveal the number of nodes that the caller may not read is left out: waves, phases and the time left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutDetail {
    /// `org/policy`.
    #[schema(required = true)]
    pub policy: String,
    /// `updating`, `paused`, `completed`, `rollback-started`, `rollback-paused` or `rollback-completed`.
    #[schema(required = true)]
    pub state: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The time that it still takes; left out when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_left: Option<TimeLeft>,
    /// HA groups and upgrade domains in the order in which they are changed, those that are open first; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<RolloutWave>,
    /// Waves that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_waves: u64,
    /// The phases of a step with their durations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<StepPhase>,
    /// Steps that have begun, on nodes that the caller may read: those in work, then those that failed, then the others, the newest first;
    /// at most 100.
    #[schema(required = true)]
    pub steps: Vec<RolloutStep>,
    /// What the nodes on which the version failed have in common; left out while none failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common: Option<CommonCauses>,
    /// True if the rollout is so large that only a part was read: numbers of waves are extrapolated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
}

/// The time that a rollout still takes if nothing blocks it.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeLeft {
    /// It takes less with a probability of one half.
    #[schema(required = true)]
    pub seconds: u64,
    /// It takes less with a probability of one tenth.
    #[schema(required = true)]
    pub earliest_seconds: u64,
    /// It takes longer with a probability of one tenth.
    #[schema(required = true)]
    pub latest_seconds: u64,
    /// It takes this long if every instance is seen running at once: the times that the settings name.
    #[schema(required = true)]
    pub minimum_seconds: u64,
    /// Steps that are not finished.
    #[schema(required = true)]
    pub steps_left: u32,
    /// Steps of the rollout that were measured.
    #[schema(required = true)]
    pub measured_steps: u32,
    /// Steps of earlier rollouts that were measured.
    #[schema(required = true)]
    pub earlier_steps: u32,
    /// Where the durations come from: `own`, `own-and-earlier`, `earlier` (rollouts of the policy) or `settings` (nothing was measured).
    #[schema(required = true)]
    pub basis: String,
    /// What the rollout waits for; the times count from when it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<RolloutWait>,
    /// Human-readable summary.
    #[schema(required = true)]
    pub text: String,
}

/// What a rollout waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutWait {
    /// Human-readable reason.
    #[schema(required = true)]
    pub text: String,
    /// Account that can end it: `owner` (of the policy), `administrator` or `operator` (of the node).
    #[schema(required = true)]
    pub role: String,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// A part of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutWave {
    /// `all`, `ha-group` (one member at a time) or `upgrade-domain` (finished before the next one begins).
    #[schema(required = true)]
    pub kind: String,
    /// Name of the HA group, without its organization, or of the upgrade domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Steps.
    #[schema(required = true)]
    pub total: u32,
    /// Steps that are done.
    #[schema(required = true)]
    pub done: u32,
    /// Steps that have begun.
    #[schema(required = true)]
    pub in_work: u32,
    /// Steps that failed.
    #[schema(required = true)]
    pub failed: u32,
    /// When its first step began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its last step was finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// A phase of the steps of a rollout.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepPhase {
    /// `start` (until the new instance is seen running), `watch` (it has to keep running) or `delay` (before the next step).
    #[schema(required = true)]
    pub phase: String,
    /// Its duration: of measured phases the median, of others what the settings say.
    #[schema(required = true)]
    pub seconds: f64,
    /// The longest; only of measured phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_seconds: Option<f64>,
    /// Measured steps; left out where the duration is a setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<u32>,
}

/// A step that has begun.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStep {
    /// The node: bare in the policy's organization.
    #[schema(required = true)]
    pub node: String,
    /// HA group or upgrade domain that it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wave: String,
    /// `starting`, `watched`, `failed` or `done`.
    #[schema(required = true)]
    pub state: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the new instance was first seen running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_at: Option<String>,
    /// Until when it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_until: Option<String>,
    /// What its state follows from, in words.
    #[schema(required = true)]
    pub evidence: String,
}

/// Serde calls it with a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
