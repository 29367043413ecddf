//! The guardian of an agent as a program: started by the agent, or by the service manager of the machine.

use std::path::PathBuf;

use clap::Args;
use evenkeel_agent::guardian;
use evenkeel_runtime::{ExitStatus, Failure, Lifecycle};

use super::options::LogSettings;

/// Options of `agent-guardian`.
#[derive(Debug, Args)]
pub struct GuardianArguments {
    /// Data directory of the agent
    #[arg(long, env = "EVENKEEL_DATA_DIR", value_name = "DIRECTORY")]
    data_dir: PathBuf,
    /// Ends when the agent no longer needs it; set by the agent that starts it
    #[arg(long, hide = true)]
    of_agent: bool,
    #[command(flatten)]
    log: LogSettings,
}

/// Runs a guardian until a signal or its agent ends it.
///
/// # Errors
/// With the status to end the process with.
pub fn run_guardian(arguments: &GuardianArguments) -> Result<(), Failure> {
    arguments.log.start()?;
    let failed = |error: std::io::Error| Failure::from_error(ExitStatus::Failure, &error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(failed)?;
    let outcome = runtime.block_on(async {
        let lifecycle = Lifecycle::listen().map_err(failed)?;
        let outcome = guardian::serve(&arguments.data_dir, arguments.of_agent, lifecycle.shutdown()).await;
        outcome.map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))
    });
    runtime.shutdown_background();
    outcome
}
