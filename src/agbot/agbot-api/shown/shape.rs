//! Turns the planner's records into bodies of the API.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::claims::{Claim, Phase, Purpose, Scope};
use evenkeel_planner_record::other_agbots::ServedElsewhere;
use evenkeel_planner_record::report::Placement;
use evenkeel_planner_record::rollout::{Rollback, Rollout, RolloutState};
use evenkeel_wire::agbot::{claim, reason, rollout, status};
use serde_json::json;

use super::workload_shape::time;

pub(crate) fn claim(claim: &Claim) -> claim::Claim {
    claim::Claim {
        group: claim.group.clone(),
        scope: match &claim.scope {
            Scope::Agent => claim::ClaimScope::Agent,
            Scope::Policy(policy) => claim::ClaimScope::Policy { policy: policy.clone() },
        },
        node: claim.node.clone(),
        purpose: match &claim.purpose {
            Purpose::ServiceUpgrade => claim::ClaimPurpose::ServiceUpgrade,
            Purpose::Drain => claim::ClaimPurpose::Drain,
            Purpose::AgentUpgrade { nmp, .. } => claim::ClaimPurpose::AgentUpgrade { nmp: nmp.to_string() },
        },
        version: claim.version.clone(),
        fencing: claim.fencing,
        phase: match claim.phase {
            Phase::Stopping => "stopping",
            Phase::Starting => "starting",
            Phase::Verifying => "verifying",
        }
        .to_owned(),
        since: time(claim.since),
        phase_since: time(claim.phase_since),
        deadline: time(claim.deadline),
    }
}

/// A rollout with a sentence about its state.
pub(crate) fn rollout(record: &Rollout) -> rollout::Rollout {
    rollout::Rollout {
        group: record.group.clone(),
        policy: record.policy.clone(),
        target: record.effective_target(),
        target_digest: record.target_digest,
        started_at: record.started_at.to_string(),
        total: Some(record.total),
        done: Some(record.done),
        failed: record.failed.iter().map(NodeId::to_string).collect(),
        last_step_at: record.last_step_at.map(|at| at.to_string()),
        last_node: record.last_node.as_ref().map(NodeId::to_string),
        previous_version: record.previous_version.clone(),
        rollback: record.rollback.as_ref().map(rollback),
        revision: Some(record.revision),
        state: state(&record.state),
        text: record.text(),
        rolled_back_from: record.rollback.is_some().then(|| record.target.clone()),
        update: None,
    }
}

fn rollback(back: &Rollback) -> rollout::Rollback {
    rollout::Rollback {
        version: back.version.clone(),
        why: json!(back.why),
        since: back.since.to_string(),
        slots: Some(back.slots),
    }
}

fn state(state: &RolloutState) -> rollout::RolloutState {
    match state {
        RolloutState::Updating => rollout::RolloutState::Updating,
        RolloutState::Held { hold, since } => {
            rollout::RolloutState::Paused { hold: json!(hold), since: since.to_string() }
        }
        RolloutState::Abandoned { at, why } => {
            rollout::RolloutState::Abandoned { at: at.to_string(), why: json!(why) }
        }
        RolloutState::Completed { at } => rollout::RolloutState::Completed { at: at.to_string() },
    }
}

/// State of a pair, with a human-readable sentence.
pub(crate) fn reason(node: &NodeId, policy: &PolicyId, placement: &Placement) -> reason::Reason {
    let text = match placement {
        Placement::Placed { version, is_running: true, .. } => format!("runs version {version}"),
        Placement::Placed { version, why, .. } => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("agreed to version {version}, not seen running{why}")
        }
        Placement::Waiting { blocked, .. } | Placement::NotPlaced { blocked } => blocked.to_string(),
        Placement::Acting { action } => action.clone(),
    };
    reason::Reason { node: node.clone(), policy: policy.clone(), state: json!(placement), text }
}

pub(crate) fn served_elsewhere(entry: ServedElsewhere<'_>) -> status::ServedElsewhere {
    status::ServedElsewhere {
        is_pattern: entry.is_pattern,
        org: entry.org.to_owned(),
        name: entry.name.to_owned(),
        node_org: entry.node_org.to_owned(),
        agbot: entry.agbot.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::{GroupId, NmpId};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn claim_is_shown_as_it_is_stored_with_times_in_milliseconds() {
        let at = |microseconds| Timestamp::from_microsecond(microseconds).expect("in range");
        let agent = Claim {
            group: GroupId::new("o", "g"),
            scope: Scope::Agent,
            node: NodeId::new("o", "n"),
            purpose: Purpose::AgentUpgrade { nmp: NmpId::new("o", "m"), drains: false },
            version: String::new(),
            fencing: 7,
            phase: Phase::Stopping,
            since: at(250),
            phase_since: at(1_000_000),
            deadline: at(1_500_999),
        };
        let scope = Scope::Policy(PolicyId::new("o", "p"));
        let phase = Phase::Verifying;
        let service = Claim { scope, purpose: Purpose::ServiceUpgrade, phase, ..agent.clone() };
        let drain = Claim { purpose: Purpose::Drain, phase: Phase::Starting, ..service.clone() };
        for stored in [agent, service, drain] {
            let mut expected = json!(stored);
            for (member, second) in [("since", "00.000"), ("phase_since", "01.000"), ("deadline", "01.500")] {
                expected[member] = json!(format!("1970-01-01T00:00:{second}Z"));
            }
            assert_eq!(json!(claim(&stored)).to_string(), expected.to_string());
        }
    }
}
