//! Reports the driver's observations of all services to the core.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    drivers::Driver,
    journal::Journal,
    order::Handle,
    step::{Event, Observation},
};

/// Longest interval between observations, in case a driver misses a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Longest pause after a change: the core may record the start that caused the change a moment after the driver saw it.
const SETTLE: Duration = Duration::from_secs(1);
/// Shortest interval between observations, so that a flapping service does not keep the agent busy.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until the core ends.
pub(crate) async fn observe(driver: Arc<dyn Driver>, handle: Handle) {
    let mut seen: BTreeMap<String, Observation> = BTreeMap::new();
    let mut longest_pause = CHECK_INTERVAL;
    let running = |journal: &mut Journal| journal.state.running_keys().collect::<Vec<_>>();
    while let Ok(keys) = handle.with(running).await {
        seen.retain(|key, _| keys.contains(key));
        for key in keys {
            let observation = driver.observe(&key).await;
            if seen.get(&key) == Some(&observation) {
                continue;
            }
            let event = Event::Observed { key: key.clone(), observation: observation.clone() };
            if handle.apply(event).await.is_err() {
                return;
            }
            seen.insert(key, observation);
        }
        tokio::time::sleep(PAUSE).await;
        // The next observation follows in either case.
        let has_changed = timeout(longest_pause, driver.changed()).await.is_ok();
        longest_pause = if has_changed { SETTLE } else { CHECK_INTERVAL };
    }
}
