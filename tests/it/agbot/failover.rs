//! Failover on real processes: an instance whose stop is not confirmed.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::drain::{reason, set};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

/// The agbot reads heartbeats every ten seconds: with less, it would take living nodes for down.
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(15);
/// As long as it is certainly not down after its agent was frozen: the last heartbeat has an age then, and is rounded to seconds.
const UP_FOR: Duration = Duration::from_secs(12);

/// Wakes the parked polls of all agents, each of which is a heartbeat, for ever.
pub(crate) async fn send_heartbeats(hub: &Hub) {
    for number in 0_u32.. {
        let (status, body) =
            hub.call("PATCH", "/orgs/o", Some(json!({"description": number.to_string()}))).await;
        assert_eq!(status, 201, "{body}");
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// P1, E8: the second instance is not started before the first is confirmed stopped, or its node is down.
#[tokio::test]
async fn second_instance_waits_for_an_unconfirmed_stop_until_the_node_is_down() {
    let scratch = Scratch::new();
    let down_after = DOWN_AFTER.as_secs().to_string();
    let options =
        ["--node-down-after-secs", &down_after, "--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"];
    let hub = Hub::start(&scratch, &options).await;
    let (_, status) = hub.call("GET", "/agbot/status", None).await;
    assert_eq!(status["nodeDownAfterSecs"], DOWN_AFTER.as_secs());
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({
        "version": 1, "orchestrate": "ha", "mode": "failover",
        "scope": {"type": "hagroups", "haGroups": ["g"]},
    });
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = freeze_and_drain(&hub, &mut fleet) => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

async fn freeze_and_drain(hub: &Hub, fleet: &mut Fleet) {
    let active = eventually("one instance runs", || async { fleet.versions().into_keys().next() }).await;
    let (index, other) = if active == "edge-1" { (0, "edge-2") } else { (1, "edge-1") };
    let says = |text: &'static str| async move { reason(hub, other).await.contains(text).then_some(()) };
    eventually("the other member waits", || says("is on o/")).await;

    let frozen_at = Instant::now();
    fleet.agent(index).signal(Signal::SIGSTOP);
    set(hub, &active, "drain").await;
    eventually("the stop is not confirmed", || says("confirmed")).await;
    while frozen_at.elapsed() < UP_FOR {
        assert!(!fleet.versions().contains_key(other), "the node may still run its instance");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eventually("the other member takes over from the node that is down", || async {
        fleet.versions().contains_key(other).then_some(())
    })
    .await;

    fleet.agent(index).signal(Signal::SIGCONT);
    eventually("the node that is back stops its instance", || async {
        (fleet.instances() == 1 && fleet.versions().contains_key(other)).then_some(())
    })
    .await;
}
