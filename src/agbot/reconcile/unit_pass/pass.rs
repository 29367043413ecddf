//! A decision about a workload unit under construction: the tasks as they will be, and what has been found so far.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::{self as change, Gate, GroupState, Permit};
use evenkeel_ids::{GroupId, NodeId, TaskId};
use evenkeel_placement::{
    place::{Buffer, Elimination, UnitNode, loading_tasks},
    slots::{self, SlotCondition},
};
use evenkeel_planner_model::plan::{InstanceFailure, TaskChange, UnitEvent, UnitPlan};
use evenkeel_planner_record::{
    claims::{Claim, Phase, Purpose, Scope},
    report::Blocked,
    stable_hash::stable_hash,
    time::later,
    workload::{
        ActionGoal, Cause, Change, DesiredState, Ending, NodeRestarts, Peer, Slot, SlotTasks, SpecVersion,
        Step, Task, TaskHealth, TaskState, UpdateStatus, Versions,
    },
};
use jiff::Timestamp;
use serde_json::json;

use super::{RestartVerdict, UnitFacts, contest, failed_start, snapshot, version_loads::AddedLoads};

/// A decision under construction.
pub struct UnitPass<'a> {
    pub facts: &'a UnitFacts<'a>,
    pub now: Timestamp,
    pub plan: UnitPlan,
    /// The status of the update as it will be.
    pub update: UpdateStatus,
    /// The versions as they will be.
    pub versions: Versions,
    /// Instances added to nodes by this decision, or removed.
    pub added: BTreeMap<u32, i64>,
    /// Use of node capacities that this decision adds.
    pub(super) loads: AddedLoads,
    /// Nodes that this decision marks as failed.
    pub failed_nodes: roaring::RoaringBitmap,
    /// Nodes on which nothing is started from now on.
    pub blocked_nodes: roaring::RoaringBitmap,
    /// Nodes on which this decision starts a probe: no other task starts there.
    pub probed: BTreeMap<NodeId, Blocked>,
    /// Tasks without a node, in the order in which they are placed.
    pub pending: Vec<(Slot, TaskId)>,
    pub(super) eliminations: BTreeMap<Buffer, Elimination>,
    /// Goal of a user's action for the workload unit, while it is not reached.
    pub action_goal: Option<&'a ActionGoal>,
    /// Instances on which this decision begins an action of a recovery, by node.
    pub recovering: BTreeMap<NodeId, Slot>,
    /// The members that examine each other, as long as none comes or goes.
    pub circle: Option<Circle>,
    /// Tasks that claim a node which another one contests.
    pub contested: BTreeSet<TaskId>,
    /// Slots that differ from the facts.
    changed: BTreeMap<Slot, SlotTasks>,
    /// Slots with something to start.
    pub starting: BTreeSet<Slot>,
    groups: BTreeMap<GroupId, GroupState>,
    seed: u64,
    created: u32,
}

static NO_TASKS: SlotTasks = SlotTasks::EMPTY;

impl<'a> UnitPass<'a> {
    pub fn new(facts: &'a UnitFacts<'a>, now: Timestamp, seed: u64) -> Self {
        let numbers = facts.blocklist.blocked.keys().filter_map(|node| facts.table.number(node));
        let mut pass = Self {
            facts,
            now,
            plan: UnitPlan { blocklist: facts.blocklist.changes.clone(), ..UnitPlan::default() },
            update: facts.update.clone(),
            versions: facts.workload.versions,
            added: BTreeMap::new(),
            loads: AddedLoads::default(),
            failed_nodes: roaring::RoaringBitmap::new(),
            blocked_nodes: numbers.collect(),
            probed: BTreeMap::new(),
            pending: Vec::new(),
            eliminations: BTreeMap::new(),
            action_goal: None,
            recovering: BTreeMap::new(),
            circle: None,
            contested: BTreeSet::new(),
            changed: BTreeMap::new(),
            starting: BTreeSet::new(),
            groups: BTreeMap::new(),
            seed,
            created: 0,
        };
        for (slot, tasks) in facts.observed {
            tasks.iter().for_each(|task| pass.observe(slot, task));
        }
        pass.contested = contest::contested(&pass);
        pass
    }

    /// Takes over a task as it was seen.
    fn observe(&mut self, slot: &Slot, task: &Task) {
        let seen = task.clone();
        self.change(slot, &task.id, |task| *task = seen);
    }

    /// Returns the tasks of a slot as they will be.
    pub fn tasks(&self, slot: &Slot) -> &SlotTasks {
        self.changed.get(slot).or_else(|| self.facts.slots.get(slot)).unwrap_or(&NO_TASKS)
    }

    /// Returns all slots that have, or will have, tasks.
    pub fn all_slots(&self) -> Vec<Slot> {
        let new = self.changed.keys().filter(|slot| !self.facts.slots.contains_key(*slot));
        self.facts.slots.keys().chain(new).cloned().collect()
    }

    /// Returns the first slot with a task that is wanted.
    pub fn first_wanted_slot(&self) -> Option<&Slot> {
        let is_wanted = |slot: &&Slot| self.tasks(slot).wanted().next().is_some();
        let first = [self.facts.slots.keys().find(is_wanted), self.changed.keys().find(is_wanted)];
        first.into_iter().flatten().min()
    }

    /// Returns the node of a task, if the workload unit knows it.
    pub fn node_of(&self, task: &Task) -> Option<&'a UnitNode> {
        self.facts.table.find(task.node.as_ref()?)
    }

    /// Returns whether a node is drained without regard to the HA groups of what runs there.
    pub fn is_drain_forced(&self, node: &NodeId) -> bool {
        self.facts.table.find(node).is_some_and(|node| node.is_drain_forced)
    }

    /// Returns whether the node of a task is deleted or down.
    pub fn is_node_lost(&self, task: &Task) -> bool {
        task.node.is_some() && self.node_of(task).is_none_or(|node| node.down_since().is_some())
    }

    fn change(&mut self, slot: &Slot, id: &TaskId, change: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks(slot).iter().find(|task| task.id == *id) else { return };
        let (mut task, was_live) = (task.clone(), task.is_live());
        let was_member = task.is_wanted() && task.is_running();
        change(&mut task);
        if was_member != (task.is_wanted() && task.is_running()) {
            self.circle = None;
        }
        if let Some(number) = task.node.as_ref().and_then(|node| self.facts.table.number(node)) {
            let by = i64::from(task.is_live()) - i64::from(was_live);
            if by != 0 {
                *self.added.entry(number).or_default() += by;
            }
        }
        self.put(slot, task);
    }

    fn put(&mut self, slot: &Slot, task: Task) {
        let base = self.facts.slots.get(slot);
        self.changed.entry(slot.clone()).or_insert_with(|| base.cloned().unwrap_or_default()).put(task);
    }

    /// Raises the desired state of a task.
    pub fn raise(&mut self, slot: &Slot, id: &TaskId, desired: DesiredState) {
        let now = self.now;
        self.change(slot, id, |task| {
            task.raise_desired(desired, now);
        });
    }

    /// Replaces what is stored about the health of a task.
    pub fn set_health(&mut self, slot: &Slot, id: &TaskId, health: TaskHealth) {
        self.change(slot, id, |task| task.health = health);
    }

    /// Keeps a slot on its node.
    pub fn forget_origin(&mut self, slot: &Slot, id: &TaskId) {
        self.change(slot, id, |task| task.origin = None);
    }

    /// Delays the start of a task that has its node until the given time.
    pub fn postpone(&mut self, slot: &Slot, id: &TaskId, start_at: Timestamp) {
        self.change(slot, id, |task| task.start_at = start_at);
    }

    /// Abandons a task.
    pub fn orphan(&mut self, slot: &Slot, id: &TaskId) {
        let now = self.now;
        self.change(slot, id, |task| {
            // An ended task stays as it is.
            let _ = task.orphan(now);
        });
    }

    /// Assigns a task to a node, to be started at the given time at the earliest.
    pub fn assign(&mut self, slot: &Slot, id: &TaskId, node: &NodeId, start_at: Timestamp) {
        let (now, before) = (self.now, loading_tasks(self.tasks(slot), node));
        self.change(slot, id, |task| {
            if task.assign(node, now).is_ok() {
                task.start_at = start_at;
            }
        });
        // A task without a node is live, too.
        if let Some(number) = self.facts.table.number(node) {
            *self.added.entry(number).or_default() += 1;
            self.add_loads(slot, id, number, before);
        }
        self.note_own_restarts(slot, id, node);
        self.starting.insert(slot.clone());
    }

    /// Creates a task that waits for its node, or for its start on the given one.
    pub fn create(&mut self, slot: &Slot, spec: SpecVersion, cause: Cause, node: Option<&NodeId>) -> TaskId {
        self.create_at(slot, spec, cause, node, self.now)
    }

    /// See [`UnitPass::create`]; the task starts at the given time at the earliest.
    pub fn create_at(
        &mut self,
        slot: &Slot,
        spec: SpecVersion,
        cause: Cause,
        node: Option<&NodeId>,
        start_at: Timestamp,
    ) -> TaskId {
        let id = self.new_task_id(slot);
        let task = Task {
            id: id.clone(),
            unit_id: self.facts.unit_id.clone(),
            slot: slot.clone(),
            generation: self.tasks(slot).next_generation(),
            spec,
            node: None,
            agreement: None,
            desired: DesiredState::Ready,
            state: TaskState::Pending,
            seq: 0,
            cause,
            origin: snapshot::origin_of_successor(self, slot, cause),
            created_at: self.now,
            start_at,
            desired_at: None,
            state_at: self.now,
            running_at: None,
            ended_at: None,
            health: TaskHealth::default(),
            is_end_requested: None,
            restarts: NodeRestarts::default(),
        };
        self.put(slot, task);
        match node {
            Some(node) => self.assign(slot, &id, node, start_at),
            None => self.pending.push((slot.clone(), id.clone())),
        }
        id
    }

    fn new_task_id(&mut self, slot: &Slot) -> TaskId {
        self.created += 1;
        let unit_id = self.facts.unit_id;
        let high = self.seed ^ stable_hash(&[unit_id.policy.as_str(), unit_id.name()]);
        let low = stable_hash(&[&slot.to_string()]) & 0xffff_ffff;
        TaskId::from_text(&format!("{high:016x}{:08x}{low:08x}", self.created))
    }

    /// Stops all tasks of a slot, which stay as its history.
    pub fn stop_slot(&mut self, slot: &Slot) {
        let ids: Vec<TaskId> = self.tasks(slot).wanted().map(|task| task.id.clone()).collect();
        for id in ids {
            self.raise(slot, &id, DesiredState::Shutdown);
        }
    }

    /// Stops all tasks of a slot, to be deleted after that.
    pub fn remove_slot(&mut self, slot: &Slot) {
        let ids: Vec<TaskId> = self.tasks(slot).iter().map(|task| task.id.clone()).collect();
        for id in ids {
            self.raise(slot, &id, DesiredState::Remove);
        }
    }

    /// Returns whether a slot counts toward the goal.
    pub fn condition(&self, slot: &Slot) -> SlotCondition {
        slots::condition(self.tasks(slot), |tasks| {
            tasks.newest().is_none_or(|newest| {
                failed_start::has_failed_to_start(self, newest)
                    || matches!(
                        self.judge(slot, newest),
                        RestartVerdict::Restart { .. } | RestartVerdict::Wait { .. }
                    )
            })
        })
    }

    /// Returns the version for a task that replaces another one outside of the update: an update that has not begun or is unfinished is not
    /// spread by it, and neither is a version that was given up.
    pub fn spec_of_replacement(&self, task: &Task) -> SpecVersion {
        let (versions, update) = (&self.versions, &self.update);
        let is_begun = self.facts.workload.keeps_running || update.target == Some(versions.current);
        let is_unfinished = !is_begun || update.is_rolling() || update.is_paused();
        if is_unfinished && versions.previous == Some(task.spec) { task.spec } else { versions.current }
    }

    /// Returns a permit for the step, or records what blocks it.
    pub fn permit(&mut self, step: &Step) -> Option<Permit> {
        match change::permit(self, step) {
            Ok(permit) => {
                if let Some(claim) = &permit.claim {
                    self.claim(&claim.group.id, &claim.node);
                }
                self.note_bypass(step);
                Some(permit)
            }
            Err(blocked) => {
                self.block(step, blocked);
                None
            }
        }
    }

    /// Reports that an instance stops although a child is up.
    ///
    /// # Source
    /// Orchestration A8.3.
    pub fn note_bypass(&mut self, step: &Step) {
        let stops = !matches!(step.change, Change::Start { .. } | Change::Replace { may_run: false, .. });
        if !stops || self.facts.workload.children.is_empty() {
            return;
        }
        let Some(Blocked::ChildUp { child }) = change::GateFacts::running_child(self, step) else { return };
        self.emit("dependency.bypassed", Some(&step.slot), step.node(), format!("child {child} is up"));
    }

    /// Reports that an instance begins to wait for a parent or a child.
    fn note_wait(&mut self, step: &Step, blocked: &Blocked) {
        let (gate, kind) = match (blocked, &step.change) {
            (Blocked::ParentNotUp { .. }, Change::Start { .. }) => (Gate::Parents, "instance.wait-parents"),
            (Blocked::ChildUp { .. }, _) => (Gate::Children, "instance.wait-children"),
            _ => return,
        };
        if !self.facts.dependencies.has_waited(gate, &step.slot) {
            self.emit(kind, Some(&step.slot), step.node(), blocked.to_string());
        }
    }

    /// Makes the transaction verify that no task on the node of a placement excludes it, and that its resources are still free.
    pub fn stay_apart(&mut self, slot: &Slot, node: &NodeId, cause: Cause) {
        let partners = &self.facts.workload.placement.affinity.hard_anti;
        let is_limited = self.facts.table.find(node).is_some_and(|row| row.room.is_some());
        if !partners.is_empty() || is_limited {
            let change = Change::Start { node: node.clone() };
            let step = self.step(slot, change, cause);
            let apart_from = partners.iter().cloned().collect();
            let counted_tasks = is_limited.then(BTreeSet::new);
            self.keep(Permit { apart_from, counted_tasks, ..Permit::new(&step) });
        }
    }

    /// Records a permit that is used.
    pub fn keep(&mut self, permit: Permit) {
        self.plan.permits.push(permit);
    }

    /// Returns a step of a slot.
    pub fn step(&self, slot: &Slot, change: Change, cause: Cause) -> Step {
        Step { unit_id: self.facts.unit_id.clone(), slot: slot.clone(), change, cause }
    }

    /// Returns whether the instance on a node may stop, and keeps the permit for it.
    pub fn permits_stop(&mut self, slot: &Slot, node: &NodeId, cause: Cause) -> bool {
        let change = Change::Stop { node: node.clone() };
        let step = self.step(slot, change, cause);
        let permit = self.permit(&step);
        permit.map(|permit| self.keep(permit)).is_some()
    }

    /// Records what blocks a step.
    pub fn block(&mut self, step: &Step, blocked: Blocked) {
        self.note_wait(step, &blocked);
        match &blocked {
            Blocked::StartDelayed { until }
            | Blocked::JustStarted { until }
            | Blocked::FencePending { until, .. }
            | Blocked::AffinityWait { until, .. } => self.wake(*until),
            Blocked::TaskStopping { since, .. } => {
                self.wake(later(*since, self.facts.settings.old_task_timeout_secs));
            }
            _ => {}
        }
        self.plan.blocked.push((step.clone(), blocked));
    }

    /// Counts a member as disrupted for the rest of this decision.
    fn claim(&mut self, group: &GroupId, node: &NodeId) {
        let policy = self.facts.unit_id.policy.clone();
        let claim = Claim {
            group: group.clone(),
            scope: Scope::Policy(policy),
            node: node.clone(),
            purpose: Purpose::ServiceUpgrade,
            version: String::new(),
            fencing: 0,
            phase: Phase::Stopping,
            since: self.now,
            phase_since: self.now,
            deadline: later(self.now, self.facts.workload.update.start_timeout_secs),
        };
        if let Some(state) = self.facts.groups.get(group) {
            self.groups.entry(group.clone()).or_insert_with(|| state.clone()).claims.push(claim);
        }
    }

    pub(super) fn group(&self, id: &GroupId) -> Option<&GroupState> {
        self.groups.get(id).or_else(|| self.facts.groups.get(id))
    }

    /// Plans again at this time, if nothing happens before.
    pub fn wake(&mut self, at: Timestamp) {
        if at > self.now {
            self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |earlier| earlier.min(at)));
        }
    }

    pub fn emit(&mut self, kind: &'static str, slot: Option<&Slot>, node: Option<&NodeId>, text: String) {
        self.emit_with(kind, slot, node, text, None);
    }

    /// Reports an event with more than its text.
    pub fn emit_with(
        &mut self,
        kind: &'static str,
        slot: Option<&Slot>,
        node: Option<&NodeId>,
        text: String,
        data: Option<serde_json::Value>,
    ) {
        let (slot, node) = (slot.cloned(), node.cloned());
        self.plan.events.push(UnitEvent { kind: kind.into(), slot, node, text, data });
    }

    pub fn fail_node(&mut self, node: &NodeId, version: u64, message: String) {
        if let Some(number) = self.facts.table.number(node) {
            self.failed_nodes.insert(number);
            self.eliminations.clear();
        }
        self.plan.failures.push(InstanceFailure { node: node.clone(), message, version, is_of_stop: false });
    }

    /// Marks a node on which a stop failed: nothing starts on it until a user clears that.
    pub fn fail_stop(&mut self, node: &NodeId, message: String) {
        if let Some(number) = self.facts.table.number(node) {
            self.failed_nodes.insert(number);
            self.eliminations.clear();
        }
        let version = self.versions.current.number;
        self.plan.failures.push(InstanceFailure { node: node.clone(), message, version, is_of_stop: true });
    }

    /// Returns whether a stop failed on a node, before or in this decision.
    pub fn has_failed_to_stop_on(&self, node: &UnitNode) -> bool {
        let is_meant = |failure: &InstanceFailure| failure.is_of_stop && failure.node == node.id;
        node.marks.stop_failed.is_some() || self.plan.failures.iter().any(is_meant)
    }

    /// Records whether a user chose a node.
    pub fn pin(&mut self, node: &NodeId, is_pinned: bool) {
        if self.facts.table.find(node).is_some_and(|row| row.is_pinned != is_pinned) {
            self.plan.pins.insert(node.clone(), is_pinned);
        } else {
            self.plan.pins.remove(node);
        }
    }

    /// Returns whether a user's action starts instances.
    pub fn is_started_by_user(&self) -> bool {
        self.action_goal.is_some_and(ActionGoal::starts_missing)
    }

    /// Returns whether a task ended before a user's action that starts instances, whatever the restart policy is.
    pub fn starts_again(&self, ended: &Task) -> bool {
        let action = self.facts.workload.action.as_ref().filter(|_| self.is_started_by_user());
        action.is_some_and(|action| ended.state_at < action.accepted_at)
    }

    /// Returns why a task starts. Conditions that block automatic starts do not block starts by a user.
    pub fn cause_of_start(&self, task: &Task) -> Cause {
        let is_automatic = matches!(task.cause, Cause::Scale | Cause::NodeLost);
        match &self.facts.workload.action {
            Some(action) if is_automatic && self.is_started_by_user() => {
                Cause::User { force: action.is_forced }
            }
            _ => task.cause,
        }
    }

    /// Returns the slot for one more instance on a node.
    pub fn free_slot(&self, node: &NodeId) -> Slot {
        if self.facts.workload.goal.is_per_node() {
            return Slot::Node(node.clone());
        }
        let mut used = self.all_slots();
        used.retain(|slot| self.tasks(slot).wanted().next().is_some());
        let number = slots::new_numbers(&used, 1).into_iter().next().unwrap_or(u32::MAX);
        Slot::Number(number)
    }

    /// Emits an event when an update has been blocked for some time, and when it proceeds again.
    fn note_blocked_update(&mut self) {
        let was_announced = self.facts.update.blocked.as_ref().is_some_and(|blocked| blocked.is_announced);
        let (now, is_paused) = (self.now, self.update.is_paused());
        match &mut self.update.blocked {
            Some(blocked) if !blocked.is_announced && blocked.is_shown(now) => {
                blocked.is_announced = true;
                let Some((slot, why)) = blocked.slots.first().cloned() else { return };
                let node = match &slot {
                    Slot::Node(node) => Some(node.clone()),
                    Slot::Number(_) => blocked.nodes.get(&slot).cloned(),
                };
                let data = json!({"code": why.upgrade_rule()});
                let kind = "update.blocked";
                self.emit_with(kind, Some(&slot), node.as_ref(), why.to_string(), Some(data));
            }
            Some(blocked) => {
                let at = blocked.shown_at();
                self.wake(at);
            }
            None if was_announced && !is_paused => {
                self.emit("update.unblocked", None, None, "the update continues".to_owned());
            }
            None => {}
        }
    }

    pub fn finish(mut self) -> UnitPlan {
        let (mut changes, mut records) = (Vec::new(), Vec::new());
        for (slot, tasks) in &self.changed {
            let before = self.facts.slots.get(slot).unwrap_or(&NO_TASKS);
            for task in tasks.iter().rev() {
                let old = before.iter().find(|one| one.id == task.id);
                push_changes(old, task, &mut changes);
                if old != Some(task) {
                    records.push(task.clone());
                }
            }
        }
        changes.append(&mut self.plan.changes);
        self.note_blocked_update();
        for (node, is_pinned) in self.plan.pins.clone() {
            let was_pinned = self.facts.table.find(&node).is_some_and(|row| row.is_pinned);
            if is_pinned && !was_pinned {
                self.emit("placement.pinned", None, Some(&node), "a user chose the node".to_owned());
            }
        }
        if self.update != *self.facts.update {
            self.plan.update = Some(self.update);
        }
        if self.versions != self.facts.workload.versions {
            self.plan.versions = Some(self.versions);
        }
        UnitPlan { changes, records, ..self.plan }
    }
}

fn push_changes(old: Option<&Task>, task: &Task, changes: &mut Vec<TaskChange>) {
    let Some(old) = old else {
        return changes.push(TaskChange::Create(Box::new(task.clone())));
    };
    let id = || task.id.clone();
    if let Some(node) = task.node.as_ref().filter(|_| old.node.is_none()) {
        changes.push(TaskChange::Assign { task: id(), node: node.clone(), start_at: task.start_at });
    }
    if task.desired != old.desired {
        changes.push(TaskChange::Raise { task: id(), desired: task.desired });
    }
    if task.state == TaskState::Ended(Ending::Orphaned) && task.state != old.state {
        changes.push(TaskChange::Orphan { task: id() });
    }
}

/// The members that take part, with the HA groups of their nodes.
pub(crate) type Circle = BTreeMap<TaskId, (Peer, Option<GroupId>)>;
