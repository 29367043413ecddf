//! A plain user who attacks: with an agbot and a node that it made itself, in its own organization and from another one.
//!
//! The rights of an identity are a subset of its creator's: what an identity gets, its creator gets as well, and nothing that happens changes
//! a row of anybody else.

use std::collections::BTreeSet;

use evenkeel_api::{Operation, RequiredAccess};
use evenkeel_exchange::operation::Operation as ExchangeOperation;
use evenkeel_exchange::routes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{Aim, body, path};
use super::world::{Caller, HOME, MARK, World};

/// An attacker: its login and those of the identities that it made.
struct Attacker {
    creator: Caller,
    agbot: Caller,
    node: Caller,
}

const fn caller(login: &'static str) -> Caller {
    Caller { title: login, login: Some(login) }
}

const ATTACKERS: [Attacker; 2] = [
    Attacker { creator: caller("acme/uwe"), agbot: caller("acme/uwe-bot"), node: caller("acme/uwe-node") },
    Attacker {
        creator: caller("globex/uwe"),
        agbot: caller("globex/uwe-bot"),
        node: caller("globex/uwe-node"),
    },
];

/// Accesses that an identity has although its creator does not, with the reason.
const BEYOND_THE_CREATOR: &[(&str, &str, &str)] = &[
    ("agbot", "get_max_change_id", "the number of the last change, which the creator reads with the feed"),
    ("node", "get_max_change_id", "the number of the last change, which the creator reads with the feed"),
    ("agbot", "search_nodes_by_policy", "of the nodes of its owner"),
    ("agbot", "search_nodes_by_pattern", "of the nodes of its owner"),
    ("agbot", "search_node_health", "of the nodes of its owner"),
    ("agbot", "search_pattern_node_health", "of the nodes of its owner"),
    ("node", "create_agbot_message", "nodes answer agbots of every organization; mailboxes are bounded"),
    ("node", "list_services", "agents check proposals against the definitions of services"),
    ("node", "get_service", "agents check proposals against the definitions of services"),
];

fn is_known(kind: &str, operation: &str) -> bool {
    BEYOND_THE_CREATOR.iter().any(|(whose, what, _)| (*whose, *what) == (kind, operation))
}

const VICTIM: Aim = Aim { org: HOME, name: "private" };

/// A world in which the attackers have made their identities.
async fn attacked_world() -> World {
    let mut world = World::new().await;
    for Attacker { creator, .. } in &ATTACKERS {
        let org = creator.login.and_then(|login| login.split('/').next()).unwrap_or_default();
        let agbot = json!({"token": "open-sesame", "name": "mine", "publicKey": "key"});
        let node = json!({"token": "open-sesame", "name": "mine", "pattern": "", "publicKey": "key", "arch": "amd64"});
        for (path, body) in [("agbots/uwe-bot", agbot), ("nodes/uwe-node", node)] {
            let path = format!("/orgs/{org}/{path}");
            let (status, _) = world.call(*creator, &Method::PUT, &path, Some(&body)).await;
            assert_eq!(status, StatusCode::CREATED, "{path}");
        }
    }
    world.settle().await;
    world
}

/// The operations of the exchange that need credentials.
fn operations() -> Vec<Operation> {
    let all = routes::all();
    all.iter().map(ExchangeOperation::described).filter(|operation| !operation.is_public()).collect()
}

fn shows_secrets(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(MARK)
}

/// Requires that every changed row names the attacker, apart from the last fencing number, which has no
/// owner.
async fn require_nothing_of_others_changed(world: &mut World, what: &str) {
    let is_foreign = |row: &String| !row.contains("uwe") && !row.starts_with("fencing_number ");
    let foreign: Vec<String> = world.changed_rows().await.into_iter().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "{what} changed {foreign:#?}");
}

#[tokio::test]
async fn identity_gets_nothing_that_its_creator_does_not_and_changes_nothing_of_others() {
    let mut world = attacked_world().await;
    for operation in operations() {
        let target = path(&world, &operation, operation.paths[0], VICTIM);
        let wanted = body(&operation, VICTIM);
        for Attacker { creator, agbot, node } in &ATTACKERS {
            let (allowed, shown) = world.call(*creator, &operation.method, &target, wanted.as_ref()).await;
            let what = format!("{} {target} as {}", operation.method, creator.title);
            require_nothing_of_others_changed(&mut world, &what).await;
            world.restore().await;
            for (kind, identity) in [("agbot", agbot), ("node", node)] {
                let (status, found) =
                    world.call(*identity, &operation.method, &target, wanted.as_ref()).await;
                let what = format!("{} {target} as {}: {status}", operation.method, identity.title);
                let exceeds = (status.is_success() && !allowed.is_success())
                    || (shows_secrets(&found) && !shows_secrets(&shown));
                assert!(
                    !exceeds || is_known(kind, operation.operation),
                    "{what}, its creator gets {allowed}"
                );
                require_nothing_of_others_changed(&mut world, &what).await;
                if operation.method != Method::GET {
                    world.restore().await;
                }
            }
        }
    }
}

#[tokio::test]
async fn agbot_of_the_hub_does_nothing_to_others_for_an_attacker_and_its_identities() {
    let mut world = attacked_world().await;
    let agbot = world.start_agbot().await;
    for operation in evenkeel_agbot::api::part().operations.iter().filter(|operation| !operation.is_public())
    {
        let target = path(&world, operation, operation.paths[0], VICTIM);
        let wanted = body(operation, VICTIM);
        for Attacker { creator, agbot, node } in &ATTACKERS {
            let (allowed, shown) = world.call(*creator, &operation.method, &target, wanted.as_ref()).await;
            let what = format!("{} {target} as {}: {allowed}", operation.method, creator.title);
            let is_read = operation.method == Method::GET || operation.operation.starts_with("plan_");
            // Users act on the nodes that they own, of which the victim has none.
            let is_of_own_nodes = operation.access == RequiredAccess::Right("NodesOperate");
            assert!(is_read || is_of_own_nodes || !allowed.is_success(), "{what}");
            for identity in [agbot, node] {
                let (status, found) =
                    world.call(*identity, &operation.method, &target, wanted.as_ref()).await;
                let exceeds = (status.is_success() && !allowed.is_success())
                    || (shows_secrets(&found) && !shows_secrets(&shown));
                assert!(!exceeds, "{what}, {} gets {status}", identity.title);
            }
        }
    }
    drop(agbot);
}

/// The same path with the attacker's own node and agbot, but the parts of the victim: ids of its agreements, tasks and entries.
fn own_path(target: &str, org: &str) -> String {
    target
        .replace(&format!("/orgs/{HOME}/"), &format!("/orgs/{org}/"))
        .replace("/nodes/n1", "/nodes/uwe-node")
        .replace("/agbots/bot", "/agbots/uwe-bot")
}

/// One operation for each right, by which a new right would show.
fn probes() -> Vec<Operation> {
    let mut seen = BTreeSet::new();
    let mut all = operations();
    // Reads first: they show a right without a change.
    all.sort_by_key(|operation| operation.method != Method::GET);
    // An agreement that the attacker recorded itself is active, whatever its id.
    all.retain(|operation| operation.operation != "confirm_agreement");
    all.retain(|operation| seen.insert((format!("{:?}", operation.access), operation.method == Method::GET)));
    all
}

async fn probe(world: &mut World, probes: &[Operation], attacker: &Attacker) -> Vec<(String, bool)> {
    let mut reached = Vec::new();
    for operation in probes {
        let target = path(world, operation, operation.paths[0], VICTIM);
        let wanted = body(operation, VICTIM);
        for identity in [attacker.agbot, attacker.node] {
            let (status, found) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
            let is_reached =
                status.is_success() && (operation.method != Method::GET || shows_secrets(&found));
            reached.push((format!("{} {target} as {}", operation.method, identity.title), is_reached));
        }
    }
    reached
}

#[tokio::test]
async fn no_allowed_request_opens_what_was_closed_before_and_none_changes_rows_of_others() {
    let mut world = attacked_world().await;
    let probes = probes();
    for attacker in &ATTACKERS {
        let org = attacker.creator.title.split('/').next().unwrap_or_default();
        let before = probe(&mut world, &probes, attacker).await;
        world.restore().await;
        for operation in operations().iter().filter(|operation| operation.method != Method::GET) {
            let target = own_path(&path(&world, operation, operation.paths[0], VICTIM), org);
            let wanted: Option<Value> = body(operation, VICTIM);
            for identity in [attacker.creator, attacker.agbot, attacker.node] {
                let (status, _) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
                if !status.is_success() {
                    continue;
                }
                let first = format!("{} {target} as {}", operation.method, identity.title);
                require_nothing_of_others_changed(&mut world, &first).await;
                let after = probe(&mut world, &probes, attacker).await;
                for ((what, was_reached), (_, is_reached)) in before.iter().zip(&after) {
                    assert!(*was_reached || !is_reached, "{first} opens {what}");
                }
                world.restore().await;
            }
        }
    }
}
