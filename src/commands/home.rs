//! The start page of a listener: what this is, whether it is well, and where to read on.

use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use evenkeel_runtime::health::Health;

use serde_json::{Value, json};

/// Pages of the manual: name in the address, title, text.
const MANUAL: [(&str, &str, &str); 9] = [
    ("overview", "Overview", include_str!("../../docs/overview.md")),
    ("running-a-hub", "Running a hub", include_str!("../../docs/running-a-hub.md")),
    ("agent", "The agent", include_str!("../../docs/agent.md")),
    ("ha-groups", "HA groups", include_str!("../../docs/ha-groups.md")),
    ("cli", "Command line", include_str!("../../docs/cli.md")),
    ("security", "Security", include_str!("../../docs/security.md")),
    ("import", "Import", include_str!("../../docs/import.md")),
    ("compatibility", "Compatibility", include_str!("../../docs/compatibility.md")),
    ("exit-codes", "Exit codes", include_str!("../../docs/exit-codes.md")),
];

#[derive(Clone)]
struct Home {
    health: Health,
    /// What runs here: hub, exchange or agbot.
    role: &'static str,
    /// Whether the listener serves the API document.
    has_document: bool,
}

/// Returns `GET /` and the manual for a listener.
pub fn router(health: &Health, role: &'static str, has_document: bool) -> Router {
    let home = Home { health: health.clone(), role, has_document };
    Router::new().route("/", get(get_home)).route("/manual/{page}", get(get_manual)).with_state(home)
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

async fn get_manual(Path(page): Path<String>) -> Response {
    let name = page.strip_suffix(".md").unwrap_or(&page);
    match MANUAL.iter().find(|(one, ..)| *one == name) {
        Some((_, _, text)) => *text,
        None => return (StatusCode::NOT_FOUND, "The manual has no such page.\n").into_response(),
    }
    .into_response()
}

impl Home {
    fn summary(&self, report: &Value) -> Value {
        let manual: Vec<String> = MANUAL.iter().map(|(name, ..)| format!("/manual/{name}.md")).collect();
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
        let manual: String = MANUAL
            .iter()
            .map(|(name, title, _)| format!("<li><a href=\"/manual/{name}.md\">{title}</a></li>"))
            .collect();
        let document = if self.has_document { "<p><a href=\"/docs/\">API document</a></p>" } else { "" };
        let status = report["status"].as_str().unwrap_or_default();
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Evenkeel {role}</title>\
             <h1>Evenkeel {role}</h1><p>Keeps services running on fleets of edge nodes.</p>\
             <p>Version {version}. Status: <a href=\"/readyz\">{status}</a>. <a href=\"/metrics\">Metrics</a></p>\
             {document}<h2>Manual</h2><ul>{manual}</ul></html>\n",
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
        for text in ["Evenkeel hub", env!("CARGO_PKG_VERSION"), ">ready<", "/docs/", "/manual/overview.md"] {
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
        assert_eq!(get_manual(Path("overview.md".to_owned())).await.status(), StatusCode::OK);
        assert_eq!(get_manual(Path("none".to_owned())).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_page_of_the_manual_is_served() {
        let served: Vec<&str> = MANUAL.iter().map(|(name, ..)| *name).collect();
        // How it was built and measured is for those who have the sources.
        let others = ["architecture", "benchmarks"];
        for file in
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("the manual").flatten()
        {
            let name = file.file_name().into_string().expect("text");
            if let Some(name) = name.strip_suffix(".md") {
                assert!(served.contains(&name) || others.contains(&name), "{name} is not served");
            }
        }
    }
}
