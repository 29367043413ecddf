//! Detection of reported reasons that no longer hold: each is decided again from the model and compared.
//!
//! For checks: the simulator asks once nothing happens any more. A reason may be behind for as long as the next decision about it is due, never
//! for longer.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_explain::{
    explain::explain,
    placements::{self, Placements},
};
use evenkeel_health as health_checks;
use evenkeel_ids::PolicyId;
use evenkeel_planner_model::{
    command::{Action, Decision, UnitReport},
    event::Event,
    model::{Model, UnitRecord},
    pass::Pass,
};
use evenkeel_planner_record::{
    health::SystemReport,
    report::{Blocked, Placement},
    workload::{Slot, Step, UnitId},
};
use jiff::Timestamp;

use crate::decide::decide;

/// Returns what an agbot reports, and would not report by a decision about everything that it took now: texts, each naming its subject.
pub fn outdated(model: &Model, placements: &Placements, now: Timestamp) -> BTreeSet<String> {
    let fresh = decide(model, &Event::FullReconcile, now, 0);
    let mut found = BTreeSet::new();
    for (unit_id, report) in fresh.unit_reports.iter().filter(|(_, report)| report.slots.is_none()) {
        if let Some(unit) = model.workload_unit(unit_id) {
            found.extend(of_unit(unit_id, unit, report));
        }
    }
    found.extend(of_updates(model, &fresh));
    found.extend(of_pairs(model, placements, &fresh, now));
    found.extend(of_health(model, now));
    found
}

/// Reasons, what has no node, and versions that differ.
fn of_unit<'a>(
    unit_id: &'a UnitId,
    unit: &'a UnitRecord,
    fresh: &'a UnitReport,
) -> impl Iterator<Item = String> + 'a {
    let name = format!("{} ({})", unit_id.policy, unit_id.name());
    let (shown, holds) = (texts(&unit.blocked), texts(&fresh.blocked));
    let summary = |report: &Option<evenkeel_planner_record::report::EliminationReport>| {
        report.as_ref().map(|report| report.summary.clone())
    };
    let unplaced = (summary(&unit.unplaced), summary(&fresh.unplaced));
    let versions = (unit.incompatible != fresh.incompatible).then(|| {
        format!("{name}: versions {:?} are shown, {:?} differ", unit.incompatible, fresh.incompatible)
    });
    let unplaced = (unplaced.0 != unplaced.1)
        .then(|| format!("{name}: unplaced is shown as {:?} and is {:?}", unplaced.0, unplaced.1));
    let blocked = (shown != holds).then(|| format!("{name}: {shown:?} is shown, and {holds:?} holds"));
    [versions, unplaced, blocked].into_iter().flatten()
}

fn texts(blocked: &[(Step, Blocked)]) -> BTreeSet<String> {
    blocked.iter().map(|(step, blocked)| format!("slot {}: {}", step.slot, without_times(blocked))).collect()
}

/// The reasons for which an update waits, as the row of its workload has them.
fn of_updates(model: &Model, fresh: &Decision) -> Vec<String> {
    let mut holds: BTreeMap<&PolicyId, BTreeSet<(&Slot, &'static str)>> = BTreeMap::new();
    let mut decided: BTreeSet<&UnitId> = BTreeSet::new();
    for (unit_id, report) in &fresh.unit_reports {
        decided.insert(unit_id);
        let slots = report.blocked.iter().map(|(step, blocked)| (&step.slot, blocked.upgrade_rule()));
        holds.entry(&unit_id.policy).or_default().extend(slots);
    }
    let mut found = Vec::new();
    // The reasons may be those of a part that another agbot decides about.
    let is_whole =
        |policy: &PolicyId| model.workload_units_of(policy).all(|(unit_id, _)| decided.contains(unit_id));
    for record in model.workloads().filter(|record| is_whole(&record.policy)) {
        let Some(holds) = holds.get(&record.policy) else { continue };
        for (slot, blocked) in record.update.blocked.iter().flat_map(|blocked| &blocked.slots) {
            let key = (slot, blocked.upgrade_rule());
            if !holds.contains(&key) {
                let text = without_times(blocked);
                found.push(format!(
                    "{}: the update of slot {slot} is shown as blocked: {text}",
                    record.policy
                ));
            }
        }
    }
    found
}

/// The placements of the pairs that the agbot decides about.
fn of_pairs(model: &Model, placements: &Placements, fresh: &Decision, now: Timestamp) -> Vec<String> {
    let mut found = Vec::new();
    for (pair @ (node, policy), placement) in placements.iter() {
        if model.lease_for(node).is_none() {
            continue;
        }
        let is_shown = placements::shown(model, pair, placement.clone(), now);
        let holds = fresh.report.pairs.get(pair).cloned();
        let holds = holds.unwrap_or_else(|| explain(model, node, policy, now).placement);
        if text(&is_shown) != text(&holds) {
            let (shown, holds) = (text(&is_shown), text(&holds));
            found.push(format!("({node}, {policy}): {shown} is shown, and {holds} holds"));
        }
    }
    found
}

fn reason(placement: &Placement) -> Option<&Blocked> {
    match placement {
        Placement::Waiting { blocked, .. } | Placement::NotPlaced { blocked } => Some(blocked),
        Placement::Placed { .. } | Placement::Acting { .. } => None,
    }
}

fn text(placement: &Placement) -> String {
    match (reason(placement), placement) {
        (Some(blocked), _) => without_times(blocked),
        (None, Placement::Placed { version, is_running, .. }) => format!("{version}, running: {is_running}"),
        _ => "acting".to_owned(),
    }
}

/// Reports of the engine about health that checks would write or drop.
fn of_health(model: &Model, now: Timestamp) -> Vec<String> {
    let mut pass = Pass::new(model, now, 0);
    health_checks::make_all(&mut pass);
    let mut found = Vec::new();
    for command in pass.finish().commands {
        match &command.action {
            Action::DropHealth { .. } => {
                found.push(format!("{}: is to be dropped", command.action.key().as_str()));
            }
            Action::ReportHealth { entity, reports, .. } => found.extend(reports.iter().map(|report| {
                let SystemReport { source, property, state, description } = report;
                let text = without_instants(description);
                format!("{} {entity}: {source} {property} is {state:?}: {text}", entity.kind().word())
            })),
            _ => {}
        }
    }
    found
}

/// Returns a reason without the instants that it names: they say until when, and change while the reason does not.
fn without_times(blocked: &Blocked) -> String {
    without_instants(&blocked.to_string())
}

fn without_instants(text: &str) -> String {
    let is_time = |word: &&str| word.trim_end_matches([',', ';', ')', ':']).parse::<Timestamp>().is_ok();
    text.split_whitespace().filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::NodeId;
    use evenkeel_planner_model::group_fixture::running_group;
    use evenkeel_planner_record::{
        fixture::deployment_policy,
        health::{Entity, HealthEvent, HealthState, PLACEMENT, stored_reports},
    };

    use super::*;

    #[test]
    fn reason_that_holds_no_more_is_found_and_one_that_holds_is_not() {
        let (mut model, now) = running_group(&["a", "b"]);
        let leases = (0..model.settings.partition_count).map(|partition| (partition, 1)).collect();
        model.apply(&Event::PartitionsChanged { leases }, now);
        let mut placements = Placements::default();
        placements.note(decide(&model, &Event::FullReconcile, now, 0).report.pairs, now);
        assert_eq!(outdated(&model, &placements, now), BTreeSet::new());
        let (node, policy) = (NodeId::new("o", "a"), PolicyId::new("o", "p"));
        let agreement = evenkeel_ids::AgreementId::from_text("a1");
        let stale = Placement::Waiting { agreement, blocked: Blocked::NodePaused };
        placements.note([((node.clone(), policy.clone()), stale)], now);
        let found = outdated(&model, &placements, now);
        assert!(found.iter().any(|text| text.starts_with(&format!("({node}, {policy}): "))), "{found:?}");
    }

    #[test]
    fn warning_about_what_holds_no_more_is_found() {
        let (mut model, now) = running_group(&["a", "b"]);
        let leases = (0..model.settings.partition_count).map(|partition| (partition, 1)).collect();
        model.apply(&Event::PartitionsChanged { leases }, now);
        let facts = deployment_policy();
        let policy = facts.id.clone();
        model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(facts) }, now);
        let partition = model.lease_for_workload(&policy).expect("every partition is held").partition;
        let text = "no slot can be upgraded".to_owned();
        let report = SystemReport::new(PLACEMENT, "UpgradeBlocked", HealthState::Warning, text);
        let events: Vec<HealthEvent> =
            stored_reports(&[], &[report], 60, partition, now).iter().map(HealthEvent::of).collect();
        assert_eq!(of_health(&model, now), Vec::<String>::new());
        let entity = Entity::Workload(policy);
        model.health.put(&entity, events);
        let found = of_health(&model, now);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("UpgradeBlocked is Ok"), "{found:?}");
        let checks = decide(&model, &Event::FullReconcile, now, 0).health_checks;
        assert!(
            checks.iter().any(|(checked, _)| *checked == entity),
            "an agbot that starts checks it: {checks:?}"
        );
    }
}
