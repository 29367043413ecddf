//! Records what becomes of requests that a second person approves a plan.
//!
//! The exchange keeps the requests and decides about them; this agbot reads those of the organizations that it serves, at the start and when
//! the feed names one, and asks for those whose time is over. Source: docs/adr/0031-a-second-person-approves-a-plan.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::approval::{self, ApprovalEvent};
use evenkeel_client::ClientError;
use evenkeel_ids::{OrgId, PolicyId};
use evenkeel_runtime::worker::Worker;
use evenkeel_store::retry;
use evenkeel_wire::exchange::plan_approval::{PlanApproval, PlanApprovalsQuery};
use jiff::Timestamp;
use serde_json::json;

use super::facts::instant;
use super::full;
use super::served_entries::ServedEntries;
use crate::AgbotError;
use crate::context::Context;

const PAGE: i64 = 100;
/// Pause between two reads of requests whose time is over.
const PERIOD: Duration = Duration::from_secs(5);
/// Such requests that are read at once.
const DUE_AT_ONCE: i64 = 100;

/// A step of a request, as an event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStep {
    /// It was requested.
    Requested,
    /// A second person approved it.
    Approved,
    /// A second person rejected it.
    Rejected,
    /// It was canceled.
    Canceled,
    /// Its write was carried out.
    Applied,
    /// Its time was over before it was applied.
    Expired,
    /// Its plan no longer holds.
    Stale,
}

impl ApprovalStep {
    fn kind(self) -> &'static str {
        match self {
            Self::Requested => "approval.requested",
            Self::Approved => "approval.approved",
            Self::Rejected => "approval.rejected",
            Self::Canceled => "approval.canceled",
            Self::Applied => "approval.applied",
            Self::Expired => "approval.expired",
            Self::Stale => "approval.stale",
        }
    }

    fn text(self, actor: &str, title: &str) -> String {
        match self {
            Self::Requested => format!("{actor} requests the approval to {title}"),
            Self::Approved => format!("{actor} approved the request to {title}"),
            Self::Rejected => format!("{actor} rejected the request to {title}"),
            Self::Canceled => format!("{actor} canceled the request to {title}"),
            Self::Applied => format!("{actor} applied the approval to {title}"),
            Self::Expired => format!("the request to {title} expired"),
            Self::Stale => format!("{actor} could not {title}: the approved plan no longer holds"),
        }
    }
}

/// Returns the event of a step; without an actor when nobody took it.
#[must_use]
pub fn approval_event(
    org: &OrgId,
    approval: &PlanApproval,
    step: ApprovalStep,
    (actor, at): (Option<&str>, Timestamp),
) -> ApprovalEvent {
    let is_decided = !matches!(step, ApprovalStep::Requested);
    let decision = approval.decision.as_deref().filter(|text| is_decided && !text.is_empty());
    ApprovalEvent {
        happened_at: at,
        kind: step.kind(),
        org: org.clone(),
        policy: approval.policy.as_deref().map(|policy| PolicyId::new(org.as_str(), policy)),
        detail: json!({
            "actor": actor,
            "approvalId": approval.id,
            "requester": approval.requester,
            "approver": approver(approval).filter(|_| is_decided),
            "reason": approval.reason,
            "decision": decision,
            "text": step.text(actor.unwrap_or_default(), &approval.title),
        }),
    }
}

/// Returns who approved a request.
fn approver(approval: &PlanApproval) -> Option<&str> {
    let is_approved = matches!(approval.state.as_str(), "approved" | "used" | "expired");
    approval.decided_by.as_deref().filter(|_| is_approved)
}

/// Returns how far a state is from the request: states are reached in this order only.
fn rank(state: Option<&str>) -> u8 {
    match state {
        None => 0,
        Some("pending") => 1,
        Some("approved") => 2,
        Some(_) => 3,
    }
}

/// Returns the steps of a request after a recorded state, with who took them and when.
fn steps_after<'a>(
    recorded: Option<&str>,
    approval: &'a PlanApproval,
) -> Vec<(ApprovalStep, Option<&'a str>, &'a str)> {
    let reached = approval.state.as_str();
    if rank(Some(reached)) <= rank(recorded) {
        return Vec::new();
    }
    let (decided_by, decided_at) = (approval.decided_by.as_deref(), approval.decided_at.as_deref());
    let decided = |step| (step, decided_by, decided_at.unwrap_or_default());
    let mut steps = Vec::new();
    if rank(recorded) < rank(Some("pending")) {
        steps.push((
            ApprovalStep::Requested,
            Some(approval.requester.as_str()),
            approval.created_at.as_str(),
        ));
    }
    if rank(recorded) < rank(Some("approved")) && approver(approval).is_some() {
        steps.push(decided(ApprovalStep::Approved));
    }
    match reached {
        "rejected" => steps.push(decided(ApprovalStep::Rejected)),
        "canceled" => steps.push(decided(ApprovalStep::Canceled)),
        "used" => {
            let used_at = approval.used_at.as_deref().unwrap_or_default();
            steps.push((ApprovalStep::Applied, approval.used_by.as_deref(), used_at));
        }
        "expired" => steps.push((ApprovalStep::Expired, None, approval.expires_at.as_str())),
        _ => {}
    }
    steps
}

/// Records the steps of a request that are not recorded.
async fn record(context: &Context, org: &OrgId, approval: &PlanApproval) -> Result<(), AgbotError> {
    let now = context.now();
    let expires_at = instant(&approval.expires_at).unwrap_or(now);
    let id = approval.id.as_str();
    retry("approval.record", || async {
        let mut tx = context.database.begin().await?;
        let recorded = approval::lock(&mut tx, org.as_str(), id, expires_at).await?;
        let steps = steps_after(recorded.as_deref(), approval);
        for (step, actor, at) in &steps {
            let event = approval_event(org, approval, *step, (*actor, instant(at).unwrap_or(now)));
            approval::insert_event(&mut tx, &event).await?;
        }
        if !steps.is_empty() {
            approval::set_state(&mut tx, org.as_str(), id, &approval.state).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Returns whether this agbot records the requests of an organization.
pub(super) fn is_recorded(served_entries: &ServedEntries, org: &str) -> bool {
    served_entries.serves_nodes_of(org) || served_entries.policy_orgs().any(|one| one == org)
}

/// Reads one request and records its steps. What the exchange does not show this agbot, it does not record.
///
/// # Errors
/// When the exchange or the database does not respond.
pub(super) async fn changed(context: &Context, org: &str, id: &str) -> Result<(), AgbotError> {
    let Ok(org) = org.parse::<OrgId>() else { return Ok(()) };
    match context.client.plan_approval(org.as_str(), id).await {
        Ok(Some(approval)) => record(context, &org, &approval).await,
        Err(error) if !is_refused(&error) => Err(error.into()),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Reads the requests of the wanted organizations, and records the steps that are not recorded. Exchanges without approvals have none.
///
/// # Errors
/// When the exchange or the database does not respond.
pub(super) async fn compare(
    context: &Context,
    served_entries: &ServedEntries,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(), AgbotError> {
    for org in served_entries.orgs() {
        if !is_recorded(served_entries, &org) || !is_wanted(&org) {
            continue;
        }
        match compare_org(context, &org).await {
            Err(AgbotError::Exchange(error)) if is_refused(&error) => {}
            Err(AgbotError::Exchange(error)) => full::note_failed(context, &org, error).await?,
            outcome => outcome?,
        }
    }
    Ok(())
}

async fn compare_org(context: &Context, name: &str) -> Result<(), AgbotError> {
    let Ok(org) = name.parse::<OrgId>() else { return Ok(()) };
    let mut query = PlanApprovalsQuery { limit: Some(PAGE), ..PlanApprovalsQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = context.client.plan_approvals(name, &query).await?;
        found.extend(page.approvals);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let states = context.database.read(async |connection| approval::list_states(connection, name).await);
    let states: BTreeMap<String, String> = states.await?.into_iter().collect();
    // The oldest request first, as it would have been recorded.
    for approval in found.iter().rev() {
        let recorded = states.get(&approval.id).map(String::as_str);
        if rank(Some(&approval.state)) > rank(recorded) {
            record(context, &org, approval).await?;
        }
    }
    Ok(())
}

fn is_refused(error: &ClientError) -> bool {
    error.status().is_some_and(|status| (400..500).contains(&status) && status != 429)
}

/// Records requests whose time is over, of which the feed says nothing.
pub(crate) struct ApprovalExpiry(pub Arc<Context>);

impl Worker for ApprovalExpiry {
    type Error = AgbotError;
    const NAME: &'static str = "approval_expiry";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        expire(&self.0).await
    }

    fn pause(&self) -> Duration {
        PERIOD
    }
}

async fn expire(context: &Context) -> Result<(), AgbotError> {
    let now = context.now();
    let due =
        context.database.read(async |connection| approval::list_due(connection, now, DUE_AT_ONCE).await);
    for (org, id) in due.await? {
        let Ok(parsed) = org.parse::<OrgId>() else { continue };
        match context.client.plan_approval(&org, &id).await {
            Ok(Some(approval)) => record(context, &parsed, &approval).await?,
            Err(error) if !is_refused(&error) => return Err(error.into()),
            // The exchange no longer shows it.
            Ok(None) | Err(_) => {
                let close = context
                    .database
                    .read(async |connection| approval::set_state(connection, &org, &id, "expired").await);
                close.await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(state: &str) -> PlanApproval {
        let is_decided = state != "pending";
        PlanApproval {
            id: "7".to_owned(),
            requester: "o/ann".to_owned(),
            policy: Some("p".to_owned()),
            title: "restart deployment policy p".to_owned(),
            state: state.to_owned(),
            created_at: "2026-03-01T08:00:00.000Z[UTC]".to_owned(),
            expires_at: "2026-03-02T08:00:00.000Z[UTC]".to_owned(),
            decided_by: is_decided.then(|| "o/bob".to_owned()),
            decided_at: is_decided.then(|| "2026-03-01T09:00:00.000Z[UTC]".to_owned()),
            decision: is_decided.then(|| "seen".to_owned()),
            used_by: (state == "used").then(|| "o/ann".to_owned()),
            ..PlanApproval::default()
        }
    }

    fn kinds(recorded: Option<&str>, approval: &PlanApproval) -> Vec<&'static str> {
        let steps = steps_after(recorded, approval);
        steps.into_iter().map(|(step, ..)| step.kind().trim_start_matches("approval.")).collect()
    }

    #[test]
    fn steps_are_recorded_once_and_those_that_were_missed_are_recorded_later() {
        for (recorded, state, expected) in [
            (None, "pending", &["requested"][..]),
            (Some("pending"), "pending", &[]),
            (Some("pending"), "approved", &["approved"]),
            (Some("approved"), "pending", &[]),
            (Some("approved"), "used", &["applied"]),
            (Some("approved"), "rejected", &["rejected"]),
            (Some("approved"), "expired", &["expired"]),
            (Some("used"), "approved", &[]),
            (Some("used"), "used", &[]),
            (Some("expired"), "used", &[]),
            (None, "used", &["requested", "approved", "applied"]),
            (None, "rejected", &["requested", "rejected"]),
            (Some("pending"), "canceled", &["canceled"]),
            (Some("pending"), "expired", &["approved", "expired"]),
        ] {
            assert_eq!(kinds(recorded, &approval(state)), expected, "{recorded:?} {state}");
        }
        let undecided = PlanApproval { decided_by: None, ..approval("expired") };
        assert_eq!(kinds(Some("pending"), &undecided), ["expired"]);
    }

    #[test]
    fn event_names_who_requested_approved_and_applied() {
        let org: OrgId = "o".parse().expect("an organization");
        let at = |step| approval_event(&org, &approval("used"), step, (Some("o/ann"), Timestamp::UNIX_EPOCH));
        let applied = at(ApprovalStep::Applied);
        assert_eq!(applied.policy.as_ref().map(PolicyId::as_str), Some("o/p"));
        assert_eq!(applied.detail["approver"], "o/bob");
        assert_eq!(applied.detail["text"], "o/ann applied the approval to restart deployment policy p");
        assert_eq!(at(ApprovalStep::Requested).detail["approver"], json!(null));
        let rejected = approval_event(
            &org,
            &approval("rejected"),
            ApprovalStep::Rejected,
            (Some("o/bob"), Timestamp::UNIX_EPOCH),
        );
        assert_eq!(
            (&rejected.detail["decision"], &rejected.detail["approver"]),
            (&json!("seen"), &json!(null))
        );
    }
}
