//! `hzn exchange deployment orchestration`: the instances of a deployment policy, and the decisions about them (orchestration 2.8).

pub mod action;
pub(super) mod edit;
pub mod events;
pub mod explain;
pub mod status;
mod tasks;

use clap::Subcommand;

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::resource::kinds::POLICIES;
use crate::stops::Force;
use crate::wait::{self, Wait};

/// Commands for the instances of a deployment policy.
#[derive(Debug, Subcommand)]
pub enum OrchCommand {
    /// Shows the current and the desired instances with their nodes
    Status {
        /// Deployment policy
        policy: String,
        /// Only this part: all, or the name of an HA group
        #[arg(long = "unit", value_name = "UNIT")]
        workload_unit: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the tasks: attempts to run an instance in a slot
    Tasks {
        /// Deployment policy
        policy: String,
        #[command(flatten)]
        chosen: tasks::ChosenTasks,
        #[command(flatten)]
        watch: Watch,
    },
    /// Explains the placement of instances
    Explain {
        /// Deployment policy
        policy: String,
        /// This part: all, or the name of an HA group
        #[arg(long = "unit", value_name = "UNIT")]
        workload_unit: Option<String>,
        /// Only this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Runs the desired number of instances, or one on a node; ends a stop and a freeze
    Start(action::Forceable),
    /// Stops all instances, or the one on a node, and starts none until a user does
    Stop(action::Forceable),
    /// Restarts the running instances, one at a time
    Restart(action::Forceable),
    /// Moves an instance to a node
    Takeover(action::Takeover),
    /// Moves the instances to other nodes
    Switch(action::Switch),
    /// Moves the instances to the nodes on which they belong
    Giveback(action::Giveback),
    /// Recovers instances that have failed
    Recover(action::Recover),
    /// Aborts the action in progress; starts and stops that have begun are finished
    Abort {
        /// Deployment policy
        policy: String,
    },
    /// Freezes instances: running ones continue, and nothing is started, stopped, moved or updated
    Freeze(action::Chosen),
    /// Ends a freeze
    Thaw(action::Chosen),
    /// Clears failed starts and stops, so that they are retried
    Clear(action::Chosen),
    /// Sets the desired number of instances: replicas, or flex.target
    Scale {
        /// Deployment policy
        policy: String,
        /// Wanted number of instances
        count: u32,
        #[command(flatten)]
        force: Force,
        #[command(flatten)]
        wait: Wait,
    },
    /// Changes members of `orchestration`
    Set {
        /// Deployment policy
        policy: String,
        /// KEY=VALUE, KEY+=ITEM or KEY-=ITEM, such as update.parallelism=2; KEY=null removes a member
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
        #[command(flatten)]
        force: Force,
        #[command(flatten)]
        wait: Wait,
    },
    /// The update to another version
    Update {
        /// Deployment policy
        policy: String,
        /// Action on the update
        #[command(subcommand)]
        command: action::UpdateCommand,
    },
    /// Shows events, ordered by sequence number
    Events {
        /// Deployment policy
        policy: String,
        #[command(flatten)]
        chosen: events::ChosenEvents,
    },
}

impl OrchCommand {
    /// Returns the part of `status -u PART`. In all other commands `-u` means credentials, which contain a colon.
    pub fn take_part(&mut self, user: &mut UserOptions) {
        if let Self::Status { workload_unit: part @ None, .. } = self
            && user.user_pw.as_ref().is_some_and(|text| !text.contains(':'))
        {
            *part = user.user_pw.take();
        }
    }
}

/// Returns the failure for a node or workload unit that the agbot does not find, for the policy itself, or
/// for an address without an agbot.
async fn missing_part(context: &Context, exchange: &Exchange, policy: &str, part: Option<&str>) -> CliError {
    if let Err(error) = POLICIES.require(exchange, policy).await {
        return error;
    }
    let agbot = match context.agbot(exchange) {
        Ok(agbot) => agbot,
        Err(error) => return error,
    };
    let (org, _) = exchange.split(policy);
    if agbot.client.reasons(&org).await.is_err_and(|error| error.status() == Some(404)) {
        return CliError::new(
            Exit::Http,
            "asking the agbot failed",
            format!("{} is an exchange without an agbot", agbot.url),
            "set HZN_AGBOT_URL to the address of an agbot",
        );
    }
    let advice = format!("hzn exchange deployment orchestration status {policy}");
    CliError::not_found("node or unit of the policy", part.unwrap_or(policy), &advice)
}

/// Runs a command for the instances of a deployment policy.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: OrchCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        OrchCommand::Status { policy, workload_unit, watch } => {
            let read = async || status::read(context, exchange, &policy, workload_unit.as_deref()).await;
            context.show_watched(&watch, read).await
        }
        OrchCommand::Tasks { policy, chosen, watch } => {
            context
                .show_watched(&watch, async || tasks::read(context, exchange, &policy, &chosen).await)
                .await
        }
        OrchCommand::Explain { policy, workload_unit, node, watch } => {
            let about = (workload_unit.as_deref(), node.as_deref());
            context
                .show_watched(&watch, async || explain::read(context, exchange, &policy, about).await)
                .await
        }
        OrchCommand::Start(chosen) => action::run_forced(context, exchange, "start", &chosen).await,
        OrchCommand::Stop(chosen) => action::run_forced(context, exchange, "stop", &chosen).await,
        OrchCommand::Restart(chosen) => action::run_forced(context, exchange, "restart", &chosen).await,
        OrchCommand::Takeover(wanted) => action::take_over(context, exchange, &wanted).await,
        OrchCommand::Switch(wanted) => action::switch(context, exchange, &wanted).await,
        OrchCommand::Giveback(wanted) => action::give_back(context, exchange, &wanted).await,
        OrchCommand::Recover(wanted) => action::recover(context, exchange, &wanted).await,
        OrchCommand::Abort { policy } => action::abort(context, exchange, &policy).await,
        OrchCommand::Freeze(chosen) => action::run(context, exchange, "freeze", &chosen).await,
        OrchCommand::Thaw(chosen) => action::run(context, exchange, "thaw", &chosen).await,
        OrchCommand::Clear(chosen) => action::run(context, exchange, "clear", &chosen).await,
        OrchCommand::Scale { policy, count, force, wait } => {
            edit::scale((context, exchange), &policy, count, force.confirmation()).await?;
            wait::policy::follow_orchestration(&wait, context, exchange, &policy).await
        }
        OrchCommand::Set { policy, changes, force, wait } => {
            edit::set((context, exchange), &policy, &changes, force.confirmation()).await?;
            wait::policy::follow_orchestration(&wait, context, exchange, &policy).await
        }
        OrchCommand::Update { policy, command } => {
            action::run_update(context, exchange, &policy, &command).await
        }
        OrchCommand::Events { policy, chosen } => {
            events::run(context, exchange, events::Subject::Policy(&policy), &chosen).await
        }
    }
}
