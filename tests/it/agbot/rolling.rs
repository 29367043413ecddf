//! A group never goes dark: rollouts on real processes, also when an agbot dies in the middle, also when the new version is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

const FAST: [&str; 4] = ["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"];

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

/// Looks at the copies until told to stop; returns the lowest number seen.
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

#[tokio::test]
async fn an_agbot_that_dies_in_a_rollout_is_replaced_and_a_copy_always_runs() {
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
    assert!(lowest >= 1, "at every instant at least one copy answers, lowest was {lowest}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn a_broken_version_stops_at_the_first_member_and_says_why() {
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
        eventually("the rollout is held", || async {
            let (_, body) = hub.call("GET", "/orgs/o/agbot/rollouts", None).await;
            (body["rollouts"][0]["state"] == "held").then_some(())
        })
        .await;
    })
    .await;
    let (_, body) = hub.call("GET", "/orgs/o/agbot/rollouts", None).await;
    assert!(body["rollouts"][0]["hold"]["cause"].is_string(), "{body}");
    assert_eq!(lowest, 2, "only the first member was touched");
    let still_old = fleet.versions().values().filter(|version| *version == "1.0.0").count();
    assert_eq!(still_old, 2, "the others keep the old version");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
