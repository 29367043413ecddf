//! The reason that a caller gives for a write.

use evenkeel_wire::exchange::revision::REASON;
use http::HeaderMap;

use crate::ApiError;

/// Longest reason, in characters.
const LONGEST: usize = 1_000;

/// A reason for a write; empty without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reason(String);

impl Reason {
    /// Reads the reason of a request.
    ///
    /// # Errors
    /// 400 naming the header and the rule.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Reason, ApiError> {
        let refuse = |rule: &str| Err(ApiError::invalid_input(format!("X-Reason: {rule}")));
        let mut given = headers.get_all(REASON).iter();
        let Some(value) = given.next() else { return Ok(Reason::default()) };
        if given.next().is_some() {
            return refuse("it may be given once only");
        }
        let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
            return refuse("it must be UTF-8");
        };
        if text.chars().any(char::is_control) {
            return refuse("it must have printable characters only");
        }
        match text.chars().count() {
            0..=LONGEST => Ok(Reason(text.trim().to_owned())),
            count => refuse(&format!("it has {count} characters, and may have {LONGEST}")),
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn reason(bytes: &[u8]) -> Result<String, String> {
        let value = HeaderValue::from_bytes(bytes).expect("a header");
        let read = Reason::of(&HeaderMap::from_iter([(http::HeaderName::from_static(REASON), value)]));
        read.map(|reason| reason.0).map_err(|error| error.to_string())
    }

    #[test]
    fn reasons_are_short_printable_texts() {
        assert_eq!(Reason::of(&HeaderMap::new()).ok(), Some(Reason::default()));
        assert_eq!(reason("größer, ticket 7".as_bytes()), Ok("größer, ticket 7".to_owned()));
        assert_eq!(reason("é".repeat(LONGEST).as_bytes()), Ok("é".repeat(LONGEST)));
        let long = reason("x".repeat(LONGEST + 1).as_bytes()).expect_err("too long");
        assert!(long.contains("X-Reason") && long.contains("1001 characters, and may have 1000"), "{long}");
        for wrong in [&b"a\tb"[..], &b"\xff"[..], "\u{85}".as_bytes()] {
            assert!(reason(wrong).is_err(), "{wrong:?}");
        }
    }
}
