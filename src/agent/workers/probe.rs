//! Polls the URLs of tasks (orchestration C4). Only changes are reported to the hub.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use evenkeel_client::{AddressRule, ProbeClient, pause_after};
use evenkeel_runtime::worker::Worker;
use tokio::time::Instant;

use super::canceled_if_ended;
use crate::{
    AgentSettings,
    hub::Hub,
    machine::Machine,
    order::{Ended, Handle},
    step::{Event, ProbedTask},
};

/// Interval between two looks for checks that are due.
const ROUND: Duration = Duration::from_secs(1);

/// Polls URLs.
pub(super) struct Probes {
    hub: Arc<Hub>,
    handle: Handle,
    machine: Arc<Machine>,
    settings: Arc<AgentSettings>,
    client: Option<ProbeClient>,
    due: BTreeMap<String, Instant>,
    /// Checks that began, and after whose end the next one is planned: its outcome tells when.
    begun: BTreeSet<String>,
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
    pub fn new(hub: Arc<Hub>, handle: Handle, settings: Arc<AgentSettings>, machine: Arc<Machine>) -> Self {
        let (due, begun) = (BTreeMap::new(), BTreeSet::new());
        Self { hub, handle, settings, machine, client: None, due, begun, in_flight: Arc::default() }
    }

    async fn probe_due(&mut self) -> Result<(), Ended> {
        let tasks = self.handle.with(|journal| journal.state.probed_tasks()).await?;
        self.due.retain(|id, _| tasks.iter().any(|task| task.task == *id));
        self.begun.retain(|id| tasks.iter().any(|task| task.task == *id));
        for task in tasks {
            let now = Instant::now();
            let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            if in_flight.contains(&task.task) {
                continue;
            }
            if self.begun.remove(&task.task) {
                self.due.insert(task.task.clone(), now + pause_after(&task.probe, task.is_healthy));
            }
            if self.due.get(&task.task).is_some_and(|due| *due > now) {
                continue;
            }
            in_flight.insert(task.task.clone());
            drop(in_flight);
            self.begun.insert(task.task.clone());
            self.start(task);
        }
        Ok(())
    }

    fn start(&mut self, task: ProbedTask) {
        let made = || ProbeClient::new(AddressRule::Any, self.settings.checks_ca_file.as_deref());
        let client = match self.client.clone().map_or_else(made, Ok) {
            Ok(client) => client,
            Err(error) => {
                // A broken checker is no failure of the service.
                self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&task.task);
                return tracing::warn!(error, "checks cannot be made");
            }
        };
        self.client = Some(client.clone());
        let address = self.machine.addresses.first().cloned();
        let name = self.hub.node.name().to_owned();
        let (handle, in_flight) = (self.handle.clone(), self.in_flight.clone());
        tokio::spawn(async move {
            match client.check(&task.probe, &name, address.as_deref()).await {
                Ok(health) if task.is_healthy != Some(health.healthy) => {
                    // A core that has ended does not need the outcome.
                    let _ended = handle.apply(Event::Probed { task: task.task.clone(), health }).await;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(task.id = task.task, error, "the check of a task is broken"),
            }
            in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&task.task);
        });
    }
}
