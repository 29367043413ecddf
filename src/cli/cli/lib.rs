//! The command line `hzn`: commands, flags and exit statuses of the existing tool, the forms of requirement 004, and ours.
//!
//! A command reads settings and arguments ([`context`]), calls servers ([`server`]) and shows one result
//! ([`output`]); it keeps no state. Source: agbot 5; requirements 004 ("Command Line Interface").

mod agbot;
mod agent;
mod apply;
mod approval;
mod attention;
mod call_error;
mod check;
mod completion;
mod confirm;
mod constraints;
mod context;
mod diff;
mod examples;
mod exchange;
mod exit;
mod history;
mod input;
mod key;
mod machine;
mod members;
mod mon;
mod orchestration;
mod output;
mod plan;
mod project;
mod reasons;
mod reference;
mod repeated;
mod resource;
mod rollout;
mod rollout_detail;
mod server;
mod settings;
mod shape;
mod short_forms;
mod sign;
mod signer;
mod stops;
mod text_file;
mod time;
mod update_text;
mod usage;
mod variables;
mod wait;
mod yaml;

pub use crate::output::shortened;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use evenkeel_domain::text::neutralized;

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{Format, Screen};
use crate::settings::Settings;

/// Commands for the hub and for the agent on this machine.
#[derive(Debug, Parser)]
#[command(name = "hzn", version, max_term_width = 110, disable_help_subcommand = true)]
struct Hzn {
    /// Output format: json, yaml or table [default: table on a terminal, json otherwise]
    #[arg(long, global = true, value_enum, value_name = "FORM", hide_possible_values = true)]
    output: Option<Format>,
    /// The same as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    json: bool,
    /// Print every call and its status to standard error
    #[arg(short = 'v', long, global = true)]
    verbose: bool,
    /// Change nothing; print what would be written
    #[arg(long, global = true)]
    dry_run: bool,
    /// Reject files with unknown members or with variables that are not set, instead of warning
    #[arg(long, global = true)]
    strict: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Organizations, users, nodes, services, policies and HA groups of the hub
    Exchange(exchange::ExchangeArguments),
    /// Agreements, rollouts, reasons and events of the hub's agbot
    Agbot(agbot::AgbotArguments),
    /// Rollouts of deployment policies through HA groups
    Rollout(rollout::RolloutArguments),
    /// Shows the instances that a write of a deployment policy would create, replace, move and stop, without changing anything
    Plan(plan::PlanArguments),
    /// Approvals of plans by a second person
    Approval(approval::ApprovalArguments),
    /// Shows the instances of all deployment policies live
    Mon(mon::MonArguments),
    /// Shows the instances, claims and unusual nodes of an instant
    History(history::HistoryArguments),
    /// Shows what differs between two instants: instances, claims and nodes
    Diff(history::DiffArguments),
    /// Makes services, HA groups and policies match files, and shows the changes
    Apply(apply::ApplyArguments),
    /// Checks whether nodes, or all members of an HA group, would get a service
    Deploycheck(Box<check::CheckArguments>),
    /// Explains why a node has, or does not have, the service of a deployment policy
    Explain(check::explain::ExplainArguments),
    /// Registers the node on this machine
    Register(Box<agent::register::RegisterArguments>),
    /// Unregisters the node on this machine
    Unregister(agent::unregister::UnregisterArguments),
    /// The node on this machine
    #[command(subcommand)]
    Node(agent::node::NodeCommand),
    /// Agreements of the node on this machine
    #[command(subcommand)]
    Agreement(agent::agreement::AgreementCommand),
    /// Services on this machine
    #[command(subcommand)]
    Service(agent::service::ServiceCommand),
    /// The policy of the node on this machine
    #[command(subcommand)]
    Policy(agent::policy::PolicyCommand),
    /// Values for the variables of services on this machine
    #[command(subcommand)]
    Userinput(agent::user_input::UserInputCommand),
    /// Management policies on the node of this machine
    #[command(subcommand)]
    Nmstatus(agent::management::ManagementCommand),
    /// Event log of the node on this machine
    #[command(subcommand)]
    Eventlog(agent::event_log::EventLogCommand),
    /// Signing keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Signs and verifies texts, and converts configurations
    #[command(subcommand)]
    Util(sign::UtilCommand),
    /// Shows the workers of the agent on this machine
    Status(agent::status::StatusArguments),
    /// Shows the versions of command line and agent
    Version,
    /// Shows the architecture of this machine
    Architecture,
    /// Shows the effective settings
    Env,
    /// Prints completions for a shell
    Completion {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Prints the reference of all commands
    #[command(hide = true)]
    Reference,
    /// Prints the completions at the cursor of a shell
    #[command(hide = true, name = completion::COMPLETE)]
    Complete {
        /// The words up to the cursor
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Runs the command line; `arguments` begin with the name of the program. Returns the exit status.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let parsed = command().try_get_matches_from(&arguments).and_then(|found| Hzn::from_arg_matches(&found));
    let hzn = match parsed {
        Ok(hzn) => hzn,
        Err(error) => {
            let words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
            if let Some(failure) = usage::failure(&error, command(), &words.collect::<Vec<String>>()) {
                return refuse(&failure);
            }
            // Help is a result, not a failure. An error of writing it to a closed terminal cannot be reported.
            let _ = error.print();
            return if error.use_stderr() { Exit::Input } else { Exit::Done }.code();
        }
    };
    let context = Context {
        settings: Settings::of_machine(),
        screen: Screen { format: if hzn.json { Some(Format::Json) } else { hzn.output } },
        is_verbose: hzn.verbose,
        is_dry_run: hzn.dry_run,
        is_strict: hzn.strict,
    };
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(dispatch(hzn.command, &context)),
        Err(error) => Err(CliError::new(
            Exit::Internal,
            "the command could not be started",
            error.to_string(),
            "check the limits of this account for open files and threads",
        )),
    };
    match outcome {
        Ok(()) => Exit::Done.code(),
        Err(error) => refuse(&error),
    }
}

/// Every command with its examples and short forms.
fn command() -> clap::Command {
    short_forms::add(examples::add(Hzn::command()))
}

fn refuse(error: &CliError) -> u8 {
    // A closed standard error cannot be reported anywhere.
    let _ = std::io::Write::write_fmt(
        &mut anstream::stderr(),
        format_args!("{}\n", neutralized(&error.to_string())),
    );
    error.exit.code()
}

/// Returns the completions at the cursor for a command that another program embeds; `words` start with the program and
/// end with the word at the cursor.
pub fn candidates(command: clap::Command, words: &[String]) -> Vec<String> {
    completion::candidates(command, words).words
}

/// The hidden command by which a shell requests completions.
pub const COMPLETE: &str = completion::COMPLETE;

/// Returns the reference of all commands, as in `docs/reference/cli.md`.
pub fn reference() -> String {
    reference::markdown(Hzn::command())
}

async fn dispatch(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Exchange(arguments) => exchange::run(arguments, context).await,
        Command::Agbot(arguments) => agbot::run(arguments, context).await,
        Command::Rollout(arguments) => rollout::run(arguments, context).await,
        Command::Plan(arguments) => plan::run(&arguments, context).await,
        Command::Approval(arguments) => approval::run(arguments, context).await,
        Command::Mon(arguments) => mon::run(&arguments, context).await,
        Command::History(arguments) => history::show(arguments, context).await,
        Command::Diff(arguments) => history::compare(arguments, context).await,
        Command::Apply(arguments) => apply::run(&arguments, context).await,
        Command::Deploycheck(arguments) => check::run(*arguments, context).await,
        Command::Explain(arguments) => check::explain::run(&arguments, context).await,
        Command::Register(arguments) => agent::register::run(&arguments, context).await,
        Command::Unregister(arguments) => agent::unregister::run(&arguments, context).await,
        Command::Node(command) => agent::node::run(command, context).await,
        Command::Agreement(command) => agent::agreement::run(command, context).await,
        Command::Service(command) => agent::service::run(command, context).await,
        Command::Policy(command) => agent::policy::run(command, context).await,
        Command::Userinput(command) => agent::user_input::run(command, context).await,
        Command::Nmstatus(command) => agent::management::run(command, context).await,
        Command::Eventlog(command) => agent::event_log::run(command, context).await,
        Command::Key(command) => key::run(command, context).await,
        Command::Util(command) => sign::run(command, context),
        Command::Status(arguments) => agent::status::show_status(&arguments, context).await,
        Command::Version => agent::status::show_version(context).await,
        Command::Architecture => agent::status::show_architecture(context),
        Command::Env => agent::status::show_environment(context),
        Command::Completion { shell } => completion::show(shell, crate::command()),
        Command::Complete { words } => completion::complete(&words, crate::command(), context).await,
        Command::Reference => output::show_text(&reference()),
    }
}

#[cfg(test)]
mod tests;
