//! Settings of an organization on real processes: the agbot takes a change from the feed.

use serde_json::json;

use super::failover::{DOWN_AFTER, send_heartbeats};
use super::workload::{runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

/// The hub would wait for three minutes: the organization says otherwise while the hub runs.
#[tokio::test]
async fn lost_node_is_down_as_soon_as_its_organization_says() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let settings = json!({"nodeDownAfterSeconds": DOWN_AFTER.as_secs(), "readyPeriodSeconds": 0});
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            want(&fleet, &hub, "1.0.0", json!({"mode": "failover", "orchestrate": "ha"})).await;
            assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings.clone())).await.0, 201);
            eventually("the event log shows the settings", || async {
                let path = "/orgs/o/orchestration/events?kind=settings.changed";
                let (_, body) = hub.call("GET", path, None).await;
                (body["events"][0]["data"]["settings"] == settings).then_some(())
            })
            .await;
            let active = runs(&fleet, "1.0.0", 1).await.into_iter().next().expect("an instance runs");
            let number: usize = active.trim_start_matches("edge-").parse().expect("a number");
            fleet.agent(number - 1).kill().await;
            eventually("the other node takes over", || async {
                fleet.versions().keys().any(|node| *node != active).then_some(())
            })
            .await;
        } => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
