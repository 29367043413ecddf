//! The workers that communicate with the hub while the node is registered, and the one that observes services.

mod feed;
mod mailbox;
mod management;
mod observer;
mod package;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use observer::observe;

use crate::{AgentSettings, contact::Contact, hub::Hub, machine::Machine, order::Handle, upgrade};

/// The signals of the feed worker.
#[derive(Default)]
pub(crate) struct Signals {
    /// Messages may wait.
    pub mail: Notify,
    /// The node's record may have changed.
    pub node: Notify,
    /// Management policies or their statuses may have changed.
    pub management: Notify,
}

/// Running workers; dropping it ends them.
pub(crate) struct Session {
    /// The hub.
    pub hub: Arc<Hub>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Session {
    /// Ends the workers. What the returned future waits for is their last call.
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
    hub: Arc<Hub>,
    handle: Handle,
    settings: Arc<AgentSettings>,
    machine: Arc<Machine>,
    pattern: String,
) -> Session {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let signals = Arc::new(Signals::default());
    let machine_arch = machine.arch;
    let contact = |call| Contact::new(call, settings.hub_root(), format!("{}/{}", hub.org, hub.id));
    let feed = feed::Feed {
        polls: contact("change feed"),
        reads: contact("node record"),
        hub: hub.clone(),
        handle: handle.clone(),
        settings: settings.clone(),
        machine,
        pattern,
        signals: signals.clone(),
    };
    let mailbox = mailbox::Mailbox::new(hub.clone(), handle.clone(), settings.clone(), signals.clone());
    let arch = machine_arch;
    let management = management::Management { hub: hub.clone(), handle, settings, signals, arch };
    tasks.spawn(stop.clone().run_until_cancelled_owned(feed.run()));
    tasks.spawn(stop.clone().run_until_cancelled_owned(mailbox.run()));
    // Upgrades are left to the supervising program.
    if !upgrade::is_watched() {
        tasks.spawn(stop.clone().run_until_cancelled_owned(management.run()));
    }
    tasks.close();
    Session { hub, stop, tasks }
}
