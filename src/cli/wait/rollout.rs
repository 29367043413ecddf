//! Waits for rollouts: until they have ended, or until they are held with no member in work.

use evenkeel_client::Path;
use serde_json::Value;

use super::{Progress, entries, read, text};
use crate::context::{Context, Exchange};
use crate::exit::Outcome;

/// Which rollouts are followed, and what for.
#[derive(Debug, Clone)]
pub struct Followed {
    /// Organization of the policies.
    pub org: String,
    /// `org/policy`; none for all.
    pub policy: Option<String>,
    /// `org/group`; none for all.
    pub group: Option<String>,
    /// How they shall end.
    pub goal: Goal,
}

/// How rollouts shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Every member has the new version.
    Completed,
    /// Every member has the old version again.
    RolledBack,
    /// They are held, and no member is in work.
    Held,
}

impl Followed {
    /// How far they are.
    ///
    /// # Errors
    /// With status 5 when the agbot does not answer.
    pub async fn progress(&self, context: &Context, exchange: &Exchange) -> Outcome<Progress> {
        let found = read(context, exchange, &self.org, "rollouts").await?;
        let is = |entry: &Value, member: &str, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| text(entry, member) == wanted)
        };
        let chosen = entries(&found, "rollouts").iter();
        let chosen: Vec<&Value> = chosen
            .filter(|entry| is(entry, "/policy", &self.policy) && is(entry, "/group", &self.group))
            .collect();
        if self.goal != Goal::Held {
            return Ok(ended(&chosen, self.goal == Goal::RolledBack));
        }
        for rollout in &chosen {
            if let Some(node) = self.node_in_work(context, exchange, rollout).await? {
                return Ok(Progress::Pending(format!(
                    "{}: {node} is still in work",
                    text(rollout, "/group")
                )));
            }
        }
        Ok(Progress::Done(summary(&chosen)))
    }

    /// The member that a rollout is changing now.
    async fn node_in_work(
        &self,
        context: &Context,
        exchange: &Exchange,
        rollout: &Value,
    ) -> Outcome<Option<String>> {
        let (org, group) = exchange.split(text(rollout, "/group"));
        let path = Path::org(&org, &["hagroups", &group, "upgrades"]);
        let found = context.agbot(exchange)?.get("asking the agbot for claims", &path).await?;
        let policy = text(rollout, "/policy");
        let claim = entries(&found, "workloads").iter().find(|claim| text(claim, "/scope/policy") == policy);
        Ok(claim.map(|claim| text(claim, "/node").to_owned()))
    }
}

fn ended(rollouts: &[&Value], wants_rollback: bool) -> Progress {
    if let Some(stopped) = stopped(rollouts, wants_rollback) {
        return stopped;
    }
    let is_open = |rollout: &&&Value| text(rollout, "/state") == "updating";
    match rollouts.iter().find(is_open) {
        Some(_) => Progress::Pending(summary(rollouts)),
        None => Progress::Done(summary(rollouts)),
    }
}

/// The outcome of rollouts of which one does not reach its goal: it is held, or went back although that is not wanted.
pub fn stopped(rollouts: &[&Value], wants_rollback: bool) -> Option<Progress> {
    let line = |rollout: &&Value| format!("{}: {}", text(rollout, "/group"), text(rollout, "/text"));
    if let Some(held) = rollouts.iter().find(|rollout| text(rollout, "/state") == "held") {
        return Some(Progress::Held(line(held)));
    }
    let is_back = |rollout: &&&Value| {
        text(rollout, "/state") == "completed" && rollout.get("rollback").is_some_and(|back| !back.is_null())
    };
    let went_back = rollouts.iter().find(is_back).filter(|_| !wants_rollback);
    went_back.map(|rollout| Progress::Failed(line(rollout)))
}

fn summary(rollouts: &[&Value]) -> String {
    let line = |rollout: &&Value| format!("{}: {}", text(rollout, "/group"), text(rollout, "/text"));
    match rollouts {
        [] => "there is no rollout".to_owned(),
        some => some.iter().map(line).collect::<Vec<String>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rollouts_have_ended_when_none_is_open() {
        let one = |state: &str| json!({"group": "o/g", "policy": "o/p", "state": state, "text": state});
        let (open, closed, held) = (one("updating"), one("completed"), one("held"));
        assert!(matches!(ended(&[&open, &closed], false), Progress::Pending(_)));
        assert_eq!(ended(&[&closed], false), Progress::Done("o/g: completed".to_owned()));
        assert_eq!(ended(&[&open, &held], false), Progress::Held("o/g: held".to_owned()));
        assert!(matches!(ended(&[], false), Progress::Done(_)));
    }

    #[test]
    fn going_back_is_a_failure_only_where_it_was_not_asked_for() {
        let back = json!({"group": "o/g", "state": "completed", "text": "went back", "rollback": {}});
        assert!(matches!(ended(&[&back], false), Progress::Failed(_)));
        assert!(matches!(ended(&[&back], true), Progress::Done(_)));
    }
}
