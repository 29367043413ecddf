//! Rules of the exchange contract that no recorded conversation shows.

use serde_json::{Value, json};

use super::api::{Api, ROOT, read_response};
use crate::support::TestDatabase;

const OWNER: &str = "acme/u:pu";
const ADMIN: &str = "acme/admin:pa";
const HUB_ADMIN: &str = "root/hubert:ph";

struct Hub {
    api: Api,
    _database: TestDatabase,
}

impl Hub {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let api = Api::start(&database).await;
        api.make_org("acme").await;
        Self { api, _database: database }
    }

    async fn expect(&self, status: u16, login: &str, method: &str, path: &str, body: Value) -> Value {
        self.api.expect(status, login, method, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.expect(200, OWNER, "GET", path, Value::Null).await
    }

    async fn attribute(&self, path: &str, name: &str) -> String {
        let body = self.get(&format!("{path}?attribute={name}")).await;
        assert_eq!(body["attribute"], name, "the caller's spelling comes back");
        body["value"].as_str().unwrap_or_else(|| panic!("{path} {name}: {body}")).to_owned()
    }

    async fn publish(&self, body: Value) {
        self.expect(201, OWNER, "POST", "/orgs/acme/services", body).await;
    }

    async fn lists(&self, path: &str) -> Vec<String> {
        let (status, body) = self.api.call(OWNER, "GET", path, Value::Null).await;
        assert!(matches!(status, 200 | 404), "{path}: {status} {body}");
        let members = body.as_object().and_then(|members| members.values().find(|value| value.is_object()));
        let mut keys: Vec<String> =
            members.and_then(Value::as_object).expect("a map").keys().cloned().collect();
        keys.sort();
        keys
    }
}

fn service(url: &str, more: Value) -> Value {
    let mut body =
        json!({"label": url, "url": url, "version": "1.0.0", "arch": "amd64", "sharable": "multiple"});
    merge(&mut body, more);
    body
}

fn policy(more: Value) -> Value {
    let service =
        json!({"name": "w", "org": "acme", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]});
    let mut body = json!({"label": "p", "service": service});
    merge(&mut body, more);
    body
}

fn pattern(more: Value) -> Value {
    let service = json!({
        "serviceUrl": "w", "serviceOrgid": "acme", "serviceArch": "amd64", "serviceVersions": [{"version": "1.0.0"}]
    });
    let mut body = json!({"label": "p", "services": [service]});
    merge(&mut body, more);
    body
}

fn merge(body: &mut Value, more: Value) {
    if let (Value::Object(body), Value::Object(more)) = (body, more) {
        body.extend(more);
    }
}

#[tokio::test]
async fn attribute_names_match_in_any_case() {
    let hub = Hub::new().await;
    hub.publish(service("w", json!({"matchHardware": {"gpu": 1}}))).await;
    hub.expect(201, OWNER, "POST", "/orgs/acme/patterns/p", pattern(json!({}))).await;
    hub.expect(201, OWNER, "POST", "/orgs/acme/business/policies/p", policy(json!({}))).await;
    let management = json!({"label": "m", "enabled": true, "startWindow": 3_000_000_000_i64,
        "agentUpgradePolicy": {"manifest": "man", "allowDowngrade": true}});
    hub.expect(201, ADMIN, "POST", "/orgs/acme/managementpolicies/m", management).await;

    let one = "/orgs/acme/services/w_1.0.0_amd64";
    assert_eq!(hub.attribute(one, "MATCHHARDWARE").await, r#"{"gpu":1}"#);
    assert_eq!(hub.attribute(one, "Sharable").await, "multiple");
    assert_eq!(hub.attribute(one, "organization").await, "acme");
    let one = "/orgs/acme/patterns/p";
    assert_eq!(hub.attribute(one, "AGREEMENTprotocols").await, r#"[{"name":"Basic"}]"#);
    assert_eq!(hub.attribute(one, "LastPdated").await, hub.attribute(one, "lastupdated").await);
    let one = "/orgs/acme/deployment/policies/p";
    assert_eq!(hub.attribute(one, "LABEL").await, "p");
    let one = "/orgs/acme/managementpolicies/m";
    assert_eq!(hub.attribute(one, "MANIFEST").await, "man");
    assert_eq!(hub.attribute(one, "allowdowngrade").await, "true");
    assert_eq!(hub.attribute(one, "startwindow").await, "3000000000");
    assert_eq!(hub.get(one).await["managementPolicy"]["acme/m"]["startWindow"], 3_000_000_000_i64);
}

#[tokio::test]
async fn attributes_of_lists_distinguish_empty_from_absent() {
    let hub = Hub::new().await;
    hub.publish(service("w", json!({}))).await;
    let given = json!({"matchHardware": {}, "requiredServices": [], "userInput": [], "imageStore": {}});
    hub.publish(service("given", given)).await;
    for (name, empty) in
        [("matchHardware", "{}"), ("requiredServices", "[]"), ("userInput", "[]"), ("imageStore", "{}")]
    {
        assert_eq!(hub.attribute("/orgs/acme/services/w_1.0.0_amd64", name).await, "", "{name}");
        assert_eq!(hub.attribute("/orgs/acme/services/given_1.0.0_amd64", name).await, empty, "{name}");
    }
    let both = hub.get("/orgs/acme/services").await;
    for key in ["acme/w_1.0.0_amd64", "acme/given_1.0.0_amd64"] {
        let shown = &both["services"][key];
        assert_eq!((&shown["matchHardware"], &shown["imageStore"]), (&json!({}), &json!({})), "{key}");
        assert_eq!((&shown["requiredServices"], &shown["userInput"]), (&json!([]), &json!([])), "{key}");
    }

    let lists = json!({"constraints": [], "properties": [], "userInput": [], "secretBinding": []});
    hub.expect(201, OWNER, "POST", "/orgs/acme/business/policies/none", policy(json!({}))).await;
    hub.expect(201, OWNER, "POST", "/orgs/acme/business/policies/given", policy(lists.clone())).await;
    for name in ["constraints", "properties", "userInput", "secretBinding"] {
        assert_eq!(hub.attribute("/orgs/acme/business/policies/none", name).await, "", "{name}");
        assert_eq!(hub.attribute("/orgs/acme/business/policies/given", name).await, "[]", "{name}");
        assert_eq!(
            hub.get("/orgs/acme/business/policies/none").await["businessPolicy"]["acme/none"][name],
            json!([])
        );
    }
    let patch = json!({"constraints": []});
    hub.expect(201, OWNER, "PATCH", "/orgs/acme/business/policies/none", patch).await;
    assert_eq!(hub.attribute("/orgs/acme/business/policies/none", "constraints").await, "[]");

    let lists = json!({"userInput": [], "secretBinding": [], "agreementProtocols": []});
    hub.expect(201, OWNER, "POST", "/orgs/acme/patterns/none", pattern(json!({}))).await;
    hub.expect(201, OWNER, "POST", "/orgs/acme/patterns/given", pattern(lists)).await;
    for name in ["userInput", "secretBinding"] {
        assert_eq!(hub.attribute("/orgs/acme/patterns/none", name).await, "", "{name}");
        assert_eq!(hub.get("/orgs/acme/patterns/none").await["patterns"]["acme/none"][name], json!([]));
    }
    for name in ["userInput", "secretBinding", "agreementProtocols"] {
        assert_eq!(hub.attribute("/orgs/acme/patterns/given", name).await, "[]", "{name}");
    }
    for (id, more) in [("none", json!({})), ("given", json!({"patterns": [], "properties": []}))] {
        let mut body = json!({"label": "m"});
        merge(&mut body, more);
        hub.expect(201, ADMIN, "POST", &format!("/orgs/acme/managementpolicies/{id}"), body).await;
    }
    for name in ["patterns", "properties"] {
        assert_eq!(hub.attribute("/orgs/acme/managementpolicies/none", name).await, "", "{name}");
        assert_eq!(hub.attribute("/orgs/acme/managementpolicies/given", name).await, "[]", "{name}");
    }
}

#[tokio::test]
async fn attributes_hold_what_was_given_in_the_order_of_the_contract() {
    let hub = Hub::new().await;
    hub.publish(service("w", json!({}))).await;
    let required = json!([{"arch": "amd64", "version": "[1.0.0,INFINITY)", "org": "acme", "url": "w"}]);
    hub.publish(service("needs", json!({"requiredServices": required}))).await;
    // The older name of the range stays alone in the attribute, and fills in for the newer one in the whole service.
    let text = r#"[{"url":"w","org":"acme","version":"[1.0.0,INFINITY)","arch":"amd64"}]"#;
    let one = "/orgs/acme/services/needs_1.0.0_amd64";
    assert_eq!(hub.attribute(one, "requiredServices").await, text);
    let shown = hub.get(one).await["services"]["acme/needs_1.0.0_amd64"]["requiredServices"][0].clone();
    assert_eq!(
        (&shown["version"], &shown["versionRange"]),
        (&json!("[1.0.0,INFINITY)"), &json!("[1.0.0,INFINITY)"))
    );
    assert_eq!(hub.lists("/orgs/acme/services?requiredurl=w").await, ["acme/needs_1.0.0_amd64"]);

    let properties =
        json!([{"value": {"b": 1, "a": [2]}, "type": "string", "name": "p"}, {"name": "q", "value": null}]);
    let binding = json!([{"secrets": [{"s": "v"}], "serviceUrl": "w", "serviceOrgid": "acme"}]);
    let more = json!({"properties": properties, "secretBinding": binding});
    hub.expect(201, OWNER, "POST", "/orgs/acme/business/policies/p", policy(more)).await;
    let one = "/orgs/acme/business/policies/p";
    let text = r#"[{"name":"p","type":"string","value":{"b":1,"a":[2]}},{"name":"q","value":null}]"#;
    assert_eq!(hub.attribute(one, "properties").await, text);
    let service = hub.attribute(one, "service").await;
    let order = ["\"name\"", "\"org\"", "\"arch\"", "\"serviceVersions\"", "\"nodeHealth\""];
    assert!(order.map(|member| service.find(member).expect(member)).is_sorted(), "{service}");

    let registered = json!([{"url": "acme/w", "numAgreements": 1}]);
    let node =
        json!({"token": "t", "name": "n", "pattern": "", "publicKey": "", "registeredServices": registered});
    hub.expect(201, OWNER, "PUT", "/orgs/acme/nodes/n", node).await;
    let text = r#"[{"url":"acme/w","numAgreements":1,"configState":"active","policy":null,"properties":[]}]"#;
    assert_eq!(hub.attribute("/orgs/acme/nodes/n", "registeredServices").await, text);
}

#[tokio::test]
async fn filters_of_services_are_patterns_only_with_a_percent_sign() {
    let hub = Hub::new().await;
    for url in ["l.one", "l_one"] {
        hub.publish(service(url, json!({"deployment": "d", "deploymentSignature": "s"}))).await;
    }
    let (dot, line) = ("acme/l.one_1.0.0_amd64", "acme/l_one_1.0.0_amd64");
    assert_eq!(hub.lists("/orgs/acme/services?url=l_one").await, [line]);
    assert_eq!(hub.lists("/orgs/acme/services?url=l_on%25").await, [dot, line]);
    assert_eq!(hub.lists("/orgs/acme/services?url=l%5Cone").await, [""; 0]);
    assert_eq!(hub.lists("/catalog/services?version=1.%25").await, [dot, line]);
    assert_eq!(hub.lists("/catalog/services?version=1._.0").await, [""; 0]);
    // The catalog ignores words that are no type; lists of an organization take them in any case, and restrict only in small letters.
    assert_eq!(hub.lists("/catalog/services?nodetype=rocket").await, [dot, line]);
    assert_eq!(hub.lists("/orgs/acme/services?nodetype=Cluster").await, [dot, line]);
    assert_eq!(hub.lists("/orgs/acme/services?nodetype=cluster").await, [""; 0]);
    hub.expect(400, OWNER, "GET", "/orgs/acme/services?nodetype=rocket", Value::Null).await;
}

#[tokio::test]
async fn booleans_that_may_be_absent_are_json_booleans() {
    let hub = Hub::new().await;
    hub.publish(service("w", json!({"public": "true"}))).await;
    hub.expect(201, OWNER, "POST", "/orgs/acme/patterns/p", pattern(json!({"public": null}))).await;
    hub.api.make_node(OWNER, "acme", "n").await;
    for wrong in [json!("true"), json!("yes"), json!(1), json!([])] {
        for (login, method, path, body) in [
            (OWNER, "PATCH", "/orgs/acme/services/w_1.0.0_amd64", json!({"public": wrong})),
            (OWNER, "PATCH", "/orgs/acme/patterns/p", json!({"public": wrong})),
            (OWNER, "PUT", "/orgs/acme/patterns/p", pattern(json!({"public": wrong}))),
            (OWNER, "PATCH", "/orgs/acme/nodes/n", json!({"isNamespaceScoped": wrong})),
            (ADMIN, "PATCH", "/orgs/acme/users/v", json!({"admin": wrong})),
            (ROOT, "PATCH", "/orgs/acme/users/v", json!({"hubAdmin": wrong})),
            (ROOT, "PUT", "/orgs/acme/users/v", json!({"password": "p", "email": "e", "hubAdmin": wrong})),
        ] {
            hub.expect(400, login, method, path, body).await;
        }
    }
    hub.expect(201, ADMIN, "PATCH", "/orgs/acme/users/v", json!({"admin": true})).await;
    hub.expect(201, OWNER, "PATCH", "/orgs/acme/nodes/n", json!({"isNamespaceScoped": true})).await;
}

#[tokio::test]
async fn description_of_a_node_policy_is_its_label_when_absent() {
    let hub = Hub::new().await;
    hub.api.make_node(OWNER, "acme", "n").await;
    let path = "/orgs/acme/nodes/n/policy";
    for (body, expected) in [
        (json!({"label": "l"}), "l"),
        (json!({"label": "l", "description": null}), "l"),
        (json!({"label": "l", "description": ""}), ""),
        (json!({}), ""),
    ] {
        hub.expect(201, OWNER, "PUT", path, body).await;
        assert_eq!(hub.get(path).await["description"], expected);
    }
}

#[tokio::test]
async fn hub_admin_confirms_any_user_that_exists() {
    let hub = Hub::new().await;
    let body = json!({"password": "ph", "email": "e", "hubAdmin": true});
    hub.expect(201, ROOT, "POST", "/orgs/root/users/hubert", body).await;
    for name in ["u", "admin"] {
        hub.expect(201, HUB_ADMIN, "POST", &format!("/orgs/acme/users/{name}/confirm"), Value::Null).await;
    }
    hub.expect(404, HUB_ADMIN, "POST", "/orgs/acme/users/nobody/confirm", Value::Null).await;
    hub.expect(404, HUB_ADMIN, "GET", "/orgs/acme/users/u", Value::Null).await;
    hub.expect(403, OWNER, "POST", "/orgs/acme/users/v/confirm", Value::Null).await;
}

#[tokio::test]
async fn negative_limit_of_nodes_allows_none() {
    let hub = Hub::new().await;
    hub.expect(201, ROOT, "PATCH", "/orgs/acme", json!({"limits": {"maxNodes": -1}})).await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""});
    hub.expect(403, OWNER, "PUT", "/orgs/acme/nodes/n", node.clone()).await;
    hub.expect(201, ROOT, "PUT", "/orgs/acme/nodes/n", node.clone()).await;
    hub.expect(201, ROOT, "PATCH", "/orgs/acme", json!({"limits": {"maxNodes": 0}})).await;
    hub.expect(201, OWNER, "PUT", "/orgs/acme/nodes/m", node).await;
}

#[tokio::test]
async fn nobody_gets_a_name_that_means_an_api_key() {
    let hub = Hub::new().await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""});
    let agbot = json!({"token": "t", "name": "a", "publicKey": ""});
    let user = json!({"password": "p", "email": "e"});
    for name in ["apikey", "iamapikey"] {
        hub.expect(400, OWNER, "PUT", &format!("/orgs/acme/nodes/{name}"), node.clone()).await;
        hub.expect(400, OWNER, "PUT", &format!("/orgs/acme/agbots/{name}"), agbot.clone()).await;
        hub.expect(400, ADMIN, "POST", &format!("/orgs/acme/users/{name}"), user.clone()).await;
        hub.expect(400, ADMIN, "PUT", &format!("/orgs/acme/users/{name}"), user.clone()).await;
    }
    hub.expect(400, OWNER, "PUT", "/orgs/acme/nodes/iamtoken", node).await;
    hub.expect(400, ADMIN, "POST", "/orgs/acme/users/ApiKey", user.clone()).await;
    hub.expect(201, ADMIN, "POST", "/orgs/acme/users/iamtoken", user).await;
}

#[tokio::test]
async fn organization_list_skips_entries_that_name_none() {
    let hub = Hub::new().await;
    let agbot = json!({"token": "t", "name": "a", "publicKey": "k"});
    hub.expect(201, ROOT, "PUT", "/orgs/IBM/agbots/a", agbot).await;
    hub.publish(service("w", json!({}))).await;
    for list in [json!(["acme", null]), json!([5, "acme"]), json!(["acme", "no-such-organization"])] {
        let request = json!({"changeId": 0, "maxRecords": 1000, "orgList": list});
        let body = hub.expect(201, "IBM/a:t", "POST", "/orgs/IBM/changes", request).await;
        let changes = body["changes"].as_array().expect("changes");
        assert!(changes.iter().any(|change| change["id"] == "w_1.0.0_amd64"), "{list}: {body}");
    }
    let request = json!({"changeId": 0, "maxRecords": 10, "orgList": [{}]});
    hub.expect(400, "IBM/a:t", "POST", "/orgs/IBM/changes", request).await;
}

#[tokio::test]
async fn node_may_name_only_services_that_its_organization_sees() {
    let hub = Hub::new().await;
    hub.api.make_org("globex").await;
    for (url, is_public) in [("hidden", false), ("open", true)] {
        let body = service(url, json!({"public": is_public}));
        hub.expect(201, "globex/u:pu", "POST", "/orgs/globex/services", body).await;
    }
    hub.api.make_node(OWNER, "acme", "n").await;
    let input =
        |url: &str| json!({"userInput": [{"serviceOrgid": "globex", "serviceUrl": url, "inputs": []}]});
    hub.expect(400, OWNER, "PATCH", "/orgs/acme/nodes/n", input("hidden")).await;
    hub.expect(201, OWNER, "PATCH", "/orgs/acme/nodes/n", input("open")).await;
    hub.expect(201, ROOT, "PATCH", "/orgs/acme/nodes/n", input("hidden")).await;
}

#[tokio::test]
async fn paths_are_resolved_and_other_methods_of_open_routes_are_unknown() {
    let hub = Hub::new().await;
    hub.expect(200, OWNER, "GET", "/orgs/./x/%2e%2E/acme/nodes/../../acme", Value::Null).await;
    hub.expect(404, OWNER, "GET", "/orgs/acme/nodes/..", Value::Null).await;
    hub.expect(401, "acme/u:wrong", "GET", "/admin/version/../../orgs/acme", Value::Null).await;
    hub.expect(201, OWNER, "POST", "/orgs/x/../acme/changes", json!({"maxRecords": 1})).await;
    for path in ["/admin/version", "/test", "/api-docs/swagger.json", "/swagger"] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let body = hub.expect(404, OWNER, method, path, json!({})).await;
            assert_eq!(body["code"], "not-found", "{method} {path}");
            hub.expect(401, "acme/u:wrong", method, path, json!({})).await;
        }
    }
    hub.expect(405, OWNER, "DELETE", "/orgs/acme/nodes", Value::Null).await;
}

#[tokio::test]
async fn refused_credentials_name_the_scheme_and_unknown_paths_come_in_the_format_asked_for() {
    let hub = Hub::new().await;
    let refused = hub.api.send("acme/u:wrong", "GET", "/orgs/acme", &[], &Value::Null).await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["www-authenticate"], r#"Basic realm="Evenkeel", charset="UTF-8""#);
    let polled = json!({"changeId": 0, "maxRecords": 1});
    let refused = hub.api.send("acme/u:wrong", "POST", "/orgs/acme/changes", &[], &polled).await;
    assert!(refused.headers().contains_key("www-authenticate"));
    let found = hub.api.send(OWNER, "GET", "/orgs/acme", &[], &Value::Null).await;
    assert!(!found.headers().contains_key("www-authenticate"));

    for path in ["/../nothing", "/nothing"] {
        for (accept, content_type) in [
            ("application/json", "application/json"),
            ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
        ] {
            let absent = hub.api.send(OWNER, "GET", path, &[("accept", accept)], &Value::Null).await;
            assert_eq!(
                (absent.status().as_u16(), &absent.headers()["content-type"]),
                (404, &content_type.parse().unwrap())
            );
        }
    }
    let plain = hub.api.send(OWNER, "GET", "/../nothing", &[], &Value::Null).await;
    assert_eq!(plain.headers()["content-type"], "text/plain; charset=utf-8");
    let unknown = hub.api.send(OWNER, "GET", "/nothing", &[], &Value::Null).await;
    assert_eq!(read_response(unknown).await.1["code"], "not-found");
}
