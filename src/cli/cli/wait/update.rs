//! Progress of the updates of deployment policies whose instances the hub places, and the causes of failures.

use std::cell::RefCell;
use std::collections::BTreeMap;

use evenkeel_wire::agbot::orchestration::{OrchestrationEvent, OrchestrationEventsQuery, UpdateProgress};

use super::{Progress, cause, held_advice};
use crate::server::Server;
use crate::update_text::{hint_for, update_text};

/// The kind of the event that states why an update is rolled back.
const ROLLBACK_STARTED: &str = "update.rollback-started";

/// The reasons of rollbacks seen by one command, by policy.
///
/// A completed rollback no longer names its reason, so a command has to remember it while it waits.
#[derive(Debug, Default)]
pub struct RollbackReasons(RefCell<BTreeMap<String, String>>);

impl RollbackReasons {
    /// Returns how far the update of `policy` is from its end; `wants_rollback`: whether a rollback is the end that was requested.
    pub fn progress(&self, policy: &str, update: &UpdateProgress, wants_rollback: bool) -> Progress {
        let reason = self.rollback_reason(policy, update);
        let text = text(update, policy, reason.as_deref());
        let stuck = update.blocked.as_ref().filter(|blocked| cause::is_blocked_for_users(blocked));
        match update.state.as_str() {
            "updating" | "rollback-started" if let Some(blocked) = stuck => {
                Progress::Held { why: text, advice: hint_for(blocked, policy) }
            }
            "updating" | "rollback-started" => Progress::Pending(text),
            "paused" | "rollback-paused" => {
                let is_rollback = update.state == "rollback-paused";
                Progress::Held { why: text, advice: held_advice(policy, is_rollback) }
            }
            "rollback-completed" if !wants_rollback => Progress::rolled_back(text),
            _ => Progress::Done(text),
        }
    }

    /// Reads the reason of a completed rollback that was not seen in progress from the events of its policy, `org/policy`.
    ///
    /// A reason that cannot be read is left out, because the outcome is known without it.
    pub async fn find(&self, agbot: &Server, policy: &str, update: &UpdateProgress) {
        let is_known = self.0.borrow().contains_key(policy);
        let Some((org, name)) = policy.split_once('/').filter(|_| update.state == "rollback-completed")
        else {
            return;
        };
        if is_known {
            return;
        }
        let kind = Some(ROLLBACK_STARTED.to_owned());
        let query = OrchestrationEventsQuery { kind, limit: Some(1), ..Default::default() };
        let found = agbot.client.policy_event_records(org, name, &query).await;
        let newest = found.ok().flatten().unwrap_or_default().pop();
        let event = newest.and_then(|record| record.read::<OrchestrationEvent>().ok());
        if let Some(reason) = event.and_then(|event| event.reason).filter(|reason| !reason.is_empty()) {
            self.0.borrow_mut().insert(policy.to_owned(), reason);
        }
    }

    /// Remembers the reason of a rollback in progress; returns that of a completed one.
    fn rollback_reason(&self, policy: &str, update: &UpdateProgress) -> Option<String> {
        let mut reasons = self.0.borrow_mut();
        match update.state.as_str() {
            "rollback-started" if !update.message.is_empty() => {
                reasons.insert(policy.to_owned(), update.message.clone());
                None
            }
            "rollback-completed" => reasons.get(policy).cloned(),
            "rollback-started" | "rollback-paused" => None,
            _ => {
                reasons.remove(policy);
                None
            }
        }
    }
}

/// Returns state, numbers and reason of an update; `reason`: that of a completed rollback, where it is known.
fn text(update: &UpdateProgress, policy: &str, reason: Option<&str>) -> String {
    let mut text = update_text(update, policy).unwrap_or_else(|| match update.state.as_str() {
        "completed" => format!("completed {}/{}", update.done, update.total),
        _ => "there is no update".to_owned(),
    });
    let message = reason.unwrap_or(&update.message);
    // The reason for which an update is blocked is more informative than its state; the message of a rollback
    // is its reason.
    let is_explained = update.blocked.is_some() && update.state == "updating";
    if !message.is_empty() && !is_explained {
        text.push_str(&format!(": {message}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::UpdateBlocked;

    use super::*;

    fn update(state: &str, message: &str) -> UpdateProgress {
        UpdateProgress {
            state: state.to_owned(),
            message: message.to_owned(),
            total: 1,
            done: 1,
            ..Default::default()
        }
    }

    #[test]
    fn rollback_is_a_failure_unless_it_was_requested() {
        let progress =
            |state, is_wanted| RollbackReasons::default().progress("o/p", &update(state, ""), is_wanted);
        assert!(matches!(progress("updating", false), Progress::Pending(_)));
        assert!(matches!(progress("rollback-started", false), Progress::Pending(_)));
        assert!(matches!(progress("paused", false), Progress::Held { .. }));
        assert!(matches!(progress("rollback-completed", false), Progress::Failed(_)));
        assert!(matches!(progress("rollback-completed", true), Progress::Done(_)));
        let requested = update("rollback-completed", "manually requested by o/ann");
        let found = RollbackReasons::default().progress("o/p", &requested, false);
        assert!(matches!(&found, Progress::Undone(text) if text.ends_with("by o/ann")), "{found:?}");
        assert!(matches!(progress("none", false), Progress::Done(_)));
    }

    #[test]
    fn rollback_that_is_paused_is_continued_only() {
        let advice = |state| match RollbackReasons::default().progress("o/p", &update(state, ""), false) {
            Progress::Held { advice, .. } => advice,
            other => panic!("{other:?}"),
        };
        assert_eq!(advice("rollback-paused"), "continue with: hzn rollout resume o/p");
        assert!(advice("paused").ends_with("or go back with: hzn rollout undo o/p"));
    }

    #[test]
    fn update_that_is_blocked_by_a_freeze_waits_for_a_user() {
        let blocked = |rules: &[&str]| UpdateProgress {
            blocked: Some(UpdateBlocked {
                rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
                hint: "thaw it with: hzn exchange deployment orchestration thaw POLICY".to_owned(),
                ..UpdateBlocked::default()
            }),
            ..update("updating", "update in progress")
        };
        let reasons = RollbackReasons::default();
        let progress = |rules| reasons.progress("o/p", &blocked(rules), false);
        let Progress::Held { why, advice } = progress(&["Frozen"]) else { panic!("it is held") };
        assert!(why.contains("blocked: Frozen") && !why.contains("in progress"), "{why}");
        assert_eq!(advice, "thaw it with: hzn exchange deployment orchestration thaw o/p");
        assert!(matches!(progress(&["Frozen", "NodeDown"]), Progress::Pending(_)));
    }

    #[test]
    fn completed_rollback_names_the_reason_that_was_seen_while_it_was_in_progress() {
        let reasons = RollbackReasons::default();
        let see = |policy: &str, state: &str, message: &str| {
            reasons.progress(policy, &update(state, message), false).text().to_owned()
        };
        see("o/p", "rollback-started", "count: exit code 3: crash");
        see("o/p", "rollback-paused", "paused by o/ann");
        let end = see("o/p", "rollback-completed", "rollback completed");
        assert_eq!(end, "rollback-completed 1/1: count: exit code 3: crash");
        let other = see("o/q", "rollback-completed", "rollback completed");
        assert_eq!(other, "rollback-completed 1/1: rollback completed");
        see("o/p", "updating", "");
        let later = see("o/p", "rollback-completed", "rollback completed");
        assert_eq!(later, "rollback-completed 1/1: rollback completed", "the reason is that of one rollback");
    }
}
