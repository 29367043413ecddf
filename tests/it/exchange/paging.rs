//! Pages of lists: together they are what the whole list shows to the same caller, whatever happens meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_exchange::routes;
use http::Method;
use serde_json::{Value, json};
use sqlx::Executor;

use super::api::{Api, ROOT};
use super::request::{self, Aim};
use super::world::{ABROAD, CALLERS, Caller, HOME, OUTSIDERS, SHARED, World};
use crate::support::TestDatabase;
use crate::support::wait::must;

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";

/// The entries of a list by their keys.
fn entries(body: &Value) -> BTreeMap<String, Value> {
    let array = |list: &Vec<Value>| {
        let key =
            |entry: &Value| entry.get("id").or(entry.get("name")).and_then(Value::as_str).map(str::to_owned);
        list.iter().map(|entry| (key(entry).expect("a key"), entry.clone())).collect()
    };
    match body {
        Value::Array(list) => array(list),
        body => {
            let mut members = body.as_object().expect("an object").values();
            match members.find(|member| member.is_object() || member.is_array()) {
                Some(Value::Object(map)) => {
                    map.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
                }
                Some(Value::Array(list)) => array(list),
                _ => panic!("no list in {body}"),
            }
        }
    }
}

/// A text in a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn read(world: &World, caller: Caller, path: &str) -> (u16, Value) {
    let (status, body) = world.call(caller, &Method::GET, path, None).await;
    (status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

/// All pages of a list, one after the other; none when the first one is refused.
async fn pages(world: &World, caller: Caller, path: &str, query: &str) -> Option<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let mut after = String::new();
    loop {
        let (status, body) = read(world, caller, &format!("{path}?{query}{after}")).await;
        if after.is_empty() && status != 200 {
            return None;
        }
        assert_eq!(status, 200, "{path}?{query}{after} {body}");
        for (key, entry) in entries(&body) {
            assert!(all.insert(key.clone(), entry).is_none(), "{key} twice in {path}");
        }
        let Some(next) = body["next"].as_str() else { return Some(all) };
        after = format!("&after={}", escaped(next));
    }
}

#[tokio::test]
async fn pages_show_to_every_caller_what_the_whole_list_shows() {
    let world = World::new().await;
    let (mut paged, mut compared) = (BTreeSet::new(), 0);
    for endpoint in routes::all() {
        if !endpoint.parameters.iter().any(|parameter| parameter.name == "filter") {
            continue;
        }
        paged.insert(endpoint.operation);
        for org in [HOME, SHARED, ABROAD] {
            let path = request::path(&world, &endpoint, endpoint.paths[0], Aim { org, name: "private" });
            for caller in CALLERS.into_iter().chain(OUTSIDERS) {
                let (status, whole) = read(&world, caller, &path).await;
                let what = format!("{path} as {}", caller.title);
                let (first, page) = read(&world, caller, &format!("{path}?limit=1000&count=true")).await;
                assert_eq!(first, status, "{what}");
                if status != 200 {
                    assert!(page.get("next").is_none(), "{what}: {page}");
                    continue;
                }
                let whole = entries(&whole);
                assert_eq!(page["count"], json!(whole.len()), "{what}");
                for query in ["limit=1", "limit=2&count=true", "filter=id%20%21%3D%20none&limit=2"] {
                    assert_eq!(pages(&world, caller, &path, query).await.as_ref(), Some(&whole), "{what}");
                }
                let (key, entry) = whole.last_key_value().expect("an entry");
                let filter = format!("limit=5&count=true&filter={}", escaped(&format!("id == \"{key}\"")));
                let (_, found) = read(&world, caller, &format!("{path}?{filter}")).await;
                assert_eq!(entries(&found), BTreeMap::from([(key.clone(), entry.clone())]), "{what}: {key}");
                assert_eq!(found["count"], 1, "{what}");
                compared += 1;
            }
        }
    }
    let expected = [
        "list_agbot_agreements",
        "list_agbots",
        "list_catalog_patterns",
        "list_catalog_services",
        "list_deployment_policies",
        "list_ha_group_documents",
        "list_ha_groups",
        "list_management_policies",
        "list_node_agreements",
        "list_node_details",
        "list_nodes",
        "list_organizations",
        "list_patterns",
        "list_served_patterns",
        "list_served_policies",
        "list_services",
        "list_users",
    ];
    assert!(paged.iter().copied().eq(expected), "{paged:?}");
    assert!(compared > 200, "{compared}");
}

/// Long lists of an organization; every tenth user administers it.
const FILL: &str = "
    INSERT INTO account (org, name, id, email, is_admin, updated_at)
    SELECT 'o', 'user-' || to_char(n, 'FM0000'), gen_random_uuid(), n || '@x', n % 10 = 0, now() FROM generate_series(1, 2500) AS n;
    INSERT INTO ha_group (org, name, is_admin, updated_at)
    SELECT 'o', 'group-' || to_char(n, 'FM0000'), false, now() FROM generate_series(1, 2500) AS n";

async fn filled() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    must(database.connection().await.execute(FILL).await, "filling the tables");
    (database, api)
}

#[tokio::test]
async fn walk_through_pages_meets_every_entry_that_stays_while_others_come_and_go() {
    let (database, api) = filled().await;
    let mut connection = database.connection().await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    for round in 0.. {
        let page =
            api.expect(200, ADMIN, "GET", &format!("/orgs/o/users?limit=200{after}"), Value::Null).await;
        let keys: Vec<String> = entries(&page).into_keys().collect();
        assert!(keys.len() <= 200);
        seen.extend(keys);
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
        // The account at which the page ended is gone, and others have come before and behind it.
        let change = format!(
            "DELETE FROM account WHERE org = 'o' AND 'o/' || name = '{next}';
             INSERT INTO account (org, name, id, email, is_admin, updated_at)
             SELECT 'o', name || '-{round}', gen_random_uuid(), '', false, now() FROM (VALUES ('a'), ('z')) AS new (name)"
        );
        must(connection.execute(sqlx::AssertSqlSafe(change)).await, "changing the list");
    }
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "no entry twice");
    for number in 1..=2500 {
        assert!(once.contains(&format!("o/user-{number:04}")), "{number}");
    }
}

#[tokio::test]
async fn filter_selects_by_members_and_continues_where_it_stopped() {
    let (_database, api) = filled().await;
    let path = "/orgs/o/users?filter=admin%20%3D%3D%20true&limit=100&count=true";
    let page = api.expect(200, ADMIN, "GET", path, Value::Null).await;
    // The first 2,000 accounts are examined for the count.
    assert_eq!(page["countIsMinimum"], true, "{page}");
    assert_eq!(entries(&page).len(), 100);
    let path = "/orgs/o/users?filter=name%20%3D%3D%20user-2400";
    let none = api.expect(200, ADMIN, "GET", path, Value::Null).await;
    assert!(entries(&none).is_empty() && none["next"].is_string(), "{none}");
    let path = format!("{path}&after={}", none["next"].as_str().unwrap_or_default());
    let found = api.expect(200, ADMIN, "GET", &path, Value::Null).await;
    assert_eq!(entries(&found).into_keys().collect::<Vec<_>>(), ["o/user-2400"]);
    let path = "/orgs/o/hagroups?filter=name%20in%20%22group-0007%2Cgroup-0009%22&count=true&limit=1";
    let found = api.expect(200, ADMIN, "GET", path, Value::Null).await;
    assert_eq!(
        (&found["nodeGroups"][0]["name"], &found["next"]),
        (&json!("group-0007"), &json!("group-0007"))
    );
    let missing = "/orgs/o/hagroups?filter=admin%20%3D%3D%20true&after=group-2400";
    let found = api.expect(200, ADMIN, "GET", missing, Value::Null).await;
    assert_eq!(found, json!({"nodeGroups": []}));
}

#[tokio::test]
async fn filter_of_served_entries_selects_by_policy_and_nodes_beside_the_patterns() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    for org in ["o", "p"] {
        api.make_org(org).await;
    }
    let agbot = json!({"token": "secret-agbot", "name": "a", "publicKey": ""});
    api.expect(201, ADMIN, "PUT", "/orgs/o/agbots/a", agbot).await;
    for (policy, nodes) in [("camera", "o"), ("camera", "p"), ("gate", "o"), ("gate", "p"), ("lamp", "o")] {
        let entry = json!({"businessPolOrgid": "o", "businessPol": policy, "nodeOrgid": nodes});
        api.expect(201, ROOT, "POST", "/orgs/o/agbots/a/businesspols", entry).await;
        let entry = json!({"patternOrgid": "o", "pattern": policy, "nodeOrgid": nodes});
        api.expect(201, ROOT, "POST", "/orgs/o/agbots/a/patterns", entry).await;
    }
    for (list, member, subject) in
        [("businesspols", "businessPol", "deployment_policy"), ("patterns", "pattern", "deployment_pattern")]
    {
        for (query, filter, count, expected) in [
            ("", format!("{member} == gate"), 2, &["o_gate_o", "o_gate_p"][..]),
            ("", format!("nodeOrgid == o AND {member} != lamp"), 2, &["o_camera_o", "o_gate_o"]),
            ("", "id == o_lamp_o".to_owned(), 1, &["o_lamp_o"]),
            (&*format!("&{subject}=cam%25"), "nodeOrgid == p".to_owned(), 1, &["o_camera_p"]),
        ] {
            let path = format!("/orgs/o/agbots/a/{list}?count=true&filter={}{query}", escaped(&filter));
            let found = api.expect(200, ADMIN, "GET", &path, Value::Null).await;
            assert_eq!(entries(&found).into_keys().collect::<Vec<_>>(), expected, "{filter}: {found}");
            assert_eq!(found["count"], count, "{filter}");
        }
        let path = format!("/orgs/o/agbots/a/{list}?limit=2&count=true");
        let first = api.expect(200, ADMIN, "GET", &path, Value::Null).await;
        assert_eq!((&first["next"], &first["count"]), (&json!("o_camera_p"), &json!(5)), "{first}");
        let rest = api.expect(200, ADMIN, "GET", &format!("{path}&after=o_gate_o"), Value::Null).await;
        assert_eq!(entries(&rest).into_keys().collect::<Vec<_>>(), ["o_gate_p", "o_lamp_o"]);
        let (status, refused) =
            api.call(ADMIN, "GET", &format!("/orgs/o/agbots/a/{list}?filter=a%20%3D%3D"), Value::Null).await;
        assert!(
            status == 400 && refused["msg"].as_str().is_some_and(|text| text.contains("filter")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn count_of_a_long_list_needs_no_page_of_it() {
    let (_database, api) = filled().await;
    let users = api.expect(200, ADMIN, "GET", "/orgs/o/users?count=true&limit=1", Value::Null).await;
    assert_eq!((entries(&users).len(), users["count"].as_u64()), (1, Some(2503)));
    let root = api.expect(200, ROOT, "GET", "/orgs/o/hagroups?count=true", Value::Null).await;
    assert_eq!((entries(&root).len(), root["count"].as_u64()), (100, Some(2500)));
}

#[tokio::test]
async fn filter_of_nodes_reads_the_properties_that_decide_about_deployments() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    for (node, site) in [("n1", "north"), ("n2", "south"), ("n3", "north")] {
        api.make_node(USER, "o", node).await;
        let policy = json!({
            "properties": [{"name": "site", "value": "top"}, {"name": "cpus", "value": 4}],
            "deployment": {"properties": [{"name": "site", "value": site}]}, "nodePolicyVersion": "v2",
        });
        api.expect(201, USER, "PUT", &format!("/orgs/o/nodes/{node}/policy"), policy).await;
    }
    let group = json!({"description": "", "members": ["n3"]});
    api.expect(201, ADMIN, "POST", "/orgs/o/hagroups/g", group).await;
    for (filter, expected) in [
        ("site == north", &["o/n1", "o/n3"][..]),
        ("site == south AND cpus >= 4 AND owner == \"o/u\"", &["o/n2"]),
        ("openhorizon.hagroup == g", &["o/n3"]),
        ("openhorizon.hagroup != none", &["o/n3"]),
        ("site == top", &[]),
        ("ha_group == g", &["o/n3"]),
        ("token != none", &["o/n1", "o/n2", "o/n3"]),
    ] {
        for list in ["nodes", "node-details", "nodes?idsOnly=true"] {
            let mark = if list.contains('?') { '&' } else { '?' };
            let path = format!("/orgs/o/{list}{mark}filter={}", escaped(filter));
            let (status, body) = api.call(USER, "GET", &path, Value::Null).await;
            assert_eq!(status, if expected.is_empty() { 404 } else { 200 }, "{filter} {body}");
            if status == 200 {
                let keys: Vec<String> = entries(&body).into_keys().collect();
                assert_eq!(keys, expected, "{filter} of {list}");
                assert!(!list.contains('?') || body["nodes"][&keys[0]] == json!({}), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn parameters_that_cannot_be_read_are_refused_by_their_names() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_org("p").await;
    let long = format!("filter={}", "a".repeat(60_000));
    for list in
        ["users", "nodes", "node-details", "agbots", "services", "patterns", "hagroups", "business/policies"]
    {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=1000000", "limit"),
            ("limit=-1", "limit"),
            ("limit=1&limit=2", "limit"),
            ("count=maybe", "count"),
            ("filter=a%20%3D%3D%20b%20AND", "filter"),
            ("filter=%20", "filter"),
            (&long, "filter"),
            ("after=p%2Fother", "after"),
            ("after=%00", "after"),
        ] {
            let path = format!("/orgs/o/{list}?{query}");
            let (status, body) = api.call(ADMIN, "GET", &path, Value::Null).await;
            let text = body["msg"].as_str().unwrap_or_default();
            assert_eq!(
                (status, text.starts_with(&format!("{field}: "))),
                (400, true),
                "{list} {field}: {body}"
            );
            assert!(text.len() < 300, "{text}");
        }
    }
    let body = api.expect(400, ADMIN, "GET", "/catalog/services?after=bare", Value::Null).await;
    assert!(body["msg"].as_str().is_some_and(|text| text.contains("another list")), "{body}");
    // What a caller may not list is refused as without a page.
    api.expect(403, USER, "GET", "/orgs/o/users?limit=1", Value::Null).await;
    api.expect(403, ADMIN, "GET", "/orgs/p/users?limit=1&count=true", Value::Null).await;
}
