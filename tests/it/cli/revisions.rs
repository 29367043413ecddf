//! Commands show who changed a document and why, and write an earlier state of it with all questions of a write.

use serde_json::{Value, json};

use super::{Hzn, hub_with_two_nodes, policy, up};
use crate::support::Scratch;

#[tokio::test]
async fn undo_asks_as_the_write_does_and_restores_what_was_removed() {
    let scratch = Scratch::new();
    let (hub, fleet, hzn) = hub_with_two_nodes(&scratch).await;
    let add = |replicas: u32, reason: &str| {
        hzn.write("policy.json", &policy(replicas));
        hzn.done(&format!("exchange deployment addpolicy web -f policy.json --reason {reason}"));
    };
    add(0, "prepared");
    add(2, "started");
    up(&hzn, "web", 2).await;
    let found = hzn.data("exchange deployment revisions web");
    let shown = |one: &Value| [one["author"].clone(), one["operation"].clone(), one["reason"].clone()];
    assert_eq!(shown(&found[0]), [json!("root/root"), json!("update"), json!("started")]);
    assert_eq!(shown(&found[1]), [json!("root/root"), json!("create"), json!("prepared")]);
    let table = hzn.run("exchange deployment revisions web --limit 1 --output table").output;
    assert!(
        table.starts_with("REVISION") && table.contains("started") && !table.contains("prepared"),
        "{table}"
    );
    let changed = hzn.data("exchange deployment revisions web --diff 1 2");
    assert_eq!(changed["changes"], json!([{"path": "orchestration.replicas", "from": 0, "to": 2}]));
    assert_eq!(changed["patch"][0]["path"], "/orchestration/replicas");
    let first = hzn.data("exchange deployment revisions web --show 1");
    assert_eq!(first["document"]["orchestration"]["replicas"], 0);

    let refused = hzn.refused(1, "exchange deployment undo web --to 1");
    let all = "this write stops 2 of 2 instances of deployment policy o/web";
    assert!(refused.contains(all) && refused.contains("give --force"), "{refused}");
    assert!(refused.contains("is at revision 2; this writes revision 1"), "{refused}");
    let denied = hzn.run_with("exchange deployment undo web --to 1", "n\n");
    assert!(denied.status == 0 && denied.errors.contains("nothing was written"), "{}", denied.errors);
    assert_eq!(hzn.data("exchange deployment revisions web").as_array().map(Vec::len), Some(2));
    hzn.done("exchange deployment undo web --to 1 --force --reason rollback");
    up(&hzn, "web", 0).await;
    assert_eq!(shown(&hzn.data("exchange deployment revisions web")[0])[2], "rollback");

    hzn.done("exchange deployment removepolicy web -f");
    let refused = hzn.refused(1, "exchange deployment undo web --to 4");
    assert!(refused.contains("revision 4 is the removal"), "{refused}");
    hzn.done("exchange deployment undo web --to 2");
    up(&hzn, "web", 2).await;
    let newest = hzn.data("exchange deployment revisions web --limit 1");
    assert_eq!((newest[0]["revision"].clone(), newest[0]["operation"].clone()), (json!(5), json!("create")));
    hzn.refused(8, "exchange deployment undo web --to 77");
    hzn.refused(8, "exchange deployment revisions absent");
    hzn.refused(1, "exchange deployment undo web --to 0");
    other_documents(&hzn);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Each kind has the same commands.
fn other_documents(hzn: &Hzn) {
    hzn.write("nmp.json", &json!({"label": "a", "constraints": ["a == b"], "enabled": false}));
    hzn.done("exchange nmp add fw -f nmp.json");
    hzn.done("exchange nmp enable fw --reason go");
    hzn.done("exchange nmp undo fw --to 1");
    hzn.write("node.json", &json!({"properties": [{"name": "site", "value": "x"}], "constraints": []}));
    let node_policy = hzn.data("exchange node listpolicy edge-1");
    hzn.done("exchange node addpolicy edge-1 -f node.json --force --reason moved");
    let found = hzn.data("exchange node policyrevisions edge-1");
    // The agent may have written its own properties into it since.
    let moved = found.as_array().and_then(|all| all.iter().position(|one| one["reason"] == "moved"));
    let before = found[moved.expect("the reason") + 1]["revision"].as_i64().expect("what it was before");
    hzn.done(&format!("exchange node undopolicy edge-1 --to {before} --force"));
    assert_eq!(hzn.data("exchange node listpolicy edge-1")["properties"], node_policy["properties"]);
    hzn.done("exchange node orchestration freeze edge-1");
    hzn.done("exchange node orchestration undo edge-1 --to 1");
    assert_eq!(hzn.data("exchange node orchestration revisions edge-1").as_array().map(Vec::len), Some(3));
    hzn.done("exchange orchestration settings set nodeDownAfterSeconds=600");
    hzn.done("exchange orchestration settings set nodeDownAfterSeconds=700");
    hzn.done("exchange orchestration settings undo --to 1");
    let settings = hzn.data("exchange orchestration settings revisions --diff 1 3");
    assert_eq!(settings["changes"], json!([]));
    let group = hzn.data("exchange hagroup list g")["o/g"]["description"].clone();
    hzn.done("exchange hagroup update g --description changed");
    let found = hzn.data("exchange hagroup revisions g");
    let before = found[1]["revision"].as_i64().expect("what it was before");
    hzn.done(&format!("exchange hagroup undo g --to {before}"));
    assert_eq!(hzn.data("exchange hagroup list g")["o/g"]["description"], group);
    let service = hzn.data("exchange service list").as_array().and_then(|all| all.first().cloned());
    let service = service.as_ref().and_then(Value::as_str).expect("a service");
    hzn.done(&format!("exchange service undo {service} --to 1"));
    hzn.write("service.json", &json!({"properties": [], "constraints": ["a == b"]}));
    hzn.done(&format!("exchange service addpolicy {service} -f service.json"));
    hzn.done(&format!("exchange service removepolicy {service} -f"));
    hzn.done(&format!("exchange service undopolicy {service} --to 1"));
    assert_eq!(
        hzn.data(&format!("exchange service policyrevisions {service}")).as_array().map(Vec::len),
        Some(3)
    );
}
