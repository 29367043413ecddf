//! A fleet with workloads for the orchestration benchmark: nodes, policies, running tasks with their agreements, all in one model.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::Orchestration;
use evenkeel_domain::policy::expression::{Expression, Reference, References, Value};
use evenkeel_domain::policy::{ExternalPolicy, Property};
use evenkeel_ids::{AgreementId, NodeId, OrgId, PolicyId, ServiceId, ServiceKey, TaskId};
use evenkeel_placement::place::{UnitNode, Verdict};
use evenkeel_planner::decide::decide;
use evenkeel_planner_model::command::Action;
use evenkeel_planner_model::event::{Event, Outcome};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::agreement::{Agreement, AgreementState};
use evenkeel_planner_record::facts::{
    DeploymentOverrides, DeploymentPolicyFacts, NodeFacts, NodePolicyFacts, NodeStatusFacts, ObservedService,
    PolicyOrchestration, ServiceFacts, VersionChoice,
};
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_planner_record::workload::Cause;
use evenkeel_planner_record::workload::{
    DesiredState, Ending, Slot, SpecVersion, Task, TaskState, UnitId, WorkloadRecord,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

/// The nodes are divided into so many cells, and each workload belongs to one of them.
const CELLS: u32 = 10;
/// Every node of so many does not satisfy the placement expression.
const UNFIT: u32 = 10;
const ORG: &str = "acme";
const SERVICE: &str = "acme/web";
const VERSION: &str = "1.0.0";
const EXPRESSION: &str = "{node.tier} == edge and {node.memory} >= 1024";
const PARTITIONS: u32 = 16;

/// Returns a time after the start of the fleet.
pub fn at(secs: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000 + secs)
}

/// Size of a fleet.
#[derive(Debug, Clone, Copy)]
pub struct FleetSize {
    /// Nodes.
    pub nodes: u32,
    /// Workloads; each may run on the nodes of one cell, a tenth of all.
    pub workloads: u32,
    /// Running tasks of each workload.
    pub tasks: u32,
}

/// A model of a settled fleet.
pub struct OrchestratedFleet {
    /// The model.
    pub model: Model,
}

impl OrchestratedFleet {
    /// Builds the model by events, as the agbot does, and lets every workload be reconciled once.
    pub fn new(size: FleetSize) -> Result<Self, String> {
        Self::with(size, &json!({}))
    }

    /// The same with further members of the settings of every workload.
    pub fn with(size: FleetSize, more: &Json) -> Result<Self, String> {
        let mut fleet = Self { model: Model::new(PlannerSettings::default()) };
        let org: OrgId = ORG.parse().map_err(|_| "the organization has no valid name".to_owned())?;
        fleet.apply(&Event::OrgsRead { orgs: BTreeSet::from([org.clone()]) });
        fleet.apply(&Event::PartitionsChanged { leases: (0..PARTITIONS).map(|one| (one, 1)).collect() });
        fleet.apply(&Event::ServiceChanged { service: Box::new(service()) });
        for number in 0..size.nodes {
            let node = node_id(number);
            fleet.apply(&Event::NodeChanged { node: Box::new(node_facts(&node)) });
            let policy = Some(Box::new(node_policy(number)));
            fleet.apply(&Event::NodePolicyChanged { node, policy });
        }
        for number in 0..size.workloads {
            let facts = policy_facts(number, size.tasks, &org, more)?;
            let workload = Box::new(WorkloadRecord::new(&facts));
            fleet.apply(&Event::DeploymentPolicyChanged { policy: Box::new(facts) });
            fleet.apply(&Event::WorkloadRecorded { workload });
        }
        for (number, tasks) in (0..).zip(tasks_by_node(size)) {
            fleet.apply_tasks(number, &tasks)?;
        }
        let decision = decide(&fleet.model, &Event::Tick, at(30), 1);
        fleet.model.note(&decision, at(30));
        for command in decision.commands {
            let outcome = match command.action {
                Action::ApplyPlan { .. } => Outcome::PlanApplied { claims: Vec::new() },
                _ => Outcome::Done,
            };
            fleet.model.apply(&Event::CommandOutcome { command: Box::new(command), outcome }, at(30));
        }
        Ok(fleet)
    }

    fn apply(&mut self, event: &Event) {
        self.model.apply(event, at(0));
    }

    /// Records what runs on a node: tasks with final agreements, and the instances in its status.
    fn apply_tasks(&mut self, number: u32, tasks: &[(u32, u32)]) -> Result<(), String> {
        let node = node_id(number);
        let mut services = Vec::new();
        for &(workload, slot) in tasks {
            let Some(record) = self.model.workload(&policy_id(workload)) else { continue };
            let spec = record.versions.current;
            let task = running_task(workload, slot, &node, spec);
            let agreement = agreement_of(&task, &node)?;
            services.push(ObservedService {
                agreement: Some(agreement.id.clone()),
                service: agreement.service_key.clone(),
                version: VERSION.into(),
                is_running: true,
            });
            self.apply(&Event::AgreementRecorded { agreement: Box::new(agreement) });
            self.apply(&Event::TaskRecorded { task: Box::new(task) });
        }
        let status = NodeStatusFacts { services, failures: Vec::new(), reported_at: Some(at(20)) };
        self.apply(&Event::NodeStatusChanged { node, status: Some(Box::new(status)) });
        Ok(())
    }

    /// Returns a task of a workload in the state after its program ended with an error.
    pub fn failed_task(&self, workload: u32, slot: u32) -> Option<Task> {
        let slot = Slot::Number(slot);
        let unit = self.model.workload_unit(&UnitId::all(policy_id(workload)))?;
        let mut task = unit.tasks(&slot).newest()?.clone();
        task.state = TaskState::Ended(Ending::Failed { exit_code: Some(1), error: "exit status 1".into() });
        (task.seq, task.state_at, task.ended_at) = (task.seq + 1, at(40), Some(at(40)));
        Some(task)
    }
}

/// Returns workload and slot of the tasks of each node: those of a workload lie side by side among the fit nodes of its cell.
fn tasks_by_node(size: FleetSize) -> Vec<Vec<(u32, u32)>> {
    let mut tasks = vec![Vec::new(); size.nodes as usize];
    let in_cell = size.nodes / CELLS;
    for workload in 0..size.workloads {
        let first = workload.wrapping_mul(37) % in_cell.max(1);
        let nodes = (0..in_cell).map(|step| (first + step) % in_cell * CELLS + workload % CELLS);
        for (slot, node) in (1..=size.tasks).zip(nodes.filter(|node| !is_unfit(*node))) {
            tasks[node as usize].push((workload, slot));
        }
    }
    tasks
}

/// Returns whether the placement expression is false on a node.
fn is_unfit(number: u32) -> bool {
    (number / CELLS).is_multiple_of(UNFIT)
}

/// Returns a node.
pub fn node_id(number: u32) -> NodeId {
    NodeId::new(ORG, &format!("node-{number:05}"))
}

/// Returns the policy of a workload.
pub fn policy_id(number: u32) -> PolicyId {
    PolicyId::new(ORG, &format!("workload-{number:04}"))
}

fn node_facts(id: &NodeId) -> NodeFacts {
    NodeFacts {
        arch: "amd64".into(),
        public_key: "key".into(),
        last_heartbeat: Some(at(0)),
        ..NodeFacts::new(id.clone())
    }
}

fn node_policy(number: u32) -> NodePolicyFacts {
    let properties = properties(number).into_iter().collect();
    let policy = ExternalPolicy { properties, ..ExternalPolicy::default() };
    NodePolicyFacts { policy, last_updated: Some(at(0)), ..NodePolicyFacts::default() }
}

fn properties(number: u32) -> [Property; 3] {
    [
        Property::new("cell", format!("cell-{}", number % CELLS)),
        Property::new("tier", if is_unfit(number) { "core" } else { "edge" }),
        Property::new("memory", 1_024 + number % 7),
    ]
}

fn service() -> ServiceFacts {
    let deployment = r#"{"services":{"web":{"image":"web"}}}"#;
    ServiceFacts::of_device(ServiceKey::from_text(SERVICE), VERSION, "amd64", deployment)
}

/// Returns the settings of a workload.
pub fn document(policy: &PolicyId, instances: u32, max_per_node: u32) -> Result<Orchestration, String> {
    document_with(policy, (instances, max_per_node), &json!({}))
}

/// Returns the settings of a workload that uses capacities, one instance on each node, an upgrade domain at a time.
pub fn domain_document(policy: &PolicyId, instances: u32) -> Result<Orchestration, String> {
    let more = json!({
        "loads": {"memoryMb": 50, "cpuMilli": 50, "diskMb": 50},
        "update": {"parallelism": 0}, "placement": {},
    });
    document_with(policy, (instances, 1), &more)
}

fn document_with(
    policy: &PolicyId,
    (instances, max_per_node): (u32, u32),
    more: &Json,
) -> Result<Orchestration, String> {
    let mut document = json!({
        "mode": "replicated", "replicas": instances, "maxPerNode": max_per_node,
        "restart": {"delaySeconds": 0}, "placement": {"expression": EXPRESSION},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    Orchestration::of_policy(policy, document).map_err(|error| error.to_string())
}

fn policy_facts(
    number: u32,
    instances: u32,
    org: &OrgId,
    more: &Json,
) -> Result<DeploymentPolicyFacts, String> {
    let id = policy_id(number);
    let document = document_with(&id, (instances, 1), more)?;
    let constraint = format!("cell == cell-{}", number % CELLS);
    let constraints = [constraint.as_str()].into_iter().collect();
    Ok(DeploymentPolicyFacts {
        pattern: None,
        label: String::new(),
        service: ServiceKey::from_text(SERVICE),
        arch: "*".into(),
        cluster_namespace: String::new(),
        versions: vec![VersionChoice { version: VERSION.into(), ..VersionChoice::default() }],
        missing_heartbeat_secs: 0,
        agreement_check_secs: 0,
        policy: ExternalPolicy { constraints, ..ExternalPolicy::default() },
        user_input: Vec::new(),
        secret_binding: Vec::new(),
        node_orgs: BTreeSet::from([org.clone()]),
        orchestration: PolicyOrchestration::of(&id, &document),
        last_updated: Some(at(0)),
        id,
    })
}

/// Returns a task that runs.
pub fn running_task(workload: u32, slot: u32, node: &NodeId, spec: SpecVersion) -> Task {
    let number = u64::from(workload) << 32 | u64::from(slot);
    Task {
        id: TaskId::from_text(&format!("{number:032x}")),
        unit_id: UnitId::all(policy_id(workload)),
        slot: Slot::Number(slot),
        generation: 1,
        spec,
        node: Some(node.clone()),
        agreement: Some(AgreementId::from_text(&format!("{number:064x}"))),
        desired: DesiredState::Running,
        state: TaskState::RUNNING,
        seq: 3,
        cause: Cause::Scale,
        origin: None,
        created_at: at(0),
        start_at: at(0),
        desired_at: Some(at(1)),
        state_at: at(2),
        running_at: Some(at(2)),
        ended_at: None,
        health: evenkeel_planner_record::workload::TaskHealth::default(),
        is_end_requested: None,
        restarts: evenkeel_planner_record::workload::NodeRestarts::default(),
    }
}

fn agreement_of(task: &Task, node: &NodeId) -> Result<Agreement, String> {
    let id = task.agreement.clone().ok_or_else(|| "a task has no agreement".to_owned())?;
    Ok(Agreement {
        id,
        node: node.clone(),
        policy: task.unit_id.policy.clone(),
        service: ServiceId::new(ORG, &format!("web_{VERSION}_amd64")),
        service_key: ServiceKey::from_text(SERVICE),
        version: VERSION.into(),
        priority: 0,
        best_version: VERSION.into(),
        terms_digest: 0,
        overrides: DeploymentOverrides::default(),
        pending_update: None,
        ha_group: None,
        created_at: at(0),
        reply_by: at(10),
        verified_at: None,
        task: Some(task.id.clone()),
        is_side_by_side: false,
        is_single: false,
        awaits_stop: false,
        state: AgreementState::Finalized { at: at(1) },
    })
}

/// A node for a placement, as its node policy describes it.
pub struct Candidate {
    id: NodeId,
    properties: [Property; 3],
    instance_count: u32,
}

impl Candidate {
    /// Returns the nodes of a fleet.
    pub fn fleet(count: u32) -> Vec<Candidate> {
        let candidate = |number| Candidate {
            id: node_id(number),
            properties: properties(number),
            instance_count: number % 17,
        };
        (0..count).map(candidate).collect()
    }

    /// Returns the instances of all workloads on the node.
    pub fn instance_count(&self) -> u32 {
        self.instance_count
    }

    /// Returns whether an expression is true on the node.
    pub fn satisfies(&self, expression: &Expression) -> bool {
        expression.evaluate(self).is_ok_and(|is_true| is_true)
    }

    /// Returns the node as the engine sees it.
    pub fn unit_node(&self, expression: &Expression) -> UnitNode {
        let expression = match expression.evaluate(self) {
            Ok(true) => Verdict::Passed,
            Ok(false) => Verdict::Failed(expression.as_str().into()),
            Err(error) => Verdict::Failed(error.to_string().into()),
        };
        UnitNode { expression, instance_count: self.instance_count, ..UnitNode::new(self.id.clone()) }
    }
}

impl References for Candidate {
    fn resolve(&self, reference: &Reference) -> Option<Value<'_>> {
        match reference {
            Reference::Node(name) => {
                self.properties.iter().find(|property| property.name == *name).and_then(Value::of_property)
            }
            _ => None,
        }
    }
}
