//! The model: the agbot's in-memory view of the exchange and of its own records, kept current by events.
//!
//! The model holds facts and serves queries; it decides nothing. Maps are ordered, so that every read is deterministic.
//! Source: design 4.1; agbot 6.9, 6.10.

mod apply;
mod attributes;
mod blocklist;
mod candidates;
mod clock;
mod common;
mod condition;
mod departures;
mod domains;
mod failure;
mod fleet;
mod follow;
pub mod health;
mod health_registry;
mod hearing;
mod hub_work;
mod in_force;
pub mod index;
mod known;
pub mod observe;
mod org_settings;
mod outcome;
pub mod policy_index;
mod proposal;
mod query;
mod record;
mod relations;
mod reported;
mod room;
mod scope;
pub mod selection;
mod statistics;
mod stop;
mod unit_nodes;
mod unread;
mod view;
mod workload_records;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use candidates::Indexes;
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_ids::{AgreementId, GroupId, NmpId, NodeId, OrgId, PatternId, PolicyId, ServiceId, ServiceKey};
use evenkeel_placement::matching::Consumers;
use evenkeel_planner_record::{
    agreement::Agreement,
    catalog::Catalog,
    claims::{Claim, ClaimKey},
    departure::Departures,
    facts::{DeploymentPolicyFacts, HaGroupFacts, ServiceFacts, ServicePolicyFacts},
    health::HealthRecords,
    lease::Lease,
    node_record::NodeRecord,
    other_agbots::OtherAgbots,
    report::{Blocked, Placement, Report},
    rollout::Rollout,
    settings::{PlannerSettings, UpdateSettings},
    stable_hash::stable_hash,
    time::later,
    usage::{Backoff, WorkloadUsage},
    workload::{Part, UnitId},
};
use health_registry::HealthRegistry;
use hearing::Hearing;
use jiff::Timestamp;
use reported::Repetition;
use workload_records::WorkloadRecords;

use crate::command::{Action, CommandKey, Decision};

pub use apply::ENDED_MEMORY_SECS;
pub use attributes::Attribute;
pub use common::{CommonCause, CommonCauses, NodeSet};
pub use condition::{Absence, IdentityConflict, NodeCondition};
pub use domains::DomainCounts;
pub use fleet::{FleetCounts, FleetFilter, FleetGroups, FleetPage, FleetRow, Reach};
pub use health_registry::HealthCounts;
pub(crate) use health_registry::HealthTasks;
pub use hub_work::HubTask;
pub use known::KnownName;
pub(crate) use proposal::ProposalStatus;
pub use query::{Liveness, Observed};
pub use record::RecordKeys;
pub use reported::Listing;
pub use room::{CapacitySum, CapacitySums};
pub use unit_nodes::{Instances, unit_node, unit_nodes};
pub use view::Known;
pub use workload_records::{DecisionCounts, UnitRecord};
pub use workloads::WaitingInstance;

/// The agbot's in-memory view of the exchange and of its own records.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Settings of the planner.
    pub settings: PlannerSettings,
    /// Settings of organizations that differ from the defaults.
    pub(crate) org_settings: BTreeMap<OrgId, OrgSettings>,
    /// When the heartbeats of each organization's nodes were read.
    hearings: BTreeMap<String, Hearing>,
    /// When the model began to be filled.
    pub began_at: Option<Timestamp>,
    /// The time of the last event.
    last_at: Option<Timestamp>,
    /// When heartbeats were last read before the model began to be filled.
    hub_alive_at: Option<Timestamp>,
    /// Nodes whose last heartbeat is from before that.
    pub unheard: BTreeSet<NodeId>,
    /// Nodes.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// Deleted nodes whose agents may still run what they ran.
    pub departures: Departures,
    pub(crate) catalog: Catalog,
    /// Policies as they are in force.
    pub(crate) policies: BTreeMap<PolicyId, DeploymentPolicyFacts>,
    /// Stored policies while another version of them is in force.
    pub(crate) written: BTreeMap<PolicyId, DeploymentPolicyFacts>,
    pub(crate) policies_by_service: BTreeMap<ServiceKey, BTreeSet<PolicyId>>,
    /// Services of patterns, by pattern.
    pub(crate) policies_by_pattern: BTreeMap<PatternId, BTreeSet<PolicyId>>,
    pub(crate) consumers: BTreeMap<PolicyId, Consumers>,
    indexes: Indexes,
    pub(crate) other_agbots: OtherAgbots,
    /// Organizations whose nodes and groups are read: only what is missing in one of them was deleted.
    pub read_orgs: BTreeSet<OrgId>,
    /// Organizations that could not be read since the start.
    pub(crate) unread_orgs: BTreeSet<OrgId>,
    /// HA groups.
    pub groups: BTreeMap<GroupId, HaGroupFacts>,
    /// HA groups by member.
    pub group_of: BTreeMap<NodeId, GroupId>,
    pub(crate) agreements: BTreeMap<AgreementId, Agreement>,
    /// The live agreements. Only the tasks of a capable node may have several of one policy.
    pub(crate) live: BTreeSet<(NodeId, PolicyId, AgreementId)>,
    pub(crate) live_nodes: BTreeMap<PolicyId, BTreeSet<NodeId>>,
    pub(crate) ended: BTreeMap<NodeId, BTreeSet<AgreementId>>,
    /// Status of proposals that are not final yet.
    proposals: BTreeMap<AgreementId, ProposalStatus>,
    /// Cancels that were repeated because the node still reports the agreement.
    pub(crate) repetitions: BTreeMap<AgreementId, Repetition>,
    /// Consecutive failures of a command.
    pub(crate) failures: BTreeMap<CommandKey, u32>,
    /// Ended agreements whose instances are not known to have stopped, where that matters.
    pub(crate) awaiting_stop: BTreeSet<AgreementId>,
    /// Ended agreements that their nodes deny to have.
    pub(crate) denied: BTreeSet<AgreementId>,
    /// Since when the instance of a live agreement is reported as not running.
    pub(crate) not_running_since: BTreeMap<AgreementId, Timestamp>,
    /// Versions of a policy that were tried on a node.
    pub usage: BTreeMap<(NodeId, PolicyId), WorkloadUsage>,
    /// Pairs to which nothing is proposed for some time.
    pub backoff: BTreeMap<(NodeId, PolicyId), Backoff>,
    /// Claims by HA group and scope.
    pub claims: BTreeMap<ClaimKey, Claim>,
    /// Rollouts by HA group and policy.
    pub rollouts: BTreeMap<(GroupId, PolicyId), Rollout>,
    pub(crate) rollbacks: BTreeMap<PolicyId, BTreeSet<GroupId>>,
    /// Status per (management policy, node): none inside when the exchange has no record, absent when not read.
    pub nmp_status: BTreeMap<(NmpId, NodeId), Option<String>>,
    /// When a management policy was last found to be deleted.
    pub removed_nmps: BTreeMap<NmpId, Timestamp>,
    pub(crate) leases: BTreeMap<u32, u64>,
    /// Until when a command counts as in flight, or is not retried.
    pub(crate) pending: BTreeMap<CommandKey, Timestamp>,
    /// Until when a claim counts as requested.
    pub(crate) claim_requests: BTreeMap<ClaimKey, Timestamp>,
    /// Groups that wait only for the update parallelism of a policy.
    pub parallelism_queue: BTreeMap<PolicyId, BTreeSet<GroupId>>,
    pub(crate) watches: BTreeSet<(Timestamp, NodeId, PolicyId)>,
    /// Nodes that an event changed although it does not name them: alive again, moved between groups.
    pub(crate) touched: BTreeSet<NodeId>,
    /// Records of policies with tasks.
    pub engine: WorkloadRecords,
    /// Health events of entities.
    pub health: HealthRecords,
    pub(crate) registry: HealthRegistry,
}

impl Model {
    /// Creates an empty model that holds no partition and therefore decides nothing yet.
    pub fn new(settings: PlannerSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PlannerSettings {
        &self.settings
    }

    /// Returns a node.
    pub fn node(&self, id: &NodeId) -> Option<&NodeRecord> {
        self.nodes.get(id)
    }

    /// Returns all nodes, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// Returns a served deployment policy as it is in force: see [`Model::written_policy`] for what a client wrote.
    pub fn policy(&self, id: &PolicyId) -> Option<&DeploymentPolicyFacts> {
        self.policies.get(id)
    }

    /// Returns the effective update settings of a policy: its own, else the hub's.
    pub fn update_settings(&self, policy: &PolicyId) -> UpdateSettings {
        let hub = &self.settings.update;
        self.policies.get(policy).map_or(*hub, |facts| facts.orchestration.update.over(hub))
    }

    /// Returns a service definition.
    pub fn service(&self, id: &ServiceId) -> Option<&ServiceFacts> {
        self.catalog.service(id)
    }

    /// Returns the policy of a service definition.
    pub fn service_policy(&self, id: &ServiceId) -> Option<&ServicePolicyFacts> {
        self.catalog.policy_of(id)
    }

    /// Returns an HA group.
    pub fn group(&self, id: &GroupId) -> Option<&HaGroupFacts> {
        self.groups.get(id)
    }

    /// Returns the group a node is a member of.
    pub fn group_of(&self, node: &NodeId) -> Option<&HaGroupFacts> {
        self.group_of.get(node).and_then(|group| self.groups.get(group))
    }

    /// Returns a live or recently ended agreement.
    pub fn agreement(&self, id: &AgreementId) -> Option<&Agreement> {
        self.agreements.get(id)
    }

    /// Returns the live agreement of a pair; the first by id, if it carries out several tasks.
    pub fn live_agreement(&self, node: &NodeId, policy: &PolicyId) -> Option<&Agreement> {
        self.live_agreements(node, policy).next()
    }

    /// Returns the live agreements of a pair, by id.
    pub fn live_agreements<'m>(
        &'m self,
        node: &NodeId,
        policy: &PolicyId,
    ) -> impl Iterator<Item = &'m Agreement> + use<'m> {
        let from = (node.clone(), policy.clone(), AgreementId::from_text(""));
        let (node, policy) = (node.clone(), policy.clone());
        let of_pair = self.live.range(from..).take_while(move |(one, of, _)| *one == node && *of == policy);
        of_pair.filter_map(|(.., id)| self.agreements.get(id))
    }

    /// Returns whether the agent of a node reads tasks and reports their states.
    pub fn is_capable(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|record| record.facts.is_capable)
    }

    /// Returns all live and recently ended agreements, by id.
    pub fn agreements(&self) -> impl Iterator<Item = &Agreement> {
        self.agreements.values()
    }

    /// Returns all policies, by id.
    pub fn policies(&self) -> impl Iterator<Item = &DeploymentPolicyFacts> {
        self.policies.values()
    }

    /// Returns all HA groups, by id.
    pub fn groups(&self) -> impl Iterator<Item = &HaGroupFacts> {
        self.groups.values()
    }

    /// Returns all claims.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.values()
    }

    /// Returns all rollouts.
    pub fn rollouts(&self) -> impl Iterator<Item = &Rollout> {
        self.rollouts.values()
    }

    /// Returns the number of nodes, policies and live agreements in the model.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.policies.len(), self.live.len())
    }

    /// Returns the partition that decides about a node: that of its group, so that groups are never split.
    pub fn partition_of(&self, node: &NodeId) -> u32 {
        match self.group_of.get(node) {
            Some(group) => partition_of_group(group, self.settings.partition_count),
            None => partition(&["node", node.as_str()], self.settings.partition_count),
        }
    }

    /// Returns the lease under which this agbot may act for a node, if it holds the partition.
    pub fn lease_for(&self, node: &NodeId) -> Option<Lease> {
        self.lease_of(self.partition_of(node))
    }

    /// Returns the lease under which this agbot may act for a group, if it holds the partition.
    pub fn lease_for_group(&self, group: &GroupId) -> Option<Lease> {
        self.lease_of(partition_of_group(group, self.settings.partition_count))
    }

    /// Returns the lease under which this agbot may act for a workload unit, if it holds the partition. Groups are never split.
    pub fn lease_for_unit(&self, unit_id: &UnitId) -> Option<Lease> {
        self.lease_of(self.partition_of_unit(unit_id))
    }

    /// Returns the partition that decides about a workload unit.
    pub fn partition_of_unit(&self, unit_id: &UnitId) -> u32 {
        let count = self.settings.partition_count;
        match &unit_id.part {
            Part::All => partition(&["workload", unit_id.policy.as_str()], count),
            Part::Group(group) => partition_of_group(group, count),
        }
    }

    /// Returns the lease under which this agbot may act for a workload as a whole, if it holds the partition.
    pub fn lease_for_workload(&self, policy: &PolicyId) -> Option<Lease> {
        self.lease_of(partition(&["workload", policy.as_str()], self.settings.partition_count))
    }

    /// Returns the lease under which this agbot may act for an organization as a whole, if it holds the partition.
    pub fn lease_for_org(&self, org: &OrgId) -> Option<Lease> {
        self.lease_of(partition(&["org", org.as_str()], self.settings.partition_count))
    }

    /// Returns the organizations whose settings are known.
    pub fn orgs_with_settings(&self) -> impl Iterator<Item = (&OrgId, &OrgSettings)> {
        self.org_settings.iter()
    }

    /// Returns the number of partitions this agbot owns.
    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    fn lease_of(&self, partition: u32) -> Option<Lease> {
        self.leases.get(&partition).map(|&fencing| Lease { partition, fencing })
    }

    /// Returns when the next watch is due, which is the latest time for the next tick.
    pub fn next_watch_at(&self) -> Option<Timestamp> {
        let of_units = self.engine.watches.first().map(|(at, ..)| *at);
        let of_plans = self.engine.in_flight.values().copied();
        self.watches.first().map(|(at, ..)| *at).into_iter().chain(of_units).chain(of_plans).min()
    }

    /// Returns when the next check of health is due, which is the latest time for the next tick, too.
    pub fn next_health_check_at(&self) -> Option<Timestamp> {
        self.health.next_check_at()
    }

    /// Records a decision: the commands in flight, so that they are not issued again meanwhile, and the watches.
    ///
    /// Losing it (a crash) only means that a command may be issued twice, which executors must allow for.
    pub fn note(&mut self, decision: &Decision, now: Timestamp) {
        self.touched.clear();
        self.engine.note(decision, now);
        self.health.note_checks(&decision.health_checks, now);
        self.registry.note(&decision.health_rounds);
        while self.watches.first().is_some_and(|(at, ..)| *at <= now) {
            self.watches.pop_first();
        }
        let until = later(now, self.settings.command_timeout_secs);
        for command in &decision.commands {
            self.pending.insert(command.action.key(), until);
            if let Action::ApplyPlan { unit_id, .. } = &command.action {
                self.engine.in_flight.insert(unit_id.clone(), until);
            }
            if let Action::TakeClaim { request } = &command.action {
                self.claim_requests.insert((request.group.clone(), request.scope.clone()), until);
            }
            if let Action::RepeatCancel { agreement, .. } = &command.action {
                let count = self.repetitions.get(agreement).map_or(0, |last| last.count) + 1;
                self.repetitions.insert(agreement.clone(), Repetition { count, at: now });
            }
        }
        self.queue_for_parallelism(&decision.report);
        for watch in &decision.watches {
            self.watches.insert((watch.at, watch.node.clone(), watch.policy.clone()));
        }
    }

    /// Records which group rollouts wait only for the update parallelism of their policy, so that the end of a claim wakes them.
    fn queue_for_parallelism(&mut self, report: &Report) {
        let group_rollouts = report.pairs.iter().filter_map(|((node, policy), placement)| {
            let is_queued =
                matches!(placement, Placement::Waiting { blocked: Blocked::UpdateParallelism { .. }, .. });
            Some((self.group_of.get(node)?.clone(), policy.clone(), is_queued))
        });
        let group_rollouts: Vec<_> = group_rollouts
            .filter(|(_, policy, is_queued)| *is_queued || self.parallelism_queue.contains_key(policy))
            .collect();
        for (group, policy, _) in group_rollouts.iter().filter(|(.., is_queued)| !is_queued) {
            if let Some(groups) = self.parallelism_queue.get_mut(policy) {
                groups.remove(group);
            }
        }
        for (group, policy, _) in group_rollouts.into_iter().filter(|(.., is_queued)| *is_queued) {
            self.parallelism_queue.entry(policy).or_default().insert(group);
        }
        self.parallelism_queue.retain(|_, groups| !groups.is_empty());
    }

    /// Returns whether a command with this key is in flight, or was refused a moment ago.
    pub fn is_pending(&self, key: &CommandKey, now: Timestamp) -> bool {
        self.pending_until(key, now).is_some()
    }

    /// Returns until when that is so, if it is.
    pub(crate) fn pending_until(&self, key: &CommandKey, now: Timestamp) -> Option<Timestamp> {
        self.pending.get(key).copied().filter(|until| now < *until)
    }
}

/// Returns the partition of an HA group.
pub fn partition_of_group(group: &GroupId, partition_count: u32) -> u32 {
    partition(&["group", group.as_str()], partition_count)
}

fn partition(parts: &[&str], partition_count: u32) -> u32 {
    (stable_hash(parts) % u64::from(partition_count.max(1))) as u32
}
