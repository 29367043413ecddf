//! The rollouts of a policy without tasks through its HA groups, one row for each.

use std::collections::BTreeSet;

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_model::model::{Model, Observed};
use evenkeel_planner_record::{
    claims::{Claim, Phase, Purpose, Scope},
    facts::DeploymentPolicyFacts,
    forecast::{Pacing, Queue, Stage, StepInWork},
    rollout::{Rollout, RolloutState, target_digest},
    settings::UpdateSettings,
    time::{later, secs_since},
    workload::UpdateState,
};
use jiff::Timestamp;

use super::{MOST_READ, RolloutDetail, StepState, StepStatus, Wave, WaveKind};

/// Rollouts that are read.
struct Reading<'m> {
    model: &'m Model,
    policy: &'m DeploymentPolicyFacts,
    /// Digest of what the policy wants.
    digest: u64,
    settings: UpdateSettings,
    now: Timestamp,
    detail: RolloutDetail,
    stage: Stage,
    members: usize,
}

pub(super) fn detail(model: &Model, policy: &DeploymentPolicyFacts, now: Timestamp) -> Option<RolloutDetail> {
    let of_policy = |rollout: &&Rollout| rollout.policy == policy.id && rollout.update_state().is_some();
    let mut rollouts: Vec<&Rollout> = model.rollouts().filter(of_policy).collect();
    let digest = target_digest(policy);
    // Rows of groups that have not begun yet are those of an earlier version.
    if rollouts.iter().any(|rollout| rollout.is_for(digest)) {
        rollouts.retain(|rollout| rollout.is_for(digest));
    }
    let states = rollouts.iter().filter_map(|rollout| rollout.update_state());
    let state = most_urgent(states)?;
    let settings = model.update_settings(&policy.id);
    let pacing = Pacing {
        parallelism: settings.parallelism,
        watched_secs: settings.monitor_secs,
        delay_secs: settings.delay_secs,
        settling_secs: 0,
        start_timeout_secs: settings.start_timeout_secs,
    };
    let detail = RolloutDetail::new(state, policy.service.clone(), pacing);
    let stage = Stage::default();
    let mut reading = Reading { model, policy, digest, settings, now, detail, stage, members: 0 };
    rollouts.iter().for_each(|rollout| reading.read(rollout));
    reading.read_waiting_groups(&rollouts);
    reading.detail.remaining.stages = vec![reading.stage];
    Some(reading.detail.finish())
}

/// Returns the state of all: as long as one is updated, they are.
fn most_urgent(states: impl Iterator<Item = UpdateState>) -> Option<UpdateState> {
    states.max_by_key(|state| match state {
        UpdateState::None => 0,
        UpdateState::RollbackCompleted => 1,
        UpdateState::Completed => 2,
        UpdateState::RollbackPaused => 3,
        UpdateState::Paused => 4,
        UpdateState::RollbackStarted => 5,
        UpdateState::Updating => 6,
    })
}

impl Reading<'_> {
    fn read(&mut self, rollout: &Rollout) {
        let scope = Scope::Policy(rollout.policy.clone());
        let claim = self.model.claims.get(&(rollout.group.clone(), scope));
        let claim = claim.filter(|claim| claim.purpose == Purpose::ServiceUpgrade && rollout.is_open());
        let in_work = u32::from(claim.is_some());
        let failed = if rollout.rollback.is_some() { 0 } else { rollout.failed.len() as u32 };
        let done = rollout.done.min(rollout.total);
        let finished_at = match rollout.state {
            RolloutState::Completed { at } => Some(at),
            _ => None,
        };
        self.detail.waves.push(Wave {
            total: rollout.total,
            done,
            in_work,
            failed,
            started_at: Some(rollout.started_at),
            finished_at,
            ..Wave::new(WaveKind::HaGroup, rollout.group.name())
        });
        let started_at = self.detail.started_at.map_or(rollout.started_at, |at| at.min(rollout.started_at));
        self.detail.started_at = Some(started_at);
        self.detail.failing.extend(rollout.failed.iter().cloned());
        let secs = |durations: &[u32]| durations.iter().map(|secs| f64::from(*secs)).collect::<Vec<f64>>();
        let own = secs(rollout.durations.own());
        match rollout.is_for(self.digest) {
            true => self.detail.measured.own.extend(own),
            false => self.detail.measured.earlier.extend(own),
        }
        self.detail.measured.earlier.extend(secs(rollout.durations.earlier()));
        if rollout.is_open() {
            let steps = rollout.total.saturating_sub(done + failed + in_work);
            let in_work = claim.map(|claim| self.in_work(claim));
            self.stage.queues.push(Queue { steps, in_work });
        }
        self.read_members(rollout, claim);
    }

    fn in_work(&self, claim: &Claim) -> StepInWork {
        let since_phase = secs_since(claim.phase_since, self.now);
        let running_secs = (claim.phase == Phase::Verifying).then_some(since_phase);
        StepInWork { elapsed_secs: secs_since(claim.since, self.now), running_secs }
    }

    fn read_members(&mut self, rollout: &Rollout, claim: Option<&Claim>) {
        let target = rollout.effective_target();
        let version = target.rsplit(' ').next().unwrap_or_default();
        let members = self.model.group(&rollout.group).into_iter().flat_map(|group| &group.members);
        for member in members {
            if self.members == MOST_READ {
                self.detail.is_sampled = true;
                return;
            }
            self.members += 1;
            let step = match claim.filter(|claim| claim.node == *member) {
                Some(claim) => Some(self.step_of_claim(rollout, claim)),
                None => self.step_of(rollout, member, version),
            };
            if step.as_ref().is_some_and(|step| step.state == StepState::Done) {
                self.detail.succeeded.insert(member.clone());
            }
            self.detail.steps.extend(step);
        }
    }

    fn step_of_claim(&self, rollout: &Rollout, claim: &Claim) -> StepStatus {
        let is_running = claim.phase == Phase::Verifying;
        let running_at = is_running.then_some(claim.phase_since);
        StepStatus {
            node: Some(claim.node.clone()),
            wave: rollout.group.name().to_owned(),
            state: if is_running { StepState::Watched } else { StepState::Starting },
            started_at: Some(claim.since),
            running_at,
            watched_until: running_at.map(|at| later(at, self.settings.monitor_secs)),
            evidence: match claim.phase {
                Phase::Stopping => "the old instance is being stopped",
                Phase::Starting => "the new instance is being started",
                Phase::Verifying => "the node reports that it runs",
            }
            .to_owned(),
        }
    }

    /// Returns the step of a member, if it has begun.
    fn step_of(&self, rollout: &Rollout, member: &NodeId, version: &str) -> Option<StepStatus> {
        let agreement = self.model.live_agreement(member, &rollout.policy);
        let started_at = agreement.map(|agreement| agreement.created_at);
        let is_failed = rollout.failed.contains(member) && rollout.rollback.is_none();
        let is_of_version = agreement.is_some_and(|agreement| {
            agreement.version == version && agreement.created_at >= rollout.started_at
        });
        let (state, evidence) = match agreement {
            _ if is_failed => {
                let text = self.model.failure_text(member, &self.policy.service, version);
                (StepState::Failed, text.unwrap_or_else(|| "the version failed there".to_owned()))
            }
            Some(agreement) if is_of_version => match self.model.observed(agreement, self.now) {
                Observed::Running => (StepState::Done, "the node reports that it runs".to_owned()),
                Observed::Absent => (StepState::Done, "the node reports that it does not run now".to_owned()),
                Observed::Unknown => (StepState::Done, "the node has reported nothing since".to_owned()),
            },
            _ => return None,
        };
        Some(StepStatus {
            node: Some(member.clone()),
            wave: rollout.group.name().to_owned(),
            state,
            started_at,
            running_at: None,
            watched_until: None,
            evidence,
        })
    }

    /// Adds the groups that wait only for the parallelism: their rollouts have no rows yet.
    fn read_waiting_groups(&mut self, rollouts: &[&Rollout]) {
        let open = rollouts.iter().filter(|rollout| rollout.is_open()).map(|rollout| &rollout.group);
        let open: BTreeSet<&GroupId> = open.collect();
        let Some(waiting) = self.model.parallelism_queue.get(&self.policy.id) else { return };
        for group in waiting.iter().filter(|group| !open.contains(group)).take(MOST_READ) {
            let members = self.model.group(group).into_iter().flat_map(|group| &group.members);
            let has_one = |member: &&NodeId| self.model.live_agreement(member, &self.policy.id).is_some();
            let steps = members.filter(has_one).count() as u32;
            self.stage.queues.push(Queue { steps, in_work: None });
            self.detail.waves.push(Wave { total: steps, ..Wave::new(WaveKind::HaGroup, group.name()) });
        }
    }
}
