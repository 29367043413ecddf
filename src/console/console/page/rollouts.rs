//! The rollouts and updates of an organization.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::rollout::{Rollout, RolloutState, WorkloadUpdate};
use jiff::Timestamp;

use super::moment::Moment;
use crate::action::Control;
use crate::address::address_of;
use crate::failure::Failure;
use crate::layout::{self, Tab, bare_name};
pub(crate) use crate::progress::Progress;
use crate::reads::{self, Account};
use crate::session::Reader;

/// A rollout through one HA group.
pub(crate) struct RolloutRow {
    pub(crate) policy: String,
    pub(crate) policy_href: String,
    /// The page of the rollout.
    pub(crate) href: String,
    pub(crate) group: String,
    pub(crate) group_href: String,
    pub(crate) target: String,
    pub(crate) state: &'static str,
    /// Why it is in this state, if that needs words.
    pub(crate) why: String,
    pub(crate) started: Moment,
    pub(crate) progress: Option<Progress>,
    pub(crate) controls: Vec<Control>,
}

impl RolloutRow {
    pub(crate) fn new(org: &str, rollout: Rollout, account: &Account, now: Timestamp) -> Self {
        let policy = bare_name(org, rollout.policy.as_str()).to_owned();
        let state = match (&rollout.state, rollout.rollback.is_some()) {
            (RolloutState::Updating, false) => "updating",
            (RolloutState::Updating, true) => "rolling-back",
            (RolloutState::Paused { .. }, _) => "paused",
            (RolloutState::Abandoned { .. }, _) => "abandoned",
            (RolloutState::Completed { .. }, false) => "completed",
            (RolloutState::Completed { .. }, true) => "rolled-back",
        };
        let failed = u32::try_from(rollout.failed.len()).unwrap_or(u32::MAX);
        Self {
            href: address_of(org, &["rollouts", &policy]),
            policy_href: address_of(org, &["policies", &policy]),
            group_href: address_of(org, &["groups", rollout.group.name()]),
            group: rollout.group.name().to_owned(),
            target: rollout.target,
            state,
            why: reason_of(&rollout.text),
            started: Moment::new(&rollout.started_at, now),
            progress: rollout.total.zip(rollout.done).map(|(total, done)| Progress::new(done, total, failed)),
            controls: Control::of_rollout(
                org,
                &policy,
                state,
                &account.policy_objection((org, &policy), None),
            ),
            policy,
        }
    }
}

impl RolloutRow {
    /// Returns whether it has not ended.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, "updating" | "rolling-back" | "paused")
    }
}

/// Returns the part of a state in words that is not shown otherwise: what follows a colon.
fn reason_of(text: &str) -> String {
    text.split_once(": ").map(|(_, reason)| reason.to_owned()).unwrap_or_default()
}

/// The update of a policy with `orchestration`.
pub(crate) struct UpdateRow {
    pub(crate) policy: String,
    pub(crate) policy_href: String,
    pub(crate) href: String,
    pub(crate) update: WorkloadUpdate,
    pub(crate) progress: Progress,
    pub(crate) started: Option<Moment>,
}

impl UpdateRow {
    pub(crate) fn new(org: &str, update: WorkloadUpdate, now: Timestamp) -> Self {
        let policy = bare_name(org, update.policy.as_str()).to_owned();
        Self {
            policy_href: address_of(org, &["policies", &policy]),
            href: address_of(org, &["rollouts", &policy]),
            progress: Progress::new(update.update.done, update.update.total, update.update.failed),
            started: Moment::known(update.update.started_at.as_deref(), now),
            update,
            policy,
        }
    }
}

#[derive(Template)]
#[template(path = "rollouts.html")]
struct Page {
    open: Vec<RolloutRow>,
    ended: Vec<RolloutRow>,
    updates: Vec<UpdateRow>,
}

/// Rollouts and updates on the page: those in progress, and the newest others.
const ROWS: u16 = 60;

pub(crate) async fn show(reader: Reader, Path(org): Path<String>) -> Result<Response, Failure> {
    let now = Timestamp::now();
    let (found, account) =
        tokio::try_join!(reads::rollouts(&reader, (&org, None), ROWS), reads::account(&reader))?;
    let rows = found.rollouts.into_iter().map(|rollout| RolloutRow::new(&org, rollout, &account, now));
    let (open, ended): (Vec<_>, Vec<_>) = rows.partition(RolloutRow::is_open);
    let updates = found.workloads.into_iter().map(|update| UpdateRow::new(&org, update, now));
    let page = Page { open, ended, updates: updates.collect() };
    Ok(layout::show(&reader, &org, Tab::Rollouts, "Rollouts", &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_follows_a_colon() {
        assert_eq!(reason_of("updating, 1 of 3 done"), "");
        assert_eq!(reason_of("paused: version 3.0.0 failed: exit 1"), "version 3.0.0 failed: exit 1");
    }
}
