//! Logs users in with the identity provider: the authorization code flow, from the link of the login page to the session.
//!
//! The session is made as after a login with a password: with the id token in the place of the password, the console creates an API key of
//! the user. So the exchange verifies the token, chooses the role, creates the account and counts failures, as for other clients.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_client::Credentials;
use evenkeel_http_server::limit::{AddressLimit, Rate};
use evenkeel_http_server::middleware;
use evenkeel_oidc::{
    BrowserClient, BrowserLogin, CodeFlowError, CodeResponse, Denial, LoginAttempt, Provider,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::login::{self, LoginQuery, own_page};
use crate::renewal::{self, renew_from};
use crate::session::{self, Session, read_cookie, seconds_now, sensitive};
use crate::{Console, cross_site, layout, page};

/// Time in which a user has to log in at the provider.
const ATTEMPT_SECS: u64 = 600;

/// Longest address of a page to which a login leads, in bytes: browsers keep cookies of 4 KiB.
const MAX_NEXT: usize = 1_024;

/// Responses of the provider from one client prefix: each makes the hub call the provider.
const RESPONSE_RATE: Rate = Rate { per_second: 1.0, burst: 30 };

const REFRESH: HeaderName = HeaderName::from_static("refresh");

/// Logins with the identity provider.
pub(crate) struct ProviderLogins {
    provider: Provider,
    responses: AddressLimit,
}

impl ProviderLogins {
    /// Logins with a provider, if it has settings for the console.
    pub(crate) fn new(provider: Provider) -> Option<Arc<Self>> {
        provider.browser_client()?;
        Some(Arc::new(Self { provider, responses: AddressLimit::new(RESPONSE_RATE) }))
    }

    fn client(&self) -> Option<&BrowserClient> {
        self.provider.browser_client()
    }

    /// Name of the provider.
    pub(crate) fn name(&self) -> &str {
        self.client().map_or("", |client| client.name.as_str())
    }

    /// Returns whether browsers that name this host reach it over TLS, which a proxy may terminate.
    pub(crate) fn is_secure_host(&self, host: &str) -> bool {
        self.client().is_some_and(|client| client.is_secure() && client.is_host(host))
    }

    /// Returns where a user ends the session at the provider, if it has such a page.
    pub(crate) async fn end_session_address(&self) -> Option<String> {
        self.provider.end_session_address().await
    }
}

/// An attempt as its cookie holds it.
///
/// The cookie is not sealed: it binds the response to the browser, and its content is worth something in this browser only. An attacker who
/// is able to write cookies of the browser could as well write one that the hub has sealed for the attacker; the prefix prevents that.
#[derive(Serialize, Deserialize)]
struct PendingLogin {
    #[serde(flatten)]
    attempt: LoginAttempt,
    /// The page to which the login leads.
    #[serde(rename = "p")]
    next: String,
    /// Seconds since 1970: browsers restore cookies from earlier days.
    #[serde(rename = "t")]
    begun_at: u64,
    /// The user of the session that is renewed, as `org/user`; none for a login.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    renews: Option<String>,
}

impl PendingLogin {
    fn cookie(&self, client: &BrowserClient) -> HeaderValue {
        let text = serde_json::to_vec(self).unwrap_or_default();
        cookie(client, &URL_SAFE_NO_PAD.encode(text), ATTEMPT_SECS)
    }

    /// Reads the cookie of an attempt that is not too old.
    fn read(headers: &HeaderMap, client: &BrowserClient, now: u64) -> Option<Self> {
        let value = read_cookie(headers, &cookie_name(client))?;
        let pending: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
        now.checked_sub(pending.begun_at).is_some_and(|age| age <= ATTEMPT_SECS).then_some(pending)
    }
}

/// Returns the value of the header that sets or removes the cookie of an attempt.
///
/// `SameSite=Lax`, unlike the session: the provider is another site, and its redirection is the one request from there that has to bring the
/// cookie. Browsers send such a cookie with navigations only, not with forms, frames or scripts of other sites. The prefix `__Host-` makes
/// them refuse one that was set without TLS or by another host of the domain, with which somebody could log a user in under another account.
fn cookie(client: &BrowserClient, value: &str, max_age: u64) -> HeaderValue {
    let name = cookie_name(client);
    let (path, secure) = if client.is_secure() { ("/", "; Secure") } else { ("/console/login", "") };
    sensitive(&format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}"))
}

/// Returns the name of the cookie. The prefix needs TLS, which hubs on loopback addresses may not have; there, each port is another hub.
fn cookie_name(client: &BrowserClient) -> String {
    let name = if client.is_secure() { "__Host-evenkeel-login" } else { "evenkeel-login" };
    client.port().map_or_else(|| name.to_owned(), |port| format!("{name}-{port}"))
}

/// Sends the browser to the provider.
pub(crate) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    query: Result<Query<LoginQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Some((logins, client)) = configured(&console) else { return page::missing().await };
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let renewed = Session::read(&headers, &console).filter(|_| query.renew == Some(true));
    let next = query.next.unwrap_or_default();
    let next = if next.len() <= MAX_NEXT { own_page(&next) } else { own_page("") };
    // A page of another site must not decide when a user logs in.
    if !cross_site::is_followed_here(&headers) {
        return session::to_login(next);
    }
    if renewed.is_some() && !renewal::is_navigation(&headers) {
        return renewal::for_script();
    }
    let mut response = match logins.provider.begin_login(renewed.is_some()).await {
        Ok((attempt, address)) => {
            let renews = renewed.as_ref().map(Session::name);
            let pending = PendingLogin { attempt, next: next.to_owned(), begun_at: seconds_now(), renews };
            let mut response = Redirect::to(&address).into_response();
            let sent = response.headers_mut();
            sent.insert(header::SET_COOKIE, pending.cookie(&client));
            sent.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(_) if renewed.is_some() => Redirect::to(next).into_response(),
        Err(error) => refuse(&client, &error),
    };
    if let Some(session) = renewed {
        let session = session.renewed_from(renewal::retry_from(seconds_now()));
        response.headers_mut().append(header::SET_COOKIE, session.cookie(&console, &headers));
    }
    response
}

/// Ends the login with what the provider has sent the browser back with.
pub(crate) async fn finish(State(console): State<Console>, mut parts: Parts) -> Response {
    let Some((logins, client)) = configured(&console) else { return page::missing().await };
    let query = Query::<CodeResponse>::from_request_parts(&mut parts, &console).await;
    // A parameter that comes twice is that of an attacker.
    let response = query.map_or_else(|_| CodeResponse::default(), |Query(query)| query);
    let pending = PendingLogin::read(&parts.headers, &client, seconds_now());
    let is_renewal = pending.as_ref().is_some_and(|pending| pending.renews.is_some());
    let mut page = match log_in(&console, (&logins, &client), pending, (&parts, &response)).await {
        Ok((next, session)) => welcome(&next, session),
        Err(Refusal::Unconfirmed(next)) => leave(&console, &parts.headers, session::to_login(&next)),
        Err(Refusal::Flow(error)) => refuse(&client, &error),
        Err(Refusal::Hub(status, text)) => {
            let page = show_refusal(&client, status, &text);
            let is_over = is_renewal && status == StatusCode::FORBIDDEN;
            if is_over { leave(&console, &parts.headers, page) } else { page }
        }
    };
    // Whatever has come of it, the attempt is over: a second response finds none.
    page.headers_mut().append(header::SET_COOKIE, cookie(&client, "", 0));
    page
}

/// Returns a response that also ends the session in the browser.
fn leave(console: &Console, headers: &HeaderMap, mut response: Response) -> Response {
    response.headers_mut().append(header::SET_COOKIE, session::removed(console, headers));
    response
}

/// The reason why a response begins no session.
enum Refusal {
    /// The provider does not confirm the user of a session without a form: the user has to log in, which leads to this page.
    Unconfirmed(String),
    /// The provider does not confirm it.
    Flow(CodeFlowError),
    /// The hub does not admit the client or the user.
    Hub(StatusCode, String),
}

impl From<CodeFlowError> for Refusal {
    fn from(error: CodeFlowError) -> Self {
        Self::Flow(error)
    }
}

/// Begins a session; returns the page to which it leads, and its cookie.
async fn log_in(
    console: &Console,
    (logins, client): (&ProviderLogins, &BrowserClient),
    pending: Option<PendingLogin>,
    (parts, response): (&Parts, &CodeResponse),
) -> Result<(String, HeaderValue), Refusal> {
    let pending = pending.ok_or(CodeFlowError::Unbound)?;
    let address = parts.extensions.get::<middleware::Client>().map(|client| client.address);
    if let Some(Err(wait)) = address.map(|address| logins.responses.count(address)) {
        let text = format!("Too many logins from your address. Try again in {wait} seconds.");
        return Err(Refusal::Hub(StatusCode::TOO_MANY_REQUESTS, text));
    }
    // The cookie has been with the browser.
    let next = own_page(&pending.next);
    let unconfirmed = || Refusal::Unconfirmed(next.to_owned());
    let login = match logins.provider.finish_login(&pending.attempt, response).await {
        Err(CodeFlowError::Denied(Denial::Access)) if pending.renews.is_some() => return Err(unconfirmed()),
        login => login?,
    };
    // Another user at the same browser logs in knowingly.
    let user = pending.renews.as_deref().and_then(|name| name.split_once('/'));
    if user.is_some_and(|(_, user)| user != login.person.name) {
        return Err(unconfirmed());
    }
    let wanted = user.map(|(org, _)| org.to_owned()).or_else(|| org_of_page(next));
    let org = organization(logins, &login, wanted.as_deref());
    let api = session::caller(parts, console, &Credentials::bearer(&org, &login.token));
    let api = api.ok_or(CodeFlowError::CodeRefused)?;
    let description = format!("begun by a login to the console with {}", client.name);
    match login::begin(&api, &org, &description, client.session_secs.cast_signed()).await {
        Ok(session) => {
            let session = session.renewed_from(renew_from(seconds_now(), client.session_secs));
            Ok((next.to_owned(), session.cookie(console, &parts.headers)))
        }
        // The words for a wrong password would mislead.
        Err(error) if error.is_unauthorized() => {
            Err(CodeFlowError::IdToken("the exchange refuses it".to_owned()).into())
        }
        Err(error) => {
            let (status, text) = login::refusal(&error);
            Err(Refusal::Hub(status, text))
        }
    }
}

/// Returns the organization of a page.
fn org_of_page(page: &str) -> Option<String> {
    let org = page.strip_prefix("/console/orgs/").and_then(|rest| rest.split(['/', '?']).next())?;
    Some(percent_encoding::percent_decode_str(org).decode_utf8().ok()?.into_owned())
}

/// Returns the organization in which the user logs in: the wanted one, if one of the user's groups has a role there.
fn organization(logins: &ProviderLogins, login: &BrowserLogin, wanted: Option<&str>) -> String {
    let role = logins.provider.settings().choose_role(&login.person.groups, wanted);
    // Without a role the exchange refuses the token in any organization, and says why.
    role.map_or(crate::reads::ROOT_ORG, evenkeel_oidc::GroupRole::organization).to_owned()
}

fn configured(console: &Console) -> Option<(Arc<ProviderLogins>, BrowserClient)> {
    let logins = console.provider_logins.clone()?;
    let client = logins.client()?.clone();
    Some((logins, client))
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct Welcome<'a> {
    next: &'a str,
}

/// Leads to the page, by a page of the console instead of a redirection: browsers do not send a cookie with `SameSite=Strict` along
/// redirections that began at another site, and the user would be at the login page again.
fn welcome(next: &str, cookie: HeaderValue) -> Response {
    let mut response = layout::bare(StatusCode::OK, "Logged in", &Welcome { next });
    let headers = response.headers_mut();
    headers.insert(header::SET_COOKIE, cookie);
    // An own page has neither blanks nor control characters.
    if let Ok(value) = HeaderValue::try_from(format!("0; url={next}")) {
        headers.insert(REFRESH, value);
    }
    response
}

#[derive(Template)]
#[template(path = "login-refused.html")]
struct Refused<'a> {
    provider: &'a str,
    text: &'a str,
    /// The login page at the public address.
    again: String,
}

fn show_refusal(client: &BrowserClient, status: StatusCode, text: &str) -> Response {
    let again = format!("{}/console/login", client.public_address());
    layout::bare(status, "Not logged in", &Refused { provider: &client.name, text, again })
}

fn refuse(client: &BrowserClient, error: &CodeFlowError) -> Response {
    let name = &client.name;
    let (status, text) = match error {
        CodeFlowError::Unbound => {
            let text = "This login was not begun in this browser, has been used already, or took more than 10 minutes.";
            (StatusCode::BAD_REQUEST, text.to_owned())
        }
        CodeFlowError::MixUp => {
            (StatusCode::BAD_REQUEST, format!("This response is not from {name}: it was not used."))
        }
        CodeFlowError::Denied(Denial::Access) => {
            (StatusCode::FORBIDDEN, format!("{name} did not permit the login."))
        }
        CodeFlowError::Denied(Denial::Request) => (
            StatusCode::BAD_GATEWAY,
            format!(
                "{name} does not accept the request of this hub. An administrator has to compare the settings of both."
            ),
        ),
        CodeFlowError::CodeRefused => {
            (StatusCode::UNAUTHORIZED, format!("{name} does not confirm this login. Log in again."))
        }
        CodeFlowError::IdToken(_) => {
            let text = format!(
                "The identity that {name} has confirmed is not accepted; the log of the hub has the reason."
            );
            (StatusCode::UNAUTHORIZED, text)
        }
        CodeFlowError::Denied(Denial::Temporary) | CodeFlowError::Unavailable(_) | CodeFlowError::Busy => {
            let text = format!("{name} cannot confirm logins now. Try again in a moment.");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    };
    let cause: &dyn std::error::Error = error;
    // Everybody can send a response without an attempt, as often as they want.
    if matches!(error, CodeFlowError::Unbound) {
        tracing::debug!(error = cause, "a login to the console with the identity provider failed");
    } else {
        tracing::warn!(error = cause, "a login to the console with the identity provider failed");
    }
    show_refusal(client, status, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(public_url: &str) -> BrowserClient {
        BrowserClient {
            name: "Plant".to_owned(),
            client_id: "evenkeel".to_owned(),
            client_secret_file: None,
            public_url: public_url.to_owned(),
            scopes: Vec::new(),
            session_secs: 3_600,
        }
    }

    fn pending(begun_at: u64) -> PendingLogin {
        let attempt = serde_json::json!({"s": "state", "n": "nonce", "v": "verifier"});
        let attempt = serde_json::from_value(attempt).expect("an attempt");
        PendingLogin { attempt, next: "/console/orgs/o/now".to_owned(), begun_at, renews: None }
    }

    fn sent(cookie: &HeaderValue) -> HeaderMap {
        let text = cookie.to_str().expect("ASCII");
        let pair = text.split_once(';').expect("attributes").0;
        HeaderMap::from_iter([(header::COOKIE, pair.parse().expect("a value"))])
    }

    #[test]
    fn cookie_is_bound_to_the_host_and_ends_soon() {
        let secure = client("https://hub.example");
        let cookie = pending(1_000).cookie(&secure);
        let text = cookie.to_str().expect("ASCII").to_owned();
        assert!(text.starts_with("__Host-evenkeel-login=") && cookie.is_sensitive(), "{text}");
        assert!(text.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"), "{text}");
        assert!(!text.contains("Domain"), "{text}");
        let read = |now| PendingLogin::read(&sent(&cookie), &secure, now).map(|pending| pending.next);
        assert_eq!(read(1_600).as_deref(), Some("/console/orgs/o/now"));
        assert_eq!((read(1_601), read(999)), (None, None), "too old, and of the future");
        assert!(PendingLogin::read(&HeaderMap::new(), &secure, 1_000).is_none());
    }

    #[test]
    fn hub_without_tls_has_a_cookie_for_each_port() {
        let local = client("http://127.0.0.1:8080");
        let cookie = pending(1_000).cookie(&local);
        let text = cookie.to_str().expect("ASCII").to_owned();
        assert!(
            text.starts_with("evenkeel-login-8080=") && text.ends_with("SameSite=Lax; Max-Age=600"),
            "{text}"
        );
        assert!(PendingLogin::read(&sent(&cookie), &local, 1_000).is_some());
        assert!(PendingLogin::read(&sent(&cookie), &client("http://127.0.0.1:8081"), 1_000).is_none());
    }

    #[test]
    fn cookie_that_is_no_attempt_is_none() {
        let secure = client("https://hub.example");
        for value in ["", "bm8", "e30", &"a".repeat(5_000)] {
            let cookie = format!("__Host-evenkeel-login={value}").parse().expect("a value");
            let headers = HeaderMap::from_iter([(header::COOKIE, cookie)]);
            assert!(PendingLogin::read(&headers, &secure, 1_000).is_none(), "{value}");
        }
    }

    #[test]
    fn refusals_name_the_provider_and_what_to_do() {
        let client = client("https://hub.example");
        for (error, status) in [
            (CodeFlowError::Unbound, 400),
            (CodeFlowError::MixUp, 400),
            (CodeFlowError::Denied(Denial::Access), 403),
            (CodeFlowError::Denied(Denial::Request), 502),
            (CodeFlowError::Denied(Denial::Temporary), 503),
            (CodeFlowError::CodeRefused, 401),
            (CodeFlowError::IdToken("why".to_owned()), 401),
            (CodeFlowError::Unavailable("http://10.0.0.1".to_owned()), 503),
            (CodeFlowError::Busy, 503),
        ] {
            assert_eq!(refuse(&client, &error).status().as_u16(), status, "{error}");
        }
    }
}
