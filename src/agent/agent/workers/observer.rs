//! Reports the driver's observations of all services to the core.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use evenkeel_runtime::worker::Worker;
use tokio::time::sleep;

use super::canceled_if_ended;
use crate::{
    drivers::Driver,
    journal::Journal,
    order::{Ended, Handle},
    step::{Event, Observation},
};

/// Longest interval between observations, in case a driver misses a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Longest pause after a change: the core may record the start that caused the change a moment after the driver saw it.
const SETTLE: Duration = Duration::from_secs(1);
/// Shortest interval between observations, so that a flapping service does not keep the agent busy.
const PAUSE: Duration = Duration::from_millis(50);

/// Observes services.
pub(crate) struct Observer {
    driver: Arc<dyn Driver>,
    handle: Handle,
    seen: BTreeMap<String, Observation>,
    has_changed: bool,
    pause: Duration,
}

impl Observer {
    pub fn new(driver: Arc<dyn Driver>, handle: Handle) -> Self {
        Self { driver, handle, seen: BTreeMap::new(), has_changed: false, pause: CHECK_INTERVAL }
    }

    async fn observe(&mut self) -> Result<(), Ended> {
        let running = |journal: &mut Journal| journal.state.running_keys().collect::<Vec<_>>();
        let keys = self.handle.with(running).await?;
        self.seen.retain(|key, _| keys.contains(key));
        for key in keys {
            let observation = self.driver.observe(&key).await;
            if observation.containers.is_empty() && self.driver.is_gone(&key).await {
                self.handle.apply(Event::Gone { key: key.clone() }).await?;
            }
            if self.seen.get(&key) == Some(&observation) {
                continue;
            }
            self.handle.apply(Event::Observed { key: key.clone(), observation: observation.clone() }).await?;
            self.seen.insert(key, observation);
        }
        Ok(())
    }
}

impl Worker for Observer {
    type Error = Infallible;
    const NAME: &'static str = "service_observer";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        // The next observation follows in either case.
        self.pause = if std::mem::take(&mut self.has_changed) { SETTLE } else { CHECK_INTERVAL };
        let result = self.observe().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    async fn signaled(&mut self) {
        sleep(PAUSE).await;
        self.driver.changed().await;
        self.has_changed = true;
    }
}
