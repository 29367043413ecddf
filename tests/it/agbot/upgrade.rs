//! Permission for members of an HA group to upgrade their agents: both forms of the request, one grant at a
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_ids::GroupId;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::in_process::Agbots;
use crate::exchange::api::ROOT;
use crate::support::{Hub, Scratch, eventually, free_address};

/// Makes an organization with nodes in one group and a management policy.
pub(super) async fn group_of(hub: &Hub, count: usize) -> Vec<String> {
    let created = |response: (u16, Value)| assert_eq!(response.0, 201, "{}", response.1);
    created(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await);
    let nodes: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    for node in &nodes {
        let body = json!({"token": format!("secret-{node}"), "name": node, "pattern": "", "publicKey": "", "arch": "amd64"});
        created(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await);
    }
    created(hub.call("POST", "/orgs/o/hagroups/g", Some(json!({"members": nodes}))).await);
    let policy = json!({"label": "up", "constraints": ["a == b"], "enabled": true});
    for name in ["fw-9", "other"] {
        created(hub.call("POST", &format!("/orgs/o/managementpolicies/{name}"), Some(policy.clone())).await);
    }
    nodes
}

/// Asks in the document's form with the credentials of `caller`.
pub(super) async fn ask(hub: &Hub, caller: &str, node: &str, body: Value) -> u16 {
    loop {
        let request = hub.client.post(format!("{}/org/o/node/{node}/upgrade", hub.url));
        let request = request.basic_auth(format!("o/{caller}"), Some(format!("secret-{caller}"))).json(&body);
        match request.send().await.expect("a response").status().as_u16() {
            // A busy machine refuses logins that waited too long for their hash; agents try again.
            429 => tokio::time::sleep(Duration::from_secs(1)).await,
            status => return status,
        }
    }
}

/// Asks as deployed agents do.
async fn ask_as_agents_do(hub: &Hub, caller: &str, group: &str, node: &str, policy: &str) -> (u16, Value) {
    let path = format!("{}/v1/org/o/hagroup/{group}/nodemanagement/{node}/{policy}", hub.url);
    let request = hub.client.post(path).basic_auth(format!("o/{caller}"), Some(format!("secret-{caller}")));
    let response = request.send().await.expect("a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

pub(super) async fn report(hub: &Hub, node: &str, status: &str) {
    let path = format!("/orgs/o/nodes/{node}/managementStatus/fw-9");
    let response = hub.call("PUT", &path, Some(management_status(status))).await;
    assert_eq!(response.0, 201, "{}", response.1);
}

fn management_status(status: &str) -> Value {
    json!({"agentUpgradePolicyStatus": {"scheduledTime": "2026-01-01T00:00:00Z", "status": status}})
}

/// HA-9, HA-15, E6-S1, E6-S2, E6-S7: 200 and 201 for yes, 409 for no.
#[tokio::test]
async fn members_take_turns_and_the_end_of_an_upgrade_frees_the_next() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    group_of(&hub, 2).await;
    report(&hub, "n0", "ha node waiting").await;
    let nmp = || json!({"nmp": "o/fw-9"});
    assert_eq!(ask(&hub, "n0", "n0", nmp()).await, 200);
    assert_eq!(ask(&hub, "n0", "n0", nmp()).await, 200, "the same question gets the same yes");
    assert_eq!(ask(&hub, "n1", "n1", nmp()).await, 409);
    assert_eq!(ask(&hub, "n0", "n0", json!({"nmp": "o/other"})).await, 409, "one policy at a time");
    let (status, body) = ask_as_agents_do(&hub, "n1", "g", "n1", "fw-9").await;
    assert_eq!((status, body["code"].as_str()), (409, Some("409")));
    assert!(!body.to_string().contains("n0"), "a node reads nothing of other nodes: {body}");
    let (status, body) = ask_as_agents_do(&hub, "n0", "g", "n0", "fw-9").await;
    assert_eq!((status, body["code"].as_str()), (201, Some("201")));

    report(&hub, "n0", "successful").await;
    eventually("the next member may go", || async {
        (ask(&hub, "n1", "n1", nmp()).await == 200).then_some(())
    })
    .await;
    assert_eq!(hub.stop().await, 0);
}

/// Agbot 3.3.
#[tokio::test]
async fn upgrade_request_is_served_on_both_listeners_with_and_without_the_prefix() {
    let scratch = Scratch::new();
    let listen = free_address();
    let hub = Hub::start(&scratch, &["--agbot-listen", &listen]).await;
    group_of(&hub, 2).await;
    report(&hub, "n0", "ha node waiting").await;
    for base in [hub.url.clone(), format!("http://{listen}")] {
        for prefix in ["", "/v1"] {
            for (path, yes) in [("node/n0/upgrade", 200), ("hagroup/g/nodemanagement/n0/fw-9", 201)] {
                let url = format!("{base}{prefix}/org/o/{path}");
                let request = hub.client.post(&url).basic_auth("o/n0", Some("secret-n0"));
                let response = request.json(&json!({"nmp": "fw-9"})).send().await.expect("a response");
                assert_eq!(response.status(), yes, "{url}");
            }
        }
    }
    assert_eq!(hub.stop().await, 0);
}

/// E6-S6.
#[tokio::test]
async fn wrong_callers_groups_and_bodies_are_refused_by_name() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    group_of(&hub, 2).await;
    assert_eq!(ask(&hub, "n1", "n0", json!({"nmp": "fw-9"})).await, 400, "the credentials of another node");
    assert_eq!(ask_as_agents_do(&hub, "n0", "elsewhere", "n0", "fw-9").await.0, 400, "a group it is not in");
    assert_eq!(ask(&hub, "n0", "n0", json!({})).await, 400);
    assert_eq!(ask(&hub, "n0", "n0", json!({"nmp": ""})).await, 400);
    for (node, nmp) in [("n0", "none"), ("n1", "none"), ("n0", "other-org/fw-9"), ("n1", "o/none")] {
        assert_eq!(ask(&hub, node, node, json!({"nmp": nmp})).await, 404, "{nmp} does not exist");
    }
    assert_eq!(ask_as_agents_do(&hub, "n0", "g", "n0", "none").await.0, 404);
    assert_eq!(hub.call("DELETE", "/orgs/o/hagroups/g", None).await.0, 204);
    assert_eq!(ask(&hub, "n0", "n0", json!({"nmp": "none"})).await, 404, "outside of a group as well");
    assert_eq!(ask(&hub, "n0", "n0", json!({"nmp": "fw-9"})).await, 200);
    assert_eq!(ask(&hub, "unknown", "unknown", json!({"nmp": "fw-9"})).await, 401);
    let response =
        hub.client.post(format!("{}/org/o/node/n0/upgrade", hub.url)).json(&json!({"nmp": "fw-9"}));
    assert_eq!(response.send().await.expect("a response").status().as_u16(), 401);
    assert_eq!(hub.stop().await, 0);
}

/// E8-S3: a member that is being drained, or paused, counts as away.
#[tokio::test]
async fn member_waits_while_the_only_other_one_is_drained() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    group_of(&hub, 2).await;
    report(&hub, "n0", "ha node waiting").await;
    let nmp = || json!({"nmp": "o/fw-9"});
    for availability in ["drain", "pause"] {
        let spec = json!({"availability": availability});
        let path = "/orgs/o/nodes/n1/orchestration/spec";
        assert_eq!(hub.call("PUT", path, Some(spec)).await.0, 201);
        assert_eq!(ask(&hub, "n0", "n0", nmp()).await, 409, "{availability}");
    }
    let spec = json!({"availability": "active"});
    assert_eq!(hub.call("PUT", "/orgs/o/nodes/n1/orchestration/spec", Some(spec)).await.0, 201);
    assert_eq!(ask(&hub, "n0", "n0", nmp()).await, 200);
    assert_eq!(hub.stop().await, 0);
}

/// Two reads for the group, one of the management policy, and one with the node's own credentials, however many members there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_costs_the_same_reads_in_a_large_group() {
    const MEMBERS: usize = 40;
    let agbots = Agbots::start(1).await;
    let nodes = agbots.make_nodes(MEMBERS).await;
    let policy = json!({"label": "up", "constraints": ["a == b"], "enabled": true});
    agbots.api.expect(201, "o/admin:pa", "POST", "/orgs/o/managementpolicies/fw-9", policy).await;
    // A claim of a node without a status would be given up at once.
    for node in &nodes {
        let path = format!("/orgs/o/nodes/{}/managementStatus/fw-9", node.name());
        agbots.api.expect(201, ROOT, "PUT", &path, management_status("ha node waiting")).await;
    }
    agbots.group("g", &nodes).await;
    let group = GroupId::new("o", "g");
    let model_has_group = || async { agbots.all[0].context().model().group(&group).map(|_| ()) };
    eventually("the agbot has read the group, and the nodes before it", model_has_group).await;
    let before = agbots.calls();
    let responses = join_all(nodes.iter().map(|node| agbots.ask_for_upgrade(node, "fw-9"))).await;
    let calls = agbots.calls() - before;
    assert_eq!(responses.iter().filter(|status| **status == 200).count(), 1, "{responses:?}");
    // The followed feed and the claim that was granted cause some reads, too.
    assert!(calls <= 5 * MEMBERS, "{calls} requests for {MEMBERS} questions");
}

/// HA-14, E6-S3.
#[tokio::test]
async fn forty_members_asking_at_once_get_exactly_one_yes() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let nodes = group_of(&hub, 40).await;
    // A claim of a node without a status would be given up at once.
    for node in &nodes {
        report(&hub, node, "ha node waiting").await;
    }
    let responses = join_all(nodes.iter().map(|node| ask(&hub, node, node, json!({"nmp": "o/fw-9"})))).await;
    let mut counted: BTreeMap<u16, usize> = BTreeMap::new();
    for status in responses {
        *counted.entry(status).or_default() += 1;
    }
    assert_eq!(counted, BTreeMap::from([(200, 1), (409, 39)]));
    assert_eq!(hub.stop().await, 0);
}

/// Members that have reported nothing yet, each pair with a management policy of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_members_that_ask_at_one_instant_gets_a_yes_and_keeps_it() {
    const GROUPS: usize = 8;
    let agbots = Agbots::start(1).await;
    let nodes = agbots.make_nodes(2 * GROUPS).await;
    for (index, members) in nodes.chunks(2).enumerate() {
        let policy = json!({
            "label": "up", "constraints": ["site == north"], "enabled": true, "start": "now",
            "agentUpgradePolicy": {"manifest": "o/m", "allowDowngrade": false},
        });
        let path = format!("/orgs/o/managementpolicies/fw-{index}");
        agbots.api.expect(201, "o/admin:pa", "POST", &path, policy).await;
        agbots.group(&format!("g-{index}"), members).await;
    }
    let ask = async |index: usize| {
        let name = format!("fw-{index}");
        let (first, second) = (&nodes[2 * index], &nodes[2 * index + 1]);
        let both = [agbots.ask_for_upgrade(first, &name), agbots.ask_for_upgrade(second, &name)];
        join_all(both).await
    };
    let before = join_all((0..GROUPS).map(ask)).await;
    for statuses in &before {
        let mut sorted = statuses.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [200, 409]);
    }
    assert_eq!(join_all((0..GROUPS).map(ask)).await, before, "the other one still waits");
}
