//! `evenkeel bench rolling`: how long a service upgrade of a fleet takes with and without HA groups.
//!
//! The deciding part of the agbot is real; agents, network and time are simulated. Source: seed 004, "Test".

use std::time::Instant;

use evenkeel_planner::sim::upgrade::{UpgradePlan, upgrade};
use evenkeel_runtime::{ExitStatus, Failure};

use super::report::{Options, Report, Row, Target};

/// Time to start a copy, and time that it is watched.
const START_MILLIS: u64 = 5_000;
const MONITOR_SECS: u64 = 5;
const MEMBERS: u32 = 2;
/// Members take turns, so each costs its start and its watch; in between go a few polls.
const TIMES_AT_MOST: f64 = 4.0;

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let groups = if options.short { 10 } else { 100 };
    let mut report = Report::new("rolling");
    for (name, is_heterogeneous) in [("homogeneous", false), ("heterogeneous", true)] {
        let plan = |has_groups| UpgradePlan {
            groups,
            members: MEMBERS,
            has_groups,
            is_heterogeneous,
            start_millis: START_MILLIS,
            monitor_secs: MONITOR_SECS,
        };
        let begin = Instant::now();
        let (grouped, free) = (upgrade(plan(true)), upgrade(plan(false)));
        let computed = begin.elapsed();
        for outcome in [&grouped, &free] {
            if let Some(violation) = &outcome.violation {
                return Err(Failure::new(ExitStatus::Failure, format!("a promise was broken: {violation}")));
            }
        }
        let (Some(with), Some(without)) = (grouped.millis, free.millis) else {
            return Err(Failure::new(ExitStatus::Failure, "an upgrade did not end"));
        };
        report.push(
            Row::new(
                format!("{name}: {} copies in {groups} groups of {MEMBERS}", grouped.copies),
                with as f64 / 1000.0,
                "s",
            )
            .beside("without groups", without as f64 / 1000.0)
            .target(Target::RatioAtMost(TIMES_AT_MOST)),
        );
        report.push(
            Row::new(
                format!("{name}: fewest copies in a group"),
                f64::from(grouped.lowest_in_group),
                "copies",
            )
            .beside("without groups", f64::from(free.lowest_in_group))
            .target(Target::AtLeast(1.0)),
        );
        report.note(format!(
            "{name}: {} things happened in both runs, computed in {:.1} s.",
            grouped.steps + free.steps,
            computed.as_secs_f64()
        ));
    }
    report.note(format!(
        "Simulated time from the new policies to the last new copy; a copy starts in {} s and is watched {MONITOR_SECS} s.",
        START_MILLIS / 1000
    ));
    report.note(
        "Heterogeneous: one member of each group runs a second service, which is upgraded at the same time.",
    );
    Ok(report)
}
