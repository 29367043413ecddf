//! Availability of a node for placement: set by users, shown only when it is not the default, kept when the
//! node registers again.

use http::Method;
use serde_json::{Value, json};

use super::api::{Api, ROOT};
use super::world::{ABROAD, CALLERS, Caller, HOME, OUTSIDERS, World};
use crate::support::TestDatabase;

const NODE: &str = "/orgs/o/nodes/n";
const SHOWN: &str = "/orgs/o/nodes/n/orchestration";
const SPEC: &str = "/orgs/o/nodes/n/orchestration/spec";
const OWNER: &str = "o/u:pu";
const ADMIN: &str = "o/admin:pa";

async fn start() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node(OWNER, "o", "n").await;
    (database, api)
}

fn availability(word: &str) -> Value {
    json!({"availability": word})
}

/// Returns the availability in the response of the exchange.
async fn asked(api: &Api) -> Value {
    api.expect(200, OWNER, "GET", SHOWN, Value::Null).await["spec"]["availability"].clone()
}

/// The member as each of the documents with whole nodes shows it.
async fn shown(api: &Api) -> [Option<Value>; 3] {
    let one = api.expect(200, OWNER, "GET", NODE, Value::Null).await;
    let all = api.expect(200, ADMIN, "GET", "/orgs/o/nodes", Value::Null).await;
    let details = api.expect(200, ADMIN, "GET", "/orgs/o/node-details", Value::Null).await;
    [&one["nodes"]["o/n"], &all["nodes"]["o/n"], &details[0]].map(|node| node.get("orchestration").cloned())
}

#[tokio::test]
async fn owner_and_administrators_say_it_and_an_active_node_shows_nothing_of_it() {
    let (_database, api) = start().await;
    assert_eq!(asked(&api).await, "active");
    assert_eq!(shown(&api).await, [None, None, None]);
    for (login, method, word) in [
        (OWNER, "PUT", "drain"),
        (ADMIN, "PATCH", "pause"),
        (ROOT, "PUT", "drain"),
        (OWNER, "PATCH", "active"),
    ] {
        let response = api.expect(201, login, method, SPEC, availability(word)).await;
        assert_eq!(response, json!({"code": "ok", "msg": format!("availability of node 'o/n' is {word}")}));
        assert_eq!(asked(&api).await, word);
        let expected = (word != "active").then(|| availability(word));
        assert_eq!(shown(&api).await, [(); 3].map(|()| expected.clone()));
    }
    // The node itself and agbots read it.
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, OWNER, "PUT", "/orgs/o/agbots/b", agbot).await;
    for login in ["o/n:token-n", "o/b:t"] {
        api.expect(200, login, "GET", SHOWN, Value::Null).await;
    }
}

/// A12: a node is frozen and thawed by itself, by its actions, and together with its availability.
#[tokio::test]
async fn node_is_frozen_and_thawed() {
    let (_database, api) = start().await;
    let spec = async || api.expect(200, OWNER, "GET", SHOWN, Value::Null).await["spec"].clone();
    let act = async |action: &str| {
        api.expect(201, OWNER, "POST", &format!("/orgs/o/nodes/n/actions/{action}"), Value::Null).await["msg"]
            .clone()
    };
    assert_eq!(act("freeze").await, "node 'o/n' is frozen");
    assert_eq!(spec().await, json!({"availability": "active", "frozen": true}));
    assert_eq!(act("drain").await, "availability of node 'o/n' is drain");
    assert_eq!(spec().await, json!({"availability": "drain", "frozen": true}));
    assert_eq!(shown(&api).await, [(); 3].map(|()| Some(json!({"availability": "drain", "frozen": true}))));
    assert_eq!(act("thaw").await, "node 'o/n' is not frozen");
    act("pause").await;
    assert_eq!(spec().await, json!({"availability": "pause"}));
    let both = json!({"availability": "active", "frozen": true});
    let response = api.expect(201, ADMIN, "PUT", SPEC, both.clone()).await;
    assert_eq!(response["msg"], "availability of node 'o/n' is active; node 'o/n' is frozen");
    api.expect(201, OWNER, "PATCH", SPEC, json!({"frozen": false})).await;
    assert_eq!(shown(&api).await, [None, None, None]);
    api.expect(201, OWNER, "PUT", SPEC, both).await;
    api.expect(201, OWNER, "PUT", SPEC, availability("active")).await;
    assert_eq!(spec().await, json!({"availability": "active"}), "PUT replaces all of it");
    api.expect(404, OWNER, "POST", "/orgs/o/nodes/other/actions/freeze", Value::Null).await;
}

#[tokio::test]
async fn everybody_else_is_refused_and_nothing_changes() {
    let mut world = World::new().await;
    let path = format!("/orgs/{HOME}/nodes/n1/orchestration/spec");
    let refused = ["hub", "user", "node", "node2", "agbot", "multi", "abroad"];
    let callers = CALLERS.into_iter().filter(|caller| refused.contains(&caller.title)).chain(OUTSIDERS);
    for caller in callers {
        for method in [Method::PUT, Method::PATCH] {
            let (status, response) = world.call(caller, &method, &path, Some(&availability("drain"))).await;
            assert_eq!(status.as_u16(), 403, "{method} as {}: {response:?}", caller.title);
        }
    }
    let nobody = Caller { title: "nobody", login: None };
    assert_eq!(world.call(nobody, &Method::PUT, &path, Some(&availability("drain"))).await.0.as_u16(), 401);
    world.must_be_untouched("who may not").await;
    // Not even the existence of such a node is revealed to other organizations.
    for (node, status) in [("n1", 403), ("no-such-node", 404)] {
        let path = format!("/orgs/{HOME}/nodes/{node}/orchestration");
        let admin = OUTSIDERS[0];
        assert_eq!(admin.login, Some("globex/anna"), "an administrator of {ABROAD}");
        assert_eq!(world.call(admin, &Method::GET, &path, None).await.0.as_u16(), status, "{node}");
    }
}

/// D6: domains are shown with the node, stay when something else changes, and are removed by `null` or by a whole spec without them.
#[tokio::test]
async fn domains_of_a_node_are_set_kept_and_removed() {
    let (_database, api) = start().await;
    let domains = json!({"faultDomain": "fd:/plant7/rack2", "upgradeDomain": "UD3"});
    api.expect(201, OWNER, "PATCH", SPEC, domains.clone()).await;
    api.expect(201, OWNER, "PATCH", SPEC, availability("pause")).await;
    let spec = async || api.expect(200, OWNER, "GET", SHOWN, Value::Null).await["spec"].clone();
    let mut expected = availability("pause");
    expected.as_object_mut().unwrap().extend(domains.as_object().unwrap().clone());
    let shown = spec().await;
    assert_eq!(
        (&shown["faultDomain"], &shown["upgradeDomain"]),
        (&expected["faultDomain"], &expected["upgradeDomain"])
    );
    assert_eq!(shown["availability"], "pause");
    api.expect(201, OWNER, "PATCH", SPEC, json!({"faultDomain": null})).await;
    assert_eq!(
        (spec().await["faultDomain"].clone(), spec().await["upgradeDomain"].clone()),
        (Value::Null, json!("UD3"))
    );
    api.expect(201, OWNER, "PUT", SPEC, availability("active")).await;
    assert_eq!(spec().await["upgradeDomain"], Value::Null);
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_name_and_changes_nothing() {
    let (_database, api) = start().await;
    api.expect(201, OWNER, "PUT", SPEC, availability("pause")).await;
    for (body, rule) in [
        (json!({}), "must be given"),
        (json!({"availability": null}), "must be given"),
        (json!({"availability": "drained"}), "availability must be active, pause or drain"),
        (json!({"availability": "drain", "frozen": "yes"}), "frozen must be true or false"),
        (json!({"availability": "drain", "faultDomain": "rack2"}), "faultDomain must be fd: followed by"),
        (json!({"availability": "drain", "faultDomain": "fd:"}), "faultDomain must be fd: followed by"),
        (json!({"availability": "drain", "faultDomain": "/a".repeat(300)}), "must not be longer than 512"),
        (json!({"availability": "drain", "upgradeDomain": "a b"}), "upgradeDomain must be 1 to 64 letters"),
        (
            json!({"availability": "drain", "capacities": {"memoryMb": -1}}),
            "capacities.memoryMb must be a number from 0 to 1000000000000",
        ),
        (json!({"availabilty": "drain"}), "availabilty is not known; availability was probably meant"),
    ] {
        for method in ["PUT", "PATCH"] {
            let refused = api.expect(400, OWNER, method, SPEC, body.clone()).await;
            assert_eq!(refused["code"], "invalid-input");
            assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
        }
    }
    assert_eq!(asked(&api).await, "pause");
    for login in [OWNER, ADMIN, ROOT] {
        let spec = "/orgs/o/nodes/other/orchestration/spec";
        let absent = api.expect(404, login, "PUT", spec, availability("drain")).await;
        assert_eq!(absent, json!({"code": "not-found", "msg": "node 'o/other' not found"}));
        api.expect(404, login, "GET", "/orgs/o/nodes/other/orchestration", Value::Null).await;
    }
}

#[tokio::test]
async fn feed_and_the_audit_record_contain_it() {
    let (_database, api) = start().await;
    let newest = api.expect(200, ADMIN, "GET", "/changes/maxchangeid", Value::Null).await;
    let first = newest["maxChangeId"].as_i64().expect("a number") + 1;
    api.expect(201, OWNER, "PUT", SPEC, availability("drain")).await;
    let asked = json!({"changeId": first, "maxRecords": 100});
    let reported = api.expect(201, ADMIN, "POST", "/orgs/o/changes", asked).await;
    let changes = reported["changes"].as_array().expect("a list");
    let of_node: Vec<&Value> = changes.iter().filter(|change| change["id"] == "n").collect();
    assert_eq!(of_node.len(), 1, "{reported}");
    assert_eq!((&of_node[0]["resource"], &of_node[0]["operation"]), (&json!("node"), &json!("modified")));
    assert_eq!(of_node[0]["resourceChanges"].as_array().map(Vec::len), Some(1));

    api.expect(201, ADMIN, "PATCH", SPEC, availability("active")).await;
    let audit = format!("/orgs/o/audit?resource={SPEC}");
    let records = api.expect(200, ADMIN, "GET", &audit, Value::Null).await["records"].clone();
    let [drained, activated] = records.as_array().map(Vec::as_slice).unwrap_or_default() else {
        panic!("two records: {records}")
    };
    assert_eq!(
        (&drained["operation"], &drained["caller"]),
        (&json!("replace_node_orchestration"), &json!("o/u"))
    );
    assert_eq!(
        (&activated["operation"], &activated["caller"]),
        (&json!("patch_node_orchestration"), &json!("o/admin"))
    );
    assert_eq!(drained["before"].as_str().map(str::len), Some(64));
    assert_ne!(drained["after"], drained["before"]);
    assert_eq!((&activated["before"], &activated["after"]), (&drained["after"], &drained["before"]));
}

#[tokio::test]
async fn node_that_registers_again_keeps_it_and_a_new_node_of_the_name_is_active() {
    let (_database, api) = start().await;
    api.expect(201, OWNER, "PUT", SPEC, availability("drain")).await;
    let body =
        json!({"token": "token-n", "name": "again", "pattern": "", "publicKey": "key", "arch": "amd64"});
    api.expect(201, "o/n:token-n", "PUT", NODE, body).await;
    api.expect(201, "o/n:token-n", "PATCH", NODE, json!({"arch": "arm64"})).await;
    assert_eq!(asked(&api).await, "drain");
    assert_eq!(shown(&api).await, [(); 3].map(|()| Some(availability("drain"))));
    // A node has no such member of its own.
    let body = json!({"name": "n", "orchestration": availability("active")});
    api.expect(400, OWNER, "PUT", NODE, body).await;
    api.expect(204, OWNER, "DELETE", NODE, Value::Null).await;
    api.make_node(OWNER, "o", "n").await;
    assert_eq!(asked(&api).await, "active");
    assert_eq!(shown(&api).await, [None, None, None]);
}
