//! Plans one (node, policy): propose, keep, update or end its agreement.
//!
//! The decision that an instance may stop is made by the gates ([`evenkeel_change`]), which the rollout of a
//! group and the judge of one instance ask ([`crate::rolling`]). Source: agbot 1.5, 1.7, 2.1 to 2.5.

use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_placement::matching::{Choice, Fit};
use evenkeel_planner_model::{
    command::Action,
    focus::Focus,
    model::{Listing, Liveness, Observed, selection},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, CancelReason, STOP_CONFIRMATION_SECS},
    claims::Scope,
    facts::Availability,
    lease::Lease,
    report::{Blocked, Placement},
    time::later,
};

use crate::{
    acknowledgement::{self, old_instance},
    agreement_end::{cancel, take_off},
    rolling::{
        self,
        instance::{self, Verdict},
    },
};

/// Time after which an agreement with a node that was deleted is reconciled again, in seconds.
const DEPARTURE_SECS: u64 = 10;

/// Interval after which a node is asked about an agreement that its reports lack.
const MISSING_SECS: u64 = 60;

/// Plans every pair in focus.
pub fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    for (node, policy) in &focus.pairs {
        plan(pass, node, policy);
    }
}

fn plan(pass: &mut Pass<'_>, node: &NodeId, policy: &PolicyId) {
    let model = pass.model;
    let Some(lease) = pass.lease_for(node) else {
        let blocked = Blocked::OtherAgbot { partition: model.partition_of(node) };
        return pass.set_placement(node, policy, Placement::NotPlaced { blocked });
    };
    repeat_cancels(pass, lease, node, policy);
    follow_stops(pass, lease, node, policy);
    let mut is_present = false;
    for agreement in model.live_agreements(node, policy) {
        is_present = true;
        plan_present(pass, lease, agreement);
    }
    // Only the agent of a capable node distinguishes two agreements of one policy.
    if is_present && !(model.is_capable(node) && model.is_orchestrated(policy)) {
        return;
    }
    match may_propose(pass, node, policy) {
        Ok(offer) => propose(pass, lease, node, policy, offer),
        Err(_) if is_present => {}
        Err(blocked) => pass.set_placement(node, policy, Placement::NotPlaced { blocked }),
    }
}

/// Returns what to propose, or why nothing is proposed now.
fn may_propose(pass: &mut Pass<'_>, node: &NodeId, policy: &PolicyId) -> Result<Offer, Blocked> {
    let (model, now) = (pass.model, pass.now);
    let wanted = selection::startable(model, node, policy).transpose()?;
    let choice = match &wanted {
        Some(wanted) => selection::choose(model, node, policy, wanted.task.spec.number, now)?,
        None => selection::select(model, node, policy, now)?,
    };
    let record = model.node(node).ok_or(Blocked::NodeUnknown)?;
    match model.availability(node) {
        // A task is there because the node was open when it was chosen.
        _ if wanted.is_some() => {}
        Availability::Drain => return Err(Blocked::NodeDraining),
        // An instance that was stopped to be replaced is started again.
        Availability::Pause if !rolling::holds_claim(model, node, policy) => {
            return Err(model.paused_by(node));
        }
        Availability::Pause | Availability::Active => {}
    }
    if record.facts.public_key.is_empty() {
        return Err(Blocked::NoPublicKey);
    }
    if let Some(blocked) = model.liveness(node, now).objection() {
        return Err(blocked);
    }
    if let Some(agbot) = model.other_agbot_of(node, policy) {
        return Err(Blocked::LeftToAgbot { agbot: agbot.clone() });
    }
    // The restart supervisor delays tasks.
    if wanted.is_none() {
        check_backoff(pass, node, policy, &choice)?;
    }
    // A node that ended the agreement itself may be about to leave: it gets no proposal before it has reported what it stopped.
    if let Some((ended, _)) = model.lingering(node, policy)
        && !model.ended_reason(ended).is_some_and(CancelReason::is_of_agbot)
        && let Some(blocked) = old_instance(pass, node, policy)
    {
        return Err(blocked);
    }
    let is_single = wanted.as_ref().is_some_and(|wanted| wanted.is_single);
    Ok(Offer { choice, task: wanted.map(|wanted| wanted.task.id.clone()), is_single })
}

/// Contents of a proposal.
struct Offer {
    choice: Choice,
    /// The task that the agreement carries out, if the policy has tasks.
    task: Option<TaskId>,
    /// True if there must never be a second instance.
    is_single: bool,
}

fn check_backoff(
    pass: &mut Pass<'_>,
    node: &NodeId,
    policy: &PolicyId,
    choice: &Choice,
) -> Result<(), Blocked> {
    let backoff = pass.model.backoff.get(&(node.clone(), policy.clone()));
    match backoff.filter(|one| one.version == choice.version && pass.now < one.not_before) {
        Some(backoff) => {
            pass.watch((node, policy), backoff.not_before);
            let (until, failure_count, reason) = (backoff.not_before, backoff.failure_count, backoff.reason);
            Err(Blocked::BackingOff { until, failure_count, reason })
        }
        None => Ok(()),
    }
}

/// Repeats the cancel of ended agreements that the node still reports: the message may have been lost with its mailbox.
///
/// A node that is down reads nothing, and its reports count again only when it is alive.
fn repeat_cancels(pass: &mut Pass<'_>, lease: Lease, node: &NodeId, policy: &PolicyId) {
    let (model, now) = (pass.model, pass.now);
    if model.liveness(node, now) != Liveness::Alive {
        return;
    }
    for (agreement, reason, due_at) in model.reported_after_end(node, policy) {
        if now < due_at {
            pass.watch((node, policy), due_at);
            continue;
        }
        let action = Action::RepeatCancel { agreement: agreement.clone(), node: node.clone(), reason };
        pass.issue(lease, action, (node, policy));
    }
}

/// Follows the stops of instances that must be gone before another one starts: asks the node until it confirms that, and records it.
fn follow_stops(pass: &mut Pass<'_>, lease: Lease, node: &NodeId, policy: &PolicyId) {
    let (model, now) = (pass.model, pass.now);
    let ended = model.lately_ended_on(node).filter(|one| one.policy == *policy && one.awaits_stop);
    for agreement in ended {
        let Some(since) = model.unconfirmed_stop(agreement, now) else {
            let action = Action::RecordStopped { agreement: agreement.id.clone(), node: node.clone() };
            pass.issue(lease, action, (node, policy));
            continue;
        };
        if model.is_down(node, now) {
            continue;
        }
        let asked_at = agreement.verified_at.map_or(since, |at| at.max(since));
        let due_at = later(asked_at, STOP_CONFIRMATION_SECS / 2);
        if now < due_at {
            pass.watch((node, policy), due_at);
            continue;
        }
        let action = Action::SendVerification { agreement: agreement.id.clone(), node: node.clone() };
        pass.issue(lease, action, (node, policy));
    }
}

fn propose(pass: &mut Pass<'_>, lease: Lease, node: &NodeId, policy: &PolicyId, offer: Offer) {
    let (model, now) = (pass.model, pass.now);
    let Offer { choice, task, is_single } = offer;
    let group = model.group_of.get(node);
    let claim = group.and_then(|group| model.claims.get(&(group.clone(), Scope::Policy(policy.clone()))));
    let claim =
        claim.filter(|claim| claim.node == *node).map(evenkeel_planner_record::claims::Claim::reference);
    pass.act(node, policy, format!("proposing {} {}", choice.key, choice.version));
    let agreement = Agreement {
        id: pass.new_agreement_id(node, policy),
        node: node.clone(),
        policy: policy.clone(),
        service: choice.service,
        service_key: choice.key,
        version: choice.version,
        priority: choice.priority,
        best_version: choice.best_version,
        terms_digest: choice.terms_digest,
        overrides: choice.overrides,
        pending_update: None,
        ha_group: group.map(|group| group.name().to_owned()),
        created_at: now,
        reply_by: later(now, model.settings.protocol_timeout_secs),
        verified_at: None,
        is_side_by_side: task.is_some() && model.is_capable(node),
        task,
        is_single,
        awaits_stop: false,
        state: AgreementState::Proposed,
    };
    pass.issue(lease, Action::Propose { agreement: Box::new(agreement), claim }, (node, policy));
}

fn plan_present(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    let (model, now) = (pass.model, pass.now);
    if pass.is_stopping(agreement) {
        return pass.act(&agreement.node, &agreement.policy, "ending the agreement".to_owned());
    }
    if let Some(departing) = model.departing(agreement, now) {
        pass.watch((&agreement.node, &agreement.policy), later(now, DEPARTURE_SECS));
        return pass.wait(agreement, departing);
    }
    if model.node(&agreement.node).is_none() {
        return cancel(pass, lease, agreement, CancelReason::NODE_SHUT_DOWN, None, false);
    }
    let fit = selection::fit(model, agreement, now);
    if agreement.state == AgreementState::Proposed {
        return plan_proposed(pass, lease, agreement, &fit);
    }
    // The needs of a workload's tasks were decided when they were written.
    let verdict = match &fit {
        Fit::Lost(_) if model.is_orchestrated(&agreement.policy) => Verdict::Now,
        _ => instance::judge(pass, agreement, &fit),
    };
    match (verdict, fit) {
        (Verdict::Now, fit) => end(pass, lease, agreement, &fit),
        (Verdict::Later { until, why }, _) => {
            pass.watch((&agreement.node, &agreement.policy), until);
            pass.wait(agreement, why);
        }
        (Verdict::Stays, Fit::Clean(choice)) => {
            update_terms(pass, lease, agreement, &choice);
            keep(pass, lease, agreement, None);
        }
        (Verdict::Stays, Fit::Unclear(blocked)) => keep(pass, lease, agreement, Some(blocked)),
        // The group rollout decides and reports.
        (Verdict::InTurn | Verdict::Stays, _) => {}
    }
}

/// Ends an agreement that no longer fits.
fn end(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, fit: &Fit) {
    let model = pass.model;
    let text = match fit {
        Fit::Lost(_) if model.is_orchestrated(&agreement.policy) => {
            let reason = selection::cancel_reason(model, agreement, pass.now);
            return cancel(pass, lease, agreement, reason, None, true);
        }
        Fit::Leaving => return take_off(pass, lease, agreement, None),
        Fit::Lost(blocked) => format!("ending the agreement: {blocked}"),
        Fit::Outdated(choice) => format!("replacing {} by {}", agreement.version, choice.version),
        Fit::Clean(_) | Fit::Unclear(_) => return,
    };
    cancel(pass, lease, agreement, CancelReason::POLICY_CHANGED, None, true);
    pass.act(&agreement.node, &agreement.policy, text);
}

fn plan_proposed(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, fit: &Fit) {
    if let Fit::Lost(_) | Fit::Leaving = fit {
        return cancel(pass, lease, agreement, CancelReason::POLICY_CHANGED, None, true);
    }
    let pair = (&agreement.node, &agreement.policy);
    let old_instance = old_instance(pass, &agreement.node, &agreement.policy);
    if pass.model.proposal_status(agreement).is_accepted {
        return match old_instance {
            Some(blocked) => pass.wait(agreement, blocked),
            None => acknowledgement::acknowledge(pass, lease, agreement),
        };
    }
    if pass.now >= agreement.reply_by {
        return cancel(pass, lease, agreement, CancelReason::NO_REPLY, None, true);
    }
    if pass.model.is_proposal_to_repeat(agreement) {
        let action = Action::RepeatProposal { agreement: Box::new(agreement.clone()) };
        pass.issue(lease, action, pair);
    }
    pass.watch(pair, agreement.reply_by);
    let blocked = Blocked::WaitingForReply { agreement: agreement.id.clone(), until: agreement.reply_by };
    pass.wait(agreement, blocked);
}

/// Sends changed terms to the node; the running service continues (agbot 2.2, step 8).
fn update_terms(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, choice: &Choice) {
    if choice.terms_digest == agreement.terms_digest {
        return;
    }
    let pair = (&agreement.node, &agreement.policy);
    let repeat = pass.model.settings.protocol_timeout_secs;
    let sent = agreement.pending_update.filter(|update| update.terms_digest == choice.terms_digest);
    if let Some(update) = sent.filter(|update| pass.now < later(update.sent_at, repeat)) {
        return pass.watch(pair, later(update.sent_at, repeat));
    }
    let action = Action::SendPolicyUpdate {
        agreement: agreement.id.clone(),
        node: agreement.node.clone(),
        terms_digest: choice.terms_digest,
    };
    pass.issue(lease, action, pair);
}

/// Monitors an agreement that stays: node health, verification, report.
fn keep(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement, unclear: Option<Blocked>) {
    if let Some(reason) = health_failure(pass, agreement) {
        return cancel(pass, lease, agreement, reason, None, true);
    }
    verify(pass, lease, agreement);
    let is_running = pass.model.observed(agreement, pass.now) == Observed::Running;
    let waits_for_update =
        agreement.pending_update.map(|update| Blocked::UpdateUnanswered { since: update.sent_at });
    match unclear.or(waits_for_update) {
        Some(blocked) => pass.wait(agreement, blocked),
        None => {
            let why = if is_running { None } else { pass.model.why_not_running(agreement, pass.now) };
            let placement = Placement::Placed {
                agreement: agreement.id.clone(),
                version: agreement.version.clone(),
                is_running,
                why,
            };
            pass.set_placement(&agreement.node, &agreement.policy, placement);
        }
    }
}

/// Returns the reason when node health, where the policy requires it, ends the agreement (agbot 1.7).
fn health_failure(pass: &mut Pass<'_>, agreement: &Agreement) -> Option<CancelReason> {
    let (model, now) = (pass.model, pass.now);
    let policy = model.policy(&agreement.policy)?;
    let record = model.node(&agreement.node)?;
    let pair = (&agreement.node, &agreement.policy);
    let final_at = agreement.finalized_at()?;
    if policy.missing_heartbeat_secs > 0 {
        let seen = record.facts.last_heartbeat.map_or(final_at, |seen| seen.max(final_at));
        let dead_at = later(seen, policy.missing_heartbeat_secs);
        if now >= dead_at {
            return Some(CancelReason::HEARTBEAT_MISSING);
        }
        pass.watch(pair, dead_at);
    }
    match model.listing(agreement, now) {
        Listing::Missing => return Some(CancelReason::AGREEMENT_MISSING),
        Listing::DueAt(at) => pass.watch(pair, at),
        Listing::NotRead | Listing::Fine => {}
    }
    None
}

/// Asks the node whether it still has the agreement: periodically, and when its reports do not list it.
///
/// A report alone ends nothing: an agent may report a service only after loading its images.
fn verify(pass: &mut Pass<'_>, lease: Lease, agreement: &Agreement) {
    let Some(final_at) = agreement.finalized_at() else { return };
    let interval = pass.model.settings.verification_interval_secs;
    let asked_at = agreement.verified_at.map_or(final_at, |at| at.max(final_at));
    let regular = (interval > 0).then(|| later(asked_at, interval));
    let missing_since = pass.model.missing_since(agreement, pass.now);
    let missing = missing_since.map(|since| later(since.max(asked_at), MISSING_SECS));
    let Some(due_at) = regular.into_iter().chain(missing).min() else { return };
    let pair = (&agreement.node, &agreement.policy);
    if pass.now < due_at {
        return pass.watch(pair, due_at);
    }
    let action = Action::SendVerification { agreement: agreement.id.clone(), node: agreement.node.clone() };
    pass.issue(lease, action, pair);
}
