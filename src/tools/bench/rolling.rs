//! `evenkeel bench rolling`: how long a service upgrade of a fleet takes with and without HA groups.
//!
//! The deciding part of the agbot is real; agents, network and time are simulated. Source: requirements 004 ("Test").

use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_simulator::upgrade::{UpgradeOutcome, UpgradePlan, upgrade};

use super::process::thread_time;
use super::report::{Options, Report, Row, Target};

/// Time to start a copy, and time that it is watched.
const START_MILLIS: u64 = 5_000;
const MONITOR_SECS: u64 = 5;
/// Members take turns; each turn may take its start and its watch, and this for messages and polls.
const BETWEEN_SECS: f64 = 8.0;

/// CPU of the planner for each copy, at any size of the fleet.
const PLANNER_MILLIS: f64 = 2.0;

/// Groups, and members of each.
const WHOLE: [(u32, u32); 4] = [(10, 2), (100, 2), (500, 2), (100, 5)];
const SHORT: [(u32, u32); 2] = [(10, 2), (10, 3)];

/// Runs the benchmark.
pub fn run(options: Options) -> Result<Report, Failure> {
    let mut report = Report::new("rolling");
    let sizes: &[(u32, u32)] = if options.short { &SHORT } else { &WHOLE };
    for &(groups, members) in sizes {
        for is_heterogeneous in [false, true] {
            compare(groups, members, is_heterogeneous, &mut report)?;
        }
    }
    report.add_note(format!(
        "Simulated time from the new policies to the last new copy; a copy starts in {} s and is watched {MONITOR_SECS} s; an agbot polls about once a second.",
        START_MILLIS / 1000
    ));
    report.add_note(
        "Heterogeneous: one member of each group runs a second service, which is upgraded at the same time.",
    );
    report.add_note("Without groups the same nodes get the same policies; all replace their copies at once. Planner: CPU time of all its decisions, divided by the copies.");
    Ok(report)
}

fn compare(groups: u32, members: u32, is_heterogeneous: bool, report: &mut Report) -> Result<(), Failure> {
    let plan = |has_groups| UpgradePlan {
        groups,
        members,
        has_groups,
        is_heterogeneous,
        start_millis: START_MILLIS,
        monitor_secs: MONITOR_SECS,
    };
    let grouped = upgrade(plan(true), Some(thread_time));
    let free = upgrade(plan(false), Some(thread_time));
    let kind = if is_heterogeneous { "heterogeneous" } else { "homogeneous" };
    let name = format!("{kind}, {groups} groups of {members}");
    let turns = f64::from(members) * (START_MILLIS as f64 / 1000.0 + MONITOR_SECS as f64 + BETWEEN_SECS);
    report.push(
        Row::new(format!("{name}: upgrade of {} copies", grouped.instances), secs(&grouped)?, "s")
            .beside("without groups", secs(&free)?)
            .lasting_target(Target::AtMost(turns)),
    );
    report.push(
        Row::new(format!("{name}: fewest copies up in a group"), f64::from(grouped.lowest_in_group), "")
            .beside("without groups", f64::from(free.lowest_in_group))
            .lasting_target(Target::AtLeast(1.0)),
    );
    report.push(
        Row::new(format!("{name}: planner"), millis_each(&grouped), "ms/copy")
            .beside("without groups", millis_each(&free))
            .target(Target::AtMost(PLANNER_MILLIS)),
    );
    Ok(())
}

fn secs(outcome: &UpgradeOutcome) -> Result<f64, Failure> {
    if let Some(violation) = &outcome.violation {
        return Err(Failure::new(ExitStatus::Failure, format!("a promise was broken: {violation}")));
    }
    let millis = outcome.millis.ok_or_else(|| Failure::new(ExitStatus::Failure, "an upgrade did not end"))?;
    Ok(millis as f64 / 1000.0)
}

fn millis_each(outcome: &UpgradeOutcome) -> f64 {
    outcome.deciding.as_secs_f64() * 1000.0 / f64::from(outcome.instances.max(1))
}
