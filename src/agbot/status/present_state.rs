//! The instances and rollouts of a deployment policy as they are now, for the plan of an action, which must still hold when the action is
//! carried out.

use std::fmt::Write as _;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    agreement::Agreement,
    rollout::{Rollout, RolloutState},
    workload::{Slot, SlotTasks},
};
use sha2::{Digest, Sha256};

/// Bytes of the digest that make a token.
const TOKEN_BYTES: usize = 16;

/// A deployment policy as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresentState {
    /// Its state in words.
    pub summary: String,
    /// Its instances, by workload unit and slot.
    pub instances: Vec<PresentInstance>,
    /// Its rollouts through HA groups, with their states in words.
    pub rollouts: Vec<(GroupId, String)>,
}

/// An instance of a deployment policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentInstance {
    /// Its slot; none for a policy without tasks.
    pub slot: Option<Slot>,
    /// Its node.
    pub node: NodeId,
    /// Its state and its version, in words.
    pub text: String,
}

/// Returns the instances and rollouts of a policy.
pub fn present_state(model: &Model, policy: &PolicyId) -> PresentState {
    let rollouts = model.rollouts().filter(|rollout| rollout.policy == *policy);
    let rollouts = rollouts.map(|rollout| (rollout.group.clone(), rollout_text(rollout))).collect();
    let Some(record) = model.workload(policy) else {
        let agreements = model.agreements_of(policy);
        let instances: Vec<PresentInstance> = agreements.map(of_agreement).collect();
        let summary = format!("{} instances", instances.len());
        return PresentState { summary, instances, rollouts };
    };
    let tasks = model.workload_units_of(policy).flat_map(|(_, unit)| unit.slots.values());
    let tasks = tasks.flat_map(SlotTasks::iter).filter(|task| task.is_live());
    let instances: Vec<PresentInstance> = tasks
        .filter_map(|task| {
            let text = format!("version {} of the task, {}", task.spec.number, task.state.name());
            Some(PresentInstance { slot: Some(task.slot.clone()), node: task.node.clone()?, text })
        })
        .collect();
    let word = |is: bool, word: &'static str| if is { word } else { "" };
    let summary = format!(
        "{} instances{}{}, update {:?}{}",
        instances.len(),
        word(record.is_frozen, ", frozen"),
        word(record.is_stopped, ", stopped by a user"),
        record.update.state,
        word(record.action.is_some(), ", an action of a user is in progress"),
    );
    PresentState { summary, instances, rollouts }
}

fn of_agreement(agreement: &Agreement) -> PresentInstance {
    PresentInstance { slot: None, node: agreement.node.clone(), text: "has an agreement".to_owned() }
}

fn rollout_text(rollout: &Rollout) -> String {
    let state = match &rollout.state {
        RolloutState::Updating => "updating",
        RolloutState::Held { .. } => "held",
        RolloutState::Abandoned { .. } => "abandoned",
        RolloutState::Completed { .. } => "completed",
    };
    let direction = if rollout.rollback.is_some() { ", leads back" } else { "" };
    format!("{state}{direction}, to {}", rollout.effective_target())
}

impl PresentState {
    /// Returns a digest of the state and of a write about it: 32 hexadecimal digits.
    #[must_use]
    pub fn token(&self, write: &str) -> String {
        let mut basis = format!("{write}\n{}\n", self.summary);
        for PresentInstance { slot, node, text } in &self.instances {
            // Writing to a text cannot fail.
            let _ = writeln!(basis, "{slot:?} {node} {text}");
        }
        for (group, text) in &self.rollouts {
            let _ = writeln!(basis, "rollout {group} {text}");
        }
        token_of(&basis)
    }
}

/// Returns the token of a plan that a text describes whole: 32 hexadecimal digits.
#[must_use]
pub fn token_of(basis: &str) -> String {
    let digest = Sha256::digest(basis.as_bytes());
    digest.iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_model::group_fixture::running_group;
    use evenkeel_planner_record::fixture::deployment_policy;

    use super::*;

    #[test]
    fn token_changes_with_the_write_and_with_the_instances() {
        let (model, _) = running_group(&["a", "b"]);
        let policy = deployment_policy().id;
        let state = present_state(&model, &policy);
        assert_eq!((state.instances.len(), state.summary.as_str()), (2, "2 instances"));
        let token = state.token("restart");
        assert_eq!((token.len(), token.clone()), (32, present_state(&model, &policy).token("restart")));
        assert_ne!(token, state.token("stop"));
        let (smaller, _) = running_group(&["a"]);
        assert_ne!(token, present_state(&smaller, &policy).token("restart"));
    }
}
