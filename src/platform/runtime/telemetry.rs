//! Logs on standard error: readable lines or JSON, filtered by level and module.
//!
//! Standard output is reserved for data. Credentials and bodies are never logged, at any level.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use evenkeel_domain::text::{escaped_json, neutralized};
use serde::Deserialize;
use thiserror::Error;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::request_id::with_current;

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
    let targets = Targets::from_str(filter).map_err(|_| FilterError { filter: filter.to_owned() })?;
    let stderr = std::io::stderr;
    let registry = tracing_subscriber::registry().with(targets);
    // A second call (tests in one process) keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => {
            let line = Format::default().with_ansi(stderr().is_terminal());
            let lines = layer().with_ansi(stderr().is_terminal()).with_writer(stderr);
            registry.with(lines.event_format(OfRequest { line, end: TEXT_END })).try_init()
        }
        LogFormat::Json => {
            let line = Format::default().json().with_current_span(true).with_span_list(false);
            let lines = layer().json().with_writer(stderr);
            registry.with(lines.event_format(OfRequest { line, end: JSON_END })).try_init()
        }
    };
    Ok(())
}

/// The ends of lines of text and of JSON.
const TEXT_END: &str = "\n";
const JSON_END: &str = "}\n";

/// Formats lines with the request they belong to, if any, and without control sequences of terminals.
struct OfRequest<F> {
    line: F,
    /// The suffix of each line, after the name.
    end: &'static str,
}

impl<S, N, F> FormatEvent<S, N> for OfRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.line.format_event(context, Writer::new(&mut line), event)?;
        let line = if self.end == JSON_END { escaped_json(&line).into_owned() } else { one_line(&line) };
        match with_current(str::to_owned) {
            Some(id) => writer.write_str(&named(&line, self.end, &id)),
            None => writer.write_str(&line),
        }
    }
}

/// Returns a line of text without line breaks and control sequences of terminals, apart from the colors of the line itself.
fn one_line(line: &str) -> String {
    let (text, end) = line.strip_suffix(TEXT_END).map_or((line, ""), |text| (text, TEXT_END));
    let safe = neutralized(text).replace('\n', "\\n").replace('\r', "\\r");
    format!("{safe}{end}")
}

/// Returns a line with the id of its request. Ids are visible ASCII, but may contain quotes.
fn named(line: &str, end: &str, id: &str) -> String {
    let id = serde_json::Value::from(id);
    match line.strip_suffix(end) {
        Some(text) if end.starts_with('}') => format!("{text},\"request.id\":{id}{end}"),
        Some(text) => format!("{text} request.id={id}{end}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_request_name_it() {
        assert_eq!(named("INFO done\n", "\n", "a1"), "INFO done request.id=\"a1\"\n");
        let json = named("{\"level\":\"INFO\"}\n", "}\n", "a\"b");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["request.id"], "a\"b");
    }

    #[test]
    fn texts_of_others_stay_within_their_line() {
        let line = one_line("\u{1b}[32mINFO\u{1b}[0m node `a\nERROR forged\u{202e}\u{9b}2J`\n");
        assert_eq!(line, "\u{1b}[32mINFO\u{1b}[0m node `a\\nERROR forged\u{fffd}\u{fffd}2J`\n");
    }
}
