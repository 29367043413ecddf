//! Work that the hub itself does for tasks: checks that it makes, and workflows that it calls.
//!
//! The agbot that holds a workload unit does it, and reports what it found as events; one that holds the HA group of a node makes the checks
//! of the group's policy as well. A report is not stored: after a restart, or with another owner, nothing is known before the next check,
//! and that counts as healthy. Source: orchestration C4.2, C6.

use evenkeel_ids::{NodeId, TaskId};
use evenkeel_planner_record::workload::{
    EndedCommand, PeerVotes, Probe, RecoveryCommand, ReportedHealth, Task, WorkflowCall,
};
use jiff::Timestamp;

use super::{Liveness, Model};

/// A task for which the hub has something to do.
#[derive(Debug, Clone, Copy)]
pub struct HubTask<'m> {
    /// Its id.
    pub id: &'m TaskId,
    /// Its node.
    pub node: &'m NodeId,
    /// Address of the node, as its agent reported; none when that is not known.
    pub address: Option<&'m str>,
    /// The URL that is polled now.
    pub probe: Option<&'m Probe>,
    /// True if the last check of the hub succeeded; none before the first one.
    pub is_healthy: Option<bool>,
    /// Reason why the last check was broken itself.
    pub check_error: Option<&'m str>,
    /// The call that has not ended, with the id of its command.
    pub call: Option<(&'m str, &'m WorkflowCall)>,
}

impl Model {
    /// Returns the tasks for which this agbot has something to do, by id.
    pub fn hub_tasks(&self) -> impl Iterator<Item = HubTask<'_>> {
        self.engine.hub_tasks().filter_map(|(task, found)| {
            let is_own = self.lease_for_unit(&task.unit_id).is_some();
            if !is_own && !self.checks_node_of(task) {
                return None;
            }
            self.hub_task(task, found, is_own)
        })
    }

    /// Returns the tasks whose URL the hub polls, by id, whichever agbot does that.
    pub fn polled_tasks(&self) -> impl Iterator<Item = HubTask<'_>> {
        self.engine.hub_tasks().filter_map(|(task, found)| self.hub_task(task, found, false))
    }

    /// Returns what the hub has to do for a task now; only its owner makes calls.
    fn hub_task<'m>(
        &'m self,
        task: &'m Task,
        found: Option<&'m ReportedHealth>,
        is_own: bool,
    ) -> Option<HubTask<'m>> {
        let node = task.node.as_ref()?;
        let ended = found.and_then(|found| found.command.as_ref());
        let command = task.health.command().filter(|command| is_own && !is_ended(command, ended));
        let call = command.and_then(|command| Some((command.id.as_str(), &**command.call.as_ref()?)));
        // While it is being recovered a member is checked as well: that shows whether the action helped.
        let probe =
            task.health.supervision.hub_probe.as_deref().filter(|_| task.is_live() && task.is_running());
        let is_healthy = found.and_then(|found| found.healthy);
        let address = self.node(node).and_then(|record| record.address.as_deref());
        (probe.is_some() || call.is_some()).then_some(HubTask {
            id: &task.id,
            node,
            address,
            probe,
            is_healthy,
            check_error: found.and_then(|found| found.check_error.as_deref()),
            call,
        })
    }

    /// Returns whether this agbot decides about the HA group of a task's node, and the policy of the group is why the hub polls its URL.
    fn checks_node_of(&self, task: &Task) -> bool {
        let Some(group) = task.node.as_ref().and_then(|node| self.group_of(node)) else { return false };
        let policy = group.health.as_ref();
        policy.is_some_and(|policy| task.health.supervision.is_polled_for(policy))
            && self.lease_for_group(&group.id).is_some()
    }

    /// Returns whether the node of a task reported life-cycle events that were not recorded yet.
    pub fn has_new_events(&self, task: &Task) -> bool {
        let record = task.node.as_ref().and_then(|node| self.node(node));
        let reported = record.and_then(|record| record.health.get(&task.id));
        task.is_wanted() && reported.is_some_and(|reported| reported.events > task.health.events_seen)
    }

    /// Returns what its node, the hub and other members found about the health of a task.
    pub fn found_health(&self, task: &Task, now: Timestamp) -> Option<ReportedHealth> {
        let record = self.node(task.node.as_ref()?)?;
        let by_node = record.health.get(&task.id).cloned().unwrap_or_default();
        let by_hub = self.engine.hub_report(&task.id).filter(|_| task.health.has_hub_work());
        let votes = self.peer_votes(&task.id, now);
        let mut found = ReportedHealth { engine: record.engine, votes, ..by_node };
        if let Some(by_hub) = by_hub {
            if task.health.supervision.hub_probe.is_some() {
                (found.healthy, found.message) = (by_hub.healthy, by_hub.message.clone());
                found.check_error.clone_from(&by_hub.check_error);
            }
            if task.health.command().is_some_and(|command| is_ended(command, by_hub.command.as_ref())) {
                found.command.clone_from(&by_hub.command);
            }
        }
        Some(found)
    }

    /// Returns the reports of the other members of its workload unit about a task. A report counts as long as
    /// its member runs on a node that is alive.
    pub(crate) fn peer_votes(&self, task: &TaskId, now: Timestamp) -> PeerVotes {
        let mut votes = PeerVotes::default();
        for member in self.watchers_of(task).filter(|member| member.is_wanted() && member.is_running()) {
            let Some((node, watch)) = member.node.as_ref().zip(member.health.supervision.peers.as_ref())
            else {
                continue;
            };
            let record = self.node(node).filter(|_| self.liveness(node, now) == Liveness::Alive);
            let said = record.and_then(|record| record.health.get(&member.id));
            let Some(is_online) = said.and_then(|said| said.peers.get(task)) else { continue };
            votes.is_pair = watch.members.len() == 1;
            votes.reports += 1;
            votes.offline += u32::from(!is_online);
        }
        votes
    }

    /// Forgets what the hub found about tasks that another agbot owns now.
    pub(super) fn forget_foreign_hub_reports(&mut self) {
        let own = |id: &TaskId| {
            let task = self.task(id);
            task.is_some_and(|task| self.lease_for_unit(&task.unit_id).is_some() || self.checks_node_of(task))
        };
        let foreign: Vec<TaskId> = self.engine.hub_reports().filter(|id| !own(id)).cloned().collect();
        foreign.iter().for_each(|id| self.engine.forget_hub_report(id));
    }
}

fn is_ended(command: &RecoveryCommand, ended: Option<&EndedCommand>) -> bool {
    ended.is_some_and(|ended| ended.id == command.id)
}
