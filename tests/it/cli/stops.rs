//! Writes that stop running instances show beforehand how many of how many, and ask when these are all.

use serde_json::{Value, json};

use super::{Hzn, hub_with_two_nodes, policy, up};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const ALL: &str = "this write stops 2 of 2 instances of deployment policy o/everywhere";

/// A policy with the label `line1`, as a document for `apply`.
fn document(replicas: u32) -> Value {
    json!({"kind": "policy", "name": "everywhere", "spec": policy(replicas)})
}

#[tokio::test]
async fn writes_that_stop_all_instances_ask_and_those_that_stop_some_only_say_so() {
    let scratch = Scratch::new();
    let (hub, fleet, hzn) = hub_with_two_nodes(&scratch).await;
    let write = |replicas: u32| hzn.write("policy.json", &document(replicas));
    write(2);
    assert_eq!(hzn.data("apply -f policy.json")[0]["action"], "create");
    up(&hzn, "everywhere", 2).await;

    // All of them, and nobody to ask.
    write(0);
    let refused = hzn.refused(1, "apply -f policy.json");
    assert!(refused.contains(ALL) && refused.contains("give --force"), "{refused}");
    let empty = scratch.join("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let refused = hzn.refused(1, "apply -f empty --prune line1 --allow-empty");
    assert!(refused.contains(ALL) && refused.contains("give --force"), "{refused}");
    let denied = hzn.run_with("apply -f policy.json", "n\n");
    assert!(denied.status == 0 && denied.errors.contains("nothing was written"), "{}", denied.errors);
    for line in ["removepolicy everywhere", "removepolicy everywhere --skip-children"] {
        let refused = hzn.refused(1, &format!("exchange deployment {line}"));
        assert!(refused.contains(ALL) && refused.contains("give -f"), "{refused}");
    }
    let most = ALL.replace("stops 2", "stops at most 2");
    for line in ["remove g", "member remove g -m edge-1 -m edge-2"] {
        let refused = hzn.refused(1, &format!("exchange hagroup {line}"));
        assert!(refused.contains(&most) && refused.contains("give -f"), "{refused}");
    }
    up(&hzn, "everywhere", 2).await;

    // Some of them.
    write(1);
    let applied = hzn.run("apply -f policy.json");
    assert_eq!(applied.status, 0, "{}", applied.errors);
    assert!(applied.errors.contains(&ALL.replace("2 of 2", "1 of 2")), "{}", applied.errors);
    assert!(!applied.errors.contains("Stop all"), "{}", applied.errors);
    up(&hzn, "everywhere", 1).await;

    // All of them, confirmed in advance.
    let one = ALL.replace("2 of 2", "1 of 1");
    write(0);
    let applied = hzn.run("apply -f policy.json --force");
    assert!(applied.status == 0 && applied.errors.contains(&one), "{}", applied.errors);
    up(&hzn, "everywhere", 0).await;
    write(1);
    assert!(!hzn.run("apply -f policy.json").errors.contains("this write stops"));
    up(&hzn, "everywhere", 1).await;
    let removed = hzn.run("exchange deployment removepolicy everywhere -f");
    assert!(removed.status == 0 && removed.errors.contains(&one), "{}", removed.errors);
    eventually("nothing runs", || async { (fleet.instances() == 0).then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn writes_of_what_policies_depend_on_show_what_they_stop() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": {"mode": "global"}})).await;
    eventually("both run", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    let some = "this write stops at most 1 of 2 instances of deployment policy o/everywhere";
    hzn.write("members.json", &json!({"name": "g", "description": "d", "members": ["edge-2"]}));
    hzn.write("node.json", &json!({"properties": [], "constraints": ["openhorizon.service.url == other"]}));
    hzn.write("same.json", &json!({"properties": [{"name": "site", "value": "x"}], "constraints": []}));
    let of_no_policy = hzn.run("exchange orchestration settings set nodeDownAfterSeconds=600");
    assert!(of_no_policy.status == 0 && !of_no_policy.errors.contains("stops"), "{}", of_no_policy.errors);
    for line in [
        "exchange hagroup update -f members.json",
        "exchange node updatepolicy edge-1 -f node.json",
        "exchange node addpolicy edge-1 -f node.json",
    ] {
        let shown = hzn.run(&format!("{line} --dry-run"));
        assert!(shown.status == 0 && shown.errors.contains(some), "{line}: {}", shown.errors);
    }
    let shown = hzn.run("exchange node addpolicy edge-1 -f same.json --dry-run");
    assert!(shown.status == 0 && !shown.errors.contains("stops"), "{}", shown.errors);
    let refused = hzn.refused(1, "exchange hagroup member remove g -m edge-1");
    assert!(refused.contains(some) && refused.contains("give -f"), "{refused}");

    hzn.done("exchange hagroup member remove g -m edge-1 -f");
    eventually("one is left", || async { (fleet.instances() == 1).then_some(()) }).await;
    let refused = hzn.refused(1, "exchange node updatepolicy edge-2 -f node.json");
    assert!(refused.contains(&some.replace("of 2", "of 1")) && refused.contains("give --force"), "{refused}");
    let denied = hzn.run_with("exchange node updatepolicy edge-2 -f node.json", "n\n");
    assert!(denied.status == 0 && denied.errors.contains("nothing was written"), "{}", denied.errors);
    assert_eq!(fleet.instances(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
