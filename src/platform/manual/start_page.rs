//! The start page of a listener: name, version, readiness, and where to read on.

use askama::Template;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel_pages::{Area, Frame, Markup, page};
use evenkeel_runtime::health::Health;
use serde_json::{Value, json};

use crate::book::{PAGES, SEARCH_FORM};

/// Sections of the book that the summary lists: those for users.
const LISTED_SECTIONS: usize = 4;

/// What a listener says about its process.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) health: Health,
    /// The role of the process: hub, exchange or agbot.
    pub(crate) role: &'static str,
    /// True if the listener serves the API document.
    pub(crate) has_document: bool,
}

/// Responds to `GET /` with a page, or with a summary for clients that ask for JSON.
pub(crate) async fn get_home(State(home): State<Home>, headers: HeaderMap) -> Response {
    let (is_ready, report) = home.health.report().await;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("application/json") && !accept.contains("text/html") {
        return ([(header::CACHE_CONTROL, "no-store")], Json(home.summary(&report))).into_response();
    }
    page(StatusCode::OK, home.page(is_ready, &report)).map(Body::from)
}

#[derive(Template)]
#[template(path = "start.html")]
struct Start<'a> {
    role: &'static str,
    summary: &'static str,
    version: &'static str,
    has_document: bool,
    /// True if the listener serves the console.
    has_console: bool,
    is_ready: bool,
    is_draining: bool,
    /// Dependencies that are not available, each with its reason.
    missing: Vec<(&'a str, &'a str)>,
    command: &'static str,
}

impl Home {
    fn summary(&self, report: &Value) -> Value {
        let pages = PAGES.iter().filter(|page| page.section < LISTED_SECTIONS);
        let manual: Vec<String> = pages.map(|page| format!("/manual/{}.md", page.path)).collect();
        let mut summary = json!({
            "name": "evenkeel",
            "role": self.role,
            "version": env!("CARGO_PKG_VERSION"),
            "status": report["status"],
            "manual": manual,
        });
        if self.has_document {
            summary["documentation"] = json!("/docs/");
        }
        summary
    }

    fn page(&self, is_ready: bool, report: &Value) -> String {
        let dependencies = report["dependencies"].as_object().into_iter().flatten();
        let reasons = dependencies.map(|(name, reason)| (name.as_str(), reason.as_str().unwrap_or_default()));
        let (summary, command) = match self.role {
            "agbot" => {
                ("Places services on nodes and rolls out their versions.", "evenkeel hzn agbot status")
            }
            "exchange" => {
                ("Keeps organizations, nodes, services and policies.", "evenkeel hzn exchange status")
            }
            _ => ("Keeps services running on fleets of edge nodes.", "evenkeel hzn exchange status"),
        };
        let start = Start {
            role: self.role,
            summary,
            version: env!("CARGO_PKG_VERSION"),
            has_document: self.has_document,
            has_console: self.role == "hub",
            is_ready,
            is_draining: report["status"] == "draining",
            missing: reasons.filter(|(_, reason)| *reason != "ok").collect(),
            command,
        };
        let main = Markup::render(&start).expect("the template calls no fallible filter");
        let title = format!("{} {}", self.role, env!("CARGO_PKG_VERSION"));
        let (tools, none) = (&Markup::trusted(SEARCH_FORM), &Markup::default());
        let (title, main) = (title.as_str(), &main);
        Frame {
            title,
            area: Area::Start,
            head_links: &[],
            scripts: &[],
            tools,
            aside: none,
            main,
            outline: none,
        }
        .html()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_runtime::metrics::Metrics;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn home() -> Home {
        let health = Health::new("1.2.3", CancellationToken::new(), Metrics::default());
        Home { health, role: "hub", has_document: true }
    }

    async fn page_of(home: &Home) -> String {
        let (is_ready, report) = home.health.report().await;
        home.page(is_ready, &report)
    }

    #[tokio::test]
    async fn start_page_links_what_there_is_to_read() {
        let page = page_of(&home()).await;
        for text in ["Evenkeel hub", env!("CARGO_PKG_VERSION"), "<strong>Ready.</strong>"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        for href in ["/console", "/docs/", "/manual", "/metrics", "/readyz", "/manual/tutorial/five-minutes"]
        {
            assert!(page.contains(&format!("href=\"{href}\"")), "{href}: {page}");
        }
        assert!(page.contains("evenkeel hzn exchange status"), "{page}");
        let agbot = page_of(&Home { has_document: false, role: "agbot", ..home() }).await;
        assert!(!agbot.contains("/docs/") && !agbot.contains("console"), "{agbot}");
        assert!(agbot.contains("evenkeel hzn agbot status"), "{agbot}");
    }

    #[tokio::test]
    async fn start_page_names_what_is_not_ready() {
        let home = home();
        home.health.depend("database", || async { Ok(()) });
        home.health.depend("agbot", || async { Err("still reading <policies>".to_owned()) });
        let page = page_of(&home).await;
        assert!(page.contains("<strong>Not ready.</strong>"), "{page}");
        assert!(page.contains("<b>agbot</b>: still reading &#60;policies&#62;"), "{page}");
        assert!(!page.contains("<b>database</b>"), "{page}");
    }

    #[tokio::test]
    async fn start_page_says_that_the_process_drains() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let health = Health::new("1.2.3", shutdown, Metrics::default());
        let page = page_of(&Home { health, ..home() }).await;
        assert!(page.contains("<strong>Draining.</strong>"), "{page}");
    }

    #[tokio::test]
    async fn summary_lists_the_pages_for_users() {
        let (_, report) = home().health.report().await;
        let summary = home().summary(&report);
        assert_eq!((&summary["name"], &summary["status"]), (&json!("evenkeel"), &json!("ready")));
        let manual: Vec<&str> =
            summary["manual"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert!(manual.contains(&"/manual/explanation/ha-groups.md"), "{manual:?}");
        assert!(!manual.iter().any(|page| page.contains("/adr/")), "{manual:?}");
    }

    #[tokio::test]
    async fn start_page_comes_in_the_format_asked_for() {
        for (accept, content_type) in
            [("*/*", "text/html; charset=utf-8"), ("application/json", "application/json")]
        {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().expect("ascii"))]);
            let response = get_home(State(home()), headers).await;
            assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{accept}");
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store", "{accept}");
        }
    }
}
