//! `hzn service log`: the output of a service that runs on the node of this machine.

use std::time::Duration;

use evenkeel_client::ClientError;
use evenkeel_wire::agent::service_log::{ServiceLog, ServiceLogQuery};

use super::not_registered;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{print_note, show_foreign, show_text};
use crate::server::Server;

/// Pause between two reads with `--follow`.
const PAUSE: Duration = Duration::from_millis(500);

/// Chooses the output to show.
#[derive(Debug, clap::Args)]
pub struct LogArguments {
    /// Name of the service, or id of an instance
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Container whose output is shown; needed when the service has several
    #[arg(short = 'c', long, value_name = "NAME")]
    container: Option<String>,
    /// Number of last lines to begin with, 10000 at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Follow the output until interrupted or until the service has ended
    #[arg(short = 'f', long = "tail", visible_alias = "follow")]
    follows: bool,
}

/// Shows the output of a service.
///
/// # Errors
/// With status 5 when the node does not run the service or the agent does not respond.
pub async fn show(agent: &Server, arguments: LogArguments) -> Outcome {
    let LogArguments { service, container, lines, follows } = arguments;
    let query = ServiceLogQuery { service, container, lines: Some(lines), after: None };
    let mut part = first(agent, &query).await?;
    loop {
        show_foreign(&part.text)?;
        if !follows {
            let is_open_line = !part.text.is_empty() && !part.text.ends_with('\n');
            return show_text(if is_open_line { "\n" } else { "" });
        }
        tokio::time::sleep(PAUSE).await;
        // Compared by id, because another instance of the service has an output of its own.
        let query = ServiceLogQuery {
            service: part.instance_id,
            container: Some(part.container),
            lines: None,
            after: Some(part.position),
        };
        part = match agent.client.local_service_log(&query).await {
            Ok(Some(part)) => part,
            Ok(None) => {
                print_note("the service has ended");
                return Ok(());
            }
            Err(error) => return Err(agent.failed("reading the output of the service", &error)),
        };
    }
}

async fn first(agent: &Server, query: &ServiceLogQuery) -> Outcome<ServiceLog> {
    let failed = |error: ClientError| match error.status() {
        Some(424) => not_registered("there are no services"),
        _ => agent.failed("reading the output of the service", &error),
    };
    agent.client.local_service_log(query).await.map_err(failed)?.ok_or_else(|| {
        CliError::new(
            Exit::NotFound,
            "there is no output".to_owned(),
            format!("the node runs no service \"{}\"", query.service),
            "list its services: hzn service list",
        )
    })
}
