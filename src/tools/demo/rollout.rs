//! The main story: a version rolls through an HA group.

use std::time::{Duration, Instant};

use evenkeel_runtime::Failure;

use super::fleet::{self, Deployment};
use super::refused;
use super::stage::{Stage, Verdict, print_summary};

const DEPLOY_TIMEOUT: Duration = Duration::from_secs(120);
const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(240);

/// Plays the story.
pub async fn play(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    stage.fleet.create_group(stage.nodes).await.map_err(|error| refused(&error))?;
    stage.view.print(&format!("formed HA group {} of all of them", fleet::GROUP));
    let deployed_at = Instant::now();
    let deployment = Deployment::group();
    stage.deploy("1.0.0", &deployment).await?;
    stage.view.print("published service 1.0.0 and a deployment policy for the members of the group");
    let count = stage.nodes.len();
    stage.wait("1.0.0 on every node", DEPLOY_TIMEOUT, |seen| seen.nodes_with("1.0.0").len() == count).await?;
    let deploy_time = deployed_at.elapsed();

    stage.view.print("publishing 2.0.0; the agbot rolls it through the group, one member at a time");
    stage.observer.begin_counting();
    stage.fleet.publish_service("2.0.0", stage.sockets).await.map_err(|error| refused(&error))?;
    let rolled_at = Instant::now();
    stage.fleet.change_policy("2.0.0", &deployment).await.map_err(|error| refused(&error))?;
    let seen = stage
        .wait("2.0.0 on every node", ROLLOUT_TIMEOUT, |seen| seen.nodes_with("2.0.0").len() == count)
        .await?;
    let lines = [
        ("time to first deployment", format!("{:.1} s", deploy_time.as_secs_f64())),
        ("time to roll 2.0.0", format!("{:.1} s", rolled_at.elapsed().as_secs_f64())),
    ];
    print_summary(&lines, &seen.counted);
    Ok(match seen.counted.lowest {
        Some(lowest) if lowest >= 1 => Ok(()),
        _ => Err("there was an instant at which no instance of the service responded".to_owned()),
    })
}
