//! A second agbot that is configured to serve what the hub's own agbot serves.

use serde_json::json;

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const RIVAL: &str = "/orgs/o/agbots/rival";

async fn reasons(hub: &Hub) -> Vec<String> {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/reasons", None).await;
    let reasons = body["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().filter_map(|reason| reason["text"].as_str()).map(str::to_owned).collect()
}

/// The rival makes no agreement here, so that the last member has nobody to hand its instance to.
#[tokio::test]
async fn hub_agbot_steps_back_while_another_agbot_is_configured_and_the_last_instance_stays() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("every member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;

    let agbot = json!({"token": "secret-rival", "name": "rival", "publicKey": ""});
    assert_eq!(hub.call("PUT", RIVAL, Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "o", "businessPol": "everywhere", "nodeOrgid": "o"});
    assert_eq!(hub.call("POST", &format!("{RIVAL}/businesspols"), Some(entry)).await.0, 201);
    eventually("one member is left to the other agbot, and the other keeps its instance", || async {
        let reasons = reasons(&hub).await;
        let is_left = reasons.iter().any(|text| text.contains("o/rival"));
        let is_kept = reasons.iter().any(|text| text.contains("HA minimum"));
        (is_left && is_kept && fleet.versions().len() == 1).then_some(())
    })
    .await;
    let (_, status) = hub.call("GET", "/agbot/status", None).await;
    assert_eq!(status["leftToOtherAgbots"][0]["agbot"], "o/rival", "{status}");
    assert!(hub.program.errors().contains("not serving deployment policy `o/everywhere`"));
    fleet.want_with(&hub, "1.0.0", json!({"label": "edited"})).await;
    assert_eq!(fleet.versions().len(), 1, "an edit brings nothing back");

    assert_eq!(hub.call("DELETE", RIVAL, None).await.0, 204);
    eventually("every member runs it again", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    assert!(!reasons(&hub).await.iter().any(|text| text.contains("o/rival")));
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn hub_agbot_keeps_what_it_serves_when_it_ignores_other_agbots() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--other-agbots", "ignore"]).await;
    let agbot = json!({"token": "secret-rival", "name": "rival", "publicKey": ""});
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await.0, 201);
    assert_eq!(hub.call("PUT", RIVAL, Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    assert_eq!(hub.call("POST", &format!("{RIVAL}/businesspols"), Some(entry)).await.0, 201);
    let fleet = Fleet::join(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("the member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
