//! Requests that browsers send from pages of other origins, and the headers of pages.

use std::process::Command;

use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::wait::must;
use crate::support::{Hub, Scratch};

const CONSOLE: &str = "https://console.example";
const EVIL: &str = "https://evil.example";

async fn ask(hub: &Hub, method: Method, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap) {
    let mut request = hub.client.request(method, format!("{}{path}", hub.url));
    request = request.basic_auth("root/root", Some(hub.root_password()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.headers().clone())
}

fn cors_headers(headers: &HeaderMap) -> Vec<&str> {
    headers
        .keys()
        .map(reqwest::header::HeaderName::as_str)
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

#[tokio::test]
async fn pages_of_other_origins_get_no_access_unless_they_are_listed() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--agbot-listen", "127.0.0.1:0"]).await;
    assert_eq!(
        hub.call("POST", "/orgs/o", Some(serde_json::json!({"label": "", "description": ""}))).await.0,
        201
    );
    let paths =
        ["/v1/orgs/o", "/v1/orgs/o/agbot/reasons", "/v1/agbot/status", "/livez", "/docs/", "/metrics"];
    for origin in [EVIL, CONSOLE, "null"] {
        for path in paths {
            let (_, headers) = ask(&hub, Method::GET, path, &[("origin", origin)]).await;
            assert!(cors_headers(&headers).is_empty(), "{path} {headers:?}");
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                let (status, headers) = ask(&hub, method.clone(), path, &[("origin", origin)]).await;
                assert_eq!((status, cors_headers(&headers).len()), (403, 0), "{method} {path}");
            }
            let asked = [("origin", origin), ("access-control-request-method", "DELETE")];
            let (_, headers) = ask(&hub, Method::OPTIONS, path, &asked).await;
            assert!(cors_headers(&headers).is_empty(), "{path} {headers:?}");
        }
    }
    let (status, _) = ask(&hub, Method::GET, "/v1/orgs/o", &[]).await;
    assert_eq!(status, 200, "the organization is still there");
    let (status, _) = ask(&hub, Method::DELETE, "/v1/orgs/o", &[("origin", &hub.url)]).await;
    assert_eq!(status, 204, "pages of the hub itself may");
}

#[tokio::test]
async fn listed_origins_may_use_every_method_and_never_the_credentials_of_the_browser() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--cors-origins", CONSOLE]).await;
    for path in ["/v1/orgs", "/v1/orgs/o/agbot/reasons"] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let asked = [
                ("origin", CONSOLE),
                ("access-control-request-method", method),
                ("access-control-request-headers", "authorization, content-type"),
            ];
            let (status, headers) = ask(&hub, Method::OPTIONS, path, &asked).await;
            assert_eq!(status, 204, "{method} {path}");
            assert_eq!(headers["access-control-allow-origin"], CONSOLE);
            let allowed = |name: &str| headers[name].to_str().expect("ASCII").to_ascii_lowercase();
            assert!(allowed("access-control-allow-methods").contains(&method.to_ascii_lowercase()));
            for name in ["authorization", "content-type"] {
                assert!(allowed("access-control-allow-headers").contains(name));
            }
            assert!(!headers.contains_key("access-control-allow-credentials"));
        }
        let (_, headers) = ask(&hub, Method::GET, path, &[("origin", CONSOLE)]).await;
        assert_eq!(headers["access-control-allow-origin"], CONSOLE, "{path}");
        assert_eq!(headers["vary"], "Origin");
        assert!(!headers.contains_key("access-control-allow-credentials"));
        let (status, headers) = ask(&hub, Method::DELETE, path, &[("origin", EVIL)]).await;
        assert_eq!((status, cors_headers(&headers).len()), (403, 0));
    }
    let (status, _) = ask(&hub, Method::DELETE, "/v1/orgs/none", &[("origin", CONSOLE)]).await;
    assert_eq!(status, 404, "the request gets to its operation");
}

#[tokio::test]
async fn pages_are_confined_and_every_response_forbids_sniffing() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    for path in
        ["/", "/docs/", "/docs/index.css", "/v1/swagger", "/manual/explanation/architecture.svg", "/none"]
    {
        let (_, headers) = ask(&hub, Method::GET, path, &[("accept", "text/html")]).await;
        let policy = headers["content-security-policy"].to_str().expect("ASCII");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
            "{path} {policy}"
        );
        assert!(
            !policy.split(';').any(|rule| rule.contains("script-src") && rule.contains("unsafe")),
            "{policy}"
        );
        assert_eq!(headers["x-frame-options"], "DENY", "{path}");
    }
    for path in ["/", "/manual", "/manual/how-to/drain-a-node", "/manual/search?q=drain"] {
        let (status, headers) = ask(&hub, Method::GET, path, &[("accept", "text/html")]).await;
        assert_eq!(
            (status, &headers["content-type"]),
            (200, &"text/html; charset=utf-8".parse().expect("ASCII"))
        );
        let policy = headers["content-security-policy"].to_str().expect("ASCII");
        assert!(!policy.contains("unsafe") && policy.contains("style-src 'self';"), "{path} {policy}");
    }
    for path in ["/", "/docs/", "/v1/orgs", "/v1/agbot/status", "/livez", "/metrics", "/manual/adr/README.md"]
    {
        let (_, headers) = ask(&hub, Method::GET, path, &[]).await;
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["strict-transport-security"], "max-age=63072000", "{path}");
    }
}

#[test]
fn wildcards_are_no_origins() {
    for origins in ["*", "null", "https://*.example", "console.example"] {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args([
                "up",
                "--data-dir",
                "/nonexistent/evenkeel",
                "--listen",
                "127.0.0.1:0",
                "--cors-origins",
                origins,
            ])
            .output();
        let output = must(output, "the program");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{origins}: {errors}");
        assert!(errors.contains("cors-origins") && errors.contains(origins), "{errors}");
    }
}
