//! Polls the URLs of tasks (orchestration C4). Only changes are reported to the hub.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use evenkeel_client::ProbeClient;
use evenkeel_domain::orchestration::health_policy::{Expected, PollUrl};
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::task_health::{PutTaskHealth, TaskProbe};
use tokio::time::{Instant, sleep};

use super::canceled_if_ended;
use crate::{
    hub::Hub,
    machine::Machine,
    order::{Ended, Handle},
    step::{Event, ProbedTask},
};

/// Interval between two looks for checks that are due.
const ROUND: Duration = Duration::from_secs(1);
/// Longest message of a report, in characters.
const LONGEST_MESSAGE: usize = 300;

/// Polls URLs.
pub(super) struct Probes {
    hub: Arc<Hub>,
    handle: Handle,
    machine: Arc<Machine>,
    client: Option<ProbeClient>,
    due: BTreeMap<String, Instant>,
    in_flight: Arc<Mutex<BTreeSet<String>>>,
}

impl Worker for Probes {
    type Error = Infallible;
    const NAME: &'static str = "probes";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.probe_due().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        ROUND
    }
}

impl Probes {
    pub fn new(hub: Arc<Hub>, handle: Handle, machine: Arc<Machine>) -> Self {
        Self { hub, handle, machine, client: None, due: BTreeMap::new(), in_flight: Arc::default() }
    }

    async fn probe_due(&mut self) -> Result<(), Ended> {
        let tasks = self.handle.with(|journal| journal.state.probed_tasks()).await?;
        self.due.retain(|id, _| tasks.iter().any(|task| task.task == *id));
        for task in tasks {
            let now = Instant::now();
            let is_due = self.due.get(&task.task).is_none_or(|due| *due <= now);
            let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_due || in_flight.contains(&task.task) {
                continue;
            }
            in_flight.insert(task.task.clone());
            drop(in_flight);
            self.due.insert(task.task.clone(), now + pause_of(&task));
            self.start(task);
        }
        Ok(())
    }

    fn start(&mut self, task: ProbedTask) {
        let client = match self.client.clone().map_or_else(ProbeClient::new, Ok) {
            Ok(client) => client,
            Err(error) => {
                // A broken checker is no failure of the service.
                tracing::warn!(error, "checks cannot be made");
                return;
            }
        };
        self.client = Some(client.clone());
        let address = self.machine.addresses.first().cloned().unwrap_or_default();
        let name = self.hub.node.name().to_owned();
        let (handle, in_flight) = (self.handle.clone(), self.in_flight.clone());
        tokio::spawn(async move {
            let health = check(&client, &task.probe, &name, &address).await;
            let is_change = health.as_ref().is_some_and(|health| task.is_healthy != Some(health.healthy));
            if let Some(health) = health.filter(|_| is_change) {
                // A core that has ended does not need the outcome.
                let _ended = handle.apply(Event::Probed { task: task.task.clone(), health }).await;
            }
            in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&task.task);
        });
    }
}

/// Returns the time until the next check. After a failed one the next is soon, so that a recovery is seen.
fn pause_of(task: &ProbedTask) -> Duration {
    let interval = u64::from(task.probe.interval_seconds.max(1));
    let retry = u64::from(task.probe.retry_interval_seconds.max(1));
    Duration::from_secs(if task.is_healthy == Some(true) { interval } else { interval.min(retry) })
}

/// Checks a task; none when the check itself is broken.
async fn check(client: &ProbeClient, probe: &TaskProbe, node: &str, address: &str) -> Option<PutTaskHealth> {
    let (Ok(url), Ok(expected)) = (PollUrl::parse(&probe.url), Expected::parse(&probe.healthy_response))
    else {
        tracing::warn!(url = probe.url, "the check of a task cannot be read");
        return None;
    };
    let url = url.expand(node, address);
    let pause = Duration::from_secs(u64::from(probe.retry_interval_seconds));
    let timeout = pause.mul_f64(0.1).max(Duration::from_secs(1));
    let mut message = String::new();
    for attempt in 0..=probe.retry_limit {
        if attempt > 0 {
            sleep(pause).await;
        }
        match client.get(&url, probe.ssl_verify, timeout).await {
            Ok(body) if expected.is_in(&body) => return Some(PutTaskHealth { healthy: true, message: None }),
            Ok(body) => {
                let start: String = body.trim().chars().take(100).collect();
                message = format!("{url} answers \"{start}\", without {}", expected.as_str());
            }
            Err(error) if probe.connection_error_is_unhealthy => message = format!("{url}: {error}"),
            Err(_) => return Some(PutTaskHealth { healthy: true, message: None }),
        }
    }
    let message = message.chars().take(LONGEST_MESSAGE).collect();
    Some(PutTaskHealth { healthy: false, message: Some(message) })
}
