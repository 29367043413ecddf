//! Nothing private leaves its organization: not in lists, searches, the catalogue, the feed, nor attribute by attribute.

use evenkeel_exchange::routes;
use http::Method;

use super::request::{Aim, body, path};
use super::world::{ABROAD, Caller, HOME, MARK, OUTSIDERS, SHARED, World};

#[tokio::test]
async fn outsiders_read_nothing_private_by_any_operation() {
    let mut world = World::new().await;
    let mut read_count = 0;
    for endpoint in routes::all() {
        for template in &endpoint.paths {
            for aim in [HOME, SHARED].map(|org| Aim { org, name: "private" }) {
                let path = path(&world, &endpoint, template, aim);
                let body = body(&endpoint, aim);
                for caller in OUTSIDERS {
                    // A node reads everything of the shared organization: that is how agents learn of agbots and services.
                    if aim.org == SHARED && caller.title == "node abroad" && !template.contains("catalog") {
                        continue;
                    }
                    let (status, response) = world.call(caller, &endpoint.method, &path, body.as_ref()).await;
                    let text = String::from_utf8_lossy(&response);
                    let is_marked = foreign_part(&text).contains(MARK);
                    assert!(!is_marked, "{} {path} shows {}: {text}", endpoint.method, caller.title);
                    read_count += usize::from(status.is_success());
                    if endpoint.method != Method::GET && status.is_success() {
                        world.restore().await;
                    }
                }
            }
        }
    }
    assert!(read_count > 0, "nothing was read at all");
}

/// The response without the caller's own data: resources whose key or owner is of its organization.
fn foreign_part(text: &str) -> String {
    let Ok(response) = serde_json::from_str(text) else { return text.to_owned() };
    without_own(response).to_string()
}

fn without_own(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    let own = format!("{ABROAD}/");
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(name, _)| !name.starts_with(&own) && name != ABROAD)
                .map(|(name, value)| (name, without_own(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_own).collect()),
        scalar => scalar,
    }
}

#[tokio::test]
async fn attributes_are_as_private_as_the_whole() {
    let world = World::new().await;
    let resources = [
        ("nodes/n1", &["name", "owner", "userInput", "publicKey", "lastHeartbeat"][..]),
        ("agbots/bot", &["name", "owner", "publicKey"]),
        ("services/private.svc_1.0.0_amd64", &["label", "owner", "deployment", "public"]),
        ("patterns/private", &["label", "services", "owner"]),
        ("business/policies/pol", &["label", "service", "owner"]),
        ("managementpolicies/pol", &["label", "owner", "manifest"]),
    ];
    for (resource, attributes) in resources {
        for attribute in attributes {
            let path = format!("/orgs/{HOME}/{resource}?attribute={attribute}");
            for caller in OUTSIDERS {
                let (status, response) = world.call(caller, &Method::GET, &path, None).await;
                assert_eq!(status.as_u16(), 403, "{path} as {}: {response:?}", caller.title);
            }
        }
    }
}

#[tokio::test]
async fn outsiders_learn_no_names_from_refusals() {
    let world = World::new().await;
    for resource in ["nodes", "agbots", "services", "patterns", "business/policies", "managementpolicies"] {
        for caller in OUTSIDERS {
            let status = status_of(&world, caller, &format!("/orgs/{HOME}/{resource}/no-such-thing")).await;
            assert_eq!(status, 404, "{resource} as {}", caller.title);
        }
    }
}

async fn status_of(world: &World, caller: Caller, path: &str) -> u16 {
    world.call(caller, &Method::GET, path, None).await.0.as_u16()
}
