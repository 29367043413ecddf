//! Every shipped alert rule, fired by what it is about on a running hub: its expression is evaluated against the hub's own metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use evenkeel_http_server::tls::Authority;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::support::fleet::Fleet;
use crate::support::promql::{Scrape, evaluate};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

/// Fired by a database that does not finish statements.
const OF_DATABASE: [&str; 6] = [
    "EvenkeelDatabaseBusy",
    "EvenkeelServerErrors",
    "EvenkeelSlowRequests",
    "EvenkeelWorkerFailing",
    "EvenkeelWorkerStuck",
    "EvenkeelHubDown",
];
/// Fired by what waits for a long time, and by what cannot be read.
const OF_QUEUES: [&str; 3] = ["EvenkeelOutboxStuck", "EvenkeelMailboxStuck", "EvenkeelOrganizationUnread"];
/// Fired by the process and its callers.
const OF_PROCESS: [&str; 6] = [
    "EvenkeelCertificateExpires",
    "EvenkeelCertificateExpiresSoon",
    "EvenkeelFilesRunningOut",
    "EvenkeelFailedLogins",
    "EvenkeelInertPolicies",
    "EvenkeelDroppedMessages",
];
/// Fired by nodes and their instances.
const OF_FLEET: [&str; 5] = [
    "EvenkeelInstancesUnplaced",
    "EvenkeelUpdatePaused",
    "EvenkeelWorkloadErrors",
    "EvenkeelNodeDown",
    "EvenkeelNodesDown",
];

/// A scrape is a request too: many of them would hide the failed ones in a share of all requests.
const BETWEEN_SCRAPES: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Rule {
    expression: String,
    severity: String,
}

fn rules() -> BTreeMap<String, Rule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring/alerts.yml");
    let text = must(std::fs::read_to_string(path), "the rules");
    let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(alert) = line.strip_prefix("- alert: ") {
            alert.clone_into(&mut name);
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            expression.clone_into(&mut rules.entry(name.clone()).or_default().expression);
        } else if let Some(severity) = line.strip_prefix("severity: ") {
            severity.clone_into(&mut rules.entry(name.clone()).or_default().severity);
        }
    }
    rules
}

/// The rules that fire, with the scrapes of a window.
fn firing(scrapes: &[Scrape]) -> BTreeSet<String> {
    let rules = rules().into_iter();
    rules.filter(|(_, rule)| !evaluate(&rule.expression, scrapes).is_empty()).map(|(name, _)| name).collect()
}

/// Waits until a rule fires in the window that began with `first`; returns all that fire then, and the scrape.
async fn fires(hub: &Hub, first: &Scrape, name: &str) -> (BTreeSet<String>, Scrape) {
    eventually(name, || async {
        let scrape = Scrape::of(hub).await;
        let firing = firing(&[first.clone(), scrape.clone()]);
        let fired = firing.contains(name);
        if !fired {
            tokio::time::sleep(BETWEEN_SCRAPES).await;
        }
        fired.then_some((firing, scrape))
    })
    .await
}

async fn created(hub: &Hub, method: &str, path: &str, body: Value) {
    let (status, found) = hub.call(method, path, Some(body)).await;
    assert_eq!(status, 201, "{path}: {found}");
}

async fn execute(connection: &mut PgConnection, statement: &str) {
    must(sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await, statement);
}

fn service(name: &str) -> Value {
    json!({
        "label": name, "url": name, "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
        "deployment": r#"{"services":{"s":{"image":"x"}}}"#, "deploymentSignature": "x",
    })
}

fn node(name: &str) -> Value {
    json!({"token": "secret-n", "name": name, "pattern": "", "publicKey": "key", "arch": "amd64"})
}

#[test]
fn every_rule_is_fired_by_a_test_and_has_a_severity() {
    let tested = [&OF_DATABASE[..], &OF_QUEUES, &OF_PROCESS, &OF_FLEET].concat();
    let rules = rules();
    assert_eq!(rules.keys().map(String::as_str).collect::<BTreeSet<_>>(), tested.into_iter().collect());
    for (name, rule) in rules {
        assert!(["critical", "warning"].contains(&rule.severity.as_str()), "{name}: {}", rule.severity);
    }
}

#[tokio::test]
async fn database_that_does_not_finish_statements_fires_the_rules_about_it() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let options = ["--database-url", database.url(), "--database-connections", "4"];
    let mut hub = Hub::start(&scratch, &options).await;
    created(&hub, "POST", "/orgs/o", json!({"label": "o", "description": "o"})).await;
    // A loaded machine may be slow, and what starts waits for connections.
    let first = eventually("all is well", || async {
        let first = Scrape::of(&hub).await;
        let quiet = firing(&[first.clone(), Scrape::of(&hub).await]);
        let mut of_database = OF_DATABASE.iter().filter(|name| **name != "EvenkeelSlowRequests");
        of_database.all(|name| !quiet.contains(*name)).then_some(first)
    })
    .await;

    let mut holder = database.connection().await;
    execute(&mut holder, "BEGIN; LOCK TABLE node IN ACCESS EXCLUSIVE MODE").await;
    let requests = async {
        let requests = std::iter::repeat_with(|| hub.call("GET", "/orgs/o/nodes", None)).take(12);
        futures_util::future::join_all(requests).await
    };
    let watched = async {
        fires(&hub, &first, "EvenkeelDatabaseBusy").await;
        fires(&hub, &first, "EvenkeelServerErrors").await;
        let (_, scrape) = fires(&hub, &first, "EvenkeelWorkerFailing").await;
        let now = firing(std::slice::from_ref(&scrape));
        assert!(!now.contains("EvenkeelWorkerStuck"), "it fails, and not for hours");
        let later = firing(&[scrape.seen_after(7300.0)]);
        assert!(later.contains("EvenkeelWorkerStuck"), "no pass has ended since: {later:?}");
        execute(&mut holder, "ROLLBACK").await;
    };
    let (responses, ()) = tokio::join!(requests, watched);
    assert!(responses.iter().any(|(status, _)| *status == 503), "some gave up: {responses:?}");
    fires(&hub, &first, "EvenkeelSlowRequests").await;
    hub.program.kill().await;
    assert!(firing(&[Scrape::of(&hub).await]).contains("EvenkeelHubDown"));
}

#[tokio::test]
async fn work_that_waits_for_minutes_fires_the_rules_about_queues() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let hub = Hub::start(&scratch, &["--database-url", database.url()]).await;
    created(&hub, "POST", "/orgs/o", json!({"label": "o", "description": "o"})).await;
    let first = Scrape::of(&hub).await;
    let mut connection = database.connection().await;
    // It belongs to a partition that no agbot holds, so it is not delivered.
    execute(
        &mut connection,
        "INSERT INTO agbot_outbox (partition_number, node, subject, effect, created_at)
         VALUES (-1, 'o/n', 's', '{}', now() - interval '10 minutes')",
    )
    .await;
    fires(&hub, &first, OF_QUEUES[0]).await;

    // A message that was sent a while ago, and that cannot be deleted after it was handled.
    let message = "BEGIN; LOCK TABLE agbot_message IN SHARE ROW EXCLUSIVE MODE;
        INSERT INTO agbot_message (org, agbot, node_org, node, public_key, message, sent_at, expires_at)
        VALUES ('IBM', 'evenkeel', 'o', 'n', '', 'x', now() - interval '10 minutes', now() + interval '1 hour')";
    execute(&mut connection, message).await;
    let mut holder = database.connection().await;
    let lock = execute(&mut holder, "BEGIN; LOCK TABLE agbot_message IN SHARE MODE");
    let commit = async {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'agbot_message'::regclass";
        loop {
            let count: (i64,) = must(
                sqlx::query_as(waiting).fetch_one(&mut connection).await,
                "the locks that are waited for",
            );
            if count.0 > 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        execute(&mut connection, "COMMIT").await;
    };
    tokio::join!(lock, commit);
    fires(&hub, &first, OF_QUEUES[1]).await;
    execute(&mut holder, "ROLLBACK").await;

    // A group in a form that no version has written. What the agbot serves has changed, so it reads everything.
    created(&hub, "POST", "/orgs/o/hagroups/g", json!({"members": []})).await;
    execute(&mut connection, r#"UPDATE ha_group SET orchestration = '{"maxUnavailable": "many"}'"#).await;
    let entry = json!({"businessPolOrgid": "o", "businessPol": "p", "nodeOrgid": "o"});
    created(&hub, "POST", "/orgs/IBM/agbots/evenkeel/businesspols", entry).await;
    fires(&hub, &first, OF_QUEUES[2]).await;
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn process_and_callers_fire_the_rules_about_them() {
    let scratch = Scratch::new();
    // In the directory where the support code looks for what to trust.
    let authority = Authority::new(scratch.join("hub/tls"));
    let names = vec!["127.0.0.1".to_owned()];
    let long_ago = must(Timestamp::now().checked_sub(SignedDuration::from_hours(24 * 395)), "an instant");
    must(authority.certify(&names, long_ago), "a certificate for two more days");
    let (certificate, key) = (scratch.join("hub/tls/server.pem"), scratch.join("hub/tls/server-key.pem"));
    let (certificate, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let hub = Hub::start(&scratch, &["--tls-cert-file", &certificate, "--tls-key-file", &key]).await;
    created(&hub, "POST", "/orgs/o", json!({"label": "o", "description": "o"})).await;
    created(&hub, "POST", "/orgs/o/services", service("s")).await;
    created(&hub, "PUT", "/orgs/o/nodes/n", node("n")).await;
    let first = Scrape::of(&hub).await;
    let expired: BTreeSet<String> = OF_PROCESS[..2].iter().map(|name| (*name).to_owned()).collect();
    let begin = firing(&[first.clone(), Scrape::of(&hub).await]);
    let of_process = OF_PROCESS.iter().map(|name| (*name).to_owned());
    assert_eq!(
        of_process.filter(|name| begin.contains(name)).collect::<BTreeSet<_>>(),
        expired,
        "nothing else"
    );

    let policy = json!({
        "label": "p", "constraints": ["camera = = true"],
        "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
    });
    created(&hub, "POST", "/orgs/o/business/policies/p", policy).await;
    fires(&hub, &first, "EvenkeelInertPolicies").await;

    let message = json!({"message": "neither sealed nor signed", "ttl": 60});
    let (status, body) =
        hub.call_as(("o/n", "secret-n"), "POST", "/orgs/IBM/agbots/evenkeel/msgs", Some(message)).await;
    assert_eq!(status, 201, "{body}");
    fires(&hub, &first, "EvenkeelDroppedMessages").await;

    // Several in each second of the window.
    let begin = Scrape::of(&hub).await;
    for _ in 0..4 {
        let logins = (0..20).map(|number| {
            let name = format!("o/nobody-{number}");
            let hub = &hub;
            async move { hub.call_as((&name, "wrong"), "GET", "/orgs/o", None).await.0 }
        });
        let statuses = futures_util::future::join_all(logins).await;
        assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    }
    let firing_now = firing(&[begin, Scrape::of(&hub).await]);
    assert!(firing_now.contains("EvenkeelFailedLogins"), "{firing_now:?}");

    let open = must(std::fs::read_dir(format!("/proc/{}/fd", hub.program.id())), "the open files").count();
    let limit = format!("--nofile={}", open + open / 10);
    let limited = Command::new("prlimit").args(["--pid", &hub.program.id().to_string(), &limit]).status();
    assert!(must(limited, "prlimit").success());
    fires(&hub, &first, "EvenkeelFilesRunningOut").await;
}

#[tokio::test]
async fn nodes_and_instances_fire_the_rules_about_them() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1", "--node-down-after-secs", "15"]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let first = Scrape::of(&hub).await;
    let settings = |replicas: u32| {
        json!({"orchestration": {
            "mode": "replicated", "replicas": replicas, "restart": {"delaySeconds": 0},
            "update": {"monitorSeconds": 1, "failureAction": "pause"},
        }})
    };
    fleet.want_with(&hub, "1.0.0", settings(2)).await;
    eventually("both run", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let quiet = firing(&[first.clone(), Scrape::of(&hub).await]);
    assert!(OF_FLEET.iter().all(|name| !quiet.contains(*name)), "all is well: {quiet:?}");
    fleet.want_with(&hub, "1.0.0", settings(3)).await;
    fires(&hub, &first, "EvenkeelInstancesUnplaced").await;
    fleet.want_with(&hub, "1.0.0", settings(2)).await;
    fleet.publish_broken(&hub, "2.0.0").await;
    fleet.want_with(&hub, "2.0.0", settings(2)).await;
    let (paused, _) = fires(&hub, &first, "EvenkeelUpdatePaused").await;
    assert!(!paused.contains("EvenkeelNodeDown"), "{paused:?}");

    // Another policy, without `orchestration`, whose instances end again and again.
    let deployment = json!({"services": {"watch": {"command": ["/bin/sh", "-c", "exit 7"]}}}).to_string();
    fleet.publish_service(&hub, "ending", "1.0.0", &deployment, json!({})).await;
    let policy = json!({
        "label": "ending", "constraints": ["openhorizon.hagroup == g"],
        "service": {"name": "ending", "org": "o", "arch": crate::support::fleet::arch(),
            "serviceVersions": [{"version": "1.0.0"}]},
    });
    created(&hub, "POST", "/orgs/o/business/policies/ending", policy).await;
    fires(&hub, &first, "EvenkeelWorkloadErrors").await;
    let status = eventually("the status shows the exits", || async {
        let path = "/orgs/o/business/policies/ending/orchestration";
        let (_, body) = hub.call("GET", path, None).await;
        body["warnings"][0].as_str().is_some_and(|text| text.contains("keep exiting")).then_some(body)
    })
    .await;
    assert_eq!((&status["overall"], &status["units"][0]["up"]), (&json!("warn"), &json!(0)), "{status}");
    assert!(status["warnings"][0].as_str().is_some_and(|text| text.contains("exit code 7")), "{status}");

    for index in 0..2 {
        fleet.agent(index).kill().await;
    }
    let (firing, _) = fires(&hub, &first, "EvenkeelNodeDown").await;
    assert!(firing.contains("EvenkeelNodesDown"), "one of two is more than a tenth: {firing:?}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
