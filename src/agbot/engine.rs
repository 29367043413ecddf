//! The engine: the one task that changes the replica and asks for decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_planner::command::{Command, Decision, MessageFate};
use evenkeel_planner::decide::decide;
use evenkeel_planner::event::Event;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::act;
use crate::context::{Context, Input};

/// Commands carried out at once.
const HANDS: usize = 24;
/// From so many events on, one look at everything is cheaper than one look for each.
const BULK: usize = 64;
/// Longest time without a look at the clock.
const TICK: Duration = Duration::from_secs(1);

/// Runs until shutdown.
pub(crate) async fn run(
    context: Arc<Context>,
    mut inputs: mpsc::Receiver<Input>,
    shutdown: CancellationToken,
) {
    let hands = Arc::new(Semaphore::new(HANDS));
    loop {
        let input = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            input = inputs.recv() => input,
            () = tokio::time::sleep(until_next_look(&context)) => Some(Input::Events(vec![Event::Tick])),
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
            take(&context, input, &hands);
        }
        tokio::task::yield_now().await;
    }
}

fn until_next_look(context: &Context) -> Duration {
    let now = context.now();
    let due = context.model().next_watch_at();
    due.map_or(TICK, |due| Duration::try_from(due.duration_since(now)).unwrap_or(Duration::from_millis(10)))
        .clamp(Duration::from_millis(10), TICK)
}

fn take(context: &Arc<Context>, input: Input, hands: &Arc<Semaphore>) {
    let now = context.now();
    match input {
        Input::Message(event, answer) => {
            let fate = look(context, &event, now, hands).unwrap_or(MessageFate::Leave);
            // The mailbox may have given up waiting; the message then comes again.
            let _ = answer.send(fate);
        }
        Input::Events(events) if events.len() < BULK => {
            for event in &events {
                look(context, event, now, hands);
            }
        }
        Input::Events(events) => {
            {
                let mut model = context.model_mut();
                events.iter().for_each(|event| model.apply(event, now));
            }
            look(context, &Event::FullReconcile, now, hands);
        }
    }
}

/// Applies one event, decides, and sets the commands to work.
fn look(
    context: &Arc<Context>,
    event: &Event,
    now: Timestamp,
    hands: &Arc<Semaphore>,
) -> Option<MessageFate> {
    let Decision { commands, message, report, .. } = {
        let mut model = context.model_mut();
        model.apply(event, now);
        let decision = decide(&model, event, now, rand::random());
        model.note(&decision, now);
        decision
    };
    for told in &report.events {
        tracing::info!(kind = told.kind, "{}", told.text);
    }
    context.keep_placements(report.pairs);
    for command in commands {
        tokio::spawn(carry_out(context.clone(), command, hands.clone()));
    }
    message
}

async fn carry_out(context: Arc<Context>, command: Command, hands: Arc<Semaphore>) {
    // The semaphore is never closed.
    let _permit = hands.acquire_owned().await;
    let outcome = act::carry_out(&context, &command).await;
    context.tell(vec![Event::CommandOutcome { command: Box::new(command), outcome }]).await;
}
