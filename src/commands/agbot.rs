//! `evenkeel agbot`, and the agbot inside `up`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel_agbot::{Agbot, AgbotError, AgbotSettings, NewOrgs, OtherAgbotsRule, ServingAgbot};
use evenkeel_agbot_api::{AgbotApi, LoginGuard};
use evenkeel_agbot_store::offered;
use evenkeel_client::{
    AllowedAddresses, Client, ClientError, Credentials, HttpSettings, Transport, is_plain_off_loopback,
};
use evenkeel_exchange::Exchange;
use evenkeel_http_server::limit::{FailedLoginReporter, FailedLogins};
use evenkeel_runtime::files::{DataDirectory, random_secret};
use evenkeel_runtime::process::{block_on, raise_file_limit};
use evenkeel_runtime::{ExitStatus, Failure, Secret};
use evenkeel_store::Database;
use evenkeel_wire::agreement::PrivateKey;
use evenkeel_wire::exchange::agbot::PutAgbot;
use tokio_util::sync::CancellationToken;

use super::hub::connect;
use super::limits::{ClientOptions, HttpOptions, used};
use super::serve::{ListenerOptions, ServerSetup, lifecycle, listen};
use super::settings::{
    AgbotOptions, ConfigArguments, DatabaseSettings, ListenSettings, LogSettings, secret_of_setting,
};
use super::shared_secret::agree;
use super::tls::TlsOptions;

/// Organization and id of the agbot inside `up`.
const HUB_AGBOT: (&str, &str) = ("IBM", "evenkeel");
/// Tokens of this form hold 256 random bits, so that checking them is cheap.
const GENERATED: &str = "ek1.";
/// File of the messaging key in the data directory, and the length of the key.
const KEY_FILE: &str = "agbot-key.pem";
const KEY_BITS: usize = 2_048;
const BASE: &str = "/v1";
const TASK_LIMIT: Duration = Duration::from_secs(7);

/// Options of `agbot`.
#[derive(Debug, Args)]
pub struct AgbotArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Address of the exchange, such as https://hub.example:8443
    #[arg(long, env = "EVENKEEL_HUB")]
    hub: String,
    /// File with the only certificate authorities to trust, PEM
    #[arg(long, env = "EVENKEEL_HUB_CA_FILE")]
    hub_ca_file: Option<PathBuf>,
    /// Organization of the agbot
    #[arg(long, env = "EVENKEEL_ORG", default_value = "IBM")]
    org: String,
    /// Id of the agbot; instances that share the work share it
    #[arg(long, env = "EVENKEEL_AGBOT_ID")]
    id: String,
    /// File with the agbot's token
    #[arg(long, env = "EVENKEEL_TOKEN_FILE")]
    token_file: PathBuf,
    /// File with the messaging key; instances that share the work share it; created if missing
    #[arg(long, env = "EVENKEEL_KEY_FILE")]
    key_file: PathBuf,
    /// Serve every organization that comes to be
    #[arg(long, env = "EVENKEEL_SERVE_NEW_ORGS")]
    serve_new_orgs: bool,
    #[command(flatten)]
    listen: ListenSettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    agbot: AgbotOptions,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    clients: ClientOptions,
    #[command(flatten)]
    log: LogSettings,
}

/// Runs an agbot until a signal ends it.
pub fn run(arguments: AgbotArguments) -> Result<(), Failure> {
    let file = arguments.config.read()?;
    let settings = AgbotArguments {
        listen: arguments.listen.over(&file)?,
        database: arguments.database.over(&file)?,
        agbot: arguments.agbot.over(&file)?,
        tls: arguments.tls.over(&file)?,
        http: arguments.http.over(&file)?,
        clients: arguments.clients.over(&file)?,
        log: arguments.log.over(&file)?,
        ..arguments
    };
    settings.log.start()?;
    raise_file_limit();
    let url = settings.database.url()?;
    let url = url.ok_or_else(|| Failure::new(ExitStatus::Usage, "an agbot alone needs database-url"))?;
    block_on(run_agbot(settings, url))
}

async fn run_agbot(settings: AgbotArguments, url: Secret<String>) -> Result<(), Failure> {
    let lifecycle = lifecycle()?;
    let (listener, address) = listen(settings.listen.address()).await?;
    let tls = settings.tls.open(None, &[address])?;
    let options = ListenerOptions::of(&settings.http, &settings.clients)?;
    let token = secret_of_setting(&settings.token_file)?;
    let ca_pem = match &settings.hub_ca_file {
        Some(file) => Some(std::fs::read(file).map_err(|error| {
            Failure::new(ExitStatus::Usage, format!("the CA file {} cannot be read: {error}", file.display()))
        })?),
        None => None,
    };
    let http = HttpSettings { ca_pem, ..HttpSettings::new(settings.hub.clone()) };
    let transport = Transport::http(http).map_err(usage)?;
    if is_plain_off_loopback(&settings.hub) {
        tracing::warn!(
            hub.url = settings.hub,
            "the exchange is called without TLS, so others on the network can read the credentials of the agbot and of its callers; use https"
        );
    }
    let credentials = Credentials::new(&settings.org, &settings.id, token.expose());
    let client = Client::new(transport, BASE, credentials).map_err(usage)?;
    let database = connect(&url, settings.database.connections()).await?;
    let mut agbot = AgbotSettings::new(&settings.org, &settings.id, settings.key_file.clone());
    if settings.serve_new_orgs {
        agbot.new_orgs = NewOrgs::Serve;
    }
    apply(&settings.agbot, &mut agbot)?;
    let failed_logins = FailedLogins::default();
    let guard = LoginGuard::new(settings.clients.login_limits(), failed_logins.clone());
    let api = AgbotApi::guarded(guard);
    let agbot = Agbot::start(agbot, client, database.clone(), lifecycle.shutdown())
        .map_err(|error| broken(&error))?;
    api.open(&agbot);
    let tls = tls.map(|tls| tls.start(agbot.workers(), &lifecycle.shutdown()));
    let setup = ServerSetup::new(&lifecycle, &database, tls, options);
    super::agbot_metrics::observe(&setup.metrics, &agbot);
    super::metrics::observe_agbot(&setup.metrics, &agbot);
    failed_logins.register("agbot_failed_logins_total", &setup.metrics);
    let reporter = agbot.workers().run(FailedLoginReporter(failed_logins), lifecycle.shutdown());
    lifecycle.tasks().spawn(reporter);
    setup.serve(
        &lifecycle,
        listener,
        api.router().merge(setup.health.router()).merge(evenkeel_manual::router(
            &setup.health,
            "agbot",
            false,
        )),
    );
    tracing::info!(agbot.url = %setup.url(address), "the agbot is ready");
    lifecycle.shutdown().cancelled().await;
    agbot.finish().await;
    lifecycle.finish_tasks(TASK_LIMIT).await;
    database.close().await;
    Ok(())
}

/// Starts the hub's own agbot, which calls the exchange in the same process without a socket; it serves every organization.
pub async fn start_in_hub(
    directory: &DataDirectory,
    exchange: &Exchange,
    database: &Database,
    root_password: &Secret<String>,
    options: &AgbotOptions,
    shutdown: CancellationToken,
) -> Result<Agbot, Failure> {
    let (org, id) = HUB_AGBOT;
    let transport = Transport::router(exchange.router());
    let token = agbot_token(directory, database).await?;
    let root = Credentials::new("root", "root", root_password.expose());
    let root = Client::new(transport, BASE, root).map_err(usage)?;
    let client = root.with_credentials(Credentials::new(org, id, token.expose())).map_err(usage)?;
    let first_change = register(&root, &client, &token, database).await.map_err(|error| broken(&error))?;
    let mut settings = AgbotSettings::new(org, id, agbot_key_file(directory, database).await?);
    settings.new_orgs = NewOrgs::ServeFrom(first_change);
    settings.other_agbots = OtherAgbotsRule::Yield;
    apply(options, &mut settings)?;
    Agbot::start(settings, client, database.clone(), shutdown).map_err(|error| broken(&error))
}

fn apply(options: &AgbotOptions, settings: &mut AgbotSettings) -> Result<(), Failure> {
    settings.other_agbots = options.other_agbots.unwrap_or(settings.other_agbots);
    let update = &mut settings.planner.update;
    update.failure_action = options.upgrade_failure_action.unwrap_or(update.failure_action);
    update.order = options.upgrade_order.unwrap_or(update.order);
    update.parallelism = options.upgrade_parallelism.unwrap_or(update.parallelism);
    update.delay_secs = options.upgrade_delay_secs.unwrap_or(update.delay_secs);
    update.min_running = options.upgrade_min_running.map_or(update.min_running, NonZeroU32::get);
    if let Some(seconds) = options.upgrade_monitor_secs {
        settings.planner.update.monitor_secs = seconds;
    }
    if let Some(seconds) = options.upgrade_start_timeout_secs {
        settings.planner.update.start_timeout_secs = seconds;
    }
    if let Some(seconds) = options.upgrade_grace_secs {
        settings.planner.rejoin_grace_secs = seconds;
    }
    if let Some(seconds) = options.node_down_after_secs {
        settings.planner.node_down_after_secs = seconds;
    }
    settings.checks_addresses = AllowedAddresses {
        local: options.checks_local.unwrap_or_default(),
        networks: used("checks-networks", options.checks_networks.as_deref().unwrap_or_default())?,
    };
    settings.checks_ca_file = options.checks_ca_file.clone().or(settings.checks_ca_file.take());
    if let Some(days) = options.rollout_history_days {
        settings.rollout_history = Duration::from_secs(u64::from(days) * 24 * 3600);
    }
    if let Some(days) = options.history_days {
        settings.history = Duration::from_secs(u64::from(days.get()) * 24 * 3600);
    }
    if let Some(mebibytes) = options.history_mebibytes {
        settings.history_bytes = i64::from(mebibytes.get()) * 1024 * 1024;
    }
    Ok(())
}

/// The token of the hub's agbot.
async fn agbot_token(directory: &DataDirectory, database: &Database) -> Result<Secret<String>, Failure> {
    let make = || Ok(format!("{GENERATED}{}", random_secret().expose()));
    agree(directory, database, ("hub_agbot_token", "agbot-token"), make).await
}

/// Returns the file with the messaging key of the hub's agbot.
async fn agbot_key_file(directory: &DataDirectory, database: &Database) -> Result<PathBuf, Failure> {
    let make = || {
        // This takes a fraction of a second and must not block a thread that serves requests.
        let made = tokio::task::block_in_place(|| {
            PrivateKey::generate(&mut rand::rng(), KEY_BITS).and_then(|key| key.to_pkcs1_pem())
        });
        made.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))
    };
    agree(directory, database, ("hub_agbot_key", KEY_FILE), make).await?;
    Ok(directory.path().join(KEY_FILE))
}

/// Creates the record of the agbot at the exchange, and lets it serve every organization that it has not been offered
/// before: entries that an administrator has removed stay removed. Returns the smallest number of the change feed that
/// an organization created later can have.
async fn register(
    root: &Client,
    agbot: &Client,
    token: &Secret<String>,
    database: &Database,
) -> Result<i64, AgbotError> {
    let (org, id) = HUB_AGBOT;
    if !matches!(agbot.agbot(org, id).await, Ok(Some(_))) {
        let body = PutAgbot {
            token: token.expose().clone(),
            name: id.to_owned(),
            msg_end_point: None,
            public_key: String::new(),
        };
        root.put_agbot(org, id, &body).await?;
    }
    let first_change = root.max_change_id().await? + 1;
    let orgs: BTreeSet<String> = root.list_orgs().await?.into_keys().collect();
    let known = database.read(async |connection| offered::list_offered(connection).await).await?;
    let serving = ServingAgbot { org, id, client: agbot, database };
    for org in orgs.difference(&known) {
        serving.offer_org(org).await?;
    }
    for org in known.difference(&orgs) {
        database.read(async |connection| offered::delete_offered(connection, org).await).await?;
    }
    Ok(first_change)
}

fn usage(error: ClientError) -> Failure {
    Failure::from_error(ExitStatus::Usage, &error)
}

fn broken(error: &AgbotError) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}
