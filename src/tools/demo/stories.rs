//! Stories of workloads whose instances the hub places, moves and rolls back.

use std::time::{Duration, Instant};

use evenkeel_runtime::Failure;
use serde_json::json;

use super::fleet::{self, Deployment};
use super::refused;
use super::stage::{DEPLOY_TIMEOUT, STABLE_PERIOD, Stage, Verdict, print_summary};

/// The node must be found down first.
const MOVE_TIMEOUT: Duration = Duration::from_secs(90);
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(90);

/// A node that runs one of several instances dies: the hub places the instance on another node.
pub async fn play_replicated(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    let wanted = stage.nodes.len().saturating_sub(2).max(1);
    let orchestration = json!({"mode": "replicated", "replicas": wanted, "restart": {"delaySeconds": 0}});
    stage.deploy("1.0.0", &Deployment::orchestrated(orchestration)).await?;
    let total = stage.nodes.len();
    stage.view.print(&format!(
        "published service 1.0.0 and a policy that wants {wanted} instances on {total} nodes"
    ));
    let before = stage
        .wait_until_stable("the wanted number of instances", DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.nodes_with("1.0.0").len() == wanted
        })
        .await?;
    let Some(lost) = before.instances.keys().next().cloned() else {
        return Ok(Err("no instance runs".to_owned()));
    };

    stage.observer.begin_counting();
    stage.view.print(&format!("{lost} loses power: its agent and its instance are killed"));
    stage.power_off(&lost);
    let killed_at = Instant::now();
    let after = stage
        .wait("the wanted number of instances on the other nodes", MOVE_TIMEOUT, |seen| {
            seen.instances.len() == wanted && !seen.instances.contains_key(&lost)
        })
        .await?;
    let moved_after = killed_at.elapsed();
    let after = stage
        .wait_until_stable("a stable number of instances", DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.instances.keys().eq(after.instances.keys())
        })
        .await?;
    let new: Vec<&str> = after
        .instances
        .keys()
        .filter(|node| !before.instances.contains_key(*node))
        .map(String::as_str)
        .collect();
    let lines = [
        ("slot moved", format!("{lost} to {}", new.join(", "))),
        ("time after the failure", format!("{:.1} s", moved_after.as_secs_f64())),
        ("most copies at a time", after.counted.highest.to_string()),
    ];
    print_summary(&lines, &after.counted);
    let kept = before.instances.iter().filter(|(node, _)| **node != lost);
    Ok(if !kept.clone().all(|(node, instance)| after.instances.get(node) == Some(instance)) {
        Err("an instance on a healthy node was restarted or moved".to_owned())
    } else if new.len() != 1 || after.counted.highest > wanted {
        Err("another number of instances ran than the policy wants".to_owned())
    } else {
        at_least(after.counted.lowest, wanted - 1)
    })
}

/// The active node of a pair dies: the other one starts the instance, and never were there two.
pub async fn play_failover(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    stage.fleet.create_group(stage.nodes).await.map_err(|error| refused(&error))?;
    stage.view.print(&format!("formed HA group {} of all of them", fleet::GROUP));
    stage.observer.begin_counting();
    let orchestration = json!({
        "mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": [fleet::GROUP]},
    });
    stage.deploy("1.0.0", &Deployment::orchestrated(orchestration)).await?;
    stage.view.print("published service 1.0.0 and a policy for one active member of the group");
    let before = stage
        .wait_until_stable("one active instance", DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.instances.len() == 1
        })
        .await?;
    let Some(lost) = before.instances.keys().next().cloned() else {
        return Ok(Err("no instance runs".to_owned()));
    };

    stage.view.print(&format!("{lost} loses power: its agent and its instance are killed"));
    stage.power_off(&lost);
    let killed_at = Instant::now();
    stage
        .wait("an active instance on another node", MOVE_TIMEOUT, |seen| {
            seen.instances.keys().any(|node| *node != lost)
        })
        .await?;
    let taken_over_after = killed_at.elapsed();
    let after = stage
        .wait_until_stable("one active instance", DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.instances.len() == 1 && !seen.instances.contains_key(&lost)
        })
        .await?;
    let active = after.instances.keys().next().map_or("", String::as_str);
    let lines = [
        ("taken over", format!("{active} from {lost}")),
        ("time after the failure", format!("{:.1} s", taken_over_after.as_secs_f64())),
        ("most copies at a time", after.counted.highest.to_string()),
    ];
    print_summary(&lines, &after.counted);
    Ok(match after.counted.highest {
        1 => Ok(()),
        _ => Err("two instances were active at the same time".to_owned()),
    })
}

/// A version that does not work is tried on one node and rolled back; the other nodes never run it.
pub async fn play_rollback(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    let wanted = stage.nodes.len();
    let deployment = Deployment::orchestrated(json!({
        "mode": "replicated", "replicas": wanted, "restart": {"delaySeconds": 1},
        "update": {"parallelism": 1, "delaySeconds": 8, "monitorSeconds": 5, "failureAction": "rollback"},
        "rollback": {"monitorSeconds": 1},
    }));
    stage.deploy_everywhere("1.0.0", &deployment).await?;

    stage.view.print("publishing 2.0.0, which ends with an error two seconds after its start");
    stage.observer.begin_counting();
    stage.fleet.publish_broken_service("2.0.0", stage.sockets).await.map_err(|error| refused(&error))?;
    let changed_at = Instant::now();
    stage.fleet.change_policy("2.0.0", &deployment).await.map_err(|error| refused(&error))?;
    stage
        .wait("2.0.0 on a node", ROLLBACK_TIMEOUT, |seen| seen.counted.nodes_by_version.contains_key("2.0.0"))
        .await?;
    let tried_after = changed_at.elapsed();
    let after = stage
        .wait_until_stable("1.0.0 on every node again", ROLLBACK_TIMEOUT, STABLE_PERIOD * 2, |seen| {
            seen.nodes_with("1.0.0").len() == wanted
        })
        .await?;
    let tried = after.counted.nodes_by_version.get("2.0.0").cloned().unwrap_or_default();
    let lines = [
        ("2.0.0 was tried on", tried.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        ("time to try it", format!("{:.1} s", tried_after.as_secs_f64())),
        (
            "time to 1.0.0 everywhere",
            format!("{:.1} s", changed_at.elapsed().saturating_sub(STABLE_PERIOD * 2).as_secs_f64()),
        ),
    ];
    print_summary(&lines, &after.counted);
    Ok(match tried.len() {
        1 => at_least(after.counted.lowest, wanted - 1),
        count => Err(format!("{count} nodes ran the version that does not work")),
    })
}

fn at_least(lowest: Option<usize>, count: usize) -> Verdict {
    match lowest {
        Some(lowest) if lowest >= count => Ok(()),
        _ => Err(format!(
            "there was an instant at which fewer than {count} instances of the service responded"
        )),
    }
}
