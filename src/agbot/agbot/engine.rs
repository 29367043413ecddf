//! The engine: the one task that changes the model and requests decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_planner::decide::decide;
use evenkeel_planner_model::command::{Command, Decision, MessageFate};
use evenkeel_planner_model::event::{Event, Outcome};
use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::act;
use crate::context::{Context, EngineHandle, Input};

/// Maximum number of commands in flight.
const MAX_COMMANDS_IN_FLIGHT: usize = 24;
/// From this many events on, one full reconcile is cheaper than one decision for each.
const BULK: usize = 64;
/// Longest time between two ticks.
const TICK: Duration = Duration::from_secs(1);

/// Runs until shutdown.
pub(crate) async fn run(
    context: Arc<Context>,
    mut inputs: mpsc::Receiver<Input>,
    shutdown: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(MAX_COMMANDS_IN_FLIGHT));
    loop {
        let input = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            input = inputs.recv() => input,
            () = tokio::time::sleep(until_next_tick(&context)) => Some(Input::Events(vec![Event::Tick])),
        };
        let Some(input) = input else { return };
        let mut waiting = VecDeque::from([input]);
        while let Ok(more) = inputs.try_recv() {
            waiting.push_back(more);
            if waiting.len() >= BULK {
                break;
            }
        }
        for input in waiting {
            take(&context, input, &slots);
        }
        tokio::task::yield_now().await;
    }
}

fn until_next_tick(engine: &EngineHandle) -> Duration {
    let now = engine.now();
    let due = {
        let model = engine.model();
        [model.next_watch_at(), model.next_health_check_at()].into_iter().flatten().min()
    };
    due.map_or(TICK, |due| Duration::try_from(due.duration_since(now)).unwrap_or(Duration::from_millis(10)))
        .clamp(Duration::from_millis(10), TICK)
}

fn take(context: &Arc<Context>, input: Input, slots: &Arc<Semaphore>) {
    let now = context.now();
    match input {
        Input::Message(event, fate_sender) => {
            let decision = reconcile(context, &event, now);
            let (own, others) = decision.commands.split_at(decision.message_commands);
            start(context, others, slots);
            let fate = decision.message.unwrap_or(MessageFate::Leave);
            tokio::spawn(settle(context.clone(), own.to_vec(), fate, (slots.clone(), fate_sender)));
        }
        Input::Marker(sender) => {
            // The reader has given up.
            let _ = sender.send(());
        }
        Input::Events(events) if events.len() < BULK => {
            for event in &events {
                let decision = reconcile(context, event, now);
                start(context, &decision.commands, slots);
            }
        }
        Input::Events(events) => {
            context.model_mut().apply_all(&events, now);
            note_partitions(context, &events);
            events.iter().for_each(|event| context.forget_placements(event));
            let decision = decide_about(context, &Event::FullReconcile, now);
            start(context, &decision.commands, slots);
        }
    }
}

/// Applies one event and decides.
fn reconcile(context: &Context, event: &Event, now: Timestamp) -> Decision {
    context.model_mut().apply(event, now);
    decide_about(context, event, now)
}

/// Decides after an event that was applied.
fn decide_about(context: &Context, event: &Event, now: Timestamp) -> Decision {
    // Only this task changes the model: others may read what is decided about while a long decision is made.
    let begun = Instant::now();
    let mut decision = decide(&context.model(), event, now, rand::random());
    context.decision_times.observe(begun.elapsed());
    context.model_mut().note(&decision, now);
    note_partitions(context, std::slice::from_ref(event));
    request_unknown_records(context, event);
    for event in &decision.report.events {
        tracing::info!(kind = event.kind, "{}", event.text);
    }
    context.forget_placements(event);
    context.keep_placements(std::mem::take(&mut decision.report.pairs));
    decision
}

/// Retries messages and effects that were left to another agbot, because they may be this agbot's now.
fn note_partitions(context: &Context, events: &[Event]) {
    if events.iter().any(|event| matches!(event, Event::PartitionsChanged { .. })) {
        context.outbox.wake();
        context.mailbox.retry.notify_one();
    }
}

/// Requests the records of agreements that the model does not know: nothing can be decided about them.
fn request_unknown_records(context: &Context, event: &Event) {
    if !context.reading.is_loaded() {
        return;
    }
    let model = context.model();
    let unknown = match event {
        Event::FullReconcile => model.unknown_agreements().cloned().collect(),
        Event::NodeStatusChanged { node, .. } | Event::NodeAgreementsRead { node, .. } => {
            model.unknown_agreements_of(node).cloned().collect()
        }
        Event::Message { message } if model.agreement(&message.agreement).is_none() => {
            vec![message.agreement.clone()]
        }
        _ => Vec::new(),
    };
    context.reading.lookup.want(unknown);
}

fn start(context: &Arc<Context>, commands: &[Command], slots: &Arc<Semaphore>) {
    for command in commands {
        tokio::spawn(carry_out(context.clone(), command.clone(), slots.clone()));
    }
}

/// Carries out the commands that a message led to and sends its fate to the mailbox: it is done when all of them are.
async fn settle(
    context: Arc<Context>,
    commands: Vec<Command>,
    fate: MessageFate,
    (slots, fate_sender): (Arc<Semaphore>, oneshot::Sender<MessageFate>),
) {
    let outcomes = commands.into_iter().map(|command| carry_out(context.clone(), command, slots.clone()));
    let are_done = join_all(outcomes).await.into_iter().all(|is_done| is_done);
    // The mailbox has ended with the process when it no longer listens.
    let _ = fate_sender.send(if are_done { fate } else { MessageFate::Leave });
}

/// Carries out one command; returns whether it succeeded.
async fn carry_out(context: Arc<Context>, command: Command, slots: Arc<Semaphore>) -> bool {
    // The semaphore is never closed.
    let permit = slots.acquire_owned().await;
    let running = context.outbox.begin_command();
    let outcome = act::carry_out(&context, &command).await;
    drop(permit);
    let is_done = matches!(outcome, Outcome::Done | Outcome::ClaimTaken { .. } | Outcome::PlanApplied { .. });
    context.send_events(vec![Event::CommandOutcome { command: Box::new(command), outcome }]).await;
    // Ended here, because the reply to a message must not reach the engine before the outcome of the command that sent it.
    drop(running);
    is_done
}
