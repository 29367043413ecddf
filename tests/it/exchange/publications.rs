//! Services, patterns and policies: what the replay of recorded conversations does not show.

use http::Method;
use serde_json::{Value, json};

use super::request::{pattern, service, service_path};
use super::world::{CALLERS, Caller, HOME, OUTSIDERS, ROOT, World};

fn named(title: &str) -> Caller {
    *CALLERS.iter().chain(&OUTSIDERS).find(|caller| caller.title == title).expect("a known caller")
}

async fn status(world: &World, caller: Caller, method: Method, path: &str, body: Value) -> u16 {
    let body = (!body.is_null()).then_some(body);
    world.call(caller, &method, path, body.as_ref()).await.0.as_u16()
}

async fn read(world: &World, caller: Caller, path: &str) -> Value {
    let (_, response) = world.call(caller, &Method::GET, path, None).await;
    serde_json::from_slice(&response).expect("JSON")
}

#[tokio::test]
async fn list_of_several_pages_is_complete_and_in_order() {
    let world = World::new().await;
    let list = format!("/orgs/{HOME}/services");
    for number in 0..205 {
        let body = service(&format!("n{number:03}"), "l", false);
        assert_eq!(status(&world, named("owner"), Method::POST, &list, body).await, 201);
    }
    let response = read(&world, named("owner"), &format!("{list}?url=n%25")).await;
    let keys: Vec<&String> = response["services"].as_object().expect("services").keys().collect();
    assert_eq!(keys.len(), 205);
    assert!(keys.is_sorted());
    assert_eq!(response["lastIndex"], 0);
}

#[tokio::test]
async fn change_of_owner_and_visibility_counts_at_once() {
    let world = World::new().await;
    let one = service_path(HOME, "private");
    assert_eq!(status(&world, named("admin abroad"), Method::GET, &one, Value::Null).await, 403);
    let public = service("private", "l", true);
    assert_eq!(status(&world, named("admin"), Method::PUT, &one, public).await, 201);
    assert_eq!(status(&world, named("admin abroad"), Method::GET, &one, Value::Null).await, 200);
    assert_eq!(status(&world, named("owner"), Method::PATCH, &one, json!({"label": "mine"})).await, 403);
}

#[tokio::test]
async fn limits_are_exact() {
    let world = World::new().await;
    // The owner has two of each already, and one deployment policy.
    for name in ["maxServices", "maxPatterns", "maxBusinessPolicies"] {
        let setting = json!({"varPath": format!("api.limits.{name}"), "value": "3"});
        assert_eq!(status(&world, ROOT, Method::PUT, "/admin/config", setting).await, 201);
    }
    let owner = named("owner");
    let services = format!("/orgs/{HOME}/services");
    assert_eq!(status(&world, owner, Method::POST, &services, service("third", "l", false)).await, 201);
    assert_eq!(status(&world, owner, Method::POST, &services, service("fourth", "l", false)).await, 403);
    let patterns = format!("/orgs/{HOME}/patterns");
    let body = pattern(HOME, "l", false);
    assert_eq!(status(&world, owner, Method::POST, &format!("{patterns}/third"), body.clone()).await, 201);
    assert_eq!(status(&world, owner, Method::POST, &format!("{patterns}/fourth"), body).await, 403);
    // Changing what is there needs no room.
    let change = json!({"label": "again"});
    assert_eq!(status(&world, owner, Method::PATCH, &format!("{patterns}/third"), change).await, 201);
}

#[tokio::test]
async fn user_input_must_name_a_service_that_exists() {
    let world = World::new().await;
    let one = format!("/orgs/{HOME}/business/policies/pol");
    for (url, range, expected) in [
        ("public.svc", "", 201),
        ("public.svc", "[1.0.0,1.0.0]", 201),
        ("public.svc", "[1.0.1,1.0.1]", 400),
        ("public.svc", "[9.0.0,INFINITY)", 201),
        ("absent.svc", "", 400),
    ] {
        let input =
            json!([{"serviceOrgid": HOME, "serviceUrl": url, "serviceVersionRange": range, "inputs": []}]);
        let found = status(&world, named("owner"), Method::PATCH, &one, json!({"userInput": input})).await;
        assert_eq!(found, expected, "{url} {range}");
    }
}

#[tokio::test]
async fn hostile_bodies_are_refused_and_change_nothing() {
    let world = World::new().await;
    let one = service_path(HOME, "private");
    let before = read(&world, named("owner"), &one).await;
    for body in [
        json!({"label": "nul\u{0}"}),
        json!({"requiredServices": [["url", "org"]]}),
        json!({"userInput": [{"name": {"a": 1}}]}),
        json!({"matchHardware": ["a"]}),
        json!({"public": "perhaps"}),
        json!({"imageStore": {"a": "\u{0}"}}),
    ] {
        assert_eq!(status(&world, named("owner"), Method::PATCH, &one, body.clone()).await, 400, "{body}");
    }
    assert_eq!(read(&world, named("owner"), &one).await, before);
    let filter = format!("/orgs/{HOME}/services?url=%25%5C");
    assert_eq!(status(&world, named("owner"), Method::GET, &filter, Value::Null).await, 400);
}

#[tokio::test]
async fn change_feed_shows_other_organizations_public_services_only() {
    let world = World::new().await;
    let max = read(&world, ROOT, "/changes/maxchangeid").await["maxChangeId"].as_i64().expect("a number");
    for name in ["private", "public"] {
        let change = json!({"label": "new"});
        let path = service_path(HOME, name);
        assert_eq!(status(&world, named("owner"), Method::PATCH, &path, change).await, 201);
    }
    let request = json!({"changeId": max + 1, "maxRecords": 100});
    let outsider = named("node abroad");
    let (_, response) = world.call(outsider, &Method::POST, "/orgs/globex/changes", Some(&request)).await;
    let response: Value = serde_json::from_slice(&response).expect("JSON");
    let ids: Vec<&Value> =
        response["changes"].as_array().expect("a list").iter().map(|change| &change["id"]).collect();
    assert_eq!(ids, [&json!("public.svc_1.0.0_amd64")]);
}
