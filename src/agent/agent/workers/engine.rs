//! Monitors whether the container engine responds, so that the reason is visible when nothing can be started.

use std::{convert::Infallible, sync::Arc, time::Duration};

use evenkeel_runtime::worker::Worker;

use super::canceled_if_ended;
use crate::{
    DriverKind,
    drivers::Driver,
    order::{Ended, Handle},
    step::Event,
};

/// Interval between two checks.
const INTERVAL: Duration = Duration::from_secs(10);

/// Watches the container engine.
pub(crate) struct EngineWatch {
    driver: Arc<dyn Driver>,
    handle: Handle,
    /// Description of the problem if the engine does not respond.
    lack: &'static str,
    was_up: Option<bool>,
}

impl EngineWatch {
    pub fn new(kind: DriverKind, driver: Arc<dyn Driver>, handle: Handle) -> Self {
        let lack = match kind {
            DriverKind::Docker => {
                "the container engine does not respond: start it, or name its address with --docker-endpoint"
            }
            DriverKind::Process => "the directory of the process driver no longer exists: restart the agent",
        };
        Self { driver, handle, lack, was_up: None }
    }

    async fn check(&mut self) -> Result<(), Ended> {
        let is_up = self.driver.is_engine_up().await;
        if self.was_up == Some(is_up) {
            return Ok(());
        }
        if !is_up {
            tracing::error!(reason = self.lack, "no service can be started");
        } else if self.was_up.is_some() {
            tracing::info!("services can be started again");
        }
        self.handle.apply(Event::EngineSeen { lack: (!is_up).then_some(self.lack) }).await?;
        self.was_up = Some(is_up);
        Ok(())
    }
}

impl Worker for EngineWatch {
    type Error = Infallible;
    const NAME: &'static str = "engine_watch";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.check().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        INTERVAL
    }

    fn first_pause(&self) -> Duration {
        Duration::ZERO
    }
}
