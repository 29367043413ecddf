//! The workers that communicate with the hub while the node is registered, and the one that observes services.

mod engine;
mod feed;
mod mailbox;
mod management;
mod node_record;
mod observer;
mod package;
mod peers;
mod presence;
mod probe;
mod statistics;
mod tasks;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use evenkeel_client::ClientError;
use evenkeel_runtime::worker::Workers;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use engine::EngineWatch;
pub(crate) use observer::Observer;
pub(crate) use presence::report as report_monitor_state;

use crate::{
    AgentSettings,
    address::Addresses,
    contact::Contact,
    drivers::Driver,
    hub::Hub,
    machine::Machine,
    order::{Ended, Handle, Order},
    upgrade,
};

/// Period of workers that are activated by signals; a pass without a signal does nothing.
const SIGNAL_ONLY: Duration = Duration::from_secs(3600);

/// Pause after a failed call of the feed or of the node's record; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reason why a pass could not be completed.
#[derive(Debug, thiserror::Error)]
enum PassError {
    /// A call to the hub failed.
    #[error(transparent)]
    Hub(#[from] ClientError),
    /// The core has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Waits forever after the end of the core, which is about to cancel its workers.
async fn canceled_if_ended(result: Result<(), Ended>) {
    if result.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Reports a failed call.
async fn failed(contact: &Contact, handle: &Handle, error: &ClientError) -> Result<(), Ended> {
    contact.failed(error);
    if error.is_unauthorized() {
        handle.order(Order::Refused).await?;
    }
    if error.is_superseded() {
        handle.order(Order::Superseded(error.to_string())).await?;
    }
    Ok(())
}

/// Adds jitter, because all agents of a fleet lose the hub at the same moment.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

/// The signals of the feed worker.
#[derive(Default)]
pub(crate) struct Signals {
    /// Messages may wait.
    pub mail: Notify,
    /// The node's record may have changed.
    pub node: Notify,
    /// Management policies or their statuses may have changed.
    pub management: Notify,
    /// Tasks may have changed.
    pub tasks: Notify,
    /// The hub may have forgotten the statistics.
    pub statistics: Notify,
    /// The activity of the agent may have changed.
    pub presence: Notify,
    /// True if the record of the node in the exchange is up to date.
    pub is_joined: AtomicBool,
}

/// Running workers; dropping it ends them.
pub(crate) struct Session {
    /// The hub.
    pub hub: Arc<Hub>,
    signals: Arc<Signals>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Session {
    /// Reports the monitor state if it has changed.
    pub fn announce(&self) {
        self.signals.presence.notify_one();
    }

    /// Sends a heartbeat at once with the state of the guardian.
    pub fn report_guardian(&self) {
        self.signals.statistics.notify_one();
    }

    /// Ends the workers. The returned future waits for their last call.
    pub fn end(self) -> impl Future<Output = ()> + Send + use<> {
        let tasks = self.tasks.clone();
        async move { tasks.wait().await }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the workers of a registered node.
pub(crate) fn begin(
    driver: Arc<dyn Driver>,
    hub: Arc<Hub>,
    handle: Handle,
    settings: Arc<AgentSettings>,
    machine: Arc<Machine>,
    pattern: String,
) -> Session {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let signals = Arc::new(Signals::default());
    let arch = machine.arch;
    let addresses = Arc::new(Addresses::of(&settings));
    let contact = |call| Contact::new(call, settings.hub_root(), hub.node.to_string());
    let reader = Arc::new(tasks::TaskReader::new(hub.clone(), handle.clone()));
    let feed = feed::ChangeFeed::new(feed::Parts {
        contact: contact("change feed"),
        hub: hub.clone(),
        handle: handle.clone(),
        settings: settings.clone(),
        signals: signals.clone(),
        reader: reader.clone(),
    });
    let tasks_of_node = tasks::Tasks::new(contact("tasks"), reader.clone(), handle.clone(), signals.clone());
    let record = node_record::NodeRecord::new(node_record::Parts {
        contact: contact("node record"),
        hub: hub.clone(),
        handle: handle.clone(),
        settings: settings.clone(),
        machine: machine.clone(),
        pattern,
        signals: signals.clone(),
    });
    let statistics = statistics::Statistics::new(statistics::Parts {
        contact: contact("heartbeat"),
        hub: hub.clone(),
        handle: handle.clone(),
        signals: signals.clone(),
        reader: reader.clone(),
        driver,
        addresses: addresses.clone(),
    });
    let presence = presence::Presence::new(
        contact("monitor state"),
        hub.clone(),
        handle.clone(),
        signals.clone(),
        reader.clone(),
    );
    let mailbox =
        mailbox::Mailbox::new(hub.clone(), handle.clone(), settings.clone(), signals.clone(), reader);
    let workers = Workers::default();
    tasks.spawn(workers.run(feed, stop.clone()));
    tasks.spawn(workers.run(record, stop.clone()));
    tasks.spawn(workers.run(mailbox, stop.clone()));
    let probes = probe::Probes::new(hub.clone(), handle.clone(), settings.clone(), addresses);
    tasks.spawn(workers.run(peers::Peers::new(handle.clone(), settings.clone()), stop.clone()));
    tasks.spawn(workers.run(tasks_of_node, stop.clone()));
    tasks.spawn(workers.run(probes, stop.clone()));
    tasks.spawn(workers.run(statistics, stop.clone()));
    tasks.spawn(workers.run(presence, stop.clone()));
    // Upgrades are left to the supervising program.
    if !upgrade::is_watched() {
        let management = management::Management::new(hub.clone(), handle, settings, signals.clone(), arch);
        tasks.spawn(workers.run(management, stop.clone()));
    }
    tasks.close();
    Session { hub, signals, stop, tasks }
}
