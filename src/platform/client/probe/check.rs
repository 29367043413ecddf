//! One check of a task, by an agent or the hub.
//!
//! Source: orchestration C4.

use std::time::Duration;

use evenkeel_domain::orchestration::health_policy::{Expected, PollUrl};
use evenkeel_wire::exchange::task_health::{TaskCheck, TaskProbe};
use tokio::time::sleep;

use super::ProbeClient;

/// Longest message of a result, in characters.
const LONGEST_MESSAGE: usize = 300;

const HEALTHY: TaskCheck = TaskCheck { healthy: true, message: None, is_broken: false };

/// Returns the time until the next check of a task. After a failed check the next one follows soon, so that a recovery is noticed.
#[must_use]
pub fn pause_after(probe: &TaskProbe, is_healthy: Option<bool>) -> Duration {
    let interval = u64::from(probe.interval_seconds.max(1));
    let retry = u64::from(probe.retry_interval_seconds.max(1));
    Duration::from_secs(if is_healthy == Some(true) { interval } else { interval.min(retry) })
}

impl ProbeClient {
    /// Checks a task on a node: up to the number of attempts of the probe, with its pauses.
    ///
    /// # Errors
    /// The error of the check itself, which proves nothing about the task.
    pub async fn check(
        &self,
        probe: &TaskProbe,
        node_name: &str,
        address: Option<&str>,
    ) -> Result<TaskCheck, String> {
        let url = PollUrl::parse(&probe.url).map_err(|rule| format!("the URL {} {rule}", probe.url))?;
        let expected = Expected::parse(&probe.healthy_response)
            .map_err(|rule| format!("the response {} {rule}", probe.healthy_response))?;
        if url.needs_address() && address.is_none() {
            return Err(format!("the address of {node_name} is not known"));
        }
        let url = url.expand(node_name, address.unwrap_or_default());
        self.allowed(&url)?;
        let pause = Duration::from_secs(u64::from(probe.retry_interval_seconds));
        let timeout = Duration::from_secs(u64::from(probe.timeout_seconds.max(1)));
        let (mut message, mut broken) = (String::new(), None);
        for attempt in 0..=probe.retry_limit {
            if attempt > 0 {
                sleep(pause).await;
            }
            let response = self.get(&url, probe.ssl_verify, timeout).await;
            broken = None;
            match response {
                Ok((_, body)) if expected.is_in(&body) => {
                    return Ok(HEALTHY);
                }
                // The body must not be disclosed to users who may read the health of a service, nor to the author of
                // the URL.
                Ok((status, _)) => {
                    message = format!("{url} responds with status {status}, without {}", expected.as_str());
                }
                Err(error) if error.is_of_request() => broken = Some(format!("{url}: {error}")),
                Err(error) if probe.connection_error_is_unhealthy => message = format!("{url}: {error}"),
                Err(_) => return Ok(HEALTHY),
            }
        }
        let short = |text: String| text.chars().take(LONGEST_MESSAGE).collect();
        match broken {
            Some(error) => Err(short(error)),
            None => Ok(TaskCheck { healthy: false, message: Some(short(message)), is_broken: false }),
        }
    }
}
