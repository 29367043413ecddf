//! Instants as the existing tool shows them: local time, empty for zero (agbot 5.1); and as users write them.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use serde_json::Value;

/// Returns seconds since 1970 as local time, such as `2024-05-01 12:00:00 +0200 CEST`; empty for zero and none.
pub fn local_text(value: Option<&Value>) -> String {
    in_zone(value.and_then(Value::as_i64).unwrap_or_default(), TimeZone::system())
}

fn in_zone(seconds: i64, zone: TimeZone) -> String {
    match Timestamp::from_second(seconds) {
        Ok(instant) if seconds != 0 => instant.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string(),
        _ => String::new(),
    }
}

/// Returns an instant on the wire as seconds since 1970; zero if it is malformed.
pub fn seconds_of(text: &str) -> i64 {
    text.parse::<Timestamp>().map(Timestamp::as_second).unwrap_or_default()
}

/// Reads an instant in the past: with a time zone, as local time with or without a date, or as the time since then, such as `90m` or `2h ago`.
/// A time without a date is the latest one.
///
/// # Errors
/// A text that states the forms, or that the instant is in the future.
pub fn past_instant(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    const FORMS: &str = "must be a time such as 14:05, '2026-11-29 14:05', 2026-11-29T14:05:00Z or 2h";
    let text = text.trim();
    let local = |at: DateTime| at.to_zoned(now.time_zone().clone()).map(|at| at.timestamp());
    let read = if let Ok(instant) = text.parse::<Timestamp>() {
        Ok(instant)
    } else if let Ok(at) = text.parse::<DateTime>() {
        local(at)
    } else if let Ok(time) = text.parse::<Time>() {
        let today = now.date().to_datetime(time);
        let is_over = today <= now.datetime();
        if is_over { Ok(today) } else { today.checked_sub(1.day()) }.and_then(local)
    } else {
        let age = text.strip_suffix("ago").unwrap_or(text).trim();
        let age: Span = age.parse().map_err(|_| FORMS.to_owned())?;
        now.checked_sub(age).map(|at| at.timestamp())
    };
    let instant = read.map_err(|_| FORMS.to_owned())?;
    if instant > now.timestamp() { Err("must not be in the future".to_owned()) } else { Ok(instant) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_the_past_are_read_in_all_their_forms() {
        let now: Zoned = "2026-11-29T14:10:00+02:00[+02:00]".parse().unwrap();
        for (text, expected) in [
            ("2026-11-29T12:05:00Z", "2026-11-29T12:05:00Z"),
            ("14:05", "2026-11-29T12:05:00Z"),
            ("14:05:30", "2026-11-29T12:05:30Z"),
            ("14:11", "2026-11-28T12:11:00Z"),
            ("2026-11-28 14:05", "2026-11-28T12:05:00Z"),
            ("2026-11-28T14:05", "2026-11-28T12:05:00Z"),
            ("2026-11-28", "2026-11-27T22:00:00Z"),
            ("90m", "2026-11-29T10:40:00Z"),
            ("2h ago", "2026-11-29T10:10:00Z"),
            ("1d", "2026-11-28T12:10:00Z"),
        ] {
            assert_eq!(past_instant(text, &now).map(|at| at.to_string()), Ok(expected.to_owned()), "{text}");
        }
        assert!(past_instant("2026-11-29T12:11:00Z", &now).is_err_and(|error| error.contains("future")));
        assert!(past_instant("-2h", &now).is_err_and(|error| error.contains("future")));
        for text in ["", "noon", "25:00", "2026-13-01", "5"] {
            assert!(past_instant(text, &now).is_err_and(|error| error.contains("14:05")), "{text}");
        }
    }

    #[test]
    fn instants_are_local_and_zero_is_nothing() {
        assert_eq!(in_zone(0, TimeZone::UTC), "");
        assert_eq!(in_zone(1_714_557_600, TimeZone::UTC), "2024-05-01 10:00:00 +0000 UTC");
        assert_eq!(in_zone(i64::MAX, TimeZone::UTC), "");
        assert_eq!(seconds_of("2024-05-01T10:00:00Z"), 1_714_557_600);
        assert_eq!(seconds_of("soon"), 0);
    }
}
