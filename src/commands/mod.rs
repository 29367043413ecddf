//! Composition roots: each subcommand reads its settings, wires the crates together and runs them.

mod agbot;
mod agbot_metrics;
mod exchange;
mod hub;
mod hzn;
mod import;
mod limits;
mod metrics;
mod migrate;
mod oidc;
mod openapi;
mod serve;
mod settings;
mod shared_secret;
mod simulate;
mod tls;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use evenkeel_runtime::ExitStatus;

/// Keeps services running on fleets of edge nodes.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a whole hub: exchange and agbot, with a PostgreSQL of its own unless one is named.
    Up(Box<up::UpArguments>),
    /// Runs an exchange alone, on an existing PostgreSQL.
    Exchange(Box<exchange::ExchangeArguments>),
    /// Runs an agbot alone, against any exchange; several on one database share the work.
    Agbot(Box<agbot::AgbotArguments>),
    /// Runs an edge agent, which keeps services running on this machine.
    Agent(Box<evenkeel_agent_bin::AgentArguments>),
    /// Prints the version of the agent; an agent runs this before it switches to a program.
    #[command(hide = true)]
    AgentVersion,
    /// The guardian of an agent, which kills tasks whose leases the agent does not renew.
    #[command(hide = true)]
    AgentGuardian(evenkeel_agent_bin::GuardianArguments),
    /// Demonstrates a hub on real processes: a rollout in an HA group, a lost node, a failover, a rollback.
    Demo(evenkeel_demo::DemoArguments),
    /// The service of the demo.
    #[command(hide = true)]
    DemoService(evenkeel_demo::service::ServiceArguments),
    /// The command line for hub and agent; also reached by a link or copy of the program named `hzn`.
    #[command(disable_help_flag = true)]
    Hzn(hzn::HznArguments),
    /// Brings the database's schema to this version.
    Migrate(migrate::MigrateArguments),
    /// Imports the database of a running reference exchange; its clients keep their credentials.
    Import(import::ImportArguments),
    /// Prints the document of the exchange's API.
    Openapi,
    /// Measures speed and memory, each with a comparison in the same run.
    Bench(evenkeel_bench::BenchArguments),
    /// The server that benchmarks compare with.
    #[command(hide = true)]
    BenchHello,
    /// Runs the planner of the agbot through schedules with faults and checks its invariants.
    Simulate(simulate::SimulateArguments),
}

/// Runs the command of the arguments.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    if hzn::is_called_so(&arguments) {
        return hzn::run(arguments);
    }
    let command = match parse_alone(&arguments) {
        Some(command) => command,
        None => match Arguments::try_parse_from(arguments) {
            Ok(arguments) => arguments.command,
            Err(error) => return refuse(&error),
        },
    };
    let outcome = match command {
        Command::Up(arguments) => up::run(*arguments),
        Command::Exchange(arguments) => exchange::run(*arguments),
        Command::Agbot(arguments) => agbot::run(*arguments),
        Command::Agent(arguments) => evenkeel_agent_bin::run(*arguments, &settings::KEYS),
        Command::AgentVersion => {
            evenkeel_agent_bin::print_version();
            Ok(())
        }
        Command::AgentGuardian(arguments) => evenkeel_agent_bin::run_guardian(&arguments),
        Command::Demo(arguments) => evenkeel_demo::run(arguments),
        Command::DemoService(arguments) => evenkeel_demo::service::run(&arguments),
        Command::Hzn(arguments) => match arguments.candidates(Arguments::command) {
            Some(words) => {
                words.iter().for_each(|word| println!("{word}"));
                Ok(())
            }
            None => return hzn::run(arguments.words()),
        },
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::Openapi => openapi::run(),
        Command::Bench(arguments) => evenkeel_bench::run(arguments),
        Command::BenchHello => evenkeel_bench::run_hello(),
        Command::Simulate(arguments) => simulate::run(arguments),
    };
    match outcome {
        Ok(()) => ExitStatus::Success.into(),
        Err(failure) => {
            eprintln!("evenkeel: {failure}");
            failure.status.into()
        }
    }
}

/// Reads the arguments of a command that runs for long, by itself: the tree of all commands would stay in its memory.
///
/// `None` where only the whole tree can respond: another command, help, a wrong option.
fn parse_alone(arguments: &[OsString]) -> Option<Command> {
    match arguments.get(1)?.to_str()? {
        "up" => alone(arguments).map(Box::new).map(Command::Up),
        "exchange" => alone(arguments).map(Box::new).map(Command::Exchange),
        "agbot" => alone(arguments).map(Box::new).map(Command::Agbot),
        "agent" => alone(arguments).map(Box::new).map(Command::Agent),
        "agent-guardian" => alone(arguments).map(Command::AgentGuardian),
        _ => None,
    }
}

fn alone<T: clap::Args>(arguments: &[OsString]) -> Option<T> {
    let command = T::augment_args(clap::Command::new("evenkeel"));
    T::from_arg_matches(&command.try_get_matches_from(&arguments[1..]).ok()?).ok()
}

/// Help and version are not failures.
fn refuse(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a closed terminal.
    let _ = error.print();
    if error.use_stderr() { ExitStatus::Usage.into() } else { ExitStatus::Success.into() }
}
