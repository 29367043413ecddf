//! Lists that are longer than one page are whole, sorted, and hold nothing twice.

use serde_json::Value;
use sqlx::Executor;

use super::api::{Api, ROOT};
use crate::support::TestDatabase;
use crate::support::wait::must;

/// More than two pages of each.
const FILL: &str = "
    INSERT INTO organization (org, label, description, updated_at)
    SELECT 'many-' || n, '', '', now() FROM generate_series(1, 2500) AS n;
    INSERT INTO account (org, name, id, email, is_admin, updated_at)
    SELECT 'o', 'user-' || n, gen_random_uuid(), '', n % 2 = 0, now() FROM generate_series(1, 2500) AS n;
    INSERT INTO ha_group (org, name, is_admin, updated_at)
    SELECT 'o', 'group-' || n, false, now() FROM generate_series(1, 2500) AS n";

#[tokio::test]
async fn lists_longer_than_a_page_are_whole() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node("o/u:pu", "o", "n").await;
    must(database.connection().await.execute(FILL).await, "filling the tables");
    api.expect(201, ROOT, "POST", "/orgs/o/hagroups/group-2500/nodes/n", Value::Null).await;

    let orgs = api.expect(200, ROOT, "GET", "/orgs?organization=many-%25", Value::Null).await;
    assert_eq!(orgs["orgs"].as_object().map(serde_json::Map::len), Some(2500));
    let users = api.expect(200, "o/admin:pa", "GET", "/orgs/o/users", Value::Null).await;
    assert_eq!(users["users"].as_object().map(serde_json::Map::len), Some(2503));
    let groups = api.expect(200, ROOT, "GET", "/orgs/o/hagroups", Value::Null).await;
    let groups = groups["nodeGroups"].as_array().expect("a list");
    let names: Vec<&str> = groups.iter().filter_map(|group| group["name"].as_str()).collect();
    assert!(names.len() == 2500 && names.is_sorted(), "sorted by name, each once");
    let members: usize = groups.iter().map(|group| group["members"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(members, 1);
}

/// More than two pages of what belongs to a node and to an agbot, and of nodes without a pattern.
const PARTS: &str = "
    INSERT INTO node_agreement (agreement, org, node, services, agreement_service, service_url, state, updated_at)
    SELECT 'na-' || n, 'o', 'n', '[]', '{}', '', 'up', now() FROM generate_series(1, 2500) AS n;
    INSERT INTO agbot_agreement (agreement, org, agbot, service, state, updated_at)
    SELECT 'aa-' || n, 'o', 'a', '{}', 'up', now() FROM generate_series(1, 2500) AS n;
    INSERT INTO agbot (org, agbot, name, owner_org, owner, token_hash, msg_end_point, public_key, seen_at, updated_at)
    SELECT 'o', 'bot-' || n, '', 'o', 'u', 'x', '', '', now(), now() FROM generate_series(1, 2500) AS n;
    INSERT INTO agbot_policy (org, agbot, entry, policy_org, policy, node_org, updated_at)
    SELECT 'o', 'a', 'e-' || n, 'o', 'p-' || n, 'o', now() FROM generate_series(1, 2500) AS n;
    INSERT INTO agbot_pattern (org, agbot, entry, pattern_org, pattern, node_org, updated_at)
    SELECT 'o', 'a', 'e-' || n, 'o', 'p-' || n, 'o', now() FROM generate_series(1, 2500) AS n;
    INSERT INTO node_message (org, node, agbot_org, agbot, public_key, message, sent_at, expires_at)
    SELECT 'o', 'n', 'o', 'a', 'k', 'm-' || n, now(), now() + interval '1 hour' FROM generate_series(1, 250) AS n;
    INSERT INTO agbot_message (org, agbot, node_org, node, public_key, message, sent_at, expires_at)
    SELECT 'o', 'a', 'o', 'n', 'k', 'm-' || n, now(), now() + interval '1 hour' FROM generate_series(1, 250) AS n";

async fn members(api: &Api, path: &str, member: &str) -> usize {
    let body = api.expect(200, "o/admin:pa", "GET", path, Value::Null).await;
    body[member].as_object().map_or(0, serde_json::Map::len)
}

/// The texts of a mailbox, in order.
async fn messages(api: &Api, path: &str) -> Vec<String> {
    let body = api.expect(200, "o/admin:pa", "GET", path, Value::Null).await;
    assert_eq!(body["lastIndex"], 0);
    let messages = body["messages"].as_array().expect("a list").iter();
    messages.filter_map(|message| Some(message["message"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn long_lists_of_what_belongs_to_nodes_and_agbots_are_whole() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node("o/u:pu", "o", "n").await;
    let agbot = serde_json::json!({"token": "ta", "name": "a", "publicKey": ""});
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/agbots/a", agbot).await;
    must(database.connection().await.execute(PARTS).await, "filling the tables");
    for (path, member, count) in [
        ("/orgs/o/nodes/n/agreements", "agreements", 2500),
        ("/orgs/o/nodes/n/agreements/na-1700", "agreements", 1),
        ("/orgs/o/agbots/a/agreements", "agreements", 2500),
        ("/orgs/o/agbots", "agbots", 2501),
        ("/orgs/o/agbots?name=a", "agbots", 1),
        ("/orgs/o/agbots/a/businesspols", "businessPols", 2500),
        ("/orgs/o/agbots/a/patterns", "patterns", 2500),
    ] {
        assert_eq!(members(&api, path, member).await, count, "{path}");
    }
    let all: Vec<String> = (1..=250).map(|number| format!("m-{number}")).collect();
    for mailbox in ["/orgs/o/nodes/n/msgs", "/orgs/o/agbots/a/msgs"] {
        assert_eq!(messages(&api, mailbox).await, all, "{mailbox}");
        for count in [1, 100, 101, 200, 250, 999] {
            let some = messages(&api, &format!("{mailbox}?maxmsgs={count}")).await;
            assert_eq!(some, all[..count.min(250)], "{mailbox} {count}");
        }
    }
    let status = api.expect(200, ROOT, "GET", "/admin/orgstatus", Value::Null).await;
    assert_eq!(
        (&status["nodes"]["o"], &status["nodes"]["IBM"]),
        (&serde_json::json!(1), &serde_json::json!(0))
    );
    assert!(status["msg"].is_string());
}

#[tokio::test]
async fn search_without_pages_finds_every_node_once_in_order() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    let service = serde_json::json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
                                     "deployment": "{}", "deploymentSignature": "x"});
    api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service).await;
    let policy = serde_json::json!({"label": "p",
        "service": {"name": "s", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]}});
    api.expect(201, "o/u:pu", "POST", "/orgs/o/business/policies/p", policy).await;
    let path = "/orgs/o/business/policies/p/search";
    let body = serde_json::json!({"changedSince": 0});
    api.expect(404, "o/admin:pa", "POST", path, body.clone()).await;
    for name in ["seed", "other"] {
        let node = serde_json::json!({"token": "t", "name": name, "pattern": "", "publicKey": "k"});
        api.expect(201, "o/u:pu", "PUT", &format!("/orgs/o/nodes/{name}"), node).await;
    }
    // Many nodes changed at the same instant: the order continues by id.
    let fill = "
        DO $$
        DECLARE
            written text;
        BEGIN
            SELECT string_agg(quote_ident(attname), ', ') INTO written FROM pg_attribute
            WHERE attrelid = 'node'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
            EXECUTE format(
                'INSERT INTO node (%1$s) SELECT %1$s FROM (
                    SELECT (jsonb_populate_record(seed, jsonb_build_object(''node'', ''many-'' || n))).*
                    FROM node AS seed, generate_series(1, 2500) AS n WHERE seed.org = ''o'' AND seed.node = ''seed''
                ) AS filled', written);
        END $$;
        INSERT INTO node_heartbeat (org, node, seen_at)
        SELECT org, node, now() FROM node WHERE org = 'o' ON CONFLICT DO NOTHING;
        UPDATE node SET updated_at = updated_at - interval '1 day' WHERE node LIKE 'many-%00'";
    must(database.connection().await.execute(fill).await, "filling the tables");
    let found = api.expect(201, "o/admin:pa", "POST", path, body).await;
    assert_eq!(found["offsetUpdated"], false);
    let ids: Vec<&str> =
        found["nodes"].as_array().expect("a list").iter().filter_map(|node| node["id"].as_str()).collect();
    let once: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!((ids.len(), once.len()), (2502, 2502));
    assert!(ids[..25].iter().all(|id| id.ends_with("00")), "older changes come first: {:?}", &ids[..25]);
    let late = serde_json::json!({"changedSince": 4_000_000_000_i64});
    api.expect(404, "o/admin:pa", "POST", path, late).await;
}

#[tokio::test]
async fn page_without_visible_rows_does_not_end_a_list() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    let hub_admin = serde_json::json!({"password": "ph", "email": "", "hubAdmin": true});
    api.expect(201, ROOT, "POST", "/orgs/root/users/hub", hub_admin).await;
    let fill = "INSERT INTO account (org, name, id, email, is_admin, updated_at)
        SELECT 'o', 'a-' || n, gen_random_uuid(), '', false, now() FROM generate_series(1, 1500) AS n;
        UPDATE account SET is_admin = true WHERE org = 'o' AND name = 'v'";
    must(database.connection().await.execute(fill).await, "filling the table");
    let users = api.expect(200, "root/hub:ph", "GET", "/orgs/o/users", Value::Null).await;
    let names: Vec<&String> = users["users"].as_object().expect("a map").keys().collect();
    assert_eq!(names, ["o/admin", "o/v"], "hub admins see administrators only");
}

#[tokio::test]
async fn filter_that_is_no_pattern_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.expect(400, ROOT, "GET", "/orgs?label=%25%5C", Value::Null).await;
}

/// More than two pages of registry credentials of a service and of organizations of one account elsewhere.
const REST: &str = "
    INSERT INTO service_dockauth (org, service, registry, username, token, updated_at)
    SELECT 'o', 's_1.0.0_amd64', 'registry-' || n, 'token', 't', now() FROM generate_series(1, 250) AS n;
    INSERT INTO organization (org, label, description, tags, updated_at)
    SELECT 'cloud-' || n, '', '', '{\"ibmcloud_id\": \"c1\"}', now() FROM generate_series(1, 2500) AS n";

#[tokio::test]
async fn long_lists_of_registry_credentials_and_own_organizations_are_whole() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    let service = serde_json::json!({
        "label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
    });
    api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service).await;
    let dockauths = "/orgs/o/services/s_1.0.0_amd64/dockauths";
    let none = api.expect(404, "o/u:pu", "GET", dockauths, Value::Null).await;
    assert_eq!(none, serde_json::json!([]));
    must(database.connection().await.execute(REST).await, "filling the tables");

    let all = api.expect(200, "o/u:pu", "GET", dockauths, Value::Null).await;
    let all = all.as_array().expect("a list");
    let numbers: Vec<i64> = all.iter().filter_map(|dockauth| dockauth["dockAuthId"].as_i64()).collect();
    assert!(numbers.len() == 250 && numbers.is_sorted(), "each once, by number");
    let one = format!("{dockauths}/{}", numbers[137]);
    assert_eq!(api.expect(200, "o/u:pu", "GET", &one, Value::Null).await["registry"], all[137]["registry"]);

    let account = serde_json::json!([{"id": "c1", "name": "", "description": "", "createdOn": ""}]);
    let own = api.expect(200, "o/u:pu", "POST", "/myorgs", account).await;
    assert_eq!(own["orgs"].as_object().map(serde_json::Map::len), Some(2500));
    assert_eq!(own["lastIndex"], 0);
}
