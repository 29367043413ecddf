//! A user sees what runs of a policy with tasks, why, and changes it by commands.

use serde_json::json;

use super::Hzn;
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const ORCH: &str = "exchange deployment orchestration";

/// Orchestration 2.8: each command on real processes, as data and as a tree.
#[tokio::test]
async fn commands_show_what_runs_and_why_and_change_it() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    let orchestration = json!({"mode": "replicated", "replicas": 1, "restart": {"delaySeconds": 0},
                               "update": {"monitorSeconds": 1}, "rollback": {"monitorSeconds": 1}});
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    let up = async |count: u64| {
        eventually(&format!("{count} instances are up"), || async {
            let found = hzn.data(&format!("{ORCH} status everywhere"));
            let part = &found["units"][0];
            (part["up"] == count && part["target"] == count).then_some(())
        })
        .await;
    };
    up(1).await;
    eventually("both nodes are listed", || async {
        let found = hzn.data(&format!("{ORCH} status everywhere"));
        (found["units"][0]["instances"].as_array().map(Vec::len) == Some(2)).then_some(())
    })
    .await;
    let done = |line: &str| {
        let response = hzn.run(&format!("{ORCH} {line}"));
        assert_eq!(response.status, 0, "{line}: {}", response.errors);
        response
    };
    let tree = done("status everywhere --output table").output;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[1].starts_with("o/everywhere") && lines[1].contains("replicated 1.0.0"), "{tree}");
    assert!(lines[2].starts_with("└ all") && lines[2].contains("1 of 1 up"), "{tree}");
    assert!(lines[3].starts_with("  ├ edge-") && lines[3].contains("idle, started"), "{tree}");
    assert!(lines[4].starts_with("  └ edge-") && lines.len() == 5, "{tree}");
    hzn.refused(8, &format!("{ORCH} status none"));
    hzn.refused(8, &format!("{ORCH} status everywhere --unit none"));
    assert_eq!(hzn.data(&format!("{ORCH} status everywhere -u all"))["units"][0]["unit"], "all");
    let tasks = hzn.data(&format!("{ORCH} tasks everywhere --slot 1"));
    assert_eq!((&tasks[0]["state"], &tasks[0]["version"]), (&json!("running"), &json!("1.0.0")), "{tasks}");
    let explained = done("explain everywhere --json").output;
    assert!(explained.contains("\"requested\": 1"), "{explained}");
    let node = tasks[0]["node"].as_str().unwrap_or_default().to_owned();
    let other = if node == "edge-1" { "edge-2" } else { "edge-1" };
    let why = done(&format!("explain everywhere --node {other} --output table")).output;
    assert!(why.contains("not needed, rank"), "{why}");

    done("scale everywhere 2");
    up(2).await;
    done("set everywhere restart.maxAttempts=3 replicas=1");
    up(1).await;
    hzn.refused(3, &format!("{ORCH} set everywhere replcas=2"));
    done("freeze everywhere --wait");
    assert!(hzn.refused(5, &format!("{ORCH} freeze everywhere")).contains("is frozen already"));
    done("thaw everywhere --wait=1m");
    done("stop everywhere --wait=1m");
    assert_eq!(fleet.instances(), 0);
    done("start everywhere --wait=1m");
    assert_eq!(fleet.instances(), 1);

    fleet.want_with(&hub, "2.0.0", json!({"orchestration": orchestration})).await;
    eventually("version 2 runs", || async {
        fleet.versions().values().any(|version| version == "2.0.0").then_some(())
    })
    .await;
    done("update everywhere status --wait=1m");
    done("update everywhere rollback --wait=1m");
    let update = hzn.data(&format!("{ORCH} update everywhere status"));
    assert_eq!(update["state"], "rollback-completed", "{update}");
    let rollouts = hzn.run("rollout status everywhere --output table").output;
    assert!(rollouts.contains("rollback-completed"), "{rollouts}");
    let events = hzn.data(&format!("{ORCH} events everywhere --kind update.*"));
    let kinds: Vec<&str> =
        events.as_array().into_iter().flatten().filter_map(|event| event["kind"].as_str()).collect();
    assert!(kinds.contains(&"update.rollback-completed"), "{kinds:?}");
    // The same document again says nothing new about the version that was rolled back; a user does.
    fleet.want_with(&hub, "2.0.0", json!({"orchestration": orchestration})).await;
    done("set everywhere replicas=2");
    up(2).await;
    let update = hzn.data(&format!("{ORCH} update everywhere status"));
    assert_eq!(update["state"], "rollback-completed", "{update}");
    assert!(fleet.versions().values().all(|version| version == "1.0.0"), "{:?}", fleet.versions());
    let retried = hzn.run("rollout retry everywhere");
    assert_eq!(retried.status, 0, "{}", retried.errors);
    done("update everywhere status --wait=1m");
    assert!(fleet.all_run("2.0.0"), "{:?}", fleet.versions());
    let tree = hzn.run("mon --once --output table").output;
    assert!(tree.contains("o/everywhere"), "{tree}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
