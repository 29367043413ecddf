//! Carries out the commands of the step machine. Each may be repeated, and results in the event that records its outcome.

mod check;
mod reboot;
mod report;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use evenkeel_domain::policy::internal::InternalPolicy;
use evenkeel_wire::exchange::node_part::{AgreedService, AgreementWorkload, PutNodeAgreement};
use evenkeel_wire::exchange::task_health::{CHECK, CommandResult, EndedCommand, REBOOT_HOST, TaskCommand};

use tokio::time::timeout;

use crate::{
    AgentSettings,
    deployment::Deployment,
    drivers::{Driver, DriverError, RegistryLogin, Role, ServiceSpec},
    environment::{self, Platform},
    hub::{Delivery, Hub},
    journal::Journal,
    machine::Machine,
    settings::DriverKind,
    step::{Agreement, Command, Dependency, Event, ExchangeState},
};

/// Longest wait for the hub before it counts as unreachable.
const CONTACT_TIMEOUT: Duration = Duration::from_secs(3);

/// The objects that effects act on.
pub(crate) struct Context {
    pub driver: Arc<dyn Driver>,
    /// Absent while the node is not registered.
    pub hub: Option<Arc<Hub>>,
    pub settings: Arc<AgentSettings>,
}

/// The outcome of a command: the event that records it, or the reason why it failed and is to be repeated.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Option<Event>, String>> + Send>>;

/// A step in the start of a service.
#[derive(Clone, Copy)]
enum StartStep {
    Prepare,
    Start,
}

/// Copies the inputs of a command from the journal and returns its work.
pub(crate) fn prepare(command: &Command, journal: &Journal, machine: &Machine, context: Context) -> Work {
    let agreement_of = |id: &String| journal.state.agreements.get(id).cloned();
    match command {
        Command::Start { agreement } | Command::Prepare { agreement } => {
            let is_start = matches!(command, Command::Start { .. });
            let step = if is_start { StartStep::Start } else { StartStep::Prepare };
            let Some(agreement) = agreement_of(agreement) else { return nothing() };
            let spec = service_spec(&agreement, journal, &context.settings, machine);
            Box::pin(start(context, agreement, spec, step))
        }
        Command::Restart { agreement } => {
            let Some(agreement) = agreement_of(agreement) else { return nothing() };
            let spec = service_spec(&agreement, journal, &context.settings, machine);
            Box::pin(restart(context, agreement.id, spec))
        }
        Command::CheckContact => Box::pin(check_contact(context)),
        Command::ReportRestarts { task, restarts } => {
            Box::pin(report::restarts(context, task.clone(), restarts.report()))
        }
        Command::SetRestarts { agreement, restarts } => {
            let (agreement, restarts) = (agreement.clone(), *restarts);
            Box::pin(async move {
                context.driver.set_restarts(&agreement, restarts).await.map_err(|error| error.to_string())?;
                Ok(Some(Event::RestartsSet { agreement, restarts }))
            })
        }
        Command::Supervise { agreement, task, command } => {
            let Some(agreement) = agreement_of(agreement) else { return nothing() };
            if command.op == CHECK {
                let probe = journal.state.tasks.get(task).and_then(|task| task.supervision.probe.clone());
                return Box::pin(check::check(
                    context,
                    agreement.id,
                    probe,
                    (task.clone(), command.id.clone()),
                ));
            }
            let spec = service_spec(&agreement, journal, &context.settings, machine);
            Box::pin(supervise(context, agreement, spec, (task.clone(), command.clone())))
        }
        Command::Kill { agreement } => {
            let agreement = agreement.clone();
            Box::pin(async move {
                context.driver.kill(&agreement).await.map_err(|error| error.to_string())?;
                Ok(Some(Event::Stopped { agreement }))
            })
        }
        Command::ReportCommand { task, ended } => {
            Box::pin(report::command(context, task.clone(), ended.clone()))
        }
        Command::ReportHealth { task, health } => {
            Box::pin(report::health(context, task.clone(), health.clone()))
        }
        Command::ReportPeers { task, peers } => Box::pin(report::peers(context, task.clone(), peers.clone())),
        Command::ReportLease { task, lease_secs } => {
            Box::pin(report::lease(context, task.clone(), *lease_secs))
        }
        Command::ReportLifecycle { task, event } => {
            Box::pin(report::lifecycle(context, task.clone(), event.clone()))
        }
        Command::ReportTask { task, report } => Box::pin(report::task(context, task.clone(), report.clone())),
        Command::Stop { agreement } => Box::pin(stop(context, agreement.clone())),
        Command::StartDependency { key } => {
            let Some(instance) = journal.state.instances.get(key) else { return nothing() };
            let dependency = &instance.dependency;
            let spec = dependency_spec(key, dependency, journal, &context.settings, machine);
            Box::pin(start_dependency(context, key.clone(), dependency.service_id.clone(), spec))
        }
        Command::StopDependency { key } => {
            let key = key.clone();
            Box::pin(async move {
                context.driver.stop(&key).await.map_err(|error| error.to_string())?;
                Ok(Some(Event::DependencyStopped { key }))
            })
        }
        Command::Send(number) => {
            let Some(outgoing) = journal.state.outbox.get(number).cloned() else { return nothing() };
            Box::pin(send(context, *number, outgoing.agbot, outgoing.text))
        }
        Command::Record { agreement, state } => {
            let Some(agreement) = agreement_of(agreement) else { return nothing() };
            let pattern = journal.state.facts.pattern.clone();
            Box::pin(record(context, agreement, *state, pattern))
        }
        Command::ReportStatus(status) => Box::pin(report::status(context, status.clone())),
        Command::ReportServices(services) => Box::pin(report::services(context, services.clone())),
        Command::ReportErrors(errors) => Box::pin(report::errors(context, errors.clone())),
    }
}

/// Builds the service of an agreement for a driver.
///
/// # Errors
/// [`DriverError::Unsuitable`] when its deployment is invalid.
pub(crate) fn service_spec(
    agreement: &Agreement,
    journal: &Journal,
    settings: &AgentSettings,
    machine: &Machine,
) -> Result<ServiceSpec, DriverError> {
    let deployment = Deployment::parse(&agreement.deployment, &agreement.deployment_overrides)
        .map_err(|error| DriverError::Unsuitable(error.to_string()))?;
    let environment = with_platform(journal, settings, machine, |platform| {
        environment::variables(Some(&agreement.id), &agreement.inputs, platform)
    });
    Ok(ServiceSpec {
        networks: agreement.dependency_keys().collect(),
        task: journal.state.task_id_of(&agreement.id).map(str::to_owned),
        ..ServiceSpec::new(agreement.id.clone(), deployment, environment)
    })
}

/// Builds a dependency for a driver.
///
/// # Errors
/// [`DriverError::Unsuitable`] when its deployment is invalid.
pub(crate) fn dependency_spec(
    key: &str,
    dependency: &Dependency,
    journal: &Journal,
    settings: &AgentSettings,
    machine: &Machine,
) -> Result<ServiceSpec, DriverError> {
    let deployment = Deployment::parse(&dependency.deployment, "")
        .map_err(|error| DriverError::Unsuitable(error.to_string()))?;
    let environment = with_platform(journal, settings, machine, |platform| {
        environment::variables(None, &dependency.inputs, platform)
    });
    let role = if dependency.is_shared { Role::Shared } else { Role::Dependency };
    Ok(ServiceSpec { role, ..ServiceSpec::new(key.to_owned(), deployment, environment) })
}

fn with_platform<T>(
    journal: &Journal,
    settings: &AgentSettings,
    machine: &Machine,
    work: impl FnOnce(&Platform<'_>) -> T,
) -> T {
    let (org, node) = journal.state.node.split_once('/').unwrap_or_default();
    let exchange_url = format!("{}/v1", settings.hub_root());
    let platform = Platform {
        org,
        node,
        pattern: &journal.state.facts.pattern,
        exchange_url: &exchange_url,
        allows_privileged: journal.state.local_policy().properties.allows_privileged(),
        machine,
    };
    work(&platform)
}

async fn start(
    context: Context,
    agreement: Agreement,
    spec: Result<ServiceSpec, DriverError>,
    step: StartStep,
) -> Result<Option<Event>, String> {
    let outcome = match spec {
        Ok(mut spec) => {
            spec.logins = logins(&context, &agreement.service_id).await;
            match step {
                StartStep::Prepare => context.driver.prepare(&spec).await,
                StartStep::Start => context.driver.start(&spec).await,
            }
        }
        Err(error) => Err(error),
    };
    let agreement = agreement.id;
    match outcome {
        Ok(()) => Ok(Some(match step {
            StartStep::Prepare => Event::Prepared { agreement },
            StartStep::Start => Event::Started { agreement },
        })),
        Err(error) => match error.cancel_reason() {
            Some(reason) => {
                tracing::warn!(agreement.id = agreement, %error, "service cannot be started");
                Ok(Some(Event::StartFailed { agreement, reason, error: error.to_string() }))
            }
            None => Err(error.to_string()),
        },
    }
}

/// Restarts a service that has ended. Without the hub there are no registry logins, but the image is present.
async fn restart(
    context: Context,
    agreement: String,
    spec: Result<ServiceSpec, DriverError>,
) -> Result<Option<Event>, String> {
    let outcome = async {
        let spec = spec?;
        context.driver.stop(&agreement).await?;
        context.driver.start(&spec).await
    };
    match outcome.await {
        Ok(()) => Ok(Some(Event::Restarted { agreement })),
        Err(error) => match error.cancel_reason() {
            Some(reason) => Ok(Some(Event::StartFailed { agreement, reason, error: error.to_string() })),
            None => Err(error.to_string()),
        },
    }
}

/// Checks whether the hub responds and could record a report.
async fn check_contact(context: Context) -> Result<Option<Event>, String> {
    let asked = async { context.hub.as_ref()?.exchange.max_change_id().await.ok() };
    let is_up = timeout(CONTACT_TIMEOUT, asked).await.is_ok_and(|response| response.is_some());
    Ok(Some(Event::ContactChecked { is_up }))
}

/// Carries out a command of the hub's engine. The containers may end and start again; only the outcome is reported, not their end.
async fn supervise(
    context: Context,
    agreement: Agreement,
    spec: Result<ServiceSpec, DriverError>,
    (task, command): (String, TaskCommand),
) -> Result<Option<Event>, String> {
    let outcome = async {
        if command.op == REBOOT_HOST {
            return reboot::reboot(context.settings.reboot_program.as_deref()).await;
        }
        let mut spec = spec?;
        spec.logins = logins(&context, &agreement.service_id).await;
        match command.op.as_str() {
            "UNPAUSE" => return context.driver.unpause(&agreement.id).await,
            "REBOOT" if command.hard => context.driver.kill(&agreement.id).await?,
            "REBOOT" | "START" => context.driver.stop(&agreement.id).await?,
            "REBUILD" => {
                // The existing containers must survive a failed fetch.
                context.driver.refresh(&spec).await?;
                context.driver.stop(&agreement.id).await?;
            }
            other => {
                return Err(DriverError::Unsuitable(format!("unknown command of the agent: {other}")));
            }
        }
        context.driver.start(&spec).await
    };
    let (result, message) = match outcome.await {
        Ok(()) => (CommandResult::Ok, None),
        Err(error) => (CommandResult::Failed, Some(error.to_string())),
    };
    let seen = context.driver.observe(&agreement.id).await;
    let ended = EndedCommand { id: command.id, result, message };
    Ok(Some(Event::CommandEnded { task, ended, seen, health: None }))
}

async fn start_dependency(
    context: Context,
    key: String,
    service_id: String,
    spec: Result<ServiceSpec, DriverError>,
) -> Result<Option<Event>, String> {
    let outcome = match spec {
        Ok(mut spec) => {
            spec.logins = logins(&context, &service_id).await;
            context.driver.start(&spec).await
        }
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => Ok(Some(Event::DependencyStarted { key })),
        Err(error) => match error.dependency_cancel_reason() {
            Some(reason) => {
                tracing::warn!(service.key = key, %error, "a service that others need cannot be started");
                Ok(Some(Event::DependencyFailed { key, reason, error: error.to_string() }))
            }
            None => Err(error.to_string()),
        },
    }
}

/// Reads the registry logins of the service. Without the hub a local image is enough.
async fn logins(context: &Context, service_id: &str) -> Vec<RegistryLogin> {
    let (Some(hub), Some((org, id)), DriverKind::Docker) =
        (&context.hub, service_id.split_once('/'), context.settings.driver)
    else {
        return Vec::new();
    };
    let found = hub.exchange.list_service_dockauths(org, id).await.unwrap_or_default();
    found
        .into_iter()
        .map(|login| RegistryLogin {
            registry: login.registry,
            username: login.username,
            password: login.token,
        })
        .collect()
}

async fn stop(context: Context, agreement: String) -> Result<Option<Event>, String> {
    context.driver.stop(&agreement).await.map_err(|error| error.to_string())?;
    Ok(Some(Event::Stopped { agreement }))
}

async fn send(
    context: Context,
    number: u64,
    agbot: String,
    message: String,
) -> Result<Option<Event>, String> {
    match hub(&context)?.send(&agbot, &message).await.map_err(text)? {
        Delivery::Delivered => {}
        Delivery::NoReceiver => tracing::info!(agbot, "message no longer has a receiver"),
    }
    Ok(Some(Event::Sent { number }))
}

async fn record(
    context: Context,
    agreement: Agreement,
    state: ExchangeState,
    pattern: String,
) -> Result<Option<Event>, String> {
    let hub = hub(&context)?;
    if state == ExchangeState::Absent {
        hub.exchange.delete_node_agreement(&hub.node, &agreement.id).await.map_err(text)?;
    } else {
        // Only the terms of a pattern contain the requirements of the service.
        let needed = InternalPolicy::from_text(&agreement.terms).map(|terms| terms.api_specs);
        let needed = needed.unwrap_or_default().into_iter();
        let body = PutNodeAgreement {
            services: Some(needed.map(|spec| named(spec.org, spec.url)).collect()),
            agreement_service: Some(AgreementWorkload {
                orgid: hub.node.org().to_owned(),
                pattern,
                url: agreement.workload.qualified_url(),
            }),
            state: state.words().to_owned(),
        };
        hub.exchange.put_node_agreement(&hub.node, &agreement.id, &body).await.map_err(text)?;
    }
    Ok(Some(Event::Recorded { agreement: agreement.id, state }))
}

fn hub(context: &Context) -> Result<Arc<Hub>, String> {
    context.hub.clone().ok_or_else(|| "the node is not registered".to_owned())
}

fn named(org: String, url: String) -> AgreedService {
    AgreedService { orgid: Some(org), url: Some(url) }
}

fn nothing() -> Work {
    Box::pin(async { Ok(None) })
}

fn text(error: evenkeel_client::ClientError) -> String {
    error.to_string()
}
