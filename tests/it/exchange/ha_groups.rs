//! HA groups as one user after the other meets them: scenarios of orchestration E2.

use evenkeel_wire::exchange::ha_group::HaGroupsResponse;
use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;
use crate::support::wait::must;

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";
const OTHER: &str = "o/v:pv";

/// Nodes n1, n2 and n3 of the user, and x of another one.
async fn fleet() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    for node in ["n1", "n2", "n3"] {
        api.make_node(USER, "o", node).await;
    }
    api.make_node(OTHER, "o", "x").await;
    (database, api)
}

async fn group_of(api: &Api, node: &str) -> Value {
    let nodes = api.expect(200, ROOT, "GET", &format!("/orgs/o/nodes/{node}"), Value::Null).await;
    nodes["nodes"][format!("o/{node}")]["ha_group"].clone()
}

async fn members_of(api: &Api, group: &str) -> Value {
    let groups = api.expect(200, ROOT, "GET", &format!("/orgs/o/hagroups/{group}"), Value::Null).await;
    groups["nodeGroups"][0]["members"].clone()
}

async fn create(api: &Api, login: &str, group: &str, members: Value) {
    api.expect(201, login, "POST", &format!("/orgs/o/hagroups/{group}"), json!({"members": members})).await;
}

/// Resource, id and operation of each change from a number on, in the order of their numbers.
async fn changes_from(api: &Api, from: i64) -> Vec<(i64, String)> {
    let body = json!({"changeId": from, "maxRecords": 1000});
    let response = api.expect(201, ROOT, "POST", "/orgs/o/changes", body).await;
    let mut rows = Vec::new();
    for change in response["changes"].as_array().expect("a list") {
        for row in change["resourceChanges"].as_array().expect("a list") {
            let what = format!("{} {}", change["resource"], change["id"]).replace('"', "");
            rows.push((row["changeId"].as_i64().expect("a number"), what));
        }
    }
    rows.sort();
    rows
}

async fn next_change(api: &Api) -> i64 {
    let last = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    last["maxChangeId"].as_i64().expect("a number") + 1
}

/// The database writes the list: its text must be what the response type would write.
#[tokio::test]
async fn list_built_by_the_database_has_the_shape_of_the_response() {
    let (database, api) = fleet().await;
    let described = json!({"description": "a \"quote\", a \\, a\ttab, an \u{e9} and a \u{1f600}", "members": ["n2", "n1"]});
    api.expect(201, USER, "POST", "/orgs/o/hagroups/g3", described.clone()).await;
    api.expect(201, ADMIN, "POST", "/orgs/o/hagroups/G1", json!({"description": "d", "members": ["x"]}))
        .await;
    api.expect(201, USER, "POST", "/orgs/o/hagroups/g%22%252", json!({"members": ["n3"]})).await;
    let mut connection = database.connection().await;
    for (name, time) in [
        ("G1", "2026-01-02T03:04:05Z"),
        ("g\"%2", "2026-01-02T03:04:05.120Z"),
        ("g3", "2026-01-02T03:04:05.000007Z"),
    ] {
        let statement = "UPDATE ha_group SET updated_at = $2::timestamptz WHERE org = 'o' AND name = $1";
        must(sqlx::query(statement).bind(name).bind(time).execute(&mut connection).await, "setting the time");
        let path = format!("/orgs/o/hagroups/{}?form=document", name.replace('%', "%25").replace('"', "%22"));
        let document = api.expect(200, ROOT, "GET", &path, Value::Null).await;
        let group = &document["nodeGroups"][0];
        assert_eq!((&group["lastUpdated"], &group["updated"]), (&json!(time), &json!(time)));
    }
    let list = api.expect(200, ROOT, "GET", "/orgs/o/hagroups", Value::Null).await;
    let response: HaGroupsResponse = must(serde_json::from_value(list.clone()), "the shape of the response");
    assert_eq!(must(serde_json::to_value(&response), "JSON"), list);
    let names: Vec<&str> = response.node_groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["G1", "g\"%2", "g3"]);
    assert_eq!(list["nodeGroups"][2]["description"], described["description"]);
    assert_eq!(list["nodeGroups"][2]["members"], json!(["n1", "n2"]));

    let seen = api.expect(200, OTHER, "GET", "/orgs/o/hagroups", Value::Null).await;
    let seen: HaGroupsResponse = must(serde_json::from_value(seen), "the shape of the response");
    let seen: Vec<_> =
        seen.node_groups.iter().map(|group| (group.description.is_empty(), group.members.len())).collect();
    assert_eq!(
        seen,
        [(true, 1), (true, 0), (false, 0)],
        "its own members, no description of an administrator's group"
    );
}

/// 1.4, E5.4.
#[tokio::test]
async fn group_says_how_many_members_may_be_disrupted_at_once() {
    let (_database, api) = fleet().await;
    let path = "/orgs/o/hagroups/g1";
    let shown = async || {
        let list = api.expect(200, ROOT, "GET", path, Value::Null).await;
        let response: HaGroupsResponse =
            must(serde_json::from_value(list.clone()), "the shape of the response");
        assert_eq!(must(serde_json::to_value(&response), "JSON"), list);
        list["nodeGroups"][0]["orchestration"].clone()
    };
    create(&api, USER, "g1", json!(["n1", "n2", "n3"])).await;
    assert_eq!(shown().await, Value::Null, "a group that never set it is shown as before");
    let wanted = json!({"exclusiveDisruption": false, "maxUnavailable": 2});
    api.expect(201, USER, "PUT", path, json!({"orchestration": wanted})).await;
    let stored = json!({"exclusiveDisruption": false, "maxUnavailable": 2, "lockStaleSeconds": 1800});
    assert_eq!(shown().await, stored);
    api.expect(201, USER, "PUT", path, json!({"description": "d"})).await;
    assert_eq!(shown().await, stored, "what is left out stays");
    for (body, rule) in [
        (json!({"orchestration": {"maxUnavailable": 3}}), "orchestration.maxUnavailable must be less than"),
        (json!({"orchestration": {"maxUnavailable": 0}}), "orchestration.maxUnavailable must be"),
        (json!({"orchestration": {"lockStaleSeconds": 59}}), "orchestration.lockStaleSeconds must be"),
        (json!({"orchestration": {"maxUnavailible": 1}}), "maxUnavailable was probably meant"),
        (json!({"members": ["n1", "n2"]}), "orchestration.maxUnavailable must be less than"),
    ] {
        let refused = api.expect(400, USER, "PUT", path, body).await;
        assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
    }
    let refused = api.expect(400, USER, "DELETE", &format!("{path}/nodes/n3"), Value::Null).await;
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains("maxUnavailable")), "{refused}");
    assert_eq!(shown().await, stored);
    assert_eq!(members_of(&api, "g1").await, json!(["n1", "n2", "n3"]));
    let mut document = json!({"name": "g2", "members": ["x"], "orchestration": {"maxUnavailable": 5}});
    api.expect(201, ADMIN, "POST", "/org/o/hagroups", document.clone()).await;
    document["orchestration"] = json!({"healthPolicy": {}});
    api.expect(400, ADMIN, "PUT", "/org/o/hagroups", document).await;
}

/// C1-S3, C2: a health policy is shown with its defaults, and refused where no agent carries it out.
#[tokio::test]
async fn health_policy_of_a_group_is_shown_with_its_defaults_and_checked() {
    let (_database, api) = fleet().await;
    let path = "/orgs/o/hagroups/g1";
    create(&api, USER, "g1", json!(["n1", "n2"])).await;
    let put = |policy: Value| json!({"orchestration": {"healthPolicy": policy}});
    let polling = json!({"detection": {"type": "NODE_STATUS_POLLING"}});
    api.expect(201, USER, "PUT", path, put(polling.clone())).await;
    let shown = async || {
        let list = api.expect(200, ROOT, "GET", path, Value::Null).await;
        list["nodeGroups"][0]["orchestration"]["healthPolicy"].clone()
    };
    let stored = shown().await;
    assert_eq!(stored["detection"]["detection_modes"], json!([{"type": "NODE_STATUS_POLLING"}]));
    assert_eq!((&stored["enabled"], &stored["detection"]["interval"]), (&json!(true), &json!(60)));
    for (policy, rule) in [
        (
            json!({"detection": {"type": "NODE_STATUS_POLLING", "interval": 59}}),
            "interval must be at least 60",
        ),
        (
            json!({"detection": {"type": "LB_STATUS_EVENTS"}}),
            "members examine each other, and 0 of 2 agents can do that",
        ),
        (
            json!({"detection": polling["detection"], "recovery": {"actions": [{"name": "REBOOT"}]}}),
            "must not be REBOOT: no agent of a member accepts commands",
        ),
        (
            json!({"detection": polling["detection"], "recovery": {"actions": [{"name": "REBUILD"}]}}),
            "must not be REBUILD: it needs a deployment policy",
        ),
    ] {
        let refused = api.expect(400, USER, "PUT", path, put(policy)).await;
        assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
    }
    assert_eq!(shown().await, stored);
    api.expect(201, USER, "PUT", path, json!({"orchestration": {}})).await;
    assert_eq!(shown().await, Value::Null);
    api.expect(201, USER, "PUT", path, put(polling)).await;
    api.expect(201, USER, "PUT", path, json!({"orchestration": null})).await;
    let list = api.expect(200, ROOT, "GET", path, Value::Null).await;
    assert_eq!(list["nodeGroups"][0].get("orchestration"), None, "{list}");
}

/// HA-4, E2-S2.
#[tokio::test]
async fn taken_node_is_refused_by_name_and_nothing_else_changes() {
    let (_database, api) = fleet().await;
    create(&api, USER, "g1", json!(["n1", "n2"])).await;
    let refused =
        api.expect(409, USER, "POST", "/orgs/o/hagroups/g2", json!({"members": ["n2", "n3"]})).await;
    let text = refused["msg"].as_str().expect("a text");
    assert!(text.contains("n2") && text.contains("g1") && !text.contains("n3"), "{text}");
    assert_eq!(group_of(&api, "n3").await, Value::Null);
    api.expect(404, USER, "GET", "/orgs/o/hagroups/g2", Value::Null).await;
    let refused = api.expect(409, USER, "POST", "/orgs/o/hagroups/g1/nodes/n2", Value::Null).await;
    assert!(refused["msg"].as_str().expect("a text").contains("g1"), "{refused}");
}

/// HA-7, E2-S3.
#[tokio::test]
async fn user_needs_the_right_to_change_every_node() {
    let (_database, api) = fleet().await;
    api.expect(403, USER, "POST", "/orgs/o/hagroups/g", json!({"members": ["n1", "x"]})).await;
    api.expect(403, USER, "POST", "/orgs/o/hagroups/g", json!({"members": ["n1", "never"]})).await;
    create(&api, USER, "g", json!(["n1"])).await;
    api.expect(403, USER, "PUT", "/orgs/o/hagroups/g", json!({"members": ["n1", "x"]})).await;
    api.expect(403, USER, "POST", "/orgs/o/hagroups/g/nodes/x", Value::Null).await;
    api.expect(201, ADMIN, "POST", "/orgs/o/hagroups/g/nodes/x", Value::Null).await;
    // Now only administrators may change all nodes of the group.
    for login in [USER, OTHER] {
        api.expect(403, login, "PUT", "/orgs/o/hagroups/g", json!({"members": []})).await;
        api.expect(403, login, "DELETE", "/orgs/o/hagroups/g/nodes/x", Value::Null).await;
        api.expect(403, login, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    }
    assert_eq!(members_of(&api, "g").await, json!(["n1", "x"]));
}

#[tokio::test]
async fn group_of_an_administrator_is_closed_to_users_and_open_to_root() {
    let (_database, api) = fleet().await;
    create(&api, ADMIN, "g", json!(["n1"])).await;
    api.expect(403, USER, "DELETE", "/orgs/o/hagroups/g/nodes/n1", Value::Null).await;
    api.expect(403, USER, "PUT", "/orgs/o/hagroups/g", json!({"members": ["n1"]})).await;
    api.expect(403, "o/n1:token-n1", "DELETE", "/orgs/o/hagroups/g/nodes/n1", Value::Null).await;
    api.expect(201, ROOT, "PUT", "/orgs/o/hagroups/g", json!({"description": "by root"})).await;
    api.expect(204, ROOT, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    assert_eq!(group_of(&api, "n1").await, Value::Null);
}

#[tokio::test]
async fn empty_group_belongs_to_who_made_it() {
    let (_database, api) = fleet().await;
    create(&api, USER, "g", json!([])).await;
    api.expect(403, OTHER, "POST", "/orgs/o/hagroups/g/nodes/x", Value::Null).await;
    api.expect(403, OTHER, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    api.expect(201, USER, "POST", "/orgs/o/hagroups/g/nodes/n1", Value::Null).await;
    api.expect(204, ROOT, "DELETE", "/orgs/o/users/u", Value::Null).await;
    assert_eq!(members_of(&api, "g").await, json!([]), "its nodes went with the user, the group stays");
    api.expect(403, OTHER, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    api.expect(204, ADMIN, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
}

/// HA-17; the deployed route takes clusters because recorded conversations do.
#[tokio::test]
async fn documents_refuse_clusters_and_deployed_routes_let_them_in() {
    let (_database, api) = fleet().await;
    let cluster = json!({"token": "t", "name": "c", "nodeType": "cluster", "pattern": "", "publicKey": ""});
    api.expect(201, USER, "PUT", "/orgs/o/nodes/c", cluster).await;
    let document = json!({"name": "g", "members": ["c", "n1"]});
    api.expect(400, USER, "POST", "/org/o/hagroups", document.clone()).await;
    create(&api, USER, "g", json!(["n1"])).await;
    api.expect(400, USER, "PUT", "/org/o/hagroups", document).await;
    assert_eq!(members_of(&api, "g").await, json!(["n1"]));
    api.expect(201, USER, "PUT", "/orgs/o/hagroups/g", json!({"members": ["c"]})).await;
    // One that is in stays in when the document names it again.
    api.expect(201, USER, "PUT", "/org/o/hagroups", json!({"name": "g", "members": ["c", "n1"]})).await;
    assert_eq!(members_of(&api, "g").await, json!(["c", "n1"]));
}

/// HA-12, E2-S5, E2-S6.
#[tokio::test]
async fn replacing_members_frees_removed_nodes_and_reports_nodes_before_the_group() {
    let (_database, api) = fleet().await;
    create(&api, USER, "g", json!(["n1", "n2"])).await;
    let from = next_change(&api).await;
    api.expect(201, USER, "PUT", "/orgs/o/hagroups/g", json!({"members": ["n1", "n3"]})).await;
    assert_eq!(group_of(&api, "n2").await, Value::Null);
    assert_eq!(group_of(&api, "n3").await, json!("g"));
    let reported: Vec<String> = changes_from(&api, from).await.into_iter().map(|(_, what)| what).collect();
    assert_eq!(reported, ["node n1", "node n2", "node n3", "ha_group g"]);
    let from = next_change(&api).await;
    api.expect(204, USER, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    assert_eq!(group_of(&api, "n1").await, Value::Null);
    let reported: Vec<String> = changes_from(&api, from).await.into_iter().map(|(_, what)| what).collect();
    assert_eq!(reported, ["node n1", "node n3", "ha_group g"]);
}

#[tokio::test]
async fn refused_change_adds_nothing_to_the_feed() {
    let (_database, api) = fleet().await;
    create(&api, USER, "g1", json!(["n1"])).await;
    create(&api, USER, "g2", json!(["n2"])).await;
    let from = next_change(&api).await;
    api.expect(409, USER, "PUT", "/orgs/o/hagroups/g2", json!({"members": ["n1", "n2"]})).await;
    api.expect(404, USER, "PUT", "/orgs/o/hagroups/g3", json!({"members": ["n3"]})).await;
    assert!(changes_from(&api, from).await.is_empty());
}

/// HA-5: members are ids of nodes.
#[tokio::test]
async fn documents_carry_the_name_and_replace_all_members() {
    let (_database, api) = fleet().await;
    let document = json!({"name": "g", "members": ["n1", "n2"]});
    api.expect(201, USER, "POST", "/org/o/hagroups", document.clone()).await;
    api.expect(409, USER, "POST", "/org/o/hagroups", document).await;
    let read = api.expect(200, USER, "GET", "/org/o/hagroups/g", Value::Null).await["nodeGroups"][0].clone();
    assert_eq!(read["members"], json!(["n1", "n2"]));
    assert_eq!(read["updated"], read["lastUpdated"]);
    // A document that was read can be changed and sent back.
    let mut changed = read.clone();
    changed["members"] = json!(["n3"]);
    api.expect(201, USER, "PUT", "/org/o/hagroups", changed).await;
    assert_eq!(members_of(&api, "g").await, json!(["n3"]));
    assert_eq!(group_of(&api, "n1").await, Value::Null);
    let list = api.expect(200, USER, "GET", "/org/o/hagroups", Value::Null).await;
    assert_eq!(list["nodeGroups"].as_array().map(Vec::len), Some(1));
    for malformed in [json!({"members": []}), json!({"name": "g"}), json!({"name": "", "members": []})] {
        api.expect(400, USER, "PUT", "/org/o/hagroups", malformed).await;
    }
    api.expect(404, USER, "PUT", "/org/o/hagroups", json!({"name": "h", "members": []})).await;
    api.expect(204, USER, "DELETE", "/org/o/hagroups/g", Value::Null).await;
    api.expect(404, USER, "GET", "/org/o/hagroups/g", Value::Null).await;
    // The deployed routes know no such form.
    api.expect(405, USER, "POST", "/orgs/o/hagroups", json!({"name": "g", "members": []})).await;
}

#[tokio::test]
async fn removal_of_a_group_names_the_policies_whose_scope_it_was() {
    let (_database, api) = fleet().await;
    for group in ["g", "unused"] {
        create(&api, USER, group, json!([])).await;
    }
    let scope = json!({"mode": "global", "scope": {"type": "hagroups", "haGroups": ["g"]}});
    for policy in ["first", "second"] {
        assert_eq!(api.make_policy("o", policy, scope.clone()).await, Vec::<String>::new());
    }
    let unused = api.warnings_of(USER, "DELETE", "/orgs/o/hagroups/unused", Value::Null).await;
    assert_eq!(unused, Vec::<String>::new());
    let removed = api.warnings_of(USER, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    let expected = "the scope of these deployment policies names the group: first, second; what runs for them there stays";
    assert!(removed.len() == 1 && removed[0].contains(expected), "{removed:?}");
}
