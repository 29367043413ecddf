//! A closed loop for tests: one workload unit, its rows, and nodes that run, fail and stop.
//!
//! It plans only when something changed or the plan asked to be woken, so that a missing wake-up shows as a test that hangs.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::{CommittedRows, GroupState, Independent};
use evenkeel_ids::{GroupId, NodeId, PolicyId, ServiceKey, TaskId};
use evenkeel_placement::place::{NodeState, NodeTable, UnitNode};
use evenkeel_planner_model::plan::{TaskChange, UnitEvent, UnitPlan};
use evenkeel_planner_record::{
    blocklist::BlocklistNews,
    claims::{Claim, Phase, Purpose, Scope},
    facts::{Availability, HaGroupFacts},
    fixture::at,
    goal::Goal,
    settings::UnitSettings,
    time::later,
    workload::{
        Cause, DesiredState, Partner, ReportedHealth, Slot, Slots, Task, TaskReport, TaskState, UnitId,
        UpdateEvent, UpdateStatus, Workload, by_slot,
    },
};
use jiff::Timestamp;
use nodes::exited;

use crate::{
    reconcile::{plan_slot, plan_unit},
    unit_pass::UnitFacts,
};

mod nodes;

/// Behavior of the tasks of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// They run.
    Good,
    /// They exit after this many seconds, with this code.
    Exits(u64, i32),
    /// The node cannot prepare them.
    Rejected,
    /// They never start.
    Hangs,
}

/// Health of all tasks, as nodes reported it.
struct Surveyed<'a>(&'a BTreeMap<TaskId, ReportedHealth>);

impl crate::unit_pass::HealthSurvey for Surveyed<'_> {
    fn health_of(&self, task: &Task) -> Option<ReportedHealth> {
        self.0.get(&task.id).cloned()
    }
}

/// A workload unit with its nodes.
pub(crate) struct World {
    pub workload: Workload,
    pub unit_id: UnitId,
    pub nodes: Vec<UnitNode>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub update: UpdateStatus,
    pub members: BTreeSet<NodeId>,
    pub claims: Vec<Claim>,
    pub settings: UnitSettings,
    /// Health of tasks, as nodes reported it.
    pub health: BTreeMap<TaskId, ReportedHealth>,
    /// Results of the checks of running tasks, by digest of the version; none for a broken check. Versions
    /// without an entry are not checked.
    pub checks: BTreeMap<u64, Option<bool>>,
    /// True if nodes have confirmed the leases of their tasks.
    pub confirms_leases: bool,
    /// Other workloads with an instance on a node.
    pub neighbors: BTreeMap<NodeId, BTreeSet<Partner>>,
    /// Workloads in the soft list that start or stop.
    pub unsettled_partners: Vec<PolicyId>,
    pub seconds: i64,
    /// Behavior of each version's digest; those not listed are good.
    pub behaviors: BTreeMap<u64, Behavior>,
    /// Behavior on one node, whatever the version.
    pub recovery: crate::unit_pass::RecoveryFacts,
    pub node_behaviors: BTreeMap<NodeId, Behavior>,
    pub start_secs: u64,
    pub stop_secs: u64,
    /// Nodes on which a stop never ends.
    pub stuck: BTreeSet<NodeId>,
    pub events: Vec<UnitEvent>,
    pub last: UnitPlan,
    /// Every task that ever was, as it was last.
    pub history: BTreeMap<TaskId, Task>,
    pub plan_count: u64,
    is_changed: bool,
    changed_slots: BTreeSet<Slot>,
    /// True if the last full plan left something waiting.
    has_blocked: bool,
    wake_at: Option<Timestamp>,
    /// Slots are planned one by one after events of their tasks.
    pub plans_slots: bool,
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

impl World {
    /// Creates a workload on nodes `n1`, `n2`, ….
    pub fn new(goal: Goal, node_count: usize) -> Self {
        let policy = PolicyId::new("o", "w");
        let workload = Workload { goal, ..Workload::new(policy.clone(), 1) };
        let name = |number| UnitNode::new(node(&format!("n{number}")));
        Self {
            workload,
            unit_id: UnitId::all(policy),
            nodes: (1..=node_count).map(name).collect(),
            tasks: BTreeMap::new(),
            update: UpdateStatus::default(),
            members: BTreeSet::new(),
            claims: Vec::new(),
            settings: UnitSettings::default(),
            health: BTreeMap::new(),
            checks: BTreeMap::new(),
            confirms_leases: true,
            neighbors: BTreeMap::new(),
            recovery: crate::unit_pass::RecoveryFacts::NONE,
            unsettled_partners: Vec::new(),
            seconds: 0,
            behaviors: BTreeMap::new(),
            node_behaviors: BTreeMap::new(),
            start_secs: 1,
            stop_secs: 1,
            stuck: BTreeSet::new(),
            events: Vec::new(),
            last: UnitPlan::default(),
            history: BTreeMap::new(),
            plan_count: 0,
            is_changed: true,
            changed_slots: BTreeSet::new(),
            has_blocked: false,
            wake_at: None,
            plans_slots: false,
        }
    }

    pub fn now(&self) -> Timestamp {
        at(self.seconds)
    }

    /// Puts nodes into an HA group.
    pub fn group(&mut self, names: &[&str]) {
        self.members = names.iter().map(|name| node(name)).collect();
        for one in self.nodes.iter_mut().filter(|one| self.members.contains(&one.id)) {
            one.group = Some(GroupId::new("o", "g"));
        }
    }

    /// Changes a node.
    pub fn change_node(&mut self, name: &str, change: impl FnOnce(&mut UnitNode)) {
        let id = node(name);
        if let Some(one) = self.nodes.iter_mut().find(|one| one.id == id) {
            change(one);
        }
        self.is_changed = true;
    }

    /// Adds a task to the first slot, as it would be in a row.
    pub fn put_task(&mut self, change: impl FnOnce(Task) -> Task) {
        let task = Task {
            id: TaskId::from_text("given"),
            unit_id: self.unit_id.clone(),
            slot: Slot::Number(1),
            generation: 1,
            spec: self.workload.versions.current,
            node: None,
            agreement: None,
            desired: DesiredState::Ready,
            state: TaskState::Pending,
            seq: 0,
            cause: Cause::Scale,
            origin: None,
            created_at: self.now(),
            start_at: self.now(),
            desired_at: Some(self.now()),
            state_at: self.now(),
            running_at: None,
            ended_at: None,
            health: evenkeel_planner_record::workload::TaskHealth::default(),
            is_end_requested: None,
            restarts: evenkeel_planner_record::workload::NodeRestarts::default(),
        };
        let task = change(task);
        self.tasks.insert(task.id.clone(), task);
        self.is_changed = true;
    }

    pub fn set_availability(&mut self, name: &str, availability: Availability) {
        self.change_node(name, |node| node.availability = availability);
    }

    pub fn take_down(&mut self, name: &str) {
        let since = self.now();
        self.change_node(name, |node| node.state = NodeState::Down { since });
    }

    pub fn bring_back(&mut self, name: &str) {
        self.change_node(name, |node| node.state = NodeState::Ready);
    }

    pub fn delete_node(&mut self, name: &str) {
        let id = node(name);
        self.nodes.retain(|one| one.id != id);
        self.is_changed = true;
    }

    /// A client writes another task spec.
    pub fn write(&mut self, digest: u64) {
        self.workload.versions = self.workload.versions.write(digest);
        let now = self.now();
        self.update.request(UpdateEvent::Written, "", now).expect("a policy can always be written");
        self.is_changed = true;
    }

    /// A client changes something that is not part of the task spec.
    pub fn edit(&mut self, change: impl FnOnce(&mut Workload)) {
        change(&mut self.workload);
        self.is_changed = true;
    }

    /// The node of a task reports about its health.
    pub fn report_health(&mut self, task: &TaskId, change: impl FnOnce(&mut ReportedHealth)) {
        change(self.health.entry(task.clone()).or_default());
        self.is_changed = true;
    }

    /// Returns what nodes reported, with the leases that their guardians enforce.
    fn reported_health(&self) -> BTreeMap<TaskId, ReportedHealth> {
        let mut health = self.health.clone();
        for task in self.tasks.values().filter(|task| task.is_running()) {
            if let Some(found) = self.checks.get(&task.spec.digest) {
                let reported = health.entry(task.id.clone()).or_default();
                reported.healthy = *found;
                reported.message = (*found == Some(false)).then(|| "the body does not contain ok".to_owned());
                reported.check_error = found.is_none().then(|| "the name is not known".to_owned());
            }
        }
        for task in self.tasks.values().filter(|_| self.confirms_leases) {
            if let Some(lease_secs) = task.health.supervision.lease_secs {
                health.entry(task.id.clone()).or_default().lease_secs = Some(lease_secs);
            }
        }
        health
    }

    /// A user acts on the update.
    pub fn request(&mut self, event: UpdateEvent) {
        let now = self.now();
        self.update.request(event, "requested", now).expect("the update allows it");
        self.is_changed = true;
    }

    /// Advances the time by some seconds.
    pub fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.reconcile();
            self.pass_second();
        }
        self.reconcile();
    }

    /// Advances the time until the condition holds, at most by the given seconds. Returns how long it took.
    pub fn run_until(&mut self, seconds: u64, mut is_met: impl FnMut(&Self) -> bool) -> u64 {
        for passed in 0..=seconds {
            self.reconcile();
            if is_met(self) {
                return passed;
            }
            self.pass_second();
        }
        panic!("not met after {seconds} s: {:#?}\n{:#?}", self.summary(), self.last.blocked);
    }

    pub fn slots(&self) -> Slots {
        by_slot(self.tasks.values().cloned())
    }

    /// Returns the wanted tasks that run on nodes that are there, by slot.
    pub fn running(&self) -> Vec<&Task> {
        let is_there = |task: &&Task| {
            let node = task.node.as_ref().and_then(|node| self.find(node));
            node.is_some_and(|node| node.down_since().is_none())
        };
        self.tasks.values().filter(|task| task.is_wanted() && task.is_running()).filter(is_there).collect()
    }

    /// Returns the nodes with a running wanted task, in order.
    pub fn running_nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> =
            self.running().into_iter().filter_map(|task| Some(task.node.as_ref()?.name())).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the digests that run, in order.
    pub fn running_versions(&self) -> Vec<u64> {
        let mut digests: Vec<u64> = self.running().into_iter().map(|task| task.spec.digest).collect();
        digests.sort_unstable();
        digests
    }

    pub fn has_event(&self, kind: &str) -> bool {
        self.events.iter().any(|event| event.kind == kind)
    }

    pub fn summary(&self) -> Vec<String> {
        let line = |task: &Task| {
            let node = task.node.as_ref().map_or("-", |node| node.name());
            let (state, digest) = (task.state.name(), task.spec.digest);
            format!("{} on {node}: {:?}/{state} v{digest} {:?}", task.slot, task.desired, task.cause)
        };
        self.tasks.values().map(line).collect()
    }

    /// Plans as often as plans lead to changes.
    pub fn reconcile(&mut self) {
        let now = self.now();
        if self.wake_at.is_some_and(|at| at <= now) {
            self.is_changed = true;
        }
        for _ in 0..300 {
            if self.plans_slots && !self.is_changed {
                let Some(slot) = self.changed_slots.pop_first() else { return };
                self.plan_once(Some(&slot));
                // A step that waits for another task, or the next step of an update, concerns the whole
                // workload unit.
                self.is_changed |= self.has_blocked || self.update.is_rolling();
                continue;
            }
            if !std::mem::take(&mut self.is_changed) && self.changed_slots.is_empty() {
                return;
            }
            self.changed_slots.clear();
            self.wake_at = None;
            self.plan_once(None);
            self.has_blocked = !self.last.blocked.is_empty();
        }
        panic!("plans do not come to an end: {:#?}\n{:#?}", self.summary(), self.last);
    }

    fn plan_once(&mut self, slot: Option<&Slot>) {
        let plan = self.plan(slot);
        self.wake_at = [self.wake_at, plan.wake_at].into_iter().flatten().min();
        self.carry_out(plan);
    }

    /// Returns the plan without carrying it out.
    pub fn plan(&self, slot: Option<&Slot>) -> UnitPlan {
        self.with_facts(|facts, now| match slot {
            Some(slot) => plan_slot(facts, slot, now, self.plan_count),
            None => plan_unit(facts, now, self.plan_count),
        })
    }

    /// Returns what a function makes of the facts of now.
    pub fn with_facts<T>(&self, decide: impl Fn(&UnitFacts<'_>, Timestamp) -> T) -> T {
        let (slots, table, groups) = (self.slots(), self.table(), self.groups());
        let health = self.reported_health();
        let survey = Surveyed(&health);
        let facts = UnitFacts {
            workload: &self.workload,
            unit_id: &self.unit_id,
            table: &table,
            slots: &slots,
            observed: &evenkeel_planner_record::workload::Slots::new(),
            groups: &groups,
            update: &self.update,
            departures: &std::collections::BTreeMap::new(),
            gone_group: None,
            part_count: 1,
            other_units: &[],
            gone_parts: &[],
            taken_over: &[],
            blocklist: &BlocklistNews::default(),
            unsettled_partners: &self.unsettled_partners,
            are_partners_in_upgrade: false,
            dependencies: &Independent,
            errors: &[],
            health: &health,
            survey: &survey,
            recovery: &self.recovery,
            grace_until: None,
            unheard_until: None,
            incompatible: &self.workload.suspending_versions(table.compat_versions()),
            settings: self.settings,
        };
        decide(&facts, self.now())
    }

    /// Carries a plan out.
    pub fn carry_out(&mut self, plan: UnitPlan) {
        self.plan_count += 1;
        self.apply(plan);
    }

    /// Advances the nodes by a second, without planning.
    pub fn pass_second(&mut self) {
        self.seconds += 1;
        self.act();
    }

    pub fn table(&self) -> NodeTable {
        let mut table = NodeTable::new(self.nodes.clone(), self.workload.placement.max_per_node);
        for task in self.tasks.values().filter(|task| task.is_live()) {
            if let Some(node) = &task.node {
                table.count_instance(node, true);
            }
        }
        table
    }

    fn groups(&self) -> BTreeMap<GroupId, GroupState> {
        let facts = HaGroupFacts::new(GroupId::new("o", "g"), self.members.iter().cloned());
        let runs = |member: &&NodeId| {
            self.tasks.values().any(|task| task.is_running() && task.node.as_ref() == Some(*member))
                && self.find(member).is_some_and(|node| node.down_since().is_none())
        };
        let running: BTreeSet<NodeId> = self.members.iter().filter(runs).cloned().collect();
        let is_intended = |member: &&NodeId| {
            let holds = |task: &Task| task.is_wanted() && task.node.as_ref() == Some(*member);
            self.workload.goal.is_per_node() || self.tasks.values().any(holds)
        };
        let missing = self.members.difference(&running).filter(is_intended);
        let missing = missing.map(|member| (member.clone(), "does not run it".to_owned())).collect();
        let claims = self.claims.clone();
        let service = ServiceKey::new("o", "s");
        let (failing, down) = (BTreeSet::new(), BTreeSet::new());
        let group = GroupState { facts, service, running, failing, missing, down, claims };
        BTreeMap::from([(group.facts.id.clone(), group)])
    }

    fn find(&self, id: &NodeId) -> Option<&UnitNode> {
        self.nodes.iter().find(|one| one.id == *id)
    }

    fn apply(&mut self, plan: UnitPlan) {
        self.check_permits(&plan);
        let now = self.now();
        self.is_changed |= !plan.changes.is_empty() || plan.update.is_some() || plan.versions.is_some();
        for change in &plan.changes {
            self.apply_change(change, now);
        }
        if let Some(update) = plan.update.clone() {
            self.update = update;
        }
        if let Some(versions) = plan.versions {
            self.workload.versions = versions;
        }
        let current = self.workload.versions.current.number;
        for failure in plan.failures.iter().filter(|failure| failure.version == current) {
            let message = failure.message.as_str().into();
            let is_of_stop = failure.is_of_stop;
            self.change_node(failure.node.name(), |node| match is_of_stop {
                true => node.marks.stop_failed = Some(message),
                false => node.marks.start_failed = Some(message),
            });
        }
        for (pinned, is_pinned) in &plan.pins {
            self.change_node(pinned.name(), |node| node.is_pinned = *is_pinned);
        }
        for record in &plan.records {
            let Some(task) = self.tasks.get_mut(&record.id) else { continue };
            self.is_changed |= task.health != record.health;
            task.health = record.health.clone();
        }
        self.events.extend(plan.events.iter().cloned());
        self.history.extend(self.tasks.iter().map(|(id, task)| (id.clone(), task.clone())));
        self.last = plan;
    }

    fn apply_change(&mut self, change: &TaskChange, now: Timestamp) {
        match change {
            TaskChange::Create(task) => {
                let old = self.tasks.insert(task.id.clone(), (**task).clone());
                assert_eq!(old, None, "an id is used twice");
            }
            TaskChange::Assign { task, node, start_at } => {
                let task = self.tasks.get_mut(task).expect("an assigned task exists");
                task.assign(node, now).expect("a task is assigned once");
                task.start_at = *start_at;
            }
            TaskChange::Raise { task, desired } => {
                let task = self.tasks.get_mut(task).expect("a task exists");
                assert!(task.raise_desired(*desired, now), "a desired state never decreases");
            }
            TaskChange::Orphan { task } => {
                self.tasks.get_mut(task).expect("a task exists").orphan(now).expect("it has not ended");
            }
            TaskChange::Delete { task } => {
                let task = self.tasks.remove(task).expect("a deleted task exists");
                assert!(task.is_stopped(), "only stopped tasks are deleted: {task:?}");
            }
        }
    }

    /// Tests the permits of a plan as a transaction would, and takes their claims.
    fn check_permits(&mut self, plan: &UnitPlan) {
        for permit in &plan.permits {
            let slot = &permit.step.slot;
            // The transaction frees what the plan frees before it tests the permit.
            let is_kept = |slot: &Slot| {
                plan.update.as_ref().is_none_or(|update| update.tickets().any(|(_, one, _)| one == slot))
            };
            let tickets = self.update.tickets().map(|(_, slot, _)| slot.clone()).filter(is_kept).collect();
            let wanted = self.tasks.values().filter(|task| task.slot == *slot && task.is_wanted());
            let created = plan.changes.iter().filter_map(|change| match change {
                TaskChange::Create(task) => Some(task.id.clone()),
                _ => None,
            });
            let tasks = wanted.map(|task| task.id.clone()).chain(created).collect();
            let neighbors = permit.step.node().and_then(|node| self.neighbors.get(node)).cloned();
            let neighbors = neighbors.unwrap_or_default();
            let rows = CommittedRows {
                claims: self.claims.clone(),
                tickets,
                tasks,
                neighbors,
                ..CommittedRows::default()
            };
            assert_eq!(permit.check(&rows), Ok(()), "{permit:#?}");
            if let Some(claim) = &permit.claim {
                let claim = self.claim(&claim.node);
                self.claims.push(claim);
            }
        }
    }

    fn claim(&self, node: &NodeId) -> Claim {
        Claim {
            group: GroupId::new("o", "g"),
            scope: Scope::Policy(self.unit_id.policy.clone()),
            node: node.clone(),
            purpose: Purpose::ServiceUpgrade,
            version: String::new(),
            fencing: 1,
            phase: Phase::Stopping,
            since: self.now(),
            phase_since: self.now(),
            deadline: later(self.now(), 600),
        }
    }

    /// Makes the running task of a slot exit.
    pub fn fail_slot(&mut self, slot: u32, code: i32) {
        let slot = Slot::Number(slot);
        let running = self.running();
        let id = running.into_iter().find(|task| task.slot == slot).expect("the slot runs").id.clone();
        self.fail(&id, code);
    }

    /// Makes a running task exit, unless its node is away.
    pub fn fail(&mut self, id: &TaskId, code: i32) {
        let now = self.now();
        let task = &self.tasks[id];
        let node = task.node.clone().expect("a running task has a node");
        if self.find(&node).is_none_or(|node| node.down_since().is_some()) {
            return;
        }
        let report = TaskReport { node, state: exited(code), seq: task.seq + 1, at: now };
        let task = self.tasks.get_mut(id).expect("the task exists");
        task.report(report, now).expect("a running task may end");
        self.changed_slots.insert(task.slot.clone());
    }
}
