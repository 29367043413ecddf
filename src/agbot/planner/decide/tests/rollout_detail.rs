//! Forecast and details of rollouts.

use std::collections::BTreeSet;

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_model::{event::Event, group_fixture::running_group, model::Model};
use evenkeel_planner_record::{
    agreement::CancelReason,
    claims::{Claim, Phase, Purpose, ReleaseReason, Scope},
    facts::{DeploymentOverrides, DeploymentPolicyFacts, VersionChoice},
    fixture::{agreement, deployment_policy},
    forecast::{Basis, Forecast},
    report::HoldReason,
    rollout::{Rollout, RolloutState, StepDurations, target_digest},
    time::{later, secs_since},
    workload::UpdateState,
};
use evenkeel_status::rollout_detail::{ComparedWith, RolloutDetail, StepState, WaveKind, detail_of};
use jiff::Timestamp;
use serde_json::json;

use super::fleet::{Fleet, node, policy};

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("n{number:02}")).collect()
}

fn fleet_of(count: usize) -> Fleet {
    let names = names(count);
    Fleet::new(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn detail(fleet: &Fleet) -> RolloutDetail {
    detail_of(&fleet.model, &policy("w"), fleet.now).expect("there is an update")
}

fn time_left(fleet: &Fleet) -> Forecast {
    detail(fleet).time_left(&policy("w")).expect("steps remain")
}

/// Runs until the update is completed, and returns the seconds that it took.
fn seconds_to_the_end(fleet: &mut Fleet) -> u64 {
    let from = fleet.now;
    while fleet.status("w").update.state == UpdateState::Updating {
        fleet.run(1);
        assert!(secs_since(from, fleet.now) < 3_000, "it ends");
    }
    secs_since(from, fleet.now)
}

#[test]
fn time_left_of_an_update_narrows_and_holds() {
    let document =
        json!({"mode": "global", "update": {"parallelism": 2, "monitorSeconds": 10, "delaySeconds": 3}});
    let mut fleet = fleet_of(12);
    fleet.start_secs.insert(policy("w"), 15);
    fleet.put_policy("w", document.clone());
    fleet.run(60);
    assert!(detail_of(&fleet.model, &policy("w"), fleet.now).is_none_or(|one| !one.is_open()));
    fleet.put_version("w", "2.0.0", document);
    fleet.run(2);
    let first = time_left(&fleet);
    assert_eq!((first.basis, first.steps_left), (Basis::Settings, 12), "{first:?}");
    assert!(first.minimum_secs >= 6 * 10 + 5 * 3 && first.earliest_secs <= first.secs);
    fleet.run(60);
    let found = detail(&fleet);
    let second = time_left(&fleet);
    assert_eq!(second.basis, Basis::Own);
    assert!(second.latest_secs - second.earliest_secs < first.latest_secs - first.earliest_secs);
    let wave = &found.waves[0];
    assert_eq!((found.waves.len(), wave.kind, wave.total, wave.failed), (1, WaveKind::All, 12, 0));
    assert!(wave.done >= 2 && wave.in_work <= 2 && wave.is_open() && wave.finished_at.is_none(), "{wave:?}");
    assert_eq!(second.steps_left, 12 - wave.done, "{second:?}");
    assert!(found.steps.iter().take(wave.in_work as usize).all(|step| step.state < StepState::Failed));
    let real = seconds_to_the_end(&mut fleet);
    assert!((second.earliest_secs..=second.latest_secs + 3).contains(&real), "{second:?}, real: {real}");
    let over = detail(&fleet);
    assert!(!over.is_open() && over.time_left(&policy("w")).is_none());
    assert!(over.waves[0].finished_at.is_some() && over.waves[0].done == 12, "{:?}", over.waves);
}

#[test]
fn next_update_is_forecast_from_the_steps_of_the_last_one() {
    let document = json!({"mode": "global", "update": {"parallelism": 1, "monitorSeconds": 2}});
    let mut fleet = fleet_of(6);
    fleet.start_secs.insert(policy("w"), 40);
    fleet.put_policy("w", document.clone());
    fleet.run(60);
    fleet.put_version("w", "2.0.0", document.clone());
    fleet.run(1);
    seconds_to_the_end(&mut fleet);
    fleet.put_version("w", "3.0.0", document);
    fleet.run(3);
    let found = time_left(&fleet);
    assert_eq!((found.basis, found.earlier_steps), (Basis::Earlier, 6), "{found:?}");
    let real = seconds_to_the_end(&mut fleet);
    assert!((found.earliest_secs..=found.latest_secs + 3).contains(&real), "{found:?}, real: {real}");
}

#[test]
fn upgrade_domains_are_waves_that_follow_each_other() {
    let document = json!({"mode": "global", "update": {"parallelism": 0, "monitorSeconds": 5}});
    let mut fleet = fleet_of(6);
    for (name, domain) in names(6).iter().zip(["u1", "u1", "u2", "u2", "u3", "u3"]) {
        fleet.put_node(name, |facts| facts.upgrade_domain = Some(domain.into()));
    }
    fleet.put_policy("w", document.clone());
    fleet.run(30);
    fleet.put_version("w", "2.0.0", document);
    fleet.run(2);
    let found = detail(&fleet);
    let waves: Vec<(&str, u32)> = found.waves.iter().map(|wave| (wave.name.as_str(), wave.total)).collect();
    assert_eq!(waves, [("u1", 2), ("u2", 2), ("u3", 2)]);
    assert_eq!(found.remaining.stages.len(), 3, "{:?}", found.remaining);
    let time = time_left(&fleet);
    assert!(time.minimum_secs >= 14, "three times five seconds, but for what has passed: {time:?}");
    let real = seconds_to_the_end(&mut fleet);
    assert!((time.minimum_secs..=time.latest_secs).contains(&real), "{time:?}, real: {real}");
}

#[test]
fn failing_nodes_are_named_with_their_error_and_what_they_have_in_common() {
    let document = json!({"mode": "global", "update": {"parallelism": 0, "failureAction": "continue", "monitorSeconds": 5},
                          "restart": {"maxAttempts": 1}});
    let mut fleet = fleet_of(24);
    for name in names(24).iter().step_by(4) {
        fleet.put_node(name, |facts| facts.agent_version = "2.30.0".into());
    }
    fleet.put_policy("w", document.clone());
    fleet.run(30);
    let broken = names(24);
    let broken: Vec<&String> = broken.iter().step_by(4).collect();
    for name in &broken {
        fleet.crashing.insert((node(name), policy("w")));
    }
    fleet.put_version("w", "2.0.0", document);
    fleet.run(120);
    let found = detail(&fleet);
    let failing: BTreeSet<NodeId> = broken.iter().map(|name| node(name)).collect();
    assert_eq!(found.failing, failing, "{:?}", found.waves);
    assert_eq!(found.succeeded.len(), 18);
    let failed = found.steps.iter().find(|step| step.state == StepState::Failed).expect("a failed step");
    assert!(!failed.evidence.is_empty() && failed.node.is_some(), "{failed:?}");
    let (reference, common) = found.common_causes(&fleet.model, &policy("w"), None, 5);
    assert_eq!((reference, common.failing, common.whole), (ComparedWith::Attempted, 6, 24));
    let first = &common.causes[0];
    assert_eq!((first.attribute.word(), first.value.as_str()), ("agent-version", "2.30.0"), "{common:?}");
    assert!((first.association.lift - 4.0).abs() < 1e-9);
    // Of a caller who may read two of the nodes.
    let shown = fleet.model.set_of_nodes([&node("n01"), &node("n02")]);
    let (_, common) = found.common_causes(&fleet.model, &policy("w"), Some(&shown), 5);
    assert_eq!((common.failing, common.whole, common.causes.len()), (1, 2, 0));
}

/// A group of four whose first member is being updated to 2.0.0.
fn group_rollout(change: impl FnOnce(&mut Rollout)) -> (Model, Timestamp) {
    let (mut model, now) = running_group(&["a", "b", "c", "d"]);
    let choice = VersionChoice { version: "2.0.0".into(), ..VersionChoice::default() };
    let policy = DeploymentPolicyFacts { versions: vec![choice], ..deployment_policy() };
    let durations = StepDurations::default().with(20).with(22).of_next().with(30);
    let mut rollout = Rollout {
        group: GroupId::new("o", "g"),
        policy: policy.id.clone(),
        target: "o/s 2.0.0".into(),
        target_digest: target_digest(&policy),
        started_at: now,
        total: 4,
        done: 1,
        failed: Vec::new(),
        last_step_at: Some(later(now, 40)),
        last_node: Some(NodeId::new("o", "a")),
        previous_version: Some("1.0.0".into()),
        previous_overrides: DeploymentOverrides::default(),
        durations,
        rollback: None,
        revision: 2,
        state: RolloutState::Updating,
    };
    change(&mut rollout);
    model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(policy) }, now);
    let old = agreement("a").finalize(now).unwrap().end(now, CancelReason::POLICY_CHANGED).unwrap();
    model.apply(&Event::AgreementRecorded { agreement: Box::new(old) }, now);
    let new = evenkeel_planner_record::agreement::Agreement {
        id: evenkeel_ids::AgreementId::from_text("new"),
        version: "2.0.0".into(),
        created_at: now,
        ..agreement("a")
    };
    let new = new.finalize(later(now, 3)).unwrap();
    let now = later(now, 60);
    model.apply(&Event::AgreementRecorded { agreement: Box::new(new) }, now);
    model.apply(&Event::RolloutRecorded { rollout: Box::new(rollout.clone()) }, now);
    let claim = Claim {
        group: rollout.group.clone(),
        scope: Scope::Policy(rollout.policy),
        node: NodeId::new("o", "b"),
        purpose: Purpose::ServiceUpgrade,
        version: "2.0.0".into(),
        fencing: 1,
        phase: Phase::Verifying,
        since: now,
        phase_since: now,
        deadline: later(now, 90),
    };
    model.apply(&Event::ClaimRecorded { claim: Box::new(claim) }, now);
    (model, now)
}

#[test]
fn rollout_through_a_group_is_forecast_from_its_row() {
    let (model, now) = group_rollout(|_| {});
    let id = deployment_policy().id;
    let found = detail_of(&model, &id, later(now, 2)).expect("a rollout");
    let wave = &found.waves[0];
    assert_eq!(
        (wave.kind, wave.name.as_str(), wave.total, wave.done, wave.in_work),
        (WaveKind::HaGroup, "g", 4, 1, 1)
    );
    let states: Vec<(&str, StepState)> =
        found.steps.iter().filter_map(|step| Some((step.node.as_ref()?.name(), step.state))).collect();
    assert_eq!(states, [("b", StepState::Watched), ("a", StepState::Done)]);
    let time = found.time_left(&id).expect("steps remain");
    assert_eq!((time.steps_left, time.measured_steps, time.earlier_steps), (3, 1, 2));
    // Three seconds of the watched step, and twice five.
    assert_eq!(time.minimum_secs, 13);
    assert!(time.secs > 13 + 30 && time.latest_secs < 1_300, "{time:?}");
}

#[test]
fn rollout_that_is_over_has_no_time_left_and_a_paused_one_has() {
    let id = deployment_policy().id;
    let (model, now) =
        group_rollout(|rollout| rollout.state = RolloutState::Completed { at: rollout.started_at });
    assert_eq!(detail_of(&model, &id, now).expect("a rollout").time_left(&id), None);
    let (model, now) = group_rollout(|rollout| {
        let hold = Box::new(HoldReason::Paused { actor: "o/ann".into() });
        rollout.state = RolloutState::Held { hold, since: rollout.started_at };
    });
    let found = detail_of(&model, &id, now).expect("a rollout");
    assert!(found.state == UpdateState::Paused && found.time_left(&id).is_some());
    let (model, now) = group_rollout(|rollout| {
        rollout.state = RolloutState::Abandoned { at: rollout.started_at, why: ReleaseReason::Superseded };
    });
    assert!(detail_of(&model, &id, now).is_none());
}
