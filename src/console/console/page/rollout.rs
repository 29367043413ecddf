//! The rollout of one deployment policy: waves as bars, time left, blockers, steps with their evidence, and controls.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::orchestration::{StatusQuery, UpdateBlocked};
use evenkeel_wire::agbot::rollout_detail::{RolloutDetail, RolloutStep, RolloutWave, StepPhase, TimeLeft};
use jiff::Timestamp;

use super::common::CommonTable;
use super::moment::Moment;
use crate::action::Control;
use crate::address::address_of;
use crate::failure::Failure;
use crate::layout::{self, Tab};
use crate::reads;
use crate::session::Reader;

/// Width of a bar.
const BAR: u32 = 240;

/// Instances that are read of the status, of which only the update is shown.
const INSTANCES: u16 = 1;

/// A wave as a bar.
struct WaveRow {
    label: String,
    wave: RolloutWave,
    started: Option<Moment>,
    /// The time that it took, or has taken.
    took: String,
}

impl WaveRow {
    fn new(wave: RolloutWave, now: Timestamp) -> Self {
        let label = match wave.kind.as_str() {
            "ha-group" => format!("HA group {}", wave.name),
            "upgrade-domain" => format!("upgrade domain {}", wave.name),
            _ => "all slots".to_owned(),
        };
        let started = wave.started_at.as_deref();
        let ended = wave.finished_at.as_deref().and_then(instant).unwrap_or(now);
        let took = started.and_then(instant).map(|started| ended.duration_since(started).as_secs());
        Self {
            took: took.map(|secs| duration(secs.unsigned_abs())).unwrap_or_default(),
            started: Moment::known(started, now),
            label,
            wave,
        }
    }

    fn done_width(&self) -> u32 {
        share(self.wave.done, self.wave.total)
    }

    fn failed_width(&self) -> u32 {
        share(self.wave.failed, self.wave.total).min(BAR - self.done_width())
    }

    /// Begin of the part that is in work.
    fn in_work_at(&self) -> u32 {
        self.done_width() + self.failed_width()
    }

    fn in_work_width(&self) -> u32 {
        share(self.wave.in_work, self.wave.total).min(BAR - self.in_work_at())
    }
}

fn share(part: u32, total: u32) -> u32 {
    let width = u64::from(part.min(total)) * u64::from(BAR) / u64::from(total.max(1));
    u32::try_from(width).unwrap_or(BAR)
}

fn instant(at: &str) -> Option<Timestamp> {
    at.parse().ok()
}

/// Returns a duration in the largest fitting unit.
fn duration(secs: u64) -> String {
    match secs {
        0..=119 => format!("{secs} s"),
        120..=7_199 => format!("{} min", secs / 60),
        _ => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
    }
}

/// The interval in which the rollout ends, from now to its end, as a bar.
struct TimeBar {
    left: TimeLeft,
    earliest: u32,
    width: u32,
    middle: u32,
}

impl TimeBar {
    fn new(left: TimeLeft) -> Self {
        let at = |secs: u64| {
            let position = secs.min(left.latest_seconds) * u64::from(BAR) / left.latest_seconds.max(1);
            u32::try_from(position).unwrap_or(BAR)
        };
        let (earliest, middle) = (at(left.earliest_seconds), at(left.seconds));
        Self { earliest, width: BAR - earliest, middle: middle.min(BAR - 2), left }
    }
}

/// A step.
struct StepRow {
    href: String,
    started: Option<Moment>,
    running: Option<Moment>,
    step: RolloutStep,
}

impl StepRow {
    fn new(org: &str, step: RolloutStep, now: Timestamp) -> Self {
        let is_linked = !step.node.is_empty() && step.node != "?" && !step.node.contains('/');
        let href = address_of(org, &["nodes", &step.node]);
        Self {
            href: if is_linked { href } else { String::new() },
            started: Moment::known(step.started_at.as_deref(), now),
            running: Moment::known(step.running_at.as_deref(), now),
            step,
        }
    }
}

#[derive(Template)]
#[template(path = "rollout.html")]
struct Page {
    policy: String,
    policy_href: String,
    state: String,
    started: Option<Moment>,
    controls: Vec<Control>,
    time: Option<TimeBar>,
    blocked: Option<UpdateBlocked>,
    waves: Vec<WaveRow>,
    other_waves: u64,
    is_sampled: bool,
    phases: Vec<StepPhase>,
    common: Option<CommonTable>,
    steps: Vec<StepRow>,
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, policy)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let reader = reader.for_display();
    let now = Timestamp::now();
    let query = StatusQuery { limit: Some(INSTANCES), ..StatusQuery::default() };
    let (detail, status, account) = tokio::try_join!(
        reads::rollout(&reader, (&org, &policy)),
        reads::status(&reader, (&org, &policy), &query),
        reads::account(&reader),
    )?;
    let RolloutDetail { state, started_at, time_left, waves, other_waves, phases, steps, common, .. } =
        detail;
    let objection = account.policy_objection((&org, &policy), None);
    let page = Page {
        policy_href: address_of(&org, &["policies", &policy]),
        controls: Control::each_of_rollout(&org, &policy, &state, &objection),
        started: Moment::known(started_at.as_deref(), now),
        time: time_left.map(TimeBar::new),
        blocked: status.update.blocked,
        waves: waves.into_iter().map(|wave| WaveRow::new(wave, now)).collect(),
        other_waves,
        is_sampled: detail.sampled,
        phases,
        common: common.map(|common| CommonTable::new(&org, common)),
        steps: steps.into_iter().map(|step| StepRow::new(&org, step, now)).collect(),
        state,
        policy: policy.clone(),
    };
    Ok(layout::show(&reader, &org, Tab::Rollouts, &format!("Rollout of {policy}"), &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_bar_lie_side_by_side_and_never_exceed_it() {
        for (done, failed, in_work, total) in [(1, 1, 1, 4), (3, 3, 3, 3), (0, 0, 0, 0), (5, 2, 9, 7)] {
            let wave = RolloutWave { done, failed, in_work, total, ..RolloutWave::default() };
            let row = WaveRow::new(wave, Timestamp::UNIX_EPOCH);
            let sum = row.done_width() + row.failed_width() + row.in_work_width();
            assert!(
                sum <= BAR && row.in_work_at() == row.done_width() + row.failed_width(),
                "{done} {total}"
            );
        }
        let wave = RolloutWave { done: 1, failed: 1, in_work: 1, total: 4, ..RolloutWave::default() };
        let row = WaveRow::new(wave, Timestamp::UNIX_EPOCH);
        assert_eq!((row.done_width(), row.failed_width(), row.in_work_width()), (60, 60, 60));
    }

    #[test]
    fn wave_took_from_its_begin_to_its_end() {
        let now: Timestamp = "2026-03-03T01:00:00Z".parse().expect("an instant");
        let wave = |finished_at: Option<&str>| RolloutWave {
            started_at: Some("2026-03-03T00:00:00Z".into()),
            finished_at: finished_at.map(str::to_owned),
            ..RolloutWave::default()
        };
        assert_eq!(WaveRow::new(wave(None), now).took, "60 min");
        assert_eq!(WaveRow::new(wave(Some("2026-03-03T00:01:30Z")), now).took, "90 s");
    }

    #[test]
    fn interval_ends_at_the_end_of_its_bar() {
        let left = TimeLeft { seconds: 50, earliest_seconds: 25, latest_seconds: 100, ..TimeLeft::default() };
        let bar = TimeBar::new(left);
        assert_eq!((bar.earliest, bar.middle, bar.earliest + bar.width), (60, 120, BAR));
        let bar = TimeBar::new(TimeLeft::default());
        assert_eq!((bar.earliest, bar.middle), (0, 0));
    }
}
