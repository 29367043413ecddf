//! An administrator keeps an organization in files and applies them; a shell asks for names of the hub.

use serde_json::{Value, json};

use super::Hzn;
use crate::support::wait::must;
use crate::support::{Hub, Scratch};

fn service(version: &str) -> String {
    format!(
        "kind: service
spec:
  url: cam
  version: {version}
  arch: amd64
  label: line1
  deployment: {{services: {{cam: {{command: [/bin/sleep, '600']}}}}}}
"
    )
}

const OVERRIDES: &str = "{services: {cam: {environment: [MODE=fast]}}}";

fn policy(version: &str) -> String {
    format!(
        "kind: policy
name: cameras
spec:
  label: line1
  service: {{name: cam, org: $HZN_ORG_ID, arch: '*', serviceVersions: [{{version: {version}, deployment_overrides: {OVERRIDES}}}]}}
  constraints: [openhorizon.hagroup == line]
"
    )
}

const GROUP: &str = "kind: hagroup\nname: line\nspec: {description: line1, members: [n1, n2]}\n";
const NMP: &str = "kind: nmp
name: firmware
spec: {label: line1, enabled: false, constraints: [a == b], properties: [], agentUpgradePolicy: {manifest: IBM/m, allowDowngrade: false}}
";

/// Kinds with their actions, as the command reports them.
fn actions(found: &Value) -> Vec<(&str, &str)> {
    let steps = found.as_array().expect("a list").iter();
    steps
        .map(|step| (step["kind"].as_str().unwrap_or_default(), step["action"].as_str().unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn documents_are_applied_with_their_changes_and_surplus_is_pruned() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.done("exchange org create acme -d plant");
    hzn.done("exchange user create ann secret ann@acme.com -A");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:secret".to_owned());
    for node in ["n1", "n2"] {
        hzn.done(&format!("exchange node create {node}:token-{node} -a amd64"));
    }
    // The agbot learns of a group that comes and goes.
    hzn.done("exchange hagroup create early --nodeId n1 --wait=60s");
    hzn.done("exchange hagroup remove early -f --wait=60s");
    assert_eq!(hzn.run("key create -l 2048").status, 0);
    let directory = scratch.join("plant");
    must(std::fs::create_dir(&directory), "a directory");
    let write = |name: &str, text: String| must(std::fs::write(directory.join(name), text), "a file");
    write("a.yaml", [&policy("1.0.0"), NMP, GROUP].join("---\n"));
    write("b.yml", service("1.0.0"));

    let created = [("service", "create"), ("hagroup", "create"), ("policy", "create"), ("nmp", "create")];
    assert_eq!(actions(&hzn.data("apply -f plant --dry-run")), created);
    assert_eq!(hzn.data("exchange hagroup list"), json!([]), "nothing was done");
    assert_eq!(actions(&hzn.data("apply -f plant")), created);
    assert_eq!(hzn.data("exchange hagroup list line")["acme/line"]["members"], json!(["n1", "n2"]));
    assert!(actions(&hzn.data("apply -f plant")).iter().all(|(_, action)| *action == "unchanged"));

    write("a.yaml", [&policy("2.0.0"), GROUP].join("---\n"));
    write("c.yaml", service("2.0.0"));
    let found = hzn.data("apply -f plant --prune line1");
    let expected = [
        ("service", "unchanged"),
        ("service", "create"),
        ("hagroup", "unchanged"),
        ("policy", "update"),
        ("nmp", "remove"),
    ];
    assert_eq!(actions(&found), expected);
    let change = json!({"path": "service.serviceVersions[0].version", "from": "1.0.0", "to": "2.0.0"});
    assert_eq!(found[3]["changes"], json!([change]));
    assert_eq!(hzn.data("exchange nmp list"), json!([]));
    hzn.refused(4, "apply -f plant/missing.yaml");
    write("d.yaml", policy("1.0.0"));
    let token =
        hzn.data("plan -f plant/d.yaml --output json")["token"].as_str().unwrap_or_default().to_owned();
    assert!(
        hzn.refused(1, "apply -f plant/d.yaml --check-token other").contains("has changed since the plan")
    );
    assert!(hzn.refused(1, &format!("apply -f plant/c.yaml --check-token {token}")).contains("hold 0"));
    let applied = hzn.data(&format!("apply -f plant/d.yaml --check-token {token}"));
    assert_eq!(actions(&applied), [("policy", "update")]);
    names_of_the_hub(&hzn);
}

fn names_of_the_hub(hzn: &Hzn) {
    let offered = |line: &str| {
        let response = hzn.run(&format!("__complete {line}"));
        assert_eq!(response.status, 0, "{}", response.errors);
        response.output.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(offered("hzn exchange node list n"), ["n1", "n2"]);
    assert_eq!(offered("hzn explain n1 cam"), ["cameras"]);
    assert_eq!(offered("evenkeel hzn exchange hagroup list l"), ["line"]);
    assert_eq!(offered("hzn exchange hagr"), ["hagroup"]);
}
