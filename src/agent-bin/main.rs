//! `evenkeel-agent`: the edge agent alone, without the hub's code.
//!
//! It takes the arguments of `evenkeel agent`, also with the leading word `agent`, so that an upgrade can replace either program
//! by the other.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};
use evenkeel_agent_bin::{AgentArguments, KEYS, print_version, run};
use evenkeel_runtime::ExitStatus;

const NAME: &str = "evenkeel-agent";

fn main() -> ExitCode {
    // Everything that speaks TLS uses this one provider; a second call could only come from a second `main`.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("agent-version") => {
            print_version();
            return ExitStatus::Success.into();
        }
        Some("agent") => drop(arguments.remove(0)),
        _ => {}
    }
    let command = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs an edge agent, which keeps services running on this machine.")
        .max_term_width(110)
        .no_binary_name(true);
    let parsed = AgentArguments::augment_args(command)
        .try_get_matches_from(arguments)
        .and_then(|matches| AgentArguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            let status = if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Success };
            return status.into();
        }
    };
    match run(arguments, &KEYS) {
        Ok(()) => ExitStatus::Success.into(),
        Err(failure) => {
            eprintln!("{NAME}: {failure}");
            failure.status.into()
        }
    }
}
