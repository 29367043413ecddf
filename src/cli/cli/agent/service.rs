//! `hzn service`: services on the node of this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::{ClientError, ConfigStateChange};
use evenkeel_wire::RawJson;
use evenkeel_wire::agent::service::{LocalServices, ServiceInstance};
use evenkeel_wire::exchange::node_part::PostConfigState;
use serde_json::{Value, json};

use super::not_registered;
use super::service_log::{self, LogArguments};
use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::server::Server;

/// Commands for services.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Shows the services that the node runs
    List {
        /// Show all details of the instances
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the output of a service
    Log(LogArguments),
    /// Shows the policies under which the node runs services
    Registered,
    /// Suspends and resumes services
    #[command(subcommand)]
    Configstate(ConfigStateCommand),
}

/// Commands that suspend and resume.
#[derive(Debug, Subcommand)]
pub enum ConfigStateCommand {
    /// Shows which services are active and which suspended
    List,
    /// Stops services and accepts no new agreement for them
    Suspend(Chosen),
    /// Resumes suspended services
    #[command(visible_alias = "active")]
    Resume(Chosen),
}

/// Chooses services.
#[derive(Debug, clap::Args)]
pub struct Chosen {
    /// Organization of the service
    org: Option<String>,
    /// Name of the service [default: all of the organization]
    service: Option<String>,
    /// Version of the service [default: all]
    version: Option<String>,
    /// All services
    #[arg(short = 'a', long, conflicts_with = "org")]
    all: bool,
    /// Do not ask for confirmation (accepted for scripts; there is no prompt)
    #[arg(short = 'f', long)]
    force: bool,
}

/// Runs a command for services.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: ServiceCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        ServiceCommand::List { long, watch } => {
            context.show_watched(&watch, async || Ok(view(read(&agent).await?, long))).await
        }
        ServiceCommand::Log(arguments) => service_log::show(&agent, arguments).await,
        ServiceCommand::Registered => {
            let found = agent.client.local_service_policies();
            let found = agent.call("asking the agent for its policies", found).await?;
            context.screen.show(&View::of(found.into_value()))
        }
        ServiceCommand::Configstate(ConfigStateCommand::List) => {
            let found = agent.client.service_config_states_record();
            let found =
                agent.call("asking the agent which services are suspended", found).await?.into_value();
            let columns = [
                ("organization", "org"),
                ("service", "url"),
                ("version", "version"),
                ("state", "configState"),
            ];
            let states = found.get("configstates").and_then(Value::as_array);
            let table = Table::of_list(states.map(Vec::as_slice).unwrap_or_default(), &columns);
            context.screen.show(&View::new(found, table))
        }
        ServiceCommand::Configstate(ConfigStateCommand::Suspend(chosen)) => {
            set(&agent, &chosen, "suspended").await
        }
        ServiceCommand::Configstate(ConfigStateCommand::Resume(chosen)) => {
            set(&agent, &chosen, "active").await
        }
    }
}

/// Reads the services from the agent.
///
/// # Errors
/// With status 5 when the node is not registered or the agent does not respond.
pub async fn read(agent: &Server) -> Outcome<LocalServices<RawJson, RawJson>> {
    agent.client.local_service_records().await.map_err(|error| match error.status() {
        Some(424) => not_registered("there are no services"),
        _ => agent.failed("asking the agent for its services", &error),
    })
}

/// Reads the running instances from the agent.
///
/// # Errors
/// See [`read`].
pub async fn instances(agent: &Server) -> Outcome<Vec<ServiceInstance>> {
    let typed = |record| {
        let failed = |error| agent.failed("asking the agent for its services", &ClientError::from(error));
        evenkeel_wire::agent::read(record).map_err(failed)
    };
    read(agent).await?.instances.active.into_iter().map(typed).collect()
}

fn view(found: LocalServices<RawJson, RawJson>, is_long: bool) -> View {
    let instances: Vec<Value> = found.instances.active.into_iter().map(RawJson::into_value).collect();
    let columns = [
        ("service", "ref_url"),
        ("organization", "organization"),
        ("version", "version"),
        ("arch", "arch"),
        ("state", "/containers/0/State"),
        ("instance", "instance_id"),
    ];
    let table = Table::of_list(&instances, &columns);
    if is_long {
        return View::new(Value::Array(instances), table);
    }
    let short = |definition: RawJson| {
        let member = |name: &str| definition.as_value().get(name).cloned().unwrap_or(Value::Null);
        json!({"url": member("specRef"), "org": member("organization"), "version": member("version"), "arch": member("arch")})
    };
    let definitions = found.definitions.active.into_iter().map(short).collect();
    View::new(Value::Array(definitions), table)
}

async fn set(agent: &Server, chosen: &Chosen, state: &str) -> Outcome {
    if chosen.org.is_none() && !chosen.all {
        return Err(CliError::input(
            "no service was chosen",
            "neither an organization nor -a is given",
            "name one, or give -a",
        ));
    }
    let change = PostConfigState {
        org: chosen.org.clone().unwrap_or_default(),
        url: chosen.service.clone().unwrap_or_default(),
        config_state: state.to_owned(),
        version: Some(chosen.version.clone().unwrap_or_default()),
    };
    let changed = agent.client.post_service_config_state(&change);
    match agent.call(&format!("setting services {state}"), changed).await? {
        // Like the existing tool, reports that there is nothing to change and does not fail.
        ConfigStateChange::Refused(why) => print_note(why),
        ConfigStateChange::Changed => agent.report_done(&format!("the services are {state}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_lists_definitions_and_the_long_one_instances() {
        let found = json!({
            "instances": {"active": [{"ref_url": "cam", "instance_id": "i", "containers": [{"State": "running"}]}]},
            "definitions": {"active": [{"specRef": "cam", "organization": "acme", "version": "1.0.0", "arch": "amd64"}]},
        });
        let read = || serde_json::from_value(found.clone()).expect("services");
        let short = view(read(), false);
        assert_eq!(short.json, json!([{"url": "cam", "org": "acme", "version": "1.0.0", "arch": "amd64"}]));
        assert_eq!(short.table.rows[0][4], "running");
        assert_eq!(view(read(), true).json[0]["instance_id"], "i");
    }
}
