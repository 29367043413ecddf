//! Health checks by the hub itself: it polls URLs and calls workflows.
//!
//! The planner selects the tasks ([`HubTask`]); findings are returned to it as events, and only when they
//! have changed. Source: orchestration C4.2, C6.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_client::{AddressRule, ProbeClient, ProbeGuard, ProbeSchedule, pause_after};
use evenkeel_ids::{GroupId, PolicyId, TaskId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::{HubTask, Model};
use evenkeel_planner_record::workload::{EndedCommand, HubReport, WorkflowCall};
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::task_health::TaskProbe;
use futures_util::stream::{self, StreamExt};
use rand::Rng;

use crate::context::Context;
use crate::outbox::task_probe;

/// Interval between two searches for what is due.
const ROUND: Duration = Duration::from_secs(1);
/// Longest wait for the response of a workflow, regardless of the policy.
const LONGEST_CALL: Duration = Duration::from_secs(300);
/// Checks that an order of a user makes side by side.
const MOST_AT_ONCE: usize = 16;
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
    check_error: Option<String>,
}

impl DueCheck {
    fn new(task: &HubTask<'_>, probe: TaskProbe) -> Self {
        Self {
            task: task.id.clone(),
            probe,
            node_name: task.node.name().to_owned(),
            address: task.address.map(str::to_owned),
            is_healthy: task.is_healthy,
            check_error: task.check_error.map(str::to_owned),
        }
    }

    /// Runs the check. Returns whether the task is healthy, and the event if that is a change.
    ///
    /// # Errors
    /// The error of the check itself, which proves nothing about the task.
    pub async fn make(&self, client: &ProbeClient) -> Result<(bool, Option<Event>), String> {
        let found = client.check(&self.probe, &self.node_name, self.address.as_deref()).await?;
        let is_news = self.is_healthy != Some(found.healthy) || self.check_error.is_some();
        let event = is_news.then(|| Event::HubReported {
            task: self.task.clone(),
            report: HubReport::Checked { healthy: found.healthy, message: found.message },
        });
        Ok((found.healthy, event))
    }

    /// Returns the event that the check is broken, if something else was known.
    fn broken(&self, error: &str) -> Option<Event> {
        let is_news = self.check_error.as_deref() != Some(error);
        is_news.then(|| Event::HubReported {
            task: self.task.clone(),
            report: HubReport::Broken { error: error.to_owned() },
        })
    }
}

/// A call that is due.
#[derive(Debug)]
pub struct DueCall {
    task: TaskId,
    id: String,
    call: WorkflowCall,
}

/// When which task is checked next, and which calls are being made.
#[derive(Debug, Default)]
pub struct CheckSchedule {
    probes: ProbeSchedule<TaskId>,
    calls: Arc<Mutex<BTreeSet<String>>>,
}

impl CheckSchedule {
    /// Takes what is due and not being done: checks, each with what ends it when it is dropped, and calls.
    pub fn take_due(
        &mut self,
        model: &Model,
        now: Instant,
    ) -> (Vec<(DueCheck, ProbeGuard<TaskId>)>, Vec<DueCall>) {
        let (mut checks, mut calls, mut checked) = (Vec::new(), Vec::new(), BTreeSet::new());
        for task in model.hub_tasks() {
            if let Some((id, call)) = task.call
                && lock(&self.calls).insert(id.to_owned())
            {
                calls.push(DueCall { task: task.id.clone(), id: id.to_owned(), call: call.clone() });
            }
            let Some(probe) = task.probe else { continue };
            checked.insert(task.id);
            let check = DueCheck::new(&task, task_probe(probe));
            // Checks that began together drift apart.
            let share = rand::rng().random_range(0.9..1.0);
            let pause = pause_after(&check.probe, check.is_healthy).mul_f64(share);
            checks.extend(self.probes.begin_due(task.id, now, pause).map(|guard| (check, guard)));
        }
        self.probes.retain(|id| checked.contains(id));
        (checks, calls)
    }
}

/// Runs the checks and calls of the hub.
pub(crate) struct HubChecks {
    context: Arc<Context>,
    client: Option<ProbeClient>,
    schedule: CheckSchedule,
    /// Orders of users whose checks have begun.
    ordered: BTreeSet<String>,
}

impl Worker for HubChecks {
    type Error = Infallible;
    const NAME: &'static str = "health_checks";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        self.start_due();
        self.start_ordered();
        Ok(())
    }

    fn pause(&self) -> Duration {
        ROUND
    }
}

impl HubChecks {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, client: None, schedule: CheckSchedule::default(), ordered: BTreeSet::new() }
    }

    /// Begins the checks of HA groups that users have ordered, perhaps from another agbot.
    fn start_ordered(&mut self) {
        let ordered: Vec<(String, GroupId)> = {
            let model = self.context.model();
            model.ordered_group_checks().map(|(id, group)| (id.to_owned(), group.clone())).collect()
        };
        for (_, group) in ordered.iter().filter(|(id, _)| !self.ordered.contains(id)) {
            let (context, group) = (self.context.clone(), group.clone());
            tokio::spawn(async move { context.check_members_now(&group).await });
        }
        self.ordered = ordered.into_iter().map(|(id, _)| id).collect();
    }

    fn start_due(&mut self) {
        let (checks, calls) = self.schedule.take_due(&self.context.model(), Instant::now());
        if checks.is_empty() && calls.is_empty() {
            return;
        }
        let client = match self.client.take().map_or_else(|| probe_client(&self.context), Ok) {
            Ok(client) => self.client.insert(client).clone(),
            Err(error) => return tracing::error!(error, "the hub can make neither checks nor calls"),
        };
        for (check, guard) in checks {
            tokio::spawn(make_check(self.context.clone(), client.clone(), check, guard));
        }
        for call in calls {
            let calls = self.schedule.calls.clone();
            tokio::spawn(make_call(self.context.clone(), client.clone(), call, calls));
        }
    }
}

impl Context {
    /// Runs the hub's checks of the members of an HA group now, and waits until the results are in the model.
    pub async fn check_members_now(&self, group: &GroupId) {
        let due = {
            let model = self.model();
            let is_member = |task: &HubTask<'_>| {
                model.group(group).is_some_and(|group| group.members.contains(task.node))
            };
            due_checks(model.hub_tasks().filter(is_member))
        };
        check_now(self, due).await;
    }

    /// Runs the hub's checks of the instances of a deployment policy now, also those that other agbots make, and waits until the results
    /// are in the model.
    pub async fn check_instances_now(&self, policy: &PolicyId) {
        let due = {
            let model = self.model();
            let is_of_policy =
                |task: &HubTask<'_>| model.task(task.id).is_some_and(|task| task.unit_id.policy == *policy);
            due_checks(model.polled_tasks().filter(is_of_policy))
        };
        check_now(self, due).await;
    }
}

fn due_checks<'m>(tasks: impl Iterator<Item = HubTask<'m>>) -> Vec<DueCheck> {
    tasks.filter_map(|task| Some(DueCheck::new(&task, task_probe(task.probe?)))).collect()
}

/// Runs checks now, and waits for the results: the last ones may be out of date.
async fn check_now(context: &Context, due: Vec<DueCheck>) {
    if due.is_empty() {
        return;
    }
    let client = match probe_client(context) {
        Ok(client) => client,
        Err(error) => return tracing::error!(error, "the hub can make no checks"),
    };
    let results = stream::iter(due).map(|check| {
        let client = client.clone();
        async move { news_of(context, &client, &check).await }
    });
    let events: Vec<Option<Event>> = results.buffer_unordered(MOST_AT_ONCE).collect().await;
    context.apply_events(events.into_iter().flatten().collect()).await;
}

fn probe_client(context: &Context) -> Result<ProbeClient, String> {
    let rule = AddressRule::public(context.settings.checks_addresses.clone());
    ProbeClient::new(rule, context.settings.checks_ca_file.as_deref())
}

/// Runs a check, and reports changes.
async fn make_check(context: Arc<Context>, client: ProbeClient, check: DueCheck, guard: ProbeGuard<TaskId>) {
    let event = news_of(&context, &client, &check).await;
    context.apply_events(event.into_iter().collect()).await;
    drop(guard);
}

/// Runs a check and returns its changes. A broken check is counted, and proves nothing about the task.
async fn news_of(context: &Context, client: &ProbeClient, check: &DueCheck) -> Option<Event> {
    match check.make(client).await {
        Ok((_, event)) => event,
        Err(error) => {
            context.broken_checks.fetch_add(1, Ordering::Relaxed);
            let event = check.broken(&error)?;
            tracing::warn!(task.id = check.task.as_str(), error, "the check of a task is broken");
            Some(event)
        }
    }
}

/// Calls a workflow, and reports the outcome.
async fn make_call(
    context: Arc<Context>,
    client: ProbeClient,
    due: DueCall,
    calls: Arc<Mutex<BTreeSet<String>>>,
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
    lock(&calls).remove(&id);
}

/// The data of a poisoned lock is consistent: every change is a single insertion or removal.
fn lock(calls: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
