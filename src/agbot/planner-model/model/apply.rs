//! Applies events to the model.

use std::collections::BTreeSet;

use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState},
    facts::{DeploymentPolicyFacts, HaGroupFacts, NodeFacts, ServiceFacts},
    node_record::{ListedAgreements, NodeRecord},
    rollout::Rollout,
    statistics::{EngineReport, NodeMachine},
    time::{is_ahead, later, secs_since},
    usage::{Backoff, WorkloadUsage},
};
use jiff::Timestamp;

use super::{Liveness, Model, Observed, attributes::has_other_attributes, clock::not_ahead};
use crate::event::{AgreementMessage, Event, MessageBody};

/// Ended agreements are remembered this long: their instances may still run, and late messages name them.
pub const ENDED_MEMORY_SECS: u64 = 3600;

impl Model {
    /// Updates the model with an event; call it before `decide::decide` for the same event.
    ///
    /// Applying an event twice changes nothing.
    pub fn apply(&mut self, event: &Event, now: Timestamp) {
        self.change_and_mark(event, now);
        self.refresh_stale(now);
    }

    /// Applies the events of a fleet that is read as a whole and then a full reconcile, which is the event to decide about: what depends on them
    /// is prepared once.
    pub fn apply_all(&mut self, events: &[Event], now: Timestamp) {
        for event in events {
            self.change_and_mark(event, now);
        }
        self.forget_stale_nodes();
        self.apply(&Event::FullReconcile, now);
    }

    fn change_and_mark(&mut self, event: &Event, now: Timestamp) {
        // What earlier events touched they have marked themselves: a fleet that is read at once would be followed once for each event.
        let earlier = std::mem::take(&mut self.touched);
        self.change(event, now);
        self.mark_stale(event, now);
        let newer = std::mem::replace(&mut self.touched, earlier);
        self.touched.extend(newer);
    }

    /// Changes what the event is about.
    fn change(&mut self, event: &Event, now: Timestamp) {
        self.follow_clock(now);
        self.began_at.get_or_insert(now);
        match event {
            Event::NodeChanged { node } => {
                self.put_node(node, now);
                self.note_deleted_node(&node.id, false);
            }
            Event::NodeRemoved { node } => {
                self.leave_group(node);
                self.remove_node(node);
                self.note_deleted_node(node, true);
            }
            Event::DeparturesRead { org, nodes } => self.put_departures(org.as_str(), nodes),
            Event::NodePolicyChanged { node, policy } => {
                self.change_indexed_node(node, |record| record.set_policy(policy.as_deref()));
            }
            Event::NodeStatusChanged { node, status } => {
                self.change_node(node, |record| record.set_status(status.as_deref(), now));
                self.note_not_running(node, now);
            }
            Event::NodeAgreementsRead { node, agreements, read_at } => {
                let list = ListedAgreements { ids: agreements.clone(), read_at: *read_at };
                self.change_node(node, |record| record.agreements = Some(list));
            }
            Event::NodeTasksChanged { node, tasks, health } => {
                self.change_node(node, |record| {
                    record.tasks.clone_from(tasks);
                    record.health.clone_from(health);
                });
            }
            Event::HeartbeatsSeen { at } => {
                let state = |(node, &stored)| (self.liveness(node, now), self.heard_at(node, stored, now));
                let states: Vec<(Liveness, Timestamp)> = at.iter().map(state).collect();
                self.hear(at.keys(), now);
                for ((node, &stored), (before, heard_at)) in at.iter().zip(states) {
                    self.put_heartbeat(node, stored, heard_at, before, now);
                }
            }
            Event::StatisticsSeen { of } => {
                for (node, &statistics) in of {
                    self.change_node(node, |record| record.facts.statistics = Some(statistics));
                }
            }
            Event::MachinesSeen { of } => {
                for (node, machine) in of {
                    self.put_machine(node, machine);
                }
            }
            Event::HubReported { task, report } => self.engine.put_hub_report(task, report),
            Event::ServiceChanged { service } => self.put_service(service),
            Event::ServiceRemoved { service } => self.remove_service(service),
            Event::ServicePolicyChanged { service, policy } => {
                self.catalog.set_policy(service, policy.as_deref());
                if let Some(key) = self.catalog.service(service).map(|facts| facts.key.clone()) {
                    self.prepare_consumers_of(service, &key);
                }
            }
            Event::DeploymentPolicyChanged { policy } => self.put_written_policy(policy),
            Event::DeploymentPolicyRemoved { policy } => self.remove_policy(policy),
            Event::RemovalForced { policy } => self.engine.force_removal(policy),
            Event::HubWasAlive { at } => self.hub_alive_at = Some(*at),
            Event::OrgsRead { orgs } => self.read_orgs.clone_from(orgs),
            Event::OrgsUnread { orgs } => self.unread_orgs.clone_from(orgs),
            Event::OrgSettingsChanged { org, settings } => {
                self.org_settings.insert(org.clone(), (**settings).clone());
            }
            Event::OtherAgbotsChanged { others } => self.other_agbots.clone_from(others),
            Event::HaGroupChanged { group } => self.put_group(group),
            Event::HaGroupRemoved { group } => self.remove_group(group),
            Event::NmpStatusChanged { status } => {
                let key = (status.nmp.clone(), status.node.clone());
                self.nmp_status.insert(key, status.status.clone());
            }
            Event::NmpRemoved { nmp } => {
                self.nmp_status.retain(|(one, _), _| one != nmp);
                self.removed_nmps.insert(nmp.clone(), now);
            }
            Event::Message { message } => self.apply_message(message, now),
            Event::Tick => {
                self.forget_old(now);
                self.forget_deleted_nodes();
            }
            Event::FullReconcile => {}
            _ => self.apply_record(event, now),
        }
    }

    fn apply_record(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::CommandOutcome { command, outcome } => self.apply_outcome(command, outcome, now),
            Event::AgreementRecorded { agreement } => self.record_agreement(&not_ahead(&**agreement, now)),
            Event::AgreementRemoved { agreement } => self.remove_agreement(agreement),
            Event::UsageRecorded { node, policy, usage, backoff } => {
                let backoff = backoff.as_ref().map(|backoff| not_ahead(backoff, now));
                self.put_usage(node, policy, usage.as_ref(), backoff.as_deref());
            }
            Event::ClaimRecorded { claim } => self.record_claim(&not_ahead(&**claim, now)),
            Event::ClaimRemoved { key } => self.remove_claim(key),
            Event::RolloutRecorded { rollout } => self.put_rollout(&not_ahead(&**rollout, now)),
            Event::RolloutRemoved { group, policy } => self.remove_rollout(group, policy),
            Event::WorkloadRecorded { workload } => self.put_workload(&not_ahead(&**workload, now)),
            Event::WorkloadRemoved { policy } => {
                self.engine.remove_workload(policy);
                self.follow_rollback(policy);
            }
            Event::TaskRecorded { task } => self.put_task(&not_ahead(&**task, now)),
            Event::TaskRemoved { task } => self.engine.remove_task(task),
            Event::InstanceRecorded { policy, node, instance } => {
                self.engine.put_instance(policy, node, instance.as_deref());
            }
            Event::HealthRecorded { entity, events } => {
                let events = events.iter().map(|event| not_ahead(event, now).into_owned());
                self.health.put(entity, events.collect());
            }
            Event::RegistrationRecorded { target, registration } => {
                self.registry.put(target, registration.as_deref());
            }
            Event::PartitionsConfirmed { at } => self.health.confirm(at.clone()),
            Event::BlocklistRecorded { key, entry } => {
                let entry = entry.as_deref().map(|entry| not_ahead(entry, now));
                self.engine.blocklist.put(key, entry.as_deref());
            }
            Event::PartitionsChanged { leases } => {
                let is_same = *leases == self.leases;
                if leases.iter().any(|(partition, fencing)| self.leases.get(partition) != Some(fencing)) {
                    self.await_statuses(now);
                }
                // A user may have had one of another agbot's tasks checked here, perhaps long ago.
                self.forget_foreign_hub_reports();
                self.leases.clone_from(leases);
                // Commands issued under a lost lease may never have been carried out.
                self.pending.retain(|_, _| is_same);
                self.claim_requests.retain(|_, _| is_same);
                self.failures.retain(|_, _| is_same);
                self.forget_foreign_hub_reports();
            }
            _ => {}
        }
    }

    /// Keeps a rollout's row unless a newer one is known.
    pub(super) fn put_rollout(&mut self, rollout: &Rollout) {
        let key = (rollout.group.clone(), rollout.policy.clone());
        let known = self.rollouts.get(&key);
        if known.is_some_and(|known| known.revision > rollout.revision) {
            return;
        }
        let version = |one: &Rollout| one.rollback.as_ref().map(|rollback| rollback.version.clone());
        let is_same = known.and_then(version) == version(rollout);
        self.rollouts.insert(key, rollout.clone());
        if is_same {
            return;
        }
        if rollout.rollback.is_none() {
            return self.forget_rollback(&rollout.group, &rollout.policy);
        }
        self.rollbacks.entry(rollout.policy.clone()).or_default().insert(rollout.group.clone());
        self.prepare_consumers(&rollout.policy);
    }

    /// Drops the rollback of a policy in a group.
    pub(super) fn forget_rollback(&mut self, group: &GroupId, policy: &PolicyId) {
        if let Some(groups) = self.rollbacks.get_mut(policy) {
            groups.remove(group);
            if groups.is_empty() {
                self.rollbacks.remove(policy);
            }
        }
        self.prepare_consumers(policy);
    }

    fn change_node(&mut self, node: &NodeId, change: impl FnOnce(&mut NodeRecord)) {
        if let Some(record) = self.nodes.get_mut(node) {
            change(record);
        }
    }

    fn put_node(&mut self, node: &NodeFacts, now: Timestamp) {
        match self.nodes.get(&node.id) {
            Some(record) => {
                let stored_before = record.stored_heartbeat;
                let take_over = |record: &mut NodeRecord| {
                    let (known, statistics) = (record.facts.last_heartbeat, record.facts.statistics);
                    record.facts.clone_from(node);
                    record.facts.last_heartbeat = known;
                    record.facts.statistics = node.statistics.or(statistics);
                    record.facts.monitor_state_since = node.monitor_state_since.map(|since| since.min(now));
                };
                match has_other_attributes(&record.facts, node) {
                    true => self.change_indexed_node(&node.id, take_over),
                    false => self.change_node(&node.id, take_over),
                }
                if let Some(stored) = node.last_heartbeat.filter(|_| node.last_heartbeat > stored_before) {
                    let (before, heard_at) =
                        (self.liveness(&node.id, now), self.heard_at(&node.id, stored, now));
                    self.put_heartbeat(&node.id, stored, heard_at, before, now);
                }
            }
            None => {
                // One that a clock recorded which was ahead may be of any age.
                let is_unheard = |seen| Some(seen) < self.began_at || is_ahead(seen, now);
                if node.last_heartbeat.is_some_and(is_unheard) {
                    self.unheard.insert(node.id.clone());
                }
                let group = self.group_of.get(&node.id).map(GroupId::name);
                let mut record = NodeRecord::new(node.clone(), group);
                let facts = &mut record.facts;
                [&mut facts.last_heartbeat, &mut facts.monitor_state_since]
                    .into_iter()
                    .flatten()
                    .for_each(|at| *at = now.min(*at));
                self.add_node(record);
            }
        }
    }

    /// Takes over what a node reported of its machine. An engine that comes or goes concerns what runs on it, and another address those who
    /// connect to it.
    fn put_machine(&mut self, node: &NodeId, machine: &NodeMachine) {
        let known = self.nodes.get(node).and_then(|record| record.engine);
        let is_usable = |engine: Option<EngineReport>| engine.is_none_or(|engine| engine.is_usable);
        let address = self.nodes.get(node).and_then(|record| record.address.clone());
        let has_moved = machine.address.is_some() && machine.address != address;
        if has_moved || (machine.engine.is_some() && is_usable(machine.engine) != is_usable(known)) {
            self.touched.insert(node.clone());
        }
        self.change_node(node, |record| record.set_machine(machine));
    }

    /// Takes over a heartbeat as the exchange has it. Only one that has changed shows that the node is alive.
    fn put_heartbeat(
        &mut self,
        node: &NodeId,
        stored: Timestamp,
        seen: Timestamp,
        before: Liveness,
        now: Timestamp,
    ) {
        let Some(record) = self.nodes.get(node).filter(|record| record.stored_heartbeat != Some(stored))
        else {
            return;
        };
        let known = record.facts.last_heartbeat;
        let silence = known.map_or(0, |known| self.silence_secs(node, known, seen));
        let was_down = silence > self.node_down_after_secs(node.org());
        if Some(seen) >= self.began_at {
            self.unheard.remove(node);
        }
        self.change_node(node, |record| {
            record.facts.last_heartbeat = known.max(Some(seen));
            record.stored_heartbeat = Some(stored);
            if was_down {
                record.back_at = Some(seen);
            }
        });
        if was_down {
            // From then on the last status counts again, if no newer one comes.
            let at = later(seen, self.settling_secs(node.org()));
            let policies: Vec<PolicyId> = self.live_on(node).map(|one| one.policy.clone()).collect();
            self.watches.extend(policies.into_iter().map(|policy| (at, node.clone(), policy)));
        }
        if before != self.liveness(node, now) {
            self.touched.insert(node.clone());
        }
    }

    /// Tracks since when an instance is seen not running; unknown states are ignored.
    fn note_not_running(&mut self, node: &NodeId, now: Timestamp) {
        let seen: Vec<_> = self.live_on(node).map(|one| (one.id.clone(), self.observed(one, now))).collect();
        for (agreement, observed) in seen {
            if let Some(agreement) = self.agreements.get(&agreement) {
                self.engine.relations.note_agreement(agreement);
            }
            match observed {
                Observed::Absent => {
                    self.not_running_since.entry(agreement).or_insert(now);
                }
                Observed::Running => {
                    self.not_running_since.remove(&agreement);
                }
                Observed::Unknown => {}
            }
        }
    }

    /// Has the status of nodes read again on which instances were not seen running while other agbots looked after them: this one may have
    /// stood still, and another one may have seen them run since.
    fn await_statuses(&mut self, now: Timestamp) {
        self.not_running_since.clear();
        let live = self.live.iter().filter_map(|(.., id)| self.agreements.get(id));
        let absent = live.filter(|one| self.observed(one, now) == Observed::Absent);
        let nodes: BTreeSet<NodeId> = absent.map(|one| one.node.clone()).collect();
        for node in nodes {
            self.change_node(&node, |record| record.awaits_status = true);
        }
    }

    fn put_service(&mut self, service: &ServiceFacts) {
        self.remove_service(&service.id);
        self.catalog.put(service);
        self.prepare_consumers_of(&service.id, &service.key);
    }

    fn remove_service(&mut self, service: &ServiceId) {
        let Some(old) = self.catalog.remove(service) else { return };
        self.prepare_consumers_of(service, &old.key);
    }

    pub(super) fn put_policy(&mut self, policy: &DeploymentPolicyFacts) {
        self.remove_policy(&policy.id);
        self.policies_by_service.entry(policy.service.clone()).or_default().insert(policy.id.clone());
        if let Some(pattern) = &policy.pattern {
            self.policies_by_pattern.entry(pattern.clone()).or_default().insert(policy.id.clone());
        }
        self.policies.insert(policy.id.clone(), policy.clone());
        self.prepare_consumers(&policy.id);
    }

    fn remove_policy(&mut self, policy: &PolicyId) {
        self.written.remove(policy);
        let Some(old) = self.policies.remove(policy) else { return };
        if let Some(pattern) = &old.pattern
            && let Some(ids) = self.policies_by_pattern.get_mut(pattern)
        {
            ids.remove(policy);
            if ids.is_empty() {
                self.policies_by_pattern.remove(pattern);
            }
        }
        if let Some(ids) = self.policies_by_service.get_mut(&old.service) {
            ids.remove(policy);
            if ids.is_empty() {
                self.policies_by_service.remove(&old.service);
            }
        }
        self.prepare_consumers(policy);
    }

    fn put_group(&mut self, group: &HaGroupFacts) {
        if self.groups.get(&group.id) == Some(group) {
            return;
        }
        self.remove_group(&group.id);
        for member in &group.members {
            // A member that moved leaves the older group here too; the exchange keeps a node in one group at most, but
            // its two changes may arrive in either order.
            let other = self.group_of.insert(member.clone(), group.id.clone());
            if let Some(other) = other.filter(|other| *other != group.id)
                && let Some(other) = self.groups.get_mut(&other)
            {
                other.members.remove(member);
            }
            self.change_indexed_node(member, |record| record.set_group(Some(group.id.name())));
            self.touched.insert(member.clone());
        }
        self.groups.insert(group.id.clone(), group.clone());
        self.engine.note_changed_groups();
    }

    fn remove_group(&mut self, group: &GroupId) {
        if let Some(old) = self.groups.remove(group) {
            self.engine.note_changed_groups();
            for member in &old.members {
                if self.group_of.get(member) == Some(group) {
                    self.group_of.remove(member);
                    self.change_indexed_node(member, |record| record.set_group(None));
                    self.touched.insert(member.clone());
                }
            }
        }
    }

    /// Ends the membership of a node that is deleted. The group itself is not reported as changed then.
    fn leave_group(&mut self, node: &NodeId) {
        let group = self.group_of.remove(node).and_then(|group| self.groups.get_mut(&group));
        group.into_iter().for_each(|group| {
            group.members.remove(node);
        });
    }

    pub(super) fn put_agreement(&mut self, agreement: Agreement) {
        self.engine.relations.note_agreement(&agreement);
        let pair = (agreement.node.clone(), agreement.policy.clone());
        let services = self.agreed_services(&pair.0);
        if agreement.state != AgreementState::Proposed {
            self.proposals.remove(&agreement.id);
        }
        if agreement.is_live() {
            self.live_nodes.entry(pair.1.clone()).or_default().insert(pair.0.clone());
            if !agreement.is_side_by_side {
                let is_other = |one: &&Agreement| one.id != agreement.id && !one.is_side_by_side;
                let replaced = self.live_agreements(&pair.0, &pair.1).filter(is_other);
                let replaced: Vec<AgreementId> = replaced.map(|one| one.id.clone()).collect();
                replaced.into_iter().for_each(|id| {
                    self.live.remove(&(pair.0.clone(), pair.1.clone(), id));
                });
            }
            self.live.insert((pair.0, pair.1, agreement.id.clone()));
        } else {
            self.forget_live(&pair, &agreement.id);
            self.not_running_since.remove(&agreement.id);
            self.ended.entry(agreement.node.clone()).or_default().insert(agreement.id.clone());
        }
        if agreement.awaits_stop {
            self.awaiting_stop.insert(agreement.id.clone());
        } else {
            self.awaiting_stop.remove(&agreement.id);
        }
        let node = agreement.node.clone();
        self.agreements.insert(agreement.id.clone(), agreement);
        self.follow_services(&node, &services);
    }

    pub(super) fn change_agreement(
        &mut self,
        id: &AgreementId,
        change: impl FnOnce(Agreement) -> Result<Agreement, evenkeel_planner_record::agreement::InvalidTransition>,
    ) {
        // An impossible transition means that the record advanced meanwhile: the newer state stays.
        if let Some(agreement) = self.agreements.get(id).cloned()
            && let Ok(changed) = change(agreement)
        {
            self.put_agreement(changed);
        }
    }

    pub(super) fn forget_live(&mut self, pair: &(NodeId, PolicyId), agreement: &AgreementId) {
        self.live.remove(&(pair.0.clone(), pair.1.clone(), agreement.clone()));
        if self.live_agreement(&pair.0, &pair.1).is_none()
            && let Some(nodes) = self.live_nodes.get_mut(&pair.1)
        {
            nodes.remove(&pair.0);
            if nodes.is_empty() {
                self.live_nodes.remove(&pair.1);
            }
        }
    }

    pub(super) fn put_usage(
        &mut self,
        node: &NodeId,
        policy: &PolicyId,
        usage: Option<&WorkloadUsage>,
        backoff: Option<&Backoff>,
    ) {
        let pair = (node.clone(), policy.clone());
        if self.is_orchestrated(policy) && self.usage.get(&pair) != usage {
            // Another version may be tried there now, which the blocklist does not name.
            self.engine.changed_instances.insert((policy.clone(), node.clone()));
        }
        match usage {
            Some(usage) => self.usage.insert(pair.clone(), usage.clone()),
            None => self.usage.remove(&pair),
        };
        match backoff {
            Some(backoff) => self.backoff.insert(pair, backoff.clone()),
            None => self.backoff.remove(&pair),
        };
    }

    fn apply_message(&mut self, message: &AgreementMessage, now: Timestamp) {
        if let MessageBody::VerificationReply { exists: false } = message.body
            && self
                .agreements
                .get(&message.agreement)
                .is_some_and(|one| !one.is_live() && one.node == message.from)
        {
            self.denied.insert(message.agreement.clone());
        }
        if let MessageBody::VerificationReply { exists: true } = message.body
            && let Some(agreement) = self.agreements.get_mut(&message.agreement)
            && agreement.node == message.from
        {
            agreement.verified_at = Some(now);
        }
        if let MessageBody::Reply { decision: true } = message.body {
            self.note_proposal_accepted(&message.agreement, &message.from);
        }
    }

    /// Drops agreements that ended long ago; those that their nodes still report stay, because their cancel is repeated.
    fn forget_old(&mut self, now: Timestamp) {
        let is_old = |id: &AgreementId| {
            self.agreements.get(id).is_none_or(|agreement| match agreement.state {
                AgreementState::Ended { at, .. } => {
                    secs_since(at, now) >= ENDED_MEMORY_SECS
                        && !agreement.awaits_stop
                        && !self.is_reported(agreement)
                }
                _ => false,
            })
        };
        let old: Vec<(NodeId, AgreementId)> = self
            .ended
            .iter()
            .flat_map(|(node, ids)| ids.iter().map(move |id| (node, id)))
            .filter(|(_, id)| is_old(id))
            .map(|(node, id)| (node.clone(), id.clone()))
            .collect();
        for (node, id) in old {
            self.agreements.remove(&id);
            self.repetitions.remove(&id);
            if let Some(ids) = self.ended.get_mut(&node) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.ended.remove(&node);
                }
            }
        }
        let claims_end_after = self.settings.lock_stale_secs;
        self.removed_nmps.retain(|_, at| secs_since(*at, now) < claims_end_after);
        let agreements = &self.agreements;
        self.denied.retain(|id| agreements.contains_key(id));
    }
}
