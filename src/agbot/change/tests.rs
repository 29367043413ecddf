//! The gate table, permits, and HA groups: E4, E5, P.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NodeId, PolicyId, ServiceKey, TaskId};
use evenkeel_planner_record::{
    claims::{Claim, Phase, Purpose, Scope},
    facts::HaGroupFacts,
    fixture::at,
    report::{Blocked, FrozenLevel},
    settings::UpdateOrder,
    workload::{Cause, CauseKind, Change, Partner, Slot, Step, UnitId},
};
use jiff::Timestamp;

use super::*;

/// E5-S2: the claim of another member is named, although it leaves too few members running as well.
#[test]
fn claim_is_named_before_the_minimum_available() {
    let mut state = group(&["n1", "n2"], &[]);
    state.claims = vec![claim("n2", "other")];
    let facts = Facts { min_running: 1, group: Some(state), ..Facts::default() };
    assert!(matches!(permit(&facts, &replace("n1")), Err(Blocked::HaLock { .. })));
}

/// Facts of which every gate can be closed.
#[derive(Default)]
struct Facts {
    closed: BTreeSet<Gate>,
    group: Option<GroupState>,
    min_running: u32,
}

impl Facts {
    fn blocked(&self, gate: Gate, blocked: Blocked) -> Option<Blocked> {
        self.closed.contains(&gate).then_some(blocked)
    }
}

impl GateFacts for Facts {
    fn frozen(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Frozen, Blocked::Frozen { level: FrozenLevel::Node })
    }
    fn paused(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Paused, Blocked::NodePaused)
    }
    fn unconfirmed_stop(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Confirmed, Blocked::InstanceElsewhere { node: node("n9") })
    }
    fn blocklisted(&self, _: &Step) -> Option<Blocked> {
        let (service, failure) = (evenkeel_ids::ServiceKey::new("o", "s"), "exit code 1".to_owned());
        self.blocked(
            Gate::Blocklist,
            Blocked::Blocklisted { service, version: "1.0.0".into(), until: at(9), failure },
        )
    }
    fn unfenced_instance(&self, _: &Step) -> Option<Blocked> {
        self.blocked(
            Gate::Fenced,
            Blocked::FenceFailed {
                node: node("n9"),
                cause: evenkeel_planner_record::report::NoLease::default(),
            },
        )
    }
    fn group_of(&self, _: &NodeId) -> Option<&GroupState> {
        self.group.as_ref()
    }
    fn min_running(&self) -> u32 {
        self.min_running
    }
    fn unready_parent(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Parents, Blocked::ParentNotUp { parent: "p".into(), avail: None })
    }
    fn running_child(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Children, Blocked::ChildUp { child: "c".into() })
    }
    fn incompatible(&self) -> Option<Blocked> {
        None
    }
    fn grace_until(&self, _: &Step) -> Option<Timestamp> {
        self.closed.contains(&Gate::Grace).then_some(at(9))
    }
    fn exhausted_budget(&self, _: &Step) -> Option<Blocked> {
        self.blocked(Gate::Budget, Blocked::UpdateBudget { limit: 1 })
    }
    fn delayed_until(&self, _: &Step) -> Option<Timestamp> {
        self.closed.contains(&Gate::Delay).then_some(at(9))
    }
}

fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

fn step(change: Change, cause: Cause) -> Step {
    let unit_id = UnitId::all(PolicyId::new("o", "w"));
    Step { unit_id, slot: Slot::Number(1), change, cause }
}

fn replace(name: &str) -> Step {
    let change = Change::Replace { node: Some(node(name)), may_run: true, order: UpdateOrder::StopFirst };
    step(change, Cause::Update)
}

fn group(running: &[&str], missing: &[&str]) -> GroupState {
    let members = running.iter().chain(missing).map(|name| node(name));
    GroupState {
        facts: HaGroupFacts::new(GroupId::new("o", "g"), members),
        service: ServiceKey::new("o", "s"),
        running: running.iter().map(|name| node(name)).collect(),
        failing: std::collections::BTreeSet::new(),
        missing: missing.iter().map(|name| (node(name), "down".to_owned())).collect(),
        down: std::collections::BTreeSet::new(),
        claims: Vec::new(),
    }
}

fn claim(name: &str, policy: &str) -> Claim {
    Claim {
        group: GroupId::new("o", "g"),
        scope: Scope::Policy(PolicyId::new("o", policy)),
        node: node(name),
        purpose: Purpose::ServiceUpgrade,
        version: String::new(),
        fencing: 1,
        phase: Phase::Stopping,
        since: at(0),
        phase_since: at(0),
        deadline: at(600),
    }
}

const CAUSES: [Cause; 15] = [
    Cause::User { force: false },
    Cause::User { force: true },
    Cause::NodeLost,
    Cause::TaskFailed,
    Cause::Incompatible,
    Cause::Health,
    Cause::NodeHealth,
    Cause::Drain,
    Cause::Update,
    Cause::Rollback,
    Cause::Cure,
    Cause::Return,
    Cause::Rebalance,
    Cause::Scale,
    Cause::Withdrawn,
];

#[test]
fn p_every_cause_has_one_row_in_order_of_precedence() {
    let kinds: BTreeSet<CauseKind> = CAUSES.into_iter().map(Cause::kind).collect();
    assert_eq!(kinds.len(), GATES.len());
    for kind in kinds {
        assert_eq!(GATES.iter().filter(|(one, _)| *one == kind).count(), 1, "{kind:?}");
        let gates = gates_of(kind);
        assert!(gates.is_sorted() && !gates.is_empty(), "{kind:?}: {gates:?}");
    }
}

#[test]
fn p_closed_gate_blocks_exactly_the_causes_that_have_it() {
    let gates =
        [Gate::Frozen, Gate::Paused, Gate::Confirmed, Gate::Parents, Gate::Grace, Gate::Budget, Gate::Delay];
    for cause in CAUSES {
        for gate in gates {
            let facts = Facts { closed: [gate].into(), ..Facts::default() };
            let is_lifted = cause.is_forced() && FORCED.contains(&gate);
            let is_blocked = gates_of(cause.kind()).contains(&gate) && !is_lifted;
            let step = Step { cause, ..replace("n1") };
            assert_eq!(permit(&facts, &step).is_err(), is_blocked, "{cause:?} {gate:?}");
        }
    }
}

/// A8.2, A8.3: only a user's stop waits for children, and only what starts something waits for parents.
#[test]
fn only_the_stop_of_a_user_waits_for_children() {
    let stop = |cause| step(Change::Stop { node: node("n1") }, cause);
    let facts = Facts { closed: [Gate::Parents, Gate::Children].into(), ..Facts::default() };
    for cause in CAUSES {
        let waits = matches!(cause, Cause::User { force: false } | Cause::Withdrawn);
        assert_eq!(permit(&facts, &stop(cause)).is_err(), waits, "{cause:?}");
    }
    let facts = Facts { closed: [Gate::Children].into(), ..Facts::default() };
    assert!(permit(&facts, &Step { cause: Cause::User { force: false }, ..replace("n1") }).is_ok());
}

#[test]
fn p_first_closed_gate_is_the_reason() {
    let facts = Facts { closed: [Gate::Delay, Gate::Budget, Gate::Frozen].into(), ..Facts::default() };
    let frozen = Blocked::Frozen { level: FrozenLevel::Node };
    assert_eq!(permit(&facts, &replace("n1")).unwrap_err(), frozen);
}

/// E4-S3.
#[test]
fn minimum_available_is_limited_to_the_other_intended_members() {
    let facts = |min_running, group| Facts { min_running, group: Some(group), ..Facts::default() };
    let all = || group(&["n1", "n2", "n3"], &[]);
    assert!(permit(&facts(2, all()), &replace("n1")).is_ok());
    assert!(permit(&facts(5, all()), &replace("n1")).is_ok());
    let blocked = permit(&facts(2, group(&["n1", "n2"], &["n3"])), &replace("n1")).unwrap_err();
    assert!(matches!(blocked, Blocked::HaMinimum { wanted: 2, .. }));
    assert!(permit(&facts(1, group(&["n1"], &[])), &replace("n1")).is_ok(), "a single member loses nothing");
}

#[test]
fn instance_that_does_not_run_may_be_replaced() {
    let facts = Facts { min_running: 1, group: Some(group(&[], &["n1", "n2"])), ..Facts::default() };
    assert!(permit(&facts, &replace("n1")).is_ok());
}

#[test]
fn user_may_lift_the_minimum_available() {
    let facts = Facts { min_running: 1, group: Some(group(&["n1"], &["n2"])), ..Facts::default() };
    let stop = |force| step(Change::Stop { node: node("n1") }, Cause::User { force });
    assert!(permit(&facts, &stop(false)).is_err());
    assert!(permit(&facts, &stop(true)).is_ok());
}

#[test]
fn unplanned_steps_are_not_held_back() {
    let facts = Facts { min_running: 1, group: Some(group(&["n1"], &["n2"])), ..Facts::default() };
    for cause in [Cause::NodeLost, Cause::Incompatible, Cause::TaskFailed] {
        assert!(permit(&facts, &step(Change::Stop { node: node("n1") }, cause)).is_ok());
    }
}

/// E5-S1.
#[test]
fn claim_of_another_member_blocks_and_one_on_the_same_node_does_not() {
    let mut state = group(&["n1", "n2", "n3"], &[]);
    state.claims = vec![claim("n2", "other")];
    let facts = Facts { group: Some(state.clone()), ..Facts::default() };
    assert!(
        matches!(permit(&facts, &replace("n1")), Err(Blocked::HaLock { holder, .. }) if holder == node("n2"))
    );
    assert!(permit(&facts, &replace("n2")).is_ok());
    (state.facts.is_exclusive, state.facts.max_unavailable) = (false, 2);
    let facts = Facts { group: Some(state), ..Facts::default() };
    assert!(permit(&facts, &replace("n1")).is_ok());
}

#[test]
fn start_first_disrupts_nothing() {
    let facts = Facts { min_running: 1, group: Some(group(&["n1"], &["n2"])), ..Facts::default() };
    let change = Change::Replace { node: Some(node("n1")), may_run: true, order: UpdateOrder::StartFirst };
    let permit = permit(&facts, &step(change, Cause::Update)).unwrap();
    assert_eq!(permit.claim, None);
}

#[test]
fn permit_is_tested_again_against_committed_rows() {
    let facts = Facts { min_running: 1, group: Some(group(&["n1", "n2"], &[])), ..Facts::default() };
    let mut permit = permit(&facts, &replace("n1")).unwrap();
    assert_eq!(
        (permit.counted_on.clone(), permit.claim.clone().map(|one| one.node)),
        (vec![node("n2")], Some(node("n1")))
    );
    permit.ticket_limit = Some(1);
    permit.tasks = [TaskId::from_text("t")].into();
    let rows = CommittedRows { tasks: permit.tasks.clone(), ..CommittedRows::default() };
    assert_eq!(permit.check(&rows), Ok(()));
    let other = CommittedRows { claims: vec![claim("n2", "other")], ..rows.clone() };
    assert!(matches!(permit.check(&other), Err(Blocked::HaLock { .. })));
    let other = CommittedRows { tickets: [Slot::Number(2)].into(), ..rows.clone() };
    assert_eq!(permit.check(&other), Err(Blocked::UpdateBudget { limit: 1 }));
    let other = CommittedRows { tickets: [Slot::Number(1)].into(), ..rows.clone() };
    assert_eq!(permit.check(&other), Ok(()));
    permit.apart_from = [Partner::Policy(PolicyId::new("o", "other"))].into();
    let other = CommittedRows { neighbors: permit.apart_from.clone(), ..rows.clone() };
    assert!(
        matches!(permit.check(&other), Err(Blocked::UnwantedNeighbor { node: found, .. }) if found == node("n1"))
    );
    let other =
        CommittedRows { neighbors: [Partner::Policy(PolicyId::new("o", "third"))].into(), ..rows.clone() };
    assert_eq!(permit.check(&other), Ok(()));
    let other = CommittedRows { tasks: BTreeSet::new(), ..rows };
    assert!(matches!(permit.check(&other), Err(Blocked::TaskChanged { .. })));
}

#[test]
fn replacing_what_does_not_run_disrupts_nothing() {
    let mut state = group(&["n1", "n2"], &[]);
    state.claims = vec![claim("n2", "other")];
    let facts = Facts { min_running: 1, group: Some(state), ..Facts::default() };
    let change = Change::Replace { node: Some(node("n1")), may_run: false, order: UpdateOrder::StopFirst };
    assert_eq!(permit(&facts, &step(change, Cause::Update)).unwrap().claim, None);
}

#[test]
fn disrupted_members_do_not_count_toward_the_minimum() {
    let mut state = group(&["n1", "n2", "n3"], &[]);
    (state.facts.is_exclusive, state.facts.max_unavailable) = (false, 3);
    state.claims = vec![claim("n2", "a"), claim("n3", "b")];
    let facts = Facts { min_running: 1, group: Some(state), ..Facts::default() };
    let blocked = permit(&facts, &replace("n1")).unwrap_err();
    let missing: BTreeMap<NodeId, String> = [("n2", "a"), ("n3", "b")]
        .map(|(name, other)| (node(name), format!("being disrupted by the rollout of o/{other}")))
        .into();
    assert!(matches!(blocked, Blocked::HaMinimum { missing: found, .. } if found == missing));
}

/// Design 4.3: a healthy instance is not stopped for the sake of one that fails its checks. A recovery, and what fails itself, counts what runs.
#[test]
fn member_that_fails_its_checks_does_not_keep_the_service_up_for_a_healthy_one() {
    let mut state = group(&["n1", "n2"], &[]);
    state.failing = [node("n2")].into();
    let facts = Facts { min_running: 1, group: Some(state), ..Facts::default() };
    let blocked = permit(&facts, &replace("n1")).expect_err("nothing healthy would run");
    let Blocked::HaMinimum { running, missing, .. } = blocked else { panic!("{blocked}") };
    assert_eq!((running, missing[&node("n2")].as_str()), (Vec::new(), "fails its health check"));
    assert_eq!(permit(&facts, &replace("n2")).map(|permit| permit.counted_on), Ok(vec![node("n1")]));
    let repair = step(Change::Repair { node: node("n1"), is_of_host: false }, Cause::Health);
    assert_eq!(permit(&facts, &repair).map(|permit| permit.counted_on), Ok(vec![node("n2")]));
    let mut state = group(&["n1", "n2"], &[]);
    state.failing = [node("n1"), node("n2")].into();
    let facts = Facts { min_running: 1, group: Some(state), ..Facts::default() };
    assert!(permit(&facts, &replace("n1")).is_ok(), "the check may be wrong, and an update may correct it");
}
