//! Failed logins on every listener: their limits, their cost, and what the log and the metrics show of them.

use std::collections::BTreeMap;

use reqwest::header::HeaderMap;
use serde_json::json;

use crate::support::process::client;
use crate::support::wait::must;
use crate::support::{Hub, Program, Scratch, TestDatabase, eventually, free_address};

/// A GET with a login, the address that a trusted proxy reports, and other headers.
async fn get(
    url: &str,
    path: &str,
    login: (&str, &str),
    headers: &[(&str, &str)],
) -> (u16, String, HeaderMap) {
    let mut request = client().get(format!("{url}{path}")).basic_auth(login.0, Some(login.1));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = must(request.send().await, "a response");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, must(response.text().await, "a body"), headers)
}

async fn status(url: &str, path: &str, login: (&str, &str), headers: &[(&str, &str)]) -> u16 {
    get(url, path, login, headers).await.0
}

/// The value of a series of `/metrics`.
async fn metric(url: &str, series: &str) -> f64 {
    let (_, text) =
        (0, must(must(client().get(format!("{url}/metrics")).send().await, "metrics").text().await, "text"));
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    must(line.expect(series).parse(), "a number")
}

async fn ready(url: &str) {
    eventually("the agbot is ready", || async {
        let response = client().get(format!("{url}/readyz")).send().await.ok()?;
        (response.status().as_u16() == 200).then_some(())
    })
    .await;
}

/// Routes of every kind: of the exchange and of the agbot, with and without `/v1`.
const ROUTES: [&str; 6] = [
    "/v1/orgs/o",
    "/v1/orgs/o/agbot/reasons",
    "/orgs/o/hagroups/g/upgrades",
    "/v1/orgs/o/health",
    "/v1/orgs/o/business/policies/p/orchestration",
    "/v1/orgs/o/hagroups",
];

#[tokio::test]
async fn guesses_are_stopped_on_every_route_of_every_listener() {
    let scratch = Scratch::new();
    let listener = free_address();
    let options = [
        "--failed-login-burst-per-caller",
        "3",
        "--failed-logins-per-caller",
        "1",
        "--agbot-listen",
        &listener,
    ];
    let hub = Hub::start(&scratch, &options).await;
    let second = format!("http://{listener}");
    ready(&hub.url).await;
    for (number, route) in ROUTES.iter().enumerate() {
        for url in [&hub.url, &second] {
            if url == &second && !(1..=4).contains(&number) {
                continue;
            }
            let name = format!("o/victim{number}{}", if url == &second { "s" } else { "f" });
            for guess in 0..3 {
                assert_eq!(
                    status(url, route, (&name, &format!("guess{guess}")), &[]).await,
                    401,
                    "{url} {route}"
                );
            }
            let (refused, _, headers) = get(url, route, (&name, "another"), &[]).await;
            assert_eq!(refused, 429, "{url} {route}");
            assert!(headers.contains_key("retry-after"), "{url} {route}");
            for other in ROUTES {
                assert_eq!(
                    status(&hub.url, other, (&name, "another"), &[]).await,
                    429,
                    "{route} then {other}"
                );
            }
        }
    }
    assert_eq!(hub.call("GET", "/orgs", None).await.0, 200, "another login from the same address");
}

#[tokio::test]
async fn unknown_names_and_wrong_secrets_cost_the_same_and_get_the_same_text() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let make = async |method: &str, path: &str, body| {
        assert_eq!(hub.call(method, path, Some(body)).await.0, 201, "{path}");
    };
    make("POST", "/orgs/o", json!({"label": "", "description": ""})).await;
    make("POST", "/orgs/o/users/u", json!({"password": "pu", "email": "", "admin": true})).await;
    let generated = format!("ek1.{}", "0f".repeat(32));
    for (node, token) in [("chosen", "secret"), ("generated", &generated)] {
        let body = json!({"token": token, "name": node, "pattern": "", "publicKey": ""});
        let url = format!("{}/v1/orgs/o/nodes/{node}", hub.url);
        let request = client().put(url).basic_auth("o/u", Some("pu")).json(&body);
        assert_eq!(must(request.send().await, "a response").status().as_u16(), 201, "{node}");
    }
    make("PUT", "/orgs/o/agbots/b", json!({"token": generated, "name": "b", "publicKey": ""})).await;
    let mut costs = BTreeMap::new();
    for name in
        ["o/nobody", "none/nobody", "o/u", "o/chosen", "o/generated", "o/b", "o/apikey", "none/apikey"]
    {
        let before = metric(&hub.url, "exchange_slow_hashes_total").await;
        for route in ["/v1/orgs/o", "/v1/orgs/o/agbot/reasons"] {
            let (status, text, _) = get(&hub.url, route, (name, &format!("wrong{route}")), &[]).await;
            assert_eq!(status, 401, "{name}");
            if route == "/v1/orgs/o" {
                assert_eq!(text, r#"{"code":"invalid-credentials","msg":"invalid.credentials"}"#, "{name}");
            }
        }
        costs.insert(name, metric(&hub.url, "exchange_slow_hashes_total").await - before);
    }
    assert!(costs.values().all(|cost| *cost == 2.0), "{costs:?}");
}

#[tokio::test]
async fn confirmation_of_a_deleted_node_costs_the_same_whichever_nodes_were_deleted() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let organization = json!({"label": "", "description": ""});
    assert_eq!(hub.call("POST", "/orgs/o", Some(organization)).await.0, 201);
    for node in ["deleted", "present"] {
        let body = json!({"token": "secret", "name": node, "pattern": "", "publicKey": ""});
        assert_eq!(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await.0, 201);
    }
    let agreement =
        json!({"agreementService": {"orgid": "o", "pattern": "", "url": "w"}, "state": "negotiating"});
    let (path, node) = ("/orgs/o/nodes/deleted/agreements/a", ("o/deleted", "secret"));
    assert_eq!(hub.call_as(node, "PUT", path, Some(agreement)).await.0, 201);
    assert_eq!(hub.call("DELETE", "/orgs/o/nodes/deleted", None).await.0, 204);
    let (_, departures) = hub.call("GET", "/orgs/o/orchestration/departures", None).await;
    assert!(departures["nodes"]["o/deleted"].is_object(), "{departures}");
    let mut costs = BTreeMap::new();
    for name in ["deleted", "present", "nobody"] {
        let before = metric(&hub.url, "exchange_slow_hashes_total").await;
        for _ in 0..2 {
            let path = format!("/orgs/o/orchestration/departures/{name}");
            let login = format!("o/{name}");
            assert_eq!(hub.call_as((&login, "wrong"), "DELETE", &path, None).await.0, 401, "{name}");
        }
        costs.insert(name, metric(&hub.url, "exchange_slow_hashes_total").await - before);
    }
    // One as any login, one as a deleted node; the same wrong secret again costs nothing.
    assert!(costs.values().all(|cost| *cost == 2.0), "{costs:?}");
}

#[tokio::test]
async fn failed_logins_are_logged_without_secrets_and_counted_without_telling_which_names_exist() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--failed-login-burst-per-caller", "40"]).await;
    let before = metric(&hub.url, "exchange_failed_logins_total{reason=\"credentials\"}").await;
    for number in 0..10 {
        let secret = format!("s3cret-guess-{number}");
        assert_eq!(status(&hub.url, "/v1/orgs/o", ("root/root", &secret), &[]).await, 401);
        assert_eq!(status(&hub.url, "/v1/orgs/o", ("root/nobody", &secret), &[]).await, 401);
    }
    let request =
        client().get(format!("{}/v1/orgs/o", hub.url)).header("authorization", "Basic s3cret-guess");
    assert_eq!(must(request.send().await, "a response").status().as_u16(), 401);
    assert_eq!(metric(&hub.url, "exchange_failed_logins_total{reason=\"credentials\"}").await - before, 20.0);
    assert_eq!(metric(&hub.url, "exchange_failed_logins_total{reason=\"malformed\"}").await, 1.0);
    let log = hub.program.errors();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("login failed")).collect();
    assert!((2..=4).contains(&lines.len()), "{lines:?}");
    for (name, reason) in [("root/root", "wrong secret"), ("root/nobody", "unknown name")] {
        let line = lines.iter().find(|line| line.contains(name)).expect(name);
        assert!(line.contains("security") && line.contains(reason) && line.contains("127.0.0.1"), "{line}");
    }
    let errors = hub.program.errors_file();
    assert_eq!(hub.stop().await, 0);
    let log = must(std::fs::read_to_string(errors), "the log");
    assert!(log.contains("further logins failed within a minute") && log.contains("count=9"), "{log}");
    assert!(!log.contains("s3cret-guess"), "no secret is logged");
}

/// An agbot on its own, for a hub.
struct Alone {
    url: String,
    _program: Program,
    _database: TestDatabase,
}

async fn start_alone(scratch: &Scratch, hub: &Hub, options: &[&str]) -> Alone {
    let body = json!({"token": "alone-token", "name": "alone", "publicKey": ""});
    assert_eq!(hub.call("PUT", "/orgs/IBM/agbots/alone", Some(body)).await.0, 201);
    must(std::fs::write(scratch.join("token"), "alone-token"), "the token");
    let (database, listen) = (TestDatabase::new().await, free_address());
    let (token, key) = (scratch.join("token"), scratch.join("alone.pem"));
    let (token, key) = (token.to_string_lossy(), key.to_string_lossy());
    let mut arguments =
        vec!["agbot", "--hub", &hub.url, "--id", "alone", "--token-file", &token, "--key-file", &key];
    arguments.extend([
        "--database-url",
        database.url(),
        "--listen",
        &listen,
        "--trusted-proxies",
        "127.0.0.1",
    ]);
    arguments.extend_from_slice(options);
    let program = Program::start(scratch, &arguments, None);
    let url = format!("http://{listen}");
    ready(&url).await;
    Alone { url, _program: program, _database: database }
}

const ROUTE: &str = "/v1/orgs/o/agbot/reasons";

#[tokio::test]
async fn exchange_counts_the_clients_of_an_agbot_on_its_own_and_believes_nobody_else() {
    let scratch = Scratch::new();
    let limit = ["--failed-login-burst-per-address", "4", "--failed-logins-per-address", "1"];
    let hub = Hub::start(&scratch, &limit).await;
    let off = ["--failed-logins-per-address", "0", "--failed-logins-per-caller", "0"];
    let alone = start_alone(&scratch, &hub, &off).await;
    let guess = |number: usize| format!("guess{number}");
    let attacker = [("x-forwarded-for", "198.51.100.7")];
    for number in 0..4 {
        assert_eq!(status(&alone.url, ROUTE, ("o/u", &guess(number)), &attacker).await, 401);
    }
    assert_eq!(status(&alone.url, ROUTE, ("o/u", "more"), &attacker).await, 429, "the exchange stops them");
    assert_eq!(status(&alone.url, ROUTE, ("o/u", "more"), &[("x-forwarded-for", "198.51.100.8")]).await, 401);
    // A client that claims another address at the exchange is counted by its own.
    for number in 0..4 {
        let forged = format!("203.0.113.{number}");
        let proof = "Basic SUJNL2Fsb25lOndyb25n";
        let headers = [("x-evenkeel-client-address", forged.as_str()), ("x-evenkeel-forwarded-by", proof)];
        let headers = if number % 2 == 0 { &headers[..1] } else { &headers[..] };
        status(&hub.url, "/v1/orgs/o", ("o/u", &guess(number)), headers).await;
    }
    let forged = [("x-evenkeel-client-address", "203.0.113.99")];
    assert_eq!(status(&hub.url, "/v1/orgs/o", ("o/u", "more"), &forged).await, 429);
}

#[tokio::test]
async fn agbot_on_its_own_limits_failed_logins_by_itself() {
    let scratch = Scratch::new();
    let hub =
        Hub::start(&scratch, &["--failed-logins-per-address", "0", "--failed-logins-per-caller", "0"]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    let user = json!({"password": "pu", "email": "", "admin": true});
    assert_eq!(hub.call("POST", "/orgs/o/users/u", Some(user)).await.0, 201);
    let limit = ["--failed-login-burst-per-caller", "3", "--failed-logins-per-caller", "1"];
    let alone = start_alone(&scratch, &hub, &limit).await;
    let attacker = [("x-forwarded-for", "198.51.100.7")];
    assert_eq!(status(&alone.url, ROUTE, ("o/u", "pu"), &attacker).await, 200);
    for number in 0..3 {
        assert_eq!(status(&alone.url, ROUTE, ("o/u", &format!("guess{number}")), &attacker).await, 401);
    }
    let (refused, _, headers) = get(&alone.url, ROUTE, ("o/u", "more"), &attacker).await;
    assert_eq!((refused, headers.contains_key("retry-after")), (429, true));
    assert_eq!(
        status(&alone.url, ROUTE, ("o/u", "pu"), &attacker).await,
        200,
        "credentials that were good go on"
    );
    assert_eq!(status(&alone.url, ROUTE, ("o/u", "more"), &[("x-forwarded-for", "198.51.100.8")]).await, 401);
    assert_eq!(metric(&alone.url, "agbot_failed_logins_total{reason=\"limited\"}").await, 1.0);
}
