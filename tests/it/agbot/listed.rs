//! Node health: an agreement ends when the exchange does not have it of its node, and only then.

use std::time::Duration;

use serde_json::json;

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

/// Agbot 1.7: the feed shows agbots removals from the list of a node's agreements, but no additions.
#[tokio::test]
async fn agreement_that_replaced_another_one_is_not_missed_and_one_that_vanished_is_made_again() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let want = async |version: &str| {
        let health = json!({"missing_heartbeat_interval": 600, "check_agreement_status": 3});
        let service = json!({
            "name": "watch", "org": "o", "arch": crate::support::fleet::arch(),
            "serviceVersions": [{"version": version}], "nodeHealth": health,
        });
        fleet.want_with(&hub, version, json!({"service": service})).await;
        eventually(&format!("{version} runs"), || async { fleet.all_run(version).then_some(()) }).await;
    };
    want("1.0.0").await;
    want("2.0.0").await;
    let processes = fleet.processes();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(fleet.processes(), processes, "the agreement is listed, and nothing was restarted");

    let client = &hub.client;
    let path = format!("{}/v1/orgs/o/nodes/edge-1/agreements", hub.url);
    let node = |request: reqwest::RequestBuilder| request.basic_auth("o/edge-1", Some("secret-edge-1"));
    let removed = node(client.delete(&path)).send().await.expect("a response");
    assert_eq!(removed.status().as_u16(), 204);
    eventually("another agreement is made", || async {
        let now = fleet.processes();
        (now.len() == 1 && now != processes).then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
