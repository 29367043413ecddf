//! Queries on the model that decisions need.

use std::collections::BTreeSet;

use evenkeel_domain::review::{self, Finding};
use evenkeel_ids::AgbotId;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId, ServiceKey};
use evenkeel_placement::matching::{Consumer, Consumers, consumer};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, CancelReason, STOP_CONFIRMATION_SECS},
    claims::{Claim, Scope},
    facts::{
        Availability, DeploymentPolicyFacts, HaGroupFacts, NodeFacts, NodeMonitorState, NodeStatusFacts,
        ServiceFacts,
    },
    node_record::NodeRecord,
    other_agbots::OtherAgbots,
    report::{Blocked, FrozenLevel},
    time::{is_ahead, later, secs_since},
};
use jiff::Timestamp;

use super::Model;
use crate::command::CommandKey;

/// The announcement of an absence is itself a sign that the agent is there; so is what arrives together with it.
const ANNOUNCEMENT_SECS: u64 = 2;

/// The liveness of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// No heartbeat was ever seen.
    NeverHeard,
    /// Its heartbeats arrive.
    Alive,
    /// Its agent announced that it is not available for a while: what runs on the node stays, and nothing starts there.
    Away {
        /// Activity of its agent.
        monitor_state: NodeMonitorState,
        /// Since when.
        since: Timestamp,
    },
    /// Heartbeats could not be received for a while, and it has not been heard since: it is not given up, and
    /// does not count as running either.
    Unheard {
        /// Last heartbeat.
        since: Timestamp,
    },
    /// Its heartbeats stopped.
    Down {
        /// Last heartbeat.
        since: Timestamp,
    },
}

impl Liveness {
    /// Returns why nothing starts on a node with this liveness; none while it is alive.
    pub fn objection(self) -> Option<Blocked> {
        match self {
            Self::Alive => None,
            Self::NeverHeard => Some(Blocked::NeverHeard),
            Self::Away { monitor_state, since } => Some(Blocked::NodeAway { monitor_state, since }),
            Self::Unheard { since } => {
                Some(Blocked::NodeAway { monitor_state: NodeMonitorState::Idle, since })
            }
            Self::Down { since } => Some(Blocked::NodeDown { since }),
        }
    }
}

/// The observed state of a service instance on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Unknown: no status, a silent node, or a status older than the agreement.
    Unknown,
    /// Reported as not running.
    Absent,
    /// Reported as running.
    Running,
}

impl Model {
    /// Returns the liveness of a node.
    ///
    /// Silence counts from when a heartbeat was received, by the clock of the receiver. Time in which no
    /// heartbeats could be read does not count as silence.
    /// # Source
    /// Orchestration A10.2, A10.3.
    pub fn liveness(&self, node: &NodeId, now: Timestamp) -> Liveness {
        self.nodes.get(node).map_or(Liveness::NeverHeard, |record| self.liveness_of(&record.facts, now))
    }

    /// Returns the liveness of a node with these facts.
    pub(super) fn liveness_of(&self, facts: &NodeFacts, now: Timestamp) -> Liveness {
        let node = &facts.id;
        let Some(seen) = facts.last_heartbeat else { return Liveness::NeverHeard };
        let (monitor_state, down) = (facts.monitor_state, Liveness::Down { since: seen });
        let away = |since| Liveness::Away { monitor_state, since };
        if let Some((since, until)) = self.absence(facts) {
            if self.silence_secs(node, since, now) < secs_since(since, until) {
                return away(since);
            }
            if seen <= later(since, ANNOUNCEMENT_SECS) {
                return down;
            }
        }
        let silence = self.silence_secs(node, seen, now);
        // An agent that has started reports that before it takes back that it had stopped.
        let is_stopped = facts.is_stopped && monitor_state != NodeMonitorState::Init;
        let may_rejoin = || self.rejoins_until(node, seen).is_some_and(|until| now < until);
        let limit = self.node_down_after_secs(node.org());
        if is_stopped || silence >= limit && !may_rejoin() {
            return down;
        }
        if secs_since(seen, now) >= limit || self.is_of_unknown_age(node, seen) {
            return Liveness::Unheard { since: seen };
        }
        // An agent that reports no monitor state may run on a node whose former agent announced one.
        match facts.monitor_state_since.filter(|_| facts.is_capable) {
            Some(since) if monitor_state != NodeMonitorState::Idle => away(since),
            _ => Liveness::Alive,
        }
    }

    /// Returns whether the heartbeats of a node have stopped.
    pub fn is_down(&self, node: &NodeId, now: Timestamp) -> bool {
        matches!(self.liveness(node, now), Liveness::Down { .. })
    }

    /// Returns whether the only heartbeat of a node since the start was recorded by a clock that was ahead: it proves no life.
    fn is_of_unknown_age(&self, node: &NodeId, seen: Timestamp) -> bool {
        let stored = || self.nodes.get(node)?.stored_heartbeat;
        self.unheard.contains(node) && stored().is_some_and(|stored| is_ahead(stored, seen))
    }

    /// Returns the start and the end of the grace period of a node whose agent announced an absence.
    fn absence(&self, facts: &NodeFacts) -> Option<(Timestamp, Timestamp)> {
        let grace_secs = match facts.monitor_state {
            NodeMonitorState::Maintenance => self.maintenance_grace_secs(facts.id.org()),
            NodeMonitorState::Upgrade => self.agent_upgrade_grace_secs(facts.id.org()),
            NodeMonitorState::Idle | NodeMonitorState::Init | NodeMonitorState::Shutting => return None,
        };
        let since = facts.monitor_state_since?;
        Some((since, later(since, grace_secs)))
    }

    /// Returns when time alone changes the liveness of a node next; none of a node that is down or was never heard of.
    pub(super) fn liveness_ends_at(&self, node: &NodeId, now: Timestamp) -> Option<Timestamp> {
        let facts = &self.nodes.get(node)?.facts;
        // Time in which nothing could be heard comes on top.
        let ends_at = |since: Timestamp, secs: u64| {
            let unheard = secs_since(since, now).saturating_sub(self.silence_secs(node, since, now));
            later(since, secs.saturating_add(unheard)).max(later(now, 1))
        };
        let silent_at = || {
            let seen = facts.last_heartbeat?;
            let silent_at = ends_at(seen, self.node_down_after_secs(node.org()).saturating_add(1));
            Some(silent_at.max(self.rejoins_until(node, seen).unwrap_or(silent_at)))
        };
        match self.liveness(node, now) {
            Liveness::Alive | Liveness::Unheard { .. } => silent_at(),
            Liveness::Away { .. } => {
                let expires_at =
                    self.absence(facts).map(|(since, until)| ends_at(since, secs_since(since, until)));
                expires_at.filter(|until| later(now, 1) < *until).or_else(silent_at)
            }
            Liveness::NeverHeard | Liveness::Down { .. } => None,
        }
    }

    /// Returns whether the agent of a node is being upgraded under its group's claim: it is silent meanwhile, and its instances stay.
    ///
    /// # Source
    /// Orchestration E8-S1.
    pub fn is_agent_in_upgrade(&self, node: &NodeId) -> bool {
        self.agent_claim(node).is_some()
    }

    /// Returns the claim under which the agent of a node is upgraded.
    fn agent_claim(&self, node: &NodeId) -> Option<&Claim> {
        let group = self.group_of.get(node)?;
        self.claims.get(&(group.clone(), Scope::Agent)).filter(|claim| claim.node == *node)
    }

    /// Returns whether the agent of a node reported that it stopped, with all of its services.
    pub fn is_stopped(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|record| record.facts.is_stopped)
    }

    /// Returns whether a node is upgraded, so that instances that leave it return afterwards: it is drained for that, or its agent announced it.
    pub(crate) fn is_upgraded(&self, record: &NodeRecord) -> bool {
        let is_marked = record.facts.is_in_upgrade && record.facts.availability == Availability::Drain;
        let is_announced = record.facts.monitor_state == NodeMonitorState::Upgrade;
        is_marked || is_announced || self.is_drained_for_agent(&record.facts.id)
    }

    /// Returns whether a node is drained before its agent is upgraded.
    ///
    /// # Source
    /// Orchestration E6.4.
    pub fn is_drained_for_agent(&self, node: &NodeId) -> bool {
        self.agent_claim(node).is_some_and(|claim| claim.purpose.is_agent_drain())
    }

    /// Returns how many instances a node has, whether they run or not.
    pub fn instances_on(&self, node: &NodeId) -> usize {
        let without_tasks = self.live_on(node).filter(|one| !self.is_orchestrated(&one.policy)).count();
        without_tasks + self.tasks_of(node).filter(|task| !task.state.is_ended()).count()
    }

    /// Returns the availability of a node: what its operator asked for, unless it is drained before its agent is upgraded.
    pub(crate) fn wanted_availability(&self, record: &NodeRecord) -> Availability {
        match record.facts.availability {
            Availability::Active if self.is_drained_for_agent(&record.facts.id) => Availability::Drain,
            availability => availability,
        }
    }

    /// Returns the availability that holds for instances without tasks, and that is like paused on a frozen node.
    pub fn availability(&self, node: &NodeId) -> Availability {
        match self.nodes.get(node) {
            Some(record) if record.facts.is_frozen => Availability::Pause,
            record => record.map(|record| self.wanted_availability(record)).unwrap_or_default(),
        }
    }

    /// Returns why nothing new is started on a node that is not open for it.
    pub fn paused_by(&self, node: &NodeId) -> Blocked {
        if self.is_frozen(node) { Blocked::Frozen { level: FrozenLevel::Node } } else { Blocked::NodePaused }
    }

    /// Returns whether a node is drained without regard to the HA groups of what runs there.
    pub fn is_drain_forced(&self, node: &NodeId) -> bool {
        let facts = self.nodes.get(node).map(|record| &record.facts);
        facts.is_some_and(|facts| facts.availability == Availability::Drain && facts.is_drain_forced)
    }

    /// Returns whether a user froze a node.
    pub(crate) fn is_frozen(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|record| record.facts.is_frozen)
    }

    /// Returns whether an instance could be started on a node: it is alive and open for placement.
    pub fn may_start_on(&self, node: &NodeId, now: Timestamp) -> bool {
        self.liveness(node, now) == Liveness::Alive && self.availability(node) == Availability::Active
    }

    /// Returns the observed state of an agreement's instance; unknown for one that is not final.
    pub fn observed(&self, agreement: &Agreement, now: Timestamp) -> Observed {
        // A node that is not known was never heard.
        let record = self.nodes.get(&agreement.node);
        record.map_or(Observed::Unknown, |record| self.observed_on(record, agreement, now))
    }

    /// Returns the same of an agreement of this node.
    pub(super) fn observed_on(&self, record: &NodeRecord, agreement: &Agreement, now: Timestamp) -> Observed {
        let Some(final_at) = agreement.finalized_at() else { return Observed::Unknown };
        if record.facts.is_stopped {
            return Observed::Absent;
        }
        // Instances that ran when the agent went away count as running.
        if matches!(self.liveness_of(&record.facts, now), Liveness::NeverHeard | Liveness::Down { .. }) {
            return Observed::Unknown;
        }
        let Some(status) = self.status_of_record(record, now) else { return Observed::Unknown };
        let is_awaited = record.awaits_status;
        let instance = status.services.iter().find(|one| one.agreement.as_ref() == Some(&agreement.id));
        match instance {
            Some(instance) if instance.is_running && instance.version == agreement.version => {
                Observed::Running
            }
            _ if is_awaited => Observed::Unknown,
            Some(_) => Observed::Absent,
            // A report from before the agreement cannot contain it.
            None if status.reported_at < Some(final_at) => Observed::Unknown,
            None => Observed::Absent,
        }
    }

    /// Returns the status of a node if it is still valid.
    ///
    /// A status from before a silence does not show what runs now; but an agent without changes does not report again, so after
    /// a grace period the old status counts.
    fn current_status(&self, node: &NodeId, now: Timestamp) -> Option<&NodeStatusFacts> {
        self.status_of_record(self.nodes.get(node)?, now)
    }

    fn status_of_record<'m>(&self, record: &'m NodeRecord, now: Timestamp) -> Option<&'m NodeStatusFacts> {
        let status = record.status.as_ref()?;
        let is_current = |at| self.is_current_since(record.back_at, &record.facts.id, at, now);
        status.reported_at.is_some_and(is_current).then_some(status)
    }

    /// Returns whether a report of a node from a time still applies: the node was not down since, or has had
    /// time to correct it.
    pub fn is_current(&self, node: &NodeId, reported_at: Timestamp, now: Timestamp) -> bool {
        let back_at = self.nodes.get(node).and_then(|record| record.back_at);
        self.is_current_since(back_at, node, reported_at, now)
    }

    fn is_current_since(
        &self,
        back_at: Option<Timestamp>,
        node: &NodeId,
        reported_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        back_at.is_none_or(|back| reported_at >= back || now >= later(back, self.settling_secs(node.org())))
    }

    /// Returns whether a live node reports one of the services running under an agreement that this agbot did not make.
    pub fn runs_for_another_agbot(
        &self,
        node: &NodeId,
        keys: &BTreeSet<&ServiceKey>,
        now: Timestamp,
    ) -> bool {
        let is_foreign = |agreement: &Option<AgreementId>| {
            agreement.as_ref().is_some_and(|id| !self.agreements.contains_key(id))
        };
        self.liveness(node, now) == Liveness::Alive
            && self.current_status(node, now).is_some_and(|status| {
                let mut services = status.services.iter();
                services
                    .any(|one| one.is_running && keys.contains(&one.service) && is_foreign(&one.agreement))
            })
    }

    /// Returns whether the instance of an agreement is broken: reported as not running for longer than the allowed time.
    pub fn is_broken(&self, agreement: &Agreement, now: Timestamp) -> bool {
        self.broken_at(agreement, now).is_some_and(|at| at <= now)
    }

    /// Returns from when the instance of an agreement is broken, if it goes on being reported as not running.
    pub(crate) fn broken_at(&self, agreement: &Agreement, now: Timestamp) -> Option<Timestamp> {
        let is_absent = self.observed(agreement, now) == Observed::Absent;
        let since = self.not_running_since.get(&agreement.id).filter(|_| is_absent)?;
        Some(later(*since, self.settings.update.broken_after_secs))
    }

    /// Returns all definitions of a service, by id.
    pub fn services_of(&self, key: &ServiceKey) -> impl Iterator<Item = &ServiceFacts> {
        self.catalog.versions_of(key)
    }

    /// Returns why versions that a policy wants cannot be deployed on any node, in words: the exchange does not have them, or
    /// something cannot be read or is missing.
    pub fn unusable_versions(&self, policy: &PolicyId) -> Vec<String> {
        let Some(facts) = self.policies.get(policy) else { return Vec::new() };
        let mut reasons: Vec<String> = Vec::new();
        let mut missing: Vec<&str> = Vec::new();
        for entry in &facts.versions {
            let of_version = self.consumers.get(policy).into_iter().flatten();
            let mut of_version = of_version.filter(|((version, _), _)| *version == entry.version).peekable();
            if of_version.peek().is_none() {
                missing.push(&entry.version);
            }
            let failed = of_version.map(|(_, consumer)| consumer.as_ref().err());
            // One usable architecture is enough.
            if let Some(failed) = failed.collect::<Option<Vec<&Blocked>>>() {
                let new = failed.into_iter().map(|why| format!("version {}: {why}", entry.version));
                reasons.extend(new);
            }
        }
        if !missing.is_empty() {
            reasons
                .insert(0, format!("the exchange has no service {} {}", facts.service, missing.join(", ")));
        }
        reasons.dedup();
        reasons
    }

    /// Returns the policies of an organization whose settings name policies that the model does not know, each with what it names.
    pub fn missing_policies_of_org(&self, org: &str) -> Vec<(PolicyId, Vec<Finding>)> {
        let of_org = self.policies.values().filter(|facts| facts.id.org() == org);
        let with_missing = of_org.map(|facts| (facts.id.clone(), self.missing_policies(facts)));
        with_missing.filter(|(_, missing)| !missing.is_empty()).collect()
    }

    /// Returns what the settings of a policy name that the model does not know.
    pub fn missing_policies(&self, facts: &DeploymentPolicyFacts) -> Vec<Finding> {
        let Some(document) = facts.orchestration.document.as_deref() else { return Vec::new() };
        let named = review::named_policies(&facts.id, document).into_iter();
        let missing = named.filter(|(_, policy)| !self.policies.contains_key(policy));
        missing.map(|(member, policy)| review::missing_policy(&member, &policy)).collect()
    }

    /// Returns whether every member of a group that has an agreement has reported its status since the model
    /// began to be filled. The instances of such members are known; a member without agreements has nothing
    /// to protect, and one that was down before the hub stopped is not about to report.
    pub fn has_heard_since_start(&self, group: &HaGroupFacts) -> bool {
        group.members.iter().all(|node| {
            let status = self.nodes.get(node).and_then(|record| record.status.as_ref());
            self.live_on(node).next().is_none()
                || self.was_down_before(node)
                || status.is_some_and(|status| status.reported_at >= self.began_at)
        })
    }

    /// Returns the times at which the policies of an organization were written, as far as the model knows them.
    pub fn policy_times(&self, org: &str) -> impl Iterator<Item = (PolicyId, Timestamp)> {
        let of_org = self.policies.values().filter(move |policy| policy.id.org() == org);
        of_org.filter_map(|policy| Some((policy.id.clone(), policy.last_updated?)))
    }

    /// Returns what other agbots serve.
    pub fn other_agbots(&self) -> &OtherAgbots {
        &self.other_agbots
    }

    /// Returns the other agbot that a node is left to with a policy.
    pub fn other_agbot_of(&self, node: &NodeId, policy: &PolicyId) -> Option<&AgbotId> {
        if self.other_agbots.is_empty() {
            return None;
        }
        self.other_agbots.server_of(self.policies.get(policy)?, node.org())
    }

    /// Returns the policies that deploy a service.
    pub fn policies_of(&self, key: &ServiceKey) -> impl Iterator<Item = &PolicyId> {
        self.policies_by_service.get(key).into_iter().flatten()
    }

    /// Returns the prepared consumer side of a policy for one version and architecture.
    ///
    /// # Shape
    /// None when there is no such definition; an error when it cannot be used.
    pub fn consumer(
        &self,
        policy: &PolicyId,
        version: &str,
        arch: &str,
    ) -> Option<&Result<Consumer, Blocked>> {
        self.consumers.get(policy)?.get(&(version.to_owned(), arch.to_owned()))
    }

    /// Prepares the consumers of a policy again.
    pub(super) fn prepare_consumers(&mut self, policy: &PolicyId) {
        self.engine.stale.insert(policy.clone());
        let Some(facts) = self.policies.get(policy) else {
            self.consumers.remove(policy);
            return self.index_policy(policy);
        };
        let mut versions: BTreeSet<&str> =
            facts.versions.iter().map(|entry| entry.version.as_str()).collect();
        let groups = self.rollbacks.get(policy).into_iter().flatten();
        let rollouts = groups.filter_map(|group| self.rollouts.get(&(group.clone(), policy.clone())));
        versions.extend(rollouts.filter_map(|rollout| Some(rollout.rollback.as_ref()?.version.as_str())));
        let prepared = self.consumers_of(facts, &versions);
        self.consumers.insert(policy.clone(), prepared);
        self.index_policy(policy);
    }

    /// Prepares the consumers of some versions of a policy.
    pub(super) fn consumers_of(&self, facts: &DeploymentPolicyFacts, versions: &BTreeSet<&str>) -> Consumers {
        let services = self.services_of(&facts.service);
        let services = services.filter(|service| versions.contains(service.version.as_str()));
        let prepared = services.map(|service| {
            let arch = evenkeel_placement::matching::canonical_arch(&service.arch).to_owned();
            ((service.version.clone(), arch), consumer::prepare(&self.catalog, facts, service))
        });
        prepared.collect()
    }

    /// Prepares the consumers of all policies whose service is this one or depends on it.
    pub(super) fn prepare_consumers_of(&mut self, service: &ServiceId, key: &ServiceKey) {
        for policy in self.policies_needing(service, key) {
            self.prepare_consumers(&policy);
        }
    }

    /// Returns the policies whose service is this one or depends on it.
    pub(crate) fn policies_needing(&self, service: &ServiceId, key: &ServiceKey) -> BTreeSet<PolicyId> {
        let needs = |facts: &ServiceFacts| {
            facts.required_services.iter().any(|need| {
                let text =
                    |name: &str| need.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
                text("url") == key.name() && text("org") == key.org()
            })
        };
        let mut keys = BTreeSet::from([key.clone()]);
        let dependents = self.catalog.services().filter(|facts| facts.id != *service && needs(facts));
        keys.extend(dependents.map(|facts| facts.key.clone()));
        keys.iter().flat_map(|key| self.policies_of(key)).cloned().collect()
    }

    /// Returns the groups that hold a claim of this scope, or for which one was requested and not refused yet.
    pub fn groups_in_work<'a>(
        &'a self,
        scope: &'a Scope,
        now: Timestamp,
    ) -> impl Iterator<Item = GroupId> + 'a {
        let held = self.claims.keys().filter(move |(_, one)| one == scope);
        let requested =
            self.claim_requests.iter().filter(move |((_, one), until)| one == scope && now < **until);
        held.chain(requested.map(|(key, _)| key)).map(|(group, _)| group.clone())
    }

    /// Returns the time after which the claim of a silent member of a group is released, in seconds.
    pub fn lock_stale_secs(&self, group: &GroupId) -> u64 {
        let own = self.groups.get(group).and_then(|group| group.lock_stale_secs);
        own.unwrap_or(self.settings.lock_stale_secs)
    }

    /// Returns the claims of a group.
    pub fn claims_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Claim> {
        let from = (group.clone(), Scope::Agent);
        self.claims.range(from..).take_while(move |((one, _), _)| one == group).map(|(_, claim)| claim)
    }

    /// Returns the live agreements of a policy, by node.
    pub fn agreements_of<'a>(&'a self, policy: &'a PolicyId) -> impl Iterator<Item = &'a Agreement> {
        let nodes = self.live_nodes.get(policy).into_iter().flatten();
        nodes.flat_map(move |node| self.live_agreements(node, policy))
    }

    /// Returns the live agreements of a node.
    pub fn live_on<'a>(&'a self, node: &'a NodeId) -> impl Iterator<Item = &'a Agreement> {
        let from = (node.clone(), PolicyId::from_text("/"), AgreementId::from_text(""));
        let of_node = self.live.range(from..).take_while(move |(one, ..)| one == node);
        of_node.filter_map(|(.., id)| self.agreements.get(id))
    }

    /// Returns the recently ended agreements of a node.
    pub fn lately_ended_on(&self, node: &NodeId) -> impl Iterator<Item = &Agreement> {
        self.ended.get(node).into_iter().flatten().filter_map(|id| self.agreements.get(id))
    }

    /// Returns the latest ended agreement of a pair that the node's status still lists, with the time it ended.
    pub fn lingering(&self, node: &NodeId, policy: &PolicyId) -> Option<(&Agreement, Timestamp)> {
        let status = self.nodes.get(node)?.status.as_ref()?;
        let is_listed = |id| status.services.iter().any(|one| one.agreement.as_ref() == Some(id));
        self.lately_ended_on(node)
            .filter(|agreement| agreement.policy == *policy && is_listed(&agreement.id))
            .filter_map(|agreement| match agreement.state {
                AgreementState::Ended { at, .. } => Some((agreement, at)),
                _ => None,
            })
            .max_by_key(|(_, at)| *at)
    }

    /// Returns since when an agreement has ended, if its node has not confirmed the stop of the instance and may still do so.
    pub fn stopping_since(&self, agreement: &Agreement, now: Timestamp) -> Option<Timestamp> {
        let AgreementState::Ended { at, .. } = agreement.state else { return None };
        let record = self.nodes.get(&agreement.node)?;
        let is_gone = record.status.as_ref().is_some_and(|status| {
            status.reported_at >= Some(at)
                && status.services.iter().all(|one| one.agreement.as_ref() != Some(&agreement.id))
        });
        (!is_gone && secs_since(at, now) < STOP_CONFIRMATION_SECS).then_some(at)
    }

    /// Returns whether a cancel of the agreement is in flight.
    pub(crate) fn is_being_canceled(&self, agreement: &Agreement, now: Timestamp) -> bool {
        self.is_pending(&CommandKey::cancel(&agreement.id), now)
    }

    /// Returns the reason an agreement ended for, if it is remembered.
    pub fn ended_reason(&self, agreement: &Agreement) -> Option<CancelReason> {
        match agreement.state {
            AgreementState::Ended { reason, .. } => Some(reason),
            _ => None,
        }
    }
}
