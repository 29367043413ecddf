//! Tasks of nodes: published by the agbot that serves the policy, reported by the node.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;

const OWNER: &str = "o/u:pu";
const NODE: &str = "o/n:token-n";
const AGBOT: &str = "o/b:t";
const TASKS: &str = "/orgs/o/nodes/n/tasks";
const TASK: &str = "/orgs/o/nodes/n/tasks/t1";
const STATUS: &str = "/orgs/o/nodes/n/tasks/t1/status";

async fn start() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node(OWNER, "o", "n").await;
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, OWNER, "PUT", "/orgs/o/agbots/b", agbot).await;
    api.expect(201, ROOT, "PUT", "/orgs/o/agbots/b/approval", Value::Null).await;
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    api.expect(201, OWNER, "POST", "/orgs/o/agbots/b/businesspols", entry).await;
    let agreement =
        json!({"service": {"orgid": "o", "pattern": "", "url": "web"}, "state": "Formed Proposal"});
    api.expect(201, AGBOT, "PUT", "/orgs/o/agbots/b/agreements/a1?node=o/n", agreement).await;
    for _ in 0..9 {
        api.expect(201, AGBOT, "POST", "/orgs/o/agbots/b/fencing", json!({})).await;
    }
    (database, api)
}

fn wanted(desired: &str, fencing: i64) -> Value {
    json!({"policy": "o/web", "unit": "all", "slot": 1, "specVersion": 3, "desiredState": desired,
           "agreementId": "a1", "fencing": fencing})
}

fn report(state: &str, seq: i64) -> Value {
    json!({"state": state, "seq": seq, "at": "2026-03-01T08:20:30Z"})
}

async fn stored(api: &Api) -> Value {
    api.expect(200, NODE, "GET", TASKS, Value::Null).await["tasks"][0].clone()
}

/// The resources of the changes that a login sees.
async fn changes(api: &Api, login: &str, extensions: bool) -> Vec<String> {
    let mut body = json!({"changeId": 1, "maxRecords": 1000});
    if extensions {
        body["extensions"] = json!(true);
    }
    let found = api.expect(201, login, "POST", "/orgs/o/changes", body).await;
    let resources = found["changes"].as_array().into_iter().flatten();
    resources.filter_map(|change| change["resource"].as_str().map(str::to_owned)).collect()
}

/// B3-S1, B3-S2. Reports that are old or go back are refused with the stored state.
#[tokio::test]
async fn node_reports_states_that_only_grow() {
    let (_database, api) = start().await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    assert_eq!(stored(&api).await["state"], "assigned");
    api.expect(201, NODE, "PUT", STATUS, report("running", 4)).await;
    let late = api.expect(409, NODE, "PUT", STATUS, report("preparing", 3)).await;
    assert_eq!(
        (&late["code"], &late["state"], &late["seq"]),
        (&json!("conflict"), &json!("running"), &json!(4))
    );
    let back = api.expect(409, NODE, "PUT", STATUS, report("preparing", 5)).await;
    assert_eq!(back["state"], "running");
    let failed = json!({"state": "failed", "seq": 6, "at": "2026-03-01T08:20:30Z", "err": "web: exit code 3", "exitCode": 3,
                        "containers": [{"name": "web", "state": "exited"}]});
    api.expect(201, NODE, "PUT", STATUS, failed).await;
    let again = api.expect(409, NODE, "PUT", STATUS, report("running", 7)).await;
    assert_eq!((&again["state"], &again["seq"]), (&json!("failed"), &json!(6)));
    let task = stored(&api).await;
    assert_eq!((&task["err"], &task["exitCode"]), (&json!("web: exit code 3"), &json!(3)));
    assert_eq!(task["at"], "2026-03-01T08:20:30.000Z");
    assert_eq!((&task["taskId"], &task["unit"], &task["slot"]), (&json!("t1"), &json!("all"), &json!(1)));
    // A write of the agbot leaves the report unchanged.
    api.expect(201, AGBOT, "PUT", TASK, wanted("shutdown", 1)).await;
    assert_eq!(stored(&api).await["state"], "failed");
}

#[tokio::test]
async fn publication_is_idempotent_fenced_and_never_goes_back() {
    let (_database, api) = start().await;
    for _ in 0..2 {
        api.expect(201, AGBOT, "PUT", TASK, wanted("ready", 5)).await;
    }
    let published = changes(&api, NODE, true).await.iter().filter(|one| *one == "nodetasks").count();
    assert_eq!(published, 1, "changes of one resource are one entry");
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 6)).await;
    let old = api.expect(409, AGBOT, "PUT", TASK, wanted("shutdown", 5)).await;
    assert_eq!((&old["fencing"], &old["desiredState"]), (&json!(6), &json!("running")));
    api.expect(409, AGBOT, "PUT", TASK, wanted("ready", 6)).await;
    let mut other = wanted("running", 7);
    other["slot"] = json!(2);
    api.expect(409, AGBOT, "PUT", TASK, other).await;
    assert_eq!(stored(&api).await["desiredState"], "running");
    api.expect(409, AGBOT, "DELETE", &format!("{TASK}?fencing=5"), Value::Null).await;
    api.expect(204, AGBOT, "DELETE", &format!("{TASK}?fencing=6"), Value::Null).await;
    api.expect(404, AGBOT, "DELETE", &format!("{TASK}?fencing=6"), Value::Null).await;
    api.expect(404, NODE, "PUT", STATUS, report("running", 1)).await;
}

#[tokio::test]
async fn only_the_node_reports_and_only_agbots_that_serve_the_policy_publish() {
    let (_database, api) = start().await;
    api.make_node(OWNER, "o", "m").await;
    let agbot = json!({"token": "t", "name": "idle", "publicKey": "key"});
    api.expect(201, OWNER, "PUT", "/orgs/o/agbots/idle", agbot).await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    for login in ["o/idle:t", OWNER, "o/admin:pa", NODE] {
        api.expect(403, login, "PUT", TASK, wanted("shutdown", 2)).await;
        api.expect(403, login, "DELETE", TASK, Value::Null).await;
    }
    for login in [AGBOT, OWNER, "o/admin:pa", "o/m:token-m"] {
        api.expect(403, login, "PUT", STATUS, report("running", 1)).await;
    }
    // A task of another node is not there.
    let foreign = "/orgs/o/nodes/m/tasks/t1/status";
    api.expect(404, "o/m:token-m", "PUT", foreign, report("running", 1)).await;
    api.expect(404, AGBOT, "PUT", "/orgs/o/nodes/absent/tasks/t1", wanted("running", 1)).await;
    assert_eq!(stored(&api).await["desiredState"], "running");
}

/// A second approved agbot serves the same policy, and knows the tasks and agreements of the first one.
#[tokio::test]
async fn agbot_publishes_with_its_own_fencing_numbers_and_agreements_and_leaves_tasks_of_others() {
    const RIVAL: &str = "o/rival:t";
    let (_database, api) = start().await;
    let agbot = json!({"token": "t", "name": "rival", "publicKey": "key"});
    api.expect(201, OWNER, "PUT", "/orgs/o/agbots/rival", agbot).await;
    api.expect(201, ROOT, "PUT", "/orgs/o/agbots/rival/approval", Value::Null).await;
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    api.expect(201, OWNER, "POST", "/orgs/o/agbots/rival/businesspols", entry).await;
    let given = api.expect(201, RIVAL, "POST", "/orgs/o/agbots/rival/fencing", json!({})).await;
    let number = given["fencing"].as_i64().expect("a number");
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 5)).await;

    let ungiven = api.expect(403, AGBOT, "PUT", TASK, wanted("shutdown", i64::MAX - 1)).await;
    assert!(ungiven.to_string().contains("was not given to 'o/b'"), "{ungiven}");
    let mut unrecorded = wanted("running", 6);
    unrecorded["agreementId"] = json!("a2");
    let unrecorded = api.expect(403, AGBOT, "PUT", "/orgs/o/nodes/n/tasks/t2", unrecorded).await;
    assert!(unrecorded.to_string().contains("recorded no agreement 'a2'"), "{unrecorded}");
    let foreign = api.expect(403, RIVAL, "PUT", "/orgs/o/nodes/n/tasks/t2", wanted("shutdown", number)).await;
    assert!(foreign.to_string().contains("recorded no agreement 'a1'"), "{foreign}");
    for (method, path, body) in [
        ("PUT", TASK.to_owned(), wanted("shutdown", number)),
        ("DELETE", format!("{TASK}?fencing={number}"), Value::Null),
    ] {
        let refused = api.expect(403, RIVAL, method, &path, body).await;
        assert!(refused.to_string().contains("was published by agbot 'o/b'"), "{refused}");
    }
    assert_eq!(stored(&api).await["desiredState"], "running");
    assert_eq!(stored(&api).await["agbot"], "o/b");

    // Its tasks are left to nobody when it is deleted.
    api.expect(204, OWNER, "DELETE", "/orgs/o/agbots/b", Value::Null).await;
    api.expect(204, RIVAL, "DELETE", &format!("{TASK}?fencing={number}"), Value::Null).await;
}

/// 2-S3. Records that the reference does not have reach only callers that ask for them.
#[tokio::test]
async fn feed_shows_tasks_to_the_node_and_reports_to_agbots_that_ask_for_extensions() {
    let (_database, api) = start().await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    for (seq, state) in (1..).zip(["accepted", "preparing", "ready", "starting", "running", "failed"]) {
        api.expect(201, NODE, "PUT", STATUS, report(state, seq)).await;
    }
    for login in [NODE, AGBOT, OWNER, ROOT] {
        let seen = changes(&api, login, false).await;
        assert!(!seen.iter().any(|one| one == "nodetasks" || one == "taskstatus"), "{login}: {seen:?}");
    }
    let sees = async |login: &str, resource: &str| {
        changes(&api, login, true).await.iter().any(|one| one == resource)
    };
    assert!(sees(NODE, "nodetasks").await && !sees(NODE, "taskstatus").await);
    assert!(sees(AGBOT, "taskstatus").await && !sees(AGBOT, "nodetasks").await);
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let (_database, api) = start().await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    let with = |document: Value, name: &str, value: Value| {
        let mut document = document;
        document[name] = value;
        document
    };
    for (name, value) in [
        ("policy", json!("web")),
        ("policy", json!("")),
        ("unit", json!("")),
        ("desiredState", json!("failed")),
        ("specVersion", json!(-1)),
        ("fencing", json!(-1)),
        ("agreementId", json!("x".repeat(5000))),
        ("colour", json!("red")),
    ] {
        api.expect(400, AGBOT, "PUT", TASK, with(wanted("running", 1), name, value)).await;
    }
    for (name, value) in [
        ("state", json!("assigned")),
        ("state", json!("orphaned")),
        ("seq", json!(0)),
        ("at", json!("soon")),
        ("err", json!("x".repeat(4097))),
        ("containers", json!({})),
        ("colour", json!("red")),
    ] {
        api.expect(400, NODE, "PUT", STATUS, with(report("running", 1), name, value)).await;
    }
    assert_eq!(stored(&api).await["seq"], 0);
}

#[tokio::test]
async fn reports_of_a_node_are_limited_and_its_tasks_end_with_it() {
    let (_database, api) = start().await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    api.expect(201, NODE, "PUT", STATUS, report("running", 1)).await;
    let mut refused = 0;
    for _ in 0..1200 {
        match api.call(NODE, "PUT", STATUS, report("running", 1)).await.0 {
            409 => {}
            429 => refused += 1,
            other => panic!("status {other}"),
        }
    }
    assert!(refused > 0, "a node that reports without end is slowed down");
    api.expect(204, OWNER, "DELETE", "/orgs/o/nodes/n", Value::Null).await;
    api.make_node(OWNER, "o", "n").await;
    let left = api.expect(200, NODE, "GET", TASKS, Value::Null).await;
    assert_eq!(left, json!({"tasks": [], "commands": []}));
}

/// 1.2: mode and kind of scope change only while no node has a live task of the policy; everything else changes at any time.
#[tokio::test]
async fn mode_of_a_policy_changes_only_while_it_has_no_live_task() {
    let (_database, api) = start().await;
    let service = json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
                         "deployment": "{}", "deploymentSignature": "x"});
    api.expect(201, OWNER, "POST", "/orgs/o/services", service).await;
    const POLICY: &str = "/orgs/o/business/policies/web";
    let policy = |orchestration: Value| {
        json!({"label": "web", "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
               "orchestration": orchestration})
    };
    let replicated = |count: u32| json!({"mode": "replicated", "replicas": count});
    let flex = json!({"mode": "flex", "orchestrate": "ha"});
    api.expect(201, OWNER, "POST", POLICY, policy(replicated(2))).await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    api.expect(201, OWNER, "PUT", POLICY, policy(replicated(3))).await;
    let refused = api.expect(409, OWNER, "PUT", POLICY, policy(flex.clone())).await;
    assert_eq!(refused["code"], "conflict", "{refused}");
    assert!(
        refused["msg"].as_str().is_some_and(|text| text.starts_with("mode change needs delete and create"))
    );
    let scope = json!({"mode": "replicated", "replicas": 3, "scope": {"type": "nodes", "nodes": ["n"]}});
    api.expect(409, OWNER, "PATCH", POLICY, json!({"orchestration": scope})).await;
    let stored = api.expect(200, OWNER, "GET", POLICY, Value::Null).await;
    assert_eq!(stored["businessPolicy"]["o/web"]["orchestration"], replicated(3));
    // An ended task is no obstacle.
    api.expect(201, NODE, "PUT", STATUS, report("failed", 1)).await;
    api.expect(201, OWNER, "PUT", POLICY, policy(flex)).await;
}

/// C6: actions that only an agent which reads tasks carries out are refused while all members have other agents.
#[tokio::test]
async fn health_policy_needs_an_agent_that_can_carry_it_out() {
    let (_database, api) = start().await;
    let service = json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
                         "deployment": "{}", "deploymentSignature": "x"});
    api.expect(201, OWNER, "POST", "/orgs/o/services", service).await;
    const POLICY: &str = "/orgs/o/business/policies/web";
    let policy = |action: &str| {
        let health = json!({"detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING"}]},
                            "recovery": {"actions": [{"name": action}]}});
        json!({"label": "web", "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
               "orchestration": {"mode": "replicated", "replicas": 1, "healthPolicy": health}})
    };
    api.expect(201, OWNER, "POST", POLICY, policy("REBUILD")).await;
    api.expect(201, AGBOT, "PUT", TASK, wanted("running", 1)).await;
    let refused = api.expect(400, OWNER, "PUT", POLICY, policy("REBUILD")).await;
    assert_eq!(
        refused["msg"],
        "orchestration.healthPolicy.recovery.actions must not be REBUILD: no agent of a member accepts commands"
    );
    let orchestration = policy("REBOOT")["orchestration"].clone();
    api.expect(400, OWNER, "PATCH", POLICY, json!({"orchestration": orchestration})).await;
    api.expect(201, OWNER, "PUT", POLICY, policy("RECREATE")).await;
    api.expect(201, NODE, "PATCH", "/orgs/o/nodes/n", json!({"softwareVersions": {"orchestration": "1"}}))
        .await;
    api.expect(201, OWNER, "PUT", POLICY, policy("REBUILD")).await;
}
