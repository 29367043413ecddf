//! Changes of documents: revisions, the plan of a change, and the write that is made only while its plan holds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::browser::{Browser, Page};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const REVISIONS: &str = "/console/orgs/o/documents/policies/everywhere";
const CHANGE: &str = "/console/orgs/o/documents/policies/everywhere/change";
const POLICY: &str = "/orgs/o/business/policies/everywhere";

async fn make_user(hub: &Hub, name: &str, more: Value) -> Browser {
    let mut body = json!({"password": "secret", "email": "e"});
    let Value::Object(more) = more else { panic!("no object: {more}") };
    body.as_object_mut().expect("an object").extend(more);
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, "o", name, "secret").await
}

/// A hub with a policy that has two revisions. Its nodes have no agents, so that nothing changes by itself.
async fn hub_with_versions(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    let create = async |method: &str, path: &str, body: Value| {
        let (status, response) = hub.call(method, path, Some(body)).await;
        assert_eq!(status, 201, "{path}: {response}");
    };
    create("POST", "/orgs/o", json!({"label": "", "description": ""})).await;
    for name in ["edge-1", "edge-2"] {
        let node =
            json!({"token": "secret-n", "name": name, "pattern": "", "publicKey": "", "arch": "amd64"});
        create("PUT", &format!("/orgs/o/nodes/{name}"), node).await;
    }
    create("POST", "/orgs/o/hagroups/g", json!({"description": "d", "members": ["edge-1", "edge-2"]})).await;
    for (version, method) in [("1.0.0", "POST"), ("2.0.0", "PUT")] {
        let service = json!({"label": version, "url": "watch", "version": version, "arch": "amd64",
            "sharable": "multiple", "deployment": "", "deploymentSignature": ""});
        create("POST", "/orgs/o/services", service).await;
        let deployed =
            json!({"name": "watch", "org": "o", "arch": "amd64", "serviceVersions": [{"version": version}]});
        let policy = json!({"label": "everywhere", "service": deployed, "orchestration": {"mode": "global"},
            "constraints": ["openhorizon.hagroup == g"]});
        create(method, POLICY, policy).await;
    }
    eventually("the agbot plans the policy", async || {
        (hub.call("POST", &format!("{POLICY}/plan"), None).await.0 == 200).then_some(())
    })
    .await;
    hub
}

/// Sends the form of a change with these fields.
async fn send(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> Page {
    browser.send(path, &fields.iter().copied().collect::<BTreeMap<_, _>>()).await
}

async fn version(hub: &Hub) -> Value {
    let found = hub.call("GET", POLICY, None).await.1;
    found["businessPolicy"]["o/everywhere"]["service"]["serviceVersions"][0]["version"].clone()
}

#[tokio::test]
async fn policy_is_undone_to_a_revision_while_its_plan_holds() {
    let scratch = Scratch::new();
    let hub = hub_with_versions(&scratch).await;
    let mut admin = make_user(&hub, "admin", json!({"admin": true})).await;

    let page = admin.get("/console/orgs/o/policies/everywhere").await;
    for address in [REVISIONS, CHANGE] {
        assert!(page.addresses().contains(&address.to_owned()), "{address}: {}", page.text);
    }
    let page = admin.get(REVISIONS).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for text in ["root/root", "created", "changed"] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let compare = format!("{REVISIONS}/compare?from=1&to=2");
    let undo = format!("{CHANGE}?revision=1");
    for address in [&compare, &undo, &format!("{REVISIONS}/revisions/1")] {
        assert!(page.addresses().contains(address), "{address}: {:?}", page.addresses());
    }
    let page = admin.get(&compare).await;
    for line in ["class=\"removed\">-", "&#34;version&#34;: &#34;1.0.0&#34;", "class=\"added\">+"] {
        assert!(page.text.contains(line), "{line}: {}", page.text);
    }
    assert!(page.text.contains("Removed lines: 1; added lines: 1."), "nothing else differs: {}", page.text);

    let plan = admin.get(&undo).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    for text in
        ["hzn exchange deployment undo everywhere --to 1", "Removed lines: 1; added lines: 1.", "to create"]
    {
        assert!(plan.text.contains(text), "{text}: {}", plan.text);
    }
    assert_eq!(version(&hub).await, "2.0.0", "a plan changes nothing");
    let document = plan.area("document");
    let stale = [("document", document.as_str()), ("revision", "1"), ("step", "apply"), ("token", "0")];
    let page = send(&mut admin, CHANGE, &stale).await;
    assert!(page.text.contains("Nothing was done") && page.text.contains("role=\"alert\""), "{}", page.text);
    assert_eq!(version(&hub).await, "2.0.0");

    let reason = "ticket 4711: back to 1.0.0";
    let asked = [("document", document.as_str()), ("revision", "1"), ("step", "plan"), ("reason", reason)];
    let plan = send(&mut admin, CHANGE, &asked).await;
    let command = "undo everywhere --to 1 --reason &#39;ticket 4711: back to 1.0.0&#39;";
    assert!(plan.text.contains(command), "{}", plan.text);
    let token = plan.field("token");
    let (document, reason_field) = (plan.area("document"), plan.field("reason"));
    let apply = [
        ("document", document.as_str()),
        ("revision", "1"),
        ("step", "apply"),
        ("reason", reason_field.as_str()),
        ("token", token.as_str()),
    ];
    let page = send(&mut admin, CHANGE, &apply).await;
    assert_eq!(page.status, 303, "a page that is loaded again writes nothing again: {}", page.text);
    let page = admin.get(&page.location.expect("where it went")).await;
    for text in ["is written", "o/admin", reason] {
        assert!(page.status == 200 && page.text.contains(text), "{text}: {}", page.text);
    }
    assert_eq!(version(&hub).await, "1.0.0");
    assert!(admin.get(REVISIONS).await.text.contains(reason));
    let page = send(&mut admin, CHANGE, &apply).await;
    assert!(page.text.contains("Nothing was done"), "the plan is another one now: {}", page.text);
    let same = "disabled title=\"the document does not differ from the stored one\"";
    assert!(page.text.contains(same), "{}", page.text);

    // A policy that was removed is written again.
    assert_eq!(hub.call("DELETE", POLICY, None).await.0, 204);
    let page = admin.get(REVISIONS).await;
    assert!(page.text.contains("It does not exist now") && page.text.contains("removed"), "{}", page.text);
    let plan = eventually("the plan of the removed policy", async || {
        let page = Browser::of(&hub, "o", "admin", "secret").await.get(&format!("{CHANGE}?revision=2")).await;
        (page.status == 200 && page.text.contains("name=\"token\"")).then_some(page)
    })
    .await;
    let (document, token) = (plan.area("document"), plan.field("token"));
    let apply =
        [("document", document.as_str()), ("revision", "2"), ("step", "apply"), ("token", token.as_str())];
    let page = send(&mut admin, CHANGE, &apply).await;
    assert_eq!(page.status, 303, "{}", page.text);
    assert_eq!(version(&hub).await, "2.0.0");
}

#[tokio::test]
async fn refused_documents_are_kept_with_the_reason_beside_them() {
    let scratch = Scratch::new();
    let hub = hub_with_versions(&scratch).await;
    let mut admin = make_user(&hub, "admin", json!({"admin": true})).await;
    let stored = admin.get(CHANGE).await.area("document");
    let policy: Value = serde_json::from_str(&stored).expect("JSON");
    assert_eq!(policy["service"]["serviceVersions"][0]["version"], "2.0.0");
    assert!(policy.get("owner").is_none() && policy.get("lastUpdated").is_none(), "{policy}");
    let with = |change: fn(&mut Value)| {
        let mut policy = policy.clone();
        change(&mut policy);
        policy.to_string()
    };
    let hostile = "{\"label\": \"</textarea><script>alert(1)</script>\u{202e}\",\r\n\t}";
    for (document, status, message) in [
        (hostile.to_owned(), 400, "the document is not JSON"),
        ("[]".to_owned(), 400, "must be a JSON object"),
        (with(|policy| policy["colour"] = json!("red")), 400, "colour"),
        (with(|policy| policy["service"]["serviceVersions"][0]["version"] = json!("9.9.9")), 400, "9.9.9"),
        (with(|policy| policy["orchestration"] = json!({"mode": "sometimes"})), 400, "mode"),
        (
            with(|policy| policy["orchestration"] = json!({"mode": "replicated", "replicas": -1})),
            400,
            "replicas",
        ),
    ] {
        for step in ["plan", "apply"] {
            let page =
                send(&mut admin, CHANGE, &[("document", document.as_str()), ("step", step), ("token", "0")])
                    .await;
            assert_eq!(page.status, status, "{document}: {}", page.text);
            let (_, problem) = page.text.split_once("id=\"problem\"").expect("a message beside the document");
            assert!(problem.contains(message), "{message}: {}", page.text);
            assert!(!page.text.contains("<script>alert"), "{}", page.text);
            let kept = page.area("document").replace("    }", "\t}").replace("\\u202e", "\u{202e}");
            assert_eq!(kept, document.replace('\r', ""));
        }
    }
    let long = "x".repeat(1_001);
    let page = send(
        &mut admin,
        CHANGE,
        &[("document", stored.as_str()), ("step", "plan"), ("reason", long.as_str())],
    )
    .await;
    assert!(page.status == 400 && page.text.contains("reason: it has 1001 characters"), "{}", page.text);
    let large = format!("{{\"label\": \"{}\"}}", "x".repeat(300_000));
    let page = send(&mut admin, CHANGE, &[("document", large.as_str()), ("step", "plan")]).await;
    assert!(page.status == 400 && page.text.contains("and may have 262144"), "{}", page.status);
    let larger = "x".repeat(900_000);
    let page = send(&mut admin, CHANGE, &[("document", larger.as_str()), ("step", "plan")]).await;
    assert_eq!(page.status, 400);
    for (path, status) in [
        (format!("{CHANGE}?revision=99"), 404),
        (format!("{CHANGE}?revision=x"), 400),
        (format!("{CHANGE}?scale=-1"), 400),
        (format!("{CHANGE}?scale=3"), 400),
        (format!("{REVISIONS}/compare?from=1"), 400),
        (format!("{REVISIONS}/revisions/0"), 400),
        (format!("{REVISIONS}?after=x"), 400),
        ("/console/orgs/o/documents/sweets/x".to_owned(), 404),
        ("/console/orgs/o/documents/policies/none".to_owned(), 404),
    ] {
        assert_eq!(admin.get(&path).await.status, status, "{path}");
    }
    assert_eq!(version(&hub).await, "2.0.0", "nothing was written");
}

#[tokio::test]
async fn changes_follow_the_role_of_the_reader() {
    let scratch = Scratch::new();
    let hub = hub_with_versions(&scratch).await;
    let mut vera = make_user(&hub, "vera", json!({"role": "viewer"})).await;
    let mut dora = make_user(&hub, "dora", json!({"role": "deployer", "policies": ["every*"]})).await;
    let mut other = make_user(&hub, "other", json!({"role": "deployer", "policies": ["other"]})).await;
    let undo = format!("{CHANGE}?revision=1");
    for (reader, objection) in [
        (&mut vera, "your role viewer changes nothing"),
        (&mut other, "your role deployer changes the deployment policies other only"),
    ] {
        let page = reader.get(REVISIONS).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(page.text.contains(&format!("disabled title=\"{objection}\"")), "{}", page.text);
        assert!(!page.addresses().contains(&undo), "{}", page.text);
        // A plan shows nothing that they may not read, and is not applied.
        let plan = reader.get(&undo).await;
        assert!(plan.status == 200 && plan.text.contains(objection), "{}", plan.text);
        let document = plan.area("document");
        let mut page = plan;
        // While instances still start, the plan changes and is shown again.
        for _ in 0..20 {
            let token = page.field("token");
            let apply = [("document", document.as_str()), ("step", "apply"), ("token", token.as_str())];
            page = send(reader, CHANGE, &apply).await;
            if page.status != 200 {
                break;
            }
        }
        assert!(page.status == 403 && page.text.contains("id=\"problem\""), "{}", page.text);
        assert_eq!(page.area("document"), document, "what they wrote is kept");
    }
    assert_eq!(version(&hub).await, "2.0.0");
    let plan = dora.get(&undo).await;
    let (document, token) = (plan.area("document"), plan.field("token"));
    let apply = [("document", document.as_str()), ("step", "apply"), ("token", token.as_str())];
    assert_eq!(send(&mut dora, CHANGE, &apply).await.status, 303);
    assert_eq!(version(&hub).await, "1.0.0");

    assert_eq!(hub.call("POST", "/orgs/p", Some(json!({"label": "", "description": ""}))).await.0, 201);
    let body = json!({"password": "secret", "email": "e", "admin": true});
    assert_eq!(hub.call("POST", "/orgs/p/users/admin", Some(body)).await.0, 201);
    let mut foreign = Browser::of(&hub, "p", "admin", "secret").await;
    for path in [REVISIONS, CHANGE, undo.as_str(), "/console/orgs/o/documents/groups/g"] {
        let page = foreign.get(path).await;
        assert!(matches!(page.status, 403 | 404), "{path}: {}", page.text);
    }
    let page = send(&mut foreign, CHANGE, &apply).await;
    assert!(matches!(page.status, 403 | 404), "{}", page.text);
    assert_eq!(Browser::new(&hub).get(REVISIONS).await.status, 303, "nobody reads without a login");
}

/// A kind of document, the name of one, a member of it, a change of that member, and the command for the kind.
type KindCase<'a> = (&'a str, &'a str, &'a str, fn(&mut Value), &'a str);

/// Changes a document through the form of its page, and undoes the change to the revision before.
async fn change_and_undo(admin: &mut Browser, (kind, name, pointer, change, command): KindCase<'_>) {
    let base = format!("/console/orgs/o/documents/{kind}/{name}");
    let path = format!("{base}/change");
    let page = admin.get(&path).await;
    assert_eq!(page.status, 200, "{kind}: {}", page.text);
    let mut document: Value = serde_json::from_str(&page.area("document")).expect("JSON");
    let before = document.pointer(pointer).cloned();
    change(&mut document);
    let after = document.pointer(pointer).cloned();
    assert_ne!(before, after, "{kind}");
    let text = document.to_string();
    let plan = send(admin, &path, &[("document", text.as_str()), ("step", "plan")]).await;
    assert_eq!(plan.status, 200, "{kind}: {}", plan.text);
    assert!(plan.text.contains(&format!("hzn exchange {command} ")), "{kind}: {}", plan.text);
    let (text, token) = (plan.area("document"), plan.field("token"));
    let apply =
        [("document", text.as_str()), ("step", "apply"), ("token", token.as_str()), ("reason", "a trial")];
    let page = send(admin, &path, &apply).await;
    assert_eq!(page.status, 303, "{kind}: {}", page.text);
    let done = admin.get(&page.location.expect("where it went")).await;
    assert!(done.text.contains("o/admin") && done.text.contains("a trial"), "{kind}: {}", done.text);
    let page = admin.get(&path).await;
    let stored: Value = serde_json::from_str(&page.area("document")).expect("JSON");
    assert_eq!(stored.pointer(pointer).cloned(), after, "{kind}");

    let page = admin.get(&base).await;
    let addresses = page.addresses();
    let undo = addresses.iter().filter(|address| address.contains("/change?revision=")).nth(1);
    let undo = undo.unwrap_or_else(|| panic!("{kind}: an earlier revision: {}", page.text));
    let plan = admin.get(undo).await;
    assert_eq!(plan.status, 200, "{kind}: {}", plan.text);
    assert!(plan.text.contains(" --to "), "{kind}: {}", plan.text);
    let (text, token) = (plan.area("document"), plan.field("token"));
    let revision = plan.field("revision");
    let apply = [
        ("document", text.as_str()),
        ("step", "apply"),
        ("token", token.as_str()),
        ("revision", revision.as_str()),
    ];
    let page = send(admin, &path, &apply).await;
    assert_eq!(page.status, 303, "{kind}: {}", page.text);
    let page = admin.get(&path).await;
    let stored: Value = serde_json::from_str(&page.area("document")).expect("JSON");
    assert_eq!(stored.pointer(pointer).cloned(), before, "{kind}");
}

#[tokio::test]
async fn every_kind_of_document_is_changed_and_undone() {
    let scratch = Scratch::new();
    let hub = hub_with_versions(&scratch).await;
    let mut admin = make_user(&hub, "admin", json!({"admin": true})).await;
    let (arch, service) = ("amd64", "watch_1.0.0_amd64");
    let node_policy = json!({"properties": [{"name": "site", "value": "north"}], "constraints": []});
    assert_eq!(hub.call("PUT", "/orgs/o/nodes/edge-1/policy", Some(node_policy)).await.0, 201);
    let service_policy = json!({"properties": [], "constraints": ["site == north"]});
    let path = format!("/orgs/o/services/{service}/policy");
    assert_eq!(hub.call("PUT", &path, Some(service_policy)).await.0, 201);
    let pattern = json!({"label": "p", "services": [{"serviceUrl": "watch", "serviceOrgid": "o",
        "serviceArch": arch, "serviceVersions": [{"version": "1.0.0"}]}]});
    assert_eq!(hub.call("POST", "/orgs/o/patterns/p", Some(pattern)).await.0, 201);
    let nmp = json!({"label": "nmp", "enabled": false});
    assert_eq!(hub.call("POST", "/orgs/o/managementpolicies/nmp", Some(nmp)).await.0, 201);
    let settings = json!({"readyPeriodSeconds": 7});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    let spec = json!({"availability": "active"});
    assert_eq!(hub.call("PUT", "/orgs/o/nodes/edge-1/orchestration/spec", Some(spec)).await.0, 201);

    let kinds: [KindCase<'_>; 8] = [
        ("groups", "g", "/description", |one| one["description"] = json!("changed"), "hagroup"),
        ("node-policies", "edge-1", "/constraints/0", |one| one["constraints"] = json!(["a == b"]), "node"),
        ("node-settings", "edge-1", "/availability", |one| one["availability"] = json!("pause"), "node"),
        ("settings", "o", "/readyPeriodSeconds", |one| one["readyPeriodSeconds"] = json!(9), "orchestration"),
        ("patterns", "p", "/label", |one| one["label"] = json!("changed"), "pattern"),
        ("management-policies", "nmp", "/label", |one| one["label"] = json!("changed"), "nmp"),
        ("services", service, "/label", |one| one["label"] = json!("changed"), "service"),
        (
            "service-policies",
            service,
            "/constraints/0",
            |one| one["constraints"] = json!(["a == b"]),
            "service",
        ),
    ];
    for case in kinds {
        change_and_undo(&mut admin, case).await;
    }
    // A node without a policy has no revisions of one.
    let page = admin.get("/console/orgs/o/documents/node-policies/edge-2").await;
    assert!(page.status == 200 && page.text.contains("It does not exist now"), "{}", page.text);
    let page = admin.get("/console/orgs/o/documents/services?name=watch").await;
    assert_eq!(page.location.as_deref(), Some("/console/orgs/o/documents/services/watch"));
    let names = admin.get("/console/orgs/o/documents/services").await;
    assert!(names.addresses().contains(&format!("/console/orgs/o/documents/services/{service}")));
}

#[tokio::test]
async fn documents_are_tried_scaled_and_instances_moved() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let settings = json!({"orchestration": {"mode": "replicated", "replicas": 1}});
    fleet.want_with(&hub, "1.0.0", settings).await;
    let mut admin = make_user(&hub, "admin", json!({"admin": true})).await;
    let running = async || {
        let found = hub.call("GET", &format!("{POLICY}/orchestration"), None).await.1;
        let instances = found["units"][0]["instances"].as_array().cloned().unwrap_or_default();
        instances.into_iter().find(|one| one["avail"] == "up").map(|one| one["node"].clone())
    };
    let node = eventually("an instance runs", async || running().await).await;

    // A constraint that no node satisfies: which one it is, and what would help.
    let path = "/console/orgs/o/policies/everywhere/why/try";
    assert!(
        admin.get("/console/orgs/o/policies/everywhere/why").await.addresses().contains(&path.to_owned())
    );
    let mut policy: Value = serde_json::from_str(&admin.get(path).await.area("document")).expect("JSON");
    policy["constraints"] = json!(["openhorizon.hagroup == g AND site == north"]);
    let document = policy.to_string();
    let page = send(&mut admin, path, &[("document", document.as_str()), ("step", "try")]).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("with this document: 0") && page.text.contains("site"), "{}", page.text);
    assert!(!page.text.contains("Changes that would help"), "{}", page.text);
    let page = send(&mut admin, path, &[("document", document.as_str()), ("step", "help")]).await;
    let (_, help) = page.text.split_once("Changes that would help").expect("changes");
    assert!(help.contains("without site == north") && !help.contains("without openhorizon"), "{help}");
    let page = send(&mut admin, path, &[("document", "{"), ("step", "try")]).await;
    assert!(page.status == 400 && page.text.contains("id=\"problem\""), "{}", page.text);
    let stored = hub.call("GET", POLICY, None).await.1;
    let constraints = &stored["businessPolicy"]["o/everywhere"]["constraints"];
    assert_eq!(constraints, &json!(["openhorizon.hagroup == g"]), "nothing was written");

    let page = admin.get("/console/orgs/o/policies/everywhere").await;
    assert!(page.text.contains("name=\"scale\""), "{}", page.text);
    let plan = admin.get(&format!("{CHANGE}?scale=2")).await;
    for text in
        ["hzn exchange deployment orchestration scale everywhere 2", "1 to create", "&#34;replicas&#34;: 2"]
    {
        assert!(plan.text.contains(text), "{text}: {}", plan.text);
    }

    let other = if node == "edge-1" { "edge-2" } else { "edge-1" };
    let path = "/console/orgs/o/do/policy-switch";
    let plan = admin.get(&format!("{path}?policy=everywhere&to={other}")).await;
    let command = format!("hzn exchange deployment orchestration switch everywhere --to {other}");
    assert!(plan.status == 200 && plan.text.contains(&command), "{}", plan.text);
    eventually("the move is accepted", async || {
        let mut admin = Browser::of(&hub, "o", "admin", "secret").await;
        let token = admin.get(&format!("{path}?policy=everywhere&to={other}")).await.field("token");
        let form = [("policy", "everywhere"), ("to", other), ("token", token.as_str())];
        (send(&mut admin, path, &form).await.status == 303).then_some(())
    })
    .await;
    eventually("the instance has moved", async || (running().await? == other).then_some(())).await;
}
