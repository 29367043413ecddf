//! The world: time, the queue of things to happen, the network, and all parts.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    SimulationReport,
    agbot::Agbot,
    agent::{Agent, AgentTimer, ToAgent},
    database::Database,
    deliberate::DeliberateFaults,
    exchange::Exchange,
    invariants::Watchman,
};
use evenkeel_planner::{
    command::Command,
    event::AgreementMessage,
    ids::{AgreementId, NodeId, PolicyId, ServiceKey},
    settings::{PlannerSettings, UpdateSettings},
};

/// Begin of simulated time, any instant will do.
const EPOCH_MILLIS: i64 = 1_800_000_000_000;

/// How long a message stays in a mailbox, seconds.
pub(crate) const MESSAGE_TTL_SECS: u64 = 120;

/// Is a thing to happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// An agbot looks at everything new.
    Poll { agbot: usize, incarnation: u32 },
    /// An agbot reads the log of changed records.
    Tail { agbot: usize, incarnation: u32 },
    /// An agbot carries out a command.
    Execute { agbot: usize, incarnation: u32, command: Box<Command>, mail: Option<u64> },
    /// An agbot delivers its part of the outbox.
    DeliverOutbox { agbot: usize, incarnation: u32 },
    /// A message reaches an agent.
    Deliver { node: NodeId, message: ToAgent },
    /// A message reaches the agbots' mailbox.
    DeliverToAgbots { message: AgreementMessage },
    /// Something inside an agent is due.
    Agent { node: NodeId, incarnation: u32, timer: AgentTimer },
    /// The next fault.
    Chaos,
}

/// Is how unreliable the world is; all zero when faults are over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Share of messages lost, and of reads of the log that fail.
    pub lost: f64,
    /// Share of messages doubled.
    pub doubled: f64,
    /// Longest delay of a late message, milliseconds.
    pub late_millis: u64,
    /// Share of commands after whose transaction the agbot crashes, before it has sent or told anything.
    pub crash_after_commit: f64,
}

/// Is what the decisions of all agbots took.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    /// Tells a time that only grows; nothing decided depends on it.
    pub stopwatch: Option<fn() -> Duration>,
    pub spent: Duration,
    pub decisions: u64,
}

impl Effort {
    /// Adds what `work` takes.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = self.stopwatch.map(|read| read());
        let outcome = work();
        if let (Some(begin), Some(read)) = (begin, self.stopwatch) {
            self.spent += read().saturating_sub(begin);
        }
        self.decisions += 1;
        outcome
    }
}

/// Says how a version behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    /// It starts and runs.
    Good,
    /// It never starts.
    NeverStarts,
    /// It ends by itself after so many seconds.
    EndsAfter(u64),
}

/// Is a message in the agbots' mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub id: u64,
    pub message: AgreementMessage,
    pub expires_millis: u64,
}

/// Is the world.
pub(crate) struct World {
    pub rng: ChaCha8Rng,
    /// Number that everything random follows from.
    pub seed: u64,
    pub millis: u64,
    pub clock_offset_millis: i64,
    /// When somebody last edited a policy, a node or a group.
    pub edited_at_millis: u64,
    pub settings: PlannerSettings,
    pub faults: Faults,
    /// How the agbots are misled.
    pub deliberate: DeliberateFaults,
    pub exchange: Exchange,
    pub database: Database,
    pub agbots: Vec<Agbot>,
    pub agents: BTreeMap<NodeId, Agent>,
    pub mailbox: Vec<Mail>,
    pub quality: BTreeMap<(ServiceKey, String), Quality>,
    pub watchman: Watchman,
    pub steps: u64,
    pub trace: Vec<String>,
    /// What decisions took, when there is something to measure it with.
    pub effort: Effort,
    queue: BTreeMap<(u64, u64), Happening>,
    next_number: u64,
}

/// Settings with short times, so that a schedule of minutes holds many rollouts.
fn settings() -> PlannerSettings {
    PlannerSettings {
        update: UpdateSettings {
            monitor_secs: 3,
            start_timeout_secs: 40,
            broken_after_secs: 30,
            ..UpdateSettings::default()
        },
        node_down_after_secs: 20,
        rejoin_grace_secs: 4,
        lock_stale_secs: 60,
        protocol_timeout_secs: 15,
        agreement_timeout_secs: 15,
        verification_interval_secs: 0,
        command_timeout_secs: 5,
        backoff_base_secs: 2,
        backoff_max_secs: 20,
        partition_count: 4,
        ..PlannerSettings::default()
    }
}

impl World {
    pub fn new(seed: u64, deliberate: DeliberateFaults) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            seed,
            millis: 0,
            clock_offset_millis: 0,
            edited_at_millis: 0,
            settings: settings(),
            faults: Faults::default(),
            deliberate,
            exchange: Exchange::default(),
            database: Database::default(),
            agbots: Vec::new(),
            agents: BTreeMap::new(),
            mailbox: Vec::new(),
            quality: BTreeMap::new(),
            watchman: Watchman::default(),
            steps: 0,
            trace: Vec::new(),
            effort: Effort::default(),
            queue: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Returns the time of the hub's clock, which may jump.
    pub fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.millis).unwrap_or(i64::MAX);
        let at = EPOCH_MILLIS.saturating_add(millis).saturating_add(self.clock_offset_millis);
        Timestamp::from_millisecond(at).unwrap_or(Timestamp::MAX)
    }

    pub fn note(&mut self, line: String) {
        self.trace.push(format!("{:>9.3}s {line}", self.millis as f64 / 1000.0));
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high)
    }

    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub fn schedule(&mut self, after_millis: u64, happening: Happening) {
        let number = self.number();
        self.queue.insert((self.millis + after_millis, number), happening);
    }

    /// Lets the next thing happen; false when nothing is left.
    pub fn step(&mut self) -> bool {
        let Some(((millis, _), happening)) = self.queue.pop_first() else { return false };
        self.millis = millis;
        self.steps += 1;
        match happening {
            Happening::Poll { agbot, incarnation } => super::agbot::poll(self, agbot, incarnation),
            Happening::Tail { agbot, incarnation } => super::tail::tail(self, agbot, incarnation),
            Happening::Execute { agbot, incarnation, command, mail } => {
                super::agbot::execute(self, agbot, incarnation, *command, mail);
            }
            Happening::DeliverOutbox { agbot, incarnation } => {
                super::agbot::deliver(self, agbot, incarnation);
            }
            Happening::Deliver { node, message } => super::agent::receive(self, &node, message),
            Happening::DeliverToAgbots { message } => {
                let expires_millis = self.millis + MESSAGE_TTL_SECS * 1000;
                let id = self.number();
                self.mailbox.push(Mail { id, message, expires_millis });
            }
            Happening::Agent { node, incarnation, timer } => {
                super::agent::timer(self, &node, incarnation, timer);
            }
            Happening::Chaos => super::chaos::strike(self),
        }
        super::invariants::check(self);
        true
    }

    /// Lets things happen for so long, or until a promise is broken.
    pub fn run_for(&mut self, secs: u64) {
        let end = self.millis + secs * 1000;
        while self.watchman.violation.is_none()
            && self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= end)
        {
            self.step();
        }
        self.millis = self.millis.max(end);
    }

    /// Lets things happen until the condition holds; false when it does not within so long.
    pub fn run_until(&mut self, secs: u64, condition: impl Fn(&Self) -> bool) -> bool {
        let end = self.millis + secs * 1000;
        loop {
            if condition(self) {
                return true;
            }
            let is_over = self.queue.first_key_value().is_none_or(|((at, _), _)| *at > end);
            if is_over || self.watchman.violation.is_some() {
                return false;
            }
            self.step();
        }
    }

    /// Takes the next fault off the queue.
    pub fn stop_chaos(&mut self) {
        self.queue.retain(|_, happening| !matches!(happening, Happening::Chaos));
    }

    /// Sends over the unreliable network: lost, doubled or late, as the faults say.
    fn transmit(&mut self, make: impl Fn() -> Happening, what: &str) {
        if self.chance(self.faults.lost) {
            return self.note(format!("lost: {what}"));
        }
        let copies = if self.chance(self.faults.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let late = self.faults.late_millis;
            let delay =
                if late > 0 && self.chance(0.2) { self.between(0, late) } else { self.between(20, 400) };
            self.schedule(delay, make());
        }
    }

    pub fn send_to_agent(&mut self, node: &NodeId, message: &ToAgent) {
        let what = format!("{} to {node}", message.text());
        self.transmit(|| Happening::Deliver { node: node.clone(), message: message.clone() }, &what);
    }

    pub fn send_to_agbots(&mut self, message: &AgreementMessage) {
        let what = format!("{:?} of {:?} from {}", message.body, message.agreement, message.from);
        self.transmit(|| Happening::DeliverToAgbots { message: message.clone() }, &what);
    }

    /// Returns the members of a node's group that truly run a service now, without the node itself.
    pub fn running_elsewhere(&self, node: &NodeId, keys: &[ServiceKey]) -> Vec<NodeId> {
        let Some(group) = self.exchange.group_of(node) else { return Vec::new() };
        let runs = |member: &&NodeId| {
            *member != node && self.agents.get(*member).is_some_and(|agent| agent.runs_any(keys))
        };
        group.members.iter().filter(runs).cloned().collect()
    }

    /// Returns the truth about which version of a policy a node runs.
    pub fn running_version(&self, node: &NodeId, policy: &PolicyId) -> Option<String> {
        self.agents.get(node)?.running_version(policy)
    }

    pub fn agreement_text(&self, id: &AgreementId) -> String {
        match self.database.agreements.get(id) {
            Some(one) => format!("{:?} ({} on {}, {})", id, one.policy, one.node, one.version),
            None => format!("{id:?}"),
        }
    }

    pub fn into_report(self, seed: u64) -> SimulationReport {
        SimulationReport {
            seed,
            steps: self.steps,
            simulated_secs: self.millis / 1000,
            replaced_count: self.watchman.replaced_count,
            held_count: self.watchman.held_count,
            violation: self.watchman.violation,
            trace: self.trace,
        }
    }
}
