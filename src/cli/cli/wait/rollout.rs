//! Waits for rollouts until they have ended, or are paused with no member in progress.

use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::rollout::{Rollout, RolloutState, WorkloadUpdate};

use super::update::RollbackReasons;
use super::{Progress, held_advice};
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::server::Server;

/// Rollouts that are followed, and the expected end.
#[derive(Debug, Clone)]
pub struct Followed {
    /// Organization of the policies.
    pub org: String,
    /// `org/policy`; none for all.
    pub policy: Option<String>,
    /// `org/group`; none for all.
    pub group: Option<String>,
    /// Expected end of the rollouts.
    pub goal: Goal,
}

/// Expected end of rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Every member has the new version.
    Completed,
    /// Every member has the old version again.
    RolledBack,
    /// They are held, and no member is in progress.
    Held,
}

impl Followed {
    /// Returns the progress of the rollouts.
    ///
    /// # Errors
    /// With status 5 when the agbot does not respond.
    pub async fn progress(
        &self,
        context: &Context,
        exchange: &Exchange,
        reasons: &RollbackReasons,
    ) -> Outcome<Progress> {
        let agbot = context.agbot(exchange)?;
        let found = agbot.call("asking the agbot for its rollouts", agbot.client.rollouts(&self.org)).await?;
        let is =
            |value: &str, wanted: &Option<String>| wanted.as_deref().is_none_or(|wanted| value == wanted);
        let chosen: Vec<&Rollout> = found
            .rollouts
            .iter()
            .filter(|rollout| {
                is(rollout.policy.as_str(), &self.policy) && is(rollout.group.as_str(), &self.group)
            })
            .collect();
        let workloads = found.workloads.iter().filter(|_| self.group.is_none());
        let mut done = Vec::new();
        for one in workloads.filter(|one| is(one.policy.as_str(), &self.policy)) {
            reasons.find(&agbot, one.policy.as_str(), &one.update).await;
            match of_tasks(one, self.goal, reasons) {
                Progress::Done(text) => done.push(text),
                progress => return Ok(progress),
            }
        }
        if self.goal != Goal::Held {
            return Ok(ended(&chosen, done, self.goal == Goal::RolledBack));
        }
        for rollout in &chosen {
            if let Some(node) = node_in_work(&agbot, rollout).await? {
                return Ok(Progress::Pending(format!("{}: {node} is still in progress", rollout.group)));
            }
        }
        Ok(Progress::Done(summary(&chosen, done)))
    }
}

/// Returns the progress of the update of a policy with tasks. A completed update is shown with its policy, because
/// updates of several policies may be followed.
fn of_tasks(workload: &WorkloadUpdate, goal: Goal, reasons: &RollbackReasons) -> Progress {
    let policy = workload.policy.as_str();
    match (reasons.progress(policy, &workload.update, goal == Goal::RolledBack), goal) {
        (Progress::Held { why, .. }, Goal::Held) => Progress::Done(format!("{policy}: {why}")),
        (Progress::Done(text), _) if workload.update.state == "rollback-completed" => {
            Progress::Done(format!("{policy}: {text}; runs {} again", workload.target))
        }
        (Progress::Done(text), _) => Progress::Done(format!("{policy}: {text}")),
        (progress, _) => progress,
    }
}

/// The member that a rollout is changing now.
async fn node_in_work(agbot: &Server, rollout: &Rollout) -> Outcome<Option<NodeId>> {
    let (org, group) = (rollout.group.org(), rollout.group.name());
    let found = match agbot.client.upgrades(org, group).await {
        Ok(found) => found,
        // The group was removed, and no claim on it is held.
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(agbot.failed("asking the agbot for claims", &error)),
    };
    let mut claims = found.workloads.into_iter().map(|held| held.claim);
    let claim = claims.find(|claim| claim.scope.policy() == Some(&rollout.policy));
    Ok(claim.map(|claim| claim.node))
}

/// Progress of the rollouts once the updates by tasks are over; `done`: the result of those.
fn ended(rollouts: &[&Rollout], done: Vec<String>, wants_rollback: bool) -> Progress {
    if let Some(stopped) = stopped(rollouts, wants_rollback) {
        return stopped;
    }
    let is_open = rollouts.iter().any(|rollout| rollout.state == RolloutState::Updating);
    let text = summary(rollouts, done);
    if is_open { Progress::Pending(text) } else { Progress::Done(text) }
}

/// Returns the outcome of rollouts of which one does not reach its goal: it is paused, or was rolled back although that was not requested.
pub fn stopped(rollouts: &[&Rollout], wants_rollback: bool) -> Option<Progress> {
    let is_held = |rollout: &&&Rollout| matches!(rollout.state, RolloutState::Paused { .. });
    if let Some(held) = rollouts.iter().find(is_held) {
        let advice = held_advice(held.policy.as_str(), held.rollback.is_some());
        return Some(Progress::Held { why: line(held), advice });
    }
    let is_back = |rollout: &&&Rollout| {
        matches!(rollout.state, RolloutState::Completed { .. }) && rollout.rollback.is_some()
    };
    let went_back = rollouts.iter().find(is_back).filter(|_| !wants_rollback);
    went_back.map(|rollout| Progress::rolled_back(line(rollout)))
}

fn line(rollout: &Rollout) -> String {
    format!("{}: {}", rollout.group, rollout.text)
}

/// The rollouts, then the updates by tasks that are over.
fn summary(rollouts: &[&Rollout], done: Vec<String>) -> String {
    let lines: Vec<String> = rollouts.iter().map(|rollout| line(rollout)).chain(done).collect();
    if lines.is_empty() { "there is no rollout".to_owned() } else { lines.join("; ") }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A rollout of `o/p` to version 2.0.0 in a state.
    pub fn rollout(group: &str, state: Value, text: &str) -> Rollout {
        let mut document = json!({
            "group": group, "policy": "o/p", "target": "o/s 2.0.0", "target_digest": 1, "started_at": "t",
            "failed": [], "last_step_at": null, "previous_version": null, "text": text,
        });
        for (name, value) in state.as_object().expect("an object") {
            document[name] = value.clone();
        }
        serde_json::from_value(document).expect("a rollout")
    }

    /// A rollout that has ended.
    pub fn completed(group: &str, went_back: bool, text: &str) -> Rollout {
        let back = went_back.then(|| json!({"version": "1.0.0", "why": {}, "since": "t"}));
        rollout(group, json!({"state": "completed", "at": "t", "rollback": back}), text)
    }

    #[test]
    fn rollouts_have_ended_when_none_is_open() {
        let open = rollout("o/g", json!({"state": "updating"}), "updating");
        let held = rollout("o/g", json!({"state": "paused", "hold": {}, "since": "t"}), "paused");
        let closed = completed("o/g", false, "completed");
        assert!(matches!(ended(&[&open, &closed], Vec::new(), false), Progress::Pending(_)));
        assert_eq!(ended(&[&closed], Vec::new(), false), Progress::Done("o/g: completed".to_owned()));
        let found = ended(&[&open, &held], Vec::new(), false);
        assert!(matches!(&found, Progress::Held { why, .. } if why == "o/g: paused"), "{found:?}");
        assert!(matches!(ended(&[], Vec::new(), false), Progress::Done(_)));
    }

    #[test]
    fn going_back_is_a_failure_only_where_it_was_not_asked_for() {
        let back = completed("o/g", true, "was rolled back");
        assert!(matches!(ended(&[&back], Vec::new(), false), Progress::Failed(_)));
        assert!(matches!(ended(&[&back], Vec::new(), true), Progress::Done(_)));
    }

    fn by_tasks(state: &str, target: &str, message: &str) -> WorkloadUpdate {
        let document = json!({
            "policy": "o/p", "target": target, "state": state, "message": message, "total": 2, "done": 2, "failed": 0,
            "text": state,
        });
        serde_json::from_value(document).expect("an update")
    }

    #[test]
    fn end_of_an_update_by_tasks_is_named() {
        let end = |update: &WorkloadUpdate, goal| match of_tasks(update, goal, &RollbackReasons::default()) {
            Progress::Done(text) => ended(&[], vec![text], goal == Goal::RolledBack),
            progress => progress,
        };
        let back = by_tasks("rollback-completed", "o/s 1.0.0", "requested by o/ann");
        let text = "o/p: rollback-completed 2/2: requested by o/ann; runs o/s 1.0.0 again".to_owned();
        assert_eq!(end(&back, Goal::RolledBack), Progress::Done(text));
        assert!(matches!(end(&back, Goal::Completed), Progress::Undone(_)));
        let new = by_tasks("completed", "o/s 2.0.0", "");
        assert_eq!(end(&new, Goal::Completed), Progress::Done("o/p: completed 2/2".to_owned()));
        let paused = end(&by_tasks("paused", "o/s 2.0.0", ""), Goal::Held);
        assert!(matches!(&paused, Progress::Done(text) if text.starts_with("o/p: paused 2/2")), "{paused:?}");
    }

    #[test]
    fn rollouts_come_before_updates_by_tasks() {
        let closed = completed("o/g", false, "completed");
        let done = vec!["o/q: completed 2/2".to_owned()];
        let text = "o/g: completed; o/q: completed 2/2".to_owned();
        assert_eq!(ended(&[&closed], done, false), Progress::Done(text));
        assert_eq!(ended(&[], Vec::new(), true), Progress::Done("there is no rollout".to_owned()));
    }
}
