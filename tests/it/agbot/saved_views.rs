//! Saved views, known properties and fault domains: bounded, and of what a caller may read.

use serde_json::{Value, json};

use crate::support::{Hub, Scratch, eventually};

const USER: (&str, &str) = ("o/user", "secret");
const OTHER: (&str, &str) = ("o/other", "secret");
const ADMIN: (&str, &str) = ("o/admin", "secret");

/// An organization with a node of a user and one of root, in two fault domains.
async fn prepared(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for (name, admin) in [("user", false), ("other", false), ("admin", true)] {
        let body = json!({"password": "secret", "email": "e", "admin": admin});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    for (node, login) in [("mine", USER), ("theirs", ADMIN)] {
        let path = format!("/orgs/o/nodes/{node}");
        let body = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        assert_eq!(hub.call_as(login, "PUT", &path, Some(body)).await.0, 201);
        let policy = json!({"properties": [{"name": "site", "value": node}, {"name": format!("of-{node}"), "value": 4}], "constraints": []});
        assert_eq!(hub.call_as(login, "PUT", &format!("{path}/policy"), Some(policy)).await.0, 201);
        let domain = json!({"faultDomain": format!("fd:/{node}")});
        assert_eq!(hub.call("PATCH", &format!("{path}/orchestration/spec"), Some(domain)).await.0, 201);
    }
    eventually("the agbot knows the nodes", async || {
        let found = hub.call("GET", "/orgs/o/agbot/nodes/properties", None).await.1;
        (found["properties"].as_array().map(Vec::len) == Some(3)).then_some(())
    })
    .await;
    hub
}

async fn put(hub: &Hub, login: (&str, &str), name: &str, view: Value) -> (u16, String) {
    let path = format!("/orgs/o/agbot/views/{name}");
    let (status, body) = hub.call_as(login, "PUT", &path, Some(view)).await;
    (status, body["msg"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn views_are_bounded_and_changed_by_their_owner_and_administrators() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let down = || json!({"state": "down"});
    assert_eq!(put(&hub, USER, "mine", down()).await.0, 200);
    let (status, message) = put(&hub, OTHER, "mine", down()).await;
    assert!(status == 403 && message.contains("belongs to another user"), "{status} {message}");
    assert_eq!(put(&hub, ADMIN, "mine", json!({"group": "g", "description": "d"})).await.0, 200);
    let (status, found) = hub.call_as(OTHER, "GET", "/orgs/o/agbot/views", None).await;
    assert_eq!(status, 200, "{found}");
    let view = &found["views"][0];
    assert_eq!((&view["owner"], &view["group"], view.get("state")), (&json!("o/user"), &json!("g"), None));

    let long = "x".repeat(65);
    for (name, view, rule) in [
        ("a", json!({}), "filter must be given"),
        ("a", json!({"filter": "site = = 1"}), "filter: "),
        ("a", json!({"state": "asleep"}), "state must be one of"),
        ("a", json!({"filter": "x".repeat(4_097)}), "filter"),
        ("a", json!({"state": "down", "sort": "x"}), "sort"),
        ("a", json!({"state": "down", "description": "x".repeat(257)}), "description"),
        (long.as_str(), down(), "longer than 64 bytes"),
        ("a%2Fb", down(), "must not hold a slash"),
        ("%20a", down(), "blanks"),
    ] {
        let (status, message) = put(&hub, ADMIN, name, view).await;
        assert!(status == 400 && message.contains(rule), "{name}: {status} {message}");
    }
    for number in 1..50 {
        assert_eq!(put(&hub, OTHER, &format!("v{number}"), down()).await.0, 200);
    }
    assert_eq!(put(&hub, OTHER, "v50", down()).await.0, 200);
    let (status, message) = put(&hub, OTHER, "v51", down()).await;
    assert!(status == 409 && message.contains("o/other has 50 saved views"), "{status} {message}");
    assert_eq!(put(&hub, OTHER, "v50", json!({"state": "up"})).await.0, 200, "one that exists is changed");

    let path = "/orgs/o/agbot/views/mine";
    assert_eq!(hub.call_as(OTHER, "DELETE", path, None).await.0, 404);
    assert_eq!(hub.call_as(USER, "DELETE", path, None).await.0, 200);
    assert_eq!(hub.call_as(USER, "DELETE", path, None).await.0, 404);
}

#[tokio::test]
async fn properties_and_domains_are_those_of_readable_nodes() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let names = |found: &Value, list: &str| -> Vec<String> {
        let all = found[list].as_array().into_iter().flatten();
        all.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let properties = "/orgs/o/agbot/nodes/properties";
    let (_, found) = hub.call_as(ADMIN, "GET", properties, None).await;
    assert_eq!(names(&found, "properties"), ["site", "of-mine", "of-theirs"]);
    assert_eq!(found["properties"][1]["operators"], json!(["==", "!=", "<", "<=", ">", ">="]));
    let (_, found) = hub.call_as(USER, "GET", properties, None).await;
    assert_eq!(names(&found, "properties"), ["of-mine", "site"]);
    assert!(!found.to_string().contains("theirs"), "{found}");
    let (_, found) = hub.call_as(OTHER, "GET", properties, None).await;
    assert_eq!(found, json!({"properties": [], "more": false}));
    let (_, found) = hub.call_as(ADMIN, "GET", &format!("{properties}?prefix=of-&limit=1"), None).await;
    assert_eq!((names(&found, "properties"), &found["more"]), (vec!["of-mine".to_owned()], &json!(true)));
    assert_eq!(hub.call_as(ADMIN, "GET", &format!("{properties}?limit=201"), None).await.0, 400);

    let domains = "/orgs/o/agbot/domains";
    let (_, found) = hub.call_as(ADMIN, "GET", domains, None).await;
    assert_eq!(names(&found, "domains"), ["fd:/mine", "fd:/theirs"]);
    let of = |name: &str| found["domains"][0][name].clone();
    assert_eq!((of("nodes"), of("instances"), of("capacities")), (json!(1), json!(0), json!({})));
    let (_, found) = hub.call_as(USER, "GET", domains, None).await;
    assert_eq!(names(&found, "domains"), ["fd:/mine"]);
}

#[tokio::test]
async fn change_of_several_nodes_is_planned_for_those_who_may_carry_it_out() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let plan = async |login, body: Value| {
        hub.call_as(login, "POST", "/orgs/o/orchestration/stops", Some(json!({ "nodes": body }))).await
    };
    let drain = |nodes: &[&str]| json!({"nodes": nodes, "availability": "drain"});
    assert_eq!(plan(ADMIN, drain(&["mine", "theirs"])).await, (200, json!({"policies": []})));
    assert_eq!(plan(USER, drain(&["mine"])).await.0, 200);
    assert_eq!(plan(USER, drain(&["mine", "theirs"])).await.0, 404);
    for (body, rule) in [
        (json!({"nodes": []}), "nodes must name 1 to 500 nodes"),
        (json!({"nodes": ["mine"], "availability": "off"}), "availability must be one of"),
        (
            json!({"nodes": ["mine"], "property": {"name": "openhorizon.cpu", "value": 1}}),
            "property: name must not begin",
        ),
        (json!({"nodes": ["mine"], "property": {"name": "a", "value": []}}), "property: value must be"),
    ] {
        let (status, found) = plan(ADMIN, body).await;
        let message = found["msg"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(rule), "{status} {found}");
    }
}
