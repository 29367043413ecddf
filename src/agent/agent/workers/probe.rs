//! Polls the URLs of tasks (orchestration C4). Only changes are reported to the hub.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use evenkeel_client::{ProbeClient, ProbeGuard, ProbeSchedule, pause_after};
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::task_health::TaskCheck;

use super::canceled_if_ended;
use crate::{
    AgentSettings,
    address::Addresses,
    hub::Hub,
    order::{Ended, Handle},
    step::{Event, ProbedTask},
};

/// Interval between two searches for checks that are due.
const ROUND: Duration = Duration::from_secs(1);

/// Polls URLs.
pub(super) struct Probes {
    hub: Arc<Hub>,
    handle: Handle,
    addresses: Arc<Addresses>,
    settings: Arc<AgentSettings>,
    client: Option<ProbeClient>,
    schedule: ProbeSchedule<String>,
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
    pub fn new(
        hub: Arc<Hub>,
        handle: Handle,
        settings: Arc<AgentSettings>,
        addresses: Arc<Addresses>,
    ) -> Self {
        Self { hub, handle, settings, addresses, client: None, schedule: ProbeSchedule::default() }
    }

    async fn probe_due(&mut self) -> Result<(), Ended> {
        let tasks = self.handle.with(|journal| journal.state.probed_tasks()).await?;
        self.schedule.retain(|id| tasks.iter().any(|task| task.task == *id));
        for task in tasks {
            let pause = pause_after(&task.probe, task.is_healthy);
            if let Some(guard) = self.schedule.begin_due(&task.task, Instant::now(), pause) {
                self.start(task, guard);
            }
        }
        Ok(())
    }

    fn start(&mut self, task: ProbedTask, guard: ProbeGuard<String>) {
        let client = match self.client.clone().map_or_else(|| self.settings.probe_client(), Ok) {
            Ok(client) => client,
            Err(error) => {
                // A broken check is not a failure of the service.
                return tracing::warn!(error, "checks cannot be run");
            }
        };
        self.client = Some(client.clone());
        let address = self.addresses.main();
        let name = self.hub.node.name().to_owned();
        let handle = self.handle.clone();
        tokio::spawn(async move {
            let found = client.check(&task.probe, &name, address.as_deref()).await;
            let is_news = match &found {
                Ok(health) => task.is_healthy != Some(health.healthy),
                Err(error) => task.check_error.as_ref() != Some(error),
            };
            if is_news {
                let broken = |error: &String| {
                    tracing::warn!(task.id = task.task, error, "the check of a task is broken");
                };
                let health = found.inspect_err(broken).unwrap_or_else(TaskCheck::broken);
                // A core that has ended does not need the outcome.
                let _ended = handle.apply(Event::Probed { task: task.task.clone(), health }).await;
            }
            drop(guard);
        });
    }
}
