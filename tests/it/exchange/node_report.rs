//! Reports of a node about itself: by the node alone, with or without a heartbeat, stored whole or not at
//! all.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;

const OWNER: &str = "o/u:pu";
const NODE: &str = "o/n:token-n";
const AGBOT: &str = "o/b:t";
const STATUS: &str = "/orgs/o/nodes/n/orchestration/status";
const HEARTBEAT: &str = "/orgs/o/nodes/n/heartbeat";
const SHOWN: &str = "/orgs/o/nodes/n/orchestration";
const STATISTICS: &str = "/orgs/o/orchestration/statistics";

async fn start() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node(OWNER, "o", "n").await;
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, OWNER, "PUT", "/orgs/o/agbots/b", agbot).await;
    api.expect(201, ROOT, "PUT", "/orgs/o/agbots/b/approval", Value::Null).await;
    (database, api)
}

async fn shown(api: &Api) -> Value {
    api.expect(200, OWNER, "GET", SHOWN, Value::Null).await["status"].clone()
}

fn without_time(part: &Value) -> Value {
    let mut part = part.clone();
    let at = part.as_object_mut().and_then(|members| members.remove("at"));
    assert!(at.is_some_and(|at| at.is_string()), "the exchange adds when it received it");
    part
}

#[tokio::test]
async fn report_is_shown_and_what_is_left_out_stays() {
    let (_database, api) = start().await;
    assert_eq!(shown(&api).await["monitorState"], "idle");
    let stats = json!({"load1": 0.2, "load5": 0.2, "load15": 0.3, "memTotalMb": 4000, "memAvailMb": 2100,
                       "swapTotalMb": 1000, "swapAvailMb": 1000});
    let engine = json!({"state": "up", "status": "enabled"});
    let report = json!({"monitorState": "init", "compatVersion": 12, "stats": stats, "engine": engine});
    api.expect(201, NODE, "PUT", STATUS, report).await;
    let first = shown(&api).await;
    assert_eq!((&first["monitorState"], &first["compatVersion"]), (&json!("init"), &json!(12)));
    assert_eq!((without_time(&first["stats"]), without_time(&first["engine"])), (stats.clone(), engine));
    // Its own clock counts for nothing.
    let later = json!({"stats": {"load15": 4, "at": "2001-01-01T00:00:00Z"}});
    api.expect(201, NODE, "POST", HEARTBEAT, later).await;
    let second = shown(&api).await;
    assert_eq!(without_time(&second["stats"]), json!({"load15": 4.0}));
    assert_ne!(second["stats"]["at"], "2001-01-01T00:00:00Z");
    for kept in ["monitorState", "monitorStateSince", "compatVersion", "engine"] {
        assert_eq!(second[kept], first[kept], "{kept}");
    }
    api.expect(201, NODE, "POST", HEARTBEAT, json!({"monitorState": "init"})).await;
    assert_eq!(shown(&api).await["monitorStateSince"], first["monitorStateSince"], "nothing new");
    api.expect(201, NODE, "PUT", STATUS, json!({"monitorState": "idle"})).await;
    assert_ne!(shown(&api).await["monitorStateSince"], first["monitorStateSince"]);
}

#[tokio::test]
async fn state_follows_the_heartbeats() {
    let (_database, api) = start().await;
    let admin = "o/admin:pa";
    let body = json!({"token": "token-m", "name": "m", "pattern": "", "publicKey": ""});
    api.expect(201, admin, "PUT", "/orgs/o/nodes/m?noheartbeat=true", body).await;
    let state = async |node: &str| {
        let path = format!("/orgs/o/nodes/{node}/orchestration");
        api.expect(200, admin, "GET", &path, Value::Null).await["status"]["state"].clone()
    };
    assert_eq!(state("m").await, "unknown");
    api.expect(201, "o/m:token-m", "POST", "/orgs/o/nodes/m/heartbeat", Value::Null).await;
    assert_eq!(state("m").await, "ready");
    api.expect(201, "o/m:token-m", "PATCH", "/orgs/o/nodes/m", json!({"agentState": "stopped"})).await;
    assert_eq!(state("m").await, "down", "its agent has ended with all of its services");
}

#[tokio::test]
async fn malformed_report_is_refused_with_its_path_and_nothing_of_it_is_stored() {
    let (_database, api) = start().await;
    api.expect(201, NODE, "PUT", STATUS, json!({"monitorState": "init", "stats": {"load15": 1}})).await;
    let before = shown(&api).await;
    for (body, rule) in [
        (json!({}), "stats or engine must be given"),
        (
            json!({"monitorState": "away"}),
            "monitorState must be idle, init, maintenance, upgrade or shutting",
        ),
        (json!({"monitorState": "idle", "compatVersion": "x"}), "compatVersion must be an integer"),
        (json!({"monitorState": "idle", "stats": {"load15": -1}}), "stats.load15 must be a number from 0"),
        (
            json!({"monitorState": "idle", "stats": {"memAvialMb": 1}}),
            "stats.memAvialMb is not known; memAvailMb",
        ),
        (json!({"monitorState": "idle", "engine": {"state": "x"}}), "engine.state must be up or down"),
        (json!({"monitorState": "idle", "state": "ready"}), "state is not known"),
    ] {
        // A body without members of a report is a heartbeat as deployed agents may send it.
        let is_heartbeat = body == json!({});
        let calls = [("PUT", STATUS), ("POST", HEARTBEAT)];
        for (method, path) in calls.into_iter().take(if is_heartbeat { 1 } else { 2 }) {
            let refused = api.expect(400, NODE, method, path, body.clone()).await;
            assert_eq!(refused["code"], "invalid-input");
            assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
        }
    }
    for body in [json!({}), json!({"x": 1}), json!([1])] {
        api.expect(201, NODE, "POST", HEARTBEAT, body).await;
    }
    assert_eq!(shown(&api).await["stats"], before["stats"]);
    assert_eq!(shown(&api).await["monitorState"], "init");
}

#[tokio::test]
async fn only_the_node_itself_reports_and_only_who_searches_nodes_lists_statistics() {
    let (_database, api) = start().await;
    api.make_node(OWNER, "o", "m").await;
    let report = json!({"stats": {"load15": 1}});
    for login in [OWNER, "o/admin:pa", AGBOT, "o/m:token-m"] {
        api.expect(403, login, "PUT", STATUS, report.clone()).await;
        api.expect(403, login, "POST", HEARTBEAT, report.clone()).await;
    }
    // Without a report the owner may send a heartbeat, as ever.
    api.expect(201, OWNER, "POST", HEARTBEAT, Value::Null).await;
    api.expect(201, NODE, "PUT", STATUS, report).await;
    for login in [AGBOT, "o/admin:pa", ROOT] {
        let found = api.expect(200, login, "GET", STATISTICS, Value::Null).await;
        assert_eq!(without_time(&found["nodes"]["o/n"]), json!({"load15": 1.0}));
        assert_eq!(found["nodes"].as_object().map(serde_json::Map::len), Some(1), "m reported none");
    }
    for login in [OWNER, NODE] {
        api.expect(403, login, "GET", STATISTICS, Value::Null).await;
    }
    let all = api.expect(200, AGBOT, "GET", STATISTICS, Value::Null).await;
    let at = all["nodes"]["o/n"]["at"].as_str().expect("a time").to_owned();
    let since = |at: &str| format!("{STATISTICS}?since={at}");
    assert_eq!(api.expect(200, AGBOT, "GET", &since(&at), Value::Null).await, all);
    let none = api.expect(200, AGBOT, "GET", &since("2999-01-01T00:00:00Z"), Value::Null).await;
    assert_eq!(none, json!({"nodes": {}}));
    api.expect(400, AGBOT, "GET", &since("yesterday"), Value::Null).await;
}

/// Statistics would flood the feed; another state is shown to those who ask for extensions.
#[tokio::test]
async fn feed_shows_another_monitor_state_to_agbots_that_ask_for_extensions() {
    let (_database, api) = start().await;
    let seen = async |login: &str, extensions: bool| {
        let body = json!({"changeId": 1, "maxRecords": 1000, "extensions": extensions});
        let found = api.expect(201, login, "POST", "/orgs/o/changes", body).await;
        let changes = found["changes"].as_array().cloned().unwrap_or_default();
        let of_report = changes.into_iter().filter(|change| change["resource"] == "nodeorchestration");
        of_report.map(|change| change["resourceChanges"].as_array().map_or(0, Vec::len)).sum::<usize>()
    };
    for _ in 0..3 {
        api.expect(201, NODE, "POST", HEARTBEAT, json!({"stats": {"load15": 1}})).await;
    }
    assert_eq!(seen(AGBOT, true).await, 0);
    for state in ["maintenance", "maintenance", "init", "idle"] {
        api.expect(201, NODE, "PUT", STATUS, json!({"monitorState": state})).await;
    }
    assert_eq!(seen(AGBOT, true).await, 3);
    assert_eq!((seen(AGBOT, false).await, seen(NODE, true).await), (0, 0));
}
