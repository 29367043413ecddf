//! Statistics of nodes on real processes: agents report those of their machine, and policies rank nodes by them.

use std::time::Duration;

use serde_json::{Value, json};

use super::workload::{hub, runs, want};
use crate::support::fleet::{Fleet, arch};
use crate::support::{Scratch, eventually};

/// A3-S2: both agents report the same machine, until one node seems busy; what runs stays when its own node is.
#[tokio::test]
async fn agents_report_statistics_and_the_least_loaded_node_gets_the_instance() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    for node in ["edge-1", "edge-2"] {
        eventually("the agent reports its machine", || async {
            let path = format!("/orgs/o/nodes/{node}/orchestration");
            let stats = hub.call("GET", &path, None).await.1["status"]["stats"].clone();
            (stats["load15"].is_number() && stats["memTotalMb"].as_u64() > Some(0)).then_some(())
        })
        .await;
    }
    let report = async |node: &str, load15: f64| {
        let path = format!("/orgs/o/nodes/{node}/orchestration/status");
        let (status, body) = hub.call("PUT", &path, Some(json!({"stats": {"load15": load15}}))).await;
        assert_eq!(status, 201, "{body}");
    };
    // The agent continues reporting the true load.
    let busy = async {
        loop {
            report("edge-1", 900.0).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let orchestration = |count: u32| -> Value {
        json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 2, "target": count},
               "placement": {"policy": "load-avg"}, "timers": {"readyPeriodSeconds": 0}})
    };
    let placed = async {
        // Nothing has ranked by statistics so far: the plan reads them, as the write does.
        let policy = json!({
            "label": "watch",
            "service": {"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [{"version": "1.0.0"}]},
            "orchestration": orchestration(1),
        });
        eventually("the plan names the least loaded node", || async {
            let path = "/orgs/o/business/policies/watch/plan";
            let (_, plan) = hub.call("POST", path, Some(policy.clone())).await;
            (plan["units"][0]["changes"][0]["to"] == "edge-2").then_some(())
        })
        .await;
        want(&fleet, &hub, "1.0.0", orchestration(1)).await;
        runs(&fleet, "1.0.0", 1).await
    };
    tokio::select! {
        () = busy => {}
        nodes = placed => assert!(nodes.contains("edge-2")),
    }
    let kept = fleet.processes();
    report("edge-2", 999.0).await;
    want(&fleet, &hub, "1.0.0", orchestration(2)).await;
    runs(&fleet, "1.0.0", 2).await;
    assert_eq!(fleet.processes()["edge-2"], kept["edge-2"], "what runs stays");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
