//! Versions and ranges of versions as the exchange reads them: digits only, and more forgiving than the agents.
//!
//! A missing bracket is `[` on the left and `)` on the right, a missing end is without end, blanks around a version do not
//! matter. Source: exchange-api 4.0 ("Version format", and what the recorded exchange accepts).

/// A version: three numbers, or above all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExchangeVersion {
    /// One to three groups of digits; missing groups are 0.
    Numbers([u32; 3]),
    /// The word INFINITY in any case.
    Infinity,
}

impl ExchangeVersion {
    /// Reads a version; `None` when the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<ExchangeVersion> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("infinity") {
            return Some(ExchangeVersion::Infinity);
        }
        let mut numbers = [0; 3];
        let mut groups = text.split('.');
        for (place, number) in numbers.iter_mut().enumerate() {
            match groups.next() {
                Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    *number = digits.parse().ok()?;
                }
                None if place > 0 => {}
                _ => return None,
            }
        }
        groups.next().is_none().then_some(ExchangeVersion::Numbers(numbers))
    }
}

/// A range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeRange {
    lower: ExchangeVersion,
    includes_lower: bool,
    upper: ExchangeVersion,
    includes_upper: bool,
}

impl ExchangeRange {
    /// Reads a range; a single version means itself and everything above. `None` when the text is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<ExchangeRange> {
        let text = text.trim();
        let (left, right) = match text.split_once(',') {
            Some((left, right)) if !right.trim().is_empty() => (left.trim(), right.trim()),
            Some((left, _)) => (left.trim(), "INFINITY"),
            None => (text, "INFINITY"),
        };
        let lower = left.strip_prefix(['[', '(']).unwrap_or(left);
        let upper = right.strip_suffix([']', ')']).unwrap_or(right);
        if !lower.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        Some(ExchangeRange {
            lower: ExchangeVersion::parse(lower)?,
            includes_lower: !left.starts_with('('),
            upper: ExchangeVersion::parse(upper)?,
            includes_upper: right.ends_with(']'),
        })
    }

    /// Returns true if the range contains a version.
    #[must_use]
    pub fn contains(&self, version: ExchangeVersion) -> bool {
        let is_above = if self.includes_lower { version >= self.lower } else { version > self.lower };
        let is_below = if self.includes_upper { version <= self.upper } else { version < self.upper };
        is_above && is_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: &str, version: &str) -> bool {
        let version = ExchangeVersion::parse(version).expect("a version");
        ExchangeRange::parse(range).is_some_and(|range| range.contains(version))
    }

    #[test]
    fn versions_are_digits_in_up_to_three_groups() {
        for text in ["1", "1.2", "1.2.3", "01.2.3", " 1.2.3", "1.2.3 ", "INFINITY", "infinity"] {
            assert!(ExchangeVersion::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "1.2.3.4",
            "1.2.x",
            "v1",
            "1.2.3-beta",
            "[1.0.0,2.0.0)",
            "1..2",
            ".1",
            "1.",
            "-1.0.0",
            "99999999999",
        ] {
            assert!(ExchangeVersion::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn single_version_is_everything_from_it_on() {
        assert!(contains("1", "1.4.0"));
        assert!(contains("1.4.0", "1.4.0"));
        assert!(!contains("1.4.1", "1.4.0"));
    }

    #[test]
    fn brackets_decide_about_the_ends() {
        assert!(contains("[1.4.0,1.4.0]", "1.4.0"));
        assert!(!contains("(1.4.0,2.0.0)", "1.4.0"));
        assert!(!contains("(1.4.0,2.0.0)", "2.0.0"));
        assert!(contains("(1.4.0,2.0.0]", "2.0.0"));
        assert!(!contains("(2.0.0,INFINITY)", "2.0.0"));
        assert!(!contains("[3.0.0,1.0.0]", "2.0.0"));
    }

    #[test]
    fn missing_brackets_are_forgiven() {
        assert!(contains("[1.0.0", "1.4.0"));
        assert!(contains("[1.0.0,2.0.0", "1.4.0"));
        for text in ["", "x", "(,)", "[,2.0.0]", "1,2,3"] {
            assert!(ExchangeRange::parse(text).is_none(), "{text}");
        }
    }
}
