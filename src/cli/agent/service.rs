//! `hzn service`: services on the node of this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::Path;
use http::Method;
use serde_json::{Value, json};

use super::{list, not_registered};
use crate::api::{Api, is_success};
use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, note};

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
    /// Stops services and makes no new agreement for them
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
    /// Do not ask for confirmation (accepted for scripts; nothing is asked)
    #[arg(short = 'f', long)]
    force: bool,
}

/// Runs a command for services.
///
/// # Errors
/// Those of the command.
pub async fn run(command: ServiceCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        ServiceCommand::List { long, watch } => {
            context.show_watched(&watch, async || Ok(view(&read(&agent).await?, long))).await
        }
        ServiceCommand::Registered => {
            let path = Path::new(&["service", "policy"]);
            let found = agent.get("asking the agent for its policies", &path).await?;
            context.screen.show(&View::of(found))
        }
        ServiceCommand::Configstate(ConfigStateCommand::List) => {
            let found = agent.get("asking the agent which services are suspended", &config_path()).await?;
            let columns = [
                ("organization", "org"),
                ("service", "url"),
                ("version", "version"),
                ("state", "configState"),
            ];
            let table = Table::of_list(list(&found, "/configstates"), &columns);
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

/// Reads everything about services from the agent.
///
/// # Errors
/// With status 5 when the node is not registered or the agent does not answer.
pub async fn read(agent: &Api) -> Outcome<Value> {
    let doing = "asking the agent for its services";
    let answer = agent.attempt(doing, Method::GET, &Path::new(&["service"]), None).await?;
    match answer.status.as_u16() {
        200 => answer.json().map_err(|error| agent.failed(doing, &error)),
        424 => Err(not_registered("there are no services")),
        _ => Err(agent.failed(doing, &answer.unexpected())),
    }
}

fn view(found: &Value, is_long: bool) -> View {
    let instances = list(found, "/instances/active");
    let columns = [
        ("service", "ref_url"),
        ("organization", "organization"),
        ("version", "version"),
        ("arch", "arch"),
        ("state", "/containers/0/State"),
        ("instance", "instance_id"),
    ];
    let table = Table::of_list(instances, &columns);
    if is_long {
        return View::new(Value::Array(instances.to_vec()), table);
    }
    let short = |definition: &Value| {
        let member = |name: &str| definition.get(name).cloned().unwrap_or(Value::Null);
        json!({"url": member("specRef"), "org": member("organization"), "version": member("version"), "arch": member("arch")})
    };
    let definitions = list(found, "/definitions/active").iter().map(short).collect();
    View::new(Value::Array(definitions), table)
}

fn config_path() -> Path {
    Path::new(&["service", "configstate"])
}

async fn set(agent: &Api, chosen: &Chosen, state: &str) -> Outcome {
    if chosen.org.is_none() && !chosen.all {
        return Err(CliError::input(
            "no service was chosen",
            "neither an organization nor -a is given",
            "name one, or give -a",
        ));
    }
    let body = json!({
        "org": chosen.org.as_deref().unwrap_or_default(),
        "url": chosen.service.as_deref().unwrap_or_default(),
        "version": chosen.version.as_deref().unwrap_or_default(),
        "configState": state,
    });
    let doing = format!("setting services {state}");
    let answer = agent.attempt(&doing, Method::POST, &config_path(), Some(&body)).await?;
    match answer.status.as_u16() {
        // As by the existing tool, nothing to change is told and is no failure.
        400 => note(String::from_utf8_lossy(&answer.body)),
        _ if is_success(answer.status) => agent.report_done(&format!("the services are {state}")),
        _ => return Err(agent.failed(&doing, &answer.unexpected())),
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
        let short = view(&found, false);
        assert_eq!(short.json, json!([{"url": "cam", "org": "acme", "version": "1.0.0", "arch": "amd64"}]));
        assert_eq!(short.table.rows[0][4], "running");
        assert_eq!(view(&found, true).json[0]["instance_id"], "i");
    }
}
