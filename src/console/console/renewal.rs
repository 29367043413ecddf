//! Renewal of sessions that began with the identity provider: soon before one ends, the next page leads to the provider, which confirms the user
//! without a form. So what a user loses there is lost here when the session ends, at the latest.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, Method, StatusCode, header};

use crate::Console;
use crate::address::encoded;
use crate::layout;
use crate::session::{Session, seconds_now};

/// Part of its life that a session has left when it is renewed.
const LEFT_PART: u64 = 6;

/// Returns the second since 1970 from which a session of so many seconds is to be renewed.
pub(crate) fn renew_from(begun_at: u64, session_secs: u64) -> u64 {
    begun_at + session_secs - session_secs / LEFT_PART
}

/// Seconds after an attempt until the provider is asked again. Until then pages are shown, also while the provider does not respond.
const RETRY_SECS: u64 = 60;

/// Returns the second since 1970 from which a session is to be renewed after an attempt.
pub(crate) fn retry_from(attempted_at: u64) -> u64 {
    attempted_at + RETRY_SECS
}

/// Leads to the renewal instead of a page, when the session is to be renewed. Forms are sent on: their fields would be lost.
pub(crate) async fn renew(State(console): State<Console>, request: Request, next: Next) -> Response {
    let is_page = *request.method() == Method::GET && is_page(request.uri().path(), request.headers());
    let is_due = console.provider_logins.is_some()
        && Session::read(request.headers(), &console).is_some_and(|session| session.is_due(seconds_now()));
    if !is_page || !is_due {
        return next.run(request).await;
    }
    let page = request.uri().path_and_query().map_or("/console", |page| page.as_str());
    Redirect::to(&format!("/console/login/oidc?renew=true&next={}", encoded(page))).into_response()
}

/// Returns whether a request reads a page, not one of its parts or its events.
fn is_page(path: &str, headers: &HeaderMap) -> bool {
    let is_part =
        ["/console/login", "/console/logout", "/console/assets/"].iter().any(|part| path.starts_with(part));
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    !is_part && accepted.is_none_or(|accepted| !accepted.starts_with("text/event-stream"))
}

/// Returns whether the browser goes to the address, instead of a script that reads it. A browser that does not say so is believed.
pub(crate) fn is_navigation(headers: &HeaderMap) -> bool {
    let mode = headers.get("sec-fetch-mode").and_then(|value| value.to_str().ok());
    mode.is_none_or(|mode| mode == "navigate")
}

/// The response to a script that renews a page: it is not able to follow to the provider, and goes to this address instead.
pub(crate) fn for_script() -> Response {
    layout::failure(StatusCode::UNAUTHORIZED, "The session is renewed", "Load the page again.")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            name.parse::<header::HeaderName>().expect("a name"),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn session_is_renewed_in_the_last_part_of_its_life() {
        assert_eq!(renew_from(1_000, 3_600), 4_000);
        assert_eq!(renew_from(0, 60), 50);
    }

    #[test]
    fn pages_are_renewed_and_events_and_logins_are_not() {
        let html = headers("accept", "text/html,*/*");
        for path in ["/console", "/console/orgs/o/nodes", "/console/account"] {
            assert!(is_page(path, &html) && is_page(path, &HeaderMap::new()), "{path}");
        }
        for path in ["/console/login/oidc/callback", "/console/login", "/console/assets/console.js"] {
            assert!(!is_page(path, &html), "{path}");
        }
        assert!(!is_page("/console/orgs/o/live", &headers("accept", "text/event-stream")));
    }

    #[test]
    fn requests_of_scripts_are_no_navigations() {
        for (mode, expected) in [("navigate", true), ("cors", false), ("no-cors", false)] {
            assert_eq!(is_navigation(&headers("sec-fetch-mode", mode)), expected, "{mode}");
        }
        assert!(is_navigation(&HeaderMap::new()));
    }
}
