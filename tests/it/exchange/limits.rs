//! Limits that hold exactly when many creations come at once, and limits on how often callers ask and logins fail.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use evenkeel_exchange::{ExchangeSettings, Rate, RateLimits};
use http::Response;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::api::{Api, ROOT};
use super::request::{deployment_policy, pattern, service as published};
use crate::support::TestDatabase;
use crate::support::wait::must;

const USER: &str = "o/u:pu";
const WRITERS: usize = 24;
const LIMIT: usize = 5;

/// Two exchanges on one database with a low limit on what an account may own.
async fn two_with_limits() -> (TestDatabase, [Api; 2]) {
    let mut settings = Api::settings();
    let limits = &mut settings.limits;
    for limit in [
        &mut limits.nodes,
        &mut limits.agbots,
        &mut limits.services,
        &mut limits.patterns,
        &mut limits.deployment_policies,
        &mut limits.management_policies,
        &mut limits.ha_groups,
        &mut limits.node_agreements,
        &mut limits.agbot_agreements,
        &mut limits.served_entries,
        &mut limits.messages,
    ] {
        *limit = LIMIT as i64;
    }
    let database = TestDatabase::new().await;
    let first = Api::start_with(&database, settings.clone()).await;
    first.make_org("o").await;
    let second = Api::start_with(&database, settings).await;
    (database, [first, second])
}

/// Sends so many different requests at once, to both exchanges in turn; returns how often each status
/// occurred.
async fn race(
    apis: &[Api; 2],
    login: &'static str,
    request: impl Fn(usize) -> (&'static str, String, Value),
) -> (usize, Vec<u16>) {
    let start = Arc::new(Barrier::new(WRITERS));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (api, start) = (apis[number % 2].clone(), start.clone());
            let (method, path, body) = request(number);
            tokio::spawn(async move {
                start.wait().await;
                api.call(login, method, &path, body).await.0
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for writer in writers {
        statuses.push(must(writer.await, "a writer"));
    }
    let done = statuses.iter().filter(|status| **status == 201).count();
    statuses.retain(|status| *status != 201);
    (done, statuses)
}

/// Method, path and body of a creation by its number.
type NumberedRequest<'a> = Box<dyn Fn(usize) -> (&'static str, String, Value) + 'a>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creations_that_come_at_once_never_exceed_the_limit_of_their_owner() {
    let (_database, apis) = two_with_limits().await;
    let service = |number| {
        json!({"label": "l", "url": format!("s{number}"), "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
               "deployment": "", "deploymentSignature": ""})
    };
    let (pattern, policy) = (pattern("o", "l", false), deployment_policy("o"));
    apis[0].expect(201, "o/admin:pa", "POST", "/orgs/o/services", published("public", "l", true)).await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""});
    let agbot = json!({"token": "t", "name": "b", "publicKey": ""});
    let kinds: Vec<(&str, &'static str, NumberedRequest<'_>)> = vec![
        ("services", USER, Box::new(|n| ("POST", "/orgs/o/services".to_owned(), service(n)))),
        ("nodes", USER, Box::new(|n| ("PUT", format!("/orgs/o/nodes/n{n}"), node.clone()))),
        ("agbots", "o/admin:pa", Box::new(|n| ("PUT", format!("/orgs/o/agbots/b{n}"), agbot.clone()))),
        ("patterns", USER, Box::new(|n| ("POST", format!("/orgs/o/patterns/p{n}"), pattern.clone()))),
        ("policies", USER, Box::new(|n| ("POST", format!("/orgs/o/business/policies/p{n}"), policy.clone()))),
        (
            "management policies",
            "o/admin:pa",
            Box::new(|n| ("POST", format!("/orgs/o/managementpolicies/m{n}"), json!({"label": "l"}))),
        ),
        ("HA groups", USER, Box::new(|n| ("POST", format!("/orgs/o/hagroups/g{n}"), json!({"members": []})))),
    ];
    for (what, login, request) in kinds {
        let (done, others) = race(&apis, login, request).await;
        assert_eq!(done, LIMIT, "{what}: {others:?}");
        assert!(others.iter().all(|status| *status == 403), "{what}: {others:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agreements_and_messages_that_come_at_once_never_exceed_the_limit() {
    let (_database, apis) = two_with_limits().await;
    let node = json!({"token": "tn", "name": "n", "pattern": "", "publicKey": "key"});
    apis[0].expect(201, USER, "PUT", "/orgs/o/nodes/n", node).await;
    let agbot = json!({"token": "tb", "name": "b", "publicKey": "key"});
    apis[0].expect(201, "o/admin:pa", "PUT", "/orgs/o/agbots/b", agbot).await;
    let agreement =
        json!({"services": [], "agreementService": {"orgid": "o", "pattern": "", "url": "s"}, "state": "x"});
    let request = |number| ("PUT", format!("/orgs/o/nodes/n/agreements/a{number}"), agreement.clone());
    let (done, others) = race(&apis, "o/n:tn", request).await;
    assert_eq!(done, LIMIT, "agreements of a node: {others:?}");
    let agreement = json!({"service": {"orgid": "o", "pattern": "", "url": "s"}, "state": "x"});
    let request = |number| ("PUT", format!("/orgs/o/agbots/b/agreements/a{number}"), agreement.clone());
    let (done, others) = race(&apis, "o/b:tb", request).await;
    assert_eq!(done, LIMIT, "agreements of an agbot: {others:?}");
    let message = json!({"message": "m", "ttl": 1000});
    for (login, mailbox) in [("o/b:tb", "nodes/n"), ("o/n:tn", "agbots/b")] {
        let request = |_| ("POST", format!("/orgs/o/{mailbox}/msgs"), message.clone());
        let (done, others) = race(&apis, login, request).await;
        assert_eq!(done, LIMIT, "messages to {mailbox}: {others:?}");
        assert!(others.iter().all(|status| *status == 429), "{others:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_come_at_once_never_exceed_the_limit_of_their_organization() {
    let database = TestDatabase::new().await;
    let first = Api::start(&database).await;
    first.make_org("o").await;
    let second = Api::start(&database).await;
    first.expect(201, ROOT, "PATCH", "/orgs/o", json!({"limits": {"maxNodes": LIMIT}})).await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""});
    let request = |number| ("PUT", format!("/orgs/o/nodes/n{number}"), node.clone());
    let (done, others) = race(&[first, second], USER, request).await;
    assert_eq!(done, LIMIT, "{others:?}");
    assert!(others.iter().all(|status| *status == 403), "{others:?}");
}

fn settings(limits: RateLimits) -> ExchangeSettings {
    ExchangeSettings { rate_limits: limits, ..Api::settings() }
}

async fn get(api: &Api, peer: &str, login: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let peer: IpAddr = must(peer.parse(), "an address");
    api.send_from(Some(peer), login, "GET", "/orgs/o", headers, &Value::Null).await
}

async fn status(api: &Api, peer: &str, login: &str) -> u16 {
    get(api, peer, login, &[]).await.status().as_u16()
}

/// Seconds that the response asks the client to wait.
fn retry_after(response: &Response<Body>) -> u64 {
    let value = response.headers().get("retry-after").expect("429 names when to try again");
    must(must(value.to_str(), "text").parse(), "seconds")
}

/// One token in this many seconds: it does not come back while a test runs.
const NEVER: f64 = 1.0 / 3600.0;

#[tokio::test]
async fn failed_logins_are_stopped_and_whoever_is_known_at_the_same_address_goes_on() {
    let database = TestDatabase::new().await;
    let failed = Rate { per_second: NEVER, burst: 8 };
    let limits =
        RateLimits { failed_address: failed, failed_login: Rate::UNLIMITED, ..RateLimits::default() };
    let api = Api::start_with(&database, settings(limits)).await;
    api.make_org("o").await;
    api.make_node(USER, "o", "n").await;
    let (here, there) = ("192.0.2.1", "198.51.100.1");
    assert_eq!(status(&api, here, "o/n:token-n").await, 200);
    for number in 0..8 {
        // Known and unknown names, new and repeated secrets: all count.
        let login = format!("o/{}:wrong{}", if number % 2 == 0 { "n" } else { "nobody" }, number / 4);
        assert_eq!(status(&api, here, &login).await, 401);
    }
    let refused = get(&api, here, "o/n:wrong again", &[]).await;
    assert_eq!(refused.status().as_u16(), 429);
    assert!((1..=3600).contains(&retry_after(&refused)));
    assert_eq!(status(&api, here, "o/v:pv").await, 429, "even a good login that was never seen has to wait");
    assert_eq!(status(&api, here, "o/n:token-n").await, 200, "the login in memory is served");
    // The memory of logins is cleared: the same secret is checked again, and no failures of others block it.
    api.expect(201, ROOT, "POST", "/admin/clearauthcaches", Value::Null).await;
    assert_eq!(
        status(&api, here, "o/n:token-n").await,
        200,
        "a secret that was good is checked without delay"
    );
    assert_eq!(status(&api, there, "o/v:pv").await, 200, "other addresses do not notice");
    assert_eq!(status(&api, here, "o/v:pv").await, 200, "and now it is known here, too");
}

#[tokio::test]
async fn guesses_at_one_login_are_stopped_before_they_stop_their_whole_address() {
    let database = TestDatabase::new().await;
    let failed = Rate { per_second: NEVER, burst: 3 };
    let limits = RateLimits { failed_login: failed, ..RateLimits::default() };
    let api = Api::start_with(&database, settings(limits)).await;
    api.make_org("o").await;
    for number in 0..3 {
        assert_eq!(status(&api, "192.0.2.1", &format!("o/u:guess{number}")).await, 401);
    }
    assert_eq!(status(&api, "192.0.2.1", "o/u:guess").await, 429);
    assert_eq!(status(&api, "192.0.2.1", "o/admin:pa").await, 200, "another login from there");
    assert_eq!(status(&api, "192.0.2.2", "o/u:pu").await, 200, "the same login from elsewhere");
}

#[tokio::test]
async fn client_with_an_old_secret_guesses_once() {
    let database = TestDatabase::new().await;
    let failed = Rate { per_second: NEVER, burst: 3 };
    let limits = RateLimits { failed_login: failed, ..RateLimits::default() };
    let api = Api::start_with(&database, settings(limits)).await;
    api.make_org("o").await;
    let here = "192.0.2.1";
    for round in 0..6 {
        assert_eq!(status(&api, here, "o/u:old").await, 401);
        assert_eq!(status(&api, here, "o/nobody:old").await, 401);
        // Any change of a credential clears the memory of wrong logins: the secret is checked again, and stays the same guess.
        api.make_node(USER, "o", &format!("n{round}")).await;
    }
    assert_eq!(status(&api, here, "o/u:second").await, 401);
    assert_eq!(status(&api, here, "o/u:third").await, 401);
    assert_eq!(status(&api, here, "o/u:fourth").await, 429, "guesses are counted");
    assert_eq!(status(&api, here, "o/nobody:old").await, 401);
}

#[tokio::test]
async fn refused_callers_and_addresses_get_retry_after() {
    let database = TestDatabase::new().await;
    let limits = RateLimits {
        caller: Rate { per_second: NEVER, burst: 4 },
        address: Rate { per_second: NEVER, burst: 10 },
        ..RateLimits::default()
    };
    let api = Api::start_with(&database, settings(limits)).await;
    api.make_org("o").await;
    for _ in 0..4 {
        assert_eq!(status(&api, "192.0.2.1", USER).await, 200);
    }
    let refused = get(&api, "192.0.2.1", USER, &[]).await;
    assert_eq!(refused.status().as_u16(), 429);
    assert!(retry_after(&refused) > 1000);
    assert_eq!(status(&api, "198.51.100.1", USER).await, 429, "the caller is the same elsewhere");
    for _ in 0..4 {
        assert_eq!(status(&api, "192.0.2.1", "o/admin:pa").await, 200);
    }
    assert_eq!(status(&api, "192.0.2.1", "o/v:pv").await, 200, "the tenth from there");
    assert_eq!(status(&api, "192.0.2.1", "o/v:pv").await, 429, "the eleventh");
    assert_eq!(status(&api, "127.0.0.1", USER).await, 200, "the machine itself is not counted");
    // Behind a trusted proxy each client counts for itself.
    let forwarded = [("x-forwarded-for", "192.0.2.1")];
    assert_eq!(get(&api, "10.0.0.1", "o/v:pv", &forwarded).await.status().as_u16(), 429);
    let forwarded = [("x-forwarded-for", "203.0.113.5")];
    assert_eq!(get(&api, "10.0.0.1", "o/v:pv", &forwarded).await.status().as_u16(), 200);
    assert_eq!(
        get(&api, "203.0.113.6", "o/v:pv", &[("x-forwarded-for", "127.0.0.1")]).await.status().as_u16(),
        200
    );
}

#[tokio::test]
async fn what_is_too_large_or_too_deep_is_refused_with_its_rule() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    let path = "/orgs/o/nodes/n/policy";
    api.make_node(USER, "o", "n").await;
    let large = json!({"properties": [], "constraints": [], "description": "x".repeat(1024 * 1024)});
    api.expect(413, USER, "PUT", path, large).await;
    let mut deep = json!("x");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let refused = api.expect(400, USER, "PUT", path, json!({"properties": deep})).await;
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains("recursion limit")), "{refused}");
    let refused =
        api.expect(400, USER, "GET", &format!("/orgs/o/nodes/{}", "n".repeat(1025)), Value::Null).await;
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains("1024")), "{refused}");
    api.expect(401, &format!("o/{}:x", "u".repeat(8 * 1024)), "GET", "/orgs/o", Value::Null).await;
}
