//! The story of a cluster: a user moves an instance, a node is restarted on purpose, and a node dies.

use std::time::{Duration, Instant};

use evenkeel_runtime::Failure;
use serde_json::json;

use super::fleet::{self, Deployment};
use super::refused;
use super::stage::{Stage, Verdict, print_summary};

const MOVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the result must stay as it is.
const STABLE_PERIOD: Duration = Duration::from_secs(1);
/// Longer than the silence after which a node counts as down, and shorter than the grace period of maintenance.
const MAINTENANCE: Duration = Duration::from_secs(12);

/// The one instance of a pair is moved by a user and given back, stays where it is while its node is restarted, and is taken over when
/// its node dies. There are never two.
pub async fn play(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    stage.fleet.create_group(stage.nodes).await.map_err(|error| refused(&error))?;
    stage.view.print(&format!("formed HA group {} of all of them", fleet::GROUP));
    let until = Instant::now() + MOVE_TIMEOUT;
    while !stage.fleet.is_idle().await.map_err(|error| refused(&error))? {
        if Instant::now() > until {
            return Ok(Err("the agents did not get ready".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.observer.begin_counting();
    let orchestration = json!({
        "mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": [fleet::GROUP]},
        "restart": {"delaySeconds": 0}, "timers": {"readyPeriodSeconds": 2},
    });
    stage.deploy("1.0.0", &Deployment::orchestrated(orchestration)).await?;
    stage.view.print("published service 1.0.0 and a policy for one active member of the group");
    let (first, second) = (stage.nodes[0].clone(), stage.nodes[1].clone());
    active_on(stage, &first).await?;

    stage.view.print(&format!("takeover: a user moves the instance to {second}"));
    let taken_over = act(stage, "takeover", Some(&second), &second).await?;
    stage.view.print(&format!("giveback: the instance returns to {first}, the first node of the ranking"));
    let given_back = act(stage, "giveback", None, &first).await?;

    stage.view.print(&format!(
        "maintenance: {first} is shut down and is back after {} s; the hub does not count it as a failure",
        MAINTENANCE.as_secs()
    ));
    stage.processes.terminate(&first);
    let shut_down_at = Instant::now();
    let mut others = 0;
    stage
        .wait("the end of the maintenance", MAINTENANCE * 2, |seen| {
            others += seen.instances.keys().filter(|node| **node != first).count();
            shut_down_at.elapsed() >= MAINTENANCE
        })
        .await?;
    stage.start_agent(&first)?;
    active_on(stage, &first).await?;
    let back = shut_down_at.elapsed();

    stage.view.print(&format!("{first} loses power: its agent and its instance are killed"));
    stage.power_off(&first);
    let died_at = Instant::now();
    let after = active_on(stage, &second).await?;
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let lines = [
        ("takeover", seconds(taken_over)),
        ("giveback", seconds(given_back)),
        ("back from maintenance", format!("{}, on {first}", seconds(back))),
        ("taken over after a death", seconds(died_at.elapsed().saturating_sub(STABLE_PERIOD))),
        ("most copies at a time", after.counted.highest.to_string()),
    ];
    print_summary(&lines, &after.counted);
    Ok(match (others, after.counted.highest) {
        (0, 1) => Ok(()),
        (0, _) => Err("two instances were active at the same time".to_owned()),
        _ => Err(format!("{second} took over while {first} was in maintenance")),
    })
}

async fn active_on(stage: &mut Stage<'_>, node: &str) -> Result<super::observer::Seen, Failure> {
    stage
        .wait_until_stable(&format!("one active instance on {node}"), MOVE_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.instances.keys().eq([node])
        })
        .await
}

/// Requests an action, and returns how long it took until the instance ran where it was to run.
async fn act(
    stage: &mut Stage<'_>,
    action: &str,
    node: Option<&str>,
    expected: &str,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    stage.fleet.act(action, node).await.map_err(|error| refused(&error))?;
    active_on(stage, expected).await?;
    Ok(began.elapsed().saturating_sub(STABLE_PERIOD))
}
