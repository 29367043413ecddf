//! The audit record: every write leaves one, in its own transaction; the chain shows what was done to it afterwards.

use std::time::Duration;

use evenkeel_exchange::{ExchangeSettings, routes};
use evenkeel_wire::exchange::audit::{
    AuditRecord, AuditResponse, AuditVerifyResponse, ChainPlace, ChainWalk, NO_HASH,
};
use http::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use super::api::{Api, ROOT};
use super::request::{Aim, body, path};
use super::world::{CALLERS, Caller, HOME, World};
use crate::support::wait::must;
use crate::support::{TestDatabase, eventually};

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";

async fn start() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    (database, api)
}

async fn records(api: &Api, login: &str, query: &str) -> Vec<AuditRecord> {
    let response = api.expect(200, login, "GET", &format!("/orgs/o/audit{query}"), Value::Null).await;
    must(serde_json::from_value::<AuditResponse>(response), "a response").records
}

async fn verify(api: &Api, query: &str) -> AuditVerifyResponse {
    let response = api.expect(200, ADMIN, "GET", &format!("/orgs/o/audit/verify{query}"), Value::Null).await;
    must(serde_json::from_value(response), "a response")
}

/// Runs a statement behind the back of the exchange.
async fn tamper(database: &TestDatabase, statement: &str) {
    let mut connection = database.connection().await;
    let done = must(connection.execute(AssertSqlSafe(statement.to_owned())).await, "a statement");
    assert!(done.rows_affected() > 0, "{statement}");
    must(connection.close().await, "closing");
}

#[tokio::test]
async fn every_kind_of_write_leaves_one_record_that_names_it() {
    let mut world = World::new().await;
    let aim = Aim { org: HOME, name: "private" };
    let mut count = 0;
    for endpoint in routes::all().iter().filter(|endpoint| endpoint.method != Method::GET) {
        let path = path(&world, endpoint, endpoint.paths[0], aim);
        let body = body(endpoint, aim);
        let org = path.strip_prefix("/org").map_or("root", |rest| {
            rest.trim_start_matches('s').trim_start_matches('/').split('/').next().unwrap_or("root")
        });
        let before = newest(&world, org).await;
        let Some(caller) = one_who_may(&mut world, &endpoint.method, &path, body.as_ref()).await else {
            // The nodes of this world have registered no service whose state could be changed, and none departs; some searches find nothing. Requests of
            // approvals come from an agbot that has planned them.
            let unmet = [
                "change_service_config_state",
                "confirm_departure",
                "create_plan_approval",
                "use_plan_approval",
            ];
            let is_empty = !endpoint.is_audited() || unmet.contains(&endpoint.operation);
            assert!(is_empty, "nobody may {} {path}", endpoint.method);
            continue;
        };
        let new = list(&world, org, before).await;
        let reported: Vec<&str> =
            new.iter().filter(|record| record.status < 300).map(|record| record.operation.as_str()).collect();
        if endpoint.is_audited() {
            assert_eq!(reported, [endpoint.operation], "{path}: {new:?}");
            let record = new.iter().find(|record| record.status < 300).expect("just seen");
            assert_eq!(Some(record.caller.as_str()), caller.login, "{path}");
            assert_eq!(
                (record.method.as_str(), record.resource.as_str()),
                (endpoint.method.as_str(), path.as_str())
            );
            count += 1;
        } else {
            assert!(reported.is_empty(), "{path}: {new:?}");
        }
        world.restore().await;
    }
    assert!(count > 70, "{count} operations");
}

/// The first kind of caller whose request is carried out.
async fn one_who_may(world: &mut World, method: &Method, path: &str, body: Option<&Value>) -> Option<Caller> {
    for caller in CALLERS {
        if world.call(caller, method, path, body).await.0.is_success() {
            return Some(caller);
        }
    }
    None
}

async fn newest(world: &World, org: &str) -> i64 {
    list(world, org, 0).await.last().map_or(0, |record| record.number)
}

async fn list(world: &World, org: &str, after: i64) -> Vec<AuditRecord> {
    let path = format!("/orgs/{org}/audit?limit=1000&after={after}");
    let (status, response) = world.call(super::world::ROOT, &Method::GET, &path, None).await;
    assert_eq!(status, 200, "{response:?}");
    must(serde_json::from_slice::<AuditResponse>(&response), "a response").records
}

#[tokio::test]
async fn record_contains_caller_operation_address_and_the_state_before_and_after() {
    let (_database, api) = start().await;
    api.make_node(USER, "o", "n").await;
    let policy = |value: &str| json!({"properties": [{"name": "a", "value": value}], "constraints": []});
    let path = "/orgs/o/nodes/n/policy";
    api.expect(201, USER, "PUT", path, policy("one")).await;
    api.expect(201, USER, "PUT", path, policy("two")).await;
    api.expect(204, USER, "DELETE", path, Value::Null).await;
    api.expect(403, "o/v:pv", "PUT", path, policy("three")).await;
    eventually("the refused write is recorded", async || {
        (records(&api, ADMIN, "?resource=/orgs/o/nodes/n/policy").await.len() == 4).then_some(())
    })
    .await;
    let reported = records(&api, ADMIN, "?resource=/orgs/o/nodes/n/policy").await;
    let [first, second, deleted, refused] = reported.as_slice() else { panic!("four records: {reported:?}") };
    for record in [first, second, deleted] {
        assert_eq!((record.caller.as_str(), record.role.as_str()), ("o/u", "user"));
    }
    assert_eq!(
        (first.method.as_str(), first.operation.as_str(), first.status),
        ("PUT", "replace_node_policy", 201)
    );
    assert_eq!((first.before.as_str(), first.after.len()), ("", 64));
    assert_eq!(second.before, first.after, "nobody else changed it");
    assert_ne!(second.after, second.before);
    assert_eq!((deleted.before.as_str(), deleted.after.as_str()), (second.after.as_str(), ""));
    assert_eq!(deleted.status, 204);
    assert_eq!((refused.caller.as_str(), refused.status), ("o/v", 403));
    // A write that fails for another reason leaves nothing.
    api.expect(400, USER, "PUT", path, json!({"properties": 7})).await;
    assert_eq!(records(&api, ADMIN, "?resource=/orgs/o/nodes/n/policy").await.len(), 4);
}

#[tokio::test]
async fn group_is_hashed_with_its_members_also_when_the_body_names_it() {
    let (_database, api) = start().await;
    for node in ["a", "b"] {
        api.make_node(ADMIN, "o", node).await;
    }
    let document = |members: Value| json!({"name": "g", "members": members});
    api.expect(201, ADMIN, "POST", "/org/o/hagroups", document(json!(["a"]))).await;
    api.expect(201, ADMIN, "PUT", "/org/o/hagroups", document(json!(["a", "b"]))).await;
    api.expect(204, ADMIN, "DELETE", "/orgs/o/hagroups/g/nodes/b", Value::Null).await;
    api.expect(204, ADMIN, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    let reported = records(&api, ADMIN, "?after=0&limit=1000").await;
    let of_group: Vec<&AuditRecord> =
        reported.iter().filter(|record| record.resource.contains("hagroups")).collect();
    assert_eq!(of_group.len(), 4, "{reported:?}");
    assert_eq!(of_group[0].before, "");
    for pair in of_group.windows(2) {
        assert_eq!((pair[1].before.as_str(), pair[0].after.len()), (pair[0].after.as_str(), 64));
    }
    assert_eq!(of_group[3].after, "");
}

#[tokio::test]
async fn no_record_holds_a_secret() {
    let (database, api) = start().await;
    let body = json!({"token": "very-secret-token", "name": "n", "pattern": "", "publicKey": ""});
    api.expect(201, USER, "PUT", "/orgs/o/nodes/n", body).await;
    api.expect(201, USER, "POST", "/orgs/o/users/u/changepw", json!({"newPassword": "very-secret-new"}))
        .await;
    let login = "o/u:very-secret-new";
    let key = api.expect(201, login, "POST", "/orgs/o/users/u/apikeys", json!({})).await;
    let reported = records(&api, ADMIN, "?limit=1000").await;
    assert!(reported.iter().any(|record| record.operation == "create_api_key"), "{reported:?}");
    let mut connection = database.connection().await;
    for table in ["audit_record", "audit_outbox"] {
        let statement = format!("SELECT row_to_json(row)::text FROM {table} AS row");
        for row in must(connection.fetch_all(AssertSqlSafe(statement)).await, "the rows") {
            let text: String = row.get(0);
            assert!(!text.contains("very-secret") && !text.contains(key["value"].as_str().expect("a value")));
            assert!(!text.contains("argon2"), "{text}");
        }
    }
}

#[tokio::test]
async fn concurrent_writes_on_two_exchanges_make_one_whole_chain_that_everybody_can_check() {
    let (database, first) = start().await;
    let second = Api::start(&database).await;
    let writes = (0..60).map(|number| {
        let api = if number % 2 == 0 { first.clone() } else { second.clone() };
        tokio::spawn(async move { api.make_node(ADMIN, "o", &format!("n{number}")).await })
    });
    for write in writes.collect::<Vec<_>>() {
        must(write.await, "a write");
    }
    let reported = records(&second, ADMIN, "?limit=1000").await;
    assert_eq!(reported.iter().filter(|record| record.operation == "replace_node").count(), 60);
    let mut walk = ChainWalk::after(ChainPlace { number: 0, hash: NO_HASH.to_owned() });
    for record in &reported {
        walk.step(record).expect("the chain holds");
    }
    let response = verify(&first, "").await;
    assert!(response.intact && response.checked == reported.len() as i64, "{response:?}");
    assert_eq!(&response.end, walk.place());
    // In parts it is the same.
    let part = verify(&first, "?limit=10").await;
    assert_eq!((part.intact, part.checked, part.next), (true, 10, Some(10)));
    let rest = verify(&first, "?after=10").await;
    assert_eq!((rest.intact, rest.checked), (true, reported.len() as i64 - 10));
    assert_eq!(rest.end, response.end);
}

#[tokio::test]
async fn tampering_is_named_by_the_first_record_it_breaks() {
    let (database, api) = start().await;
    for number in 0..6 {
        api.make_node(ADMIN, "o", &format!("n{number}")).await;
    }
    let whole = verify(&api, "").await;
    assert!(whole.intact, "{whole:?}");
    let last = whole.end.number;
    tamper(&database, "UPDATE audit_record SET caller = 'o/other' WHERE org = 'o' AND number = 3").await;
    let found = verify(&api, "").await;
    assert_eq!((found.intact, found.checked), (false, 2));
    assert_eq!(found.broken.expect("named").number, 3);
    tamper(&database, "UPDATE audit_record SET caller = 'root/root' WHERE org = 'o' AND number = 3").await;
    assert!(verify(&api, "").await.intact, "as it was");
    tamper(&database, "DELETE FROM audit_record WHERE org = 'o' AND number = 5").await;
    let found = verify(&api, "").await;
    assert_eq!(found.broken.expect("named").number, 5);
    tamper(&database, &format!("DELETE FROM audit_record WHERE org = 'o' AND number IN (6, {last})")).await;
    let found = verify(&api, "?after=7").await;
    assert_eq!(found.broken.expect("the end was cut off").number, last);
}

#[tokio::test]
async fn pruned_chain_can_still_be_checked() {
    let (database, api) = start().await;
    for number in 0..4 {
        api.make_node(ADMIN, "o", &format!("n{number}")).await;
    }
    let whole = verify(&api, "").await;
    // The housekeeping of an exchange that keeps nothing runs at its start.
    let short = ExchangeSettings { audit_age: Some(Duration::ZERO), ..Api::settings() };
    let _pruning = Api::start_with(&database, short).await;
    let pruned = eventually("old records are removed", async || {
        let response = verify(&api, "").await;
        assert!(response.intact, "{response:?}");
        (response.begin.number == whole.end.number).then_some(response)
    })
    .await;
    assert_eq!((pruned.checked, &pruned.begin), (0, &whole.end));
    assert!(records(&api, ROOT, "").await.is_empty());
    api.make_node(ADMIN, "o", "later").await;
    assert_eq!(verify(&api, "").await.end.number, whole.end.number + 1);
}

#[tokio::test]
async fn administrators_read_their_own_organization_and_nothing_of_one_that_had_its_name() {
    let (_database, api) = start().await;
    api.make_node(USER, "o", "n").await;
    for login in [USER, "o/n:token-n"] {
        api.expect(403, login, "GET", "/orgs/o/audit", Value::Null).await;
        api.expect(403, login, "GET", "/orgs/o/audit/verify", Value::Null).await;
    }
    api.expect(403, ADMIN, "GET", "/orgs/root/audit", Value::Null).await;
    api.expect(204, ROOT, "DELETE", "/orgs/o", Value::Null).await;
    let old = records(&api, ROOT, "?limit=1000").await;
    assert_eq!(old.last().map(|record| record.operation.as_str()), Some("delete_organization"));
    api.make_org("o").await;
    let seen = records(&api, ADMIN, "?limit=1000").await;
    assert_eq!(seen[0].operation, "create_organization");
    assert_eq!(seen[0].number, old.len() as i64 + 1);
    assert_eq!(records(&api, ROOT, "?limit=1000").await.len(), old.len() + seen.len());
    assert!(verify(&api, "").await.intact);
}

#[tokio::test]
async fn lists_are_paged_and_filtered_and_refuse_what_makes_no_sense() {
    let (_database, api) = start().await;
    for number in 0..5 {
        api.make_node(USER, "o", &format!("n{number}")).await;
    }
    let all = records(&api, ADMIN, "").await;
    let mut after = Some(0);
    let mut paged = Vec::new();
    while let Some(from) = after {
        let path = format!("/orgs/o/audit?limit=2&after={from}");
        let response = api.expect(200, ADMIN, "GET", &path, Value::Null).await;
        let page: AuditResponse = must(serde_json::from_value(response), "a response");
        assert!(page.records.len() <= 2);
        paged.extend(page.records);
        after = page.next;
    }
    assert_eq!(paged, all);
    assert_eq!(records(&api, ADMIN, "?caller=o/u").await.len(), 5);
    assert_eq!(records(&api, ADMIN, "?caller=o/u&resource=/orgs/o/nodes/n3").await.len(), 1);
    let since = &all[all.len() - 2].time;
    assert_eq!(records(&api, ADMIN, &format!("?since={since}")).await.len(), 2);
    assert_eq!(records(&api, ADMIN, &format!("?until={since}")).await.len(), all.len() - 2);
    for query in ["limit=0", "limit=1001", "after=-1", "since=yesterday", "limit=x"] {
        api.expect(400, ADMIN, "GET", &format!("/orgs/o/audit?{query}"), Value::Null).await;
    }
    api.expect(404, ADMIN, "GET", "/orgs/o/audit/verify?after=999", Value::Null).await;
}
