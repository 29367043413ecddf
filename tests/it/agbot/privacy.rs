//! Visibility of nodes in the agbot's API is limited to those who may read the nodes: owner, node,
//! administrators, agbots.

use serde_json::{Value, json};

use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

const LISTS: [&str; 6] = [
    "agbot/agreements",
    "agbot/history",
    "agbot/reasons",
    "agbot/rollouts",
    "agbot/events",
    "hagroups/g/upgrades",
];

/// Rows as an agbot leaves them behind: agreements and events of both nodes, a rollout through their group.
fn history() -> String {
    let mut sql = String::new();
    for (node, ended) in [("mine", "NULL"), ("theirs", "NULL"), ("mine", "now()"), ("theirs", "now()")] {
        let id = format!("{node}-{ended}").replace("()", "");
        let state = if ended == "NULL" {
            r#""state": "proposed""#
        } else {
            r#""state": "ended", "at": "2026-01-01T00:00:00Z", "reason": 200"#
        };
        sql.push_str(&format!(
            r#"INSERT INTO agreement (agreement, node, policy, record, created_at, ended_at) VALUES ('{id}', 'o/{node}', 'o/gone',
               '{{"id": "{id}", "node": "o/{node}", "policy": "o/gone", "service": "o/s_1.0.0_amd64", "service_key": "o/s",
                 "version": "1.0.0", "priority": 0, "best_version": "1.0.0", "terms_digest": 1, "pending_update": null,
                 "ha_group": null, "created_at": "2026-01-01T00:00:00Z", "reply_by": "2036-01-01T00:00:00Z",
                 "verified_at": null, {state}}}', now(), {ended});"#,
        ));
    }
    for node in ["mine", "theirs"] {
        sql.push_str(&format!(
            r#"INSERT INTO agbot_event (happened_at, kind, ha_group, node, policy, detail) VALUES
               (now(), 'hagroup.lock-granted', 'o/g', 'o/{node}', NULL, '{{"seenRunning": ["o/mine", "o/theirs"]}}');"#,
        ));
    }
    sql.push_str(
        r#"INSERT INTO rollout (ha_group, policy, record) VALUES ('o/g', 'o/gone', jsonb_build_object('at', now()) ||
           '{"group": "o/g", "policy": "o/gone", "target": "s 2.0.0", "target_digest": 1, "started_at": "2026-01-01T00:00:00Z",
             "total": 2, "done": 0, "failed": ["o/theirs"], "last_step_at": null, "state": "completed"}');"#,
    );
    sql
}

async fn get(hub: &Hub, login: (&str, &str), path: &str) -> (u16, Value) {
    let request = hub.client.get(format!("{}/v1/{path}", hub.url)).basic_auth(login.0, Some(login.1));
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

/// Returns everything that the agbot shows a caller of the organization, as one text.
async fn reported(hub: &Hub, login: (&str, &str)) -> String {
    let mut text = String::new();
    for list in LISTS {
        let (status, body) = get(hub, login, &format!("orgs/o/{list}")).await;
        assert_eq!(status, 200, "{list} as {}: {body}", login.0);
        text.push_str(&format!("{list}: {body}\n"));
    }
    text
}

/// An organization with a node of each of two users, both in one group; `theirs` upgrades its agent, and `mine` must wait.
async fn fill(hub: &Hub) {
    let created = |response: (u16, Value)| assert_eq!(response.0, 201, "{}", response.1);
    created(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await);
    for (name, is_admin) in [("admin", true), ("u", false), ("v", false), ("w", false)] {
        let body = json!({"password": format!("secret-{name}"), "email": "", "admin": is_admin});
        created(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await);
    }
    let management = json!({"label": "up", "constraints": ["a == b"], "enabled": true});
    created(hub.call("POST", "/orgs/o/managementpolicies/fw", Some(management)).await);
    for (owner, node) in [("u", "mine"), ("v", "theirs")] {
        let body = json!({"token": format!("secret-{node}"), "name": node, "pattern": "", "publicKey": "", "arch": "amd64"});
        let request = hub.client.put(format!("{}/v1/orgs/o/nodes/{node}", hub.url));
        let request = request.basic_auth(format!("o/{owner}"), Some(format!("secret-{owner}"))).json(&body);
        assert_eq!(must(request.send().await, "a response").status().as_u16(), 201);
        let policy = json!({"properties": [], "constraints": []});
        created(hub.call("PUT", &format!("/orgs/o/nodes/{node}/policy"), Some(policy)).await);
        let status = json!({"agentUpgradePolicyStatus": {"scheduledTime": "2026-01-01T00:00:00Z", "status": "ha node waiting"}});
        created(hub.call("PUT", &format!("/orgs/o/nodes/{node}/managementStatus/fw"), Some(status)).await);
    }
    created(hub.call("POST", "/orgs/o/hagroups/g", Some(json!({"members": ["mine", "theirs"]}))).await);
    let service = json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
                         "deployment": "{}", "deploymentSignature": "x"});
    created(hub.call("POST", "/orgs/o/services", Some(service)).await);
    let policy = json!({"label": "p", "constraints": ["a == b"],
        "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]}});
    created(hub.call("POST", "/orgs/o/business/policies/p", Some(policy)).await);
    let request = hub.client.post(format!("{}/org/o/node/theirs/upgrade", hub.url));
    let request = request.basic_auth("o/theirs", Some("secret-theirs")).json(&json!({"nmp": "o/fw"}));
    assert_eq!(must(request.send().await, "a response").status().as_u16(), 200);
}

#[tokio::test]
async fn users_see_their_own_nodes_and_nothing_of_others() {
    let (scratch, database) = (Scratch::new(), TestDatabase::new().await);
    let filled =
        sqlx::raw_sql(sqlx::AssertSqlSafe(history())).execute(&mut database.connection().await).await;
    must(filled, "filling the tables");
    let hub = Hub::start(&scratch, &["--database-url", database.url()]).await;
    fill(&hub).await;
    let admin = ("o/admin", "secret-admin");
    let all = eventually("everything is shown to the administrator", || async {
        let text = reported(&hub, admin).await;
        let both = |list: &str| {
            let line = text.lines().find(|line| line.starts_with(list)).unwrap_or_default();
            line.contains("o/mine") && line.contains("o/theirs")
        };
        let (_, upgrades) = get(&hub, admin, "orgs/o/hagroups/g/upgrades").await;
        (both("agbot/agreements") && both("agbot/events") && upgrades["agent"]["node"] == "o/theirs")
            .then_some(text)
    })
    .await;
    assert!(all.contains("\"total\":2"), "{all}");

    let own = reported(&hub, ("o/u", "secret-u")).await;
    assert!(own.contains("mine-NULL") || own.contains("o/mine"), "{own}");
    assert!(!own.contains("theirs"), "{own}");
    assert!(
        !own.contains("\"total\"") && !own.contains("\"done\"") && !own.contains("of 2"),
        "no number of hidden members: {own}"
    );
    assert!(own.contains("s 2.0.0"), "the rollout through the group of an own node: {own}");
    let (_, events) = get(&hub, ("o/u", "secret-u"), "orgs/o/agbot/events").await;
    assert_eq!(events["events"].as_array().map(Vec::len), own_events(&events), "{events}");
    let (_, upgrades) = get(&hub, ("o/v", "secret-v"), "orgs/o/hagroups/g/upgrades").await;
    assert_eq!(upgrades["agent"]["node"], "o/theirs", "the owner of the node that upgrades");

    let outsider = reported(&hub, ("o/w", "secret-w")).await;
    assert!(
        !outsider.contains("mine") && !outsider.contains("theirs") && !outsider.contains("s 2.0.0"),
        "{outsider}"
    );
    // An agbot that a user made reads what its user reads.
    for (owner, agbot) in [("w", "of-w"), ("u", "of-u")] {
        let body = json!({"token": format!("secret-{agbot}"), "name": agbot, "publicKey": ""});
        let login = (format!("o/{owner}"), format!("secret-{owner}"));
        let path = format!("/orgs/o/agbots/{agbot}");
        assert_eq!(hub.call_as((&login.0, &login.1), "PUT", &path, Some(body)).await.0, 201);
    }
    let agbot = reported(&hub, ("o/of-w", "secret-of-w")).await;
    assert!(!agbot.contains("mine") && !agbot.contains("theirs") && !agbot.contains("s 2.0.0"), "{agbot}");
    let agbot = reported(&hub, ("o/of-u", "secret-of-u")).await;
    assert!(agbot.contains("o/mine") && !agbot.contains("theirs"), "{agbot}");
    assert_eq!(hub.call_as(admin, "PUT", "/orgs/o/agbots/of-w/approval", None).await.0, 201);
    let agbot = reported(&hub, ("o/of-w", "secret-of-w")).await;
    assert!(agbot.contains("o/theirs"), "an approved agbot reads all of the organization: {agbot}");
    let node = reported(&hub, ("o/mine", "secret-mine")).await;
    assert!(node.contains("o/mine") && !node.contains("theirs"), "{node}");
    assert_eq!(get(&hub, ("o/u", "wrong"), "orgs/o/agbot/reasons").await.0, 401);
    assert_eq!(hub.stop().await, 0);
}

/// Returns the number of events about the own node.
fn own_events(events: &Value) -> Option<usize> {
    Some(events["events"].as_array()?.iter().filter(|event| event["node"] == "o/mine").count())
}

#[tokio::test]
async fn unauthenticated_clients_see_nothing_and_counts_are_for_users() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    fill(&hub).await;
    assert_eq!(hub.call("POST", "/orgs/x", Some(json!({"label": "x", "description": "x"}))).await.0, 201);
    let body = json!({"password": "secret-a", "email": "", "admin": true});
    assert_eq!(hub.call("POST", "/orgs/x/users/a", Some(body)).await.0, 201);
    for list in LISTS {
        assert_eq!(get(&hub, ("x/a", "secret-a"), &format!("orgs/o/{list}")).await.0, 403, "{list}");
        let anonymous =
            must(hub.client.get(format!("{}/v1/orgs/o/{list}", hub.url)).send().await, "a response");
        assert_eq!(anonymous.status().as_u16(), 401, "{list}");
        assert!(anonymous.headers().contains_key("www-authenticate"), "{list}");
    }
    let (_, known) = get(&hub, ("o/u", "secret-u"), "agbot/status").await;
    assert!(known["nodes"].is_number(), "{known}");
    let anonymous = must(hub.client.get(format!("{}/v1/agbot/status", hub.url)).send().await, "a response");
    let anonymous: Value = must(anonymous.json().await, "JSON");
    assert!(anonymous["loaded"].is_boolean() && anonymous.get("nodes").is_none(), "{anonymous}");
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn plans_of_stops_show_users_nothing_about_nodes_and_groups_of_others() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    fill(&hub).await;
    let path = "/orgs/o/orchestration/stops";
    let group = |name: &str, members: Value| json!({"haGroup": {"group": name, "members": members}});
    let policy = |node: &str| json!({"nodePolicy": {"node": node, "policy": {"constraints": []}}});
    let (admin, user) = (("o/admin", "secret-admin"), ("o/u", "secret-u"));
    eventually("the agbot knows both nodes and the group", || async {
        let both = [
            hub.call_as(admin, "POST", path, Some(policy("mine"))).await.0,
            hub.call_as(admin, "POST", path, Some(policy("theirs"))).await.0,
        ];
        let of_group = hub.call_as(user, "POST", path, Some(group("g", json!(["mine"])))).await.0;
        (both == [200, 200] && of_group == 403).then_some(())
    })
    .await;
    let settings = json!({"settings": {"settings": {}}});
    for (write, expected) in [
        (group("g", json!(["mine", "theirs"])), 403),
        (group("g", json!(["mine", "nobody"])), 403),
        (group("g", Value::Null), 403),
        (group("fresh", json!(["mine", "theirs"])), 404),
        (group("fresh", json!(["mine", "nobody"])), 404),
        (group("fresh", json!(["mine"])), 200),
        (policy("theirs"), 404),
        (policy("nobody"), 404),
        (policy("mine"), 200),
        (settings.clone(), 403),
    ] {
        let (status, body) = hub.call_as(user, "POST", path, Some(write.clone())).await;
        assert_eq!(status, expected, "{write}: {body}");
    }
    // A node writes its own policy, and nothing else.
    let node = ("o/mine", "secret-mine");
    for (write, expected) in [(policy("mine"), 200), (policy("theirs"), 404), (settings, 403)] {
        let (status, body) = hub.call_as(node, "POST", path, Some(write.clone())).await;
        assert_eq!(status, expected, "{write}: {body}");
    }
    assert_eq!(hub.stop().await, 0);
}
