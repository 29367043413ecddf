//! The scope of a decision: the pairs and group rollouts that an event can have changed.
//!
//! Everything else would be planned to the same end; leaving it out is only a matter of cost (orchestration B4).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::health_policy::DetectionType;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceId, ServiceKey};
use evenkeel_planner_record::{
    claims::{Purpose, Scope},
    health::Entity,
    report::Blocked,
    workload::{Part, Slot, Step, Task, UnitId, WorkloadRecord},
};
use jiff::Timestamp;

use crate::{
    command::{Action, Command},
    event::Event,
    model::{Model, UnitRecord},
    plan::StoredPlan,
};

/// The scope of a decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// Pairs to plan one by one.
    pub pairs: BTreeSet<(NodeId, PolicyId)>,
    /// Group rollouts to plan.
    pub group_rollouts: BTreeSet<(GroupId, PolicyId)>,
    /// Groups whose claims are checked for expiry.
    pub groups: BTreeSet<GroupId>,
    /// Workloads whose rows are compared with their policies.
    pub workloads: BTreeSet<PolicyId>,
    /// Workload units to reconcile as a whole.
    pub workload_units: BTreeSet<UnitId>,
    /// Slots to reconcile.
    pub slots: BTreeSet<(UnitId, Slot)>,
    /// True if the claims of all groups are checked for expiry.
    pub expires_all_claims: bool,
    /// Entities that may be gone, so that what was reported about them is dropped.
    pub unsure: BTreeSet<Entity>,
    /// Targets of health checks whose registrations are reconciled.
    pub registrations: BTreeSet<Entity>,
    /// Nodes per policy that its index excluded.
    pub ruled_out: BTreeMap<PolicyId, u64>,
}

/// Returns the scope of an event.
pub fn of(model: &Model, event: &Event, now: Timestamp) -> Focus {
    let mut focus = Focus { expires_all_claims: can_free_any_claim(event), ..Focus::default() };
    focus.add_event(model, event);
    for (_, node, policy) in model.watches.iter().take_while(|(at, ..)| *at <= now) {
        focus.add_pair(model, node, policy);
    }
    for node in &model.touched {
        focus.add_node(model, node);
    }
    focus.add_units_of_pairs(model);
    focus.add_due_workloads(model, now);
    focus.add_slots_of_pairs(model);
    focus.add_units_of_peers(model);
    focus.leave_unread(model);
    focus
}

impl Focus {
    /// Leaves out what belongs to organizations that could not be read since the start.
    fn leave_unread(&mut self, model: &Model) {
        if model.unread_orgs.is_empty() {
            return;
        }
        self.pairs.retain(|(node, policy)| !model.is_unread_pair(node, policy));
        let is_read = |org: &str| !model.is_unread(org);
        self.group_rollouts.retain(|(group, policy)| is_read(group.org()) && is_read(policy.org()));
        self.groups.retain(|group| is_read(group.org()));
        self.workloads.retain(|policy| !model.has_unread_nodes(policy));
        self.workload_units.retain(|unit_id| !model.has_unread_nodes(&unit_id.policy));
        self.slots.retain(|(unit_id, _)| !model.has_unread_nodes(&unit_id.policy));
        self.unsure.retain(|entity| !model.is_unread_entity(entity));
        self.registrations.retain(|entity| !model.is_unread_entity(entity));
    }

    /// Has the workloads examined of which something was reported that may be gone.
    fn add_reported(&mut self, model: &Model, is_gone: impl Fn(&Entity) -> bool) {
        let entities = model.health().entities().filter(|entity| is_gone(entity));
        self.unsure.extend(entities.filter_map(|entity| entity.policy().cloned().map(Entity::Workload)));
    }

    fn add_removed_node(&mut self, model: &Model, node: &NodeId) {
        self.unsure.insert(Entity::Node(node.clone()));
        let policies = model.engine.pairs_of(node).map(|(_, policy)| policy.clone());
        self.registrations.extend(policies.map(Entity::Workload));
        self.add_reported(model, |entity| matches!(entity, Entity::Instance(_, one) if one == node));
        self.add_node(model, node);
    }

    fn add_removed_group(&mut self, model: &Model, group: &GroupId) {
        self.unsure.insert(Entity::Group(group.clone()));
        self.add_registration(model, &Entity::Group(group.clone()));
        let part = Part::Group(group.clone());
        let is_of_it = |entity: &Entity| matches!(entity, Entity::WorkloadUnit(unit) if unit.part == part);
        self.add_reported(model, is_of_it);
        self.add_group(model, group);
    }

    fn add_event(&mut self, model: &Model, event: &Event) {
        match event {
            Event::NodeChanged { node } => self.add_node(model, &node.id),
            Event::NodeRemoved { node } => self.add_removed_node(model, node),
            Event::NodePolicyChanged { node, .. } => self.add_node(model, node),
            Event::NodeTasksChanged { node, .. } => self.pairs.extend(model.engine.pairs_of(node).cloned()),
            Event::NodeStatusChanged { node, .. } | Event::NodeAgreementsRead { node, .. } => {
                self.add_known_pairs(model, node);
                self.add_active_units(model, node);
            }
            Event::ServiceChanged { service } => self.add_service(model, &service.id, &service.key),
            Event::ServicePolicyChanged { service, .. } => {
                if let Some(facts) = model.service(service) {
                    self.add_service(model, service, &facts.key);
                }
            }
            // The reference does not react to removed definitions either; what runs continues (agbot 2.4).
            Event::ServiceRemoved { .. } => {}
            Event::DeploymentPolicyChanged { policy } => self.add_policy(model, &policy.id),
            Event::DeploymentPolicyRemoved { policy } => {
                self.unsure.insert(Entity::Workload(policy.clone()));
                self.add_policy(model, policy);
            }
            Event::RemovalForced { policy } => self.add_workload(model, policy),
            Event::HaGroupChanged { group } => {
                let target = Entity::Group(group.id.clone());
                if group.health.is_some() || model.registration(&target).is_some() {
                    self.add_registration(model, &target);
                }
                self.add_group(model, &group.id);
            }
            Event::RegistrationRecorded { target, .. } => self.add_registration(model, target),
            Event::HaGroupRemoved { group } => self.add_removed_group(model, group),
            Event::Message { message } => self.add_agreement(model, &message.agreement),
            Event::CommandOutcome { command, .. } => self.add_command(model, command),
            Event::AgreementRecorded { agreement } => {
                self.add_pair(model, &agreement.node, &agreement.policy);
            }
            Event::UsageRecorded { node, policy, .. } => self.add_pair(model, node, policy),
            Event::ClaimRecorded { claim } => {
                self.add_active_group_rollouts_of(model, &claim.group);
                if matches!(claim.purpose, Purpose::AgentUpgrade { .. }) {
                    // Its node is drained, or no longer taken for absent.
                    self.add_known_pairs(model, &claim.node);
                }
            }
            Event::ClaimRemoved { key } => {
                self.add_blocked_units(model, &key.0);
                self.add_active_group_rollouts_of(model, &key.0);
                self.add_queued_group_rollouts(model, &key.1);
            }
            Event::RolloutRecorded { rollout } => {
                self.add_group_rollout(model, &rollout.group, &rollout.policy);
            }
            // An administrator's configuration, which changes rarely and may concern every pair.
            Event::OtherAgbotsChanged { .. } | Event::OrgSettingsChanged { .. } => self.add_everything(model),
            // Records of an organization that is read at last were left out until now.
            Event::OrgsUnread { .. } => self.add_everything(model),
            Event::WorkloadRecorded { workload } => self.add_workload(model, &workload.policy),
            Event::WorkloadRemoved { policy } => {
                self.add_workload(model, policy);
                self.add_policy(model, policy);
            }
            Event::TaskRecorded { task } => self.add_task(model, task),
            Event::InstanceRecorded { .. } | Event::BlocklistRecorded { .. } | Event::TaskRemoved { .. } => {}
            Event::HealthRecorded { entity, .. } => self.add_health(model, entity),
            Event::PartitionsConfirmed { .. } | Event::AgreementRemoved { .. } => {}
            Event::RolloutRemoved { group, policy } => self.add_group_rollout(model, group, policy),
            Event::PartitionsChanged { .. } => {
                self.registrations.extend(model.health_targets());
                self.unsure.extend(model.orphaned_health());
                self.add_everything(model);
            }
            Event::FullReconcile => {
                self.registrations.extend(model.health_targets());
                self.add_everything(model);
            }
            Event::Tick => self.add_all_active_units(model),
            Event::NmpStatusChanged { status } => {
                self.groups.extend(model.group_of.get(&status.node).cloned());
            }
            // Statistics only rank nodes: what runs stays where it is. Nodes whose engine changed are touched.
            Event::StatisticsSeen { .. } | Event::MachinesSeen { .. } => {}
            Event::HubReported { task, .. } => {
                if let Some(task) = model.task(task) {
                    self.add_slot(model, task);
                }
            }
            // Nodes whose departure begins or is over are touched.
            Event::DeparturesRead { .. }
            | Event::HeartbeatsSeen { .. }
            | Event::HubWasAlive { .. }
            | Event::NmpRemoved { .. }
            | Event::OrgsRead { .. } => {}
        }
    }

    fn add_everything(&mut self, model: &Model) {
        for node in model.nodes.keys() {
            self.add_node(model, node);
        }
        self.pairs.extend(model.live.iter().map(|(node, policy, _)| (node.clone(), policy.clone())));
        self.pairs.extend(model.usage.keys().cloned());
        let remembered = model.rollouts.iter().filter(|(_, rollout)| rollout.remembers_failure());
        self.group_rollouts.extend(remembered.map(|(group_rollout, _)| group_rollout.clone()));
        self.add_all_active_units(model);
        // What an agbot that has stopped reported may be over, and nothing else may touch it.
        self.add_reported(model, |_| true);
        let with_tasks = model.policies().filter(|facts| facts.orchestration.document.is_some());
        self.workloads.extend(with_tasks.map(|facts| facts.id.clone()));
        self.workloads.extend(model.engine.workloads.keys().cloned());
        self.workload_units.extend(model.engine.workload_units.keys().cloned());
    }

    fn add_node(&mut self, model: &Model, node: &NodeId) {
        let group = model.group_of(node).filter(|group| {
            group.health.as_ref().is_some_and(|policy| policy.has_mode(DetectionType::LifecycleEvents))
        });
        self.registrations.extend(group.map(|group| Entity::Group(group.id.clone())));
        for policy in model.policies_for(node) {
            self.pairs.insert((node.clone(), policy));
        }
        self.add_known_pairs(model, node);
        self.add_active_units(model, node);
    }

    /// Adds the pairs of the node that have a record.
    fn add_known_pairs(&mut self, model: &Model, node: &NodeId) {
        let from = (node.clone(), PolicyId::from_text("/"));
        let of_node = |pair: &&(NodeId, PolicyId)| pair.0 == *node;
        self.pairs.extend(model.live_on(node).map(|one| (node.clone(), one.policy.clone())));
        self.pairs
            .extend(model.usage.range(from.clone()..).map(|(pair, _)| pair).take_while(of_node).cloned());
        self.pairs.extend(model.backoff.range(from..).map(|(pair, _)| pair).take_while(of_node).cloned());
        for agreement in model.lately_ended_on(node) {
            self.pairs.insert((node.clone(), agreement.policy.clone()));
        }
        self.pairs.extend(model.engine.pairs_of(node).cloned());
    }

    /// Adds a workload with its workload units.
    fn add_workload(&mut self, model: &Model, policy: &PolicyId) {
        self.workloads.insert(policy.clone());
        self.workload_units.extend(model.engine.units_of(policy).map(|(unit_id, _)| unit_id.clone()));
    }

    /// Adds what the health of an entity decides about: an update that continues or fails, and what may stop
    /// in a group.
    fn add_health(&mut self, model: &Model, entity: &Entity) {
        if let Entity::Node(node) = entity {
            // The policy of its group may find that it has failed, or has recovered.
            let is_covered = model.group_of(node).is_some_and(|group| group.health.is_some());
            if is_covered {
                self.add_instances(model, node);
            }
        }
        let Some(policy) = entity.policy() else { return };
        match entity.node() {
            Some(node) => self.add_pair(model, node, policy),
            None => self.add_rollouts_of(model, policy),
        }
        if model.workload(policy).is_some_and(|record| record.update.is_rolling()) {
            self.add_workload(model, policy);
        }
    }

    /// Adds the tasks of a node.
    fn add_instances(&mut self, model: &Model, node: &NodeId) {
        self.pairs.extend(model.engine.pairs_of(node).cloned());
    }

    /// Adds a registration that was written, and the tasks that carry out its recoveries.
    fn add_registration(&mut self, model: &Model, target: &Entity) {
        self.registrations.insert(target.clone());
        let Some(row) = model.registration(target) else { return };
        for (node, recovery) in &row.recoveries {
            self.add_instances(model, node);
            let tasks = model.tasks_of_recovery(&recovery.id);
            self.slots.extend(tasks.map(|task| (task.unit_id.clone(), task.slot.clone())));
        }
    }

    fn add_rollouts_of(&mut self, model: &Model, policy: &PolicyId) {
        let rollouts = model.rollouts.keys().filter(|(_, one)| one == policy);
        self.group_rollouts.extend(rollouts.cloned());
    }

    /// Adds the slot of a task, whose agreement is not concerned.
    fn add_slot(&mut self, model: &Model, task: &Task) {
        self.slots.insert((task.unit_id.clone(), task.slot.clone()));
        if model.workload(&task.unit_id.policy).is_some_and(|record| record.action.is_some()) {
            // It may have reached the goal of a user's action.
            self.workloads.insert(task.unit_id.policy.clone());
        }
    }

    fn add_task(&mut self, model: &Model, task: &Task) {
        self.add_slot(model, task);
        if let Some(node) = &task.node {
            self.add_pair(model, node, &task.unit_id.policy);
        }
    }

    /// Adds what a plan has changed, and all of the workload unit if something in it waits for such a change.
    fn add_plan(&mut self, model: &Model, unit_id: &UnitId, plan: &StoredPlan) {
        for node in plan.tasks.iter().filter_map(|task| task.node.as_ref()) {
            self.add_pair(model, node, &unit_id.policy);
        }
        let is_waiting = model.workload_unit(unit_id).is_some_and(UnitRecord::is_waiting);
        let is_moving = |record: &WorkloadRecord| record.update.is_rolling() || record.action.is_some();
        let is_moving = model.workload(&unit_id.policy).is_some_and(is_moving);
        // What has come to rest may move to a better node.
        let workload = model.workload_of(&unit_id.policy);
        let is_improved = workload.is_some_and(|workload| workload.placement.is_improved());
        if is_waiting || is_moving || is_improved {
            self.workload_units.insert(unit_id.clone());
        }
        self.workloads.insert(unit_id.policy.clone());
        if plan.workload.is_some() {
            // The row is shared by all workload units.
            self.add_workload(model, &unit_id.policy);
        }
    }

    /// Adds the workload units that wait for something in a group.
    fn add_blocked_units(&mut self, model: &Model, group: &GroupId) {
        let is_in_group = |(step, _): &(Step, Blocked)| {
            step.node().is_some_and(|node| model.group_of.get(node) == Some(group))
        };
        let blocked =
            model.engine.workload_units.iter().filter(|(_, unit)| unit.blocked.iter().any(is_in_group));
        self.workload_units.extend(blocked.map(|(unit_id, _)| unit_id.clone()));
    }

    /// Adds what is due, and what an event touched although it does not name it.
    fn add_due_workloads(&mut self, model: &Model, now: Timestamp) {
        let due = model.engine.watches.iter().take_while(|(at, ..)| *at <= now);
        let due = due.map(|(_, unit_id, slot)| (unit_id.clone(), slot.clone()));
        let lost = model.engine.in_flight.iter().filter(|(_, until)| **until <= now);
        let lost = lost.map(|(unit_id, _)| (unit_id.clone(), None));
        for (unit_id, slot) in due.chain(lost).chain(model.engine.touched.iter().cloned()) {
            match slot {
                Some(slot) => {
                    self.slots.insert((unit_id, slot));
                }
                None => {
                    self.workloads.insert(unit_id.policy.clone());
                    self.workload_units.insert(unit_id);
                }
            }
        }
    }

    /// Adds the slots of the tasks of the pairs: their agreements and nodes are what is seen of them.
    fn add_slots_of_pairs(&mut self, model: &Model) {
        if model.engine.is_unused() {
            return;
        }
        for (node, policy) in &self.pairs {
            for task in model.engine.tasks_on(node, policy).filter(|task| !task.is_stopped()) {
                self.slots.insert((task.unit_id.clone(), task.slot.clone()));
            }
        }
    }

    /// Adds the workload units of slots whose members examine each other: the state and the reports of one
    /// concern the others.
    fn add_units_of_peers(&mut self, model: &Model) {
        let has_own = |unit_id: &UnitId| {
            let health = model.workload_of(&unit_id.policy).and_then(|workload| workload.health.as_ref());
            health.is_some_and(|policy| policy.peer_mode().is_some())
        };
        let is_in_group = |node: &NodeId| {
            let health = model.group_of(node).and_then(|group| group.health.as_ref());
            health.is_some_and(|policy| policy.node_peer_mode().is_some())
        };
        let has_peers = |(unit_id, slot): &&(UnitId, Slot)| {
            let unit = model.workload_unit(unit_id);
            let mut tasks = unit.into_iter().flat_map(|unit| unit.tasks(slot).iter());
            has_own(unit_id) || tasks.any(|task| task.node.as_ref().is_some_and(is_in_group))
        };
        let of_peers = self.slots.iter().filter(has_peers).map(|(unit_id, _)| unit_id);
        self.workload_units.extend(of_peers.cloned().collect::<Vec<_>>());
    }

    fn add_policy(&mut self, model: &Model, policy: &PolicyId) {
        let nodes = model.nodes_for(policy);
        self.ruled_out.insert(policy.clone(), (model.nodes.len() - nodes.len()) as u64);
        self.pairs.extend(nodes.into_iter().map(|node| (node, policy.clone())));
        for node in model.live_nodes.get(policy).into_iter().flatten() {
            self.pairs.insert((node.clone(), policy.clone()));
        }
        self.add_rollouts_of(model, policy);
        if model.is_orchestrated(policy) || model.workload(policy).is_some() {
            self.add_workload(model, policy);
        }
    }

    fn add_service(&mut self, model: &Model, service: &ServiceId, key: &ServiceKey) {
        for policy in model.policies_needing(service, key) {
            self.add_policy(model, &policy);
        }
    }

    fn add_group(&mut self, model: &Model, group: &GroupId) {
        for member in model.group(group).into_iter().flat_map(|group| &group.members) {
            self.add_node(model, member);
        }
        self.add_active_group_rollouts_of(model, group);
    }

    fn add_agreement(&mut self, model: &Model, agreement: &AgreementId) {
        if let Some(agreement) = model.agreement(agreement) {
            self.add_pair(model, &agreement.node, &agreement.policy);
        }
    }

    fn add_command(&mut self, model: &Model, command: &Command) {
        match &command.action {
            Action::Propose { agreement, .. } | Action::RepeatProposal { agreement } => {
                self.add_pair(model, &agreement.node, &agreement.policy);
            }
            Action::Cancel { node, policy, .. } | Action::UpdateUsage { node, policy, .. } => {
                self.add_pair(model, node, policy);
            }
            Action::TakeClaim { request } => {
                self.add_active_group_rollouts_of(model, &request.group);
                self.add_queued_group_rollouts(model, &request.scope);
            }
            Action::AdvanceClaim { claim, .. } => self.add_active_group_rollouts_of(model, &claim.group),
            Action::ReleaseClaim { claim, .. } => {
                self.add_blocked_units(model, &claim.group);
                self.add_active_group_rollouts_of(model, &claim.group);
                self.add_queued_group_rollouts(model, &claim.scope);
            }
            Action::RecordRollout { rollout } => {
                self.add_group_rollout(model, &rollout.group, &rollout.policy);
            }
            Action::ApplyPlan { unit_id, plan } => self.add_plan(model, unit_id, plan),
            Action::RecordWorkload { workload, .. } => self.add_policy(model, &workload.policy),
            Action::RemoveWorkload { policy, .. } => self.add_policy(model, policy),
            Action::ReportHealth { .. } | Action::DropHealth { .. } => {}
            Action::RecordRegistration { registration, .. } => {
                self.add_registration(model, &registration.target);
            }
            Action::RemoveRegistration { target } => self.add_registration(model, target),
            // The tables of nodes follow, and touch what they change; what runs there may prove that the cause of a block is over.
            Action::ChangeBlocklist { key, .. } => self.add_instances(model, &key.node),
            Action::AcknowledgeReply { agreement, .. }
            | Action::SendVerification { agreement, .. }
            | Action::SendVerificationReply { agreement, .. }
            | Action::SendPolicyUpdate { agreement, .. }
            | Action::RecordUpdateAccepted { agreement, .. }
            | Action::RecordStopped { agreement, .. }
            | Action::RepeatCancel { agreement, .. }
            | Action::RefuseUpdate { agreement, .. } => self.add_agreement(model, agreement),
        }
    }

    /// Adds a group rollout with the pairs of its members: a rollback changes what they are to run.
    fn add_group_rollout(&mut self, model: &Model, group: &GroupId, policy: &PolicyId) {
        for member in model.group(group).into_iter().flat_map(|group| &group.members) {
            self.pairs.insert((member.clone(), policy.clone()));
        }
        self.group_rollouts.insert((group.clone(), policy.clone()));
    }

    fn add_pair(&mut self, model: &Model, node: &NodeId, policy: &PolicyId) {
        self.pairs.insert((node.clone(), policy.clone()));
        self.add_active_units(model, node);
    }

    fn add_active_units(&mut self, model: &Model, node: &NodeId) {
        if let Some(group) = model.group_of.get(node) {
            self.add_active_group_rollouts_of(model, group);
        }
    }

    /// Adds the group rollouts that hold a claim or are open: a change of one member may unblock another.
    fn add_active_group_rollouts_of(&mut self, model: &Model, group: &GroupId) {
        if !self.groups.insert(group.clone()) {
            return;
        }
        let from = (group.clone(), PolicyId::from_text("/"));
        let rollouts = model.rollouts.range(from..).take_while(|((one, _), _)| one == group);
        let open = rollouts.filter(|(_, rollout)| rollout.is_open());
        self.group_rollouts.extend(open.map(|(group_rollout, _)| group_rollout.clone()));
        for claim in model.claims_of(group) {
            if let Scope::Policy(policy) = &claim.scope {
                self.group_rollouts.insert((group.clone(), policy.clone()));
            }
        }
    }

    /// Adds the group rollouts that wait for the update parallelism of a policy, as many as it allows.
    fn add_queued_group_rollouts(&mut self, model: &Model, scope: &Scope) {
        let Scope::Policy(policy) = scope else { return };
        let Some(groups) = model.parallelism_queue.get(policy) else { return };
        let limit = model.update_settings(policy).parallelism as usize;
        for group in groups.iter().take(if limit == 0 { groups.len() } else { limit }) {
            self.group_rollouts.insert((group.clone(), policy.clone()));
        }
    }

    fn add_all_active_units(&mut self, model: &Model) {
        let open = model.rollouts.iter().filter(|(_, rollout)| rollout.is_open());
        self.group_rollouts.extend(open.map(|(group_rollout, _)| group_rollout.clone()));
        for (group, scope) in model.claims.keys() {
            if let Scope::Policy(policy) = scope {
                self.group_rollouts.insert((group.clone(), policy.clone()));
            }
        }
    }

    fn add_units_of_pairs(&mut self, model: &Model) {
        for (node, policy) in &self.pairs {
            if let Some(group) = model.group_of.get(node) {
                self.group_rollouts.insert((group.clone(), policy.clone()));
            }
        }
    }
}

/// Returns whether an event can end the reason of a claim of a group that it does not name: time, silence, or a deletion.
///
/// All other events concern the claims of the groups of their nodes. Checking all claims for each of them would make an
/// upgrade of many groups at once cost the square of their number.
fn can_free_any_claim(event: &Event) -> bool {
    matches!(
        event,
        Event::Tick
            | Event::FullReconcile
            | Event::PartitionsChanged { .. }
            | Event::HeartbeatsSeen { .. }
            | Event::HaGroupChanged { .. }
            | Event::NodeRemoved { .. }
            | Event::DeploymentPolicyRemoved { .. }
            | Event::NmpRemoved { .. }
    )
}
