//! An agent whose container engine is not there says so at once, in its log and to the hub.

use serde_json::Value;

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn container_driver_without_an_engine_is_an_error_and_a_report_of_the_node() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let endpoint = format!("unix://{}", scratch.join("no-engine.sock").display());
    let options = ["--driver", "docker", "--docker-endpoint", &endpoint];
    let mut fleet = Fleet::start_with(&scratch, &hub, 1, &options).await;
    let agent = fleet.agent(0);
    eventually("an error in the log", || async {
        let log = agent.errors();
        log.lines().find(|line| line.contains("ERROR") && line.contains("--docker-endpoint")).map(|_| ())
    })
    .await;
    let report = eventually("an error of the node", || async {
        let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1/errors", None).await;
        body["errors"].as_array().and_then(|errors| errors.first().cloned())
    })
    .await;
    assert_eq!(report["event_code"], "error_container_engine");
    assert!(report["message"].as_str().is_some_and(|text| text.contains("--docker-endpoint")), "{report}");
    let state = eventually("the state of the engine", || async {
        let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await;
        Some(body["status"]["engine"]["state"].clone()).filter(|state| *state != Value::Null)
    })
    .await;
    assert_eq!(state, "down");
}
