//! Sessions: a cookie that only the console reads, with an API key that expires.
//!
//! A session is an API key of its user, so that it has the user's rights, ends with the account, is listed with the other keys, and is ended by
//! any exchange of the database. The API accepts no cookies.

use std::time::{Duration, SystemTime};

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_client::{Client, ClientError, Credentials};
use evenkeel_http_server::middleware;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};

use crate::Console;
use crate::address::with_fields;

/// Longest life of a session.
pub(crate) const SESSION_SECS: i64 = 12 * 3_600;

/// Label of the API keys that are sessions.
pub(crate) const LABEL: &str = evenkeel_wire::exchange::user::SESSION_LABEL;

/// Account name in the credentials of an API key.
const API_KEY: &str = "apikey";

/// Largest cookie value that is read, in bytes.
const MAX_COOKIE: usize = 4_096;

/// A session, as its cookie holds it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Organization of the user.
    #[serde(rename = "o")]
    pub(crate) org: String,
    /// The user, without the organization.
    #[serde(rename = "u")]
    pub(crate) user: String,
    /// Id of the API key.
    #[serde(rename = "i")]
    pub(crate) key_id: String,
    /// The API key.
    #[serde(rename = "k")]
    key: String,
    /// Seconds since 1970 from which the identity provider has to confirm the user again; none for a session that began with a password.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    renew_from: Option<u64>,
}

impl Session {
    /// A session with a new API key.
    pub(crate) fn new(org: &str, user: &str, key_id: String, key: String) -> Self {
        Self { org: org.to_owned(), user: user.to_owned(), key_id, key, renew_from: None }
    }

    /// The same session, which is renewed from a second since 1970 on.
    pub(crate) fn renewed_from(self, second: u64) -> Self {
        Self { renew_from: Some(second), ..self }
    }

    /// Returns whether it is to be renewed.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.renew_from.is_some_and(|from| from <= now)
    }

    /// Returns the user with the organization.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.org, self.user)
    }

    /// Returns the value of the header that sets the cookie.
    pub(crate) fn cookie(&self, console: &Console, headers: &HeaderMap) -> HeaderValue {
        let text = serde_json::to_vec(self).unwrap_or_default();
        cookie(console, headers, &URL_SAFE_NO_PAD.encode(text), SESSION_SECS)
    }

    /// Reads the session of a request. Whether it still counts is known to the exchange alone.
    pub(crate) fn read(headers: &HeaderMap, console: &Console) -> Option<Self> {
        let value = read_cookie(headers, &cookie_name(console, headers))?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(value).ok()?).ok()
    }
}

/// Returns the seconds since 1970.
pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Returns the value of the header that removes the cookie.
pub(crate) fn removed(console: &Console, headers: &HeaderMap) -> HeaderValue {
    cookie(console, headers, "", 0)
}

/// Returns the value of a cookie that is not too long.
pub(crate) fn read_cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|cookies| cookies.split(';')).find_map(|cookie| {
        let (found, value) = cookie.trim().split_once('=')?;
        (found == name && value.len() <= MAX_COOKIE).then_some(value)
    })
}

fn cookie(console: &Console, headers: &HeaderMap, value: &str, max_age: i64) -> HeaderValue {
    let secure = if console.is_secure(headers) { "; Secure" } else { "" };
    let name = cookie_name(console, headers);
    sensitive(&format!("{name}={value}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={max_age}{secure}"))
}

/// Returns the value of a header that no log shows.
pub(crate) fn sensitive(text: &str) -> HeaderValue {
    let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Returns the name of the cookie: browsers send cookies to every port of a host, and each may be another hub.
fn cookie_name(console: &Console, headers: &HeaderMap) -> String {
    // A cookie with this prefix is set over TLS only.
    let name = if console.is_secure(headers) { "__Secure-evenkeel-console" } else { "evenkeel-console" };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')?.1.parse::<u16>().ok());
    port.map_or_else(|| name.to_owned(), |port| format!("{name}-{port}"))
}

/// The API with the credentials and the address of the reader of a page.
pub(crate) struct Reader {
    pub(crate) session: Session,
    pub(crate) client: Client,
}

/// Age in seconds of what a page that only shows may show.
const DISPLAY_AGE_SECS: u32 = 5;

impl Reader {
    /// The reader of a page that shows much and changes nothing: what the hub computed a moment ago for others will do.
    pub(crate) fn for_display(self) -> Self {
        Self { client: self.client.with_max_age(DISPLAY_AGE_SECS), ..self }
    }

    /// Returns the API with the reason of the reader for the writes; an empty text is none.
    ///
    /// # Errors
    /// When the reason has control characters.
    pub(crate) fn client_with_reason(&self, reason: &str) -> Result<Client, ClientError> {
        match reason {
            "" => Ok(self.client.clone()),
            reason => self.client.clone().with_reason(reason),
        }
    }
}

impl OptionalFromRequestParts<Console> for Reader {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Console,
    ) -> Result<Option<Self>, Self::Rejection> {
        let session = Session::read(&parts.headers, console);
        Ok(session.and_then(|session| {
            let client = caller(parts, console, &Credentials::new(&session.org, API_KEY, &session.key))?;
            Some(Self { session, client })
        }))
    }
}

impl FromRequestParts<Console> for Reader {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let found = <Self as OptionalFromRequestParts<Console>>::from_request_parts(parts, console).await;
        let Ok(found) = found;
        found.ok_or_else(|| to_login(parts.uri.path_and_query().map_or("/console", |path| path.as_str())))
    }
}

/// Returns the redirection to the login page, which leads back to a page.
pub(crate) fn to_login(page: &str) -> Response {
    Redirect::to(&with_fields("/console/login", [("next", page)])).into_response()
}

/// The API for a client with these credentials.
pub(crate) fn caller(parts: &Parts, console: &Console, credentials: &Credentials) -> Option<Client> {
    let client = console.api.with_credentials(credentials.clone()).ok()?;
    let address = parts.extensions.get::<middleware::Client>();
    let address = address.and_then(|client| HeaderValue::try_from(client.address.to_string()).ok());
    Some(match address {
        Some(address) => client.of_client_at(address),
        None => client,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use evenkeel_client::Transport;

    use super::*;

    fn console(is_secure: bool) -> Console {
        let api = Client::anonymous(Transport::router(Router::new()), "/v1");
        Console { api, is_tls: is_secure, provider_logins: None, open_streams: Arc::default() }
    }

    fn session() -> Session {
        Session::new("o", "u;ü", "id".to_owned(), "key".to_owned())
    }

    fn at(host: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))])
    }

    fn sent(cookie: &HeaderValue, host: &'static str) -> HeaderMap {
        let text = cookie.to_str().expect("ASCII");
        let (pair, _) = text.split_once(';').expect("attributes");
        let cookies = format!("other=1; {pair}");
        let mut headers = at(host);
        headers.insert(header::COOKIE, cookies.parse().expect("a value"));
        headers
    }

    #[test]
    fn cookie_is_read_as_it_was_set() {
        for is_secure in [false, true] {
            let console = console(is_secure);
            let cookie = session().cookie(&console, &at("hub:8080"));
            let text = cookie.to_str().expect("ASCII").to_owned();
            assert!(
                cookie.is_sensitive() && text.contains("; Path=/console; HttpOnly; SameSite=Strict;"),
                "{text}"
            );
            assert_eq!(text.ends_with("; Secure"), is_secure);
            let read = Session::read(&sent(&cookie, "hub:8080"), &console).expect("a session");
            assert!(Session::read(&sent(&cookie, "hub:8081"), &console).is_none(), "of another hub");
            assert_eq!(
                (read.name().as_str(), read.key_id.as_str(), read.key.as_str()),
                ("o/u;ü", "id", "key")
            );
        }
    }

    #[test]
    fn cookie_that_is_no_session_is_none() {
        let console = console(false);
        for value in ["", "%", "bm8", &"a".repeat(MAX_COOKIE + 1)] {
            let cookie = format!("evenkeel-console={value}").parse().expect("a value");
            assert!(Session::read(&HeaderMap::from_iter([(header::COOKIE, cookie)]), &console).is_none());
        }
        assert!(Session::read(&sent(&removed(&console, &at("hub")), "hub"), &console).is_none());
        assert!(Session::read(&HeaderMap::new(), &console).is_none());
    }

    #[test]
    fn login_leads_back_to_the_page() {
        let response = to_login("/console/orgs/o/nodes?state=down&after=x");
        let location = response.headers()[header::LOCATION].to_str().expect("ASCII");
        assert_eq!(location, "/console/login?next=%2Fconsole%2Forgs%2Fo%2Fnodes%3Fstate%3Ddown%26after%3Dx");
    }
}
