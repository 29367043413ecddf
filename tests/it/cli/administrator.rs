//! An administrator sets up an organization, its services and an HA group, and asks why a node gets nothing.

use serde_json::{Value, json};

use super::{Hzn, is_owner_only};
use crate::support::{Hub, Scratch};

fn node_policy(site: &str) -> Value {
    json!({"properties": [{"name": "site", "value": site}], "constraints": ["purpose == watch"]})
}

fn service(version: &str) -> Value {
    json!({
        "org": "$HZN_ORG_ID", "label": "cam", "url": "cam", "version": version, "arch": "amd64",
        "deployment": {"services": {"cam": {"command": ["/bin/sleep", "600"]}}},
    })
}

fn policy(purpose: &str) -> Value {
    json!({
        "label": "cameras",
        "service": {"name": "cam", "org": "acme", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
        "properties": [{"name": "purpose", "value": purpose}],
        "constraints": ["site == north AND level >= 2"],
    })
}

/// An organization with an administrator `ann`, nodes `n1` to `n3`, a signed service and a deployment policy.
fn set_up(hzn: &mut Hzn) {
    hzn.done("exchange org create acme -d plant");
    let why = hzn.refused(5, "exchange org create acme -d plant");
    assert!(why.contains("exchange org update acme"), "{why}");
    let made = hzn.run_with("exchange user create ann - ann@acme.com -A", "first password\n");
    assert_eq!(made.status, 0, "{}", made.errors);
    assert!(!made.errors.contains("first password"), "a secret was shown: {}", made.errors);
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:first password".to_owned());
    for (node, site) in [("n1", "north"), ("n2", "north"), ("n3", "south")] {
        hzn.done(&format!("exchange node create {node}:token-{node} -a amd64"));
        hzn.write("policy.json", &node_policy(site));
        hzn.done(&format!("exchange node addpolicy {node} -f policy.json"));
    }
    assert_eq!(hzn.run("key create -l 2048").status, 0);
    assert!(is_owner_only(&hzn.home.join(".hzn/keys/service.private.key")));
    hzn.write("service.json", &service("1.0.0"));
    hzn.done("exchange service publish -f service.json");
    hzn.write("deployment.json", &policy("watch"));
    hzn.done("exchange deployment addpolicy cameras -f deployment.json");
}

/// E2-S7, and what else administrators do with groups, services and policies.
#[tokio::test]
async fn administrator_works_with_groups_services_and_policies() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    for line in ["exchange -o typo node list", "exchange -o typo hagroup list", "agbot -o typo rollouts"] {
        let why = hzn.refused(8, line);
        assert!(why.contains("organization typo"), "hzn {line}: {why}");
    }
    set_up(&mut hzn);
    lists_and_forms(&hzn);
    signatures(&hzn);
    signed_overrides(&hzn);
    groups(&hzn);
    settings_of_policies(&hzn);
    emptying_a_node(&hzn);
    checks_and_explanations(&hzn);
    wrong_names(&hzn);
    failures(&mut hzn);
}

fn lists_and_forms(hzn: &Hzn) {
    assert_eq!(hzn.data("exchange node list"), json!(["acme/n1", "acme/n2", "acme/n3"]));
    assert_eq!(hzn.data("exchange node list n1 -l")["acme/n1"]["arch"], "amd64");
    let table = hzn.run("exchange node list --output table").output;
    assert!(table.starts_with("NODE") && table.lines().count() == 4, "{table}");
    assert_eq!(hzn.run("exchange service list --output yaml").output, "- acme/cam_1.0.0_amd64\n");
    assert_eq!(hzn.data("exchange business listpolicy cameras")["acme/cameras"]["label"], "cameras");
    assert_eq!(hzn.run("exchange version").output, "2.154.0\n");
    let dry = hzn.run("exchange node remove n1 --dry-run -v");
    assert!(dry.status == 0 && dry.errors.contains("dry run: DELETE"), "{}", dry.errors);
    assert!(!dry.errors.contains("removed"), "nothing was removed: {}", dry.errors);
    let dry = hzn.run("exchange user create bob top-secret bob@acme.com --dry-run");
    let sent = "dry run: POST";
    assert!(dry.errors.contains(sent) && dry.errors.contains("bob@acme.com"), "{}", dry.errors);
    assert!(!dry.errors.contains("created") && !dry.errors.contains("top-secret"), "{}", dry.errors);
    let dry = hzn.run("exchange user create plan top-secret plan@acme.com --dry-run");
    assert!(dry.errors.contains(sent), "the name is not that of a plan: {}", dry.errors);
    let dry = hzn.run("exchange deployment addpolicy cameras -f deployment.json --dry-run --wait");
    assert!(dry.status == 0 && dry.errors.contains("dry run: PUT"), "it is there: {}", dry.errors);
    hzn.refused(8, "exchange node remove typo -f --dry-run");
    assert_eq!(hzn.data("exchange node list").as_array().map(Vec::len), Some(3));
}

fn signatures(hzn: &Hzn) {
    assert_eq!(hzn.data("exchange service listkey cam_1.0.0_amd64"), json!(["service.public.pem"]));
    assert_eq!(hzn.run("exchange service verify cam_1.0.0_amd64").status, 0);
    assert_eq!(hzn.run("key create -l 2048 -d other").status, 0);
    hzn.refused(9, "exchange service verify cam_1.0.0_amd64 -k other/service.public.pem");
    hzn.refused(1, "exchange service publish -f service.json");
    hzn.done("exchange service publish -f service.json -O");
    let signature = hzn.run_with("util sign", "a text").output;
    let verify = format!("util verify -s {signature}");
    assert_eq!(hzn.run_with(&verify, "a text").status, 0);
    assert_eq!(hzn.run_with(&verify, "another text").status, 9);
}

/// Overrides that are given as an object are sent as text with a signature.
fn signed_overrides(hzn: &Hzn) {
    let overrides = json!({"services": {"cam": {"environment": ["MODE=fast"]}}});
    let versions = json!([{"version": "1.0.0", "deployment_overrides": overrides}]);
    let is_signed = |version: &Value| {
        assert_eq!(version["deployment_overrides"], overrides.to_string());
        let signature = version["deployment_overrides_signature"].as_str().unwrap_or_default();
        assert_eq!(hzn.run_with(&format!("util verify -s {signature}"), &overrides.to_string()).status, 0);
    };
    let service = json!({
        "serviceUrl": "cam", "serviceOrgid": "acme", "serviceArch": "amd64", "serviceVersions": versions,
    });
    hzn.write("pattern.json", &json!({"label": "fast", "public": false, "services": [service]}));
    hzn.done("exchange pattern publish -p fast -f pattern.json");
    let key = "service.public.pem is stored with pattern acme/fast";
    let again = hzn.run("exchange pattern publish -p fast -f pattern.json");
    assert!(again.status == 0 && again.errors.contains(key), "{}", again.errors);
    is_signed(&hzn.data("exchange pattern list fast")["acme/fast"]["services"][0]["serviceVersions"][0]);
    hzn.done("exchange pattern remove fast -f");
    let mut deployment = policy("fast");
    deployment["service"]["serviceVersions"] = versions;
    hzn.write("fast.json", &deployment);
    hzn.done("exchange deployment addpolicy fast -f fast.json");
    let stored = |hzn: &Hzn| hzn.data("exchange deployment listpolicy fast")["acme/fast"].clone();
    is_signed(&stored(hzn)["service"]["serviceVersions"][0]);
    hzn.write("fast.json", &json!({"service": deployment["service"]}));
    hzn.done("exchange deployment updatepolicy fast -f fast.json");
    is_signed(&stored(hzn)["service"]["serviceVersions"][0]);
    hzn.done("exchange deployment removepolicy fast -f");
}

fn groups(hzn: &Hzn) {
    hzn.done("exchange hagroup create pair --nodeId n1 --nodeId n2");
    hzn.refused(5, "exchange hagroup create other --nodeId n2 --nodeId n3");
    assert_eq!(
        hzn.data("exchange node list n3")["acme/n3"]["ha_group"],
        Value::Null,
        "nothing of it is stored"
    );
    hzn.refused(8, "exchange hagroup create other --nodeId nobody");
    hzn.done("exchange hagroup update pair --nodeId n1 --nodeId n3");
    assert_eq!(hzn.data("exchange hagroup list pair")["acme/pair"]["members"], json!(["n1", "n3"]));
    assert_eq!(hzn.data("exchange hagroup list"), json!(["acme/pair"]));
    hzn.write("group.json", &json!({"name": "spare", "description": "one", "members": ["n2"]}));
    hzn.done("exchange hagroup add -f group.json");
    hzn.done("exchange hagroup add -f group.json");
    let taken = hzn.refused(1, "exchange hagroup member add pair -m n2");
    assert!(taken.contains("n2 is in spare"), "{taken}");
    assert_eq!(hzn.run_with("exchange hagroup delete spare", "n\n").status, 0);
    assert_eq!(hzn.data("exchange hagroup list").as_array().map(Vec::len), Some(2), "the user declined");
    hzn.done("exchange hagroup delete spare -f");
    hzn.done("exchange hagroup member add pair -m n2");
    hzn.refused(8, "exchange hagroup delete spare -f");
}

/// The settings of a policy for placement and updates are passed on unchanged (orchestration 1.2).
fn settings_of_policies(hzn: &Hzn) {
    let own = json!({"ha": {"minRunning": 2}, "update": {"delaySeconds": 30}});
    let mut whole = self::policy("clean");
    whole["orchestration"] = own.clone();
    hzn.write("whole.json", &whole);
    hzn.done("exchange deployment addpolicy orchestrated -f whole.json");
    let listed = || hzn.data("exchange deployment listpolicy orchestrated")["acme/orchestrated"].clone();
    assert_eq!(listed()["orchestration"], own);
    hzn.write("own.json", &json!({"orchestration": {"orchestrate": "start"}}));
    let why = hzn.refused(3, "exchange deployment updatepolicy orchestrated -f own.json");
    assert!(why.contains("orchestration.orchestrate start needs the mode failover or flex"), "{why}");
    assert_eq!(listed()["orchestration"], own);
    hzn.write("own.json", &json!({"orchestration": null}));
    hzn.done("exchange deployment updatepolicy orchestrated -f own.json");
    assert_eq!(listed().get("orchestration"), None);
    hzn.done("exchange deployment removepolicy orchestrated -f");
}

/// Orchestration 1.7.
fn emptying_a_node(hzn: &Hzn) {
    let shown = || hzn.data("exchange node orchestration show n1")["spec"]["availability"].clone();
    assert_eq!(shown(), "active");
    let drained = hzn.run("exchange node orchestration set n1 --availability drain --wait=30s");
    assert!(drained.errors.contains("node acme/n1 is drained"), "{}", drained.errors);
    assert_eq!((drained.status, drained.output.as_str()), (0, ""), "{}", drained.errors);
    assert!(drained.errors.contains("hzn agbot agreement list --node acme/n1"), "{}", drained.errors);
    assert!(drained.errors.contains("hzn explain acme/n1 POLICY"), "{}", drained.errors);
    assert_eq!(shown(), "drain");
    assert_eq!(
        hzn.data("exchange node list n1")["acme/n1"]["orchestration"],
        json!({"availability": "drain"})
    );
    let table = hzn.run("exchange node orchestration show n1 --output table").output;
    assert!(table.lines().any(|line| line.split_whitespace().eq(["availability", "drain"])), "{table}");
    assert_eq!(hzn.data("agbot agreement list --node acme/n1"), json!([]));
    hzn.refused(1, "exchange node orchestration set n1 --availability drained");
    hzn.refused(1, "exchange node orchestration set n1");
    hzn.refused(8, "exchange node orchestration set nobody --availability drain");
    hzn.refused(8, "exchange node orchestration show nobody");
    hzn.refused(5, "exchange node orchestration set n1 --availability active -n n1:token-n1");
    hzn.done("exchange node orchestration set n1 --availability active");
    assert_eq!(shown(), "active");
    assert_eq!(hzn.data("exchange node list n1")["acme/n1"].get("orchestration"), None);
}

/// The members of a group are compared: E2-S7.
fn checks_and_explanations(hzn: &Hzn) {
    // n1 and n2 lack a level, n3 has the wrong site too.
    let response = hzn.run("deploycheck --checkHA -n n1 -b cameras");
    assert_eq!(response.status, 0, "{}", response.errors);
    let found: Value = serde_json::from_str(&response.output).expect("JSON");
    assert_eq!(hzn.run("deploycheck --checkHA -n n1 -b cameras --exit-code").status, 2);
    assert_eq!(found["allMembersCompatible"], json!(false));
    assert_eq!(found.as_object().map(serde_json::Map::len), Some(4), "three members and the summary");
    assert!(
        response.errors.contains("acme/n3 of HA group acme/pair will not get cam"),
        "{}",
        response.errors
    );
    let policy = json!({"properties": [{"name": "site", "value": "north"}, {"name": "level", "value": 2}]});
    hzn.write("policy.json", &policy);
    hzn.done("exchange node addpolicy n1 -f policy.json");
    let found = hzn.data("deploycheck policy --ha-group pair -b cameras");
    assert_eq!(
        (&found["acme/n1"]["compatible"], &found["acme/n3"]["compatible"]),
        (&json!(true), &json!(false))
    );
    hzn.done("exchange node orchestration set n1 --availability pause");
    let found = hzn.data("deploycheck policy -n n1 -b cameras");
    assert_eq!(
        (&found["compatible"], &found["reason"]["general"]),
        (&json!(false), &json!("Not Placed: the node is paused; nothing is placed or updated on it"))
    );
    hzn.done("exchange node orchestration set n1 --availability active");
    hzn.write("own.json", &json!({"orchestration": {"scope": {"type": "hagroups", "haGroups": ["line"]}}}));
    hzn.done("exchange deployment updatepolicy cameras -f own.json");
    let found = hzn.data("explain n1 cameras");
    assert_eq!(found["failing"][0]["class"], "not_placed");
    assert_eq!(found["failing"][0]["text"], "the policy is for members of acme/line only");
    hzn.write("own.json", &json!({"orchestration": null}));
    hzn.done("exchange deployment updatepolicy cameras -f own.json");
    hzn.write("other.json", &self::policy("clean"));
    hzn.done("exchange deployment updatepolicy cameras -f other.json");
    hzn.write("label.json", &json!({"label": "new"}));
    hzn.done("exchange deployment updatepolicy cameras -f label.json");
    assert_eq!(hzn.data("exchange deployment listpolicy cameras")["acme/cameras"]["label"], "new");
    let found = hzn.data("explain n3 cameras");
    let reported: Vec<(&str, &str, &Value)> = found["failing"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["side"].as_str().unwrap_or(""), one["clause"].as_str().unwrap_or(""), &one["actual"]))
        .collect();
    assert!(reported.contains(&("deployment-policy", "site == north", &json!("south"))), "{reported:?}");
    assert!(reported.contains(&("deployment-policy", "level >= 2", &Value::Null)), "{reported:?}");
    assert!(reported.contains(&("node", "purpose == watch", &json!("clean"))), "{reported:?}");
}

/// A name that does not exist is an error wherever it is given, and a result without entries is not one.
fn wrong_names(hzn: &Hzn) {
    assert_eq!(hzn.data("rollout status cameras"), json!([]));
    assert_eq!(hzn.data("agbot agreement list --node n1"), json!([]));
    assert_eq!(hzn.data("exchange node listerrors n1"), json!([]));
    for line in [
        "rollout status typo",
        "rollout status --group typo",
        "rollout pause typo",
        "rollout pause cameras --group typo",
        "agbot reasons --node typo",
        "agbot reasons --policy typo",
        "agbot agreement list --node typo",
        "exchange hagroup upgrades typo",
        "exchange hagroup free typo -f",
        "exchange node listpolicy typo",
        "exchange node removepolicy typo -f",
        "exchange node listerrors typo",
        "exchange node liststatus typo",
        "exchange node management status typo",
        "exchange node management status n1 -p typo",
        "exchange nmp status typo",
        "exchange service listpolicy typo_1.0.0_amd64",
        "exchange service listkey typo_1.0.0_amd64",
        "exchange service removekey cam_1.0.0_amd64 typo",
        "exchange service listauth typo_1.0.0_amd64",
        "exchange agbot listdeploymentpol typo",
        "explain typo cameras",
        "deploycheck -n typo -b cameras",
    ] {
        let why = hzn.refused(8, line);
        assert!(why.contains("typo"), "hzn {line}: {why}");
    }
}

fn failures(hzn: &mut Hzn) {
    hzn.refused(8, "exchange node list nobody");
    let help = hzn.run("exchange node");
    assert!(help.status == 1 && help.errors.contains("Usage: hzn exchange node"), "{}", help.errors);
    let help = hzn.run("exchange node");
    assert!(help.status == 1 && help.errors.contains("Usage: hzn exchange node"), "{}", help.errors);
    hzn.refused(1, "exchange nodes list");
    hzn.refused(1, "deploycheck policy -n n1");
    hzn.refused(4, "exchange node addpolicy n1 -f missing.json");
    std::fs::write(hzn.home.join("broken.json"), "{").expect("a file");
    hzn.refused(3, "exchange node addpolicy n1 -f broken.json");
    hzn.write("unset.json", &json!({"properties": [{"name": "site", "value": "$SITE"}]}));
    let why = hzn.refused(1, "exchange node addpolicy n1 -f unset.json --strict");
    assert!(why.contains("unset.json") && why.contains("SITE"), "{why}");
    hzn.refused(5, "exchange node list -u ann:wrong");
    hzn.set("HORIZON_URL", "http://127.0.0.1:1".to_owned());
    let why = hzn.refused(5, "node list");
    assert!(why.contains("no agent responds") && !why.contains("no hub"), "{why}");
    let hub = hzn.settings.iter().find(|(name, _)| *name == "HZN_EXCHANGE_URL");
    let hub = hub.map(|(_, url)| url.clone()).unwrap_or_default();
    hzn.set("HZN_EXCHANGE_URL", hub.replace("http://", "https://"));
    let why = hzn.refused(5, "exchange node list");
    assert!(why.contains(&format!("set HZN_EXCHANGE_URL to {hub}")), "{why}");
    hzn.set("HZN_EXCHANGE_URL", String::new());
    let why = hzn.refused(1, "exchange node list");
    assert!(why.contains("HZN_EXCHANGE_URL"), "{why}");
}
