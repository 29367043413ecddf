//! A rollout in detail as the API shows it, without what would reveal nodes that the caller may not read.

use evenkeel_planner_record::forecast::{Basis, Forecast};
use evenkeel_planner_record::workload::UpdateState;
use evenkeel_status::rollout_detail::{self as planned, StepStatus, Wave};
use evenkeel_wire::agbot::common::CommonCauses;
use evenkeel_wire::agbot::orchestration::UpdateProgress;
use evenkeel_wire::agbot::rollout_detail::{
    RolloutDetail, RolloutStep, RolloutWait, RolloutWave, StepPhase, TimeLeft,
};

use super::workload_shape::{Shape, time};

/// Waves that are listed.
const WAVES: usize = 100;
/// Steps that are listed.
const STEPS: usize = 100;

impl Shape<'_> {
    /// A rollout in detail; `update`: its progress as the caller may see it, `has_tasks`: whether the policy has tasks.
    pub(crate) fn rollout_detail(
        &self,
        detail: &planned::RolloutDetail,
        update: &UpdateProgress,
        has_tasks: bool,
        common: Option<CommonCauses>,
    ) -> RolloutDetail {
        let sees_all = self.seen.is_all();
        // Callers who may not read all nodes see the progress of policies with tasks, and not that of rollouts through HA groups.
        let forecast = detail.time_left(self.policy).filter(|_| sees_all || has_tasks);
        let mut waves: Vec<&Wave> = detail.waves.iter().filter(|_| sees_all).collect();
        let other_waves = waves.len().saturating_sub(WAVES) as u64;
        if other_waves > 0 {
            waves.sort_by_key(|wave| !wave.is_open());
            waves.truncate(WAVES);
        }
        let is_shown = |step: &&StepStatus| step.node.as_ref().map_or(sees_all, |node| self.seen.shows(node));
        RolloutDetail {
            policy: self.policy.to_string(),
            state: detail.state.word().to_owned(),
            started_at: detail.started_at.map(time),
            time_left: forecast.map(|forecast| self.time_left(&forecast, detail.state, update, has_tasks)),
            waves: waves.into_iter().map(wave).collect(),
            other_waves,
            phases: if sees_all { phases(detail) } else { Vec::new() },
            steps: detail.steps.iter().filter(is_shown).take(STEPS).map(|one| self.step(one)).collect(),
            common,
            sampled: detail.is_sampled,
        }
    }

    fn step(&self, step: &StepStatus) -> RolloutStep {
        RolloutStep {
            node: step.node.as_ref().map(|node| self.node(node)).unwrap_or_default(),
            wave: step.wave.clone(),
            state: step.state.word().to_owned(),
            started_at: step.started_at.map(time),
            running_at: step.running_at.map(time),
            watched_until: step.watched_until.map(time),
            evidence: step.evidence.clone(),
        }
    }

    fn time_left(
        &self,
        forecast: &Forecast,
        state: UpdateState,
        update: &UpdateProgress,
        has_tasks: bool,
    ) -> TimeLeft {
        let waits_for = self.wait(state, update, has_tasks);
        TimeLeft {
            seconds: forecast.secs,
            earliest_seconds: forecast.earliest_secs,
            latest_seconds: forecast.latest_secs,
            minimum_seconds: forecast.minimum_secs,
            steps_left: forecast.steps_left,
            measured_steps: forecast.measured_steps,
            earlier_steps: forecast.earlier_steps,
            basis: forecast.basis.word().to_owned(),
            text: summary(forecast, waits_for.as_ref()),
            waits_for,
        }
    }

    /// Returns what a rollout waits for that does not end by itself.
    fn wait(&self, state: UpdateState, update: &UpdateProgress, has_tasks: bool) -> Option<RolloutWait> {
        if matches!(state, UpdateState::Paused | UpdateState::RollbackPaused) {
            let why = if update.message.is_empty() { String::new() } else { format!(": {}", update.message) };
            return Some(RolloutWait {
                text: format!("the rollout is paused{why}"),
                role: if has_tasks { "owner" } else { "administrator" }.to_owned(),
                hint: match has_tasks {
                    true => format!(
                        "resume it with: hzn exchange deployment orchestration update {} resume",
                        self.policy.name()
                    ),
                    false => format!("resume it with: hzn rollout resume {}", self.policy.name()),
                },
            });
        }
        let blocked = update.blocked.as_ref()?;
        let text = blocked.slots.first().map(|slot| slot.detail.clone()).unwrap_or_default();
        let role = match blocked.slots.first().map(|slot| slot.reason.as_str()) {
            Some("NodeDown" | "NodePaused") => "operator",
            Some("Capacity" | "NoCandidate") => "owner",
            _ => "administrator",
        };
        Some(RolloutWait { text, role: role.to_owned(), hint: blocked.hint.clone() })
    }
}

fn wave(wave: &Wave) -> RolloutWave {
    RolloutWave {
        kind: wave.kind.word().to_owned(),
        name: wave.name.clone(),
        total: wave.total,
        done: wave.done,
        in_work: wave.in_work,
        failed: wave.failed,
        started_at: wave.started_at.map(time),
        finished_at: wave.finished_at.map(time),
    }
}

fn phases(detail: &planned::RolloutDetail) -> Vec<StepPhase> {
    let setting = |phase: &str, secs: u64| StepPhase {
        phase: phase.to_owned(),
        seconds: secs as f64,
        ..StepPhase::default()
    };
    let mut secs = detail.measured.own.clone();
    secs.sort_by(f64::total_cmp);
    let rounded = |secs: f64| (secs * 10.0).round() / 10.0;
    let start = secs.last().map(|longest| StepPhase {
        phase: "start".to_owned(),
        seconds: rounded(secs[secs.len() / 2]),
        longest_seconds: Some(rounded(*longest)),
        measured: u32::try_from(secs.len()).ok(),
    });
    let watch = setting("watch", detail.pacing.watched_secs);
    let delay = setting("delay", detail.pacing.delay_secs);
    start.into_iter().chain([watch]).chain((detail.pacing.delay_secs > 0).then_some(delay)).collect()
}

/// Returns a duration in words, in its two largest parts.
fn duration(secs: u64) -> String {
    match secs {
        0..=119 => format!("{secs} s"),
        120..=7_199 => format!("{} min", secs.div_ceil(60)),
        7_200..=172_799 => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{} days {} h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

fn summary(forecast: &Forecast, waits_for: Option<&RolloutWait>) -> String {
    let steps = |count: u32| if count == 1 { "1 step".to_owned() } else { format!("{count} steps") };
    let basis = match forecast.basis {
        Basis::Own => format!("measured on {} of it", steps(forecast.measured_steps)),
        Basis::OwnAndEarlier => format!(
            "measured on {} of it and {} of earlier rollouts",
            steps(forecast.measured_steps),
            steps(forecast.earlier_steps)
        ),
        Basis::Earlier => format!("measured on {} of earlier rollouts", steps(forecast.earlier_steps)),
        Basis::Settings => "no step has been measured yet".to_owned(),
    };
    let [middle, earliest, latest] =
        [forecast.secs, forecast.earliest_secs, forecast.latest_secs].map(duration);
    let from = if waits_for.is_some() { " after it continues" } else { "" };
    let wait = waits_for.map(|wait| format!("; it waits for the {}: {}", wait.role, wait.text));
    let (left, wait) = (steps(forecast.steps_left), wait.unwrap_or_default());
    format!("about {middle}{from}, with 80 % probability {earliest} to {latest}; {left} left, {basis}{wait}")
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::PolicyId;
    use evenkeel_planner_record::forecast::{MeasuredSteps, Pacing, RemainingSteps, Stage, forecast};

    use super::*;
    use crate::shown::SeenNodes;

    fn found(own: usize) -> Forecast {
        let stages = vec![Stage { independent: 10, queues: Vec::new() }];
        let pacing = Pacing {
            parallelism: 1,
            watched_secs: 30,
            delay_secs: 0,
            settling_secs: 0,
            start_timeout_secs: 600,
        };
        let measured = MeasuredSteps { own: vec![30.0; own], earlier: Vec::new() };
        forecast(&RemainingSteps { stages }, &pacing, &measured, 1).expect("steps remain")
    }

    #[test]
    fn summary_names_the_interval_and_what_it_is_based_on() {
        let text = summary(&found(20), None);
        assert!(text.starts_with("about 1") && text.contains(" min, with 80 % probability "), "{text}");
        assert!(text.ends_with("10 steps left, measured on 20 steps of it"), "{text}");
        assert!(summary(&found(0), None).ends_with("no step has been measured yet"));
    }

    #[test]
    fn paused_rollout_waits_for_somebody() {
        let (policy, now) = (PolicyId::new("o", "p"), jiff::Timestamp::UNIX_EPOCH);
        let shape = Shape { policy: &policy, seen: &SeenNodes::All, now };
        let update = UpdateProgress { message: "a failed".into(), ..UpdateProgress::default() };
        let left = shape.time_left(&found(3), UpdateState::Paused, &update, false);
        let wait = left.waits_for.expect("a wait");
        assert_eq!(
            (wait.text.as_str(), wait.role.as_str()),
            ("the rollout is paused: a failed", "administrator")
        );
        assert!(left.text.contains("after it continues, with 80 % probability "), "{}", left.text);
        assert!(
            left.text.contains("; it waits for the administrator: the rollout is paused"),
            "{}",
            left.text
        );
        assert!(shape.time_left(&found(3), UpdateState::Updating, &update, false).waits_for.is_none());
    }

    #[test]
    fn durations_have_their_largest_parts() {
        let words =
            [(0, "0 s"), (119, "119 s"), (121, "3 min"), (7_260, "2 h 1 min"), (180_000, "2 days 2 h")];
        for (secs, word) in words {
            assert_eq!(duration(secs), word);
        }
    }
}
