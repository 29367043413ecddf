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
    api.expect(400, ROOT, "GET", "/orgs?label=%5C", Value::Null).await;
}
