//! The simulated edge agent: holds agreements, runs instances, reports their state.
//!
//! It follows the agent's half of the protocol (agreement protocol 2.5, 2.6) as far as the hub can observe it.

use std::collections::BTreeMap;

use super::{
    agent_tasks::{self, HeldTask},
    task_health,
    world::{Quality, ScheduledEvent, World},
};
use evenkeel_ids::{AgreementId, NodeId, PolicyId, ServiceKey, TaskId};
use evenkeel_planner_model::{
    command::Action,
    event::{AgreementMessage, MessageBody},
};
use evenkeel_planner_record::facts::{NodeStatusFacts, ObservedService};

const HEARTBEAT_MILLIS: u64 = 4_000;
const VERIFY_MILLIS: u64 = 15_000;
const MOST_UNANSWERED: u32 = 5;
const ACKNOWLEDGE_TIMEOUT_MILLIS: u64 = 20_000;
const START_TIMEOUT_MILLIS: u64 = 12_000;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ToAgent {
    Proposal {
        agreement: AgreementId,
        policy: PolicyId,
        service: ServiceKey,
        version: String,
    },
    ReplyAck {
        agreement: AgreementId,
        decision: bool,
    },
    Cancel {
        agreement: AgreementId,
        reason: u32,
    },
    /// Through the exchange: the agent reads its tasks again.
    Task {
        agreement: AgreementId,
        task: TaskId,
    },
    Verification {
        agreement: AgreementId,
    },
    VerificationReply {
        agreement: AgreementId,
        exists: bool,
    },
    PolicyUpdate {
        agreement: AgreementId,
    },
}

impl ToAgent {
    /// Returns the message that a command sends, with its receiver.
    pub fn of(action: &Action) -> Option<(NodeId, Self)> {
        Some(match action {
            Action::Propose { agreement, .. } | Action::RepeatProposal { agreement } => {
                let proposal = Self::Proposal {
                    agreement: agreement.id.clone(),
                    policy: agreement.policy.clone(),
                    service: agreement.service_key.clone(),
                    version: agreement.version.clone(),
                };
                (agreement.node.clone(), proposal)
            }
            Action::AcknowledgeReply { agreement, node, decision, .. } => {
                (node.clone(), Self::ReplyAck { agreement: agreement.clone(), decision: *decision })
            }
            Action::Cancel { agreement, node, reason, notifies_node: true, .. }
            | Action::RepeatCancel { agreement, node, reason } => {
                (node.clone(), Self::Cancel { agreement: agreement.clone(), reason: reason.0 })
            }
            Action::SendVerification { agreement, node } => {
                (node.clone(), Self::Verification { agreement: agreement.clone() })
            }
            Action::SendVerificationReply { agreement, node, exists } => {
                (node.clone(), Self::VerificationReply { agreement: agreement.clone(), exists: *exists })
            }
            Action::SendPolicyUpdate { agreement, node, .. } => {
                (node.clone(), Self::PolicyUpdate { agreement: agreement.clone() })
            }
            _ => return None,
        })
    }

    pub fn agreement(&self) -> &AgreementId {
        match self {
            Self::Proposal { agreement, .. }
            | Self::ReplyAck { agreement, .. }
            | Self::Cancel { agreement, .. }
            | Self::Task { agreement, .. }
            | Self::Verification { agreement }
            | Self::VerificationReply { agreement, .. }
            | Self::PolicyUpdate { agreement } => agreement,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::Proposal { agreement, policy, version, .. } => {
                format!("proposal {agreement:?} {policy} {version}")
            }
            Self::ReplyAck { agreement, decision } => format!("reply-ack {agreement:?} {decision}"),
            Self::Cancel { agreement, reason } => format!("cancel {agreement:?} {reason}"),
            Self::Task { task, .. } => format!("task {}", task.as_str()),
            Self::Verification { agreement } => format!("verification {agreement:?}"),
            Self::VerificationReply { agreement, exists } => {
                format!("verification-reply {agreement:?} {exists}")
            }
            Self::PolicyUpdate { agreement } => format!("policy-update {agreement:?}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum AgentTimer {
    Heartbeat,
    Refused,
    Report,
    ReadTasks,
    Verify,
    AcknowledgeTimeout { agreement: AgreementId },
    Started { agreement: AgreementId },
    StartTimeout { agreement: AgreementId },
    Ended { agreement: AgreementId },
    ReportHealth,
    Check { task: TaskId },
    Command { task: TaskId, command: String },
    Contact,
}

impl AgentTimer {
    /// Returns whether nothing is done about it without contact to the hub.
    fn needs_contact(&self) -> bool {
        matches!(self, Self::Heartbeat | Self::Report | Self::ReadTasks | Self::Verify | Self::Refused)
    }
}

/// The container of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    None,
    Starting,
    Running,
}

/// An agreement as the agent holds it; kept on its disk.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub policy: PolicyId,
    pub service: ServiceKey,
    pub version: String,
    pub is_acknowledged: bool,
    pub container: Container,
    /// True when an agbot outside the simulation made it; that agbot replies to its verifications.
    pub is_foreign: bool,
    /// Verifications sent since the last reply.
    pub unanswered: u32,
}

/// An agent with its machine.
#[derive(Debug)]
pub(crate) struct Agent {
    pub is_up: bool,
    pub incarnation: u32,
    pub start_millis: u64,
    pub held: BTreeMap<AgreementId, Held>,
    pub tasks: BTreeMap<TaskId, HeldTask>,
    pub mail: Vec<ToAgent>,
    /// Until then it runs and has no contact to the hub.
    pub cut_until_millis: u64,
}

impl Agent {
    pub fn new(start_millis: u64) -> Self {
        Self {
            is_up: true,
            incarnation: 0,
            start_millis,
            held: BTreeMap::new(),
            tasks: BTreeMap::new(),
            mail: Vec::new(),
            cut_until_millis: 0,
        }
    }

    pub fn runs_any(&self, keys: &[ServiceKey]) -> bool {
        self.held.values().any(|held| held.container == Container::Running && keys.contains(&held.service))
    }

    pub fn running_version(&self, policy: &PolicyId) -> Option<String> {
        let runs = |held: &&Held| held.container == Container::Running && held.policy == *policy;
        self.held.values().find(runs).map(|held| held.version.clone())
    }
}

/// Sets a timer of an agent; it ends with the agent's process.
pub(crate) fn schedule(world: &mut World, node: &NodeId, after_millis: u64, timer: AgentTimer) {
    if let Some(incarnation) = world.agents.get(node).map(|agent| agent.incarnation) {
        world.schedule(after_millis, ScheduledEvent::Agent { node: node.clone(), incarnation, timer });
    }
}

/// Makes an agent read its tasks again.
pub(crate) fn read_tasks_soon(world: &mut World, node: &NodeId) {
    let delay = world.between(20, 400);
    schedule(world, node, delay, AgentTimer::ReadTasks);
}

fn report_soon(world: &mut World, node: &NodeId) {
    let delay = world.between(100, 1_500);
    schedule(world, node, delay, AgentTimer::Report);
}

/// Starts or restarts an agent: it reads its mail and verifies its agreements.
pub(crate) fn start(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    agent.is_up = true;
    agent.cut_until_millis = 0;
    agent.incarnation += 1;
    // One that was up loses its timers: what was starting starts again.
    for held in agent.held.values_mut().filter(|held| held.container == Container::Starting) {
        held.container = Container::None;
    }
    // A restarted agent verifies its agreements; a new one does not.
    agent.held.values_mut().for_each(|held| held.unanswered = held.unanswered.max(1));
    agent.tasks.values_mut().for_each(|task| task.condition.forget_command());
    world.checker.note_start(world.millis, node);
    agent_tasks::read(world, node);
    agent_tasks::fail_gone(world, node);
    let Some(agent) = world.agents.get_mut(node) else { return };
    let mail = std::mem::take(&mut agent.mail);
    let unacknowledged: Vec<AgreementId> =
        agent.held.iter().filter(|(_, held)| !held.is_acknowledged).map(|(id, _)| id.clone()).collect();
    let starting: Vec<AgreementId> =
        agent.held.iter().filter(|(_, held)| held.is_acknowledged).map(|(id, _)| id.clone()).collect();
    if !world.exchange.nodes.contains_key(node) {
        return refuse(world, node);
    }
    schedule(world, node, 10, AgentTimer::Heartbeat);
    schedule(world, node, 50, AgentTimer::Verify);
    for agreement in unacknowledged {
        schedule(world, node, ACKNOWLEDGE_TIMEOUT_MILLIS, AgentTimer::AcknowledgeTimeout { agreement });
    }
    for message in mail {
        receive(world, node, message);
    }
    for agreement in starting {
        start_container(world, node, &agreement);
    }
    report_soon(world, node);
}

/// The hub refuses an agent whose node was deleted, which notices that after a while.
pub(crate) fn refuse(world: &mut World, node: &NodeId) {
    let delay = world.between(2_000, 9_000);
    schedule(world, node, delay, AgentTimer::Refused);
}

/// Crashes the machine: nothing runs, no heartbeats, the disk is kept.
pub(crate) fn kill_machine(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    agent.is_up = false;
    agent.incarnation += 1;
    let mut lost = Vec::new();
    for held in agent.held.values_mut() {
        if held.container == Container::Running {
            lost.push(held.service.clone());
        }
        held.container = Container::None;
    }
    for service in lost {
        world.checker.note_unplanned(world.millis, node, &service);
    }
    world.trace_line(format!("machine {node} dies"));
}

/// Crashes the agent's process; instances continue.
pub(crate) fn kill_process(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    agent.is_up = false;
    agent.incarnation += 1;
    for held in agent.held.values_mut().filter(|held| held.container == Container::Starting) {
        held.container = Container::None;
    }
    world.trace_line(format!("agent process of {node} dies"));
}

/// Cuts a running agent off from the hub for a while; its instances go on.
pub(crate) fn cut_off(world: &mut World, node: &NodeId) {
    let duration = world.between(3_000, 60_000);
    let until = world.millis + duration;
    let Some(agent) = world.agents.get_mut(node).filter(|agent| agent.is_up) else { return };
    agent.cut_until_millis = until;
    world.trace_line(format!("{node} loses its contact to the hub for {duration} ms"));
    schedule(world, node, duration, AgentTimer::Contact);
}

/// Returns how long an agent has no contact to the hub yet; none while it has.
fn cut_for(world: &World, node: &NodeId) -> Option<u64> {
    let until = world.agents.get(node)?.cut_until_millis;
    until.checked_sub(world.millis).filter(|left| *left > 0)
}

/// Returns whether an agent has contact to the hub.
pub(crate) fn has_contact(world: &World, node: &NodeId) -> bool {
    cut_for(world, node).is_none()
}

/// An agent has contact again: it reads its mail and its tasks, and reports.
pub(crate) fn restore_contact(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node).filter(|agent| agent.is_up) else { return };
    agent.cut_until_millis = 0;
    let mail = std::mem::take(&mut agent.mail);
    world.checker.note_start(world.millis, node);
    world.trace_line(format!("{node} has contact to the hub again"));
    agent_tasks::read(world, node);
    for message in mail {
        receive(world, node, message);
    }
    task_health::report(world, node);
    report_soon(world, node);
}

fn send(world: &mut World, node: &NodeId, agreement: &AgreementId, body: MessageBody) {
    let message = AgreementMessage { from: node.clone(), agreement: agreement.clone(), body };
    match cut_for(world, node) {
        // It is sent again until the hub responds.
        Some(left) => world.schedule(left + 1, ScheduledEvent::DeliverToAgbots { message }),
        None => world.send_to_agbots(&message),
    }
}

/// Handles a message, or keeps it in the mailbox while the agent is down.
pub(crate) fn receive(world: &mut World, node: &NodeId, message: ToAgent) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    if !agent.is_up || world.millis < agent.cut_until_millis {
        agent.mail.push(message);
        return;
    }
    handle(world, node, message);
    agent_tasks::report_states(world, node);
}

fn handle(world: &mut World, node: &NodeId, message: ToAgent) {
    if matches!(message, ToAgent::Proposal { .. } | ToAgent::Task { .. }) {
        agent_tasks::read(world, node);
    }
    let Some(agent) = world.agents.get_mut(node) else { return };
    match message {
        ToAgent::Task { .. } => {}
        ToAgent::Proposal { agreement, policy, service, version } => {
            let has_task = |id: &AgreementId| agent_tasks::task_of(&agent.tasks, id).is_some();
            let is_beside = |id: &AgreementId| has_task(id) && has_task(&agreement);
            let is_taken = agent.held.iter().any(|(id, held)| held.policy == policy && !is_beside(id));
            if agent.held.contains_key(&agreement) || is_taken {
                return world.trace_line(format!("{node} ignores the proposal {agreement:?}"));
            }
            let held = Held {
                policy,
                service,
                version,
                is_acknowledged: false,
                container: Container::None,
                is_foreign: false,
                unanswered: 0,
            };
            agent.held.insert(agreement.clone(), held);
            send(world, node, &agreement, MessageBody::Reply { decision: true });
            let timer = AgentTimer::AcknowledgeTimeout { agreement };
            schedule(world, node, ACKNOWLEDGE_TIMEOUT_MILLIS, timer);
        }
        ToAgent::ReplyAck { agreement, decision: true } => {
            if let Some(held) = agent.held.get_mut(&agreement)
                && !held.is_acknowledged
            {
                held.is_acknowledged = true;
                // Every agreement is verified once, even without a fault.
                held.unanswered = 1;
                start_container(world, node, &agreement);
            }
        }
        ToAgent::ReplyAck { agreement, decision: false }
        | ToAgent::VerificationReply { agreement, exists: false } => {
            end(world, node, &agreement, Some(106), "the agbot does not know it");
        }
        ToAgent::VerificationReply { agreement, exists: true } => {
            if let Some(held) = agent.held.get_mut(&agreement) {
                held.unanswered = 0;
            }
        }
        ToAgent::Cancel { agreement, reason } => {
            end(world, node, &agreement, None, &format!("cancelled, {reason}"));
        }
        ToAgent::Verification { agreement } => {
            let exists = agent.held.contains_key(&agreement);
            send(world, node, &agreement, MessageBody::VerificationReply { exists });
        }
        ToAgent::PolicyUpdate { agreement } => {
            let accepted = agent.held.contains_key(&agreement);
            let update_type = "basicagreementtupdatepolicychange".to_owned();
            send(world, node, &agreement, MessageBody::UpdateReply { update_type, accepted });
        }
    }
}

/// Creates an agreement with an agbot outside the simulation, whose instance runs at once.
#[cfg(test)]
pub(crate) fn agree_with_another_agbot(world: &mut World, node: &NodeId, policy: &PolicyId, version: &str) {
    let Some(service) = world.exchange.policies.get(policy).map(|facts| facts.service.clone()) else {
        return;
    };
    let Some(agent) = world.agents.get_mut(node) else { return };
    let held = Held {
        policy: policy.clone(),
        service,
        version: version.to_owned(),
        is_acknowledged: true,
        container: Container::Running,
        is_foreign: true,
        unanswered: 0,
    };
    agent.held.insert(AgreementId::from_text(&format!("foreign-{node}")), held);
    report_soon(world, node);
}

/// Starts the container of an agreement, unless it runs or its task is not to run.
pub(crate) fn start_container(world: &mut World, node: &NodeId, agreement: &AgreementId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    if !agent_tasks::may_run(agent, agreement) {
        return;
    }
    let start_millis = agent.start_millis;
    let Some(held) = agent.held.get_mut(agreement).filter(|held| held.container == Container::None) else {
        return;
    };
    held.container = Container::Starting;
    let key = (held.service.clone(), held.version.clone());
    let timer = match world.quality.get(&key).copied().unwrap_or(Quality::Good) {
        Quality::NeverStarts => AgentTimer::StartTimeout { agreement: agreement.clone() },
        Quality::Good | Quality::EndsAfter(_) | Quality::FailsCheck => {
            AgentTimer::Started { agreement: agreement.clone() }
        }
    };
    let jitter = world.between(0, 1_000);
    let is_timeout = matches!(timer, AgentTimer::StartTimeout { .. });
    schedule(world, node, if is_timeout { START_TIMEOUT_MILLIS } else { start_millis + jitter }, timer);
    report_soon(world, node);
}

/// Ends an agreement on the node; with a reason the node itself ended it and notifies the agbot.
pub(crate) fn end(world: &mut World, node: &NodeId, agreement: &AgreementId, reason: Option<u32>, why: &str) {
    let Some(held) = world.agents.get_mut(node).and_then(|agent| agent.held.remove(agreement)) else {
        return;
    };
    agent_tasks::note_end(world, node, agreement, reason);
    world.trace_line(format!("{node} ends {agreement:?} {} {}: {why}", held.policy, held.version));
    if held.container == Container::Running {
        super::invariants::instance_stopped(world, node, agreement, &held, reason.is_none());
    }
    if let Some(reason) = reason {
        send(world, node, agreement, MessageBody::Cancel { reason });
    }
    report_soon(world, node);
}

/// Handles a timer of the agent.
pub(crate) fn timer(world: &mut World, node: &NodeId, incarnation: u32, timer: AgentTimer) {
    let (now, left) = (world.now(), cut_for(world, node));
    let Some(agent) = world.agents.get_mut(node).filter(|agent| agent.incarnation == incarnation) else {
        return;
    };
    if let Some(left) = left.filter(|_| timer.needs_contact()) {
        return schedule(world, node, left + 10, timer);
    }
    match timer {
        AgentTimer::Contact => restore_contact(world, node),
        AgentTimer::Heartbeat => {
            world.exchange.put_heartbeat(node, now);
            world.checker.note_heard(node, world.millis);
            let jitter = world.between(0, 500);
            schedule(world, node, HEARTBEAT_MILLIS + jitter, AgentTimer::Heartbeat);
        }
        AgentTimer::Refused => super::chaos::leave(world, node),
        AgentTimer::Report => report(world, node),
        AgentTimer::ReadTasks => agent_tasks::read(world, node),
        AgentTimer::Verify => verify(world, node),
        AgentTimer::AcknowledgeTimeout { agreement } => {
            if agent.held.get(&agreement).is_some_and(|held| !held.is_acknowledged) {
                end(world, node, &agreement, Some(107), "never acknowledged");
            }
        }
        AgentTimer::Started { agreement } => started(world, node, &agreement),
        AgentTimer::StartTimeout { agreement } => end(world, node, &agreement, Some(104), "did not start"),
        AgentTimer::Ended { agreement } => {
            end(world, node, &agreement, Some(103), "the service ended by itself");
        }
        AgentTimer::ReportHealth => task_health::report(world, node),
        AgentTimer::Check { task } => task_health::check(world, node, &task),
        AgentTimer::Command { task, command } => task_health::carry_out(world, node, &task, &command),
    }
    agent_tasks::report_states(world, node);
}

/// Reports the node's agreements and instances.
pub(crate) fn report(world: &mut World, node: &NodeId) {
    let now = world.now();
    let Some(agent) = world.agents.get(node) else { return };
    let services = agent.held.iter().filter(|(_, held)| held.is_acknowledged).map(|(id, held)| {
        let is_running = held.container == Container::Running;
        let (service, version) = (held.service.clone(), held.version.clone());
        ObservedService { agreement: Some(id.clone()), service, version, is_running }
    });
    let status = NodeStatusFacts {
        services: services.collect(),
        reported_at: Some(now),
        ..NodeStatusFacts::default()
    };
    world.exchange.put_status(node, status);
}

/// Repeats verifications without a reply, and gives the agreement up after several.
fn verify(world: &mut World, node: &NodeId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let (mut repeated, mut given_up) = (Vec::new(), Vec::new());
    for (id, held) in agent.held.iter_mut().filter(|(_, held)| held.unanswered > 0 && !held.is_foreign) {
        held.unanswered += 1;
        if held.unanswered > MOST_UNANSWERED { &mut given_up } else { &mut repeated }.push(id.clone());
    }
    for agreement in given_up {
        end(world, node, &agreement, Some(122), "verification failed repeatedly");
    }
    for agreement in repeated {
        send(world, node, &agreement, MessageBody::Verification);
    }
    schedule(world, node, VERIFY_MILLIS, AgentTimer::Verify);
}

fn started(world: &mut World, node: &NodeId, agreement: &AgreementId) {
    let Some(agent) = world.agents.get_mut(node) else { return };
    let Some(held) = agent.held.get_mut(agreement).filter(|held| held.container == Container::Starting)
    else {
        return;
    };
    held.container = Container::Running;
    let (policy, key) = (held.policy.clone(), (held.service.clone(), held.version.clone()));
    world.trace_line(format!("{node} runs {policy} {} ({agreement:?})", key.1));
    if let Some(Quality::EndsAfter(secs)) = world.quality.get(&key).copied() {
        schedule(world, node, secs * 1000, AgentTimer::Ended { agreement: agreement.clone() });
    }
    report_soon(world, node);
}
