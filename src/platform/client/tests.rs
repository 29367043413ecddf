//! The client against test routers, in process and over a real socket.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Path as UrlPath, Query},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::{delete, get, post, put},
};
use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::changes::ChangesRequest;
use serde_json::{Value, json};

use crate::{Client, ClientError, Credentials, HttpSettings, Transport};

fn hub() -> Router {
    Router::new()
        .route(
            "/v1/orgs/{org}/nodes/{node}",
            get(|UrlPath((org, node)): UrlPath<(String, String)>, headers: HeaderMap| async move {
                if headers.get("authorization").is_none() {
                    return (StatusCode::UNAUTHORIZED, Json(json!({"code": "invalid-credentials", "msg": "x"})));
                }
                if node == "none" {
                    return (StatusCode::NOT_FOUND, Json(json!({"code": "not-found", "msg": "not found"})));
                }
                let record = json!({"name": node, "lastHeartbeat": null, "userInput": null, "ha_group": "g", "new": 1});
                (StatusCode::OK, Json(json!({"nodes": {format!("{org}/{node}"): record}, "lastIndex": 0})))
            }),
        )
        .route(
            "/v1/orgs/{org}/nodes/{node}/policy",
            put(|Query(query): Query<Vec<(String, String)>>, Json(body): Json<Value>| async move {
                assert_eq!(query, [("noheartbeat".to_owned(), "true".to_owned())]);
                (StatusCode::CREATED, Json(json!({"code": "ok", "msg": body["label"]})))
            }),
        )
        .route("/v1/orgs/{org}/nodes/{node}/errors", delete(|| async { StatusCode::NO_CONTENT }))
        .route(
            "/v1/orgs/{org}/changes",
            post(|headers: HeaderMap, Json(body): Json<Value>| async move {
                assert_eq!(headers["prefer"], "wait=30");
                (StatusCode::CREATED, Json(json!({"changes": [], "mostRecentChangeId": body["changeId"]})))
            }),
        )
        .route("/v1/admin/version", get(|| async { "2.154.0\n".into_response() }))
}

fn client(transport: Transport) -> Client {
    Client::new(transport, "/v1", Credentials::new("acme", "ann", "s3cret")).unwrap()
}

async fn over_http(router: Router) -> Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    client(Transport::http(HttpSettings::new(url)).unwrap())
}

fn node(name: &str) -> NodeId {
    NodeId::new("acme", name)
}

async fn exercise(client: Client) {
    let found = client.node(&node("a/b c")).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.ha_group.as_deref()), ("a/b c", Some("g")));
    assert!(client.node(&node("none")).await.unwrap().is_none());
    let reply = client.put_node_policy(&node("n"), &json!({"label": "x"})).await.unwrap();
    assert_eq!((reply.code.as_str(), reply.msg.as_str()), ("ok", "x"));
    assert!(client.delete_node_errors(&node("n")).await.unwrap());
    assert_eq!(client.exchange_version().await.unwrap(), "2.154.0");
    let request = ChangesRequest { change_id: 7, max_records: 100, ..ChangesRequest::default() };
    let (response, _) = client.wait_for_changes("acme", &request, Duration::from_secs(30)).await.unwrap();
    assert_eq!(response.most_recent_change_id, 7);
}

#[tokio::test]
async fn calls_work_in_process() {
    exercise(client(Transport::router(hub()))).await;
}

#[tokio::test]
async fn calls_work_over_a_socket() {
    exercise(over_http(hub()).await).await;
}

#[tokio::test]
async fn refused_credentials_are_a_status_of_their_own() {
    let error = Client::anonymous(Transport::router(hub()), "/v1").node(&node("n")).await.unwrap_err();
    assert!(error.is_unauthorized() && !error.is_retryable());
    assert_eq!(error.to_string(), "the hub responded with 401: invalid-credentials, x");
}

#[tokio::test]
async fn absent_server_is_retryable_and_its_error_names_no_secret() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = client(Transport::http(HttpSettings::new(url)).unwrap());
    let error = client.node(&node("n")).await.unwrap_err();
    assert!(matches!(error, ClientError::Transport { retryable: true, .. }), "{error:?}");
    assert!(!format!("{client:?} {error:?}").contains("s3cret"));
}

#[test]
fn which_failures_may_pass_by_themselves() {
    let status = |status, msg: &str| ClientError::Status {
        status,
        code: String::new(),
        msg: msg.to_owned(),
        retry_after: None,
    };
    for code in [408, 429, 502, 503, 504] {
        assert!(status(code, "").is_retryable());
    }
    assert!(status(500, "the statement timed out").is_retryable());
    for code in [400, 401, 403, 404, 409, 500] {
        assert!(!status(code, "no").is_retryable());
    }
}

#[test]
fn addresses_of_other_schemes_are_refused() {
    assert!(matches!(Transport::http(HttpSettings::new("ftp://x")), Err(ClientError::Request(_))));
}

#[tokio::test]
async fn refusal_is_explained_in_the_form_of_each_server() {
    let refused = |body: Value| get(move || async move { (StatusCode::BAD_REQUEST, Json(body)) });
    let router = Router::new()
        .route("/hub", refused(json!({"code": "invalid-input", "msg": "of the hub"})))
        .route("/agent", refused(json!({"error": "of the agent", "input": "container"})))
        .route("/other", refused(json!("of another")));
    let client = Client::anonymous(Transport::router(router), "");
    for (path, code, msg) in [
        ("hub", "invalid-input", "of the hub"),
        ("agent", "", "of the agent"),
        ("other", "", "\"of another\""),
    ] {
        let error = client.get::<Value>(crate::Path::new(&[path])).await.unwrap_err();
        let expected = ClientError::Status {
            status: 400,
            code: code.to_owned(),
            msg: msg.to_owned(),
            retry_after: None,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn plain_addresses_of_other_machines_are_recognized() {
    for url in
        ["http://hub.example/v1", "http://10.0.0.1:8080", "HTTP://[2001:db8::1]", "http://localhost.example"]
    {
        assert!(crate::is_plain_off_loopback(url), "{url}");
    }
    for url in [
        "https://hub.example",
        "http://localhost:8080",
        "http://hub.localhost",
        "http://127.8.0.1",
        "http://[::1]:80",
        "http://[::ffff:127.0.0.1]",
        "nonsense",
    ] {
        assert!(!crate::is_plain_off_loopback(url), "{url}");
    }
}

#[tokio::test]
async fn next_address_is_used_while_one_does_not_respond() {
    let router = axum::Router::new().route("/v1/admin/version", axum::routing::get(|| async { "2.0" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let good = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    // Nothing listens on a port that was just released.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = HttpSettings {
        further_urls: vec![format!("{good}/")],
        ..HttpSettings::new(format!("http://{closed}"))
    };
    let client = Client::anonymous(Transport::http(settings).unwrap(), "/v1");
    assert!(client.exchange_version().await.unwrap_err().is_retryable());
    for _ in 0..3 {
        assert_eq!(client.exchange_version().await.unwrap(), "2.0");
    }
    let settings = HttpSettings { further_urls: vec!["ftp://x".to_owned()], ..HttpSettings::new(good) };
    assert!(Transport::http(settings).is_err());
}
