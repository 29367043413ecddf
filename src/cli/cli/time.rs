//! Instants as the existing tool shows them: local time, empty for zero (agbot 5.1).

use jiff::Timestamp;
use jiff::tz::TimeZone;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_local_and_zero_is_nothing() {
        assert_eq!(in_zone(0, TimeZone::UTC), "");
        assert_eq!(in_zone(1_714_557_600, TimeZone::UTC), "2024-05-01 10:00:00 +0000 UTC");
        assert_eq!(in_zone(i64::MAX, TimeZone::UTC), "");
        assert_eq!(seconds_of("2024-05-01T10:00:00Z"), 1_714_557_600);
        assert_eq!(seconds_of("soon"), 0);
    }
}
