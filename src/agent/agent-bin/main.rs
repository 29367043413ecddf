//! `evenkeel-agent`: the edge agent alone, without the hub's code.
//!
//! It takes the arguments of `evenkeel agent`, also with the leading word `agent`, so that an upgrade can replace either program
//! by the other.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};
use evenkeel_agent::guardian;
use evenkeel_agent_bin::{AgentArguments, KEYS, print_version, run, run_guardian};
use evenkeel_runtime::{ExitStatus, Failure};

const NAME: &str = "evenkeel-agent";

fn main() -> ExitCode {
    // All TLS connections use this provider. The call fails only if a provider is already installed, and nothing before
    // `main` installs one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("agent-version") => {
            print_version();
            return ExitStatus::Success.into();
        }
        Some(guardian::COMMAND) => {
            arguments.remove(0);
            let about = "Kills the tasks whose leases the agent of this machine does not renew.";
            return ended(parse(about, arguments).map(|arguments| run_guardian(&arguments)));
        }
        Some("agent") => drop(arguments.remove(0)),
        _ => {}
    }
    let about = "Runs an edge agent, which keeps services running on this machine.";
    ended(parse(about, arguments).map(|arguments: AgentArguments| run(arguments, &KEYS)))
}

fn parse<A: Args + FromArgMatches>(about: &'static str, arguments: Vec<OsString>) -> Result<A, clap::Error> {
    let command = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .max_term_width(110)
        .no_binary_name(true);
    let matches = A::augment_args(command).try_get_matches_from(arguments)?;
    A::from_arg_matches(&matches)
}

fn ended(outcome: Result<Result<(), Failure>, clap::Error>) -> ExitCode {
    match outcome {
        Ok(Ok(())) => ExitStatus::Success.into(),
        Err(error) => {
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            let status = if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Success };
            status.into()
        }
        Ok(Err(failure)) => {
            eprintln!("{NAME}: {failure}");
            failure.status.into()
        }
    }
}
