//! The kinds of faults that recoveries have to cope with are drawn, and what breaks their rules is detected.

use super::{deliberate::DeliberateFaults, simulate, simulate_with};

/// Seeds that draw lost contact together with health policies, versions that fail their check, fencing, and limits of recoveries.
const GATED: u64 = 11;
const CLASSES: usize = 24;

fn traces(first: u64, seeds: u64) -> impl Iterator<Item = String> {
    (first..seeds).step_by(CLASSES).map(|seed| simulate(seed, 600).trace.join("\n"))
}

/// Returns whether a schedule under a deliberate fault ends with a violation whose text contains something.
fn is_detected(deliberate: DeliberateFaults, text: &str) -> bool {
    let seeds = (GATED..9_600).step_by(CLASSES);
    let mut found = seeds.filter_map(|seed| simulate_with(seed, 1_500, deliberate).violation);
    found.any(|violation| violation.contains(text))
}

#[test]
fn every_kind_of_fault_of_the_field_is_drawn() {
    let trace: String = traces(9, 1_000).chain(traces(GATED, 1_000)).collect();
    for text in [
        "the clock jumps ahead",
        "the clock jumps back",
        "loses its contact to the hub",
        "is broken",
        "is deleted while its agent is alive",
        "more than all nodes can hold",
        "fails during an update",
    ] {
        assert!(trace.contains(text), "{text} is not drawn");
    }
}

#[test]
fn contact_is_lost_while_health_policies_recover_instances() {
    let is_found =
        |trace: String| trace.contains("loses its contact to the hub") && trace.contains("carries out");
    assert!(traces(GATED, 1_000).any(is_found));
}

#[test]
fn limits_of_recoveries_pace_and_fencing_are_drawn() {
    let trace: String = traces(GATED, 1_000).collect();
    for text in [
        "\"pace\":\"running\"",
        "\"pace\":\"monitored\"",
        "\"maxUnhealthyRatio\":0.5,\"parallelism\":2",
        "\"maxUnhealthyRatio\":0.3",
        "\"fencing\":[\"COMPUTE\"]",
        "(FailsCheck)",
    ] {
        assert!(trace.contains(text), "{text} is not drawn");
    }
}

#[test]
fn simulator_detects_more_recoveries_at_once_than_the_policy_allows() {
    let deliberate = DeliberateFaults { ignores_recovery_limit: true, ..DeliberateFaults::default() };
    assert!(is_detected(deliberate, "are recovered at once"));
}

#[test]
fn simulator_detects_recoveries_for_a_cause_that_most_instances_share() {
    let deliberate = DeliberateFaults { ignores_common_cause: true, ..DeliberateFaults::default() };
    assert!(is_detected(deliberate, "is recovered although"));
}

#[test]
fn simulator_detects_a_recovery_of_the_last_running_member_of_a_group() {
    let deliberate = DeliberateFaults { ignores_minimum: true, ..DeliberateFaults::default() };
    // Almost always the gate for one disruption of a group at a time prevents it as well; this schedule does not need it, and holds without the
    // fault.
    let [faulty, sound] = [deliberate, DeliberateFaults::default()]
        .map(|deliberate| simulate_with(4_499, 3_000, deliberate).violation);
    assert!(faulty.is_some_and(|violation| violation.contains(", is recovered")));
    assert_eq!(sound, None);
}

#[test]
fn simulator_detects_recoveries_because_of_a_broken_check() {
    let deliberate = DeliberateFaults { trusts_broken_checks: true, ..DeliberateFaults::default() };
    assert!(is_detected(deliberate, "although its check is broken"));
}

#[test]
fn simulator_detects_a_second_instance_beside_one_that_is_not_fenced() {
    let deliberate = DeliberateFaults { ignores_fencing: true, ..DeliberateFaults::default() };
    assert!(is_detected(deliberate, " and on "));
}
