//! Workloads and nodes that have to be prepared again: each event marks them, and they are prepared once, also after many events.

use jiff::Timestamp;

use super::{Model, workload_records::UnitRecord};
use crate::event::Event;

impl Model {
    /// Marks what has to be prepared again after an event.
    pub(super) fn mark_stale(&mut self, event: &Event, now: Timestamp) {
        if self.engine.is_unused() {
            self.engine.claimed_by_agents.clear();
            self.engine.blocklist.take_changed();
            return self.engine.stale.clear();
        }
        match event {
            Event::FullReconcile
            | Event::PartitionsChanged { .. }
            | Event::OrgsUnread { .. }
            | Event::OrgSettingsChanged { .. } => {
                self.drop_reports_of_others();
                self.engine.silence.clear();
                self.engine.stale.extend(self.engine.workloads.keys().cloned());
                self.engine
                    .stale
                    .extend(self.engine.workload_units.keys().map(|unit_id| unit_id.policy.clone()));
            }
            Event::Tick => {
                self.note_silence(now);
                let joined = self.engine.workload_units.iter().filter(|(_, unit)| !unit.new_nodes.is_empty());
                self.engine.incomplete.extend(joined.map(|(unit_id, _)| unit_id.clone()));
            }
            Event::NodeChanged { node } => {
                self.expect_heartbeat(&node.id, now);
                self.engine.changed_nodes.insert(node.id.clone());
            }
            Event::NodePolicyChanged { node, .. } => {
                self.engine.changed_nodes.insert(node.clone());
            }
            Event::NodeRemoved { node } => {
                self.engine.removed_nodes.insert(node.clone());
            }
            Event::HeartbeatsSeen { .. } | Event::HaGroupChanged { .. } | Event::HaGroupRemoved { .. } => {
                for node in self.touched.clone() {
                    self.expect_heartbeat(&node, now);
                    self.engine.changed_nodes.insert(node);
                }
            }
            Event::StatisticsSeen { .. } => self.engine.has_new_statistics = true,
            Event::InstanceRecorded { policy, node, .. } => {
                self.engine.changed_instances.insert((policy.clone(), node.clone()));
            }
            _ => {}
        }
        let news = match event {
            Event::DeploymentPolicyChanged { policy } => Some((&policy.id, true)),
            Event::DeploymentPolicyRemoved { policy } => Some((policy, false)),
            _ => None,
        };
        if let Some((policy, exists)) = news {
            let naming = self.engine.relations.note_existence(policy, exists);
            self.engine.stale.extend(naming);
        }
    }

    /// Prepares again what is marked.
    pub(super) fn refresh_stale(&mut self, now: Timestamp) {
        if self.engine.is_unused() {
            return;
        }
        for node in std::mem::take(&mut self.engine.changed_nodes) {
            self.refresh_node(&node, now);
        }
        for node in std::mem::take(&mut self.engine.removed_nodes) {
            let of_node = |unit: &UnitRecord| unit.table.number(&node).is_some();
            let holders = self.engine.workload_units.iter().filter(|(_, unit)| of_node(unit));
            self.engine.incomplete.extend(holders.map(|(unit_id, _)| unit_id.clone()));
        }
        if std::mem::take(&mut self.engine.has_new_statistics) {
            self.refresh_statistics(now);
        }
        // A silent node is away or down, depending on the claim of its agent.
        for group in std::mem::take(&mut self.engine.claimed_by_agents) {
            for node in self.groups.get(&group).map(|group| group.members.clone()).unwrap_or_default() {
                self.refresh_node(&node, now);
            }
        }
        self.follow_blocklist(now);
        for (policy, node) in std::mem::take(&mut self.engine.changed_instances) {
            self.refresh_instance(&policy, &node, now);
        }
        for policy in std::mem::take(&mut self.engine.stale) {
            self.refresh_workload(&policy, now);
        }
        for unit_id in std::mem::take(&mut self.engine.incomplete) {
            self.complete_table(&unit_id, now);
        }
        self.refresh_related(now);
        self.refresh_room();
    }

    /// Drops the marks of single nodes: every workload is prepared as a whole.
    pub(super) fn forget_stale_nodes(&mut self) {
        self.engine.changed_nodes.clear();
        self.engine.removed_nodes.clear();
        self.engine.changed_instances.clear();
        self.engine.has_new_statistics = false;
    }
}
