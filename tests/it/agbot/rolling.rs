//! A group never goes dark: rollouts on real processes, also when an agbot dies in the middle, also when the new version is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

const FAST: [&str; 4] = ["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"];

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

/// Counts the running instances until it is stopped; returns the lowest number seen.
async fn lowest_while(fleet: &Fleet, work: impl Future<Output = ()>) -> usize {
    let lowest = Arc::new(AtomicUsize::new(usize::MAX));
    let done = AtomicBool::new(false);
    let looking = async {
        while !done.load(Ordering::Relaxed) {
            lowest.fetch_min(fleet.versions().len(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let working = async {
        work.await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(looking, working);
    lowest.load(Ordering::Relaxed)
}

/// HA-8, 2-S1, E4-S1, E9-S3: sampled every 20 ms from outside.
#[tokio::test]
async fn agbot_that_crashes_in_a_rollout_is_replaced_and_an_instance_always_runs() {
    let scratch = Scratch::new();
    let second_scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let mut options = vec!["--database-url", database.url()];
    options.extend(FAST);
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password");
    let password = password.to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let mut second = Hub::start(&second_scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let lowest = lowest_while(&fleet, async {
        fleet.want(&hub, "2.0.0").await;
        eventually("the rollout has begun", || async {
            fleet.versions().values().any(|version| version == "2.0.0").then_some(())
        })
        .await;
        let killed_at = Instant::now();
        second.program.kill().await;
        let mut connection = database.connection().await;
        loop {
            let held: (i64,) = sqlx::query_as(
                "SELECT count(DISTINCT owner) FROM work_partition WHERE expires_at > now() AND owner IS NOT NULL",
            )
            .fetch_one(&mut connection)
            .await
            .expect("a count");
            let free: (i64,) = sqlx::query_as("SELECT count(*) FROM work_partition WHERE expires_at <= now() OR owner IS NULL")
                .fetch_one(&mut connection)
                .await
                .expect("a count");
            if held.0 == 1 && free.0 == 0 {
                break;
            }
            assert!(killed_at.elapsed() < Duration::from_secs(10), "the partitions of a dead agbot move within 10 s");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        deployed(&fleet, "2.0.0").await;
    })
    .await;
    assert!(lowest >= 1, "at every instant at least one instance responds, lowest was {lowest}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// E4-S4, B12-S2.
#[tokio::test]
async fn broken_version_stops_at_the_first_member_and_says_why() {
    let scratch = Scratch::new();
    let mut options = FAST.to_vec();
    options.extend(["--upgrade-start-timeout-secs", "10"]);
    let hub = Hub::start(&scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    let lowest = lowest_while(&fleet, async {
        fleet.want(&hub, "2.0.0").await;
        eventually("the rollout is paused", || async {
            let (_, body) = hub.call("GET", "/orgs/o/agbot/rollouts", None).await;
            (body["rollouts"][0]["state"] == "paused").then_some(())
        })
        .await;
    })
    .await;
    let (_, body) = hub.call("GET", "/orgs/o/agbot/rollouts", None).await;
    // Three exits end the step, long before its time is over, and the rollout says why.
    assert_eq!(body["rollouts"][0]["hold"]["cause"], "step-failed", "{body}");
    let text = body["rollouts"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("exit code 1") && text.contains("3 exits"), "{text}");
    let (_, newest) =
        hub.call("GET", "/orgs/o/agbot/rollouts?newest=true&policy=everywhere&limit=1", None).await;
    assert_eq!(newest["rollouts"], body["rollouts"]);
    let (_, other) = hub.call("GET", "/orgs/o/agbot/rollouts?newest=true&policy=other", None).await;
    assert_eq!((&other["rollouts"], &other["workloads"]), (&json!([]), &json!([])));
    assert_eq!(lowest, 2, "only the first member was touched");
    let still_old = fleet.versions().values().filter(|version| *version == "1.0.0").count();
    assert_eq!(still_old, 2, "the others keep the old version");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Orchestration 1.2, B11.7: what a policy says for itself counts over the hub, which would hold the rollout.
#[tokio::test]
async fn policy_that_asks_for_it_is_taken_back_by_itself() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &FAST).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    let own = json!({"orchestration": {
        "scope": {"type": "hagroups", "haGroups": ["g"]},
        "update": {"failureAction": "rollback", "startTimeoutSeconds": 10, "monitorSeconds": 2},
    }});
    fleet.publish(&hub, "1.0.0").await;
    fleet.want_with(&hub, "1.0.0", own.clone()).await;
    deployed(&fleet, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    let lowest = lowest_while(&fleet, async {
        fleet.want_with(&hub, "2.0.0", own).await;
        eventually("the update went back", || async {
            let path = "/orgs/o/business/policies/everywhere/orchestration";
            let (_, body) = hub.call("GET", path, None).await;
            (body["update"]["state"] == "rollback-completed").then_some(())
        })
        .await;
    })
    .await;
    assert_eq!(lowest, 1, "the other member was not touched");
    deployed(&fleet, "1.0.0").await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// HA-2, HA-3, E2-S4, E2.4: groups come and go around running services.
#[tokio::test]
async fn joining_and_leaving_a_group_restarts_nothing() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &FAST).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    let (processes, held) = (fleet.processes(), agreements(&hub).await);
    assert_eq!(held.len(), 3);
    let member = "/orgs/o/hagroups/g/nodes/edge-3";
    for (method, path, status) in
        [("DELETE", member, 204), ("POST", member, 201), ("DELETE", "/orgs/o/hagroups/g", 204)]
    {
        assert_eq!(hub.call(method, path, None).await.0, status, "{method} {path}");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(2) {
            assert_eq!(fleet.processes(), processes, "after {method} {path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(agreements(&hub).await, held, "after {method} {path}");
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Ids of the live agreements.
async fn agreements(hub: &Hub) -> Vec<String> {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/agreements", None).await;
    let active = body["agreements"]["active"].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<_> = active.iter().filter_map(|one| Some(one["id"].as_str()?.to_owned())).collect();
    ids.sort();
    ids
}
