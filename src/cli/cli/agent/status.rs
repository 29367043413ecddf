//! `hzn status`, `version`, `architecture`, `env`: the agent's workers, and facts about the command line itself.

use serde_json::{Map, Value, json};

use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::machine::ARCH;
use crate::output::{Table, View, print_note};
use crate::server::Server;
use crate::settings::{BEARER_TOKEN, KNOWN, NODE_AUTH, USER_AUTH};

/// Options of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArguments {
    /// Show also the log of the workers' states
    #[arg(short = 'l', long)]
    long: bool,
    #[command(flatten)]
    watch: Watch,
}

/// Shows the agent's workers.
///
/// # Errors
/// With status 5 when the agent does not respond.
pub async fn show_status(arguments: &StatusArguments, context: &Context) -> Outcome {
    let agent = context.agent()?;
    context.show_watched(&arguments.watch, async || workers(&agent, arguments.long).await).await
}

async fn workers(agent: &Server, is_long: bool) -> Outcome<View> {
    let found = agent.call("asking the agent for its workers", agent.client.local_workers_record()).await?;
    let mut found = found.into_value();
    if !is_long && let Some(members) = found.as_object_mut() {
        members.shift_remove("worker_status_log");
    }
    let workers = found.get("workers").and_then(Value::as_object).cloned().unwrap_or_default();
    let table = Table::of_map(&workers, "worker", &[("status", "status")]);
    Ok(View::new(found, table))
}

/// Shows the versions of the command line and the agent; without an agent only that of the command line.
///
/// # Errors
/// When nothing can be written.
pub async fn show_version(context: &Context) -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    let mut text = format!("Horizon CLI version: {own}\n");
    let mut json = json!({"cli": own});
    let agent = context.agent()?;
    match agent.call("asking the agent for its version", agent.client.local_status()).await {
        Ok(status) => {
            let version = status.configuration.horizon_version;
            text.push_str(&format!("Horizon Agent version: {version}\n"));
            json["agent"] = Value::from(version);
        }
        Err(error) => {
            text.push_str("Horizon Agent version: failed to get\n");
            json["agent"] = Value::Null;
            print_note(format!("the agent at {} does not respond: {}", agent.url, error.why));
        }
    }
    context.screen.show(&View::plain(text, json))
}

/// Shows the architecture of this machine.
///
/// # Errors
/// When nothing can be written.
pub fn show_architecture(context: &Context) -> Outcome {
    context.screen.show(&View::plain(ARCH, Value::from(ARCH)))
}

/// Shows the effective settings; secrets are masked.
///
/// # Errors
/// With status 4 when the file of a secret cannot be read.
pub fn show_environment(context: &Context) -> Outcome {
    let mut shown = Map::new();
    for (name, _) in KNOWN {
        let value = if [USER_AUTH, NODE_AUTH, BEARER_TOKEN].contains(&name) {
            context.settings.find_secret(name)?.map(|value| masked(&value))
        } else {
            context.settings.find(name).map(str::to_owned)
        };
        shown.insert(name.to_owned(), value.map_or(Value::Null, Value::from));
    }
    context.screen.show(&View::of(Value::Object(shown)))
}

fn masked(credentials: &str) -> String {
    match credentials.split_once(':') {
        Some((name, _)) => format!("{name}:******"),
        None => "******".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        assert_eq!(
            (masked("ann:secret:x"), masked("secret")),
            ("ann:******".to_owned(), "******".to_owned())
        );
    }
}
