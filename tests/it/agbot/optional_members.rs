//! Documents whose members are absent, null or empty: what the exchange stores, the agbot reads, or it names what it cannot read.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_agbot_api::AgbotApi;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::in_process::Agbots;
use crate::exchange::api::{ROOT, read_response};
use crate::support::eventually;
use crate::support::wait::must;

const USER: &str = "o/u:pu";
const NODE: &str = "o/n0";

/// A document in which one member is absent, null or empty.
struct Variant {
    what: String,
    document: Value,
}

/// Returns the variants of a document: each member at any depth absent, null and empty.
fn variants(base: &Value) -> Vec<Variant> {
    let mut pointers = Vec::new();
    collect_pointers(base, String::new(), &mut pointers);
    let empty = |value: &Value| match value {
        Value::String(_) => json!(""),
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
        Value::Number(_) => json!(0),
        Value::Bool(_) | Value::Null => json!(false),
    };
    let mut found = vec![Variant { what: "complete".to_owned(), document: base.clone() }];
    for pointer in pointers {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
        for word in ["absent", "null", "empty"] {
            let mut document = base.clone();
            let members = document.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
            match word {
                "absent" => drop(members.remove(name)),
                "null" => drop(members.insert(name.to_owned(), Value::Null)),
                _ => {
                    let old = members[name].clone();
                    members.insert(name.to_owned(), empty(&old));
                }
            }
            found.push(Variant { what: format!("{pointer} {word}"), document });
        }
    }
    found
}

fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let pointer = format!("{at}/{name}");
                pointers.push(pointer.clone());
                collect_pointers(member, pointer, pointers);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_pointers(item, format!("{at}/{index}"), pointers);
            }
        }
        _ => {}
    }
}

/// Fails when a document lacks a member that the API documents, so that a new member is tested as well.
fn require_every_member(schema: &str, document: &Value) {
    let text = must(std::fs::read_to_string("openapi/exchange.json"), "the API document");
    let api: Value = must(serde_json::from_str(&text), "JSON");
    let mut open = vec![(api["components"]["schemas"][schema].clone(), document.clone(), schema.to_owned())];
    while let Some((schema, value, at)) = open.pop() {
        let schema = resolved(&api, &schema);
        let members = schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, of_member) in members {
            // The settings of the engine are an addition, whose members are refused when they are null.
            if name == "orchestration" {
                continue;
            }
            let member = value.get(&name);
            assert!(member.is_some(), "{at} has no member {name}");
            let member = member.cloned().unwrap_or_default();
            open.push((of_member, member, format!("{at}.{name}")));
        }
        if let Some(first) = value.get(0) {
            open.push((schema["items"].clone(), first.clone(), at));
        }
    }
}

fn resolved(api: &Value, schema: &Value) -> Value {
    let named = schema["$ref"]
        .as_str()
        .or_else(|| schema["oneOf"].as_array().into_iter().flatten().find_map(|one| one["$ref"].as_str()));
    match named.and_then(|name| name.rsplit('/').next()) {
        Some(name) => api["components"]["schemas"][name].clone(),
        None => schema.clone(),
    }
}

fn user_input() -> Value {
    json!([{
        "serviceOrgid": "o", "serviceUrl": "s", "serviceArch": "amd64", "serviceVersionRange": "[0.0.0,INFINITY)",
        "inputs": [{"name": "WHO", "value": "you"}],
    }])
}

fn secret_binding() -> Value {
    json!([{
        "serviceOrgid": "o", "serviceUrl": "s", "serviceArch": "amd64", "serviceVersionRange": "[0.0.0,INFINITY)",
        "secrets": [{"pw": "prod/pw"}], "enableNodeLevelSecrets": false,
    }])
}

fn properties() -> Value {
    json!([{"name": "purpose", "value": "watch", "type": "string"}])
}

fn versions() -> Value {
    json!([{
        "version": "1.0.0",
        "priority": {"priority_value": 1, "retries": 2, "retry_durations": 60, "verified_durations": 30},
        "upgradePolicy": {"lifecycle": "immediate", "time": "01:00AM"},
        "deployment_overrides": "{}", "deployment_overrides_signature": "s",
    }])
}

fn deployment_policy() -> Value {
    json!({
        "label": "p", "description": "d", "properties": properties(), "constraints": ["site == north"],
        "userInput": user_input(), "secretBinding": secret_binding(),
        "service": {
            "name": "s", "org": "o", "arch": "amd64", "serviceVersions": versions(), "clusterNamespace": "n",
            "nodeHealth": {"missing_heartbeat_interval": 600, "check_agreement_status": 120},
        },
    })
}

fn pattern() -> Value {
    json!({
        "label": "p", "description": "d", "public": false, "userInput": user_input(), "secretBinding": secret_binding(),
        "agreementProtocols": [{"name": "Basic", "protocolVersion": 1}], "clusterNamespace": "n",
        "services": [{
            "serviceUrl": "s", "serviceOrgid": "o", "serviceArch": "amd64", "agreementLess": false,
            "serviceVersions": versions(), "dataVerification": {"enabled": false, "metering": {"tokens": 1}},
            "nodeHealth": {"missing_heartbeat_interval": 600, "check_agreement_status": 120},
        }],
    })
}

fn service(url: &str) -> Value {
    json!({
        "label": "s", "description": "d", "public": false, "documentation": "http://x", "url": url,
        "version": "1.0.0", "arch": "amd64", "sharable": "multiple", "matchHardware": {"usb": "x"},
        "requiredServices": [{"url": "dep", "org": "o", "version": "1.0.0", "versionRange": "[1.0.0,2.0.0)", "arch": "amd64"}],
        "userInput": [{"name": "WHO", "label": "who", "type": "string", "defaultValue": "world"}],
        "deployment": r#"{"services":{"c":{"image":"i"}}}"#, "deploymentSignature": "s",
        "clusterDeployment": "x", "clusterDeploymentSignature": "y", "imageStore": {"storeType": "x"},
    })
}

fn node(key: &str) -> Value {
    json!({
        "token": "token-of-node", "name": "n", "nodeType": "device", "pattern": "",
        "registeredServices": [{
            "url": "o/s", "numAgreements": 1, "configState": "active", "policy": "{}", "version": "1.0.0",
            "properties": [{"name": "a", "value": "b", "propType": "string", "op": "in"}],
        }],
        "userInput": user_input(), "msgEndPoint": "", "softwareVersions": {"horizon": "2.31.0"}, "publicKey": key,
        "arch": "amd64", "heartbeatIntervals": {"minInterval": 1, "maxInterval": 2, "intervalAdjustment": 1},
        "clusterNamespace": "", "isNamespaceScoped": false,
    })
}

fn node_policy() -> Value {
    let part = || json!({"properties": properties(), "constraints": ["purpose == watch"]});
    json!({
        "label": "l", "description": "d", "properties": properties(), "constraints": ["purpose == watch"],
        "deployment": part(), "management": part(), "nodePolicyVersion": "v2",
    })
}

fn service_policy() -> Value {
    json!({"label": "l", "description": "d", "properties": properties(), "constraints": ["site == north"]})
}

/// Constraints and patterns exclude each other.
fn management_policy() -> Value {
    json!({
        "label": "m", "description": "d", "properties": properties(), "constraints": ["purpose == watch"],
        "patterns": ["o/p"], "enabled": true, "start": "now", "startWindow": 10,
        "agentUpgradePolicy": {"manifest": "m", "allowDowngrade": false, "drain": true},
    })
}

/// Reasons of the agbot for all pairs and documents: texts by node and policy, and by kind and id.
#[derive(Default)]
struct Reasons {
    pairs: BTreeMap<(String, String), Value>,
    inert: BTreeMap<(String, String), String>,
}

/// Asks the agbot as the user.
async fn ask(agbots: &Agbots, method: &str, path: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Basic {}", STANDARD.encode(USER)));
    let request = must(request.body(Body::empty()), "a request");
    let response = must(AgbotApi::of(&agbots.all[0]).router().oneshot(request).await, "a response");
    read_response(response).await
}

async fn reasons(agbots: &Agbots) -> Reasons {
    let (status, body) = ask(agbots, "GET", "/v1/orgs/o/agbot/reasons").await;
    assert_eq!(status, 200, "{body}");
    let text = |one: &Value, member: &str| one[member].as_str().unwrap_or_default().to_owned();
    let mut found = Reasons::default();
    for one in body["reasons"].as_array().into_iter().flatten() {
        found.pairs.insert((text(one, "node"), text(one, "policy")), one.clone());
    }
    for one in body["inertPolicies"].as_array().into_iter().flatten() {
        found.inert.insert((text(one, "kind"), text(one, "id")), one["errors"].to_string());
    }
    found
}

/// Writes a document; nothing is returned when the exchange refuses it.
async fn stored(agbots: &Agbots, method: &str, path: &str, body: &Value) -> Option<()> {
    let (status, response) = agbots.api.call(USER, method, path, body.clone()).await;
    assert!(status == 201 || (400..500).contains(&status), "{method} {path}: {status} {response}");
    (status == 201).then_some(())
}

/// Waits until the agbot has decided about every pair or named a document of its, and returns what it says.
async fn decided(
    agbots: &Agbots,
    what: &str,
    pairs: &BTreeMap<(String, String), String>,
    inert: impl Fn(&(String, String)) -> (String, String),
) -> Reasons {
    eventually(what, || async {
        let found = reasons(agbots).await;
        let is_named = |pair: &(String, String)| {
            found.pairs.contains_key(pair) || found.inert.contains_key(&inert(pair))
        };
        pairs.keys().all(is_named).then_some(found)
    })
    .await
}

/// Fails for a pair whose documents were not understood, unless that is expected.
fn require_understood(found: &Reasons, pairs: &BTreeMap<(String, String), String>, expected: &[&str]) {
    let mut odd = BTreeSet::new();
    for (pair, what) in pairs {
        let kind = found
            .pairs
            .get(pair)
            .map_or("inert", |one| one["state"]["blocked"]["blocked"].as_str().unwrap_or("none"));
        if matches!(kind, "inert" | "unreadable") {
            odd.insert(what.as_str());
        }
    }
    assert_eq!(odd, expected.iter().copied().collect(), "what is not understood");
}

fn policy_of(service: &str) -> Value {
    json!({
        "label": "p", "constraints": [],
        "service": {"name": service, "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
    })
}

async fn prepared() -> Agbots {
    let agbots = Agbots::start(1).await;
    agbots.make_nodes(1).await;
    let entry = json!({"patternOrgid": "o", "pattern": "*", "nodeOrgid": "o"});
    agbots.api.expect(201, ROOT, "POST", "/orgs/IBM/agbots/bot/patterns", entry).await;
    let dependency = json!({
        "label": "d", "url": "dep", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
        "deployment": r#"{"services":{"c":{"image":"i"}}}"#, "deploymentSignature": "s",
    });
    agbots.api.expect(201, USER, "POST", "/orgs/o/services", dependency).await;
    agbots.api.expect(201, USER, "POST", "/orgs/o/services", service("s")).await;
    agbots
}

fn of_deployment(pair: &(String, String)) -> (String, String) {
    ("deployment".to_owned(), pair.1.clone())
}

/// The first tutorial of Open Horizon leaves `serviceArch` out.
#[tokio::test]
async fn stored_deployment_policies_are_understood_whatever_they_leave_out() {
    require_every_member("PostDeploymentPolicy", &deployment_policy());
    let agbots = prepared().await;
    let mut pairs = BTreeMap::new();
    for (index, Variant { what, document }) in variants(&deployment_policy()).into_iter().enumerate() {
        let path = format!("/orgs/o/business/policies/v{index}");
        if stored(&agbots, "POST", &path, &document).await.is_some() {
            pairs.insert((NODE.to_owned(), format!("o/v{index}")), what);
        }
    }
    assert!(pairs.len() > 90, "the exchange takes most of them: {}", pairs.len());
    let found = decided(&agbots, "every policy is decided about", &pairs, of_deployment).await;
    require_understood(&found, &pairs, &[]);
    for ((_, policy), what) in &pairs {
        let path = format!("/v1/orgs/o/business/policies/{}", policy.trim_start_matches("o/"));
        for (method, part) in [("POST", "plan"), ("GET", "orchestration"), ("GET", "explain")] {
            let (status, body) = ask(&agbots, method, &format!("{path}/{part}")).await;
            assert_eq!(status, 200, "{part} of {what}: {body}");
            assert!(!body.to_string().contains("cannot be read"), "{part} of {what}: {body}");
        }
    }
}

#[tokio::test]
async fn stored_patterns_are_understood_whatever_they_leave_out() {
    require_every_member("PostPattern", &pattern());
    let agbots = prepared().await;
    let key = agbots.all[0].context().keys.public.to_base64();
    let mut nodes = BTreeMap::new();
    for (index, Variant { what, document }) in variants(&pattern()).into_iter().enumerate() {
        if stored(&agbots, "POST", &format!("/orgs/o/patterns/v{index}"), &document).await.is_some() {
            let body = json!({"token": "token-of-node", "name": "n", "pattern": format!("o/v{index}"), "publicKey": key, "arch": "amd64"});
            agbots.api.expect(201, USER, "PUT", &format!("/orgs/o/nodes/v{index}"), body).await;
            nodes.insert(format!("o/v{index}"), what);
        }
    }
    assert!(nodes.len() > 80, "the exchange takes most of them: {}", nodes.len());
    let silent = eventually("every pattern is decided about", || async {
        let found = reasons(&agbots).await;
        let of_node = |node: &String| found.pairs.keys().any(|(one, _)| one == node);
        let is_named =
            |node: &String| of_node(node) || found.inert.contains_key(&("pattern".to_owned(), node.clone()));
        nodes.keys().all(is_named).then(|| {
            let silent = nodes.iter().filter(|(node, _)| !of_node(node)).map(|(_, what)| what.clone());
            silent.collect::<BTreeSet<String>>()
        })
    })
    .await;
    assert_eq!(silent, BTreeSet::new(), "what is not understood");
}

#[tokio::test]
async fn stored_services_and_their_policies_are_understood_whatever_they_leave_out() {
    require_every_member("PostService", &service("s"));
    require_every_member("PutServicePolicy", &service_policy());
    let agbots = prepared().await;
    let mut pairs = BTreeMap::new();
    for (index, Variant { what, mut document }) in variants(&service("s")).into_iter().enumerate() {
        let url = format!("sv{index}");
        if document.get("url") == Some(&json!("s")) {
            document["url"] = json!(url);
        }
        if stored(&agbots, "POST", "/orgs/o/services", &document).await.is_some()
            && stored(&agbots, "POST", &format!("/orgs/o/business/policies/{url}"), &policy_of(&url))
                .await
                .is_some()
        {
            pairs.insert((NODE.to_owned(), format!("o/{url}")), what);
        }
    }
    for (index, Variant { what, document }) in variants(&service_policy()).into_iter().enumerate() {
        let url = format!("sp{index}");
        agbots.api.expect(201, USER, "POST", "/orgs/o/services", service(&url)).await;
        let path = format!("/orgs/o/services/{url}_1.0.0_amd64/policy");
        if stored(&agbots, "PUT", &path, &document).await.is_some() {
            let path = format!("/orgs/o/business/policies/{url}");
            agbots.api.expect(201, USER, "POST", &path, policy_of(&url)).await;
            pairs.insert((NODE.to_owned(), format!("o/{url}")), format!("policy {what}"));
        }
    }
    assert!(pairs.len() > 70, "the exchange takes most of them: {}", pairs.len());
    let found = decided(&agbots, "every service is decided about", &pairs, of_deployment).await;
    require_understood(&found, &pairs, &[]);
    assert_eq!(found.inert, BTreeMap::new());
}

#[tokio::test]
async fn stored_nodes_and_their_policies_are_understood_whatever_they_leave_out() {
    let agbots = prepared().await;
    let key = agbots.all[0].context().keys.public.to_base64();
    require_every_member("PutNode", &node(&key));
    require_every_member("PutNodePolicy", &node_policy());
    agbots.api.expect(201, USER, "POST", "/orgs/o/business/policies/any", policy_of("s")).await;
    let mut pairs = BTreeMap::new();
    let pair = |node: &str| (format!("o/{node}"), "o/any".to_owned());
    for (index, Variant { what, document }) in variants(&node(&key)).into_iter().enumerate() {
        let name = format!("nv{index}");
        if stored(&agbots, "PUT", &format!("/orgs/o/nodes/{name}"), &document).await.is_some() {
            let policy = json!({"properties": properties(), "constraints": []});
            agbots.api.expect(201, USER, "PUT", &format!("/orgs/o/nodes/{name}/policy"), policy).await;
            pairs.insert(pair(&name), what);
        }
    }
    for (index, Variant { what, document }) in variants(&node_policy()).into_iter().enumerate() {
        let name = format!("np{index}");
        agbots.api.expect(201, USER, "PUT", &format!("/orgs/o/nodes/{name}"), node(&key)).await;
        if stored(&agbots, "PUT", &format!("/orgs/o/nodes/{name}/policy"), &document).await.is_some() {
            pairs.insert(pair(&name), format!("policy {what}"));
        }
    }
    assert!(pairs.len() > 90, "the exchange takes most of them: {}", pairs.len());
    let of_node = |pair: &(String, String)| ("node".to_owned(), pair.0.clone());
    let found = decided(&agbots, "every node is decided about", &pairs, of_node).await;
    // A property without a name or a value is none; what else the policy says does not hold either.
    let broken: Vec<String> = ["", "/deployment", "/management"]
        .iter()
        .flat_map(|part| {
            let of_member = |name: &str, words: &[&str]| -> Vec<String> {
                words.iter().map(|word| format!("policy {part}/properties/0/{name} {word}")).collect()
            };
            [of_member("name", &["absent", "null", "empty"]), of_member("value", &["absent", "null"])]
                .concat()
        })
        .collect();
    let broken: Vec<&str> = broken.iter().map(String::as_str).collect();
    require_understood(&found, &pairs, &broken);
    let named: BTreeSet<String> = found.inert.keys().map(|(_, id)| id.clone()).collect();
    let expected: BTreeSet<String> = pairs
        .iter()
        .filter(|(_, what)| broken.contains(&what.as_str()))
        .map(|((node, _), _)| node.clone())
        .collect();
    assert_eq!(named, expected, "each of them is named");
}

/// Errors and findings about management policies, by policy.
async fn named_management_policies(agbots: &Agbots) -> [BTreeMap<String, String>; 2] {
    let (status, body) = ask(agbots, "GET", "/v1/orgs/o/agbot/reasons").await;
    assert_eq!(status, 200, "{body}");
    ["inertPolicies", "questionablePolicies"].map(|list| {
        let listed = body[list].as_array().into_iter().flatten();
        let of_kind = listed.filter(|one| one["kind"] == "management");
        of_kind
            .map(|one| (one["id"].as_str().unwrap_or_default().to_owned(), one["errors"].to_string()))
            .collect()
    })
}

#[tokio::test]
async fn management_policies_are_understood_whatever_they_leave_out_or_named() {
    const ADMIN: &str = "o/admin:pa";
    require_every_member("PostManagementPolicy", &management_policy());
    let agbots = prepared().await;
    // An import may bring members that no exchange of ours stores.
    for broken in [
        "CREATE FUNCTION break_policy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             CASE NEW.policy
                 WHEN 'broken-constraints' THEN NEW.constraints = '\"a == b\"';
                 WHEN 'broken-patterns' THEN NEW.patterns = '[1]';
                 WHEN 'broken-properties' THEN NEW.properties = '[1]';
                 WHEN 'broken-agentUpgradePolicy' THEN NEW.agent_upgrade_policy = '{\"manifest\": [1]}';
                 ELSE NULL;
             END CASE;
             RETURN NEW;
         END $$",
        "CREATE TRIGGER break_policy BEFORE INSERT ON management_policy FOR EACH ROW EXECUTE FUNCTION break_policy()",
    ] {
        agbots.execute(broken).await;
    }
    let write = async |name: &str, document: &Value| {
        let path = format!("/orgs/o/managementpolicies/{name}");
        let (status, response) = agbots.api.call(ADMIN, "POST", &path, document.clone()).await;
        assert!(status == 201 || (400..500).contains(&status), "{path}: {status} {response}");
        status == 201
    };
    let mut written = BTreeMap::new();
    for absent in ["patterns", "constraints"] {
        let mut base = management_policy();
        base.as_object_mut().expect("an object").remove(absent);
        for (index, Variant { what, document }) in variants(&base).into_iter().enumerate() {
            let name = format!("without-{absent}-{index}");
            if write(&name, &document).await {
                written.insert(format!("o/{name}"), what);
            }
        }
    }
    assert!(written.len() > 50, "the exchange takes most of them: {}", written.len());
    let mut plain = management_policy();
    plain.as_object_mut().expect("an object").retain(|name, _| name != "constraints" && name != "patterns");
    let broken = ["constraints", "patterns", "properties", "agentUpgradePolicy"];
    for member in broken {
        assert!(write(&format!("broken-{member}"), &plain).await, "{member}");
    }
    // The feed has an order: what was written before was read before.
    let [inert, questionable] = eventually("the broken ones are named", || async {
        let found = named_management_policies(&agbots).await;
        found[0].contains_key("o/broken-agentUpgradePolicy").then_some(found)
    })
    .await;
    for member in broken {
        assert!(inert[&format!("o/broken-{member}")].contains(member), "{inert:?}");
    }
    assert_eq!(inert.len(), broken.len(), "{inert:?}");
    let incomplete = |what: &str| {
        let member = what.strip_prefix("/properties/0/").unwrap_or_default();
        ["name absent", "name null", "name empty", "value absent", "value null"].contains(&member)
    };
    let expected: BTreeSet<&String> =
        written.iter().filter(|(_, what)| incomplete(what)).map(|(id, _)| id).collect();
    assert_eq!(questionable.keys().collect::<BTreeSet<_>>(), expected, "{questionable:?}");
}

/// Members that no exchange of ours stores, as an import may bring them.
#[tokio::test]
async fn documents_that_cannot_be_read_are_named_everywhere_and_stop_nothing() {
    let agbots = prepared().await;
    let mut pairs = BTreeMap::new();
    for name in ["input", "list"] {
        let path = format!("/orgs/o/business/policies/{name}");
        agbots.api.expect(201, USER, "POST", &path, policy_of("s")).await;
        pairs.insert((NODE.to_owned(), format!("o/{name}")), name.to_owned());
    }
    let found = decided(&agbots, "the policies are carried out", &pairs, of_deployment).await;
    require_understood(&found, &pairs, &[]);
    let before = eventually("both are agreed on", || async {
        let found = agbots.agreements().await;
        (found.len() == 2).then_some(found)
    })
    .await;
    agbots
        .execute(
            "UPDATE deployment_policy SET user_input = '[{\"serviceArch\": [1]}]' WHERE policy = 'input'",
        )
        .await;
    agbots.execute("UPDATE deployment_policy SET constraints = '\"a == b\"' WHERE policy = 'list'").await;
    for (name, member) in [("input", "userInput[0]"), ("list", "constraints")] {
        // Any write has the agbot read it again.
        let (path, label) = (format!("/orgs/o/business/policies/{name}"), json!({"label": "again"}));
        agbots.api.expect(201, USER, "PATCH", &path, label).await;
        let id = ("deployment".to_owned(), format!("o/{name}"));
        let errors =
            eventually("the policy is named", || async { reasons(&agbots).await.inert.get(&id).cloned() })
                .await;
        assert!(errors.contains(member), "{errors}");
        for (method, part) in [("GET", "orchestration"), ("GET", "explain"), ("POST", "plan")] {
            let (status, body) = ask(&agbots, method, &format!("/v1{path}/{part}")).await;
            assert!(body.to_string().contains(member), "{part}: {status} {body}");
        }
    }
    assert_eq!(agbots.agreements().await, before, "what runs goes on");
}
