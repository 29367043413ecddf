//! The story of an update that goes through upgrade domains and stops before the second one, because the first became unhealthy.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_runtime::Failure;
use serde_json::json;

use super::fleet::Deployment;
use super::refused;
use super::stage::{Stage, Verdict, print_summary};

const UPDATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Nodes in each upgrade domain.
const DOMAIN_SIZE: usize = 2;
/// Seconds for which a domain is watched before the next one is updated.
const MONITOR_SECS: u64 = 6;

/// A version that starts everywhere but does not do its work: a watchdog reports it for the first domain, and
/// the others keep the old version.
pub async fn play(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    let domains: Vec<Vec<String>> = stage.nodes.chunks(DOMAIN_SIZE).map(<[String]>::to_vec).collect();
    for (number, nodes) in (1..).zip(&domains) {
        let name = format!("UD{number}");
        for node in nodes {
            stage.fleet.set_upgrade_domain(node, &name).await.map_err(|error| refused(&error))?;
        }
        stage.view.print(&format!("upgrade domain {name}: {}", nodes.join(", ")));
    }
    let wanted = stage.nodes.len();
    let deployment = Deployment::orchestrated(json!({
        "mode": "replicated", "replicas": wanted, "restart": {"delaySeconds": 0},
        "update": {"parallelism": 0, "monitorSeconds": MONITOR_SECS, "failureAction": "pause"},
    }));
    stage.deploy_everywhere("1.0.0", &deployment).await?;

    stage.view.print("publishing 2.0.0; all slots of an upgrade domain are updated at the same time");
    stage.observer.begin_counting();
    stage.fleet.publish_service("2.0.0", stage.sockets).await.map_err(|error| refused(&error))?;
    let changed_at = Instant::now();
    stage.fleet.change_policy("2.0.0", &deployment).await.map_err(|error| refused(&error))?;
    let first: BTreeSet<String> = domains[0].iter().cloned().collect();
    stage
        .wait("2.0.0 on the first upgrade domain", UPDATE_TIMEOUT, |seen| seen.nodes_with("2.0.0") == first)
        .await?;
    let updated_after = changed_at.elapsed();
    let sick = &domains[0][0];
    stage.view.print(&format!("a watchdog reports that the instance on {sick} measures nothing"));
    stage.fleet.report_error(sick, "it measures nothing").await.map_err(|error| refused(&error))?;
    let reported_at = Instant::now();
    // Long enough for the next domain to begin, if it did.
    let watched = Duration::from_secs(2 * MONITOR_SECS);
    let after = stage
        .wait("the end of the time in which the next domain would begin", watched * 2, |_| {
            reported_at.elapsed() >= watched
        })
        .await?;
    let state = stage.fleet.update_state().await.map_err(|error| refused(&error))?;
    let tried = after.counted.nodes_by_version.get("2.0.0").cloned().unwrap_or_default();
    let lines = [
        ("2.0.0 ran on", tried.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        ("first domain updated in", format!("{:.1} s", updated_after.as_secs_f64())),
        ("the update is", state.clone()),
    ];
    print_summary(&lines, &after.counted);
    let lowest = after.counted.lowest.unwrap_or_default();
    Ok(if tried != first {
        Err("nodes outside of the first upgrade domain ran the new version".to_owned())
    } else if lowest < wanted - first.len() {
        Err("instances outside of the first upgrade domain were interrupted".to_owned())
    } else if state.starts_with("paused") {
        Ok(())
    } else {
        Err(format!("the update was not paused: it is {state}"))
    })
}
