//! Facts for the gates, from the decision under construction.

use evenkeel_change::{Gate, GateFacts, GroupState, gates_of};
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::{
    blocklist::BlocklistChange,
    facts::Availability,
    report::{Blocked, FrozenLevel},
    time::later,
    workload::{Cause, Change, DesiredState, Part, Slot, Step, Task},
};
use jiff::Timestamp;

use super::UnitPass;

impl GateFacts for UnitPass<'_> {
    fn frozen(&self, step: &Step) -> Option<Blocked> {
        if let Some(group) = self.facts.gone_group.filter(|_| self.starts_anew(step)) {
            return Some(Blocked::GroupGone { group: group.clone() });
        }
        let of_node = || step.node().and_then(|node| self.facts.table.find(node)?.frozen);
        let level = if self.facts.workload.is_frozen { Some(FrozenLevel::Workload) } else { of_node() };
        level.map(|level| Blocked::Frozen { level })
    }

    fn paused(&self, step: &Step) -> Option<Blocked> {
        let Change::Replace { node, .. } = &step.change else { return None };
        if self.update.is_paused() {
            return Some(Blocked::UpdatePaused { message: self.update.message.clone() });
        }
        let node = node.as_ref().and_then(|node| self.facts.table.find(node))?;
        (node.availability == Availability::Pause).then_some(Blocked::NodePaused)
    }

    fn unconfirmed_stop(&self, step: &Step) -> Option<Blocked> {
        let Change::Start { .. } = &step.change else { return None };
        let is_exclusive = self.facts.workload.goal.is_exclusive();
        let others = self.others(&step.slot, is_exclusive);
        others.into_iter().find_map(|task| self.waits_for(task, &step.slot, is_exclusive))
    }

    fn blocklisted(&self, step: &Step) -> Option<Blocked> {
        let Change::Start { node } = &step.change else { return None };
        let task = self.tasks(&step.slot).wanted().next()?;
        self.block_of(task).filter(|_| task.node.as_ref() == Some(node)).cloned()
    }

    fn unfenced_instance(&self, step: &Step) -> Option<Blocked> {
        let Change::Start { node } = &step.change else { return None };
        let policy = self.facts.workload.health.as_ref();
        let is_fencing = policy.is_some_and(|policy| policy.recovery.is_fencing());
        // A task with a lease is one that a policy fences.
        let is_fenced = |task: &Task| is_fencing || task.health.supervision.lease_secs.is_some();
        let others = self.others(&step.slot, self.facts.workload.goal.is_exclusive());
        let elsewhere = others.into_iter().filter(|task| task.node.as_ref().is_some_and(|one| one != node));
        let lost = elsewhere.filter(|task| is_fenced(task) && self.is_node_lost(task));
        lost.into_iter().find_map(|task| super::unfenced(self, task))
    }

    fn missing_successor(&self, step: &Step) -> Option<Blocked> {
        let Change::Stop { node } = &step.change else { return None };
        let group = self.group_of(node).filter(|group| group.running.contains(node))?;
        if self.loses_nothing(group, node) {
            return None;
        }
        let table = self.facts.table;
        let is_selected = |member: &NodeId| {
            let row = table.find(member);
            row.is_none_or(|row| row.is_member && !row.eligibility.is_failed() && !row.expression.is_failed())
        };
        group.missing_successor((node, self.min_running()), is_selected)
    }

    fn common_cause(&self, step: &Step) -> Option<Blocked> {
        super::common_cause(self, step)
    }

    fn exhausted_recoveries(&self, step: &Step) -> Option<Blocked> {
        super::exhausted_recoveries(self, step)
    }

    fn host_minimum(&self, node: &NodeId) -> Option<Blocked> {
        self.facts.recovery.host_blocks.get(node).cloned()
    }

    fn group_of(&self, node: &NodeId) -> Option<&GroupState> {
        let group: &GroupId = self.facts.table.find(node)?.group.as_ref()?;
        self.group(group)
    }

    fn min_running(&self) -> u32 {
        // The only instance of a group stops before the next one starts.
        let workload = self.facts.workload;
        if workload.goal.is_exclusive() { 0 } else { workload.update.min_running }
    }

    fn unready_parent(&self, step: &Step) -> Option<Blocked> {
        self.facts.dependencies.unready_parent(step.node())
    }

    fn running_child(&self, step: &Step) -> Option<Blocked> {
        self.facts.dependencies.running_child(step.node())
    }

    fn grace_until(&self, step: &Step) -> Option<Timestamp> {
        // Instances on a node that may only be late are not stopped either; what ended on its own node takes no place of theirs.
        let is_of_loss = step.cause == Cause::NodeLost;
        let is_start = matches!(step.change, Change::Start { .. }) && !self.stays_on_its_node(step);
        let unheard = self.facts.unheard_until.filter(|_| is_of_loss || is_start);
        self.facts.grace_until.max(unheard).filter(|until| *until > self.now)
    }

    fn incompatible(&self) -> Option<Blocked> {
        let versions = self.facts.incompatible;
        (!versions.is_empty()).then(|| Blocked::IncompatibleVersions { versions: versions.to_vec() })
    }

    fn exhausted_budget(&self, step: &Step) -> Option<Blocked> {
        if !matches!(step.change, Change::Replace { .. }) {
            return None;
        }
        let limit = self.update_settings().parallelism;
        let is_own = |slot: &Slot, part: &Part| *part == self.facts.unit_id.part && *slot == step.slot;
        // A slot that is in work continues, even if the limit was lowered meanwhile.
        let has_ticket = self.update.tickets().any(|(part, slot, _)| is_own(slot, part));
        let is_over = limit > 0 && self.update.tickets().count() >= limit as usize;
        (is_over && !has_ticket).then_some(Blocked::UpdateBudget { limit })
    }

    fn is_forced(&self, step: &Step) -> bool {
        let is_drain = step.cause == Cause::Drain;
        step.cause.is_forced()
            || step.cause.is_update() && self.update.is_forced
            || is_drain && step.node().is_some_and(|node| self.is_drain_forced(node))
    }

    fn delayed_until(&self, step: &Step) -> Option<Timestamp> {
        let Change::Start { .. } = &step.change else { return None };
        let task = self.tasks(&step.slot).wanted().next()?;
        // A clock that was set back never makes the wait longer than the delay.
        Some(task.start_at).filter(|until| *until > self.now)
    }
}

impl UnitPass<'_> {
    /// Returns why no node is chosen for a task while automatic decisions are suspended.
    pub fn suspended_by(&self, task: &Task) -> Option<Blocked> {
        gates_of(self.cause_of_start(task).kind())
            .contains(&Gate::Compatibility)
            .then(|| self.incompatible())
            .flatten()
    }

    /// Returns why the node of a task gets no start of it, before or by this decision.
    pub(crate) fn block_of(&self, task: &Task) -> Option<&Blocked> {
        // Facts about nodes apply to the current version.
        let node = task.node.as_ref().filter(|_| task.spec == self.versions.current)?;
        let row = || self.facts.table.find(node)?.marks.blocklisted.as_deref();
        self.facts.blocklist.blocked.get(node).or_else(|| self.probed.get(node)).or_else(row)
    }

    /// Records that the start of a task probes its node after a block: one does at a time.
    pub fn begin_probe(&mut self, task: &Task) {
        let row = self.node_of(task).filter(|_| task.spec == self.versions.current);
        let Some(key) = row.and_then(|row| row.marks.probe.as_deref().cloned()) else { return };
        let blocked = Blocked::Blocklisted {
            service: key.service.clone(),
            version: key.version.clone(),
            until: self.now,
            failure: "another instance tries it".to_owned(),
        };
        self.blocked_nodes.extend(self.facts.table.number(&key.node));
        self.eliminations.clear();
        self.probed.insert(key.node.clone(), blocked);
        self.plan.blocklist.push((key, BlocklistChange::Probed { task: task.id.clone(), at: self.now }));
    }

    /// Returns why a task that may run once only may still run on a node that was deleted.
    pub fn departing(&self, task: &Task) -> Option<Blocked> {
        let departure = self.facts.departures.get(task.node.as_ref()?)?;
        let tasks = (task, self.tasks(&task.slot));
        departure.may_still_run(tasks, self.facts.workload, self.facts.settings, self.now)
    }

    /// Returns whether the version list of the workload has versions that were not tried often enough on a node.
    pub(crate) fn has_versions_left(&self, node: &NodeId) -> bool {
        let row = || self.facts.table.find(node).is_some_and(|row| row.marks.has_versions_left);
        self.facts.blocklist.has_versions_left.get(node).copied().unwrap_or_else(row)
    }

    /// Returns whether a start follows an instance of its slot that has ended on the same node.
    fn stays_on_its_node(&self, step: &Step) -> bool {
        let Change::Start { node } = &step.change else { return false };
        let tasks = self.tasks(&step.slot);
        let Some(next) = tasks.wanted().next() else { return false };
        let earlier = tasks.iter().filter(|task| task.generation < next.generation);
        let before = earlier.max_by_key(|task| task.generation);
        before.is_some_and(|task| task.state.is_ended() && task.node.as_ref() == Some(node))
    }

    /// Returns whether a step leads to an instance that does not take the place of one that ended on the same node.
    fn starts_anew(&self, step: &Step) -> bool {
        match &step.change {
            Change::Stop { .. } | Change::Repair { .. } => false,
            Change::Start { node } => {
                let mut before = self.tasks(&step.slot).iter().filter(|task| task.state.is_ended());
                step.cause != Cause::TaskFailed || !before.any(|task| task.node.as_ref() == Some(node))
            }
            Change::Replace { .. } | Change::Relocate { .. } => true,
        }
    }

    /// Returns the tasks that may have to stop before one starts in a slot.
    pub(crate) fn others(&self, slot: &Slot, is_exclusive: bool) -> Vec<&Task> {
        if !is_exclusive {
            return self.tasks(slot).iter().collect();
        }
        self.facts.slots.keys().flat_map(|slot| self.tasks(slot).iter()).collect()
    }

    /// Returns why a start has to wait for another task of the workload unit.
    fn waits_for(&self, task: &Task, slot: &Slot, is_exclusive: bool) -> Option<Blocked> {
        let node = task.node.clone().filter(|_| !task.state.is_ended())?;
        if let Some(departing) = self.departing(task) {
            return Some(departing);
        }
        if task.is_wanted() {
            // What a lost node has is replaced; back again, it runs beside the replacement.
            let is_replaced = task.slot == *slot && self.is_node_lost(task);
            let is_second = is_exclusive && task.desired == DesiredState::Running && !is_replaced;
            return is_second.then_some(Blocked::InstanceElsewhere { node });
        }
        let since = task.desired_at.unwrap_or(task.created_at);
        let until = later(since, self.stop_timeout_secs(slot));
        let is_over = !is_exclusive && self.now >= until && !self.is_fenced_recreation(task, slot);
        if is_over || self.is_node_lost(task) {
            return None;
        }
        let agreement = task.agreement.clone().filter(|_| is_exclusive);
        Some(Blocked::TaskStopping { task: task.id.clone(), node, since, agreement })
    }

    /// Returns whether a recovery creates an instance on another node and must know that the one before is dead, unless the policy forces it.
    ///
    /// # Source
    /// Orchestration C8.
    fn is_fenced_recreation(&self, before: &Task, slot: &Slot) -> bool {
        let policy = self.facts.workload.health.as_ref().map(|policy| &policy.recovery);
        policy.is_some_and(|recovery| recovery.is_fencing() && !recovery.node_force_recreate)
            && self.tasks(slot).wanted().any(|task| task.is_recreated() && task.node != before.node)
    }

    /// Returns how long the task that starts in a slot waits for a stop that is not confirmed.
    ///
    /// # Source
    /// Orchestration C2 (`node_delete_timeout`, `node_force_recreate`).
    fn stop_timeout_secs(&self, slot: &Slot) -> u64 {
        let longest = self.facts.settings.old_task_timeout_secs;
        let policy = self.facts.workload.health.as_ref().map(|policy| &policy.recovery);
        let forced = policy.filter(|recovery| recovery.node_force_recreate);
        let task = self.tasks(slot).wanted().next();
        let is_recreated = task.is_some_and(Task::is_recreated);
        forced.filter(|_| is_recreated).map_or(longest, |recovery| recovery.node_delete_timeout.min(longest))
    }

    /// Returns the settings of the update, or of the rollback.
    pub fn update_settings(&self) -> &evenkeel_planner_record::settings::UpdateSettings {
        let workload = self.facts.workload;
        if self.update.is_rollback() { &workload.rollback } else { &workload.update }
    }
}
