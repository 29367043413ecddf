//! Reads the statistics of nodes, in bulk and only where nodes are ranked by them.
//!
//! Source: orchestration 1.7, A3.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::ClientError;
use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner::event::Event;
use evenkeel_planner::statistics::NodeStatistics;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::time::wire_time;
use jiff::{SignedDuration, Timestamp};

use super::facts;
use crate::context::Context;

/// Pause between two reads.
const PERIOD: Duration = Duration::from_secs(10);
/// Reads overlap: another exchange may have written what it received a moment earlier a moment later.
const OVERLAP: SignedDuration = SignedDuration::from_secs(10);

/// Reads the statistics that have changed.
pub(crate) struct StatisticsReader {
    context: Arc<Context>,
    /// The newest statistics of each organization, by the clock of the exchange.
    newest: BTreeMap<OrgId, Timestamp>,
}

impl StatisticsReader {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, newest: BTreeMap::new() }
    }
}

impl Worker for StatisticsReader {
    type Error = ClientError;
    const NAME: &'static str = "node_statistics";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), ClientError> {
        let orgs = self.context.model().orgs_ranked_by_statistics();
        self.newest.retain(|org, _| orgs.contains(org));
        for org in orgs {
            let since = self.newest.get(&org).map(|at| at.saturating_sub(OVERLAP).unwrap_or(*at));
            let read = read(&self.context, &org, since).await;
            // Statistics age also while the exchange does not respond.
            let event = read.as_ref().cloned().unwrap_or_default();
            if let Some(newest) = event.values().map(|one| one.at).max() {
                self.newest.insert(org, newest);
            }
            self.context.send_events(vec![Event::StatisticsSeen { of: event }]).await;
            read?;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        PERIOD
    }

    fn first_pause(&self) -> Duration {
        PERIOD
    }
}

type Statistics = BTreeMap<NodeId, NodeStatistics>;

/// Reads the statistics of the nodes of an organization; all, or those since an instant. An exchange without any has none.
async fn read(context: &Context, org: &OrgId, since: Option<Timestamp>) -> Result<Statistics, ClientError> {
    let since = since.map(wire_time);
    let found =
        context.client.list_node_statistics(org.as_str(), since.as_deref()).await?.unwrap_or_default();
    Ok(found.into_iter().filter_map(|(node, found)| Some((node, facts::statistics(&found)?))).collect())
}

/// Reads all statistics of organizations, so that the first decision about a policy that ranks by them knows them.
///
/// # Errors
/// When the exchange does not respond.
pub(crate) async fn all(
    context: &Context,
    orgs: impl IntoIterator<Item = OrgId>,
) -> Result<Vec<Event>, ClientError> {
    let mut events = Vec::new();
    for org in orgs {
        events.push(Event::StatisticsSeen { of: read(context, &org, None).await? });
    }
    Ok(events)
}
