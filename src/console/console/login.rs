//! Logs users in and out. A session is an API key: see [`crate::session`].

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_client::{Client, ClientError, Credentials};
use evenkeel_wire::exchange::user::{ApiKeySummary, NewApiKey};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout;
use crate::reads::{self, is_session};
use crate::session::{self, LABEL, Reader, SESSION_SECS, Session};

/// Sessions that one account may have; the oldest one ends for a new one.
const MAX_SESSIONS: usize = 50;

/// Longest field of the form, in bytes.
const MAX_FIELD: usize = 1_024;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    org: &'a str,
    user: &'a str,
    next: &'a str,
    next_encoded: String,
    error: &'a str,
    /// Name of the identity provider; empty without one.
    provider: &'a str,
    /// True after a logout.
    is_left: bool,
    /// Where the session at the provider ends; empty if that is unknown.
    leave_at: String,
}

impl<'a> LoginPage<'a> {
    fn new(console: &'a Console, next: &'a str) -> Self {
        let provider = console.provider_name();
        let next_encoded = crate::address::encoded(next);
        let (org, user, error) = ("", "", "");
        Self { org, user, next, next_encoded, error, provider, is_left: false, leave_at: String::new() }
    }
}

#[derive(Default, Deserialize)]
pub(crate) struct LoginQuery {
    pub(crate) next: Option<String>,
    /// True if a session is to be renewed.
    pub(crate) renew: Option<bool>,
    left: Option<String>,
}

/// Shows the form.
pub(crate) async fn form(
    State(console): State<Console>,
    query: Result<Query<LoginQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let LoginQuery { next, left, .. } = query.map(|Query(query)| query).unwrap_or_default();
    let next = next.unwrap_or_default();
    let is_left = left.is_some();
    let leave_at = if is_left { console.end_session_address().await } else { String::new() };
    let page = LoginPage::new(&console, own_page(&next));
    show(StatusCode::OK, &LoginPage { is_left, leave_at, ..page })
}

fn show(status: StatusCode, form: &LoginPage<'_>) -> Response {
    layout::bare(status, "Log in", form)
}

/// Returns the page to which a login leads: one of the console, never another site.
pub(crate) fn own_page(next: &str) -> &str {
    let is_own = next == "/console" || next.starts_with("/console/");
    let is_plain = next.chars().all(|letter| letter.is_ascii_graphic() && letter != '\\');
    if is_own && is_plain { next } else { "/console" }
}

/// Checks the credentials and begins a session.
pub(crate) async fn log_in(State(console): State<Console>, parts: Parts, form: Form) -> Response {
    let (org, user) = (form.get("org").unwrap_or_default(), form.get("user").unwrap_or_default());
    let (secret, next) = (form.exact("secret"), own_page(form.get("next").unwrap_or_default()));
    let refuse =
        |status, error: &str| show(status, &LoginPage { org, user, error, ..LoginPage::new(&console, next) });
    let is_complete = [org, user, secret].iter().all(|field| !field.is_empty() && field.len() <= MAX_FIELD);
    if !is_complete {
        return refuse(StatusCode::BAD_REQUEST, "Organization, user and password are required.");
    }
    let is_name = !org.contains(['/', ':']) && !user.contains(':');
    let client = session::caller(&parts, &console, &Credentials::new(org, user, secret));
    let Some(client) = client.filter(|_| is_name) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "Organization, user or password contain characters that no login has.",
        );
    };
    match begin(&client, org, "begun by a login to the console", SESSION_SECS).await {
        Ok(session) => {
            let mut response = Redirect::to(next).into_response();
            response.headers_mut().insert(header::SET_COOKIE, session.cookie(&console, &parts.headers));
            response
        }
        Err(error) => {
            let (status, text) = refusal(&error);
            refuse(status, &text)
        }
    }
}

/// Begins a session of the user whose credentials the client has.
///
/// # Shape
/// `description`: of the API key that is the session. `secs`: its life.
pub(crate) async fn begin(
    client: &Client,
    org: &str,
    description: &str,
    secs: i64,
) -> Result<Session, ClientError> {
    let own = client.own_user(org).await?;
    let (name, account) = own.ok_or_else(|| ClientError::Status {
        status: StatusCode::FORBIDDEN.as_u16(),
        code: String::new(),
        msg: "only users can log in to the console".to_owned(),
        retry_after: None,
    })?;
    let user = name.split_once('/').map_or(name.as_str(), |(_, user)| user);
    end_oldest(client, org, user, account.apikeys).await?;
    let body = NewApiKey {
        label: Some(LABEL.to_owned()),
        description: Some(description.to_owned()),
        expires_in: Some(secs),
        ..NewApiKey::default()
    };
    let key = client.create_api_key(org, user, &body).await?;
    Ok(Session::new(org, user, key.id, key.value.unwrap_or_default()))
}

/// Ends the oldest sessions of an account that has too many: an account may hold a limited number of keys.
async fn end_oldest(
    client: &Client,
    org: &str,
    user: &str,
    mut keys: Vec<ApiKeySummary>,
) -> Result<(), ClientError> {
    keys.retain(is_session);
    keys.sort_by(|one, other| one.last_updated.cmp(&other.last_updated));
    let surplus = (keys.len() + 1).saturating_sub(MAX_SESSIONS);
    for key in &keys[..surplus.min(keys.len())] {
        client.delete_api_key(org, user, &key.id).await?;
    }
    Ok(())
}

pub(crate) fn refusal(error: &ClientError) -> (StatusCode, String) {
    let status = error.status().and_then(|status| StatusCode::from_u16(status).ok());
    match (status, error) {
        (Some(StatusCode::UNAUTHORIZED), _) => {
            (StatusCode::UNAUTHORIZED, "Organization, user or password are wrong.".to_owned())
        }
        (Some(StatusCode::TOO_MANY_REQUESTS), ClientError::Status { retry_after, .. }) => {
            let wait = retry_after.unwrap_or(60);
            (StatusCode::TOO_MANY_REQUESTS, format!("Too many failed logins. Try again in {wait} seconds."))
        }
        (Some(status), ClientError::Status { msg, .. }) if status.is_client_error() => (status, msg.clone()),
        // It names what an administrator can do, as at a full disk.
        (Some(StatusCode::SERVICE_UNAVAILABLE), ClientError::Status { msg, .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("The hub cannot check logins now: {msg}."))
        }
        _ => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The hub cannot check logins now. Try again in a moment.".to_owned(),
        ),
    }
}

/// Ends the session.
pub(crate) async fn log_out(
    State(console): State<Console>,
    headers: HeaderMap,
    reader: Option<Reader>,
) -> Response {
    if let Some(reader) = reader
        && let Err(error) = end(&reader, &reader.session.key_id).await
        && !error.is_unauthorized()
    {
        return Failure::from(error).into_response();
    }
    leave(&console, &headers)
}

/// Leads to the login, and removes the cookie.
pub(crate) fn leave(console: &Console, headers: &HeaderMap) -> Response {
    let mut response = Redirect::to("/console/login?left=1").into_response();
    let cookie: HeaderValue = session::removed(console, headers);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}

/// Ends one session of the user, or all.
pub(crate) async fn end_sessions(
    State(console): State<Console>,
    headers: HeaderMap,
    reader: Reader,
    form: Form,
) -> Response {
    match end_chosen(&reader, &form).await {
        Ok(true) => leave(&console, &headers),
        Ok(false) => Redirect::to("/console/account").into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// Returns whether the session of the reader is among those that ended.
async fn end_chosen(reader: &Reader, form: &Form) -> Result<bool, Failure> {
    let own = &reader.session.key_id;
    let chosen = match form.require("session")? {
        "all" => {
            let mut all: Vec<String> = reads::sessions(reader).await?.into_iter().map(|key| key.id).collect();
            // The own key is needed until the others have ended.
            all.sort_by_key(|id| id == own);
            all
        }
        one => vec![one.to_owned()],
    };
    // Other keys of the account are none of the console.
    let known = reads::sessions(reader).await?;
    let is_known = |id: &String| known.iter().any(|session| session.id == *id);
    if !chosen.iter().all(is_known) {
        return Err(Failure::Missing("there is no such session".to_owned()));
    }
    for id in &chosen {
        end(reader, id).await?;
    }
    Ok(chosen.contains(own))
}

async fn end(reader: &Reader, key_id: &str) -> Result<(), ClientError> {
    let Session { org, user, .. } = &reader.session;
    // One that has ended already is gone.
    reader.client.delete_api_key(org, user, key_id).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_never_leads_to_another_site() {
        for (next, page) in [
            ("/console/orgs/o/nodes?state=down", "/console/orgs/o/nodes?state=down"),
            ("/console", "/console"),
            ("//evil.example", "/console"),
            ("/console\\evil", "/console"),
            ("/console/\r\nSet-Cookie: a=b", "/console"),
            ("https://evil.example/console/", "/console"),
            ("/consoles", "/console"),
            ("/console/\0", "/console"),
            ("/console/\u{7f}", "/console"),
            ("", "/console"),
        ] {
            assert_eq!(own_page(next), page, "{next}");
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let error = |status, retry_after| ClientError::Status {
            status,
            code: String::new(),
            msg: "m".to_owned(),
            retry_after,
        };
        assert_eq!(refusal(&error(401, None)).0, StatusCode::UNAUTHORIZED);
        assert!(refusal(&error(429, Some(7))).1.contains("in 7 seconds"));
        assert_eq!(refusal(&error(503, None)).1, "The hub cannot check logins now: m.");
        assert_eq!(refusal(&error(403, None)), (StatusCode::FORBIDDEN, "m".to_owned()));
        assert_eq!(refusal(&error(500, None)).0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
