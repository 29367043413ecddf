//! The world: time, the queue of scheduled events, the network, and all parts.

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
    invariants::InvariantChecker,
};
use evenkeel_ids::{AgreementId, NodeId, PolicyId, ServiceKey};
use evenkeel_planner_model::{command::Command, event::AgreementMessage};
use evenkeel_planner_record::settings::{PlannerSettings, UpdateSettings};

/// Start of simulated time; any instant will do.
const EPOCH_MILLIS: i64 = 1_800_000_000_000;

/// Lifetime of a message in a mailbox, seconds.
pub(crate) const MESSAGE_TTL_SECS: u64 = 120;

#[derive(Debug)]
pub(crate) enum ScheduledEvent {
    /// An agbot reads all changes.
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
    /// A timer of an agent.
    Agent { node: NodeId, incarnation: u32, timer: AgentTimer },
    /// The next fault.
    Chaos,
}

/// The fault rates of the world; all zero when faults are over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Share of messages lost, and of reads of the log that fail.
    pub lost: f64,
    /// Share of messages duplicated.
    pub doubled: f64,
    /// Longest delay of a late message, milliseconds.
    pub late_millis: u64,
    /// Share of commands after whose transaction the agbot crashes before any other effect.
    pub crash_after_commit: f64,
}

/// The duration of the decisions of all agbots.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    /// Returns a monotonic time; no decision depends on it.
    pub stopwatch: Option<fn() -> Duration>,
    pub spent: Duration,
    pub decisions: u64,
}

impl Effort {
    /// Adds the duration of `work`.
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

/// The behavior of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    /// It starts and runs.
    Good,
    /// It never starts.
    NeverStarts,
    /// It exits after this number of seconds.
    EndsAfter(u64),
    /// It runs, but its check fails.
    FailsCheck,
}

/// A message in the agbots' mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub id: u64,
    pub message: AgreementMessage,
    pub expires_millis: u64,
}

pub(crate) struct World {
    pub rng: ChaCha8Rng,
    /// Seed of all randomness.
    pub seed: u64,
    pub millis: u64,
    pub clock_offset_millis: i64,
    /// Time of the last edit of a policy, a node or a group.
    pub edited_at_millis: u64,
    pub settings: PlannerSettings,
    pub faults: Faults,
    /// The deliberate faults of the agbots.
    pub deliberate: DeliberateFaults,
    pub exchange: Exchange,
    pub database: Database,
    pub agbots: Vec<Agbot>,
    pub agents: BTreeMap<NodeId, Agent>,
    pub mailbox: Vec<Mail>,
    pub quality: BTreeMap<(ServiceKey, String), Quality>,
    pub checker: InvariantChecker,
    /// True if all faults are over.
    pub is_repaired: bool,
    /// True if HA groups have health policies.
    pub has_group_health: bool,
    pub steps: u64,
    pub trace: Vec<String>,
    /// Duration of the decisions, if it is measured.
    pub effort: Effort,
    queue: BTreeMap<(u64, u64), ScheduledEvent>,
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
            is_repaired: false,
            settings: settings(),
            faults: Faults::default(),
            deliberate,
            exchange: Exchange::default(),
            database: Database::default(),
            agbots: Vec::new(),
            agents: BTreeMap::new(),
            mailbox: Vec::new(),
            quality: BTreeMap::new(),
            checker: InvariantChecker::default(),
            has_group_health: false,
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

    pub fn trace_line(&mut self, line: String) {
        self.trace.push(format!("{:>9.3}s {line}", self.millis as f64 / 1000.0));
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability)
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high)
    }

    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub fn schedule(&mut self, after_millis: u64, event: ScheduledEvent) {
        let number = self.number();
        self.queue.insert((self.millis + after_millis, number), event);
    }

    /// Executes the next event; false when none is left.
    pub fn step(&mut self) -> bool {
        let Some(((millis, _), event)) = self.queue.pop_first() else { return false };
        self.millis = millis;
        self.steps += 1;
        match event {
            ScheduledEvent::Poll { agbot, incarnation } => super::agbot::poll(self, agbot, incarnation),
            ScheduledEvent::Tail { agbot, incarnation } => super::tail::tail(self, agbot, incarnation),
            ScheduledEvent::Execute { agbot, incarnation, command, mail } => {
                super::agbot::execute(self, agbot, incarnation, *command, mail);
            }
            ScheduledEvent::DeliverOutbox { agbot, incarnation } => {
                super::agbot::deliver(self, agbot, incarnation);
            }
            ScheduledEvent::Deliver { node, message } => super::agent::receive(self, &node, message),
            ScheduledEvent::DeliverToAgbots { message } => {
                let expires_millis = self.millis + MESSAGE_TTL_SECS * 1000;
                let id = self.number();
                self.mailbox.push(Mail { id, message, expires_millis });
            }
            ScheduledEvent::Agent { node, incarnation, timer } => {
                super::agent::timer(self, &node, incarnation, timer);
            }
            ScheduledEvent::Chaos => super::chaos::strike(self),
        }
        super::invariants::check(self);
        true
    }

    /// Executes events for a duration, or until a violation.
    pub fn run_for(&mut self, secs: u64) {
        let end = self.millis + secs * 1000;
        while self.checker.violation.is_none()
            && self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= end)
        {
            self.step();
        }
        self.millis = self.millis.max(end);
    }

    /// Executes events until the condition holds; false when it does not within the limit.
    pub fn run_until(&mut self, secs: u64, condition: impl Fn(&Self) -> bool) -> bool {
        let end = self.millis + secs * 1000;
        loop {
            if condition(self) {
                return true;
            }
            let is_over = self.queue.first_key_value().is_none_or(|((at, _), _)| *at > end);
            if is_over || self.checker.violation.is_some() {
                return false;
            }
            self.step();
        }
    }

    /// Removes the next fault from the queue.
    pub fn stop_chaos(&mut self) {
        self.queue.retain(|_, event| !matches!(event, ScheduledEvent::Chaos));
    }

    /// Sends over the unreliable network: lost, duplicated or late, according to the fault rates.
    fn transmit(&mut self, make: impl Fn() -> ScheduledEvent, what: &str) {
        if self.chance(self.faults.lost) {
            return self.trace_line(format!("lost: {what}"));
        }
        let sends = if self.chance(self.faults.doubled) { 2 } else { 1 };
        for _ in 0..sends {
            let late = self.faults.late_millis;
            let delay =
                if late > 0 && self.chance(0.2) { self.between(0, late) } else { self.between(20, 400) };
            self.schedule(delay, make());
        }
    }

    pub fn send_to_agent(&mut self, node: &NodeId, message: &ToAgent) {
        let what = format!("{} to {node}", message.text());
        self.transmit(|| ScheduledEvent::Deliver { node: node.clone(), message: message.clone() }, &what);
    }

    pub fn send_to_agbots(&mut self, message: &AgreementMessage) {
        let what = format!("{:?} of {:?} from {}", message.body, message.agreement, message.from);
        self.transmit(|| ScheduledEvent::DeliverToAgbots { message: message.clone() }, &what);
    }

    /// Returns the members of a node's group that actually run a service now, without the node itself.
    pub fn running_elsewhere(&self, node: &NodeId, keys: &[ServiceKey]) -> Vec<NodeId> {
        let Some(group) = self.exchange.group_of(node) else { return Vec::new() };
        let runs = |member: &&NodeId| {
            *member != node && self.agents.get(*member).is_some_and(|agent| agent.runs_any(keys))
        };
        group.members.iter().filter(runs).cloned().collect()
    }

    /// Returns which version of a policy a node actually runs.
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
            replaced_count: self.checker.replaced_count,
            held_count: self.checker.held_count,
            violation: self.checker.violation,
            trace: self.trace,
        }
    }
}
