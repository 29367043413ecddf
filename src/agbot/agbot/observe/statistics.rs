//! Reads the statistics and container engines of nodes, in bulk and only where something depends on them.
//!
//! Source: orchestration 1.7, A3, C3.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::ClientError;
use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::statistics::{NodeMachine, NodeStatistics};
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
        let orgs = self.context.model().orgs_with_read_machines();
        self.newest.retain(|org, _| orgs.contains(org));
        let mut outcome = Ok(());
        for org in orgs {
            let since = self.newest.get(&org).map(|at| at.saturating_sub(OVERLAP).unwrap_or(*at));
            let read = read(&self.context, &org, since).await;
            if read.is_err() {
                // Nothing new is known of the engines, which is not a failure of them.
                self.context.broken_checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            // Statistics age also while the exchange does not respond.
            let found = read.as_ref().map_or_else(|_| Machines::default(), Clone::clone);
            if let Some(newest) = found.newest {
                self.newest.insert(org, newest);
            }
            self.context.send_events(found.events()).await;
            outcome = outcome.and(read.map(|_| ()));
        }
        outcome
    }

    fn pause(&self) -> Duration {
        PERIOD
    }

    fn first_pause(&self) -> Duration {
        PERIOD
    }
}

/// Statistics and machine facts read from the exchange.
#[derive(Debug, Clone, Default)]
struct Machines {
    statistics: BTreeMap<NodeId, NodeStatistics>,
    machines: BTreeMap<NodeId, NodeMachine>,
    newest: Option<Timestamp>,
}

impl Machines {
    fn events(self) -> Vec<Event> {
        let machines = (!self.machines.is_empty()).then_some(Event::MachinesSeen { of: self.machines });
        [Event::StatisticsSeen { of: self.statistics }].into_iter().chain(machines).collect()
    }
}

/// Reads the machines of the nodes of an organization; all, or what was received since an instant. An exchange without any has none.
async fn read(context: &Context, org: &OrgId, since: Option<Timestamp>) -> Result<Machines, ClientError> {
    let since = since.map(wire_time);
    let found =
        context.client.list_node_statistics(org.as_str(), since.as_deref()).await?.unwrap_or_default();
    let mut read = Machines::default();
    for (node, found) in found {
        let (statistics, machine) = (facts::statistics(&found.statistics), facts::machine(&found));
        let at = [statistics.map(|one| one.at), machine.engine.map(|engine| engine.at)];
        read.newest = at.into_iter().flatten().max().max(read.newest);
        read.statistics.extend(statistics.map(|one| (node.clone(), one)));
        if machine != NodeMachine::default() {
            read.machines.insert(node, machine);
        }
    }
    Ok(read)
}

/// Reads all statistics and engines of organizations, so that the first decision about a policy that depends on them knows them.
///
/// # Errors
/// When the exchange does not respond.
pub(crate) async fn all(
    context: &Context,
    orgs: impl IntoIterator<Item = OrgId>,
) -> Result<Vec<Event>, ClientError> {
    let mut events = Vec::new();
    for org in orgs {
        events.extend(read(context, &org, None).await?.events());
    }
    Ok(events)
}
