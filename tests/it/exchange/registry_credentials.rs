//! Nodes that read the registry credentials of a private service: which agreements count, and which do not.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{service, service_path};
use super::world::{Caller, HOME, SHARED, World};

const fn caller(login: &'static str) -> Caller {
    Caller { title: login, login: Some(login) }
}

/// An ordinary user of `acme`, its node, and agbots that administrators approved.
const USER: Caller = caller("acme/uwe");
const NODE: Caller = caller("acme/uwe-node");
const OWN: Caller = caller("acme/bot");
const OF_HUB: Caller = caller("IBM/multi");
const FOREIGN: Caller = caller("globex/bot");

async fn must_write(world: &World, caller: Caller, method: Method, path: &str, body: &Value) {
    let (status, response) = world.call(caller, &method, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{path} as {}: {response:?}", caller.title);
}

/// A world in which the user has a node, and a service for each private service, which requires it.
async fn world() -> World {
    let mut world = World::new().await;
    let node =
        json!({"token": "open-sesame", "name": "mine", "pattern": "", "publicKey": "key", "arch": "amd64"});
    must_write(&world, USER, Method::PUT, "/orgs/acme/nodes/uwe-node", &node).await;
    for org in [HOME, SHARED] {
        let mut wrapper = service(&format!("needs-{org}"), "l", false);
        wrapper["requiredServices"] = json!([
            {"url": "private.svc", "org": org, "versionRange": "[1.0.0,INFINITY)", "arch": "amd64"},
        ]);
        must_write(&world, USER, Method::POST, "/orgs/acme/services", &wrapper).await;
    }
    world.settle().await;
    world
}

/// Records an agreement between the node and an agbot about a service.
async fn agree(world: &World, agbot: Caller, (org, url): (&str, &str)) {
    let (agbot_org, name) = agbot.title.split_once('/').unwrap_or_default();
    let workload = json!({"orgid": org, "pattern": "", "url": url});
    let of_node = json!({"agreementService": workload, "state": "s"});
    must_write(world, NODE, Method::PUT, "/orgs/acme/nodes/uwe-node/agreements/a1", &of_node).await;
    let of_agbot = json!({"service": workload, "state": "s"});
    let path = format!("/orgs/{agbot_org}/agbots/{name}/agreements/a1?node=acme/uwe-node");
    must_write(world, agbot, Method::PUT, &path, &of_agbot).await;
}

async fn reads(world: &World, org: &str, name: &str) -> bool {
    let path = format!("{}/dockauths", service_path(org, name));
    let (status, response) = world.call(NODE, &Method::GET, &path, None).await;
    assert!(
        matches!(status, StatusCode::OK | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND),
        "{path}: {status} {response:?}"
    );
    status.is_success()
}

#[tokio::test]
async fn node_reads_registry_credentials_of_services_that_agbots_of_its_organization_or_the_hub_deploy() {
    let mut world = world().await;
    for agbot in [OWN, OF_HUB] {
        assert!(!reads(&world, HOME, "private").await, "before the agreement");
        for deployed in ["private.svc", "needs-acme.svc"] {
            agree(&world, agbot, (HOME, deployed)).await;
            assert!(reads(&world, HOME, "private").await, "{deployed} by {}", agbot.title);
            world.restore().await;
        }
    }
    assert!(reads(&world, SHARED, "public").await, "a public service needs no agreement");
}

/// The administrators of another organization approve their own agbots.
#[tokio::test]
async fn agreement_of_an_agbot_of_another_organization_opens_no_registry_credentials() {
    let mut world = world().await;
    for (org, deployed) in
        [(HOME, "private.svc"), (HOME, "needs-acme.svc"), (SHARED, "private.svc"), (HOME, "needs-IBM.svc")]
    {
        agree(&world, FOREIGN, (org, deployed)).await;
        for of in [HOME, SHARED] {
            assert!(!reads(&world, of, "private").await, "{of} after an agreement about {org}/{deployed}");
        }
        world.restore().await;
    }
}

/// Any user can publish a policy that names a private service of the shared organization, or a service that requires it; the agbot of
/// the hub then deploys it.
#[tokio::test]
async fn agreement_opens_no_registry_credentials_of_private_services_of_another_organization() {
    let mut world = world().await;
    for agbot in [OWN, OF_HUB] {
        for (org, deployed) in [(SHARED, "private.svc"), (HOME, "needs-IBM.svc")] {
            agree(&world, agbot, (org, deployed)).await;
            assert!(!reads(&world, SHARED, "private").await, "{org}/{deployed} by {}", agbot.title);
            world.restore().await;
        }
    }
}
