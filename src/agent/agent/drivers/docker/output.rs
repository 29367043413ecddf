//! Reads the output that the engine keeps of a container, in parts.
//!
//! The engine prefixes every entry with the time at which it was written; the time of the last entry is the position of a part.

use bollard::{Docker, query_parameters::LogsOptionsBuilder};
use futures_util::StreamExt;
use jiff::Timestamp;

use super::transient;
use crate::drivers::{DriverError, LARGEST_LOG_PART, LogPart, LogStart};

/// Reads a part of a container's output.
pub(super) async fn read(engine: &Docker, id: &str, start: LogStart) -> Result<LogPart, DriverError> {
    let all = LogsOptionsBuilder::new().stdout(true).stderr(true).timestamps(true);
    let (options, mut position) = match start {
        LogStart::Last(lines) => (all.tail(&lines.to_string()), String::new()),
        LogStart::After(position) => (all.since(second_of(&position)?).tail("all"), position),
    };
    let after = position.clone();
    let mut text = String::new();
    let mut entries = std::pin::pin!(engine.logs(id, Some(options.build())));
    while let Some(entry) = entries.next().await {
        let bytes = entry.map_err(transient)?.into_bytes();
        for line in String::from_utf8_lossy(&bytes).split_inclusive('\n') {
            let (stamp, line) = stamped(line);
            // The engine counts whole seconds, so the start may repeat entries of the previous part.
            let Some(stamp) = stamp else { continue };
            if stamp > after.as_str() {
                text.push_str(line);
                position = stamp.to_owned();
            }
        }
        if text.len() >= LARGEST_LOG_PART {
            break;
        }
    }
    Ok(LogPart { text, position })
}

/// Splits an entry into its time and its text.
fn stamped(line: &str) -> (Option<&str>, &str) {
    match line.split_once(' ') {
        Some((stamp, rest)) if stamp.parse::<Timestamp>().is_ok() => (Some(stamp), rest),
        _ => (None, line),
    }
}

/// Returns the second of a position; 0 before the first entry.
fn second_of(position: &str) -> Result<i32, DriverError> {
    if position.is_empty() {
        return Ok(0);
    }
    let at: Timestamp = position
        .parse()
        .map_err(|_| DriverError::Unsuitable(format!("\"{position}\" is not a position in a log")))?;
    i32::try_from(at.as_second())
        .map_err(|_| DriverError::Unsuitable(format!("\"{position}\" is not a position in a log")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_stamp_and_a_text() {
        let stamp = "2026-11-23T05:00:00.123456789Z";
        assert_eq!(stamped(&format!("{stamp} a b\n")), (Some(stamp), "a b\n"));
        assert_eq!(stamped("no stamp\n"), (None, "no stamp\n"));
        assert_eq!(second_of(stamp).unwrap(), 1_795_410_000);
        assert_eq!(second_of("").unwrap(), 0);
        assert!(second_of("soon").is_err());
    }
}
