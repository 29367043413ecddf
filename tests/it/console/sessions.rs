//! Logins, and how sessions end.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::browser::Browser;
use crate::support::wait::must;
use crate::support::{Hub, Scratch};

async fn hub_with_users(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for (name, admin) in [("admin", true), ("user", false)] {
        let body = json!({"password": format!("secret of {name}"), "email": "e", "admin": admin});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    hub
}

#[tokio::test]
async fn login_begins_a_session_that_only_the_console_accepts() {
    let scratch = Scratch::new();
    let hub = hub_with_users(&scratch).await;
    let mut browser = Browser::new(&hub);
    let page = browser.get("/console/orgs/o/now").await;
    assert_eq!(page.status, 303);
    assert_eq!(page.location.as_deref(), Some("/console/login?next=%2Fconsole%2Forgs%2Fo%2Fnow"));

    for (org, user, password, status) in [
        ("o", "user", "wrong", 401),
        ("o", "nobody", "secret of user", 401),
        ("p", "user", "secret of user", 401),
        ("o", "user", "", 400),
        ("o/p", "user", "x", 400),
    ] {
        let page = browser.log_in(org, user, password).await;
        assert_eq!((page.status, browser.cookie.is_none()), (status, true), "{org} {user}: {}", page.text);
        assert!(page.text.contains("role=\"alert\"") && !page.text.contains("secret of"), "{}", page.text);
    }
    let page = browser.log_in("o", "user", "secret of user").await;
    assert_eq!((page.status, page.location.as_deref()), (303, Some("/console")));
    assert_eq!(browser.get("/console").await.location.as_deref(), Some("/console/orgs/o/now"));
    let page = browser.get("/console/orgs/o/now").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("o/user"), "{}", page.text);

    // The API reads no cookies.
    let cookie = browser.cookie.clone().expect("a cookie");
    let response = hub.client.get(format!("{}/v1/orgs/o", hub.url)).header("cookie", cookie).send().await;
    assert_eq!(must(response, "a response").status(), 401);
}

#[tokio::test]
async fn session_ends_when_its_user_logs_out_or_is_deleted() {
    let scratch = Scratch::new();
    let hub = hub_with_users(&scratch).await;
    let mut first = Browser::of(&hub, "o", "user", "secret of user").await;
    let mut second = Browser::of(&hub, "o", "user", "secret of user").await;
    let page = first.get("/console/account").await;
    assert_eq!(page.text.matches(">End</button>").count(), 2, "{}", page.text);

    let stolen = first.cookie.clone();
    assert_eq!(first.send("/console/logout", &BTreeMap::new()).await.status, 303);
    assert!(first.cookie.is_none());
    first.cookie = stolen;
    assert_eq!(first.get("/console/account").await.status, 303, "the key is gone with the session");
    assert_eq!(second.get("/console/account").await.status, 200);

    let mut third = Browser::of(&hub, "o", "user", "secret of user").await;
    let all = BTreeMap::from([("session", "all")]);
    assert_eq!(second.send("/console/account/sessions/end", &all).await.status, 303);
    assert_eq!(third.get("/console/account").await.status, 303, "logged out everywhere");

    let mut fourth = Browser::of(&hub, "o", "user", "secret of user").await;
    assert_eq!(hub.call("DELETE", "/orgs/o/users/user", None).await.0, 204);
    assert_eq!(fourth.get("/console/orgs/o/nodes").await.status, 303, "the user is gone");
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let scratch = Scratch::new();
    let hub = hub_with_users(&scratch).await;
    let mut browser = Browser::of(&hub, "o", "admin", "secret of admin").await;
    let all = BTreeMap::from([("session", "all")]);
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site"), ("origin", "https://evil.example")],
        &[("origin", "https://evil.example")],
        &[],
    ] {
        let path = "/console/account/sessions/end";
        let page = browser.request(Method::POST, path, Some(&all), headers).await;
        assert_eq!(page.status, 403, "{headers:?}");
    }
    assert_eq!(browser.get("/console/account").await.status, 200);
}

#[tokio::test]
async fn hostile_forms_and_queries_are_refused_with_the_rule() {
    let scratch = Scratch::new();
    let hub = hub_with_users(&scratch).await;
    let mut browser = Browser::of(&hub, "o", "admin", "secret of admin").await;
    let long = "x".repeat(200_000);
    let page = browser.send("/console/login", &BTreeMap::from([("org", long.as_str())])).await;
    assert_eq!(page.status, 400);
    for (query, status, text) in [
        ("filter=site+%3D%3D", 200, "filter: "),
        ("filter=%3Cscript%3Ealert(1)%3C/script%3E", 200, "&#60;script&#62;"),
        ("state=asleep", 200, "state must be one of up, away, down, never-heard"),
        ("after=other/n", 200, "no node of the organization o"),
        ("after=zzz", 200, "No more nodes"),
    ] {
        let page = browser.get(&format!("/console/orgs/o/nodes?{query}")).await;
        assert!(page.status == status && page.text.contains(text), "{query}: {} {}", page.status, page.text);
        assert!(!page.text.contains("<script>alert"), "{query}");
    }
    let page = browser.get("/console/orgs/o/policies/none").await;
    assert!(page.status == 404 && page.text.contains("does not exist"), "{}", page.text);
    for path in ["/console/nothing", "/console/orgs/o/do/nothing?node=n", "/console/orgs/o/nodes/none"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    let page = browser.get("/console/orgs/other/now").await;
    assert_eq!(page.status, 403, "another organization: {}", page.text);
}

/// Requests a path as it is written, which clients of the standard would resolve first; returns the status line.
async fn request_raw(hub: &Hub, path: &str, cookie: &str) -> String {
    let address = hub.url.strip_prefix("http://").expect("an address");
    let mut stream = must(TcpStream::connect(address).await, "a connection");
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
    must(stream.write_all(request.as_bytes()).await, "a request");
    let mut response = Vec::new();
    must(stream.read_to_end(&mut response).await, "a response");
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn names_that_stand_for_a_directory_are_no_pages() {
    let scratch = Scratch::new();
    let hub = hub_with_users(&scratch).await;
    let browser = Browser::of(&hub, "root", "root", &hub.root_password()).await;
    let cookie = browser.cookie.expect("a cookie");
    for path in
        ["%2E%2E", "%2E%2E/now", "../now", "%2e/nodes", "o/nodes/%2E%2E", "o/users/..", "%2E%2E/settings"]
    {
        let status = request_raw(&hub, &format!("/console/orgs/{path}"), &cookie).await;
        assert!(status.starts_with("HTTP/1.1 404"), "{path}: {status}");
    }
    let status = request_raw(&hub, "/console/orgs/o/now", &cookie).await;
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
}
