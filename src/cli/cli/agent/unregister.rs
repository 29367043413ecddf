//! `hzn unregister`: stops all services of the node on this machine and removes its registration (agbot 5.3).

use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_client::Unregistered;
use evenkeel_wire::agent::node::UnregisterQuery;

use super::{is_registered, local_node};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::print_note;
use crate::server::Server;

/// Longest wait for the agent to be unregistered after its confirmation.
const SETTLE: Duration = Duration::from_secs(180);
/// Longest wait for all services to end, unless the user sets another time.
const USUAL_LIMIT: Duration = Duration::from_secs(600);

/// Options of `unregister`.
#[derive(Debug, Args)]
pub struct UnregisterArguments {
    /// Do not ask
    #[arg(short = 'f', long)]
    force: bool,
    /// Remove the node from the exchange as well
    #[arg(short = 'r', long)]
    remove: bool,
    /// Remove all data of the agent
    #[arg(short = 'D', long = "deep-clean")]
    deep_clean: bool,
    /// Longest wait for services to stop, in minutes; 0 for the default
    #[arg(short = 't', long, default_value_t = 0, value_name = "MINUTES")]
    timeout: u64,
}

/// Unregisters the node.
///
/// # Errors
/// With status 5 when the agent refuses or does not finish in time.
pub async fn run(arguments: &UnregisterArguments, context: &Context) -> Outcome {
    let agent = context.agent()?;
    if !is_registered(&local_node(&agent).await?) {
        print_note("the node is not registered");
        return Ok(());
    }
    if !confirm("Unregister this node and end all its services?", arguments.force || context.is_dry_run)? {
        print_note("the node stays registered");
        return Ok(());
    }
    let limit = match arguments.timeout {
        0 => USUAL_LIMIT,
        minutes => Duration::from_secs(minutes.saturating_mul(60)),
    };
    leave(&agent, arguments.remove, arguments.deep_clean, limit).await?;
    if !context.is_dry_run {
        wait_until_unregistered(&agent).await?;
    }
    agent.report_done("the node is unregistered");
    Ok(())
}

/// Requests the agent to unregister and waits for its response.
///
/// # Errors
/// With status 5 when it refuses.
pub async fn leave(agent: &Server, removes_node: bool, is_deep: bool, limit: Duration) -> Outcome {
    let yes = |is_set: bool| is_set.then(|| "true".to_owned());
    let query =
        UnregisterQuery { block: yes(true), remove_node: yes(removes_node), deep_clean: yes(is_deep) };
    let left = agent.client.unregister_local_node(&query, limit);
    match agent.call("unregistering the node", left).await? {
        Unregistered::Clean => {}
        Unregistered::Incomplete(why) => print_note(format!("warning: {why}")),
    }
    Ok(())
}

/// The agent may restart meanwhile and then does not respond for a while.
async fn wait_until_unregistered(agent: &Server) -> Outcome {
    let deadline = Instant::now() + SETTLE;
    loop {
        if local_node(agent).await.is_ok_and(|node| !is_registered(&node)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(CliError::new(
                Exit::Http,
                "the node is not unregistered yet",
                format!("the agent did not finish within {} seconds", SETTLE.as_secs()),
                "see the agent's log and hzn node list",
            ));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
