//! Several exchanges on one database: what one has acknowledged, the next request finds on every other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Executor;

use super::api::{Api, ROOT};
use crate::support::TestDatabase;
use crate::support::wait::{eventually, must};

async fn three_exchanges() -> (TestDatabase, [Api; 3]) {
    let database = TestDatabase::new().await;
    let apis = [Api::start(&database).await, Api::start(&database).await, Api::start(&database).await];
    apis[0].make_org("o").await;
    (database, apis)
}

async fn last_number(api: &Api) -> i64 {
    let last = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    last["maxChangeId"].as_i64().expect("a number")
}

#[tokio::test]
async fn change_is_in_the_next_poll_of_every_exchange() {
    let (_database, apis) = three_exchanges().await;
    for round in 0..30 {
        let (writer, reader) = (&apis[round % 3], &apis[(round + 1) % 3]);
        let next = last_number(reader).await + 1;
        writer.make_node("o/u:pu", "o", &format!("n{round}")).await;
        let body = json!({"changeId": next, "maxRecords": 100});
        let page = reader.expect(201, "o/u:pu", "POST", "/orgs/o/changes", body).await;
        let ids: Vec<_> = page["changes"].as_array().expect("a list").iter().map(|row| &row["id"]).collect();
        assert_eq!(ids, vec![&json!(format!("n{round}"))], "round {round}");
    }
}

#[tokio::test]
async fn setting_holds_on_every_exchange_until_it_is_taken_back() {
    let (_database, apis) = three_exchanges().await;
    let limit = json!({"varPath": "api.limits.maxNodes", "value": "1"});
    apis[0].expect(201, ROOT, "PUT", "/admin/config", limit).await;
    apis[1].make_node("o/u:pu", "o", "first").await;
    let node = json!({"token": "token-second", "name": "", "pattern": "", "publicKey": ""});
    apis[2].expect(403, "o/u:pu", "PUT", "/orgs/o/nodes/second", node.clone()).await;
    apis[1].expect(201, ROOT, "POST", "/admin/reload", Value::Null).await;
    apis[2].expect(201, "o/u:pu", "PUT", "/orgs/o/nodes/second", node).await;
}

#[tokio::test]
async fn changes_removed_by_hand_are_gone_everywhere() {
    let (_database, apis) = three_exchanges().await;
    apis[0].make_node("o/u:pu", "o", "n").await;
    let removal = json!({"resources": []});
    apis[0].expect(204, ROOT, "DELETE", "/orgs/o/changes/cleanup", removal).await;
    let body = json!({"changeId": 1, "maxRecords": 100});
    for api in &apis {
        let page = api.expect(201, "o/u:pu", "POST", "/orgs/o/changes", body.clone()).await;
        assert_eq!(page["changes"], json!([]));
    }
}

#[tokio::test]
async fn write_waits_for_an_exchange_that_vanished_only_until_its_lease_is_over() {
    let (database, apis) = three_exchanges().await;
    let mut connection = database.connection().await;
    let vanished =
        "INSERT INTO exchange_instance VALUES (gen_random_uuid(), 0, clock_timestamp() + interval '1.5 s')";
    must(connection.execute(vanished).await, "an exchange without a process");
    let start = Instant::now();
    apis[0].make_node("o/u:pu", "o", "n").await;
    assert!(start.elapsed() > Duration::from_millis(500), "it was acknowledged after {:?}", start.elapsed());
    apis[1].expect(200, "o/n:token-n", "GET", "/orgs/o/nodes/n", Value::Null).await;
}

#[tokio::test]
async fn exchange_that_lost_its_lease_joins_again_and_knows_everything() {
    let (database, apis) = three_exchanges().await;
    apis[1].expect(200, "o/u:pu", "GET", "/orgs/o", Value::Null).await;
    let mut connection = database.connection().await;
    must(connection.execute("DELETE FROM exchange_instance").await, "removing the leases");
    // No exchange holds a lease now, so none is waited for; within a second all have noticed.
    eventually("all exchanges have joined again", || async {
        let mut connection = database.connection().await;
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM exchange_instance");
        (must(count.fetch_one(&mut connection).await, "a count") == 3).then_some(())
    })
    .await;
    apis[0].expect(201, "o/u:pu", "POST", "/orgs/o/users/u/changepw", json!({"newPassword": "fresh"})).await;
    apis[1].expect(401, "o/u:pu", "GET", "/orgs/o", Value::Null).await;
    apis[2].expect(200, "o/u:fresh", "GET", "/orgs/o", Value::Null).await;
}
