//! Bodies that do not match the document: rejected with the contract's response in bounded time, and nothing
//! is written.

use std::time::{Duration, Instant};

use evenkeel_exchange::operation::{Content, Operation};
use evenkeel_exchange::routes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{self, Aim};
use super::world::{CALLERS, Caller, HOME, OUTSIDERS, ROOT, World};

const JSON: Option<&str> = Some("application/json");
const AIM: Aim = Aim { org: HOME, name: "private" };
const POLICY: &str = "/orgs/acme/business/policies/pol";
/// Upper bound of the time that a rejection takes on a busy machine.
const RETRY_LIMIT: Duration = Duration::from_secs(10);

/// Every operation that reads JSON, with a path to something that is there.
fn readers(world: &World) -> Vec<(Operation, String)> {
    let reads_json = |endpoint: &Operation| matches!(endpoint.request, Content::Json(_));
    routes::all()
        .into_iter()
        .filter(reads_json)
        .map(|endpoint| {
            let path = request::path(world, &endpoint, endpoint.paths[0], AIM);
            (endpoint, path)
        })
        .collect()
}

#[tokio::test]
async fn what_is_no_json_of_the_right_kind_is_refused_everywhere() {
    let mut world = World::new().await;
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_member = format!("{{\"label\":{deep}}}");
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("half an object", b"{\"label\":".to_vec()),
        ("a number", b"5".to_vec()),
        ("nothing but null", b"null".to_vec()),
        ("a text", b"\"text\"".to_vec()),
        ("two objects", b"{} {}".to_vec()),
        ("no UTF-8", b"{\"label\":\"\xff\xfe\"}".to_vec()),
        ("a NUL character", b"{\"label\":\"a\\u0000b\"}".to_vec()),
        ("half a surrogate pair", b"{\"label\":\"\\ud800\"}".to_vec()),
        ("a member that nobody knows", b"{\"nobodyKnowsThis\":1}".to_vec()),
        ("deeply nested lists", deep.into_bytes()),
        ("a deeply nested member", deep_member.into_bytes()),
    ];
    // With a heartbeat, deployed clients may send anything; only an object with members of a report is read.
    let free = ["heartbeat_node"];
    for (endpoint, path) in readers(&world) {
        for (what, body) in bodies.iter().filter(|_| !free.contains(&endpoint.operation)) {
            let started = Instant::now();
            let (status, response) = world.send(ROOT, &endpoint.method, &path, JSON, body.clone()).await;
            let reported = String::from_utf8_lossy(&response).into_owned();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{what} for {}: {reported}", endpoint.operation);
            assert!(reported.contains("invalid-input"), "{what} for {}: {reported}", endpoint.operation);
            assert!(started.elapsed() < RETRY_LIMIT, "{what} for {} took long", endpoint.operation);
        }
    }
    world.must_be_untouched("what is not JSON").await;
}

#[tokio::test]
async fn members_of_the_wrong_type_are_refused() {
    // Any JSON is an error of a node; of a scalar only its text counts, so that lists and objects are what is wrong.
    let free = ["replace_node_errors"];
    let mut world = World::new().await;
    for (endpoint, path) in readers(&world) {
        let Some(Value::Object(good)) = request::body(&endpoint, AIM) else { continue };
        for name in good.keys().filter(|_| !free.contains(&endpoint.operation)) {
            let mut bad = good.clone();
            bad.insert(name.clone(), json!([[["wrong"]]]));
            let (status, response) =
                world.call(ROOT, &endpoint.method, &path, Some(&Value::Object(bad))).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{} {name}: {response:?}", endpoint.operation);
        }
    }
    world.must_be_untouched("a member of the wrong type").await;
}

#[tokio::test]
async fn bodies_above_the_limit_are_refused_before_they_are_read() {
    let mut world = World::new().await;
    let limit = 1024 * 1024;
    let body = json!({"label": "x".repeat(limit)}).to_string();
    for endpoint in routes::all().into_iter().filter(|endpoint| !endpoint.request.is_none()) {
        let path = request::path(&world, &endpoint, endpoint.paths[0], AIM);
        let (status, _) = world.send(ROOT, &endpoint.method, &path, JSON, body.clone()).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{}", endpoint.operation);
    }
    world.must_be_untouched("a large body").await;
}

#[tokio::test]
async fn bodies_of_another_type_are_refused() {
    let mut world = World::new().await;
    for (endpoint, path) in readers(&world) {
        let Some(body) = request::body(&endpoint, AIM) else { continue };
        for media_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            let (status, _) = world.send(ROOT, &endpoint.method, &path, media_type, body.to_string()).await;
            assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{} {media_type:?}", endpoint.operation);
        }
    }
    world.must_be_untouched("a body of another type").await;
}

/// Constraints that nothing could evaluate, with the rule that the response must name.
fn absurd_constraints() -> Vec<(Value, &'static str)> {
    let parentheses = format!("{}a == 1{}", "(".repeat(5_000), ")".repeat(5_000));
    vec![
        (json!([format!("a == {}", "x".repeat(1_000_000))]), "longer than the 65536 allowed"),
        (json!([vec!["a == 1"; 1_001].join(" || ")]), "exceeds the 1000 comparisons allowed"),
        (json!(vec!["a == 1"; 10_000]), "more than the 1000 allowed"),
        (json!([nested(200)]), "deeper than the 128 levels"),
        (json!(["a == 1", nested(900)]), "deeper than the 128 levels"),
        // Out of the language or not, it is far too long.
        (json!([parentheses.repeat(10)]), "longer than the 65536 allowed"),
    ]
}

fn nested(depth: usize) -> String {
    format!("{}a == 1{}", "a == 1 && (".repeat(depth), ")".repeat(depth))
}

#[tokio::test]
async fn absurd_constraints_are_refused_in_bounded_time() {
    let mut world = World::new().await;
    let policy = |constraints: &Value| {
        let mut policy = request::body_of("replace_deployment_policy", AIM);
        policy["constraints"] = constraints.clone();
        policy
    };
    for (constraints, rule) in absurd_constraints() {
        let only = json!({"constraints": constraints});
        let nested = json!({"deployment": {"constraints": constraints}});
        let management = json!({"label": "l", "constraints": constraints});
        for (method, path, body) in [
            (Method::POST, "/orgs/acme/business/policies/fresh", policy(&constraints)),
            (Method::PUT, POLICY, policy(&constraints)),
            (Method::PATCH, POLICY, only.clone()),
            (Method::PUT, "/orgs/acme/nodes/n1/policy", only.clone()),
            (Method::PUT, "/orgs/acme/nodes/n1/policy", nested),
            (Method::PUT, "/orgs/acme/services/private.svc_1.0.0_amd64/policy", only),
            (Method::POST, "/orgs/acme/managementpolicies/fresh", management.clone()),
            (Method::PUT, "/orgs/acme/managementpolicies/pol", management),
        ] {
            let started = Instant::now();
            let (status, response) = world.call(ROOT, &method, path, Some(&body)).await;
            let reported = String::from_utf8_lossy(&response).into_owned();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{method} {path}: {reported}");
            assert!(
                reported.contains("constraints: ") && reported.contains(rule),
                "{method} {path}: {reported}"
            );
            assert!(reported.len() < 500, "{method} {path} repeats its input");
            assert!(started.elapsed() < RETRY_LIMIT, "{method} {path} took long");
        }
    }
    world.must_be_untouched("absurd constraints").await;
}

#[tokio::test]
async fn caller_without_permission_is_refused_whatever_the_body() {
    let mut world = World::new().await;
    let bodies: [(&str, Option<&str>, &[u8]); 4] = [
        ("half an object", JSON, b"{\"label\":"),
        ("a member that nobody knows", JSON, b"{\"nobodyKnowsThis\":1}"),
        ("nothing", JSON, b""),
        ("something else than JSON", Some("text/plain"), b"{}"),
    ];
    let mut refused = 0;
    // Whether a user may change a group depends on its members, and who may decide about a plan on the write that it is about: both are read
    // after the body.
    let by_right_alone = |endpoint: &Operation, caller: Caller| {
        let is_of_user = endpoint.operation.contains("ha_group") && caller.title == "user";
        !is_of_user && !endpoint.paths[0].contains("/approvals")
    };
    for (endpoint, path) in readers(&world) {
        for caller in CALLERS.into_iter().chain(OUTSIDERS) {
            let good = request::body(&endpoint, AIM);
            let (status, _) = world.call(caller, &endpoint.method, &path, good.as_ref()).await;
            if status != StatusCode::FORBIDDEN || !by_right_alone(&endpoint, caller) {
                world.restore().await;
                continue;
            }
            // Some are refused for what the body asks for; then a body that asks for nothing is a bad one.
            let (plain, _) = world.send(caller, &endpoint.method, &path, JSON, b"{}".to_vec()).await;
            if plain != StatusCode::FORBIDDEN {
                world.restore().await;
                continue;
            }
            refused += 1;
            for (what, content_type, body) in bodies {
                let sent = world.send(caller, &endpoint.method, &path, content_type, body.to_vec()).await;
                assert_eq!(
                    sent.0,
                    StatusCode::FORBIDDEN,
                    "{what} for {} by {}",
                    endpoint.operation,
                    caller.title
                );
            }
        }
    }
    assert!(refused > 200, "only {refused} were refused");
}
