//! Files and names as users write them: rejected and accepted forms, and removals by `hzn apply`.

use std::collections::BTreeSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Hzn;
use crate::support::wait::must;
use crate::support::{Hub, Scratch};

/// A hub with the organization `acme`, its administrator and one service.
async fn set_up(scratch: &Scratch) -> (Hub, Hzn) {
    let hub = Hub::start(scratch, &[]).await;
    let mut hzn = Hzn::new(scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.done("exchange org create acme -d plant");
    hzn.done("exchange user create ann first-secret ann@acme.com -A");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:first-secret".to_owned());
    hzn.write("service.json", &json!({"url": "cam", "version": "1.0.0", "arch": "amd64"}));
    hzn.done("exchange service publish -f service.json");
    (hub, hzn)
}

fn policy(label: &str) -> Value {
    json!({
        "label": label,
        "service": {"name": "cam", "org": "acme", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
        "constraints": ["site == north"],
    })
}

fn document(name: &str, spec: &Value) -> String {
    json!({"kind": "policy", "name": name, "spec": spec}).to_string()
}

#[tokio::test]
async fn names_that_cannot_be_typed_and_secrets_that_protect_nothing_are_not_created() {
    let scratch = Scratch::new();
    let (_hub, hzn) = set_up(&scratch).await;
    hzn.write("policy.json", &policy("cameras"));
    for line in [
        "exchange node create n\u{1}1:token-n1",
        "exchange node create n\u{202e}1 token-n1",
        "exchange user create bob\u{7} long-secret bob@acme.com",
        "exchange deployment addpolicy p\u{200b} -f policy.json",
    ] {
        let why = hzn.refused(1, line);
        assert!(
            why.contains("its name holds the character U+")
                || why.contains("its name holds the control character U+"),
            "{why}"
        );
    }
    for (line, meaning) in [
        ("exchange node create n1:x", "token"),
        ("exchange user create bob x bob@acme.com", "password"),
        ("exchange user setpassword ann x", "password"),
    ] {
        assert!(hzn.refused(1, line).contains(&format!("the {meaning} has less than 4 characters")));
    }
    assert_eq!(hzn.data("exchange node list"), json!([]));
    let weak = hzn.run("exchange node create n1:tok-1");
    assert!(weak.status == 0 && weak.errors.contains("less than 8 characters"), "{}", weak.errors);
    hzn.refused(1, "exchange node settoken n1 x");
}

#[tokio::test]
async fn application_of_files_removes_what_they_lack_and_nothing_for_an_empty_input() {
    let scratch = Scratch::new();
    let (_hub, hzn) = set_up(&scratch).await;
    let file = scratch.join("policy.json");
    let write = |text: &str| must(std::fs::write(&file, text), "a file");
    let mut spec = policy("line1");
    spec["description"] = json!("of line 1");
    spec["orchestration"] = json!({"mode": "replicated", "replicas": 2});
    write(&document("cameras", &spec));
    assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "create");
    assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "unchanged");

    write(&document("cameras", &policy("line1")));
    let found = hzn.data("apply -f policy.json");
    let changes = found[0]["changes"].as_array().into_iter().flatten();
    let paths: BTreeSet<&str> = changes.filter_map(|change| change["path"].as_str()).collect();
    assert_eq!(
        (&found[0]["action"], paths),
        (&json!("update"), BTreeSet::from(["description", "orchestration"]))
    );
    let stored = hzn.data("exchange deployment listpolicy cameras");
    assert_eq!(stored["acme/cameras"].get("orchestration").filter(|settings| !settings.is_null()), None);
    assert_eq!(stored["acme/cameras"]["description"], "line1", "that of the exchange");
    assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "unchanged");

    let mut workload = policy("line1");
    workload["orchestration"] = json!({});
    for (spec, settings) in [(&workload, json!({})), (&policy("line1"), Value::Null)] {
        write(&document("cameras", spec));
        assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "update", "{settings}");
        let stored = hzn.data("exchange deployment listpolicy cameras");
        assert_eq!(stored["acme/cameras"]["orchestration"], settings);
        assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "unchanged", "{settings}");
    }

    must(std::fs::create_dir(scratch.join("empty")), "a directory");
    for text in ["", " \n", "# all of them are gone\n", "---\n", "---\n---\n", "[]"] {
        write(text);
        for source in ["policy.json", "empty"] {
            let why = hzn.refused(1, &format!("apply -f {source} --prune line1"));
            assert!(why.contains("--allow-empty"), "{why}");
        }
        let piped = hzn.run_with("apply -f - --prune line1", text);
        assert!(piped.status == 1 && piped.errors.contains("--allow-empty"), "{text:?}: {}", piped.errors);
    }
    assert!(hzn.refused(1, "apply -f empty --prune= --allow-empty").contains("empty label"));
    assert_eq!(hzn.data("exchange deployment listpolicy"), json!(["acme/cameras"]));
    assert_eq!(hzn.data("apply -f empty --prune line1 --allow-empty")[0]["action"], "remove");
    assert_eq!(hzn.data("exchange deployment listpolicy"), json!([]));
}

#[tokio::test]
async fn group_without_members_in_its_file_loses_them_once() {
    let scratch = Scratch::new();
    let (_hub, hzn) = set_up(&scratch).await;
    hzn.done("exchange node create n1:token-n1 -a amd64");
    let write = |spec: Value| {
        hzn.write("group.json", &json!({"kind": "hagroup", "name": "line", "spec": spec}));
    };
    write(json!({"description": "Line 1", "members": ["n1"]}));
    assert_eq!(hzn.data("apply -f group.json")[0]["action"], "create");
    write(json!({"description": "Line 1"}));
    let found = hzn.data("apply -f group.json");
    let change = json!({"path": "members", "from": ["n1"], "to": []});
    assert_eq!((&found[0]["action"], &found[0]["changes"]), (&json!("update"), &json!([change])));
    assert_eq!(hzn.data("exchange hagroup list line")["acme/line"]["members"], json!([]));
    assert_eq!(hzn.data("apply -f group.json")[0]["action"], "unchanged");
}

#[tokio::test]
async fn management_policy_with_a_property_that_is_none_is_not_sent_and_can_be_disabled() {
    let scratch = Scratch::new();
    let (hub, hzn) = set_up(&scratch).await;
    let policy = json!({
        "label": "m", "enabled": true, "constraints": ["a == b"], "properties": [{"name": "tier"}],
        "agentUpgradePolicy": {"manifest": "m"},
    });
    hzn.write("nmp.json", &policy);
    hzn.write("document.json", &json!({"kind": "nmp", "name": "firmware", "spec": policy}));
    for line in ["exchange nmp add firmware -f nmp.json", "apply -f document.json"] {
        let why = hzn.refused(1, line);
        assert!(why.contains("management policy acme/firmware") && why.contains("properties[0]"), "{why}");
    }
    let (status, response) = hub.call("POST", "/orgs/acme/managementpolicies/firmware", Some(policy)).await;
    assert_eq!(status, 201, "{response}");
    hzn.done("exchange nmp disable firmware");
    assert_eq!(hzn.data("exchange nmp list firmware -l")["acme/firmware"]["enabled"], false);
}

/// The reference's command line takes a 404 for an empty list and ends with status 0.
#[tokio::test]
async fn requests_for_secrets_are_refused_instead_of_an_empty_list() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    for (method, path) in [
        ("LIST", "/org/o/secrets"),
        ("LIST", "/org/o/secrets/"),
        ("LIST", "/v1/org/o/secrets/user/ann"),
        ("LIST", "/org/o/allsecrets"),
        ("GET", "/org/o/secrets/one"),
        ("PUT", "/org/o/secrets/node/n1/one"),
        ("DELETE", "/org/o/secrets/one"),
    ] {
        let method = must(method.parse(), "a method");
        let response = must(hub.client.request(method, format!("{}{path}", hub.url)).send().await, path);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let text: String = must(response.json().await, "a JSON text");
        assert!(text.contains("no secrets manager"), "{text}");
    }
}

#[tokio::test]
async fn exchange_refuses_weak_identities_when_that_is_set() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--weak-identities", "refuse"]).await;
    let org = |label: &str| Some(json!({"label": label, "description": label}));
    let user = |password: &str| Some(json!({"password": password, "admin": false, "email": "b@o.com"}));
    let agbot = |token: &str| Some(json!({"token": token, "name": "n", "publicKey": ""}));
    let node = |token: &str| Some(json!({"token": token, "name": "n", "pattern": "", "publicKey": ""}));
    for (method, path, body, expected) in [
        ("POST", "/orgs/o%20o", org("o"), 400),
        ("POST", "/orgs/o", org("o"), 201),
        ("POST", "/orgs/o/users/b%E2%80%AE", user("long-secret"), 400),
        ("POST", "/orgs/o/users/b", user("x"), 400),
        ("PUT", "/orgs/o/users/b", user("abcd"), 201),
        ("PATCH", "/orgs/o/users/b", Some(json!({"password": "x"})), 400),
        ("PUT", "/orgs/o/nodes/n%201", node("token-n1"), 400),
        ("PUT", "/orgs/o/nodes/n1", node("x"), 400),
        ("PUT", "/orgs/o/nodes/n1", node("token-n1"), 201),
        ("PATCH", "/orgs/o/nodes/n1", Some(json!({"token": "x"})), 400),
        ("PUT", "/orgs/o/agbots/a%091", agbot("token-a1"), 400),
        ("PUT", "/orgs/o/agbots/a1", agbot("x"), 400),
        ("PUT", "/orgs/o/agbots/a1", agbot("token-a1"), 201),
        ("PATCH", "/orgs/o/agbots/a1", Some(json!({"token": "x"})), 400),
    ] {
        let (status, response) = hub.call(method, path, body).await;
        assert_eq!(status, expected, "{method} {path}: {response}");
    }
}

#[tokio::test]
async fn advice_on_an_unknown_certificate_names_the_setting_for_its_authority() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--tls", "auto"]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    let advice = hzn.refused(5, "exchange org list");
    assert!(advice.contains("UnknownIssuer") && advice.contains("set HZN_MGMT_HUB_CERT_PATH"), "{advice}");
    let authority = hub.directory().join("tls/ca.pem");
    hzn.set("HZN_MGMT_HUB_CERT_PATH", authority.to_string_lossy().into_owned());
    assert_eq!(hzn.run("exchange org list").status, 0);
}

/// A variable in the name of a member is replaced like one in a text, whatever reads the file.
#[tokio::test]
async fn variables_in_names_of_members_are_replaced_like_those_in_texts() {
    let scratch = Scratch::new();
    let (_hub, mut hzn) = set_up(&scratch).await;
    hzn.set("NAME", "door".to_owned());
    hzn.set("VARIABLE", "MODE".to_owned());
    let services = json!({"$NAME-cam": {"image": "i/$NAME", "secrets": {"${NAME}_key": {}}, "environment": ["$VARIABLE=1"]}});
    let expected = json!({"services": {"door-cam": {
        "image": "i/door", "secrets": {"door_key": {}}, "environment": ["MODE=1"],
    }}});
    let definition =
        json!({"url": "door", "version": "1.0.0", "arch": "amd64", "deployment": {"services": services}});
    hzn.write("door.json", &definition);
    assert_eq!(hzn.run("key create -l 2048").status, 0);
    hzn.done("exchange service publish -f door.json");
    let mut applied = definition;
    applied["version"] = json!("2.0.0");
    hzn.write("applied.json", &json!({"kind": "service", "spec": applied}));
    assert_eq!(hzn.data("apply -f applied.json")[0]["action"], "create");
    for version in ["1.0.0", "2.0.0"] {
        let id = format!("acme/door_{version}_amd64");
        let stored = hzn.data(&format!("exchange service list {id}"));
        let deployment = stored[&id]["deployment"].as_str().unwrap_or_default();
        assert_eq!(must(serde_json::from_str::<Value>(deployment), "a deployment"), expected, "{version}");
    }
}
