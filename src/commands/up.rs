//! `evenkeel up`: exchange and agbot in one process, with a PostgreSQL of its own unless one is named.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use evenkeel_agbot::Agbot;
use evenkeel_agbot_api::AgbotApi;
use evenkeel_exchange::OidcSettings;
use evenkeel_http_server::RequestHandler;
use evenkeel_runtime::files::{DataDirectory, write_private_file};
use evenkeel_runtime::process::{block_on, raise_file_limit};
use evenkeel_runtime::{ExitStatus, Failure, Lifecycle};
use tokio::net::TcpListener;

use super::agbot::start_in_hub;
use super::hub::{ExchangeSetup, OpenDatabase, open_directory, root_password, start_exchange};
use super::limits::{ClientOptions, HttpOptions, LimitOptions};
use super::serve::{ListenerOptions, ServerSetup, lifecycle, listen};
use super::settings::{
    AgbotListenSettings, AgbotOptions, ConfigArguments, DatabaseSettings, DirectorySettings, ExchangeOptions,
    ListenSettings, LogSettings, PostgresChoice,
};
use super::tls::TlsOptions;

/// Time for requests and background work after the stop signal; the database stops after them.
const TASK_LIMIT: Duration = Duration::from_millis(4_500);

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    directory: DirectorySettings,
    #[command(flatten)]
    listen: ListenSettings,
    #[command(flatten)]
    agbot_listen: AgbotListenSettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    postgres: PostgresChoice,
    #[command(flatten)]
    exchange: ExchangeOptions,
    /// Only in the configuration file.
    #[arg(skip)]
    oidc: Option<OidcSettings>,
    #[command(flatten)]
    agbot: AgbotOptions,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    clients: ClientOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    log: LogSettings,
}

impl UpArguments {
    fn complete(self) -> Result<Self, Failure> {
        let file = self.config.read()?;
        Ok(Self {
            directory: self.directory.over(&file)?,
            listen: self.listen.over(&file)?,
            agbot_listen: self.agbot_listen.over(&file)?,
            database: self.database.over(&file)?,
            postgres: self.postgres.over(&file)?,
            exchange: self.exchange.over(&file)?,
            oidc: super::oidc::read(&file)?,
            agbot: self.agbot.over(&file)?,
            tls: self.tls.over(&file)?,
            http: self.http.over(&file)?,
            clients: self.clients.over(&file)?,
            limits: self.limits.over(&file)?,
            log: self.log.over(&file)?,
            config: self.config,
        })
    }
}

/// Runs a hub until a signal ends it.
pub fn run(arguments: UpArguments) -> Result<(), Failure> {
    let settings = arguments.complete()?;
    settings.log.start()?;
    raise_file_limit();
    block_on(run_hub(settings))
}

async fn run_hub(settings: UpArguments) -> Result<(), Failure> {
    let lifecycle = lifecycle()?;
    let options = ListenerOptions::of_exchange(&settings.http, &settings.clients, &settings.exchange)?;
    let listeners = Listeners::bind(&settings).await?;
    let directory = open_directory(&settings.directory.path()?)?;
    let opening = Box::pin(OpenDatabase::open(&directory, &settings.database, &settings.postgres));
    // A signal during a long start aborts it: what was started is dropped, including the embedded server.
    let Some(open) = lifecycle.shutdown().run_until_cancelled_owned(opening).await else { return Ok(()) };
    let open = open?;
    let outcome = serve(&lifecycle, &settings, &directory, &open, (listeners, options)).await;
    open.close().await;
    outcome.inspect(|()| tracing::info!("stopped"))
}

/// The bound addresses.
struct Listeners {
    main: (TcpListener, SocketAddr),
    agbot: Option<(TcpListener, SocketAddr)>,
}

impl Listeners {
    async fn bind(settings: &UpArguments) -> Result<Self, Failure> {
        let main = listen(settings.listen.address()).await?;
        let agbot = match settings.agbot_listen.address() {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        Ok(Self { main, agbot })
    }
}

/// Starts the roles and serves them until a signal is received; then drains in reverse order.
async fn serve(
    lifecycle: &Lifecycle,
    settings: &UpArguments,
    directory: &DataDirectory,
    open: &OpenDatabase,
    (listeners, options): (Listeners, ListenerOptions),
) -> Result<(), Failure> {
    let shutdown = lifecycle.shutdown();
    let (listener, address) = listeners.main;
    let agbot_address = listeners.agbot.as_ref().map(|(_, address)| *address);
    let addresses: Vec<SocketAddr> = std::iter::once(address).chain(agbot_address).collect();
    let tls = settings.tls.open(Some(directory.path()), &addresses)?;
    let password = root_password(directory, &settings.exchange)?;
    let database = &open.database;
    let setup = ExchangeSetup {
        root_password: Some(password.clone()),
        options: &settings.exchange,
        limits: &settings.limits,
        clients: &settings.clients,
        oidc: settings.oidc.clone(),
        node_down_after_secs: settings.agbot.node_down_after_secs,
        rejoin_grace_secs: settings.agbot.upgrade_grace_secs,
    };
    let running = start_exchange(database, setup, shutdown.clone()).await?;
    let exchange = &running.exchange;
    let tls = tls.map(|tls| tls.start(exchange.workers(), &shutdown));
    let setup = ServerSetup::new(lifecycle, database, tls, options);
    super::metrics::observe_exchange(&setup.metrics, exchange);
    let api = AgbotApi::default();
    let agbot_api = api.clone();
    setup.health.depend("agbot", move || {
        let is_ready = agbot_api.is_ready();
        async move { if is_ready { Ok(()) } else { Err("still reading the served policies".to_owned()) } }
    });
    if let Some((listener, address)) = listeners.agbot {
        tracing::info!(agbot.url = %setup.url(address), "the agbot has a listener of its own");
        setup.serve(
            lifecycle,
            listener,
            api.router().merge(setup.health.router()).merge(evenkeel_manual::router(
                &setup.health,
                "agbot",
                false,
            )),
        );
    }
    // The exchange serves requests at once, while the agbot creates its keys at its first start.
    let home = evenkeel_manual::router(&setup.health, "hub", true);
    let others = api.router().merge(setup.health.router()).merge(home);
    let api_router = exchange.router_beside(&[evenkeel_agbot_api::part], others);
    let provider = exchange.identity_provider();
    let console = evenkeel_console::router(api_router.clone(), setup.is_tls(), provider);
    let router = console.merge(api_router);
    setup.serve(lifecycle, listener, RequestHandler::from(router).with_shortcut(exchange.fast_path()));
    let agbot = start_in_hub(directory, exchange, database, &password, &settings.agbot, shutdown.clone());
    let outcome = match shutdown.run_until_cancelled(agbot).await {
        Some(Ok(agbot)) => {
            api.open(&agbot);
            super::agbot_metrics::observe(&setup.metrics, &agbot);
            super::metrics::observe_agbot(&setup.metrics, &agbot);
            let announced = announce(directory, &setup.url(address));
            if announced.is_ok() {
                shutdown.cancelled().await;
            }
            end(lifecycle, Some(agbot)).await;
            announced
        }
        Some(Err(failure)) => {
            end(lifecycle, None).await;
            Err(failure)
        }
        None => {
            end(lifecycle, None).await;
            Ok(())
        }
    };
    running.finish().await;
    outcome
}

/// Ends the requests in flight, and releases the agbot's partitions.
async fn end(lifecycle: &Lifecycle, agbot: Option<Agbot>) {
    lifecycle.shutdown().cancel();
    let handed_over = async {
        match agbot {
            Some(agbot) => tokio::time::timeout(TASK_LIMIT, agbot.finish()).await.is_ok(),
            None => true,
        }
    };
    let (have_ended, is_handed_over) = tokio::join!(lifecycle.finish_tasks(TASK_LIMIT), handed_over);
    if !have_ended || !is_handed_over {
        tracing::warn!("some work did not end in time");
    }
}

/// Reports the URL of the hub in the log, and in a file for programs that let it choose the port.
fn announce(directory: &DataDirectory, url: &str) -> Result<(), Failure> {
    write_private_file(&directory.path().join("url"), format!("{url}\n").as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
    tracing::info!(hub.url = %url, data.directory = %directory.path().display(), "the hub is ready");
    Ok(())
}
