//! Random schedules: what must hold at every instant, and after the faults are over.

use std::collections::BTreeMap;

use evenkeel_ids::TaskId;
use evenkeel_placement::place::NodeState;
use evenkeel_planner_record::{
    facts::Availability,
    goal::{Goal, StartMode},
    settings::{FailureAction, UpdateOrder},
    time::secs_since,
    workload::{Cause, DesiredState, Task, TaskState, UpdateEvent, UpdateState},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::simulated::*;

const SEEDS: u64 = 1_000;
const FAULTY_SECS: u64 = 120;
const CALM_SECS: u64 = 400;

/// B3-S4.
#[test]
fn random_schedules_keep_every_invariant_and_converge() {
    for seed in 0..SEEDS {
        Schedule::new(seed).run();
    }
}

struct Schedule {
    seed: u64,
    rng: ChaCha8Rng,
    world: World,
    before: BTreeMap<TaskId, Task>,
    next_digest: u64,
    /// Nodes that were away, so that an instance may have survived on them.
    was_away: bool,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let goal = match seed % 4 {
            0 => Goal::global(),
            1 => Goal::replicated(rng.random_range(1..4)),
            2 => Goal::failover(StartMode::BestAvailable, rng.random_range(0..4)),
            _ => Goal::flex((1, 4, rng.random_range(1..4)), StartMode::BestAvailable, 2),
        };
        let mut world = World::new(goal, rng.random_range(3..7));
        world.plans_slots = rng.random_bool(0.5);
        world.stop_secs = rng.random_range(0..8);
        world.start_secs = rng.random_range(1..4);
        world.settings.report_grace_secs = 3;
        if rng.random_bool(0.5) {
            world.group(&["n1", "n2", "n3"]);
        }
        let capable = rng.random_bool(0.5);
        world.nodes.iter_mut().for_each(|node| node.is_capable = capable);
        world.edit(|workload| {
            workload.restart.delay_seconds = rng.random_range(0..6);
            workload.update.parallelism = rng.random_range(0..3);
            workload.update.delay_secs = rng.random_range(0..4);
            workload.update.start_timeout_secs = 30;
            workload.update.order =
                if rng.random_bool(0.5) { UpdateOrder::StartFirst } else { UpdateOrder::StopFirst };
            workload.update.failure_action = match rng.random_range(0..3) {
                0 => FailureAction::Pause,
                1 => FailureAction::Continue,
                _ => FailureAction::Rollback,
            };
            workload.rollback = workload.update;
        });
        Self { seed, rng, world, before: BTreeMap::new(), next_digest: 2, was_away: false }
    }

    fn run(mut self) {
        for _ in 0..FAULTY_SECS {
            if self.rng.random_bool(0.15) {
                self.disturb();
            }
            self.world.run(1);
            self.check();
        }
        self.repair();
        for second in 0..CALM_SECS {
            self.world.run(1);
            self.check();
            // A slot without a node may use up the time of an update; the operator resumes it.
            if second % 60 == 59 && self.world.update.is_paused() {
                self.world.request(UpdateEvent::Resume);
            }
        }
        self.check_converged();
    }

    fn some_node(&mut self) -> String {
        let number = self.rng.random_range(0..self.world.nodes.len());
        self.world.nodes[number].id.name().to_owned()
    }

    fn disturb(&mut self) {
        let name = self.some_node();
        match self.rng.random_range(0..12) {
            0 | 1 => {
                self.was_away = true;
                self.world.take_down(&name);
            }
            2..=4 => self.world.bring_back(&name),
            5 if self.can_drain() => self.world.set_availability(&name, Availability::Drain),
            6 => self.world.set_availability(&name, Availability::Pause),
            7 | 8 => self.world.set_availability(&name, Availability::Active),
            9 => self.publish(),
            10 => self.fail_some(),
            _ => {
                let can_resume = self.world.update.is_paused();
                if can_resume {
                    self.world.request(UpdateEvent::Resume);
                } else if self.world.update.is_rolling() {
                    self.world.request(UpdateEvent::Pause);
                }
            }
        }
    }

    fn publish(&mut self) {
        let digest = self.next_digest;
        self.next_digest += 1;
        let behavior = match self.rng.random_range(0..6) {
            0 => Behavior::Exits(self.rng.random_range(0..8), 1),
            1 => Behavior::Rejected,
            2 => Behavior::Hangs,
            _ => Behavior::Good,
        };
        self.world.behaviors.insert(digest, behavior);
        self.world.write(digest);
    }

    fn fail_some(&mut self) {
        let running: Vec<TaskId> = self.world.running().into_iter().map(|task| task.id.clone()).collect();
        if !running.is_empty() {
            let number = self.rng.random_range(0..running.len());
            self.world.fail(&running[number], 1);
        }
    }

    fn repair(&mut self) {
        let names: Vec<String> = self.world.nodes.iter().map(|node| node.id.name().to_owned()).collect();
        for name in names {
            self.world.bring_back(&name);
            self.world.set_availability(&name, Availability::Active);
        }
        self.world.edit(|workload| workload.update.failure_action = FailureAction::Pause);
        self.world.write(1_000);
    }

    fn check(&mut self) {
        let (seed, world) = (self.seed, &self.world);
        for (id, task) in &world.tasks {
            let Some(before) = self.before.get(id) else { continue };
            let is_kept = before.state == task.state || before.state.may_become(&task.state);
            assert!(is_kept, "seed {seed}: {before:?} became {task:?}");
            assert!(before.desired <= task.desired, "seed {seed}: {before:?} became {task:?}");
            assert!(before.node.is_none() || before.node == task.node, "seed {seed}: {task:?} moved");
            assert_eq!((before.spec, &before.slot), (task.spec, &task.slot), "seed {seed}");
        }
        self.check_exclusive();
        self.check_parallelism();
        self.check_delays();
        self.before = self.world.tasks.clone();
    }

    fn check_exclusive(&self) {
        if !self.world.workload.goal.is_exclusive() {
            return;
        }
        let is_alive = |task: &&Task| {
            let mut nodes = self.world.nodes.iter();
            nodes.any(|node| Some(&node.id) == task.node.as_ref() && node.state == NodeState::Ready)
        };
        let world = &self.world;
        let wanted = world.tasks.values().filter(|task| task.desired == DesiredState::Running);
        assert!(wanted.count() <= 1, "seed {}: {:#?}", self.seed, world.summary());
        let running = world.tasks.values().filter(|task| task.is_running()).filter(is_alive);
        // An instance may have survived on a node that was away.
        assert!(self.was_away || running.count() <= 1, "seed {}: {:#?}", self.seed, world.summary());
    }

    fn check_parallelism(&self) {
        let settings = if self.world.update.is_rollback() {
            self.world.workload.rollback
        } else {
            self.world.workload.update
        };
        let limit = settings.parallelism as usize;
        let count = self.world.update.tickets().count();
        assert!(limit == 0 || count <= limit, "seed {}: {count} slots in work", self.seed);
    }

    /// A restart becomes desired running no sooner than its delay after the end of the task before.
    fn check_delays(&self) {
        let world = &self.world;
        let delay_secs = world.workload.restart.delay_seconds;
        for task in world.tasks.values().filter(|task| task.cause == Cause::TaskFailed) {
            let started_at = task.desired_at.filter(|_| task.desired == DesiredState::Running);
            let Some(started_at) = started_at else { continue };
            let before = world.history.values().filter(|one| {
                one.slot == task.slot
                    && one.state_at <= task.created_at
                    && one.id != task.id
                    && one.ended_by_itself()
            });
            let Some(ended_at) = before.map(|one| one.state_at).max() else { continue };
            let waited = secs_since(ended_at, started_at);
            // An instance that fails on a drained node is replaced without delay.
            assert!(self.can_drain() || waited >= delay_secs, "seed {}: {waited} s", self.seed);
        }
    }

    fn can_drain(&self) -> bool {
        !self.seed.is_multiple_of(3)
    }

    fn check_converged(&self) {
        let (seed, world) = (self.seed, &self.world);
        let describe =
            || format!("seed {seed}: {:#?}\n{:#?}\n{:#?}", world.summary(), world.last, world.update);
        let expected = match world.workload.goal.is_per_node() {
            true => world.nodes.len(),
            false => world.workload.goal.wanted(0) as usize,
        };
        assert_eq!(world.running().len(), expected, "{}", describe());
        assert!(world.running_versions().iter().all(|digest| *digest == 1_000), "{}", describe());
        let unstopped = world.tasks.values().filter(|task| !task.is_stopped()).count();
        assert_eq!(unstopped, expected, "{}", describe());
        assert!(world.tasks.values().all(|task| !task.is_wanted() || task.state != TaskState::Pending));
        let is_settled = matches!(world.update.state, UpdateState::Completed | UpdateState::None);
        assert!(is_settled && world.update.tickets().next().is_none(), "{}", describe());
    }
}
