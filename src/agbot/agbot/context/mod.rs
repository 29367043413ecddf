//! What the parts of an agbot share, as handles: a part takes those that it needs.

mod engine;
mod keys;
mod lookup;
mod mailbox;
mod outbox;
mod reading;
mod record_log;
mod unread;

use std::ops::Deref;
use std::sync::atomic::AtomicU64;

use evenkeel_client::Client;
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_store::Database;
use tokio::sync::mpsc;
use uuid::Uuid;

pub use engine::EngineHandle;
pub(crate) use engine::Input;
pub(crate) use keys::Keys;
pub(crate) use mailbox::MailboxState;
pub(crate) use outbox::Outbox;
pub(crate) use reading::Reading;

use crate::AgbotError;
use crate::claim_batch::ClaimBatches;
use crate::settings::AgbotSettings;

/// The handles of an agbot.
pub struct Context {
    /// Settings.
    pub settings: AgbotSettings,
    /// The exchange, with the agbot's credentials.
    pub client: Client,
    /// The agbot's own records.
    pub database: Database,
    /// Identity of this process among the agbots of the database.
    pub instance: Uuid,
    /// The engine, with the model.
    pub engine: EngineHandle,
    /// Grants and releases claims.
    pub claims: ClaimBatches,
    /// The keys of messages.
    pub keys: Keys,
    /// The mailbox.
    pub mailbox: MailboxState,
    /// What was read so far.
    pub reading: Reading,
    /// Effects to be delivered to the exchange.
    pub(crate) outbox: Outbox,
    /// Checks of health that were broken themselves.
    pub(crate) broken_checks: AtomicU64,
}

impl Deref for Context {
    type Target = EngineHandle;

    fn deref(&self) -> &EngineHandle {
        &self.engine
    }
}

impl Context {
    /// Reads or creates the messaging key and builds the handles.
    ///
    /// # Errors
    /// When the key cannot be read, created or stored.
    pub fn new(
        settings: AgbotSettings,
        client: Client,
        database: Database,
    ) -> Result<(Context, mpsc::Receiver<Input>), AgbotError> {
        let lease_secs = settings.lease_time.as_secs().max(1);
        let (engine, inputs) = EngineHandle::new(PlannerSettings { lease_secs, ..settings.planner.clone() });
        let instance = Uuid::new_v4();
        let context = Context {
            keys: Keys::load(&settings.key_file)?,
            claims: ClaimBatches::new(database.clone(), settings.planner.clone(), instance),
            client,
            database,
            instance,
            engine,
            mailbox: MailboxState::default(),
            reading: Reading::default(),
            outbox: Outbox::default(),
            broken_checks: AtomicU64::new(0),
            settings,
        };
        Ok((context, inputs))
    }

    /// Returns the agbot's id, `org/id`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.settings.org, self.settings.id)
    }

    /// Returns the name of this process in the health registry. Agbots on one database may have one id.
    #[must_use]
    pub fn engine_name(&self) -> String {
        format!("{}/{}", self.name(), self.instance)
    }
}
