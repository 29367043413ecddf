//! The start page of a listener: name, version, readiness and links to the manual.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use evenkeel_runtime::health::Health;
use serde_json::{Value, json};

use crate::page::{Page, SECTIONS, get_manual};

#[derive(Clone)]
struct Home {
    health: Health,
    /// The role of the process: hub, exchange or agbot.
    role: &'static str,
    /// True if the listener serves the API document.
    has_document: bool,
}

/// Returns `GET /` and the manual for a listener.
pub fn router(health: &Health, role: &'static str, has_document: bool) -> Router {
    let home = Home { health: health.clone(), role, has_document };
    Router::new().route("/", get(get_home)).route("/manual/{*path}", get(get_manual)).with_state(home)
}

async fn get_home(State(home): State<Home>, headers: HeaderMap) -> Response {
    let (_, report) = home.health.report().await;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    if accept.contains("application/json") && !accept.contains("text/html") {
        return (no_store, Json(home.summary(&report))).into_response();
    }
    (no_store, Html(home.page(&report))).into_response()
}

impl Home {
    fn summary(&self, report: &Value) -> Value {
        let pages = SECTIONS.iter().flat_map(|(_, pages)| pages.iter());
        let manual: Vec<String> = pages.map(|page| format!("/manual/{}", page.path)).collect();
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

    fn page(&self, report: &Value) -> String {
        let manual: String = SECTIONS
            .iter()
            .map(|(title, pages)| {
                let link =
                    |page: &Page| format!("<li><a href=\"/manual/{}\">{}</a></li>", page.path, page.title());
                format!("<h3>{title}</h3><ul>{}</ul>", pages.iter().map(link).collect::<String>())
            })
            .collect();
        let document = if self.has_document { "<p><a href=\"/docs/\">API document</a></p>" } else { "" };
        let status = report["status"].as_str().unwrap_or_default();
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Evenkeel {role}</title>\
             <h1>Evenkeel {role}</h1><p>Keeps services running on fleets of edge nodes.</p>\
             <p>Version {version}. Status: <a href=\"/readyz\">{status}</a>. <a href=\"/metrics\">Metrics</a></p>\
             {document}<h2>Manual</h2>{manual}</html>\n",
            role = self.role,
            version = env!("CARGO_PKG_VERSION"),
        )
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

    #[tokio::test]
    async fn start_page_links_what_there_is_to_read() {
        let (_, report) = home().health.report().await;
        let page = home().page(&report);
        for text in [
            "Evenkeel hub",
            env!("CARGO_PKG_VERSION"),
            ">ready<",
            "/docs/",
            "/manual/explanation/ha-groups.md",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!Home { has_document: false, ..home() }.page(&report).contains("/docs/"));
        let summary = home().summary(&report);
        assert_eq!((&summary["name"], &summary["status"]), (&json!("evenkeel"), &json!("ready")));
    }

    #[tokio::test]
    async fn start_page_comes_in_the_format_asked_for() {
        for (accept, content_type) in
            [("*/*", "text/html; charset=utf-8"), ("application/json", "application/json")]
        {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().expect("ascii"))]);
            let response = get_home(State(home()), headers).await;
            assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{accept}");
        }
    }
}
