//! The orchestration settings of a deployment policy, converted for the planner.
//!
//! Source: orchestration 1.2.

use evenkeel_ids::PolicyId;
use evenkeel_planner::facts::{Mode, PolicyOrchestration, PolicyScope};
use evenkeel_planner::settings::{FailureAction, OfflinePeerPolicy, UpdateOrder, UpdateOverrides};
use evenkeel_wire::exchange::orchestration::{self as wire, Orchestration};
use serde_json::Value;

/// Converts the object `orchestration`; an invalid one (an exchange of another version) is ignored, and the hub's settings apply.
pub fn orchestration(policy: &PolicyId, document: &Value) -> PolicyOrchestration {
    match Orchestration::try_from(document.clone()) {
        Ok(read) => PolicyOrchestration {
            mode: mode(read.mode),
            scope: scope(policy, read.scope.as_ref()),
            update: update(&read),
        },
        Err(error) => {
            tracing::warn!(
                policy = policy.as_str(),
                error = &error as &dyn std::error::Error,
                "the hub's settings are used"
            );
            PolicyOrchestration::default()
        }
    }
}

fn mode(mode: Option<wire::Mode>) -> Mode {
    match mode {
        Some(wire::Mode::Failover) => Mode::Failover,
        Some(wire::Mode::Global) | None => Mode::Global,
    }
}

fn scope(policy: &PolicyId, scope: Option<&wire::Scope>) -> PolicyScope {
    match scope {
        Some(wire::Scope::HaGroups { ha_groups }) => PolicyScope::of_groups(policy, ha_groups),
        Some(wire::Scope::Eligible) | None => PolicyScope::Eligible,
    }
}

fn update(read: &Orchestration) -> UpdateOverrides {
    let update = read.update.clone().unwrap_or_default();
    let ha = read.ha.clone().unwrap_or_default();
    UpdateOverrides {
        parallelism: update.parallelism,
        delay_secs: update.delay_seconds,
        order: update.order.map(|order| match order {
            wire::Order::StopFirst => UpdateOrder::StopFirst,
            wire::Order::StartFirst => UpdateOrder::StartFirst,
        }),
        monitor_secs: update.monitor_seconds,
        max_failure_ratio: update.max_failure_ratio,
        failure_action: update.failure_action.map(|action| match action {
            wire::FailureAction::Pause => FailureAction::Pause,
            wire::FailureAction::Continue => FailureAction::Continue,
            wire::FailureAction::Rollback => FailureAction::Rollback,
        }),
        start_timeout_secs: update.start_timeout_seconds,
        min_running: ha.min_running,
        offline_peers: ha.offline_peer_policy.map(|policy| match policy {
            wire::OfflinePeerPolicy::Wait => OfflinePeerPolicy::Wait,
            wire::OfflinePeerPolicy::Proceed => OfflinePeerPolicy::Proceed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::GroupId;
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_belong_to_the_policys_organization_unless_they_name_one() {
        let policy = PolicyId::new("o", "p");
        let of = |groups: Value| {
            orchestration(&policy, &json!({"scope": {"type": "hagroups", "haGroups": groups}})).scope
        };
        let named = [GroupId::new("o", "g"), GroupId::new("other", "h")];
        assert_eq!(of(json!(["g", "other/h"])), PolicyScope::HaGroups(named.into()));
        assert_eq!(of(json!(["*"])), PolicyScope::EveryHaGroup);
    }

    #[test]
    fn what_is_left_out_stays_the_hubs() {
        let policy = PolicyId::new("o", "p");
        let read = orchestration(&policy, &json!({"update": {"monitorSeconds": 7}, "ha": {"minRunning": 3}}));
        let expected =
            UpdateOverrides { monitor_secs: Some(7), min_running: Some(3), ..UpdateOverrides::default() };
        assert_eq!((read.update, read.scope), (expected, PolicyScope::Eligible));
        assert_eq!(orchestration(&policy, &json!({"mode": "later"})), PolicyOrchestration::default());
    }
}
