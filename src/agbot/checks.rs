//! What the hub itself does for the health of tasks: it polls URLs and calls workflows.
//!
//! The planner says for which tasks ([`HubTask`]); what is found goes back to it as events, and only when it has changed. Source:
//! orchestration C4.2, C6.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_client::{AddressRule, ProbeClient, pause_after};
use evenkeel_ids::TaskId;
use evenkeel_planner::event::Event;
use evenkeel_planner::model::{HubTask, Model};
use evenkeel_planner::workload::{EndedCommand, HubReport, WorkflowCall};
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::task_health::TaskProbe;
use rand::Rng;

use crate::context::Context;
use crate::outbox::task_probe;

/// Interval between two searches for what is due.
const ROUND: Duration = Duration::from_secs(1);
/// Longest wait for the response of a workflow, whatever a policy says.
const LONGEST_CALL: Duration = Duration::from_secs(300);
/// Pause before a call is made again whose outcome the planner did not take.
const CALL_PAUSE: Duration = Duration::from_secs(10);

/// A check that is due.
#[derive(Debug)]
pub struct DueCheck {
    task: TaskId,
    probe: TaskProbe,
    node_name: String,
    address: Option<String>,
    is_healthy: Option<bool>,
}

impl DueCheck {
    fn new(task: &HubTask<'_>, probe: TaskProbe) -> Self {
        Self {
            task: task.id.clone(),
            probe,
            node_name: task.node.name().to_owned(),
            address: task.address.map(str::to_owned),
            is_healthy: task.is_healthy,
        }
    }

    /// Makes the check. Returns whether the task is healthy, and the event of that if something else was known.
    ///
    /// # Errors
    /// Why the check itself is broken, which says nothing about the task.
    pub async fn make(&self, client: &ProbeClient) -> Result<(bool, Option<Event>), String> {
        let found = client.check(&self.probe, &self.node_name, self.address.as_deref()).await?;
        let is_news = self.is_healthy != Some(found.healthy);
        let event = is_news.then(|| Event::HubReported {
            task: self.task.clone(),
            report: HubReport::Checked { healthy: found.healthy, message: found.message },
        });
        Ok((found.healthy, event))
    }
}

/// A call that is due.
#[derive(Debug)]
pub struct DueCall {
    task: TaskId,
    id: String,
    call: WorkflowCall,
}

/// What is being done.
#[derive(Debug, Default)]
struct InFlight {
    checks: BTreeSet<TaskId>,
    calls: BTreeSet<String>,
}

/// When which task is checked next, and what is being done. Clones share what is being done.
#[derive(Debug, Default)]
pub struct CheckSchedule {
    due: BTreeMap<TaskId, Instant>,
    /// Checks that began, and after whose end the next one is planned.
    begun: BTreeSet<TaskId>,
    in_flight: Arc<Mutex<InFlight>>,
}

impl CheckSchedule {
    /// Takes what is due and not being done, and plans the next checks. The pause begins with the end of a check: its outcome tells how long
    /// it is.
    pub fn take_due(&mut self, model: &Model, now: Instant) -> (Vec<DueCheck>, Vec<DueCall>) {
        let mut in_flight = lock(&self.in_flight);
        let (mut checks, mut calls, mut next) = (Vec::new(), Vec::new(), BTreeMap::new());
        for task in model.hub_tasks() {
            if let Some((id, call)) = task.call
                && in_flight.calls.insert(id.to_owned())
            {
                calls.push(DueCall { task: task.id.clone(), id: id.to_owned(), call: call.clone() });
            }
            let Some(probe) = task.probe else { continue };
            let known = self.due.remove_entry(task.id);
            if in_flight.checks.contains(task.id) {
                next.extend(known);
                continue;
            }
            let check = DueCheck::new(&task, task_probe(probe));
            if self.begun.remove(task.id) {
                // Checks that began together drift apart.
                let pause =
                    pause_after(&check.probe, check.is_healthy).mul_f64(rand::rng().random_range(0.9..1.0));
                next.insert(task.id.clone(), now + pause);
                continue;
            }
            if known.as_ref().is_some_and(|(_, at)| *at > now) {
                next.extend(known);
                continue;
            }
            next.insert(task.id.clone(), now);
            in_flight.checks.insert(task.id.clone());
            self.begun.insert(task.id.clone());
            checks.push(check);
        }
        drop(in_flight);
        self.begun.retain(|id| next.contains_key(id));
        // What is not examined any more is forgotten.
        self.due = next;
        (checks, calls)
    }

    /// Returns what ends a check that was taken.
    #[must_use]
    pub fn ending(&self, check: &DueCheck) -> CheckEnding {
        CheckEnding { in_flight: self.in_flight.clone(), task: check.task.clone() }
    }
}

/// Ends a check when it is dropped: the task may be checked again.
#[derive(Debug)]
pub struct CheckEnding {
    in_flight: Arc<Mutex<InFlight>>,
    task: TaskId,
}

impl Drop for CheckEnding {
    fn drop(&mut self) {
        lock(&self.in_flight).checks.remove(&self.task);
    }
}

/// Makes the checks and calls of the hub.
pub(crate) struct HubChecks {
    context: Arc<Context>,
    client: Option<ProbeClient>,
    schedule: CheckSchedule,
}

impl Worker for HubChecks {
    type Error = Infallible;
    const NAME: &'static str = "health_checks";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        self.start_due();
        Ok(())
    }

    fn pause(&self) -> Duration {
        ROUND
    }
}

impl HubChecks {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, client: None, schedule: CheckSchedule::default() }
    }

    fn start_due(&mut self) {
        let (checks, calls) = self.schedule.take_due(&self.context.model(), Instant::now());
        if checks.is_empty() && calls.is_empty() {
            return;
        }
        let rule =
            if self.context.settings.checks_local { AddressRule::Any } else { AddressRule::OtherMachines };
        let ca_file = self.context.settings.checks_ca_file.as_deref();
        let client = match self.client.take().map_or_else(|| ProbeClient::new(rule, ca_file), Ok) {
            Ok(client) => self.client.insert(client).clone(),
            Err(error) => return tracing::error!(error, "the hub can make neither checks nor calls"),
        };
        for check in checks {
            let ending = self.schedule.ending(&check);
            tokio::spawn(make_check(self.context.clone(), client.clone(), check, ending));
        }
        for call in calls {
            let in_flight = self.schedule.in_flight.clone();
            tokio::spawn(make_call(self.context.clone(), client.clone(), call, in_flight));
        }
    }
}

/// Makes a check, and reports news. A broken check is counted, and says nothing about the task.
async fn make_check(context: Arc<Context>, client: ProbeClient, check: DueCheck, ending: CheckEnding) {
    match check.make(&client).await {
        Ok((_, event)) => {
            context.apply_events(event.into_iter().collect()).await;
        }
        Err(error) => {
            context.broken_checks.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(task.id = check.task.as_str(), error, "the check of a task is broken");
        }
    }
    drop(ending);
}

/// Calls a workflow, and reports the outcome.
async fn make_call(
    context: Arc<Context>,
    client: ProbeClient,
    due: DueCall,
    in_flight: Arc<Mutex<InFlight>>,
) {
    let DueCall { task, id, call } = due;
    let timeout = Duration::from_secs(call.timeout_secs).min(LONGEST_CALL);
    let outcome = client.post(&call.url, &id, &call.body, timeout).await;
    if let Err(error) = &outcome {
        tracing::info!(task.id = task.as_str(), command.id = id, error, "the call of a workflow failed");
    }
    let message = outcome.err();
    let ended = EndedCommand { id: id.clone(), is_ok: message.is_none(), message };
    context.apply_events(vec![Event::HubReported { task, report: HubReport::Ended(ended) }]).await;
    // The event may have been for a model without the task: without a pause the call would be made again at once.
    tokio::time::sleep(CALL_PAUSE).await;
    lock(&in_flight).calls.remove(&id);
}

/// The data of a poisoned lock is consistent: every change is a single insertion or removal.
fn lock(in_flight: &Mutex<InFlight>) -> MutexGuard<'_, InFlight> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}
