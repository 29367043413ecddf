//! A closed loop for tests: the model of one agbot, decisions that are carried out at once, and nodes that do what is wanted of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evenkeel_domain::{
    orchestration::{
        HealthPolicy, Orchestration,
        health_policy::{ActionKind, Target},
    },
    policy::ExternalPolicy,
};
use evenkeel_explain::explain::status_of;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceKey, TaskId};
use evenkeel_planner_model::{
    command::Action,
    event::{Event, Outcome},
    model::Model,
    plan::UnitEvent,
};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{
        AgentFacts, DeploymentPolicyFacts, Guardian, HaGroupFacts, NodeFacts, NodeMonitorState,
        NodePolicyFacts, PolicyOrchestration, VersionChoice,
    },
    fixture::{agreement, at, deployment_policy, service},
    health::{Entity, HealthEvent, HealthReport, StoredReport, stored_reports},
    settings::PlannerSettings,
    workload::{
        DesiredState, EndedCommand, Ending, Instance, LastingAction, LifecycleEvent, ReportedHealth,
        Requester, SlotTasks, Task, TaskReport, TaskState, UnitId, UserAction, WorkloadAction,
        WorkloadRecord,
    },
};
use evenkeel_reconcile::user_action::{RequestedAction, RequestedRecovery, accept};
use evenkeel_status::status::{PartStatus, Window, WorkloadStatus};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::decide::decide;

/// Nodes `n1`, `n2`, … and policies in the organization `o`.
pub(crate) struct Fleet {
    pub model: Model,
    pub now: Timestamp,
    pub events: Vec<UnitEvent>,
    /// Seconds from the request to start until an instance is seen running, by policy; 1 unless given.
    pub start_secs: BTreeMap<PolicyId, u64>,
    /// Nodes that send no heartbeats and report nothing.
    pub silent: BTreeSet<NodeId>,
    /// True if the agbot is alive and renews its reports.
    pub is_alive: bool,
    health: BTreeMap<Entity, Vec<StoredReport>>,
    /// Rows of workloads as plans have written them.
    rows: BTreeMap<PolicyId, WorkloadRecord>,
    /// Pairs of node and policy whose tasks exit at once.
    pub crashing: BTreeSet<(NodeId, PolicyId)>,
    /// Pairs of node and policy whose tasks the node rejects.
    pub rejecting: BTreeSet<(NodeId, PolicyId)>,
    /// Service versions that exit at once, wherever they start.
    pub broken_versions: BTreeSet<(PolicyId, String)>,
    /// Pairs of node and policy whose instances fail their checks.
    pub unhealthy: BTreeSet<(NodeId, PolicyId)>,
    /// Instances that a check by order of a user finds unhealthy, on a node by policy; no check responds when the node is silent.
    pub failing_checks: BTreeSet<(NodeId, PolicyId)>,
    /// Tasks whose instances ended and that their nodes keep for the recovery.
    pub powered_off: BTreeSet<TaskId>,
    /// Nodes that no other node reaches.
    pub unreached: BTreeSet<NodeId>,
    /// Seconds that an instance takes to stop.
    pub stop_secs: u64,
    /// True if the database refuses to write the health registry.
    pub refuses_registrations: bool,
    fencing: u64,
    seed: u64,
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

pub(crate) fn policy(name: &str) -> PolicyId {
    PolicyId::new("o", name)
}

impl Fleet {
    pub fn new(names: &[&str]) -> Self {
        let mut fleet = Self::started(names, &[]);
        // After a start nothing is stopped or placed for a while.
        fleet.run(20);
        fleet
    }

    /// Starts the agbot; some nodes have not been heard since.
    pub fn started(names: &[&str], silent: &[&str]) -> Self {
        let settings = PlannerSettings::default();
        let leases = (0..settings.partition_count).map(|partition| (partition, 1)).collect();
        let model = Model::new(settings);
        let mut fleet = Self {
            model,
            now: at(1_000),
            events: Vec::new(),
            start_secs: BTreeMap::new(),
            silent: silent.iter().map(|name| node(name)).collect(),
            crashing: BTreeSet::new(),
            rejecting: BTreeSet::new(),
            broken_versions: BTreeSet::new(),
            unhealthy: BTreeSet::new(),
            failing_checks: BTreeSet::new(),
            powered_off: BTreeSet::new(),
            unreached: BTreeSet::new(),
            stop_secs: 0,
            refuses_registrations: false,
            fencing: 1,
            is_alive: true,
            health: BTreeMap::new(),
            rows: BTreeMap::new(),
            seed: 0,
        };
        fleet.handle(&Event::PartitionsChanged { leases });
        for name in names {
            let is_silent = silent.contains(name);
            fleet.register(name, |facts| {
                if is_silent {
                    facts.last_heartbeat = Some(at(995));
                }
            });
        }
        fleet
    }

    /// Registers a node with an empty node policy.
    pub fn register(&mut self, name: &str, change: impl FnOnce(&mut NodeFacts)) {
        self.put_node(name, change);
        let facts = NodePolicyFacts { policy: ExternalPolicy::default(), ..NodePolicyFacts::default() };
        self.handle(&Event::NodePolicyChanged { node: node(name), policy: Some(Box::new(facts)) });
    }

    /// The agent of a node reports what it is doing.
    pub fn announce(&mut self, name: &str, monitor_state: NodeMonitorState) {
        let now = self.now;
        self.put_node(name, |facts| {
            (facts.monitor_state, facts.monitor_state_since) = (monitor_state, Some(now));
        });
    }

    /// Creates a node, or changes it.
    pub fn put_node(&mut self, name: &str, change: impl FnOnce(&mut NodeFacts)) {
        let known = self.model.node(&node(name)).map(|record| record.facts.clone());
        let mut facts = known.unwrap_or_else(|| NodeFacts {
            arch: "amd64".into(),
            public_key: "key".into(),
            is_capable: true,
            agent: Some(AgentFacts { guardian: Guardian::Running, ..AgentFacts::default() }.into()),
            ..NodeFacts::new(node(name))
        });
        facts.last_heartbeat = Some(self.now);
        change(&mut facts);
        self.handle(&Event::NodeChanged { node: Box::new(facts) });
    }

    /// Creates an HA group, or changes it; `health`: its health policy.
    pub fn put_group(&mut self, name: &str, members: &[&str], health: Option<Value>) {
        let members = members.iter().map(|name| node(name));
        let mut facts = HaGroupFacts::new(GroupId::new("o", name), members);
        let read = health.map(|document| HealthPolicy::read("healthPolicy", document, Target::Group));
        facts.health = read.map(|policy| Arc::new(policy.expect("the document is valid")));
        self.handle(&Event::HaGroupChanged { group: Box::new(facts) });
    }

    /// Another agbot takes everything over and knows what this one has stored.
    pub fn take_over(&mut self) {
        self.fencing += 1;
        let partitions = 0..self.model.settings().partition_count;
        let leases = partitions.map(|partition| (partition, self.fencing)).collect();
        self.handle(&Event::PartitionsChanged { leases });
    }

    pub fn freeze(&mut self, name: &str) {
        self.put_node(name, |facts| facts.is_frozen = true);
    }

    /// Writes a policy with a service of its own name.
    pub fn put_policy(&mut self, name: &str, document: Value) {
        self.put_version(name, "1.0.0", document);
    }

    /// Writes a policy with a version of a service of its own name.
    pub fn put_version(&mut self, name: &str, version: &str, document: Value) {
        let version = VersionChoice { version: version.into(), ..VersionChoice::default() };
        self.put_versions(name, vec![version], document);
    }

    /// Writes a policy with several versions of a service of its own name.
    pub fn put_versions(&mut self, name: &str, versions: Vec<VersionChoice>, document: Value) {
        let id = policy(name);
        let read = Orchestration::of_policy(&id, document).expect("the document is valid");
        let key = ServiceKey::new("o", name);
        for VersionChoice { version, .. } in &versions {
            self.handle(&Event::ServiceChanged { service: Box::new(service(name, version)) });
        }
        let facts = DeploymentPolicyFacts {
            service: key,
            versions,
            orchestration: PolicyOrchestration::of(&id, &read),
            last_updated: Some(self.now),
            id,
            ..deployment_policy()
        };
        self.handle(&Event::DeploymentPolicyChanged { policy: Box::new(facts) });
    }

    pub fn remove_policy(&mut self, name: &str) {
        self.handle(&Event::DeploymentPolicyRemoved { policy: policy(name) });
    }

    /// Deletes a policy without waiting for its children.
    pub fn force_removal(&mut self, name: &str) {
        self.handle(&Event::RemovalForced { policy: policy(name) });
    }

    /// Requests an action on a policy.
    pub fn act(&mut self, name: &str, kind: LastingAction, is_forced: bool) {
        let request =
            RequestedAction { kind, part: None, node: None, destinations: &[], is_forced, recovery: None };
        self.request(name, &request);
    }

    /// Requests a recovery.
    pub fn recover(&mut self, name: &str, recovery: &RequestedRecovery) {
        let kind = LastingAction::Recover;
        let (destinations, recovery) = (&[], Some(recovery));
        let request =
            RequestedAction { kind, part: None, node: None, destinations, is_forced: false, recovery };
        self.request(name, &request);
    }

    /// Requests a start on a node.
    pub fn start_on(&mut self, name: &str, on: &str) {
        self.act_on(name, on, LastingAction::Start);
    }

    /// Requests a stop on a node; it freezes the instance.
    pub fn stop_on(&mut self, name: &str, on: &str) {
        let instance = Some(Box::new(Instance { is_frozen: true, ..Instance::default() }));
        self.handle(&Event::InstanceRecorded { policy: policy(name), node: node(on), instance });
        self.act_on(name, on, LastingAction::Stop);
    }

    fn act_on(&mut self, name: &str, on: &str, kind: LastingAction) {
        let node = node(on);
        let request = RequestedAction {
            kind,
            part: None,
            node: Some(&node),
            destinations: &[],
            is_forced: false,
            recovery: None,
        };
        self.request(name, &request);
    }

    fn request(&mut self, name: &str, request: &RequestedAction<'_>) {
        let (kind, is_forced) = (request.kind, request.is_forced);
        let goals = accept(&self.model, &policy(name), request, self.now).expect("the action is accepted");
        let record = self.model.workload(&policy(name)).expect("the workload exists");
        let action = UserAction {
            id: "1".into(),
            name: kind.name().into(),
            actor: "o/ann".into(),
            unit_name: None,
            accepted_at: self.now,
            is_forced,
            goals,
        };
        let workload = Box::new(record.begin(action).expect("no other action is in progress"));
        self.handle(&Event::WorkloadRecorded { workload });
    }

    /// Aborts the action in progress.
    pub fn abort(&mut self, name: &str) {
        let record = self.model.workload(&policy(name)).expect("the workload exists");
        let requester = Requester { actor: "o/ann", now: self.now };
        let workload = record
            .act(WorkloadAction::Abort, self.model.instance_summary(&policy(name)), requester)
            .expect("an action is in progress");
        self.handle(&Event::WorkloadRecorded { workload: Box::new(workload) });
    }

    /// Decides about an event, carries out what is decided about tasks, and continues until nothing follows.
    pub fn handle(&mut self, event: &Event) {
        let mut queue = vec![event.clone()];
        for _ in 0..1_000 {
            let Some(event) = queue.pop() else { return self.assert_nothing_missed(event) };
            self.seed += 1;
            self.model.apply(&event, self.now);
            let decision = decide(&self.model, &event, self.now, self.seed);
            self.model.note(&decision, self.now);
            for command in decision.commands {
                let outcome = match &command.action {
                    Action::ApplyPlan { plan, .. } => match plan.workload.as_deref() {
                        Some(next) if !next.may_replace(self.row_of(&next.policy)) => {
                            Outcome::Refused { why: "the workload was changed meanwhile".into() }
                        }
                        next => {
                            self.rows.extend(next.map(|next| (next.policy.clone(), next.clone())));
                            self.events.extend(plan.events.iter().cloned());
                            Outcome::PlanApplied { claims: Vec::new() }
                        }
                    },
                    Action::RecordRegistration { .. } if self.refuses_registrations => {
                        Outcome::Failed { why: "the database is read-only".into() }
                    }
                    Action::RecordRegistration { events, .. } => {
                        self.events.extend(events.iter().cloned());
                        Outcome::Done
                    }
                    Action::RecordWorkload { .. }
                    | Action::RemoveRegistration { .. }
                    | Action::RemoveWorkload { .. }
                    | Action::ChangeBlocklist { .. } => Outcome::Done,
                    Action::ReportHealth { entity, reports, ttl_secs } => {
                        let (partition, now) = (command.lease.partition, self.now);
                        let stored = self.health.entry(entity.clone()).or_default();
                        let changed = stored_reports(stored, reports, *ttl_secs, partition, now);
                        queue.push(self.store(entity, changed));
                        Outcome::Done
                    }
                    Action::DropHealth { entities, .. } => {
                        for entity in entities {
                            self.health.remove(entity);
                            queue.push(Event::HealthRecorded { entity: entity.clone(), events: Vec::new() });
                        }
                        Outcome::Done
                    }
                    _ => continue,
                };
                queue.push(Event::CommandOutcome { command: Box::new(command), outcome });
            }
        }
        panic!("decisions do not come to an end");
    }

    /// Returns the row of a workload, which the model may not have received yet.
    fn row_of(&self, policy: &PolicyId) -> Option<&WorkloadRecord> {
        let known = self.model.workload(policy);
        self.rows.get(policy).into_iter().chain(known).max_by_key(|row| row.revision)
    }

    fn store(&mut self, entity: &Entity, changed: Vec<StoredReport>) -> Event {
        let stored = self.health.entry(entity.clone()).or_default();
        for next in changed {
            stored.retain(|one| (&one.source, &one.property) != (&next.source, &next.property));
            stored.push(next);
        }
        Event::HealthRecorded { entity: entity.clone(), events: stored.iter().map(HealthEvent::of).collect() }
    }

    /// Reports about an entity, as a watchdog does.
    pub fn report_health(&mut self, entity: &Entity, source: &str, state: &str) {
        let body = serde_json::json!({"sourceId": source, "property": "p", "healthState": state});
        let report = HealthReport::read(body).expect("a report");
        let known = self.health.get(entity).into_iter().flatten().find(|one| one.source == source);
        let next = StoredReport::next(known, report, self.now).expect("a newer report");
        let event = self.store(entity, next.into_iter().collect());
        self.handle(&event);
    }

    /// Returns a stored report of the engine about an entity.
    pub fn reported(&self, entity: &Entity, property: &str) -> Option<&StoredReport> {
        self.health.get(entity)?.iter().find(|one| one.property == property)
    }

    /// Advances the time by some seconds.
    pub fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SignedDuration::from_secs(1);
            let names = self.model.nodes().map(|record| record.facts.id.clone());
            let names: Vec<NodeId> = names.filter(|node| !self.silent.contains(node)).collect();
            let known =
                self.model.nodes().filter_map(|one| Some((one.facts.id.clone(), one.facts.last_heartbeat?)));
            let mut at: BTreeMap<NodeId, Timestamp> = known.collect();
            at.extend(names.iter().map(|node| (node.clone(), self.now)));
            self.handle(&Event::HeartbeatsSeen { at });
            names.iter().for_each(|node| self.report(node));
            if self.stop_secs > 0 {
                self.agree();
            }
            if self.is_alive {
                let count = self.model.settings().partition_count;
                let at = (0..count).map(|partition| (partition, self.now)).collect();
                self.handle(&Event::PartitionsConfirmed { at });
            }
            self.handle(&Event::Tick);
        }
    }

    /// Advances the time by some seconds in which the exchange is unreachable, or the agbot is suspended.
    pub fn run_unheard(&mut self, seconds: u64, is_suspended: bool) {
        for _ in 0..seconds {
            self.now += SignedDuration::from_secs(1);
            if !is_suspended {
                self.handle(&Event::Tick);
            }
        }
    }

    /// Advances the time until the condition holds, at most by the given seconds. Returns how long it took.
    pub fn run_until(&mut self, seconds: u64, mut is_met: impl FnMut(&Self) -> bool) -> u64 {
        for passed in 0..=seconds {
            if is_met(self) {
                return passed;
            }
            self.run(1);
        }
        panic!("not met after {seconds} s: {:#?}", self.tasks());
    }

    /// Instances that take their time to stop have agreements, which are not ended before.
    fn agree(&mut self) {
        let tasks: Vec<Task> = self.tasks().into_iter().filter(|task| task.is_live()).cloned().collect();
        for task in tasks.into_iter().filter(|task| task.agreement.is_none()) {
            let Some(node) = task.node else { continue };
            let known = self.model.agreement(&AgreementId::from_text(task.id.as_str()));
            if known.is_none() {
                let agreement = Agreement {
                    id: AgreementId::from_text(task.id.as_str()),
                    node,
                    policy: task.unit_id.policy.clone(),
                    service_key: ServiceKey::new("o", task.unit_id.policy.name()),
                    task: Some(task.id.clone()),
                    ..agreement("n")
                };
                let agreement = agreement.finalize(self.now).expect("a proposed agreement becomes final");
                self.handle(&Event::AgreementRecorded { agreement: Box::new(agreement) });
            }
        }
    }

    /// A node reports its tasks as they are wanted.
    fn report(&mut self, node: &NodeId) {
        let tasks = self.model.tasks_of(node).filter_map(|task| {
            let since = self.now.duration_since(task.desired_at.unwrap_or(task.created_at)).as_secs();
            let start_secs = self.start_secs.get(&task.unit_id.policy).copied().unwrap_or(1);
            let is_rejected = self.rejecting.contains(&(node.clone(), task.unit_id.policy.clone()));
            let state = match task.desired {
                DesiredState::Ready | DesiredState::Running if is_rejected => {
                    TaskState::Ended(Ending::Rejected { error: "no such image".into() })
                }
                DesiredState::Ready => return None,
                DesiredState::Running if self.is_crashing(node, task) => TaskState::Ended(Ending::Failed {
                    exit_code: Some(1),
                    error: format!("{} is broken on {node}", task.unit_id.policy),
                }),
                DesiredState::Running if since < start_secs.cast_signed() => TaskState::Starting,
                DesiredState::Running => TaskState::RUNNING,
                DesiredState::Shutdown | DesiredState::Remove if since < self.stop_secs.cast_signed() => {
                    return None;
                }
                DesiredState::Shutdown | DesiredState::Remove => TaskState::Ended(Ending::Shutdown),
            };
            let report = TaskReport { node: node.clone(), state, seq: task.seq + 1, at: self.now };
            Some((task.id.clone(), report))
        });
        let tasks: BTreeMap<_, _> = tasks.collect();
        let health = self.model.tasks_of(node).filter(|task| task.is_running());
        let health = health.map(|task| (task.id.clone(), self.health_of(node, task))).collect();
        self.handle(&Event::NodeTasksChanged { node: node.clone(), tasks, health });
    }

    /// Returns a node's report about the health of a task and of the members that it examines.
    fn health_of(&self, node: &NodeId, task: &Task) -> ReportedHealth {
        let is_unhealthy = self.unhealthy.contains(&(node.clone(), task.unit_id.policy.clone()));
        let members = task.health.supervision.peers.iter().flat_map(|watch| &watch.members);
        let peers = members.map(|peer| (peer.task.clone(), !self.unreached.contains(&peer.node))).collect();
        // Nodes carry out commands at once.
        let command = task.health.command().filter(|command| command.call.is_none());
        let is_failing = self.failing_checks.contains(&(node.clone(), task.unit_id.policy.clone()));
        let command = command.map(|command| {
            let is_ok = command.kind != ActionKind::Check || !is_failing;
            EndedCommand { id: command.id.clone(), is_ok, message: None }
        });
        let lifecycle = self.powered_off.contains(&task.id).then(|| LifecycleEvent {
            event: "POWER_OFF".into(),
            state: "stopped".into(),
            instance_id: "c".into(),
            timestamp: self.now.to_string(),
            publisher: format!("process:{}", node.name()),
        });
        let events = u64::from(lifecycle.is_some());
        let healthy = is_unhealthy.then_some(false);
        let lease_secs = task.health.supervision.lease_secs;
        ReportedHealth { healthy, events, lifecycle, command, peers, lease_secs, ..ReportedHealth::default() }
    }

    fn is_crashing(&self, node: &NodeId, task: &Task) -> bool {
        let policy = &task.unit_id.policy;
        let version = || {
            evenkeel_planner_model::model::selection::choose(
                &self.model,
                node,
                policy,
                task.spec.number,
                self.now,
            )
            .ok()
        };
        let is_broken = |version: String| self.broken_versions.contains(&(policy.clone(), version));
        self.crashing.contains(&(node.clone(), policy.clone()))
            || !self.broken_versions.is_empty() && version().is_some_and(|choice| is_broken(choice.version))
    }

    /// Sets whether the tasks of a policy exit at once on a node.
    pub fn crash(&mut self, name: &str, on: &str, is_crashing: bool) {
        let pair = (node(on), policy(name));
        if is_crashing {
            self.crashing.insert(pair)
        } else {
            self.crashing.remove(&pair)
        };
    }

    /// Returns the nodes that are blocked for a policy's service, separated by blanks.
    pub fn blocked(&self, name: &str) -> String {
        let rows =
            self.model.blocklist().filter(|(key, entry)| key.service.name() == name && entry.until.is_some());
        rows.map(|(key, _)| key.node.name()).collect::<Vec<_>>().join(" ")
    }

    pub fn tasks(&self) -> Vec<&Task> {
        let ids: Vec<PolicyId> = self.model.workloads().map(|record| record.policy.clone()).collect();
        let mut tasks = Vec::new();
        for policy in &ids {
            for (_, unit) in self.model.workload_units_of(policy).collect::<Vec<_>>() {
                let id = |task: &Task| self.model.task(&task.id);
                tasks.extend(unit.slots.values().flat_map(SlotTasks::iter).filter_map(id));
            }
        }
        tasks
    }

    fn nodes_with(&self, name: &str, is_meant: impl Fn(&Task) -> bool) -> BTreeSet<String> {
        let of_policy = self.tasks().into_iter().filter(|task| task.unit_id.policy == policy(name));
        let nodes = of_policy.filter(|task| is_meant(task)).filter_map(|task| task.node.as_ref());
        // Instances on a lost node are not observed.
        let nodes = nodes.filter(|node| !self.model.is_down(node, self.now));
        nodes.map(|node| node.name().to_owned()).collect()
    }

    /// Returns the nodes on which a policy runs, separated by blanks.
    pub fn running(&self, name: &str) -> String {
        let nodes = self.nodes_with(name, |task| task.is_wanted() && task.is_running());
        nodes.into_iter().collect::<Vec<_>>().join(" ")
    }

    /// Returns the nodes on which a policy runs or is to run, separated by blanks.
    pub fn live(&self, name: &str) -> String {
        self.nodes_with(name, Task::is_live).into_iter().collect::<Vec<_>>().join(" ")
    }

    pub fn status(&self, name: &str) -> WorkloadStatus {
        let window = Window { limit: 100, ..Window::default() };
        status_of(&self.model, &policy(name), &window, self.now).expect("the policy exists")
    }

    fn part(&self, name: &str) -> PartStatus {
        self.status(name).parts.remove(0)
    }

    /// Returns the monitor state of the instance on a node.
    pub fn monitor(&self, name: &str, on: &str) -> &'static str {
        let part = self.part(name);
        let found = part.instances.into_iter().find(|instance| instance.node == node(on));
        found.expect("the node belongs to the workload unit").monitor.word()
    }

    /// Returns the flags of the instance on a node.
    pub fn flags(&self, name: &str, on: &str) -> String {
        let part = self.part(name);
        let found = part.instances.into_iter().find(|instance| instance.node == node(on));
        found.expect("the node belongs to the workload unit").flags
    }

    pub fn unit_id(name: &str) -> UnitId {
        UnitId::all(policy(name))
    }

    pub fn has_event(&self, kind: &str) -> bool {
        self.events.iter().any(|event| event.kind == kind)
    }

    pub fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }
}
