//! The agbot's effects: observes the exchange, feeds the planner, carries out its commands.
//!
//! One loop: observe → decide → act → observe again. `evenkeel_planner` decides; nothing here chooses. The exchange is
//! reached only through its REST API. See the design, section 4. The agbot's own API is a crate of its own, `agbot-api`, which uses the
//! handles of [`Context`].

pub mod records;
pub mod settings;

mod act;
mod backlog;
mod blocked_groups;
mod blocked_upgrades;
mod checks;
mod claim_batch;
mod context;
mod engine;
mod error;
mod health;
mod inert;
mod lease;
mod lease_check;
mod mailbox;
mod observe;
mod outbox;
mod purge;
mod serve;
mod snapshot;

pub use act::{BlocklistAuthor, clear_blocklist};
pub use backlog::Backlog;
pub use blocked_upgrades::{BlockedMember, GroupUpgrades};
pub use checks::{CheckSchedule, DueCall, DueCheck};
pub use claim_batch::{AgentUpgradeRequest, ClaimBatches, ClaimEnd};
pub use context::{Context, EngineHandle};
pub use error::AgbotError;
pub use inert::{InertPolicy, PolicyKind};
pub use observe::{SHARED_ORG, ServedEntries, WrittenPolicy};
pub use serve::ServingAgbot;
pub use settings::{AgbotSettings, NewOrgs, OtherAgbotsRule};
pub use snapshot::{Counts, Snapshot};

/// Events about approvals of plans.
pub mod approvals {
    pub use crate::observe::approvals::{ApprovalStep, approval_event};
}

/// Documents of the exchange as the facts that the planner decides by.
pub mod facts {
    pub use crate::observe::facts::{deployment_policy, ha_group, instant, node, node_policy};
}

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_client::Client;
use evenkeel_metrics::Histogram;
use evenkeel_runtime::worker::Workers;
use evenkeel_store::Database;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use blocked_groups::BlockedGroups;
use checks::HubChecks;
use lease::LeaseKeeper;
use mailbox::Mailbox;
use observe::ExchangeObserver;
use observe::approvals::ApprovalExpiry;
use observe::condition::ConditionRecorder;
use observe::log::LogTail;
use observe::lookup::RecordReader;
use observe::statistics::StatisticsReader;
use observe::status::{AwaitedPoller, HeartbeatReader, StatusPoller};
use outbox::Deliverer;
use purge::{AcknowledgementPurge, HistoryPurge, LogPurge};
use serve::OrganizationServer;

/// A running agbot.
#[derive(Clone)]
pub struct Agbot {
    context: Arc<Context>,
    workers: Workers,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Agbot {
    /// Starts an agbot: publishes its key, reads what it serves, and works on the partitions it leases.
    ///
    /// `client` carries the agbot's credentials; `database` is migrated. Returns as soon as the workers run.
    ///
    /// # Errors
    /// When the messaging key cannot be read or created.
    pub fn start(
        settings: AgbotSettings,
        client: Client,
        database: Database,
        shutdown: CancellationToken,
    ) -> Result<Agbot, AgbotError> {
        let tasks = TaskTracker::new();
        let (context, inputs) = Context::new(settings, client, database)?;
        let context = Arc::new(context);
        let workers = Workers::default();
        let serve_new = |first_change| {
            let server = OrganizationServer::new(context.clone(), first_change);
            tasks.spawn(workers.run(server, shutdown.clone()));
        };
        match context.settings.new_orgs {
            NewOrgs::Ignore => {}
            NewOrgs::Serve => serve_new(None),
            NewOrgs::ServeFrom(change) => serve_new(Some(change)),
        }
        tasks.spawn(engine::run(context.clone(), inputs, shutdown.clone()));
        tasks.spawn(workers.run(LeaseKeeper::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(ExchangeObserver(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(ApprovalExpiry(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(AwaitedPoller::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(StatusPoller(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(HeartbeatReader(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(StatisticsReader::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(LogTail::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(RecordReader::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(BlockedGroups(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(ConditionRecorder::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(Mailbox::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(Deliverer::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(HubChecks::new(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(HistoryPurge(context.clone()), shutdown.clone()));
        tasks.spawn(workers.run(LogPurge(context.clone()), shutdown.clone()));
        Ok(Agbot { context, workers, tasks, shutdown })
    }

    /// Removes acknowledgements of problems that are gone, from now on and until the agbot stops.
    ///
    /// # Shape
    /// `problems`: returns the ids of the problems of an organization, or none while some of them may be unknown.
    pub fn purge_acknowledgements(&self, problems: fn(&Context, &str) -> Option<BTreeSet<String>>) {
        let purge = AcknowledgementPurge { context: self.context.clone(), problems };
        self.tasks.spawn(self.workers.run(purge, self.shutdown.clone()));
    }

    /// Returns the handles that the agbot's workers share.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the periodic workers, with how their passes went.
    #[must_use]
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Returns the backlog of node messages.
    #[must_use]
    pub fn mailbox_backlog(&self) -> Backlog {
        self.context.mailbox.backlog().at(self.context.now())
    }

    /// Returns the backlog of committed effects that are not delivered yet, of all agbots of the database.
    #[must_use]
    pub fn outbox_backlog(&self) -> Backlog {
        self.context.outbox.counted().at(self.context.now())
    }

    /// Returns a snapshot of the agbot's counts. It iterates over all nodes and agreements.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.context)
    }

    /// Returns the durations of the planner's decisions.
    #[must_use]
    pub fn decision_times(&self) -> &Histogram {
        &self.context.decision_times
    }

    /// Waits until all workers have ended; call after the shutdown token was canceled.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
