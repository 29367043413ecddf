//! Logs on standard error: readable lines or JSON, filtered by level and module.
//!
//! Standard output belongs to data. Credentials and bodies are never logged, at any level.

use std::io::IsTerminal;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;
use tracing_subscriber::EnvFilter;

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line an event.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("`{other}` is neither `text` nor `json`")),
        }
    }
}

/// The filter of the log cannot be understood.
#[derive(Debug, Error)]
#[error("`{filter}` is not a log filter such as `info` or `evenkeel_exchange=debug,info`")]
pub struct FilterError {
    filter: String,
}

/// Starts logging for the whole process; the second call does nothing.
///
/// # Errors
/// When `filter` is not a list of levels and modules.
pub fn start(format: LogFormat, filter: &str) -> Result<(), FilterError> {
    let filter = EnvFilter::try_new(filter).map_err(|_| FilterError { filter: filter.to_owned() })?;
    let stderr = std::io::stderr;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // A second call (tests in one process) keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().with_current_span(true).with_span_list(false).try_init(),
    };
    Ok(())
}
