//! The acknowledgement of a node's positive reply, which starts the new instance.
//!
//! Source: agreement-protocol 2.4 (rows 3a to 3d).

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::{command::Action, model::selection, pass::Pass};
use evenkeel_planner_record::{
    agreement::{Agreement, CancelReason, STOP_CONFIRMATION_SECS},
    facts::VersionChoice,
    lease::Lease,
    report::Blocked,
    time::later,
    usage::usage_after_reply,
};

use crate::agreement_end::cancel;

/// Returns what the acknowledgement of a proposal waits for: the node still reports the instance of the previous agreement.
///
/// The proposal itself does not wait, so that a node that polls seldom finds it together with the cancel. The acknowledgement
/// is what starts the new instance.
pub(crate) fn old_instance(pass: &mut Pass<'_>, node: &NodeId, policy: &PolicyId) -> Option<Blocked> {
    // The tasks of a capable node start when the engine wants them to run, not with the acknowledgement.
    if pass.model.is_capable(node) && pass.model.is_orchestrated(policy) {
        return None;
    }
    let (ended, at) = pass.model.lingering(node, policy)?;
    let until = later(at, STOP_CONFIRMATION_SECS);
    if pass.now >= until {
        return None;
    }
    pass.watch((node, policy), until);
    Some(Blocked::OldInstanceStopping { agreement: ended.id.clone(), until })
}

/// Acknowledges a positive reply to a proposal that is not waiting for anything else.
pub(crate) fn acknowledge(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    match selection::fit(pass.model, agreement, pass.now) {
        Fit::Clean(_) | Fit::Unclear(_) => accept_reply(pass, lease, agreement),
        Fit::Outdated(_) | Fit::Lost(_) | Fit::Leaving => {
            refuse_reply(pass, lease, agreement);
            cancel(pass, lease, agreement, CancelReason::POLICY_CHANGED, None, true);
        }
    }
}

fn accept_reply(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    if pass.is_stopping(agreement) {
        return refuse_reply(pass, lease, agreement);
    }
    let spec = pass.model.task_of(agreement).map(|task| task.spec.number);
    let policy = match spec {
        Some(number) => pass.model.known_spec(&agreement.policy, number).map(|spec| &spec.policy),
        None => pass.model.policy(&agreement.policy),
    };
    let entry = policy.and_then(|policy| {
        policy
            .versions
            .iter()
            .find(|entry| entry.version == agreement.version && entry.priority == agreement.priority)
    });
    let pair = (agreement.node.clone(), agreement.policy.clone());
    let fallback = VersionChoice {
        version: agreement.version.clone(),
        priority: agreement.priority,
        retries: 0,
        retry_secs: 0,
        ..VersionChoice::default()
    };
    let (number, entry) = (spec.unwrap_or_default(), entry.unwrap_or(&fallback));
    let usage = selection::tried(pass.model, &pair.0, &pair.1, number);
    let usage = usage_after_reply(usage, entry, number, pass.now);
    let action = Action::AcknowledgeReply {
        agreement: agreement.id.clone(),
        node: agreement.node.clone(),
        policy: Some(agreement.policy.clone()),
        decision: true,
        usage,
    };
    pass.issue(lease, action, (&agreement.node, &agreement.policy));
}

/// Refuses a positive reply to a proposal that is no longer wanted.
pub(crate) fn refuse_reply(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    let action = Action::AcknowledgeReply {
        agreement: agreement.id.clone(),
        node: agreement.node.clone(),
        policy: None,
        decision: false,
        usage: None,
    };
    pass.issue(lease, action, (&agreement.node, &agreement.policy));
}
