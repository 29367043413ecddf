//! Hub away, agent killed: services continue, and nothing is lost or left behind.

use std::time::{Duration, Instant};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

#[tokio::test]
async fn services_run_on_while_the_hub_is_away_and_a_new_policy_applies_when_it_is_back() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let address = free_address();
    let options = [
        "--listen",
        &address,
        "--database-url",
        database.url(),
        "--upgrade-monitor-secs",
        "1",
        "--upgrade-grace-secs",
        "1",
    ];
    let mut hub = Hub::start(&scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    let processes = fleet.processes();

    hub.program.kill().await;
    let away_since = Instant::now();
    while away_since.elapsed() < Duration::from_secs(4) {
        assert_eq!(fleet.processes(), processes, "the same processes run all the time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let hub = Hub::start(&scratch, &options).await;
    fleet.want(&hub, "2.0.0").await;
    deployed(&fleet, "2.0.0").await;
    eventually("no copy is left of the older version", || async { (fleet.instances() == 2).then_some(()) })
        .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn agent_that_was_killed_adopts_what_runs_and_leaves_no_orphan() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    let processes = fleet.processes();

    fleet.agent(0).kill().await;
    assert_eq!(fleet.processes(), processes, "a copy does not need its agent");
    fleet.restart_agent(&scratch, &hub, 0);
    let adopted = || async { fleet_log(&scratch).contains("running process is adopted").then_some(()) };
    eventually("the agent adopts it", adopted).await;
    assert_eq!(fleet.processes(), processes, "it is adopted as it is");
    assert_eq!(fleet.instances(), 2);

    fleet.want(&hub, "2.0.0").await;
    deployed(&fleet, "2.0.0").await;
    eventually("there is one copy a node", || async { (fleet.instances() == 2).then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Everything that programs wrote to standard error.
fn fleet_log(scratch: &Scratch) -> String {
    let files = std::fs::read_dir(scratch.path()).expect("the directory");
    let logs = files.filter_map(Result::ok).map(|entry| entry.path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "err"));
    logs.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}
