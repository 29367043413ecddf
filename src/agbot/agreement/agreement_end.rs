//! The end of an agreement, with the bookkeeping that its reason requires.
//!
//! Source: agbot 1.6, 2.3 to 2.5.

use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::{
    command::Action,
    model::{Liveness, Model, selection},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::{Agreement, CancelReason},
    claims::ClaimRef,
    facts::Availability,
    lease::Lease,
    report::Blocked,
    usage::{Backoff, usage_after_cancel},
    workload::Cause,
};

/// Ends an agreement, with the bookkeeping that its reason requires.
///
/// `claim` is given exactly when a group member is taken down for a rollout.
pub(crate) fn cancel(
    pass: &mut Pass<'_>,
    lease: Lease,
    agreement: &Agreement,
    reason: CancelReason,
    claim: Option<ClaimRef>,
    notifies_node: bool,
) {
    let pair = (agreement.node.clone(), agreement.policy.clone());
    // Tasks end for many causes; only a failure speaks against the version.
    let is_forgotten = pass.model.task_of(agreement).is_some_and(|task| !task.ended_by_itself())
        && !reason.is_service_failure();
    let usage = pass.model.usage.get(&pair).filter(|_| !is_forgotten);
    let usage = usage_after_cancel(usage, reason);
    let previous = pass.model.backoff.get(&pair);
    let is_failure = reason.is_service_failure() || reason == CancelReason::NO_REPLY;
    let backoff = if is_failure {
        Some(Backoff::after(previous, &agreement.version, reason, pass.now, &pass.model.settings))
    } else {
        previous.filter(|one| !reason.forgets_usage() && one.version == agreement.version).cloned()
    };
    let cause = cause_of_end(pass, agreement, reason);
    let text = format!("ending the agreement: {cause}");
    let action = Action::Cancel {
        agreement: agreement.id.clone(),
        node: pair.0.clone(),
        policy: pair.1.clone(),
        reason,
        cause,
        claim,
        usage,
        backoff,
        notifies_node,
    };
    pass.act(&pair.0, &pair.1, text);
    pass.issue(lease, action, (&pair.0, &pair.1));
}

/// Ends an agreement whose node is being drained or left to another agbot.
pub(crate) fn take_off(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, claim: Option<ClaimRef>) {
    let (reason, text) = match pass.model.other_agbot_of(&agreement.node, &agreement.policy) {
        Some(agbot) => (CancelReason::POLICY_CHANGED, format!("leaving the service to the agbot {agbot}")),
        None => {
            let text = "taking the service off: the node is being drained".to_owned();
            (CancelReason::USER_REQUESTED, text)
        }
    };
    cancel(pass, lease, agreement, reason, claim, true);
    pass.act(&agreement.node, &agreement.policy, text);
}

/// Returns in words why an agreement ends: the protocol has one number for a drain and a user, and one for all changes of policies.
fn cause_of_end(pass: &Pass<'_>, agreement: &Agreement, reason: CancelReason) -> String {
    let model = pass.model;
    let is_drained = model.availability(&agreement.node) == Availability::Drain;
    let of_task = || cause_of_task_end(model, agreement);
    match reason {
        CancelReason::USER_REQUESTED if is_drained => Blocked::NodeDraining.to_string(),
        CancelReason::HEARTBEAT_MISSING => match model.liveness(&agreement.node, pass.now) {
            Liveness::Down { since } => Blocked::NodeDown { since }.to_string(),
            _ => reason.text().to_owned(),
        },
        CancelReason::USER_REQUESTED => of_task().unwrap_or_else(|| reason.text().to_owned()),
        CancelReason::POLICY_CHANGED if let Some(cause) = of_task() => cause,
        CancelReason::POLICY_CHANGED => match selection::fit(model, agreement, pass.now) {
            Fit::Lost(Blocked::PolicyUnknown) => {
                "the deployment policy was deleted or is not served".to_owned()
            }
            Fit::Lost(blocked) => format!("no longer wanted on the node: {blocked}"),
            Fit::Outdated(choice) if choice.version != agreement.version => {
                format!("replaced by version {}", choice.version)
            }
            Fit::Outdated(choice) => format!("replaced by {} {}", choice.key, choice.version),
            Fit::Leaving => Blocked::NodeDraining.to_string(),
            Fit::Clean(_) | Fit::Unclear(_) => reason.text().to_owned(),
        },
        _ => reason.text().to_owned(),
    }
}

/// Returns in words why the task of an agreement ends; none when the agreement has no task, or the task is only no longer wanted.
fn cause_of_task_end(model: &Model, agreement: &Agreement) -> Option<String> {
    let task = model.task(agreement.task.as_ref()?)?;
    if task.ended_by_itself() {
        return Some(format!("the instance ended: {}", task.ending_text()));
    }
    let unit = model.workload_unit(&task.unit_id)?;
    let successor = unit.tasks(&task.slot).newest().filter(|one| one.generation > task.generation)?;
    Some(match successor.cause {
        Cause::Update => "the update replaces it".to_owned(),
        Cause::Rollback => "the rollback replaces it".to_owned(),
        _ => "another instance replaces it".to_owned(),
    })
}
