//! `evenkeel import`: the database of a reference exchange comes over, and its clients continue with the
//! credentials they have.

use serde_json::{Value, json};
use sqlx::Executor;

use crate::support::process::client;
use crate::support::wait::must;
use crate::support::{Hub, Program, Scratch, TestDatabase};

const SCHEMA_AND_ROWS: &str = include_str!("../fixtures/reference_exchange.sql");

/// A source, a database to import into, and a directory.
struct Case {
    scratch: Scratch,
    source: TestDatabase,
    target: TestDatabase,
}

impl Case {
    async fn new() -> Case {
        let case = Case {
            scratch: Scratch::new(),
            source: TestDatabase::empty().await,
            target: TestDatabase::new().await,
        };
        case.at_source(SCHEMA_AND_ROWS).await;
        must(std::fs::write(case.scratch.join("from"), case.source.url()), "the file with the URL");
        case
    }

    async fn at_source(&self, statements: &'static str) {
        let mut connection = self.source.connection().await;
        must(connection.execute(statements).await, "statements at the source");
    }

    /// Imports; returns exit status, standard output and standard error.
    async fn import(&self, options: &[&str]) -> (i32, String, String) {
        let from = self.scratch.join("from");
        let from = from.to_string_lossy();
        let mut arguments = vec!["import", "--from-file", &from, "--database-url", self.target.url()];
        arguments.extend_from_slice(options);
        let mut program = Program::start(&self.scratch, &arguments, None);
        let status = program.wait().await;
        (status, program.output(), program.errors())
    }

    async fn count(&self, table: &'static str) -> i64 {
        let mut connection = self.target.connection().await;
        let statement = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        must(sqlx::query_scalar(statement).fetch_one(&mut connection).await, "a count")
    }
}

impl Case {
    /// Returns the accounts with the persons that they are linked to, by name.
    async fn links(&self) -> Vec<String> {
        let mut connection = self.target.connection().await;
        let statement = "SELECT concat_ws(' ', name, identity_provider, subject) FROM account
                         WHERE subject IS NOT NULL ORDER BY name";
        must(sqlx::query_scalar(statement).fetch_all(&mut connection).await, "the links")
    }
}

/// Numbers of a table in the printed summary: read, not taken, new, updated, newer here, unchanged, removed.
fn numbers(output: &str, table: &str) -> Vec<u64> {
    let line = output.lines().find(|line| line.trim_start().starts_with(&format!("{table} ")));
    let line = line.unwrap_or_else(|| panic!("{table} is missing in {output}"));
    line.trim_start()[table.len()..].split_whitespace().map(|word| must(word.parse(), "a number")).collect()
}

async fn get(hub: &Hub, login: &str, path: &str) -> (u16, Value) {
    let (name, secret) = login.split_once(':').expect("a login");
    let request = client().get(format!("{}/v1{path}", hub.url)).basic_auth(name, Some(secret));
    let response = must(request.send().await, "a request");
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

const REFUSALS: &[&str] = &[
    "not taken: users plant/eve: only root/root is administrator of an organization and of the hub",
    "not taken: nodes plant/broken: registered_services: it is not a JSON list",
    "not taken: nodes plant/orphan: its owner is not there",
    "not taken: nodes plant/ada: a user or agbot has the same name, and logins must be distinct",
    "not taken: nodepolicies plant/orphan: its node is not there",
    "not taken: node_group_assignment plant/edge-3: a node is in one group at most, and this one is in several",
    "not taken: nodemsgs 2: it has expired",
];

#[tokio::test]
async fn dry_run_reports_everything_and_changes_nothing() {
    let case = Case::new().await;
    let (status, output, errors) = case.import(&["--dry-run"]).await;
    assert_eq!(status, 11, "{output}{errors}");
    for refusal in REFUSALS {
        assert!(output.contains(refusal), "{refusal} is missing in {output}");
    }
    // The member of two groups is named once for each.
    assert_eq!(output.matches("not taken: ").count(), REFUSALS.len() + 1, "{output}");
    assert_eq!(numbers(&output, "nodes"), [6, 3, 3, 0, 0, 0, 0]);
    assert!(output.contains("this was a dry run"), "{output}");
    assert!(output.contains("left out of every row: agbotagreements.dataLastReceived: "), "{output}");
    assert!(errors.contains("reading nodes: 6 rows"), "{errors}");
    for table in
        ["organization", "account", "node", "ha_group_member", "change", "change_outbox", "import_run"]
    {
        assert_eq!(case.count(table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn clients_go_on_with_the_credentials_they_have() {
    let case = Case::new().await;
    let (status, output, errors) = case.import(&[]).await;
    assert_eq!(status, 11, "{output}{errors}");
    let hub = Hub::start(&case.scratch, &["--database-url", case.target.url()]).await;
    for login in [
        "plant/ada:correct horse",
        "plant/bob:correct horse",
        "plant/apikey:correct horse",
        "plant/edge-1:correct horse",
        "plant/edge-2:correct horse",
        "IBM/agbot:correct horse",
    ] {
        assert_eq!(get(&hub, login, "/orgs/plant").await.0, 200, "{login}");
        let wrong = login.replace("correct", "wrong");
        assert_eq!(get(&hub, &wrong, "/orgs/plant").await.0, 401, "{wrong}");
    }
    assert_eq!(get(&hub, "plant/cid:", "/orgs/plant").await.0, 401);
    assert_eq!(get(&hub, "root/root:correct horse", "/orgs").await.0, 401, "root has this hub's password");

    let ada = "plant/ada:correct horse";
    let (_, nodes) = get(&hub, ada, "/orgs/plant/nodes").await;
    let first = &nodes["nodes"]["plant/edge-1"];
    assert_eq!(first["owner"], "plant/bob");
    assert_eq!(first["ha_group"], "line-1");
    assert_eq!(first["lastHeartbeat"], "2026-01-03T00:00:00Z");
    assert_eq!(first["registeredServices"][0]["url"], "plant/watch");
    let second = &nodes["nodes"]["plant/edge-2"];
    assert_eq!((&second["nodeType"], &second["clusterNamespace"]), (&json!("cluster"), &json!("edge")));
    assert_eq!(second["lastHeartbeat"], Value::Null);
    assert_eq!(nodes["nodes"].as_object().map(serde_json::Map::len), Some(3));

    for (path, pointer, expected) in [
        ("/orgs/plant", "/orgs/plant/limits/maxNodes", json!(50)),
        ("/orgs/plant", "/orgs/plant/description", json!("Tabs\tand \"quotes\"")),
        ("/orgs/plant/users/bob", "/users/plant~1bob/updatedBy", json!("plant/ada")),
        ("/orgs/plant/nodes/edge-1/policy", "/management/constraints/0", json!("c == d")),
        ("/orgs/plant/nodes/edge-1/status", "/connectivity/hub", json!(true)),
        ("/orgs/plant/nodes/edge-1/errors", "/errors/0/message", json!("too hot")),
        (
            "/orgs/plant/nodes/edge-1/agreements",
            "/agreements/agreement-1/agrService/url",
            json!("plant/watch"),
        ),
        (
            "/orgs/plant/nodes/edge-1/managementStatus",
            "/managementStatus/plant~1upgrade/agentUpgradePolicyStatus/status",
            json!("waiting"),
        ),
        ("/orgs/plant/hagroups/line-1", "/nodeGroups/0/members", json!(["edge-1", "edge-2"])),
        (
            "/orgs/plant/services/watch_1.0.0_amd64",
            "/services/plant~1watch_1.0.0_amd64/deploymentSignature",
            json!("c2ln"),
        ),
        ("/orgs/plant/services/watch_1.0.0_amd64/policy", "/constraints/0", json!("line == 1")),
        ("/orgs/plant/services/watch_1.0.0_amd64/dockauths", "/0/token", json!("dock-secret")),
        (
            "/orgs/plant/patterns/watch-everywhere",
            "/patterns/plant~1watch-everywhere/agreementProtocols/0/name",
            json!("Basic"),
        ),
        (
            "/orgs/plant/business/policies/watch-line",
            "/businessPolicy/plant~1watch-line/created",
            json!("2026-01-01T00:00:00Z"),
        ),
        (
            "/orgs/plant/managementpolicies/upgrade",
            "/managementPolicy/plant~1upgrade/startWindow",
            json!(300),
        ),
        ("/orgs/IBM/AgentFileVersion", "/agentSoftwareVersions", json!(["2.32.0", "2.31.0"])),
    ] {
        let (status, body) = get(&hub, ada, path).await;
        assert_eq!((status, body.pointer(pointer)), (200, Some(&expected)), "{path}: {body}");
    }
    let (_, mailbox) = get(&hub, "plant/edge-1:correct horse", "/orgs/plant/nodes/edge-1/msgs").await;
    assert_eq!(mailbox["messages"][0]["message"], "hello", "{mailbox}");
    // Readers of the feed continue where they were.
    let request = client().post(format!("{}/v1/orgs/plant/changes", hub.url));
    let request = request.basic_auth("plant/edge-1", Some("correct horse"));
    let page: Value = must(
        must(request.json(&json!({"changeId": 4712, "maxRecords": 9})).send().await, "a poll").json().await,
        "a page",
    );
    assert_eq!(page["changes"][0]["resource"], "nodepolicies", "{page}");
    assert!(page["mostRecentChangeId"].as_i64().is_some_and(|last| last >= 4713), "{page}");
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn links_to_identity_providers_come_along_when_they_name_one_person() {
    let case = Case::new().await;
    case.import(&[]).await;
    assert_eq!(case.links().await, ["cid https://login.plant.example person-4"]);
    // A link that was made here stays; one that two users share is none.
    let mut target = case.target.connection().await;
    let linked =
        "UPDATE account SET identity_provider = 'https://here.example', subject = 'b' WHERE name = 'bob'";
    must(target.execute(linked).await, "a link made here");
    case.at_source(
        "UPDATE users SET external_id = 'person-5', modified_at = '2026-01-06' WHERE username = 'cid';
         UPDATE users SET email = 'new@plant', modified_at = '2026-01-06' WHERE username = 'bob'",
    )
    .await;
    case.import(&[]).await;
    assert_eq!(
        case.links().await,
        ["bob https://here.example b", "cid https://login.plant.example person-5"]
    );
    case.at_source(
        "UPDATE users SET identity_provider = 'https://login.plant.example', external_id = 'person-5'
         WHERE username IN ('ada', 'cid')",
    )
    .await;
    let (status, output, errors) = case.import(&[]).await;
    assert_eq!(status, 11, "{output}{errors}");
    assert_eq!(case.links().await.len(), 2);
}

#[tokio::test]
async fn later_import_brings_what_changed_and_keeps_what_is_newer_here() {
    let case = Case::new().await;
    case.import(&[]).await;
    let (_, output, _) = case.import(&[]).await;
    for table in ["orgs", "users", "apikeys", "nodes", "node_group_assignment", "services", "resourcechanges"]
    {
        let again = numbers(&output, table);
        assert_eq!((again[2], again[3], again[4], again[6]), (0, 0, 0, 0), "{table}: {output}");
    }
    let mut target = case.target.connection().await;
    let newer = "UPDATE node SET name = 'renamed here', updated_at = now() WHERE node = 'edge-2'";
    must(target.execute(newer).await, "a change here");
    case.at_source(
        "UPDATE nodes SET name = 'renamed there', lastupdated = '2026-01-05T00:00:00Z' WHERE id IN ('plant/edge-1', 'plant/edge-2');
         INSERT INTO resourcechanges (orgid, id, category, public, resource, operation, lastupdated)
         VALUES ('plant', 'edge-1', 'node', 'false', 'node', 'modified', '2026-01-05');
         DELETE FROM nodeerror",
    )
    .await;
    let (_, output, _) = case.import(&[]).await;
    assert_eq!(numbers(&output, "nodes"), [6, 3, 0, 1, 1, 1, 0], "{output}");
    assert_eq!(numbers(&output, "resourcechanges")[2], 1, "{output}");
    assert_eq!(case.count("node_error").await, 1);
    let (_, output, _) = case.import(&["--remove-absent"]).await;
    assert_eq!(numbers(&output, "nodeerror"), [0, 0, 0, 0, 0, 0, 1], "{output}");
    assert_eq!(case.count("node_error").await, 0);
    assert_eq!(case.count("node").await, 3);
}

#[tokio::test]
async fn readers_of_a_hub_in_use_learn_what_an_import_wrote() {
    let case = Case::new().await;
    case.import(&[]).await;
    let hub = Hub::start(&case.scratch, &["--database-url", case.target.url()]).await;
    let ada = "plant/ada:correct horse";
    let (status, _) = hub.call("PATCH", "/orgs/plant/nodes/edge-1", Some(json!({"name": "used"}))).await;
    assert_eq!(status, 201);
    assert_eq!(get(&hub, "plant/bob:correct horse", "/orgs/plant").await.0, 200);
    let (_, last) = hub.call("GET", "/changes/maxchangeid", None).await;
    case.at_source(
        "UPDATE nodes SET name = 'renamed there', lastupdated = '2026-01-05T00:00:00Z' WHERE id = 'plant/edge-3';
         UPDATE users SET password = NULL, modified_at = '2026-01-05' WHERE username = 'bob'",
    )
    .await;
    case.import(&[]).await;
    crate::support::eventually("the hub shows the node, and bob is out", || async {
        let from = last["maxChangeId"].as_i64()? + 1;
        let request = client().post(format!("{}/v1/orgs/plant/changes", hub.url));
        let request = request.basic_auth("plant/ada", Some("correct horse"));
        let page = request.json(&json!({"changeId": from, "maxRecords": 9})).send().await.ok()?;
        let page: Value = page.json().await.ok()?;
        let reported = page["changes"]
            .as_array()?
            .iter()
            .any(|row| row["id"] == "edge-3" && row["operation"] == "modified");
        let out = get(&hub, "plant/bob:correct horse", "/orgs/plant").await.0 == 401;
        (reported && out).then_some(())
    })
    .await;
    assert_eq!(
        get(&hub, ada, "/orgs/plant/nodes/edge-3").await.1["nodes"]["plant/edge-3"]["name"],
        "renamed there"
    );
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn other_sources_are_refused_with_a_reason() {
    let case = Case::new().await;
    case.at_source("UPDATE schema SET schemaversion = 61").await;
    let (status, _, errors) = case.import(&[]).await;
    assert_eq!(status, 10, "{errors}");
    assert!(errors.contains("schema level 62") && errors.contains("it is at level 61"), "{errors}");
    case.at_source("DROP TABLE schema").await;
    let (status, _, errors) = case.import(&[]).await;
    assert_eq!(status, 10, "{errors}");
    assert!(errors.contains("it has no table public.schema"), "{errors}");
    must(
        std::fs::write(case.scratch.join("from"), "postgres://x:hidden-secret@127.0.0.1:1/none"),
        "the file",
    );
    let (status, output, errors) = case.import(&[]).await;
    assert_eq!(status, 5, "{errors}");
    assert!(!errors.contains("hidden-secret") && !output.contains("hidden-secret"), "{errors}");
    assert_eq!(case.count("organization").await, 0);
}

#[tokio::test]
async fn nothing_is_imported_when_a_table_fails() {
    let case = Case::new().await;
    case.at_source("ALTER TABLE services RENAME COLUMN imagestore TO elsewhere").await;
    let (status, _, errors) = case.import(&[]).await;
    assert_eq!(status, 10, "{errors}");
    assert!(errors.contains("imagestore"), "{errors}");
    assert_eq!((case.count("organization").await, case.count("node").await), (0, 0));
}
