//! Preview of a write of a deployment policy, or of something that policies depend on: the decisions that would follow, on a copy of the
//! model.
//!
//! Nothing is carried out. A write of a policy without tasks is planned as if it had some: each of its agreements is a task then, and the
//! same gates hold. Source: orchestration D3 (`plan`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use evenkeel_agreement::engine::{UnitInputs, adopted_tasks, first_record, has_other_form};
use evenkeel_domain::orchestration::Orchestration;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_placement::{
    matching::Fit,
    place::{NodeState, UnitNode},
};
use evenkeel_planner_model::{
    event::Event,
    model::{Model, UnitRecord, selection::fit},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{DeploymentOverrides, DeploymentPolicyFacts},
    workload::{SlotTasks, SpecVersion, Task, TaskSpec, UnitId, Workload, WorkloadRecord},
};
use evenkeel_reconcile::reconcile::{DryRun, ExpectedChange, ExpectedKind, dry_removal, dry_run};
use evenkeel_status::status::{ExplainedConstraint, Question};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::explain::explain_placement;

/// Bytes of the digest that make a token.
const TOKEN_BYTES: usize = 16;

/// Preview of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// The workload units, by name.
    pub workload_units: Vec<PreviewedUnit>,
    /// Reason why versions cannot be deployed on any node, and which policies are named that do not exist, in
    /// words.
    pub warnings: Vec<String>,
    /// Digest of what the preview was made from and of its outcome: 32 hexadecimal digits.
    pub token: String,
}

/// Preview of a workload unit.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewedUnit {
    /// The workload unit.
    pub id: UnitId,
    /// The instances that it has now.
    pub instances: u64,
    /// The changes.
    pub run: DryRun,
    /// Nodes that each constraint removes before them.
    pub sequence: Vec<ExplainedConstraint>,
}

/// Returns what would happen if a policy were written.
///
/// # Shape
/// `model`: a copy, which is consumed. `written`: the policy and its services as events; none plans the policy as it is. `document`: the
/// policy's `orchestration`, or the default.
pub fn preview(
    mut model: Model,
    policy: &PolicyId,
    written: &[Event],
    document: &Orchestration,
    now: Timestamp,
) -> Preview {
    let before = model.written_policy(policy).cloned();
    let mut basis = Basis::default();
    basis.add_present(&model, policy, before.as_ref());
    for event in written {
        model.apply(event, now);
    }
    let Some(mut facts) = model.written_policy(policy).cloned() else {
        return Preview { workload_units: Vec::new(), warnings: Vec::new(), token: basis.token() };
    };
    basis.add_written(&facts);
    let is_kept = keeps_agreements(&model, &facts, now);
    facts.orchestration.document.get_or_insert_with(|| Box::new(document.clone()));
    let mut workload_units = Vec::new();
    for UnitRun { id, instances, mut run } in dry_runs(&mut model, &facts, before.as_ref(), now) {
        if let Some(unit) = model.workload_unit(&id) {
            let stops_kept = |change: &ExpectedChange| {
                change.kind == ExpectedKind::Stop && change.from.as_ref().is_some_and(&is_kept)
            };
            run.changes.retain(|change| !stops_kept(change));
            basis.add_unit(&id, unit, &run);
        }
        let question = Question { part: &id, node: None, is_complete: false, now };
        let sequence = explain_placement(&model, question).map(|found| found.sequence).unwrap_or_default();
        workload_units.push(PreviewedUnit { id, instances, run, sequence });
    }
    let mut warnings = model.unusable_versions(policy);
    warnings.extend(model.missing_policies(&facts).iter().map(ToString::to_string));
    warnings.extend(failing_slots(&model, policy));
    Preview { workload_units, warnings, token: basis.token() }
}

/// Returns which slots a version does not count as updated in because it failed there, in words; none when the write starts an update.
fn failing_slots(model: &Model, policy: &PolicyId) -> Vec<String> {
    let Some(record) = model.workload(policy) else { return Vec::new() };
    let unit_ids = model.workload_units_of(policy).map(|(unit_id, _)| unit_id);
    let texts =
        unit_ids.filter_map(|unit_id| Some((unit_id.name(), record.update.failing_text(&unit_id.part)?)));
    texts.map(|(name, text)| format!("{name}: {text}")).collect()
}

/// Returns on which nodes an agreement of a policy without tasks goes on, whatever a plan with tasks would stop: unless it is lost, it stays
/// with a node that leaves a group, and with one that is silent.
///
/// # Source
/// Orchestration E2.4.
fn keeps_agreements(
    model: &Model,
    policy: &DeploymentPolicyFacts,
    now: Timestamp,
) -> impl Fn(&NodeId) -> bool + use<> {
    let has_tasks = policy.orchestration.document.is_some();
    let is_kept =
        |agreement: &&Agreement| !is_ending(model, agreement, now) || model.is_down(&agreement.node, now);
    let agreements = model.agreements_of(&policy.id).filter(|_| !has_tasks);
    let kept: BTreeSet<NodeId> = agreements.filter(is_kept).map(|agreement| agreement.node.clone()).collect();
    move |node| kept.contains(node)
}

/// Returns whether an agreement of a policy without tasks ends: it is lost, or its node is drained.
fn is_ending(model: &Model, agreement: &Agreement, now: Timestamp) -> bool {
    matches!(fit(model, agreement, now), Fit::Lost(_) | Fit::Leaving)
}

/// Changes of a workload unit, and the instances that it has before them.
struct UnitRun {
    id: UnitId,
    instances: u64,
    run: DryRun,
}

/// Returns the changes of the units of a policy that the model has; `before`: the policy as it was when its instances were placed.
fn dry_runs(
    model: &mut Model,
    facts: &DeploymentPolicyFacts,
    before: Option<&DeploymentPolicyFacts>,
    now: Timestamp,
) -> Vec<UnitRun> {
    let record = prepare(model, facts, before, now);
    let pass = Pass::to_explain(model, now);
    let gone = Workload::new(facts.id.clone(), 0);
    let workload = model.workload_of(&facts.id).unwrap_or(&gone);
    let runs = model.workload_units_of(&facts.id).map(|(unit_id, unit)| {
        let inputs = UnitInputs::new(&pass, workload, unit_id, unit, None);
        let facts = inputs.facts(&record);
        let run = if unit.is_wanted { dry_run(&facts, now) } else { dry_removal(&facts, now) };
        let has_instance =
            |tasks: &&SlotTasks| tasks.iter().any(|task| task.is_live() && task.node.is_some());
        let instances = unit.slots.values().filter(has_instance).count() as u64;
        UnitRun { id: unit_id.clone(), instances, run }
    });
    runs.collect()
}

/// Instances of a deployment policy that something stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedInstances {
    /// The policy.
    pub policy: PolicyId,
    /// The instances that it has now.
    pub instances: u64,
    /// Those of them that stop without a replacement, at once or after the gates that hold them up.
    pub stopped: u64,
}

/// Returns the instances that would stop if something were written that deployment policies depend on, for each policy that loses one.
///
/// # Shape
/// `model`: a copy, which is consumed. `written`: what is written, as the events that follow it. `is_meant`: the policies that are planned.
pub fn stopped_instances(
    mut model: Model,
    written: &[Event],
    is_meant: impl Fn(&PolicyId) -> bool,
    now: Timestamp,
) -> Vec<StoppedInstances> {
    let concerned: BTreeSet<PolicyId> =
        written.iter().flat_map(|event| concerned_policies(&model, event)).collect();
    let meant = concerned.iter().filter(|policy| is_meant(policy));
    let concerned: Vec<DeploymentPolicyFacts> =
        meant.filter_map(|policy| model.written_policy(policy).cloned()).collect();
    let all_before: Vec<(u64, u64)> =
        concerned.iter().map(|policy| stops_of(&mut model, policy, now)).collect();
    for event in written {
        model.apply(event, now);
    }
    let mut found = Vec::new();
    for (policy, (instances, before)) in concerned.into_iter().zip(all_before) {
        let (_, after) = stops_of(&mut model, &policy, now);
        // What stops or waits anyhow is no effect of the write.
        let stopped = after.saturating_sub(before).min(instances);
        if stopped > 0 {
            found.push(StoppedInstances { policy: policy.id, instances, stopped });
        }
    }
    found
}

/// Returns how many instances of each policy are on some nodes, and how many it has in all.
pub fn instances_on(
    model: &Model,
    nodes: &BTreeSet<NodeId>,
    is_meant: impl Fn(&PolicyId) -> bool,
) -> BTreeMap<PolicyId, (u64, u64)> {
    let mut found: BTreeMap<PolicyId, (u64, u64)> = BTreeMap::new();
    let on_nodes = nodes.iter().flat_map(|node| model.live_on(node));
    for agreement in on_nodes.filter(|agreement| is_meant(&agreement.policy)) {
        found.entry(agreement.policy.clone()).or_default().0 += 1;
    }
    for (policy, (_, all)) in &mut found {
        *all = model.agreements_of(policy).count() as u64;
    }
    found
}

/// Returns the instances of a policy, and those that stop or that a gate holds up.
fn stops_of(model: &mut Model, policy: &DeploymentPolicyFacts, now: Timestamp) -> (u64, u64) {
    if policy.orchestration.document.is_none() {
        // Without tasks an instance is judged by its agreement, which a change of groups does not end.
        let agreements: Vec<&Agreement> = model.agreements_of(&policy.id).collect();
        let ending = agreements.iter().filter(|agreement| is_ending(model, agreement, now)).count();
        return (agreements.len() as u64, ending as u64);
    }
    let runs = dry_runs(model, policy, Some(policy), now);
    let changes = runs.iter().flat_map(|unit| &unit.run.changes);
    let stops = changes.filter(|change| change.kind == ExpectedKind::Stop).count();
    let held = runs.iter().map(|unit| unit.run.blocked.len()).sum::<usize>();
    (runs.iter().map(|unit| unit.instances).sum(), (stops + held) as u64)
}

/// Returns the policies whose instances depend on what an event is about.
fn concerned_policies(model: &Model, event: &Event) -> BTreeSet<PolicyId> {
    let run_by = |node: &NodeId| -> BTreeSet<PolicyId> {
        model.live_on(node).map(|agreement| agreement.policy.clone()).collect()
    };
    let run_by_group = |group: &GroupId, more: &BTreeSet<NodeId>| -> BTreeSet<PolicyId> {
        let members = model.group(group).into_iter().flat_map(|group| &group.members);
        members.chain(more).flat_map(run_by).collect()
    };
    match event {
        Event::NodeChanged { node } => run_by(&node.id),
        Event::NodePolicyChanged { node, .. } => run_by(node),
        Event::HaGroupChanged { group } => run_by_group(&group.id, &group.members),
        Event::HaGroupRemoved { group } => run_by_group(group, &BTreeSet::new()),
        _ => model.policies().map(|policy| policy.id.clone()).collect(),
    }
}

/// Brings the rows of a workload in line with its policy; without fitting rows its agreements are adopted.
fn prepare(
    model: &mut Model,
    facts: &DeploymentPolicyFacts,
    before: Option<&DeploymentPolicyFacts>,
    now: Timestamp,
) -> WorkloadRecord {
    let policy = &facts.id;
    model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(facts.clone()) }, now);
    let in_force = model.policy(policy).unwrap_or(facts);
    let known = model.workload(policy).cloned().filter(|known| !has_other_form(model, known, in_force));
    let is_known = known.is_some();
    let record = match known {
        Some(known) => known.written(facts, now).unwrap_or(known),
        None => first_record(model, facts),
    };
    if !is_known {
        model.apply(&Event::WorkloadRemoved { policy: policy.clone() }, now);
    }
    model.apply(&Event::WorkloadRecorded { workload: Box::new(record.clone()) }, now);
    if !is_known {
        for task in adopted(model, &record, before, now) {
            model.apply(&Event::TaskRecorded { task: Box::new(task) }, now);
        }
    }
    record
}

/// Returns tasks for the agreements of a policy; those of a policy that ran something else are out of date.
fn adopted(
    model: &Model,
    record: &WorkloadRecord,
    before: Option<&DeploymentPolicyFacts>,
    now: Timestamp,
) -> Vec<Task> {
    let written = record.versions.rolled_back_from.unwrap_or(record.versions.current);
    let digest = before.map(|before| TaskSpec::of(before).digest());
    let spec = |task: &Task| match digest {
        Some(digest) if digest != written.digest => SpecVersion { number: 0, digest },
        _ => task.spec,
    };
    let tasks = adopted_tasks(&Pass::to_explain(model, now), record);
    tasks.into_iter().map(|task| Task { spec: spec(&task), ..task }).collect()
}

/// Facts that a token covers. Times of heartbeats and counts of other workloads are left out; only their
/// effects are part of it.
#[derive(Default)]
struct Basis(String);

impl Basis {
    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn add_present(&mut self, model: &Model, policy: &PolicyId, before: Option<&DeploymentPolicyFacts>) {
        self.add(format_args!("policy {policy} {:?}", before.map(|before| before.last_updated)));
        if let Some(record) = model.workload(policy) {
            let (versions, update) = (record.versions, record.update.state);
            let action = record.action.as_ref().map(|action| &action.id);
            self.add(format_args!("workload {} {versions:?} {update:?} {action:?}", record.is_frozen));
        }
    }

    fn add_written(&mut self, facts: &DeploymentPolicyFacts) {
        let mut facts = DeploymentPolicyFacts { last_updated: None, ..facts.clone() };
        for version in &mut facts.versions {
            // Each attempt signs the text again.
            let text = version.overrides.text.clone();
            version.overrides = DeploymentOverrides { text, signature: String::new() };
        }
        self.add(format_args!("written {facts:?}"));
    }

    fn add_unit(&mut self, unit_id: &UnitId, unit: &UnitRecord, run: &DryRun) {
        self.add(format_args!("workload unit {}", unit_id.name()));
        for node in unit.table.nodes() {
            self.add_node(node);
        }
        for task in unit.slots.values().flat_map(evenkeel_planner_record::workload::SlotTasks::iter) {
            let (id, spec, node) = (&task.id, task.spec, &task.node);
            let (desired, state) = (task.desired, task.state.name());
            self.add(format_args!("task {id} {} {spec:?} {node:?} {desired:?} {state}", task.slot));
        }
        for change in &run.changes {
            self.add(format_args!("change {change:?}"));
        }
    }

    fn add_node(&mut self, node: &UnitNode) {
        let is_fit = (node.is_member, node.eligibility.is_passed(), node.expression.is_passed());
        let state = match node.state {
            NodeState::Ready => "ready",
            NodeState::NeverHeard => "never heard",
            NodeState::Down { .. } => "down",
            NodeState::Away { .. } => "away",
        };
        let (id, availability, frozen) = (&node.id, node.availability, node.frozen);
        let has_failed = node.marks.start_failed.is_some()
            || node.marks.stop_failed.is_some()
            || node.marks.blocklisted.is_some();
        self.add(format_args!("node {id} {is_fit:?} {state} {availability:?} {frozen:?} {has_failed}"));
    }

    fn token(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest.iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::ExternalPolicy;
    use evenkeel_planner_model::group_fixture::running_group;
    use evenkeel_planner_record::{
        facts::{HaGroupFacts, NodePolicyFacts, PolicyOrchestration, VersionChoice},
        fixture::{deployment_policy, service},
        report::HoldReason,
        rollout::{Rollback, Rollout, RolloutState, target_digest},
        workload::UpdateState,
    };
    use evenkeel_reconcile::reconcile::ExpectedKind::{Replace, Stop};
    use serde_json::{Value, json};

    use super::*;

    /// A group of two nodes that run version 1.0.0 of `o/s`, without tasks.
    fn settled() -> (Model, Timestamp) {
        let (mut model, now) = running_group(&["a", "b"]);
        for version in ["1.0.0", "2.0.0"] {
            model.apply(&Event::ServiceChanged { service: Box::new(service("s", version)) }, now);
        }
        for name in ["a", "b"] {
            let facts = NodePolicyFacts { policy: ExternalPolicy::default(), ..NodePolicyFacts::default() };
            let (node, policy) = (NodeId::new("o", name), Some(Box::new(facts)));
            model.apply(&Event::NodePolicyChanged { node, policy }, now);
        }
        let policy = Box::new(deployment_policy());
        model.apply(&Event::DeploymentPolicyChanged { policy }, now);
        (model, now)
    }

    fn planned(model: &Model, version: &str, document: Value, now: Timestamp) -> Preview {
        let id = deployment_policy().id;
        let read = Orchestration::of_policy(&id, document).expect("the document is valid");
        let facts = DeploymentPolicyFacts {
            versions: vec![VersionChoice { version: version.into(), ..VersionChoice::default() }],
            orchestration: PolicyOrchestration::of(&id, &read),
            last_updated: Some(now),
            ..deployment_policy()
        };
        let written = [Event::DeploymentPolicyChanged { policy: Box::new(facts) }];
        preview(model.clone(), &id, &written, &read, now)
    }

    fn kinds(found: &Preview) -> Vec<(ExpectedKind, String)> {
        let changes = found.workload_units.iter().flat_map(|found| &found.run.changes);
        changes.map(|change| (change.kind, change.slot.to_string())).collect()
    }

    #[test]
    fn write_without_effect_plans_nothing_and_a_new_version_replaces_member_after_member() {
        let (model, now) = settled();
        assert_eq!(kinds(&planned(&model, "1.0.0", json!({}), now)), []);
        let found = planned(&model, "2.0.0", json!({}), now);
        assert_eq!(kinds(&found), [(Replace, "o/a".into()), (Replace, "o/b".into())]);
        assert!(found.workload_units.iter().all(|found| found.run.is_complete));
    }

    #[test]
    fn agreements_of_silent_nodes_stay_without_tasks() {
        let (model, now) = settled();
        let silent_at = now + jiff::SignedDuration::from_mins(10);
        let id = deployment_policy().id;
        assert_eq!(kinds(&preview(model.clone(), &id, &[], &Orchestration::default(), silent_at)), []);
        assert_eq!(kinds(&planned(&model, "1.0.0", json!({}), silent_at)), [], "nothing takes their places");
    }

    #[test]
    fn agreement_of_a_node_that_leaves_its_group_stays_without_tasks() {
        let (mut model, now) = settled();
        let constraints = ["openhorizon.hagroup == g"].into_iter().collect();
        let policy = ExternalPolicy { constraints, ..ExternalPolicy::default() };
        let policy = Box::new(DeploymentPolicyFacts { policy, ..deployment_policy() });
        model.apply(&Event::DeploymentPolicyChanged { policy: policy.clone() }, now);
        let agreements: Vec<Agreement> = model.agreements_of(&policy.id).cloned().collect();
        for agreement in agreements {
            let agreement = Box::new(Agreement { ha_group: Some("g".into()), ..agreement });
            model.apply(&Event::AgreementRecorded { agreement }, now);
        }
        let left = HaGroupFacts::new(GroupId::from_text("o/g"), [NodeId::new("o", "b")]);
        model.apply(&Event::HaGroupChanged { group: Box::new(left) }, now);
        let as_it_is =
            |model: &Model| kinds(&preview(model.clone(), &policy.id, &[], &Orchestration::default(), now));
        assert_eq!(as_it_is(&model), []);
    }

    #[test]
    fn number_of_instances_adopts_what_runs_and_stops_the_rest() {
        let (model, now) = settled();
        let found = planned(&model, "1.0.0", json!({"mode": "replicated", "replicas": 1}), now);
        assert_eq!(kinds(&found), [(Stop, "2".into())]);
        let found =
            planned(&model, "1.0.0", json!({"mode": "replicated", "replicas": 3, "maxPerNode": 2}), now);
        assert_eq!(kinds(&found), [], "no node takes a third one: {found:?}");
        assert!(found.workload_units[0].run.unplaced.is_some());
    }

    #[test]
    fn writes_that_policies_depend_on_stop_what_has_no_other_node() {
        let (mut model, now) = settled();
        let stops = |model: &Model, written: Event| {
            let found = stopped_instances(model.clone(), &[written], |_| true, now);
            found.iter().map(|one| (one.policy.to_string(), one.stopped, one.instances)).collect::<Vec<_>>()
        };
        let asks_for = |name: &str, constraint: &str| {
            let policy = ExternalPolicy {
                constraints: [constraint].into_iter().collect(),
                ..ExternalPolicy::default()
            };
            let facts = NodePolicyFacts { policy, ..NodePolicyFacts::default() };
            Event::NodePolicyChanged { node: NodeId::new("o", name), policy: Some(Box::new(facts)) }
        };
        let lost = |stopped: u64| vec![("o/p".to_owned(), stopped, 2)];
        assert_eq!(stops(&model, asks_for("a", "openhorizon.service.url == s")), []);
        assert_eq!(stops(&model, asks_for("a", "openhorizon.service.url == t")), lost(1));
        let both = ["a", "b"].map(|name| asks_for(name, "openhorizon.service.url == t"));
        let found = stopped_instances(model.clone(), &both, |_| true, now);
        assert_eq!(found.iter().map(|one| one.stopped).collect::<Vec<_>>(), [2]);
        let nodes = BTreeSet::from([NodeId::new("o", "a"), NodeId::new("o", "none")]);
        let on_nodes: Vec<_> = instances_on(&model, &nodes, |_| true).into_values().collect();
        assert_eq!(on_nodes, [(1, 2)]);
        let silent_at = now + jiff::SignedDuration::from_mins(10);
        let other = asks_for("a", "openhorizon.service.url == s");
        let found = stopped_instances(model.clone(), &[other], |_| true, silent_at);
        assert_eq!(found, [], "agreements of silent nodes stay");
        let service = service("s", "1.0.0").id;
        assert_eq!(stops(&model, Event::ServiceRemoved { service }), [], "what runs stays");
        let group = GroupId::from_text("o/g");
        let removed = Event::HaGroupRemoved { group: group.clone() };
        assert_eq!(stops(&model, removed.clone()), [], "the policy does not name it");

        let constraints = ["openhorizon.hagroup == g"].into_iter().collect();
        let read =
            Orchestration::of_policy(&deployment_policy().id, json!({})).expect("the document is valid");
        let policy = DeploymentPolicyFacts {
            policy: ExternalPolicy { constraints, ..ExternalPolicy::default() },
            orchestration: PolicyOrchestration::of(&deployment_policy().id, &read),
            ..deployment_policy()
        };
        model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(policy) }, now);
        let left = HaGroupFacts::new(group, [NodeId::new("o", "b")]);
        assert_eq!(stops(&model, Event::HaGroupChanged { group: Box::new(left) }), lost(1));
        assert_eq!(stops(&model, removed), lost(2));
    }

    /// The policy wants 2.0.0, and its group went back to 1.0.0.
    fn rolled_back() -> (Model, Timestamp) {
        let (mut model, now) = settled();
        let choice = VersionChoice { version: "2.0.0".into(), ..VersionChoice::default() };
        let policy = DeploymentPolicyFacts { versions: vec![choice], ..deployment_policy() };
        let node = NodeId::new("o", "a");
        let rollout = Rollout {
            group: model.group_of(&node).expect("it is in a group").id.clone(),
            policy: policy.id.clone(),
            target: "o/s 2.0.0".into(),
            target_digest: target_digest(&policy),
            started_at: now,
            total: 1,
            done: 1,
            failed: vec![node.clone()],
            last_step_at: Some(now),
            last_node: None,
            previous_version: Some("1.0.0".into()),
            previous_overrides: DeploymentOverrides::default(),
            durations: evenkeel_planner_record::rollout::StepDurations::default(),
            rollback: Some(Rollback {
                version: "1.0.0".into(),
                overrides: DeploymentOverrides::default(),
                why: HoldReason::RollbackRequested { actor: "o/ann".into() },
                since: now,
                slots: 2,
            }),
            revision: 1,
            state: RolloutState::Completed { at: now },
        };
        model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(policy) }, now);
        model.apply(&Event::RolloutRecorded { rollout: Box::new(rollout) }, now);
        (model, now)
    }

    #[test]
    fn version_that_was_rolled_back_is_not_planned_again() {
        let (mut model, now) = rolled_back();
        model.apply(&Event::ServiceChanged { service: Box::new(service("s", "3.0.0")) }, now);
        let as_it_is = preview(model.clone(), &deployment_policy().id, &[], &Orchestration::default(), now);
        assert_eq!(kinds(&as_it_is), []);
        assert_eq!(kinds(&planned(&model, "2.0.0", json!({}), now)), [], "tasks alone are no other version");
        let other = kinds(&planned(&model, "3.0.0", json!({}), now));
        assert_eq!(other, [(Replace, "o/a".into()), (Replace, "o/b".into())]);
    }

    #[test]
    fn rollback_before_a_policy_has_tasks_is_that_of_its_workload() {
        let (model, _) = rolled_back();
        let policy = model.policy(&deployment_policy().id).expect("the policy exists");
        let record = first_record(&model, policy);
        assert_eq!(record.update.state, UpdateState::RollbackCompleted);
        let version = |number: u64| record.spec(number).expect("it is stored").versions[0].version.clone();
        assert_eq!(version(record.versions.current.number), "1.0.0");
        let given_up = record.versions.rolled_back_from.expect("a version was given up");
        assert_eq!(version(given_up.number), "2.0.0");
        assert_eq!(record.versions.retry().map(|versions| versions.current), Some(given_up));
        assert_eq!(record.versions.write(TaskSpec::of(policy).digest()), record.versions);
    }

    #[test]
    fn token_stays_until_the_document_or_the_world_changes() {
        let (mut model, now) = settled();
        let document = json!({"mode": "replicated", "replicas": 1});
        let token = planned(&model, "1.0.0", document.clone(), now).token;
        let later = now + jiff::SignedDuration::from_secs(2);
        assert_eq!(planned(&model, "1.0.0", document.clone(), later).token, token);
        assert_ne!(planned(&model, "2.0.0", document.clone(), now).token, token);
        let status = evenkeel_planner_record::facts::NodeStatusFacts::default();
        let event = Event::NodeStatusChanged { node: NodeId::new("o", "b"), status: Some(Box::new(status)) };
        model.apply(&event, now);
        let mut stopped = model.node(&NodeId::new("o", "b")).expect("the node exists").facts.clone();
        stopped.availability = evenkeel_planner_record::facts::Availability::Drain;
        model.apply(&Event::NodeChanged { node: Box::new(stopped) }, now);
        assert_ne!(planned(&model, "1.0.0", document, now).token, token);
    }
}
