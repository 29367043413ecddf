//! `evenkeel exchange`: a stateless exchange without an agbot; any number of them can share a database.

use std::time::Duration;

use clap::Args;
use evenkeel_exchange::OidcSettings;
use evenkeel_http_server::RequestHandler;
use evenkeel_runtime::process::{block_on, raise_file_limit};
use evenkeel_runtime::{ExitStatus, Failure, Secret};

use super::hub::{ExchangeSetup, connect, start_exchange};
use super::limits::{ClientOptions, HttpOptions, LimitOptions};
use super::serve::{ListenerOptions, ServerSetup, lifecycle, listen};
use super::settings::{
    ConfigArguments, DatabaseSettings, ExchangeOptions, ListenSettings, LogSettings, secret_of_setting,
};
use super::tls::TlsOptions;

/// Time for requests in flight after the stop signal.
const TASK_LIMIT: Duration = Duration::from_secs(7);

/// Options of `exchange`.
#[derive(Debug, Args)]
pub struct ExchangeArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    listen: ListenSettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    exchange: ExchangeOptions,
    /// Only in the configuration file.
    #[arg(skip)]
    oidc: Option<OidcSettings>,
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

/// Runs an exchange until a signal ends it.
pub fn run(arguments: ExchangeArguments) -> Result<(), Failure> {
    let file = arguments.config.read()?;
    let settings = ExchangeArguments {
        listen: arguments.listen.over(&file)?,
        database: arguments.database.over(&file)?,
        exchange: arguments.exchange.over(&file)?,
        oidc: super::oidc::read(&file)?,
        tls: arguments.tls.over(&file)?,
        http: arguments.http.over(&file)?,
        clients: arguments.clients.over(&file)?,
        limits: arguments.limits.over(&file)?,
        log: arguments.log.over(&file)?,
        config: arguments.config,
    };
    settings.log.start()?;
    raise_file_limit();
    let url = settings.database.url()?;
    let url = url.ok_or_else(|| Failure::new(ExitStatus::Usage, "an exchange alone needs database-url"))?;
    block_on(run_exchange(settings, url))
}

async fn run_exchange(settings: ExchangeArguments, url: Secret<String>) -> Result<(), Failure> {
    let lifecycle = lifecycle()?;
    let (listener, address) = listen(settings.listen.address()).await?;
    let tls = settings.tls.open(None, &[address])?;
    let options = ListenerOptions::of_exchange(&settings.http, &settings.clients, &settings.exchange)?;
    let password = settings.exchange.root_password_file.as_deref().map(secret_of_setting).transpose()?;
    let database = connect(&url, settings.database.connections()).await?;
    let setup = ExchangeSetup {
        root_password: password,
        options: &settings.exchange,
        limits: &settings.limits,
        clients: &settings.clients,
        oidc: settings.oidc,
        node_down_after_secs: None,
        rejoin_grace_secs: None,
    };
    let running = start_exchange(&database, setup, lifecycle.shutdown()).await?;
    let exchange = &running.exchange;
    let tls = tls.map(|tls| tls.start(exchange.workers(), &lifecycle.shutdown()));
    let setup = ServerSetup::new(&lifecycle, &database, tls, options);
    super::metrics::observe_exchange(&setup.metrics, exchange);
    let others = setup.health.router().merge(evenkeel_manual::router(&setup.health, "exchange", true));
    let router = exchange.router_beside(&[], others);
    setup.serve(&lifecycle, listener, RequestHandler::from(router).with_shortcut(exchange.fast_path()));
    tracing::info!(exchange.url = %setup.url(address), "the exchange is ready");
    lifecycle.shutdown().cancelled().await;
    lifecycle.finish_tasks(TASK_LIMIT).await;
    running.finish().await;
    database.close().await;
    Ok(())
}
