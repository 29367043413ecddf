//! Instants as text on the wire.

use jiff::Timestamp;

/// ISO 8601 in UTC with a fraction of 0, 3, 6 or 9 digits, as the reference prints it.
///
/// # Source
/// Exchange-api 9.
#[must_use]
pub fn wire_time(at: Timestamp) -> String {
    let nanoseconds = at.subsec_nanosecond();
    let digits = match nanoseconds {
        0 => 0,
        n if n % 1_000_000 == 0 => 3,
        n if n % 1_000 == 0 => 6,
        _ => 9,
    };
    format!("{at:.digits$}")
}

/// ISO 8601 in UTC with milliseconds, as the resources of orchestration print it.
///
/// # Source
/// Orchestration 0.3.
#[must_use]
pub fn millisecond_time(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orchestration_has_three_digits_whatever_the_fraction_is() {
        for (nanoseconds, text) in [
            (0, "1970-01-01T00:00:01.000Z"),
            (120_000_000, "1970-01-01T00:00:01.120Z"),
            (123_999_999, "1970-01-01T00:00:01.123Z"),
        ] {
            let at = Timestamp::new(1, nanoseconds).expect("in range");
            assert_eq!(millisecond_time(at), text);
        }
    }

    #[test]
    fn fraction_comes_in_groups_of_three_digits() {
        for (nanoseconds, text) in [
            (0, "1970-01-01T00:00:01Z"),
            (120_000_000, "1970-01-01T00:00:01.120Z"),
            (123_450_000, "1970-01-01T00:00:01.123450Z"),
            (123_456_789, "1970-01-01T00:00:01.123456789Z"),
        ] {
            let at = Timestamp::new(1, nanoseconds).expect("in range");
            assert_eq!(wire_time(at), text);
        }
    }
}
