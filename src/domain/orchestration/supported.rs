//! What the engine carries out today.
//!
//! A valid document may ask for more. It is refused by name, because storing and ignoring a member would promise something.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::health_policy::{ActionKind, DetectionType, Executor, HealthPolicy};
use super::{MembersError, Orchestration};

/// Reads the document of a policy as [`Orchestration::of_policy`] does, and refuses what the engine cannot carry out.
///
/// # Errors
/// The first member that breaks a rule or is not supported, with its path.
pub fn supported_orchestration(policy: &PolicyId, document: Value) -> Result<Orchestration, MembersError> {
    let read = Orchestration::of_policy(policy, document)?;
    if let Some(error) = read.health_policy.as_ref().and_then(unsupported_health) {
        return Err(error);
    }
    Ok(read)
}

/// Returns what a health policy asks for that nobody carries out.
fn unsupported_health(policy: &HealthPolicy) -> Option<MembersError> {
    let broken = |member: &str, rule: String| {
        Some(MembersError { path: format!("orchestration.healthPolicy.{member}"), rule })
    };
    for mode in &policy.detection.detection_modes {
        let is_carried_out = matches!(
            mode.kind,
            DetectionType::NodeStatusPolling
                | DetectionType::NodeStatusPollUrl
                | DetectionType::LifecycleEvents
        );
        if !is_carried_out {
            return broken("detection.detection_modes", format!("{} is not supported", mode.kind.word()));
        }
        if mode.options.as_ref().is_some_and(|options| options.executor == Executor::Hub) {
            return broken("detection.detection_modes", "executor hub is not supported".to_owned());
        }
    }
    let unknown = policy.recovery.actions.iter().find(|action| !is_carried_out(action.kind()));
    unknown
        .and_then(|action| broken("recovery.actions", format!("{} is not supported", action.kind().word())))
}

/// Returns whether somebody carries an action out.
pub(super) fn is_carried_out(kind: ActionKind) -> bool {
    matches!(kind, ActionKind::Recreate | ActionKind::Reboot | ActionKind::Start | ActionKind::Migrate)
}
