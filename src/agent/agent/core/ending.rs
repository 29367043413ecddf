//! The end of the agent: its last report to the hub, and whether services continue.

use std::time::Duration;

use evenkeel_wire::exchange::node::{AgentState, PatchNode};
use evenkeel_wire::exchange::node_part::PutNodeStatus;
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use tokio::time::timeout;

use super::Core;
use crate::{
    AgentError,
    guardian::{self, Means},
    hub::Hub,
    installed, upgrade, workers,
};

/// Timeout of the last report of an agent before it exits.
const LONGEST_REPORT: Duration = Duration::from_secs(5);

impl Core {
    /// The agent exits; services continue unless the settings stop them.
    pub(super) async fn end(&mut self) -> Result<(), AgentError> {
        installed::record_success(&self.settings.data_dir);
        let mut hub = None;
        if let Some(session) = self.session.take() {
            hub = Some(session.hub.clone());
            // A worker's last call must not follow the report of the stop.
            session.end().await;
        }
        // Another program continues with the services: the one that takes over, or the supervising one.
        let is_continued = self.replacement.is_some() || upgrade::is_watched();
        if let Some(hub) = &hub {
            let state = if is_continued { NodeMonitorState::Upgrade } else { NodeMonitorState::Maintenance };
            report_absence(hub, state).await;
        }
        if self.settings.stops_services && !is_continued {
            let keys: Vec<String> = self.journal.state.running_keys().collect();
            for outcome in futures_util::future::join_all(keys.iter().map(|key| self.driver.stop(key))).await
            {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "a service cannot be stopped");
                }
            }
            if let Some(hub) = hub {
                report_stop(&hub).await;
            }
            guardian::dismiss(&self.settings.data_dir, &self.journal.agent, Means::Processes, Vec::new())
                .await;
        }
        self.file.save(&self.journal)
    }
}

/// Reports to the hub that the agent exits intentionally. It exits even if the hub does not receive the report.
///
/// # Source
/// Orchestration A10.1.
async fn report_absence(hub: &Hub, state: NodeMonitorState) {
    match timeout(LONGEST_REPORT, workers::report_monitor_state(hub, state)).await {
        Ok(Ok(())) => {}
        // A third-party exchange does not know the state; it detects missing heartbeats.
        Ok(Err(error)) if matches!(error.status(), Some(400 | 403..=405)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the stop of the agent was not announced to the hub"),
        Err(_) => tracing::warn!("the stop of the agent was not announced to the hub: it does not respond"),
    }
}

/// Reports to the hub that the agent exits, and that none of its services is running.
async fn report_stop(hub: &Hub) {
    let report = async {
        hub.put_status(&PutNodeStatus::default()).await?;
        let stopped = PatchNode { agent_state: Some(AgentState::Stopped), ..PatchNode::default() };
        hub.exchange.patch_node(&hub.node, &stopped).await
    };
    match timeout(LONGEST_REPORT, report).await {
        Ok(Ok(_)) => {}
        // A third-party exchange does not know the state; it detects missing heartbeats.
        Ok(Err(error)) if error.status() == Some(400) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the stop of the agent was not reported to the hub"),
        Err(_) => tracing::warn!("the stop of the agent was not reported to the hub: it does not respond"),
    }
}
