//! Options that the agent shares with the hub's commands.

use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_runtime::files::{default_state_directory, read_secret};
use evenkeel_runtime::settings::SettingsFile;
use evenkeel_runtime::telemetry::{self, LogFormat};
use evenkeel_runtime::{ExitStatus, Failure, Secret, settings};

/// Names the configuration file.
#[derive(Clone, Debug, Args)]
pub struct ConfigFile {
    /// Configuration file (TOML); each option's long name is its key there.
    #[arg(long, env = "EVENKEEL_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads the file, if one is named; it may have the keys of these groups.
    ///
    /// # Errors
    /// When the file cannot be read, or has another key.
    pub fn read(&self, known: &[&[&str]]) -> Result<SettingsFile, Failure> {
        Ok(SettingsFile::read(self.config.as_deref(), known)?)
    }
}

settings! {
    /// Level and format of the log.
    pub struct LogSettings {
        /// Log filter: a level, or levels by module [default: info,sqlx=warn].
        log: String = "log", "EVENKEEL_LOG";
        /// Form of the log on standard error, text or json [default: text].
        log_format: LogFormat = "log-format", "EVENKEEL_LOG_FORMAT";
    }
}

impl LogSettings {
    /// Starts logging.
    ///
    /// # Errors
    /// When the filter is malformed.
    pub fn start(&self) -> Result<(), Failure> {
        let filter = self.log.as_deref().unwrap_or("info,sqlx=warn");
        telemetry::start(self.log_format.unwrap_or_default(), filter)
            .map_err(|error| Failure::from_error(ExitStatus::Usage, &error))
    }
}

/// Returns the user's directory for state.
///
/// # Errors
/// When there is no home directory.
pub fn state_directory() -> Result<PathBuf, Failure> {
    let none = || Failure::new(ExitStatus::Usage, "there is no home directory for the data: set data-dir");
    default_state_directory().ok_or_else(none)
}

/// Reads a secret from a file that a setting names.
///
/// # Errors
/// When the file cannot be read.
pub fn secret_of_setting(file: &Path) -> Result<Secret<String>, Failure> {
    read_secret(file).map_err(|error| Failure::from_error(ExitStatus::Usage, &error))
}
