//! An administrator reads the audit record by command, notes its end, and detects that it was altered.

use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use super::Hzn;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

/// Runs a statement behind the back of the hub.
async fn tamper(database: &TestDatabase, statement: &'static str) {
    let mut connection = database.connection().await;
    let done = must(connection.execute(statement).await, "a statement");
    assert!(done.rows_affected() > 0, "{statement}");
    must(connection.close().await, "closing");
}

/// The records once they are sealed: so many at least.
async fn sealed(hzn: &Hzn, count: usize) -> Vec<Value> {
    eventually("the records are sealed", || async {
        let records = hzn.data("exchange audit list --oldest-first");
        records.as_array().filter(|records| records.len() >= count).cloned()
    })
    .await
}

#[tokio::test]
async fn audit_is_listed_and_checked_by_command() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let hub = Hub::start(&scratch, &["--database-url", database.url()]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.done("exchange org create acme -d plant");
    assert_eq!(hzn.run_with("exchange user create ann - ann@acme.com -A", "pass word\n").status, 0);
    assert_eq!(hzn.run_with("exchange user create uwe - uwe@acme.com", "pass word\n").status, 0);
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:pass word".to_owned());
    for node in ["n1", "n2", "n3"] {
        hzn.done(&format!("exchange node create {node}:token-{node} -a amd64"));
    }
    hzn.write("policy.json", &json!({"properties": [], "constraints": []}));
    hzn.done("exchange node addpolicy n1 -f policy.json");
    // The organization, two users, three nodes, a policy.
    let records = sealed(&hzn, 7).await;
    lists(&hzn, &records);
    reports_are_left_out(&hzn, &hub).await;
    let end = checks(&hzn);

    // An attacker with access to the database changes the caller of one write.
    let number = records[4]["number"].as_i64().expect("a number");
    tamper(
        &database,
        "UPDATE audit_record SET caller = 'acme/uwe' WHERE org = 'acme'
         AND number = (SELECT number FROM audit_record WHERE org = 'acme' ORDER BY number OFFSET 4 LIMIT 1)",
    )
    .await;
    let why = hzn.refused(9, "exchange audit verify");
    assert!(why.contains(&format!("record {number}")), "{why}");
    // Records after the recorded end are untouched.
    assert_eq!(hzn.data(&format!("exchange audit verify --known {end}"))["intact"], true);
    tamper(&database, "DELETE FROM audit_record WHERE org = 'acme' AND number > 3").await;
    hzn.refused(9, "exchange audit verify");

    // The record is for administrators.
    hzn.set("HZN_EXCHANGE_USER_AUTH", "uwe:pass word".to_owned());
    hzn.refused(5, "exchange audit list");
    assert_eq!(hub.stop().await, 0);
}

fn lists(hzn: &Hzn, records: &[Value]) {
    let numbers: Vec<i64> = records.iter().filter_map(|record| record["number"].as_i64()).collect();
    assert!(numbers.len() == records.len() && numbers.is_sorted(), "{numbers:?}");
    let by_ann = hzn.data("exchange audit list --caller acme/ann");
    let by_ann = by_ann.as_array().expect("a list");
    assert!(by_ann.len() >= 4 && by_ann.iter().all(|record| record["caller"] == "acme/ann"), "{by_ann:?}");
    let of_n1 = hzn.data("exchange audit list --resource /orgs/acme/nodes/n1");
    let operations: Vec<&str> =
        of_n1.as_array().expect("a list").iter().filter_map(|record| record["operation"].as_str()).collect();
    assert!(operations.len() >= 2 && operations.contains(&"replace_node_policy"), "{operations:?}");
    let newest = hzn.data("exchange audit list --all");
    let newest: Vec<i64> =
        newest.as_array().expect("a list").iter().filter_map(|record| record["number"].as_i64()).collect();
    assert!(newest.len() >= numbers.len() && newest.is_sorted_by(|one, two| one > two), "{newest:?}");
    let first = hzn.data("exchange audit list --limit 1");
    assert_eq!(first[0]["number"].as_i64(), newest.first().copied(), "no node has reported anything");
    let two = hzn.data(&format!("exchange audit list --oldest-first --after {} --limit 2", numbers[1]));
    assert_eq!((two[0]["number"].as_i64(), two[1]["number"].as_i64()), (Some(numbers[2]), Some(numbers[3])));
    assert_eq!(hzn.data("exchange audit list --until 2001-01-01T00:00:00Z"), json!([]));
    let table = hzn.run("exchange audit list --output table").output;
    assert!(table.starts_with("NUMBER") && table.contains("acme/ann"), "{table}");
    assert!(!table.contains("pass word") && !table.contains("token-n1"), "{table}");
    hzn.refused(1, "exchange audit verify --known nonsense");
}

/// Reports of a node about itself are shown only on request.
async fn reports_are_left_out(hzn: &Hzn, hub: &Hub) {
    let client = must(reqwest::Client::builder().no_proxy().tls_certs_only([]).build(), "a client");
    let status = client.put(format!("{}/v1/orgs/acme/nodes/n1/status", hub.url));
    let status = status.basic_auth("acme/n1", Some("token-n1")).json(&json!({"services": []}));
    assert!(must(status.send().await, "a response").status().is_success());
    let newest = |options: &str| {
        let records = hzn.data(&format!("exchange audit list --limit 1 {options}"));
        records[0]["operation"].as_str().unwrap_or_default().to_owned()
    };
    eventually("the report is sealed", || async { (newest("--all") == "replace_node_status").then_some(()) })
        .await;
    assert_eq!(newest(""), "replace_node_policy");
}

/// Returns the end of the chain, as an administrator records it.
fn checks(hzn: &Hzn) -> String {
    let checked = hzn.data("exchange audit verify");
    assert_eq!(checked["intact"], true, "{checked}");
    assert!(checked["checked"].as_u64().is_some_and(|count| count >= 7), "{checked}");
    let end = checked["end"].as_str().expect("the end").to_owned();
    assert_eq!(hzn.data(&format!("exchange audit verify --known {end}"))["intact"], true);
    // A hash that was never that of the record.
    let (number, _) = end.split_once(':').expect("number and hash");
    hzn.refused(9, &format!("exchange audit verify --known {number}:{}", "0".repeat(64)));
    end
}
