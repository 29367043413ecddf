//! The nodes of a workload unit, from the model.
//!
//! Source: orchestration 1.3, A5.3, A5.4, B9, D3.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::{
    policy::{
        PropertyList,
        expression::{Expression, Reference, References, Value},
    },
    review::check_expression,
};
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_placement::{
    matching,
    place::{NodeMarks, NodeState, Sparse, UnitNode, Verdict},
};
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, NodeMonitorState, NodeType},
    node_record::NodeRecord,
    report::{Blocked, FrozenLevel},
    workload::{Failure, Instance, UnitId, Workload, WorkloadUnit},
};
use jiff::Timestamp;

use super::{Liveness, Model, selection};

/// The rows of a workload on nodes.
pub type Instances = BTreeMap<NodeId, Instance>;

/// Returns the nodes of a workload unit, in scope order; nodes that the model does not know are left out.
///
/// `others`: nodes that left the workload unit and still have tasks of it.
pub fn unit_nodes(
    model: &Model,
    workload: &Workload,
    workload_unit: &WorkloadUnit,
    others: &BTreeSet<NodeId>,
    instances: &Instances,
    now: Timestamp,
) -> Vec<UnitNode> {
    let members: BTreeSet<&NodeId> = workload_unit.nodes.iter().collect();
    let left = others.iter().filter(|node| !members.contains(node));
    let all = workload_unit.nodes.iter().map(|node| (node, true)).chain(left.map(|node| (node, false)));
    let one = |(node, is_member)| {
        let record = model.node(node)?;
        let found = unit_node(model, workload, &workload_unit.id, record, instances, now);
        Some(UnitNode { is_member, ..found })
    };
    all.filter_map(one).collect()
}

/// Returns a node of the model as a workload unit sees it.
pub fn unit_node(
    model: &Model,
    workload: &Workload,
    unit_id: &UnitId,
    record: &NodeRecord,
    instances: &Instances,
    now: Timestamp,
) -> UnitNode {
    let id = &record.facts.id;
    let row = instances.get(id).cloned().unwrap_or_default();
    let current = workload.versions.current.number;
    let failed = |is_meant: &dyn Fn(&Failure) -> bool| {
        row.failed.as_ref().filter(|one| is_meant(one)).map(|one| one.message.clone())
    };
    let frozen = match (row.is_frozen, record.facts.is_frozen) {
        (true, _) => Some(FrozenLevel::Instance),
        (false, true) => Some(FrozenLevel::Node),
        (false, false) => None,
    };
    let choice = choice(model, workload, id, now);
    let blocklisted = choice.as_ref().ok().and_then(|choice| model.blocklisted(id, choice));
    let probe = choice.as_ref().ok().and_then(|choice| model.awaited_probe(id, choice));
    UnitNode {
        id: id.clone(),
        is_member: true,
        eligibility: eligibility(model, id, choice),
        expression: expression(model, workload, unit_id, record),
        affinity: model.affinity_on(workload, id, now).into(),
        room: model.room_on(workload, record),
        fault_domain: record.facts.fault_domain.clone(),
        upgrade_domain: record.facts.upgrade_domain.clone(),
        state: state(model, id, now),
        back_at: record.back_at,
        availability: model.wanted_availability(record),
        is_drain_forced: model.is_drain_forced(id),
        is_in_upgrade: model.is_upgraded(record),
        frozen,
        marks: Sparse::from(NodeMarks {
            start_failed: failed(&|one| !one.is_of_stop && one.version == current),
            stop_failed: failed(&|one| one.is_of_stop),
            blocklisted: blocklisted.map(Box::new),
            probe: probe.map(Box::new),
            cleared_at: row.cleared_at,
            fenced_at: row.fenced_at,
            last_start_at: row.last_start_at,
            has_versions_left: selection::has_versions_left(
                model,
                id,
                (&workload.policy, current),
                now,
                &|key| model.engine.blocklist.get(key).cloned(),
            ),
        }),
        is_pinned: row.pinned == Some(current),
        is_capable: record.facts.is_capable,
        is_named: record.facts.agent.is_some(),
        guardian: record.facts.guardian(),
        is_occupied: !record.facts.is_capable && model.runs_in_another_unit(id, unit_id),
        group: record.group().map(|group| GroupId::new(id.org(), group)),
        instance_count: u32::try_from(model.live_on(id).count()).unwrap_or(u32::MAX),
        statistics: model.current_statistics(id, now).map(Box::new),
        compat_version: record.facts.compat_version,
    }
}

fn state(model: &Model, node: &NodeId, now: Timestamp) -> NodeState {
    match model.liveness(node, now) {
        Liveness::Alive => NodeState::Ready,
        Liveness::NeverHeard => NodeState::NeverHeard,
        Liveness::Away { monitor_state, since } => NodeState::Away { monitor_state, since },
        Liveness::Unheard { since } => NodeState::Away { monitor_state: NodeMonitorState::Idle, since },
        // An agent that announces nothing is silent while it is upgraded under the claim of its group (E8-S1).
        Liveness::Down { since } if model.is_agent_in_upgrade(node) => {
            NodeState::Away { monitor_state: NodeMonitorState::Upgrade, since }
        }
        Liveness::Down { since } => NodeState::Down { since },
    }
}

/// Returns what the current version runs on a node.
fn choice(
    model: &Model,
    workload: &Workload,
    node: &NodeId,
    now: Timestamp,
) -> Result<matching::Choice, Blocked> {
    let current = workload.versions.current.number;
    match model.known_spec(&workload.policy, current) {
        Some(_) => selection::choose(model, node, &workload.policy, current, now),
        None => selection::select(model, node, &workload.policy, now),
    }
}

/// Edge clusters are not candidates of workloads with tasks.
fn eligibility(model: &Model, node: &NodeId, choice: Result<matching::Choice, Blocked>) -> Verdict {
    if model.node(node).is_some_and(|record| record.facts.node_type == NodeType::Cluster) {
        return Verdict::Failed("the node is an edge cluster".into());
    }
    match choice {
        Ok(_) => Verdict::Passed,
        Err(blocked) if blocked.is_incompatibility() => Verdict::Failed(blocked.to_string().into()),
        Err(blocked) => Verdict::Unclear(blocked.to_string().into()),
    }
}

fn expression(model: &Model, workload: &Workload, unit_id: &UnitId, record: &NodeRecord) -> Verdict {
    let expression = &workload.placement.expression;
    let Some(policy) = model.policy(&workload.policy).filter(|_| !expression.is_empty()) else {
        return Verdict::Passed;
    };
    match expression.evaluate(&OfNode { record, policy, unit_id }) {
        Ok(true) => Verdict::Passed,
        Ok(false) => Verdict::Failed(explained(expression, &OfNode { record, policy, unit_id }).into()),
        Err(error) => Verdict::Failed(error.to_string().into()),
    }
}

/// Returns the values of an expression that is false, and its text.
fn explained(expression: &Expression, node: &OfNode<'_>) -> String {
    let value = |reference: &&Reference| Some(format!("{reference}={}", text_of(&node.resolve(reference)?)));
    let values: Vec<String> = expression.references().iter().filter_map(value).collect();
    let separator = if values.is_empty() { "" } else { ", " };
    let hint = check_expression(expression).err().map(|error| format!("; {error}")).unwrap_or_default();
    format!("{}{separator}expression false: {}{hint}", values.join(", "), expression.as_str())
}

fn text_of(value: &Value<'_>) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::List(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
    }
}

/// Resolves the references of an expression on a node.
struct OfNode<'a> {
    record: &'a NodeRecord,
    policy: &'a DeploymentPolicyFacts,
    unit_id: &'a UnitId,
}

impl References for OfNode<'_> {
    fn resolve(&self, reference: &Reference) -> Option<Value<'_>> {
        let facts = &self.record.facts;
        match reference {
            Reference::NodeId => Some(Value::text(facts.id.name())),
            Reference::Organization => Some(Value::text(facts.id.org())),
            Reference::Arch => Some(Value::text(facts.arch.as_str())),
            Reference::NodeType => Some(Value::text(match facts.node_type {
                NodeType::Device => "device",
                NodeType::Cluster => "cluster",
            })),
            Reference::HaGroup => self.record.group().map(Value::text),
            Reference::WorkloadUnit => Some(Value::text(self.unit_id.name())),
            Reference::FaultDomain => Some(Value::text(format!("fd:/{}", facts.id.name()))),
            Reference::UpgradeDomain => Some(Value::text(facts.id.name())),
            Reference::PolicyName => Some(Value::text(self.policy.id.name())),
            Reference::Node(name) => property(self.record.properties()?, name),
            Reference::Environment(name) => property(&self.policy.policy.properties, name),
            Reference::Label(_) | Reference::Unknown(_) => None,
        }
    }
}

fn property<'a>(properties: &'a PropertyList, name: &str) -> Option<Value<'a>> {
    properties.iter().find(|property| property.name == name).and_then(Value::of_property)
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::{ExternalPolicy, Property};
    use evenkeel_ids::PolicyId;
    use evenkeel_planner_record::{facts::NodePolicyFacts, fixture::deployment_policy};

    use super::*;
    use crate::{event::Event, group_fixture::running_group};

    fn failure(version: u64) -> Failure {
        Failure { message: "failed".into(), version, is_of_stop: false }
    }

    fn nodes(expression: &str) -> Vec<UnitNode> {
        let (mut model, now) = running_group(&["a", "b"]);
        let policy = PolicyId::new("o", "p");
        model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(deployment_policy()) }, now);
        let properties = [Property::new("tier", "QA")].into_iter().collect();
        let facts = NodePolicyFacts {
            policy: ExternalPolicy { properties, ..ExternalPolicy::default() },
            ..NodePolicyFacts::default()
        };
        let node = NodeId::new("o", "a");
        model.apply(&Event::NodePolicyChanged { node, policy: Some(Box::new(facts)) }, now);
        let mut workload = Workload::new(policy.clone(), 1);
        workload.placement.expression = Expression::parse(expression).expect("the expression is valid");
        let ids = ["a", "b", "c"].map(|name| NodeId::new("o", name)).to_vec();
        let workload_unit = WorkloadUnit { id: UnitId::all(policy), nodes: ids };
        let rows = BTreeMap::from([
            (
                NodeId::new("o", "a"),
                // Another version than the current one.
                Instance { failed: Some(failure(7)), ..Instance::default() },
            ),
            (
                NodeId::new("o", "b"),
                Instance { is_frozen: true, failed: Some(failure(1)), ..Instance::default() },
            ),
        ]);
        let none = BTreeSet::new();
        unit_nodes(&model, &workload, &workload_unit, &none, &rows, now)
    }

    #[test]
    fn nodes_of_the_model_are_found_with_their_rows() {
        let found = nodes("");
        assert_eq!(found.iter().map(|node| node.id.name()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(found[0].group, Some(GroupId::new("o", "g")));
        assert_eq!((found[0].frozen, found[1].frozen), (None, Some(FrozenLevel::Instance)));
        assert_eq!(
            (found[0].marks.start_failed.as_deref(), found[1].marks.start_failed.as_deref()),
            (None, Some("failed"))
        );
        assert_eq!((found[0].state, found[0].instance_count), (NodeState::Ready, 1));
        assert!(!found[0].eligibility.is_passed(), "the model has no such service");
    }

    /// A5-S2.
    #[test]
    fn expression_is_evaluated_on_each_node_and_explained() {
        let found = nodes("\"{node.tier}\" in (LAB, QA) and {hagroup} == g");
        assert!(found[0].expression.is_passed());
        // Node b has no property of that name.
        let Verdict::Failed(reason) = &found[1].expression else { panic!("it has no value on b") };
        assert!(reason.contains("unresolved {node.tier}"), "{reason}");
        let Verdict::Failed(reason) = &nodes("{nodename} == c")[0].expression else { panic!("it is false") };
        assert_eq!(&**reason, "{nodename}=a, expression false: {nodename} == c");
        let Verdict::Failed(reason) = &nodes("tier == QA")[0].expression else { panic!("two texts") };
        assert!(reason.starts_with("expression false: tier == QA; `tier` is a text"), "{reason}");
    }
}
