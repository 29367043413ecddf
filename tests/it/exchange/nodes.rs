//! Nodes in number: limits, long lists, names, heartbeats, and the paged search of agbots.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor};

use super::api::{Api, ROOT, read_response};
use crate::support::wait::must;
use crate::support::{TestDatabase, eventually};

async fn exchange() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    (database, api)
}

fn node_body() -> Value {
    json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""})
}

fn members(response: &Value, name: &str) -> usize {
    response[name].as_object().map_or(0, serde_json::Map::len)
}

#[tokio::test]
async fn limit_of_an_organization_holds_against_competing_creations() {
    let (_database, api) = exchange().await;
    api.expect(201, ROOT, "PATCH", "/orgs/o", json!({"limits": {"maxNodes": 3}})).await;
    let attempts = (0..12).map(|number| {
        let api = api.clone();
        tokio::spawn(async move {
            api.call("o/u:pu", "PUT", &format!("/orgs/o/nodes/n{number}"), node_body()).await.0
        })
    });
    let mut statuses = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        statuses.push(must(attempt.await, "an attempt"));
    }
    statuses.sort_unstable();
    assert_eq!(statuses[..3], [201; 3]);
    assert_eq!(statuses[3..], [403; 9]);
    // Root is not limited.
    api.expect(201, ROOT, "PUT", "/orgs/o/nodes/one-more", node_body()).await;
}

#[tokio::test]
async fn one_of_competing_logins_gets_the_name() {
    let (_database, api) = exchange().await;
    for round in 0..8 {
        let user = json!({"password": "p", "email": "e"});
        let agbot = json!({"token": "t", "name": "a", "publicKey": ""});
        let [nodes, agbots, users] =
            ["nodes", "agbots", "users"].map(|kind| format!("/orgs/o/{kind}/x{round}"));
        let (node, agbot, user) = tokio::join!(
            api.call("o/u:pu", "PUT", &nodes, node_body()),
            api.call("o/u:pu", "PUT", &agbots, agbot),
            api.call("o/admin:pa", "POST", &users, user),
        );
        let mut statuses = [node.0, agbot.0, user.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409, 409]);
    }
}

#[tokio::test]
async fn long_lists_come_whole() {
    let (database, api) = exchange().await;
    let mut connection = database.connection().await;
    let fill = "
        INSERT INTO node (org, node, name, owner_org, owner, token_hash, node_type, registered_services, user_input,
                          software_versions, public_key, heartbeat_intervals, updated_at)
        SELECT 'o', 'n' || number, 'x', 'o', 'u', '', 'device', '[]', '[]', '{}', 'key', '{}', now()
        FROM generate_series(1, 2500) AS number;
        INSERT INTO node_heartbeat (org, node, seen_at) SELECT org, node, now() FROM node;
        INSERT INTO node_error (org, node, errors, updated_at) SELECT org, node, '[1]', now() FROM node;
        INSERT INTO node_status (org, node, connectivity, services, running_services, updated_at)
        SELECT org, node, '{}', '[]', '|o/s_1.0.0_amd64|', now() FROM node;";
    must(connection.execute(fill).await, "filling");
    let nodes = api.expect(200, "o/u:pu", "GET", "/orgs/o/nodes", Value::Null).await;
    assert_eq!(members(&nodes, "nodes"), 2500);
    assert_eq!(nodes["lastIndex"], 0);
    let details = api.expect(200, "o/admin:pa", "GET", "/orgs/o/node-details", Value::Null).await;
    assert_eq!(details.as_array().map(Vec::len), Some(2500));
    let health =
        api.expect(201, "o/admin:pa", "POST", "/orgs/o/search/nodehealth", json!({"lastTime": ""})).await;
    assert_eq!(members(&health, "nodes"), 2500);
    let with_errors = api.expect(201, "o/admin:pa", "POST", "/orgs/o/search/nodes/error", Value::Null).await;
    assert_eq!(with_errors["nodes"].as_array().map(Vec::len), Some(2500));
    let service = json!({"orgid": "o", "serviceURL": "s", "serviceVersion": "1.0.0", "serviceArch": "amd64"});
    let running = api.expect(201, "o/u:pu", "POST", "/orgs/o/search/nodes/service", service).await;
    assert_eq!(running["nodes"].as_array().map(Vec::len), Some(2500));
    // Only the caller's, and no partial responses: the other user has none of them.
    api.expect(404, "o/v:pv", "GET", "/orgs/o/nodes", Value::Null).await;
    api.expect(404, "o/v:pv", "GET", "/orgs/o/node-details", Value::Null).await;
}

#[tokio::test]
async fn node_made_again_has_given_no_sign_of_life() {
    let (_database, api) = exchange().await;
    api.make_node("o/u:pu", "o", "n").await;
    let heartbeat = "/orgs/o/nodes/n?attribute=lastHeartbeat";
    let seen = api.expect(200, "o/u:pu", "GET", heartbeat, Value::Null).await;
    assert_ne!(seen["value"], "");
    api.expect(201, "o/n:token-n", "POST", "/orgs/o/nodes/n/heartbeat", Value::Null).await;
    let later = api.expect(200, "o/u:pu", "GET", heartbeat, Value::Null).await;
    assert!(later["value"].as_str() > seen["value"].as_str(), "{later} is not after {seen}");
    api.expect(204, "o/u:pu", "DELETE", "/orgs/o/nodes/n", Value::Null).await;
    api.expect(201, "o/v:pv", "PUT", "/orgs/o/nodes/n?noheartbeat=true", node_body()).await;
    let seen = api.expect(200, "o/v:pv", "GET", heartbeat, Value::Null).await;
    assert_eq!(seen["value"], "");
    // The old token went with the old node.
    api.expect(401, "o/n:token-n", "GET", "/orgs/o/nodes/n", Value::Null).await;
}

#[tokio::test]
async fn heartbeat_replaces_one_that_lies_in_the_future() {
    let (database, api) = exchange().await;
    api.make_node("o/u:pu", "o", "n").await;
    let agbot = json!({"token": "tb", "name": "b", "publicKey": ""});
    api.expect(201, "o/admin:pa", "PUT", "/orgs/o/agbots/b", agbot).await;
    // As an exchange wrote them whose clock was ahead.
    let mut connection = database.connection().await;
    for statement in [
        "UPDATE node_heartbeat SET seen_at = now() + interval '1 hour'",
        "UPDATE agbot SET seen_at = now() + interval '1 hour'",
    ] {
        must(connection.execute(statement).await, statement);
    }
    // Another exchange has no memory of the earlier heartbeats.
    let api = Api::start(&database).await;
    for (login, path) in [("o/n:token-n", "/orgs/o/nodes/n"), ("o/b:tb", "/orgs/o/agbots/b")] {
        api.expect(201, login, "POST", &format!("{path}/heartbeat"), Value::Null).await;
    }
    let ahead = "SELECT (SELECT count(*) FROM node_heartbeat WHERE seen_at > now())
                      + (SELECT count(*) FROM agbot WHERE seen_at > now())";
    eventually("both heartbeats are stored", || async {
        let mut connection = database.connection().await;
        let (count,): (i64,) = must(sqlx::query_as(ahead).fetch_one(&mut connection).await, "the heartbeats");
        (count == 0).then_some(())
    })
    .await;
}

/// A node `n` with an agreement, seen just now.
async fn make_busy_node(api: &Api) {
    api.make_node("o/u:pu", "o", "n").await;
    let agreement =
        json!({"agreementService": {"orgid": "o", "pattern": "", "url": "w"}, "state": "negotiating"});
    api.expect(201, "o/n:token-n", "PUT", "/orgs/o/nodes/n/agreements/a", agreement).await;
}

#[tokio::test]
async fn agent_of_a_deleted_node_confirms_that_it_stopped_everything_and_can_do_nothing_else() {
    let (_database, api) = exchange().await;
    let departures = "/orgs/o/orchestration/departures";
    let departure = &format!("{departures}/n");
    make_busy_node(&api).await;
    api.expect(204, "o/u:pu", "DELETE", "/orgs/o/nodes/n", Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
    assert_eq!(members(&found, "nodes"), 1, "{found}");
    assert!(
        found["nodes"]["o/n"]["deleted"].as_str() >= found["nodes"]["o/n"]["lastHeartbeat"].as_str(),
        "{found}"
    );
    // The name is given to another one meanwhile: the old token is not good for it.
    api.expect(201, "o/v:pv", "PUT", "/orgs/o/nodes/n", node_body()).await;
    for (login, status) in [("o/n:wrong", 401), ("o/u:pu", 403), ("o/v:pv", 403)] {
        api.expect(status, login, "DELETE", departure, Value::Null).await;
    }
    for (method, path) in [("GET", "/orgs/o/nodes/n"), ("DELETE", "/orgs/o/nodes/n"), ("GET", departures)] {
        api.expect(401, "o/n:token-n", method, path, Value::Null).await;
    }
    api.expect(204, "o/n:token-n", "DELETE", departure, Value::Null).await;
    api.expect(401, "o/n:token-n", "DELETE", departure, Value::Null).await;
    api.expect(404, "o/admin:pa", "DELETE", departure, Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
    assert_eq!(members(&found, "nodes"), 0, "{found}");
    api.expect(200, "o/v:pv", "GET", "/orgs/o/nodes/n", Value::Null).await;
}

#[tokio::test]
async fn nodes_of_a_deleted_user_depart_like_deleted_ones() {
    let (_database, api) = exchange().await;
    make_busy_node(&api).await;
    api.make_node("o/u:pu", "o", "idle").await;
    let before = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    api.expect(204, "o/admin:pa", "DELETE", "/orgs/o/users/u", Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", "/orgs/o/orchestration/departures", Value::Null).await;
    assert_eq!(members(&found, "nodes"), 1, "{found}");
    assert!(found["nodes"]["o/n"].is_object(), "{found}");
    let since = before["maxChangeId"].as_u64().map_or(0, |id| id + 1);
    let query = json!({"changeId": since, "maxRecords": 1000});
    let changes = api.expect(201, ROOT, "POST", "/orgs/o/changes", query).await;
    for id in ["n", "idle"] {
        let is_deletion = |change: &&Value| {
            (&change["id"], &change["resource"], &change["operation"])
                == (&json!(id), &json!("node"), &json!("deleted"))
        };
        let deletion = changes["changes"].as_array().into_iter().flatten().find(is_deletion);
        assert!(deletion.is_some(), "{id}: {changes}");
    }
    api.expect(204, "o/n:token-n", "DELETE", "/orgs/o/orchestration/departures/n", Value::Null).await;
}

#[tokio::test]
async fn silent_node_that_is_deleted_departs_with_the_leases_that_its_guardian_confirmed() {
    let (database, api) = exchange().await;
    for (guardian, leases) in [("running", json!({"t": 170})), ("absent", Value::Null)] {
        make_busy_node(&api).await;
        let silence = format!(
            "UPDATE node_heartbeat SET seen_at = now() - interval '1 hour';
             UPDATE node SET agent_runs = '{{\"guardian\": \"{guardian}\"}}';
             INSERT INTO node_task (org, node, task, policy, workload_unit, spec_version, desired, fencing, updated_at,
                                    reported_at, state, health)
             VALUES ('o', 'n', 't', 'o/p', 'all', 1, 'running', 1, now(), now(), 'running', '{{\"leaseSeconds\": 170}}');"
        );
        let mut connection = database.connection().await;
        must(sqlx::raw_sql(AssertSqlSafe(silence)).execute(&mut connection).await, "falling silent");
        api.expect(204, "o/u:pu", "DELETE", "/orgs/o/nodes/n", Value::Null).await;
        let departures = "/orgs/o/orchestration/departures";
        let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
        assert!(found["nodes"]["o/n"].is_object(), "{guardian}: {found}");
        assert_eq!(found["nodes"]["o/n"]["leases"], leases, "{guardian}: {found}");
        api.expect(204, "o/admin:pa", "DELETE", &format!("{departures}/n"), Value::Null).await;
    }
}

#[tokio::test]
async fn nobody_waits_for_the_agent_of_a_node_that_is_deleted_by_force_or_by_itself_or_that_runs_nothing() {
    let (_database, api) = exchange().await;
    let departures = "/orgs/o/orchestration/departures";
    let deletions = [("o/u:pu", "?force=true", true), ("o/n:token-n", "", true), ("o/u:pu", "", false)];
    for (login, query, is_busy) in deletions {
        if is_busy {
            make_busy_node(&api).await;
        } else {
            api.make_node("o/u:pu", "o", "n").await;
        }
        api.expect(204, login, "DELETE", &format!("/orgs/o/nodes/n{query}"), Value::Null).await;
        let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
        assert_eq!(members(&found, "nodes"), 0, "{login} {query}: {found}");
    }
    // An administrator knows later that the machine is off.
    make_busy_node(&api).await;
    api.expect(204, "o/u:pu", "DELETE", "/orgs/o/nodes/n", Value::Null).await;
    api.expect(204, "o/admin:pa", "DELETE", &format!("{departures}/n"), Value::Null).await;
}

#[tokio::test]
async fn node_that_removes_itself_while_something_may_run_departs_like_one_that_is_removed() {
    let (_database, api) = exchange().await;
    let (departures, node) = ("/orgs/o/orchestration/departures", "/orgs/o/nodes/n");
    // Its agreements and its heartbeat say nothing of what could not be stopped.
    api.make_node("o/u:pu", "o", "n").await;
    api.expect(204, "o/n:token-n", "DELETE", &format!("{node}?stopped=false"), Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
    assert_eq!(members(&found, "nodes"), 1, "{found}");
    api.expect(204, "o/n:token-n", "DELETE", &format!("{departures}/n"), Value::Null).await;
    // Force settles it afterwards, too, although the node is gone.
    api.make_node("o/u:pu", "o", "n").await;
    api.expect(204, "o/n:token-n", "DELETE", &format!("{node}?stopped=false"), Value::Null).await;
    api.expect(404, "o/admin:pa", "DELETE", node, Value::Null).await;
    api.expect(204, "o/admin:pa", "DELETE", &format!("{node}?force=true"), Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
    assert_eq!(members(&found, "nodes"), 0, "{found}");
    // Only its agent knows whether everything has stopped.
    make_busy_node(&api).await;
    api.expect(204, "o/u:pu", "DELETE", &format!("{node}?stopped=true"), Value::Null).await;
    let found = api.expect(200, "o/admin:pa", "GET", departures, Value::Null).await;
    assert_eq!(members(&found, "nodes"), 1, "{found}");
}

#[tokio::test]
async fn free_json_reads_back_as_it_was_given() {
    let (_database, api) = exchange().await;
    api.make_node("o/u:pu", "o", "n").await;
    let body = json!({"softwareVersions": {"zz": "1", "a": "2", "mm": "3"}});
    api.expect(201, "o/u:pu", "PATCH", "/orgs/o/nodes/n", body).await;
    let versions =
        api.expect(200, "o/u:pu", "GET", "/orgs/o/nodes/n?attribute=softwareVersions", Value::Null).await;
    assert_eq!(versions["value"], r#"{"zz":"1","a":"2","mm":"3"}"#);
}

/// A policy `p`, an agbot `b`, and `count` nodes that the policy may concern.
async fn searchable(count: usize) -> (TestDatabase, Api) {
    let (database, api) = exchange().await;
    let service =
        json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple"});
    api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service).await;
    let versions = json!([{"version": "1.0.0"}]);
    let policy =
        json!({"label": "p", "service": {"name": "s", "org": "o", "arch": "*", "serviceVersions": versions}});
    api.expect(201, "o/u:pu", "POST", "/orgs/o/business/policies/p", policy).await;
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/agbots/b", agbot).await;
    api.expect(201, ROOT, "PUT", "/orgs/o/agbots/b/approval", Value::Null).await;
    for number in 0..count {
        let node = json!({"token": "ek", "name": "n", "pattern": "", "publicKey": "key"});
        api.expect(201, ROOT, "PUT", &format!("/orgs/o/nodes/n{number}"), node).await;
    }
    (database, api)
}

const SEARCH: &str = "/orgs/o/business/policies/p/search";

#[tokio::test]
async fn paged_search_returns_every_node_and_then_ends() {
    let (_database, api) = searchable(7).await;
    let mut found = BTreeSet::new();
    for _ in 0..10 {
        let request = json!({"changedSince": 0, "numEntries": 3, "session": "s"});
        let page = api.expect(201, "o/b:t", "POST", SEARCH, request).await;
        let nodes = page["nodes"].as_array().cloned().unwrap_or_default();
        found.extend(nodes.iter().map(|node| node["id"].to_string()));
        if nodes.len() < 3 {
            assert_eq!(found.len(), 7);
            return;
        }
    }
    panic!("the series does not end");
}

#[tokio::test]
async fn agbots_of_one_organization_search_no_other_one() {
    let (_database, api) = searchable(1).await;
    api.make_org("x").await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": "key"});
    api.expect(201, "x/u:pu", "PUT", "/orgs/x/nodes/abroad", node).await;
    let both = json!({"nodeOrgids": ["x", "o", "o"]});
    let page = api.expect(201, "o/b:t", "POST", SEARCH, both.clone()).await;
    assert_eq!(page["nodes"].as_array().map(Vec::len), Some(1));
    api.expect(404, "o/b:t", "POST", SEARCH, json!({"nodeOrgids": ["x"]})).await;
    let shared = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, ROOT, "PUT", "/orgs/IBM/agbots/m", shared).await;
    let page = api.expect(201, "IBM/m:t", "POST", SEARCH, both).await;
    assert_eq!(page["nodes"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn node_with_an_agreement_is_found_again_when_it_ends() {
    let (_database, api) = searchable(1).await;
    let agreement =
        json!({"agreementService": {"orgid": "o", "pattern": "", "url": "o/s"}, "state": "formed"});
    api.expect(201, ROOT, "PUT", "/orgs/o/nodes/n0/agreements/a", agreement).await;
    api.expect(404, "o/b:t", "POST", SEARCH, json!({})).await;
    api.expect(204, ROOT, "DELETE", "/orgs/o/nodes/n0/agreements/a", Value::Null).await;
    let page = api.expect(201, "o/b:t", "POST", SEARCH, json!({})).await;
    assert_eq!(page["nodes"][0]["id"], "o/n0");
}

#[tokio::test]
async fn expired_messages_are_gone_and_full_mailboxes_refuse() {
    let (_database, api) = searchable(1).await;
    let box_of_node = "/orgs/o/nodes/n0/msgs";
    api.expect(201, "o/b:t", "POST", box_of_node, json!({"message": "late"})).await;
    api.expect(404, "o/n0:ek", "GET", box_of_node, Value::Null).await;
    let limit = json!({"varPath": "api.limits.maxMessagesInMailbox", "value": "2"});
    api.expect(201, ROOT, "PUT", "/admin/config", limit).await;
    let message = json!({"message": "m", "ttl": 60});
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let response = api.send("o/b:t", "POST", box_of_node, &[], &message).await;
        let is_patient = response.headers().contains_key("retry-after");
        let (status, _) = read_response(response).await;
        assert_eq!(status == 429, is_patient);
        statuses.push(status);
    }
    assert_eq!(statuses.last(), Some(&429));
    let read = api.expect(200, "o/n0:ek", "GET", box_of_node, Value::Null).await;
    assert!(read["messages"].as_array().is_some_and(|messages| messages.len() <= 2));
}

#[tokio::test]
async fn node_reads_a_short_interval_while_an_agbot_talks_to_it() {
    let (_database, api) = searchable(1).await;
    let shortest = async |login: &str| {
        let node = api.expect(200, login, "GET", "/orgs/o/nodes/n0", Value::Null).await;
        node["nodes"]["o/n0"]["heartbeatIntervals"]["minInterval"].clone()
    };
    assert_eq!(shortest("o/n0:ek").await, 0);
    let message = json!({"message": "m", "ttl": 60});
    api.expect(201, "o/b:t", "POST", "/orgs/o/nodes/n0/msgs", message).await;
    assert_eq!(shortest("o/n0:ek").await, 1);
    assert_eq!(shortest("o/admin:pa").await, 0, "everybody else reads what is stored");
    let intervals =
        json!({"heartbeatIntervals": {"minInterval": 5, "maxInterval": 9, "intervalAdjustment": 2}});
    api.expect(201, ROOT, "PATCH", "/orgs/o", intervals).await;
    assert_eq!(shortest("o/n0:ek").await, 0, "the agent takes the interval of its organization");
}

#[tokio::test]
async fn poll_of_a_group_member_waits_for_the_message_that_follows_a_peers_report() {
    let (_database, api) = searchable(2).await;
    let group = json!({"description": "", "members": ["n0", "n1"]});
    api.expect(201, ROOT, "POST", "/orgs/o/hagroups/g", group).await;
    let message = json!({"message": "m", "ttl": 60});
    api.expect(201, "o/b:t", "POST", "/orgs/o/nodes/n0/msgs", message.clone()).await;
    let last = api.expect(200, "o/n1:ek", "GET", "/changes/maxchangeid", Value::Null).await;
    let from = last["maxChangeId"].as_i64().map_or(1, |last| last + 1);
    let request = json!({"changeId": from, "maxRecords": 100});
    let at_once = api.expect(201, "o/n1:ek", "POST", "/orgs/o/changes", request.clone()).await;
    assert_eq!(at_once["changes"], json!([]), "nothing is expected yet");
    let status = json!({"connectivity": {}, "services": []});
    api.expect(201, "o/n0:ek", "PUT", "/orgs/o/nodes/n0/status", status).await;
    let poll = tokio::spawn({
        let api = api.clone();
        async move { api.expect(201, "o/n1:ek", "POST", "/orgs/o/changes", request).await }
    });
    for _ in 0..20 {
        api.expect(200, "o/n0:ek", "GET", "/orgs/o/nodes/n0", Value::Null).await;
    }
    assert!(!poll.is_finished(), "the poll is parked");
    api.expect(201, "o/b:t", "POST", "/orgs/o/nodes/n1/msgs", message).await;
    let changes = must(poll.await, "a poll");
    assert_eq!(changes["changes"][0]["resource"], "nodemsgs");
}

#[tokio::test]
async fn list_of_ids_holds_the_visible_nodes_without_their_records() {
    let (_database, api) = exchange().await;
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/nodes/n1", node_body()).await;
    api.expect(201, "o/v:pv", "PUT", "/orgs/o/nodes/n2", node_body()).await;
    let path = "/orgs/o/nodes?idsOnly=true";
    let all = api.expect(200, "o/admin:pa", "GET", path, Value::Null).await;
    assert_eq!(all, json!({"nodes": {"o/n1": {}, "o/n2": {}}, "lastIndex": 0}));
    let own = json!({"nodes": {"o/n2": {}}, "lastIndex": 0});
    assert_eq!(api.expect(200, "o/v:pv", "GET", path, Value::Null).await, own);
    let filtered = format!("{path}&idfilter=o/n2%25");
    assert_eq!(api.expect(200, "o/admin:pa", "GET", &filtered, Value::Null).await, own);
    api.expect(404, "o/admin:pa", "GET", &format!("{path}&nodetype=cluster"), Value::Null).await;
    let whole = api.expect(200, "o/v:pv", "GET", "/orgs/o/nodes?idsOnly=false", Value::Null).await;
    assert_eq!(whole["nodes"]["o/n2"]["name"], "n");
}

#[tokio::test]
async fn list_with_parts_holds_what_the_resources_of_each_node_show() {
    let (_database, api) = exchange().await;
    for (node, user) in [("n1", "o/u:pu"), ("n2", "o/v:pv")] {
        api.expect(201, user, "PUT", &format!("/orgs/o/nodes/{node}"), node_body()).await;
    }
    let policy =
        json!({"properties": [{"name": "site", "value": "x"}], "deployment": {"constraints": ["a == b"]}});
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/nodes/n1/policy", policy).await;
    let status = json!({"connectivity": {}, "services": [{"serviceUrl": "s", "orgid": "o"}]});
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/nodes/n1/status", status).await;
    let policy = api.expect(200, "o/u:pu", "GET", "/orgs/o/nodes/n1/policy", Value::Null).await;
    let status = api.expect(200, "o/u:pu", "GET", "/orgs/o/nodes/n1/status", Value::Null).await;
    for path in ["/orgs/o/nodes?parts=true", "/orgs/o/nodes?parts=true&limit=5&filter=name%20%3D%3D%20n"] {
        let all = api.expect(200, "o/admin:pa", "GET", path, Value::Null).await;
        assert_eq!(all["nodes"]["o/n1"]["parts"], json!({"policy": policy, "status": status}), "{path}");
        assert_eq!(all["nodes"]["o/n2"]["parts"], json!({}), "{path}");
        let own = api.expect(200, "o/v:pv", "GET", path, Value::Null).await;
        assert!(own["nodes"].get("o/n1").is_none() && own["nodes"].get("o/n2").is_some(), "{path}: {own}");
    }
    let records = api.expect(200, "o/admin:pa", "GET", "/orgs/o/nodes", Value::Null).await;
    assert!(records["nodes"]["o/n1"].get("parts").is_none(), "{records}");
    let ids =
        api.expect(200, "o/admin:pa", "GET", "/orgs/o/nodes?parts=true&idsOnly=true", Value::Null).await;
    assert_eq!(ids["nodes"]["o/n1"], json!({}));
}

#[tokio::test]
async fn fields_of_a_node_record_are_limited_and_longer_ones_stay_readable() {
    let (database, api) = exchange().await;
    let path = "/orgs/o/nodes/n";
    let long = "x".repeat(1_025);
    let mut node = node_body();
    node["name"] = json!(long);
    let refused = api.expect(400, "o/u:pu", "PUT", path, node).await;
    let rule = "name: it has 1025 bytes, and a node record may have 1024 there";
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
    api.expect(201, "o/u:pu", "PUT", path, node_body()).await;
    let services = json!([{"url": "o/s", "policy": "x".repeat(65_536)}]);
    for (field, value) in [("name", json!(long)), ("arch", json!(long)), ("registeredServices", services)] {
        let refused = api.expect(400, "o/u:pu", "PATCH", path, json!({ field: value })).await;
        let named = refused["msg"].as_str().is_some_and(|text| text.contains(&format!("{field}: it has")));
        assert!(named, "{refused}");
    }
    let stored = "UPDATE node SET name = repeat('x', 5000), msg_end_point = repeat('y', 5000)";
    must(database.connection().await.execute(stored).await, "a longer record");
    api.expect(201, "o/u:pu", "PATCH", path, json!({"arch": "amd64"})).await;
    let read = api.expect(200, "o/u:pu", "GET", path, Value::Null).await;
    assert_eq!(read["nodes"]["o/n"]["name"].as_str().map(str::len), Some(5_000));
}
