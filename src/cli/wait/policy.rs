//! Waits until a deployment policy is carried out on every node that it selects.

use evenkeel_client::Path;
use jiff::Timestamp;
use serde_json::Value;

use super::{Progress, entries, read, text};
use crate::context::{Context, Exchange};
use crate::exchange::deployment::POLICIES;
use crate::exit::Outcome;

/// Reasons for which a node gets nothing now and may get it later without any further change by a user.
const TRANSIENT: [&str; 12] = [
    "never-heard",
    "no-public-key",
    "node-down",
    "backing-off",
    "old-copy-stopping",
    "waiting-for-reply",
    "just-started",
    "claim-requested",
    "delay",
    "peer-first",
    "ha-lock",
    "ha-minimum",
];

/// What is waited for: a policy as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedPolicy {
    /// `org/policy`.
    pub id: String,
    /// Its versions.
    pub versions: Vec<String>,
    /// When it was written.
    pub written_at: Option<Timestamp>,
}

impl WantedPolicy {
    /// Reads the policy as it is stored now.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn read(exchange: &Exchange, name: &str) -> Outcome<Self> {
        let (org, id) = exchange.split(name);
        let document = POLICIES.read_one(exchange, name).await?;
        Ok(Self::of(format!("{org}/{id}"), &document))
    }

    fn of(id: String, document: &Value) -> Self {
        let versions = document.pointer("/service/serviceVersions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten().map(|one| text(one, "/version").to_owned()).collect();
        Self { id, versions, written_at: instant(text(document, "/lastUpdated")) }
    }

    /// How far the policy is carried out.
    ///
    /// # Errors
    /// With status 5 when the agbot does not answer.
    pub async fn progress(&self, context: &Context, exchange: &Exchange) -> Outcome<Progress> {
        let org = exchange.split(&self.id).0;
        let reasons = read(context, exchange, &org, "reasons").await?;
        let rollouts = read(context, exchange, &org, "rollouts").await?;
        Ok(self.judge(&reasons, &rollouts))
    }

    fn judge(&self, reasons: &Value, rollouts: &Value) -> Progress {
        if !self.is_read_by(reasons) {
            return Progress::Pending(format!("the agbot has not read policy {} yet", self.id));
        }
        let of_policy = |entry: &&Value| text(entry, "/policy") == self.id;
        let rollouts = entries(rollouts, "rollouts").iter().filter(of_policy);
        let rollouts: Vec<&Value> = rollouts.filter(|rollout| self.is_target_of(rollout)).collect();
        if let Some(stopped) = super::rollout::stopped(&rollouts, false) {
            return stopped;
        }
        let pairs: Vec<&Value> = entries(reasons, "reasons").iter().filter(of_policy).collect();
        let running = pairs.iter().filter(|pair| self.is_running(pair)).count();
        let pending: Vec<&&Value> =
            pairs.iter().filter(|pair| !self.is_running(pair) && !is_left_out(pair)).collect();
        let total = running + pending.len();
        let first = pending.first().map(|pair| (text(pair, "/node"), text(pair, "/text")));
        match first {
            Some((node, why)) => Progress::Pending(format!("{running} of {total} nodes done; {node}: {why}")),
            None => match rollouts.iter().find(|rollout| text(rollout, "/state") == "updating") {
                Some(rollout) => Progress::Pending(format!(
                    "{running} of {total} nodes done; {}: {}",
                    text(rollout, "/group"),
                    text(rollout, "/text")
                )),
                None if total == 0 => Progress::Done(format!("policy {} selects no node", self.id)),
                None => Progress::Done(format!("policy {} is carried out on {total} nodes", self.id)),
            },
        }
    }

    /// Answers whether a rollout leads to the policy as it was written, and not to what it said before.
    fn is_target_of(&self, rollout: &Value) -> bool {
        let version = text(rollout, "/target").rsplit(' ').next().unwrap_or_default();
        version.is_empty() || self.versions.is_empty() || self.versions.iter().any(|wanted| wanted == version)
    }

    /// Answers whether the agbot has read the policy as it was written; an agbot that does not tell is believed.
    fn is_read_by(&self, reasons: &Value) -> bool {
        let Some(policies) = reasons.get("policies").and_then(Value::as_object) else { return true };
        let seen = policies.get(&self.id).and_then(Value::as_str).and_then(instant);
        seen.is_some_and(|seen| self.written_at.is_none_or(|written| seen >= written))
    }

    fn is_running(&self, pair: &Value) -> bool {
        let version = text(pair, "/state/version");
        text(pair, "/state/placement") == "placed"
            && pair.pointer("/state/is_running") == Some(&Value::Bool(true))
            && (self.versions.is_empty() || self.versions.iter().any(|wanted| wanted == version))
    }
}

/// Answers whether nothing further happens to a pair of node and policy, whether the service runs there or not.
pub fn is_settled(pair: &Value) -> bool {
    let is_running = text(pair, "/state/placement") == "placed"
        && pair.pointer("/state/is_running") == Some(&Value::Bool(true));
    is_running || is_left_out(pair)
}

/// Answers whether the node gets nothing from the policy until a user changes something.
fn is_left_out(pair: &Value) -> bool {
    text(pair, "/state/placement") == "not-placed"
        && !TRANSIENT.contains(&text(pair, "/state/blocked/blocked"))
}

fn instant(text: &str) -> Option<Timestamp> {
    // The exchange appends the name of the zone.
    text.split('[').next()?.parse().ok()
}

/// Waits for a policy that was just written, then shows how each node stands.
///
/// # Errors
/// As [`super::Wait::follow`].
pub async fn follow(wait: &super::Wait, context: &Context, exchange: &Exchange, name: &str) -> Outcome {
    if wait.limit.is_none() || context.is_dry_run {
        return Ok(());
    }
    let wanted = WantedPolicy::read(exchange, name).await?;
    let look = async || wanted.progress(context, exchange).await;
    let outcome = wait.follow(context, &format!("deployment policy {}", wanted.id), look).await;
    let (org, _) = exchange.split(&wanted.id);
    let path = Path::org(&org, &["agbot", "reasons"]);
    // How it failed comes before what can still be shown.
    if let Ok(found) = context.agbot(exchange)?.get("asking the agbot for its reasons", &path).await {
        context.screen.show(&crate::hub::reasons(&found, None, Some(&wanted.id)))?;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> WantedPolicy {
        let document = json!({
            "service": {"serviceVersions": [{"version": "2.0.0"}]},
            "lastUpdated": "2026-01-01T00:00:05.000Z[UTC]",
        });
        WantedPolicy::of("o/p".to_owned(), &document)
    }

    fn placed(node: &str, version: &str, is_running: bool) -> Value {
        json!({"node": node, "policy": "o/p", "text": format!("runs version {version}"),
               "state": {"placement": "placed", "version": version, "is_running": is_running}})
    }

    fn left_out(blocked: &str) -> Value {
        json!({"node": "o/n9", "policy": "o/p", "text": blocked,
               "state": {"placement": "not-placed", "blocked": {"blocked": blocked}}})
    }

    fn judge(pairs: &[Value], rollouts: Value) -> Progress {
        let reasons = json!({"policies": {"o/p": "2026-01-01T00:00:05Z"}, "reasons": pairs});
        wanted().judge(&reasons, &json!({"rollouts": rollouts}))
    }

    #[test]
    fn policy_is_carried_out_when_every_selected_node_runs_a_wanted_version() {
        let new = placed("o/n1", "2.0.0", true);
        let done = judge(&[new.clone(), left_out("constraints")], json!([]));
        assert_eq!(done, Progress::Done("policy o/p is carried out on 1 nodes".to_owned()));
        let pending = judge(&[new.clone(), placed("o/n2", "1.0.0", true)], json!([]));
        assert_eq!(pending, Progress::Pending("1 of 2 nodes done; o/n2: runs version 1.0.0".to_owned()));
        assert!(matches!(judge(&[placed("o/n1", "2.0.0", false)], json!([])), Progress::Pending(_)));
        assert!(matches!(judge(&[new.clone(), left_out("node-down")], json!([])), Progress::Pending(_)));
        assert!(matches!(judge(&[], json!([])), Progress::Done(_)));
        let updating = json!([{"policy": "o/p", "group": "o/g", "state": "updating", "text": "updating"}]);
        assert!(matches!(judge(&[new], updating), Progress::Pending(_)));
    }

    #[test]
    fn what_the_agbot_knew_before_the_change_does_not_count() {
        let pairs = [placed("o/n1", "2.0.0", true)];
        let none = json!({"rollouts": []});
        let old = json!({"policies": {"o/p": "2026-01-01T00:00:04Z"}, "reasons": pairs});
        assert!(matches!(wanted().judge(&old, &none), Progress::Pending(_)));
        let absent = json!({"policies": {}, "reasons": pairs});
        assert!(matches!(wanted().judge(&absent, &none), Progress::Pending(_)));
        assert!(matches!(wanted().judge(&json!({"reasons": pairs}), &none), Progress::Done(_)));
    }

    #[test]
    fn held_rollout_and_one_that_went_back_end_the_wait() {
        let pairs = [placed("o/n1", "1.0.0", true)];
        let held = json!([{"policy": "o/p", "group": "o/g", "state": "held", "text": "held: paused"}]);
        assert_eq!(judge(&pairs, held), Progress::Held("o/g: held: paused".to_owned()));
        let old = json!([{"policy": "o/p", "group": "o/g", "state": "held", "target": "o/s 1.5.0"}]);
        assert!(matches!(judge(&pairs, old), Progress::Pending(_)), "it is of the policy before the change");
        let back = json!([{"policy": "o/p", "group": "o/g", "state": "completed", "text": "went back",
                           "rollback": {"version": "1.0.0"}}]);
        assert_eq!(judge(&pairs, back), Progress::Failed("o/g: went back".to_owned()));
    }
}
