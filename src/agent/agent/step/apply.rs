//! Applies events to the state (agreement protocol 2.5).

use evenkeel_domain::policy::internal::InternalPolicy;
use evenkeel_wire::agreement::{
    message::{Body, Message, UPDATE_POLICY},
    reason,
};

use super::{
    Agreement, Decision, Ending, Event, ExchangeState, MOST_ARCHIVED, MOST_UNANSWERED, NodeFacts,
    Observation, Outcome, Outgoing, ProposalFacts, SEND_LIMIT_SECS, START_LIMIT_SECS, State,
    VERIFY_AGAIN_SECS, proposal::Proposal,
};
use crate::step::DOWN_LIMIT_SECS;

impl State {
    /// Applies one event. `now` is in seconds since 1970.
    pub fn apply(&mut self, event: Event, now: u64) -> Outcome {
        self.now = now;
        let outcome = self.handle_event(event, now);
        self.record_dependencies();
        self.report_task_states(now);
        outcome
    }

    fn handle_event(&mut self, event: Event, now: u64) -> Outcome {
        match event {
            Event::Proposal { from, message, facts } => self.handle_proposal(&from, &message, &facts, now),
            Event::Message { from, message } => self.handle_message(&from, message, now),
            Event::Sent { number } => self.sent(number, now),
            Event::Recorded { agreement, state } => {
                self.with_agreement(&agreement, |agreement| agreement.recorded.succeed(state))
            }
            Event::TasksRead(tasks) => self.update_tasks(tasks, now),
            Event::TaskReported { task, seq } => self.task_reported(&task, seq),
            Event::TaskRefused { task, seq, stored } => self.task_refused(&task, seq, &stored),
            Event::CommandEnded { task, ended, seen, health } => {
                if let Some(health) = health {
                    self.probed(&task, health);
                }
                self.command_ended(&task, ended, seen, now)
            }
            Event::CommandReported { task, id } => self.command_reported(&task, &id),
            Event::Probed { task, health } => self.probed(&task, health),
            Event::PeersSeen { task, peers } => self.peers_seen(&task, peers),
            Event::PeersReported { task, peers } => self.peers_reported(&task, peers),
            Event::HealthReported { task, healthy, is_broken } => {
                self.health_reported(&task, healthy, is_broken)
            }
            Event::LifecycleReported { task, event } => self.lifecycle_reported(&task, &event, now),
            Event::EngineSeen { lack } => {
                self.surface_engine(lack, now);
                Outcome::default()
            }
            Event::Silent { secs } => self.record_silence(secs, now),
            Event::Guarded { guard, killed } => self.guarded(guard, &killed, now),
            Event::ContactChecked { is_up } => self.contact_checked(is_up, now),
            Event::Restarted { agreement } => {
                self.forget_error(&agreement);
                self.restarted(&agreement, now)
            }
            Event::RestartsReported { task, count } => self.restarts_reported(&task, count),
            Event::LeaseReported { task, lease_secs } => self.lease_reported(&task, lease_secs),
            Event::Prepared { agreement } => {
                self.forget_error(&agreement);
                self.with_agreement(&agreement, |agreement| agreement.is_prepared = true)
            }
            Event::RestartsSet { agreement, restarts } => {
                self.with_agreement(&agreement, |agreement| agreement.has_no_restarts = !restarts)
            }
            Event::Gone { key } => self.end_gone(&key, now),
            Event::Started { agreement } => {
                self.forget_error(&agreement);
                self.forget_pending_restart(&agreement);
                self.with_agreement(&agreement, |agreement| agreement.is_start_ordered = true)
            }
            Event::StartFailed { agreement, reason, error } => {
                self.record_error(&agreement, error, now);
                self.end(&agreement, reason, true, now)
            }
            Event::ServiceDelayed { key, error } => self.service_delayed(&key, error, now),
            Event::Stopped { agreement } => self.stopped(&agreement),
            Event::DependencyStarted { key } => self.dependency_started(key),
            Event::DependencyFailed { key, reason, error } => {
                self.record_error(&key, error, now);
                self.end_needing(&key, reason, now)
            }
            Event::DependencyStopped { key } => {
                self.observed.remove(&key);
                self.instances.remove(&key);
                Outcome::default()
            }
            Event::Observed { key, observation } => self.observe(key, observation, now),
            Event::Joined(facts) => self.joined(*facts, now),
            Event::StatusReported(status) => {
                self.reported_status.succeed(Some(*status));
                Outcome::default()
            }
            Event::ErrorsReported(errors) => {
                self.reported_errors.succeed(errors);
                Outcome::default()
            }
            Event::ServicesReported(services) => {
                self.reported_services.succeed(Some(services));
                Outcome::default()
            }
            Event::Reconnected => self.reconnected(now),
            Event::CancelRequested { agreement, reason } => {
                self.is_unregistering |= agreement.is_none() && reason == reason::NODE_UNREGISTERED;
                self.cancel(agreement, reason, now)
            }
            Event::Deleted => self.end_all_in_silence(now),
            Event::Tick => self.tick(now),
        }
    }

    fn dependency_started(&mut self, key: String) -> Outcome {
        self.forget_error(&key);
        self.instances.entry(key).and_modify(|instance| instance.is_start_ordered = true);
        Outcome::default()
    }

    fn with_agreement(&mut self, id: &str, change: impl FnOnce(&mut Agreement)) -> Outcome {
        self.change(id, change);
        Outcome::default()
    }

    fn service_delayed(&mut self, key: &str, error: String, now: u64) -> Outcome {
        self.record_error(key, error, now);
        Outcome::default()
    }

    fn reconnected(&mut self, now: u64) -> Outcome {
        let live = self.agreements.values_mut().filter(|agreement| agreement.is_live());
        live.for_each(|agreement| agreement.verification.is_due = true);
        self.queue_verifications(now);
        Outcome::default()
    }

    fn stopped(&mut self, agreement: &str) -> Outcome {
        self.observed.remove(agreement);
        self.leftovers.remove(agreement);
        self.change(agreement, |agreement| agreement.is_stopped = true);
        self.forget_old();
        Outcome::default()
    }

    fn handle_proposal(&mut self, from: &str, message: &Message, facts: &ProposalFacts, now: u64) -> Outcome {
        let Body::Proposal { terms, producer_policy, consumer_id } = &message.body else {
            return Outcome::default();
        };
        let proposal = Proposal {
            id: &message.agreement_id,
            version: message.version,
            from,
            terms,
            producer_policy,
            consumer_id,
        };
        let (decision, note) = match self.judge(&proposal, facts, now) {
            Decision::Ignore(why) => {
                return outcome_with_note(format!(
                    "proposal {} from {from} is ignored: {why}",
                    message.agreement_id
                ));
            }
            Decision::Refuse(why) => {
                self.reject_task(&message.agreement_id, &why);
                (false, format!("proposal {} from {from} is refused: {why}", message.agreement_id))
            }
            Decision::Accept(agreement) => {
                let service = agreement.workload.qualified_url();
                let text = format!("agreement {} for {service} {}", agreement.id, agreement.workload.version);
                self.agreements.insert(agreement.id.clone(), *agreement);
                (true, format!("{text} is accepted"))
            }
        };
        let body = Body::Reply { decision, device_id: self.node.clone() };
        self.queue(from, &message.agreement_id, message.version, body, now);
        Outcome { note: Some(note) }
    }

    fn handle_message(&mut self, from: &str, message: Message, now: u64) -> Outcome {
        let id = message.agreement_id.clone();
        let known = self.agreements.get(&id);
        if known.is_some_and(|agreement| agreement.agbot != from) {
            return outcome_with_note(format!(
                "message about {id} from {from} is dropped: it is not the other side"
            ));
        }
        let is_live = known.is_some_and(Agreement::is_live);
        let version = message.version;
        match message.body {
            Body::ReplyAck { decision } if is_live => self.handle_reply_ack(&id, decision, now),
            Body::Cancel { reason } if is_live => self.end(&id, reason, false, now),
            Body::Verification => {
                self.queue(from, &id, version, Body::VerificationReply { exists: is_live }, now);
                Outcome::default()
            }
            Body::VerificationReply { exists: true } => {
                self.change(&id, |agreement| agreement.verification.unanswered = 0);
                Outcome::default()
            }
            Body::VerificationReply { exists: false } if is_live => {
                self.end(&id, reason::AGBOT_REQUESTED, true, now)
            }
            Body::Update { update_type, metadata } => {
                let accepted = is_live && self.handle_update(&id, &update_type, metadata.as_ref());
                self.queue(from, &id, version, Body::UpdateReply { update_type, accepted }, now);
                Outcome::default()
            }
            Body::DataVerification if is_live => {
                self.queue(from, &id, version, Body::DataVerificationAck, now);
                Outcome::default()
            }
            _ => Outcome::default(),
        }
    }

    fn joined(&mut self, facts: NodeFacts, now: u64) -> Outcome {
        self.facts = facts;
        self.is_joined = true;
        // The list may have been read before a write in progress was recorded.
        if self.reported_services.known().is_some() {
            self.reported_services.succeed(Some(self.facts.registered.clone()));
        }
        self.review_policy(now)
    }

    fn handle_reply_ack(&mut self, id: &str, is_wanted: bool, now: u64) -> Outcome {
        if !is_wanted {
            return self.end(id, reason::AGBOT_REQUESTED, true, now);
        }
        self.change(id, |agreement| {
            if agreement.accepted_at.is_none() {
                agreement.accepted_at = Some(now);
                agreement.verification.is_due = true;
            }
        });
        self.queue_verifications(now);
        Outcome::default()
    }

    /// Only new terms are supported; this agent keeps no secrets, so their update is refused.
    fn handle_update(&mut self, id: &str, update_type: &str, metadata: Option<&serde_json::Value>) -> bool {
        let Some(metadata) = metadata.filter(|_| update_type == UPDATE_POLICY) else { return false };
        let text = metadata.as_str().map_or_else(|| metadata.to_string(), str::to_owned);
        let is_policy = InternalPolicy::from_text(&text).is_ok_and(|policy| !policy.header.name.is_empty());
        let is_policy = is_policy && self.would_fit(&text);
        if is_policy {
            self.change(id, |agreement| agreement.terms = text.clone());
        }
        is_policy
    }

    fn sent(&mut self, number: u64, now: u64) -> Outcome {
        let Some(sent) = self.outbox.remove(&number) else { return Outcome::default() };
        if sent.kind != Body::Verification.kind() {
            return Outcome::default();
        }
        let mut became_final = false;
        self.change(&sent.agreement, |agreement| {
            agreement.verification.unanswered += 1;
            agreement.verification.sent_at = now;
            if agreement.accepted_at.is_some() && agreement.finalized_at.is_none() {
                agreement.finalized_at = Some(now);
                became_final = true;
            }
        });
        if became_final {
            outcome_with_note(format!("agreement {} is final", sent.agreement))
        } else {
            Outcome::default()
        }
    }

    fn observe(&mut self, key: String, observation: Observation, now: u64) -> Outcome {
        let is_running = observation.is_running();
        let mut started = None;
        if let Some(instance) = self.instances.get_mut(&key) {
            if is_running && instance.started_at.is_none() {
                instance.started_at = Some(now);
                started = Some(format!("dependency {key} runs"));
            }
            let is_down = !is_running && instance.started_at.is_some();
            instance.down_since = is_down.then(|| instance.down_since.unwrap_or(now));
        }
        self.change(&key, |agreement| {
            if is_running && agreement.started_at.is_none() {
                agreement.started_at = Some(now);
                started = Some(format!("service of agreement {} runs", agreement.id));
            }
            agreement.down_since = match (is_running, agreement.down_since) {
                (true, _) => None,
                (false, since) => Some(since.unwrap_or(now)),
            };
        });
        self.record_failures(&key, &observation, now);
        if is_running {
            self.forget_end(&key);
        }
        let ended = self.end_exited(&key, &observation, now);
        self.observed.insert(key.clone(), observation);
        self.record_running(&key, now);
        if started.is_some() { Outcome { note: started } } else { ended }
    }

    /// Cancels agreements that the node's current policy, pattern or suspensions no longer allow.
    fn review_policy(&mut self, now: u64) -> Outcome {
        let mut doomed = Vec::new();
        for agreement in self.live() {
            let needed = agreement.dependencies.iter().map(|dependency| &dependency.service);
            if [&agreement.workload].into_iter().chain(needed).any(|one| self.is_service_suspended(one)) {
                doomed.push((agreement.id.clone(), reason::SERVICE_SUSPENDED));
            } else if self.facts.pattern.is_empty() && !self.still_fits(agreement) {
                doomed.push((agreement.id.clone(), reason::NODE_POLICY_CHANGED));
            }
        }
        self.end_many(doomed, now)
    }

    fn tick(&mut self, now: u64) -> Outcome {
        self.outbox.retain(|_, message| now.saturating_sub(message.since) < SEND_LIMIT_SECS);
        let reason_of = |one: &Agreement| overdue(one, self.startable_since(one), now);
        let decided = self.live().filter(|one| !self.has_open_end(&one.id));
        let mut doomed: Vec<_> = decided.filter_map(|one| Some((one.id.clone(), reason_of(one)?))).collect();
        for agreement in self.agreements.values_mut().filter(|agreement| agreement.is_live()) {
            let verification = &mut agreement.verification;
            let is_stale = now.saturating_sub(verification.sent_at) >= VERIFY_AGAIN_SECS;
            if verification.unanswered > 0 && is_stale {
                verification.is_due = true;
            }
        }
        for (key, instance) in &self.instances {
            if instance.down_since.is_some_and(|down| now.saturating_sub(down) >= DOWN_LIMIT_SECS) {
                let needing =
                    self.needing(key).map(|agreement| (agreement.id.clone(), reason::DEPENDENCY_FAILED));
                doomed.extend(needing);
            }
        }
        let outcome = self.end_many(doomed, now);
        self.forget_healed(now);
        self.forget_failures(now);
        self.queue_verifications(now);
        outcome
    }

    fn cancel(&mut self, agreement: Option<String>, reason: u64, now: u64) -> Outcome {
        let ids: Vec<_> = match agreement {
            Some(id) => vec![(id, reason)],
            None => self.live().map(|agreement| (agreement.id.clone(), reason)).collect(),
        };
        self.end_many(ids, now)
    }

    /// Ends the agreements that depend on a service that cannot run.
    fn end_needing(&mut self, key: &str, reason: u64, now: u64) -> Outcome {
        let doomed = self.needing(key).map(|agreement| (agreement.id.clone(), reason)).collect();
        self.end_many(doomed, now)
    }

    pub(super) fn end_many(&mut self, doomed: Vec<(String, u64)>, now: u64) -> Outcome {
        let notes: Vec<_> =
            doomed.into_iter().filter_map(|(id, reason)| self.end(&id, reason, true, now).note).collect();
        if notes.is_empty() { Outcome::default() } else { outcome_with_note(notes.join("; ")) }
    }

    /// Ends a live agreement; `notifies_agbot` unless the agbot requested it.
    pub(super) fn end(&mut self, id: &str, reason: u64, notifies_agbot: bool, now: u64) -> Outcome {
        let is_live = self.agreements.get(id).is_some_and(Agreement::is_live);
        let is_complete = is_live && self.record_task_end(id, reason, notifies_agbot);
        let Some(agreement) = self.agreements.get_mut(id).filter(|agreement| agreement.is_live()) else {
            return Outcome::default();
        };
        agreement.ending = Some(Ending { reason, at: now });
        agreement.is_stopped = !agreement.is_start_ordered && agreement.accepted_at.is_none();
        let (agbot, version) = (agreement.agbot.clone(), agreement.protocol_version);
        let workload = agreement.workload.clone();
        if !is_complete {
            self.surface(workload, reason, self.failure_text(id), now);
        }
        self.outbox.retain(|_, message| message.agreement != id);
        if notifies_agbot {
            self.queue(&agbot, id, version, Body::Cancel { reason }, now);
        }
        self.forget_old();
        outcome_with_note(format!("agreement {id} ends: {} ({reason})", reason::describe(reason)))
    }

    fn end_all_in_silence(&mut self, now: u64) -> Outcome {
        for agreement in self.agreements.values_mut() {
            if agreement.is_live() {
                agreement.ending = Some(Ending { reason: reason::NODE_UNREGISTERED, at: now });
            }
            agreement.recorded.succeed(ExchangeState::Absent);
        }
        self.tasks.clear();
        self.outbox.clear();
        outcome_with_note("the node was deleted at the hub: all services are stopped".to_owned())
    }

    fn queue_verifications(&mut self, now: u64) {
        let due: Vec<_> = self
            .agreements
            .values_mut()
            .filter(|agreement| agreement.is_live() && agreement.verification.is_due)
            .map(|agreement| {
                agreement.verification.is_due = false;
                (agreement.agbot.clone(), agreement.id.clone(), agreement.protocol_version)
            })
            .collect();
        for (agbot, id, version) in due {
            self.queue(&agbot, &id, version, Body::Verification, now);
        }
    }

    fn queue(&mut self, agbot: &str, agreement: &str, version: i64, body: Body, now: u64) {
        let kind = body.kind().to_owned();
        let text = Message { version, ..Message::new(agreement, body) }.to_json();
        self.outbox.retain(|_, other| !(other.agreement == agreement && other.kind == kind));
        let outgoing =
            Outgoing { agbot: agbot.to_owned(), agreement: agreement.to_owned(), kind, text, since: now };
        self.outbox.insert(self.next_message, outgoing);
        self.next_message += 1;
    }

    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut Agreement)) {
        if let Some(agreement) = self.agreements.get_mut(id) {
            change(agreement);
        }
    }

    fn forget_old(&mut self) {
        let mut archived: Vec<_> = self
            .agreements
            .values()
            .filter(|agreement| agreement.is_archived())
            .map(|agreement| (agreement.ending.map_or(0, |ending| ending.at), agreement.id.clone()))
            .collect();
        archived.sort();
        let surplus = archived.len().saturating_sub(MOST_ARCHIVED);
        for (_, id) in archived.into_iter().take(surplus) {
            self.agreements.remove(&id);
        }
    }
}

/// Returns the reason code when an agreement has exceeded a deadline; `startable_since`: since when it could have started.
fn overdue(agreement: &Agreement, startable_since: Option<u64>, now: u64) -> Option<u64> {
    let since = |at: u64| now.saturating_sub(at);
    if agreement.finalized_at.is_none() && since(agreement.created_at) >= agreement.timeout_secs {
        let never_acknowledged = agreement.accepted_at.is_none();
        return Some(if never_acknowledged { reason::NO_REPLY_ACK } else { reason::UNDEFINED });
    }
    if agreement.verification.unanswered > MOST_UNANSWERED {
        return Some(reason::VERIFICATION_FAILED);
    }
    match (startable_since, agreement.started_at, agreement.down_since) {
        (Some(startable), None, _) if since(startable) >= START_LIMIT_SECS => Some(reason::START_TIMEOUT),
        (_, Some(_), Some(down)) if since(down) >= DOWN_LIMIT_SECS => Some(reason::SERVICE_TERMINATED),
        _ => None,
    }
}

fn outcome_with_note(text: String) -> Outcome {
    Outcome { note: Some(text) }
}
