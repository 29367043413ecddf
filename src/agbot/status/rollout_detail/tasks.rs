//! The update of a policy with tasks, read slot by slot.

use std::{collections::BTreeMap, sync::Arc};

use evenkeel_ids::GroupId;
use evenkeel_placement::place::UnitNode;
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    forecast::{Pacing, Queue, Stage, StepInWork},
    settings::{Pace, UpdateSettings},
    time::secs_since,
    workload::{
        Part, Slot, SlotTasks, SpecVersion, Task, UnitId, UnitProgress, UpdateState, Workload, WorkloadRecord,
    },
};
use jiff::Timestamp;

use super::{MOST_READ, RolloutDetail, StepState, StepStatus, Wave, WaveKind};

/// Where a slot is in an update.
enum Progress<'t> {
    /// It runs another version.
    Left,
    /// It has begun.
    InWork {
        since: Timestamp,
        task: Option<&'t Task>,
    },
    Failed(&'t Task),
    Done(&'t Task),
}

/// The wave of a slot, in the order of waves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum WaveKey {
    Part(Part),
    Domain(Option<Arc<str>>),
}

/// The steps of one wave.
struct WaveSteps {
    wave: Wave,
    independent: u32,
    /// Steps that have not begun, by HA group.
    of_groups: BTreeMap<GroupId, u32>,
    in_work: Vec<StepInWork>,
}

/// An update that is read.
struct Reading<'m> {
    model: &'m Model,
    record: &'m WorkloadRecord,
    settings: UpdateSettings,
    now: Timestamp,
    waves: BTreeMap<WaveKey, WaveSteps>,
    detail: RolloutDetail,
    /// Slots on nodes whose agents report late, and on others.
    late: u32,
    prompt: u32,
}

pub(super) fn detail(
    model: &Model,
    record: &WorkloadRecord,
    workload: &Workload,
    now: Timestamp,
) -> Option<RolloutDetail> {
    let update = &record.update;
    if update.state == UpdateState::None {
        return None;
    }
    let settings = if update.is_rollback() { workload.rollback } else { workload.update };
    let service = record.spec(record.versions.current.number).map(|spec| spec.service.clone());
    let service = service.or_else(|| Some(model.policy(&record.policy)?.service.clone()))?;
    let detail = RolloutDetail {
        started_at: update.started_at,
        ..RolloutDetail::new(update.state, service, pacing(&settings, 0))
    };
    let mut reading =
        Reading { model, record, settings, now, waves: BTreeMap::new(), detail, late: 0, prompt: 0 };
    for (id, unit) in model.workload_units_of(&record.policy).filter(|(_, unit)| unit.is_wanted) {
        reading.read(id, unit);
    }
    Some(reading.finish())
}

/// Returns how fast slots may follow each other; `grace_secs`: how much longer those are watched whose agents report late.
fn pacing(settings: &UpdateSettings, grace_secs: u64) -> Pacing {
    let is_monitored = settings.pace == Pace::Monitored;
    let judged_secs = settings.judged_secs();
    let rest_secs = if is_monitored { judged_secs - settings.monitor_secs } else { judged_secs + grace_secs };
    Pacing {
        parallelism: settings.parallelism,
        watched_secs: if is_monitored { settings.monitor_secs + grace_secs } else { 0 },
        delay_secs: settings.delay_secs,
        settling_secs: rest_secs.max(settings.delay_secs),
        start_timeout_secs: settings.start_timeout_secs,
    }
}

impl Reading<'_> {
    fn read(&mut self, id: &UnitId, unit: &UnitRecord) {
        let stride = unit.slots.len().div_ceil(MOST_READ).max(1);
        self.detail.is_sampled |= stride > 1;
        let none = UnitProgress::default();
        let share = self.record.update.part(&id.part).unwrap_or(&none);
        for (slot, tasks) in unit.slots.iter().step_by(stride) {
            // Of those in work, none is passed over.
            if stride == 1 || !is_in_work(share, slot) {
                self.read_slot(id, unit, share, (slot, tasks), stride as u32);
            }
        }
        if stride > 1 {
            let in_work = share.tickets.keys().filter(|slot| is_in_work(share, slot)).take(MOST_READ);
            for slot in in_work {
                self.read_slot(id, unit, share, (slot, unit.tasks(slot)), 1);
            }
        }
    }

    fn read_slot(
        &mut self,
        id: &UnitId,
        unit: &UnitRecord,
        share: &UnitProgress,
        (slot, tasks): (&Slot, &SlotTasks),
        stride: u32,
    ) {
        self.measure(tasks);
        let target = self.record.versions.current;
        let Some(progress) = progress(share, target, slot, tasks) else { return };
        let bound = tasks.wanted().next().or_else(|| tasks.newest());
        let node = bound.and_then(Task::bound_node).and_then(|node| unit.table.find(node));
        match node {
            Some(node) if !node.is_capable => self.late += 1,
            _ => self.prompt += 1,
        }
        let key = match &id.part {
            Part::Group(_) => WaveKey::Part(id.part.clone()),
            Part::All => WaveKey::Domain(node.and_then(|node| node.upgrade_domain.clone())),
        };
        let step = self.step(&key, &progress);
        let steps = self.waves.entry(key.clone()).or_insert_with(|| WaveSteps::new(&key));
        steps.add(&progress, step.as_ref(), (stride, self.now), node);
        if let (Progress::Failed(_), Some(node)) =
            (&progress, step.as_ref().and_then(|step| step.node.clone()))
        {
            self.detail.failing.insert(node);
        }
        if let (Progress::Done(task), 1) = (&progress, stride) {
            self.detail.succeeded.extend(task.bound_node().cloned());
        }
        self.detail.steps.extend(step);
    }

    /// Takes the durations of the tasks that updates started.
    fn measure(&mut self, tasks: &SlotTasks) {
        let (target, started_at) = (self.record.versions.current, self.record.update.started_at);
        for task in tasks.iter().filter(|task| task.cause.is_update()) {
            let Some(running_at) = task.running_at else { continue };
            let secs = running_at.duration_since(task.created_at).as_secs_f64();
            if task.spec == target && started_at.is_some_and(|at| task.created_at >= at) {
                self.detail.measured.own.push(secs);
            } else {
                self.detail.measured.earlier.push(secs);
            }
        }
    }

    fn step(&self, key: &WaveKey, progress: &Progress<'_>) -> Option<StepStatus> {
        let (state, since, task) = match progress {
            Progress::Left => return None,
            Progress::InWork { since, task } => {
                let runs = task.is_some_and(Task::is_running);
                (if runs { StepState::Watched } else { StepState::Starting }, *since, *task)
            }
            Progress::Failed(task) => (StepState::Failed, task.created_at, Some(*task)),
            Progress::Done(task) => (StepState::Done, task.created_at, Some(*task)),
        };
        let running_at = task.and_then(|task| task.running_at);
        let watched_until = running_at.filter(|_| state == StepState::Watched);
        Some(StepStatus {
            node: task.and_then(Task::bound_node).cloned(),
            wave: key.name().to_owned(),
            state,
            started_at: Some(since),
            running_at,
            watched_until: watched_until.map(|at| self.settings.monitored_until(at)),
            evidence: match (state, task) {
                (StepState::Failed, Some(task)) if task.is_running() => "its checks fail".to_owned(),
                (StepState::Failed, Some(task)) if !task.state.is_ended() => {
                    "it was not seen running in time".to_owned()
                }
                (StepState::Failed, Some(task)) => task.ending_text(),
                (StepState::Starting, Some(task)) => format!("the node reports: {}", task.state.name()),
                (StepState::Starting, None) => "no node has it yet".to_owned(),
                _ => "the node reports that it runs".to_owned(),
            },
        })
    }

    fn finish(mut self) -> RolloutDetail {
        let grace_secs = self.model.unit_settings(self.record.policy.org()).report_grace_secs;
        let grace_secs = if self.late > self.prompt { grace_secs } else { 0 };
        self.detail.pacing = pacing(&self.settings, grace_secs);
        let mut stages: Vec<Stage> = Vec::new();
        for (key, steps) in std::mem::take(&mut self.waves) {
            let (stage, wave) = steps.split();
            // What is in no upgrade domain waits for none, and groups do not wait for each other.
            let is_next = matches!(key, WaveKey::Domain(Some(_))) && self.detail.waves.iter().any(is_domain);
            match stages.last_mut().filter(|_| !is_next) {
                Some(last) => {
                    last.independent += stage.independent;
                    last.queues.extend(stage.queues);
                }
                None => stages.push(stage),
            }
            self.detail.waves.push(wave);
        }
        self.detail.remaining.stages = stages;
        self.detail.finish()
    }
}

fn is_domain(wave: &Wave) -> bool {
    wave.kind == WaveKind::UpgradeDomain
}

impl WaveKey {
    fn kind(&self) -> WaveKind {
        match self {
            Self::Part(Part::Group(_)) => WaveKind::HaGroup,
            Self::Domain(Some(_)) => WaveKind::UpgradeDomain,
            Self::Part(Part::All) | Self::Domain(None) => WaveKind::All,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Part(Part::Group(group)) => group.name(),
            Self::Domain(Some(domain)) => domain,
            Self::Part(Part::All) | Self::Domain(None) => "",
        }
    }
}

impl WaveSteps {
    fn new(key: &WaveKey) -> Self {
        let wave = Wave::new(key.kind(), key.name());
        Self { wave, independent: 0, of_groups: BTreeMap::new(), in_work: Vec::new() }
    }

    /// Adds a slot, which stands for `stride` of them.
    fn add(
        &mut self,
        progress: &Progress<'_>,
        step: Option<&StepStatus>,
        (stride, now): (u32, Timestamp),
        node: Option<&UnitNode>,
    ) {
        let wave = &mut self.wave;
        wave.total += stride;
        if let Some(at) = step.and_then(|step| step.started_at) {
            wave.started_at = Some(wave.started_at.map_or(at, |known| known.min(at)));
        }
        match progress {
            Progress::Left => match node.and_then(|node| node.group.clone()).filter(|_| stride == 1) {
                Some(group) => *self.of_groups.entry(group).or_default() += 1,
                None => self.independent += stride,
            },
            Progress::InWork { since, task } => {
                wave.in_work += stride;
                let running_at = task.filter(|task| task.is_running()).and_then(|task| task.running_at);
                let running_secs = running_at.map(|at| secs_since(at, now));
                self.in_work.push(StepInWork { elapsed_secs: secs_since(*since, now), running_secs });
            }
            Progress::Failed(_) => wave.failed += stride,
            Progress::Done(task) => {
                wave.done += stride;
                wave.finished_at = wave.finished_at.max(task.running_at);
            }
        }
    }

    fn split(self) -> (Stage, Wave) {
        let Self { mut wave, independent, of_groups, in_work } = self;
        if wave.is_open() {
            wave.finished_at = None;
        }
        // One step of a group is in work at a time; which of them does not matter for the time.
        let mut in_work = in_work.into_iter();
        let mut queues: Vec<Queue> =
            of_groups.into_values().map(|steps| Queue { steps, in_work: in_work.next() }).collect();
        queues.extend(in_work.map(|step| Queue { steps: 0, in_work: Some(step) }));
        (Stage { independent, queues }, wave)
    }
}

fn is_in_work(share: &UnitProgress, slot: &Slot) -> bool {
    share.tickets.get(slot).is_some_and(|ticket| ticket.done_at.is_none() && ticket.task.is_some())
}

/// Returns where a slot is in the update; none when nothing is wanted there.
fn progress<'t>(
    share: &UnitProgress,
    target: SpecVersion,
    slot: &Slot,
    tasks: &'t SlotTasks,
) -> Option<Progress<'t>> {
    let newest = tasks.iter().find(|task| task.spec == target);
    let has_failed = |task: &&Task| {
        share.failing_slots.contains(slot)
            || tasks.iter().any(|one| share.failed.contains(&one.id)) && !task.is_running()
            || task.ended_by_itself() && task.state.has_failed()
    };
    if let Some(task) = newest.filter(has_failed) {
        // A restart that has not ended yet says nothing about the failure.
        let mut of_version = tasks.iter().filter(|task| task.spec == target);
        let ended = of_version.find(|task| task.ended_by_itself() && task.state.has_failed());
        return Some(Progress::Failed(ended.unwrap_or(task)));
    }
    if let Some(ticket) = share.tickets.get(slot).filter(|_| is_in_work(share, slot)) {
        let task = tasks.iter().find(|task| Some(&task.id) == ticket.task.as_ref());
        return Some(Progress::InWork { since: ticket.since, task });
    }
    match newest.filter(|task| task.is_wanted()) {
        Some(task) if task.is_running() => Some(Progress::Done(task)),
        Some(task) => Some(Progress::InWork { since: task.created_at, task: Some(task) }),
        None => tasks.wanted().next().map(|_| Progress::Left),
    }
}
