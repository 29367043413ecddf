//! Accepted actions and their goals: A6, P.

use evenkeel_ids::TaskId;
use evenkeel_placement::place::{NodeState, NodeTable, UnitNode, Verdict};
use evenkeel_planner_record::{
    fixture::{at, deployment_policy},
    goal::StartMode,
    report::FrozenLevel,
    settings::PlannerSettings,
    workload::{Cause, DesiredState, NodeOrder, Slot, SpecVersion, TaskState, UpdateState, by_slot},
};

use super::*;
use crate::user_action::RequestedRecovery;

fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

/// One workload unit on nodes `n1`, `n2` and `n3`, ranked in this order.
struct Fixture {
    record: WorkloadRecord,
    workload: Workload,
    id: UnitId,
    nodes: Vec<UnitNode>,
    running: Vec<NodeId>,
}

impl Fixture {
    fn new(goal: Goal, running: &[&str]) -> Self {
        let record = WorkloadRecord::new(&deployment_policy());
        let mut workload = Workload { goal, ..Workload::new(record.policy.clone(), 1) };
        workload.placement.order = NodeOrder::Listed;
        Self {
            id: UnitId::all(record.policy.clone()),
            record,
            workload,
            nodes: ["n1", "n2", "n3"].map(|name| UnitNode::new(node(name))).to_vec(),
            running: running.iter().map(|name| node(name)).collect(),
        }
    }

    fn failover(start: StartMode, running: &[&str]) -> Self {
        Self::new(Goal::failover(start, 16), running)
    }

    fn task(&self, number: u32, on: &NodeId) -> Task {
        Task {
            id: TaskId::from_text(&format!("task {number}")),
            unit_id: self.id.clone(),
            slot: Slot::Number(number),
            generation: 1,
            spec: SpecVersion { number: 1, digest: 1 },
            node: Some(on.clone()),
            agreement: None,
            desired: DesiredState::Running,
            state: TaskState::RUNNING,
            seq: 1,
            cause: Cause::Scale,
            origin: None,
            created_at: at(0),
            start_at: at(0),
            desired_at: Some(at(0)),
            state_at: at(1),
            running_at: Some(at(1)),
            ended_at: None,
            health: evenkeel_planner_record::workload::TaskHealth::default(),
            is_end_requested: None,
            restarts: evenkeel_planner_record::workload::NodeRestarts::default(),
        }
    }

    fn request(&self, request: &RequestedAction<'_>) -> Result<ActionGoals, ActionRefusal> {
        let mut table = NodeTable::new(self.nodes.clone(), 1);
        self.running.iter().for_each(|node| table.count_instance(node, true));
        let tasks = (1..).zip(&self.running).map(|(number, on)| self.task(number, on));
        let unit = UnitRecord { table, slots: by_slot(tasks), is_wanted: true, ..UnitRecord::default() };
        let part = Candidate { id: &self.id, unit: &unit, workload: &self.workload };
        let (record, workload) = (&self.record, &self.workload);
        let is_held = record.is_stopped || record.is_frozen;
        let model = &Model::new(PlannerSettings::default());
        Accepting { model, record, workload, parts: vec![part], request, is_held, now: at(600) }.goals()
    }

    fn act(&self, kind: LastingAction, to: &[&str]) -> Result<ActionGoals, ActionRefusal> {
        self.act_forced(kind, to, false)
    }

    fn act_forced(
        &self,
        kind: LastingAction,
        to: &[&str],
        is_forced: bool,
    ) -> Result<ActionGoals, ActionRefusal> {
        let nodes: Vec<NodeId> = to.iter().map(|name| node(name)).collect();
        let is_switch = kind == LastingAction::Switch;
        let named = nodes.first().filter(|_| !is_switch);
        let destinations = if is_switch { nodes.as_slice() } else { &[] };
        self.request(&RequestedAction {
            kind,
            part: None,
            node: named,
            destinations,
            is_forced,
            recovery: None,
        })
    }

    fn refused(&self, kind: LastingAction, to: &[&str]) -> String {
        match self.act(kind, to) {
            Err(ActionRefusal::Conflict(text)) => text,
            other => panic!("{other:?}"),
        }
    }
}

fn placed(names: &[&str], is_pinned: bool) -> ActionGoals {
    let nodes: BTreeSet<NodeId> = names.iter().map(|name| node(name)).collect();
    let pinned = if is_pinned { nodes.clone() } else { BTreeSet::new() };
    vec![(Some(evenkeel_planner_record::workload::Part::All), ActionGoal::Placed { nodes, pinned })]
}

/// A6-S2.
#[test]
fn frozen_node_is_chosen_only_by_name() {
    let mut fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    fixture.nodes[1].frozen = Some(FrozenLevel::Node);
    assert_eq!(fixture.act(LastingAction::Switch, &[]), Ok(placed(&["n3"], true)));
    assert_eq!(fixture.act(LastingAction::Switch, &["n2"]), Ok(placed(&["n2"], true)));
    fixture.nodes[2].marks.start_failed = Some("exit 1".into());
    let text = fixture.refused(LastingAction::Switch, &[]);
    assert!(text.starts_with("no node of all can take an instance"), "{text}");
}

/// A6: a start and a stop may be about one workload unit.
#[test]
fn unit_is_stopped_and_started_alone() {
    let mut fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    let part = Part::Group(evenkeel_ids::GroupId::new("o", "g"));
    fixture.id.part = part.clone();
    let about = |kind| RequestedAction {
        kind,
        part: Some("g"),
        node: None,
        destinations: &[],
        is_forced: false,
        recovery: None,
    };
    let nodes: BTreeSet<NodeId> = ["n1", "n2", "n3"].map(node).into();
    let stopped = ActionGoal::StoppedOn { nodes };
    assert_eq!(fixture.request(&about(LastingAction::Stop)), Ok(vec![(Some(part.clone()), stopped)]));
    fixture.running.clear();
    assert_eq!(fixture.request(&about(LastingAction::Start)), Ok(vec![(Some(part), ActionGoal::Started)]));
    fixture.record.is_stopped = true;
    let refused = fixture.request(&about(LastingAction::Start));
    let why = "all of o/p is stopped, not only g: use the action without unit";
    assert_eq!(refused, Err(ActionRefusal::Conflict(why.to_owned())));
}

/// A6-S4.
#[test]
fn action_whose_goal_is_reached_already_is_refused() {
    let fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    assert_eq!(fixture.refused(LastingAction::Start, &[]), "o/p is started already");
    assert_eq!(fixture.refused(LastingAction::Giveback, &[]), "o/p runs on its leaders already");
    assert_eq!(fixture.refused(LastingAction::Takeover, &["n1"]), "o/p runs there already");
    assert!(fixture.refused(LastingAction::Stop, &["n2"]).contains("does not run on o/n2"));
    let idle = Fixture::failover(StartMode::Never, &[]);
    assert_eq!(idle.act(LastingAction::Start, &[]), Ok(vec![(None, ActionGoal::Started)]));
    assert!(idle.refused(LastingAction::Restart, &[]).contains("no instance to restart"));
}

/// A2-S3, the refusal.
#[test]
fn second_failover_instance_needs_force() {
    let fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    let text = fixture.refused(LastingAction::Start, &["n2"]);
    assert!(text.contains("is on o/n1") && text.contains("with force"), "{text}");
    assert!(fixture.act_forced(LastingAction::Start, &["n2"], true).is_ok());
    let second = Fixture::failover(StartMode::BestAvailable, &["n1", "n2"]);
    assert_eq!(second.act(LastingAction::Stop, &["n2"]).map(|goals| goals.len()), Ok(1));
}

/// P-S11.
#[test]
fn move_during_an_update_needs_force_and_ignores_the_expression() {
    let mut fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    fixture.nodes[1].expression = Verdict::Failed("it is false".into());
    assert_eq!(fixture.act(LastingAction::Takeover, &["n2"]), Ok(placed(&["n2"], true)));
    fixture.record.update.state = UpdateState::Updating;
    for (kind, to) in [
        (LastingAction::Takeover, vec!["n2"]),
        (LastingAction::Switch, vec!["n2"]),
        (LastingAction::Restart, vec![]),
    ] {
        let text = fixture.refused(kind, &to);
        assert!(text.starts_with("an update of o/p is in progress"), "{text}");
        assert!(fixture.act_forced(kind, &to, true).is_ok(), "{kind:?}");
    }
}

#[test]
fn node_that_is_down_or_does_not_fit_is_refused_even_with_force() {
    let mut fixture = Fixture::failover(StartMode::BestAvailable, &["n1"]);
    fixture.nodes[1].state = NodeState::Down { since: at(50) };
    fixture.nodes[2].eligibility = Verdict::Failed("wrong architecture".into());
    for (name, why) in [("n2", "down"), ("n3", "wrong architecture")] {
        match fixture.act_forced(LastingAction::Takeover, &[name], true) {
            Err(ActionRefusal::Conflict(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        fixture.act(LastingAction::Takeover, &["n9"]),
        Err(ActionRefusal::NoNode { node: node("n9"), part: None })
    );
}

/// A1, the last column: where a giveback leads.
#[test]
fn giveback_leads_to_natural_leaders_or_to_the_best_available() {
    for (start, expected) in [
        (StartMode::Never, None),
        (StartMode::NaturalLeader, None),
        (StartMode::BestAvailable, Some(placed(&["n2"], false))),
    ] {
        let mut fixture = Fixture::failover(start, &["n3"]);
        assert_eq!(fixture.act(LastingAction::Giveback, &[]), Ok(placed(&["n1"], false)));
        fixture.nodes[0].frozen = Some(FrozenLevel::Instance);
        assert_eq!(fixture.act(LastingAction::Giveback, &[]).ok(), expected, "{start:?}");
    }
}

#[test]
fn moves_keep_the_number_of_instances() {
    let flex = Fixture::new(Goal::flex((1, 2, 2), StartMode::BestAvailable, 0), &["n1", "n2"]);
    assert_eq!(
        flex.act(LastingAction::Takeover, &["n3"]),
        Ok(vec![(
            Some(evenkeel_planner_record::workload::Part::All),
            ActionGoal::Placed { nodes: [node("n1"), node("n3")].into(), pinned: [node("n3")].into() }
        )])
    );
    assert_eq!(flex.act(LastingAction::Switch, &["n2", "n3"]), Ok(placed(&["n2", "n3"], true)));
    assert!(flex.refused(LastingAction::Switch, &["n1", "n2", "n3"]).contains("at most 2 instances"));
    assert!(matches!(flex.act(LastingAction::Switch, &[]), Err(ActionRefusal::Malformed(_))));
    let global = Fixture::new(Goal::global(), &["n1", "n2", "n3"]);
    assert!(global.refused(LastingAction::Giveback, &[]).contains("one instance on every node"));
}

/// A3-S6, the explicit destinations.
#[test]
fn policy_without_a_ranking_starts_only_on_named_nodes() {
    let mut fixture = Fixture::failover(StartMode::Never, &[]);
    fixture.workload.placement.order = NodeOrder::Unranked;
    assert!(fixture.refused(LastingAction::Start, &[]).contains("name the node"));
    assert!(fixture.act(LastingAction::Start, &["n2"]).is_ok());
}

fn recover(fixture: &Fixture, recovery: &RequestedRecovery) -> ActionGoals {
    let (kind, destinations) = (LastingAction::Recover, &[]);
    let request = RequestedAction {
        kind,
        part: None,
        node: None,
        destinations,
        is_forced: false,
        recovery: Some(recovery),
    };
    fixture.request(&request).expect("it is accepted")
}

/// C7-S2, C7-S4: healthy members are left alone, and missing ones are a goal only when that is wanted.
#[test]
fn recovery_of_healthy_members_does_nothing() {
    let fixture = Fixture::new(Goal::replicated(3), &["n1", "n2"]);
    let checked = RequestedRecovery { examines: true, ..RequestedRecovery::default() };
    assert_eq!(recover(&fixture, &checked), ActionGoals::new());
    let filled = RequestedRecovery { fills_up: true, ..checked };
    let goals = recover(&fixture, &filled);
    assert!(
        matches!(&goals[..], [(_, ActionGoal::Recovered { slots, fills_up: true, .. })] if slots.is_empty())
    );
}
