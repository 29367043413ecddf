//! Reads the `Authorization` header.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use memchr::memchr;

use crate::ApiError;

/// Longest accepted header value; ids and secrets are short.
const MAX_HEADER: usize = 8 * 1024;

/// Credentials as sent: `org/id:secret` in one piece.
pub struct Login {
    text: String,
    org_end: usize,
    who_end: usize,
}

impl Login {
    /// The login of these parts, which hold no separators of their own place.
    pub fn new(org: &str, id: &str, secret: &str) -> Login {
        Login { text: format!("{org}/{id}:{secret}"), org_end: org.len(), who_end: org.len() + 1 + id.len() }
    }

    /// Organization.
    pub fn org(&self) -> &str {
        &self.text[..self.org_end]
    }

    /// Name inside the organization.
    pub fn id(&self) -> &str {
        &self.text[self.org_end + 1..self.who_end]
    }

    /// `org/id`, in which the organization ends at the first slash.
    pub fn who(&self) -> &str {
        &self.text[..self.who_end]
    }

    /// Password, token or key.
    pub fn secret(&self) -> &str {
        &self.text[self.who_end + 1..]
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The 401 for credentials that are absent, garbled or wrong, or of a name that does not exist: the message
/// does not reveal which names exist.
pub fn bad_credentials() -> ApiError {
    ApiError::invalid_credentials("invalid.credentials")
}

/// Parses the credentials of a request.
///
/// # Errors
/// 401 when they are absent or garbled.
pub fn parse_login(headers: &HeaderMap) -> Result<Login, ApiError> {
    read_login(headers.get(header::AUTHORIZATION).ok_or_else(bad_credentials)?)
}

/// Parses `Basic base64("org/id:secret")`: the organization ends at the first slash, the id at the first colon.
///
/// # Errors
/// 401 when they are garbled.
///
/// # Source
/// Exchange-api 2.1.
pub fn read_login(value: &HeaderValue) -> Result<Login, ApiError> {
    if value.len() > MAX_HEADER {
        return Err(bad_credentials());
    }
    let value = value.to_str().map_err(|_| bad_credentials())?;
    let (scheme, encoded) = value.split_once(' ').ok_or_else(bad_credentials)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(bad_credentials());
    }
    let decoded = STANDARD.decode(encoded.trim()).map_err(|_| bad_credentials())?;
    let text = String::from_utf8(decoded).map_err(|_| bad_credentials())?;
    // By bytes: every request comes here, and searching for characters costs several times as much.
    let who_end = memchr(b':', text.as_bytes()).ok_or_else(bad_credentials)?;
    let (who, secret) = (&text[..who_end], &text[who_end + 1..]);
    let org_end = memchr(b'/', who.as_bytes()).ok_or_else(bad_credentials)?;
    if secret.is_empty() || who.chars().any(char::is_whitespace) || memchr(0, text.as_bytes()).is_some() {
        return Err(bad_credentials());
    }
    if org_end == 0 || org_end + 1 == who_end {
        return Err(bad_credentials());
    }
    Ok(Login { text, org_end, who_end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Login, ApiError> {
        let mut headers = HeaderMap::new();
        let value = format!("bAsIc {}", STANDARD.encode(text));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&value).expect("ascii"));
        parse_login(&headers)
    }

    #[test]
    fn organization_ends_at_the_first_slash_and_secret_starts_after_the_first_colon() {
        let login = parse("o/a/b:s:t").expect("valid");
        assert_eq!((login.org(), login.id(), login.secret()), ("o", "a/b", "s:t"));
        assert_eq!((login.who(), login.text()), ("o/a/b", "o/a/b:s:t"));
        assert_eq!(Login::new("o", "a/b", "s:t").secret(), "s:t");
    }

    #[test]
    fn garbled_logins_are_refused() {
        for text in
            ["", "o", "o/a", "a:b", "o/a:", "/a:s", "o/:s", "o /a:s", "o/a\u{b}:s", "o/ü\u{a0}:s", "o/a:s\0"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_login(&HeaderMap::new()).is_err());
    }
}
