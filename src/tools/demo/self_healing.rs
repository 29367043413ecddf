//! The story of services that fail in three ways: one hangs, one is stopped by hand, and the node of one freezes.
//!
//! The first is found by a URL, the second by the events of its agent, and the third by the silence of its node. The instance on the frozen
//! node may run again at any time, so another node gets it only when the lease of the first is over.

use std::time::{Duration, Instant};

use evenkeel_runtime::Failure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::fleet::Deployment;
use super::observer::Seen;
use super::stage::{DEPLOY_TIMEOUT, STABLE_PERIOD, Stage, Verdict, print_summary};
use super::{broken, gateway, refused};

/// Seconds between two checks.
const INTERVAL_SECS: u64 = 2;
/// A check, its repetition, the new instance and its start.
const HEAL_LIMIT: Duration = Duration::from_secs(15);
/// Longest time from an event to the start of what was stopped.
const START_LIMIT: Duration = Duration::from_secs(5);
/// Shortest lease, and the time that agents have to end instances after it.
const LEASE: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_secs(10);
/// Beyond the lease: the next tick of the hub and the start on the other node.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(30);
/// Time for which a heartbeat may be older than the moment at which a node freezes.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// The instance that is watched by its events runs on the last node.
const METER: &str = "meter";

/// Plays the story.
pub async fn play(stage: &mut Stage<'_>) -> Result<Verdict, Failure> {
    stage.fleet.allow_check_interval(INTERVAL_SECS).await.map_err(|error| refused(&error))?;
    let address = gateway::start(stage.sockets.to_owned()).map_err(|error| broken(&error))?;
    let Some((last, watching)) = stage.nodes.split_last().filter(|(_, others)| others.len() >= 3) else {
        return Ok(Err("the story needs four nodes".to_owned()));
    };
    let wanted = watching.len() - 1;
    let watch = Deployment::orchestrated(watch(wanted, watching, &format!("http://{address}/{{nodename}}")));
    stage.deploy("1.0.0", &watch).await?;
    let meter = Deployment::orchestrated(meter(last)).named(METER);
    stage.fleet.create_policy("1.0.0", &meter).await.map_err(|error| refused(&error))?;
    stage.view.print(&format!(
        "published service 1.0.0, a policy for {wanted} instances on {} nodes whose response is checked every {INTERVAL_SECS} s, and one \
         for an instance on {last} whose events are followed",
        watching.len()
    ));
    let total = wanted + 1;
    let before = stage
        .wait_until_stable("every instance", DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.instances.len() == total
        })
        .await?;
    let checked_by = Instant::now() + DEPLOY_TIMEOUT;
    while stage.fleet.checked_count(watching).await.map_err(|error| refused(&error))? < wanted {
        if Instant::now() > checked_by {
            return Ok(Err("the agents did not check the instances".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let running: Vec<String> = before.instances.keys().filter(|node| *node != last).cloned().collect();
    let [hanging, frozen] = [&running[0], &running[1]].map(Clone::clone);

    stage.observer.begin_counting();
    let frozen_at = freeze(stage, &frozen, &before);
    let hung = heal_hanging(stage, &hanging).await?;
    let stopped = heal_stopped(stage, last).await?;
    let taken_over = match take_over(stage, &frozen, &running, last, frozen_at).await? {
        Ok(time) => time,
        Err(why) => return Ok(Err(why)),
    };
    let after = thaw(stage, &frozen, frozen_at).await?;
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let lines = [
        ("wrong response healed in", seconds(hung)),
        ("stopped by hand, back in", seconds(stopped)),
        ("taken over after a freeze", format!("{}, the lease is {} s", seconds(taken_over), LEASE.as_secs())),
        ("most copies at a time", after.counted.highest.to_string()),
    ];
    print_summary(&lines, &after.counted);
    Ok(if hung > HEAL_LIMIT {
        Err("the instance that hung was healed too late".to_owned())
    } else if stopped > START_LIMIT {
        Err("the instance that was stopped by hand was started too late".to_owned())
    } else if taken_over + HEARTBEAT < LEASE + MARGIN {
        Err("another node took over before the lease was over".to_owned())
    } else if after.counted.highest > total {
        Err("more instances ran than the policies want".to_owned())
    } else {
        Ok(())
    })
}

fn watch(wanted: usize, nodes: &[String], url: &str) -> Value {
    let options = json!({
        "poll_url": url, "poll_url_healthy_response": "re:^1\\.0\\.0 [0-9]+", "poll_url_retry_limit": 1,
        "poll_url_retry_interval": 1,
    });
    json!({
        "mode": "replicated", "replicas": wanted, "scope": {"type": "nodes", "nodes": nodes},
        "restart": {"delaySeconds": 0},
        "healthPolicy": {
            "detection": {
                "interval": INTERVAL_SECS, "node_update_timeout": 2,
                "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": options}],
            },
            "recovery": {"fencing": ["COMPUTE"]},
        },
    })
}

fn meter(node: &str) -> Value {
    json!({
        "mode": "replicated", "replicas": 1, "scope": {"type": "nodes", "nodes": [node]},
        "healthPolicy": {"detection": {"type": "LIFECYCLE_EVENTS"}},
    })
}

/// Freezes a node: its agent and its instance are suspended without noticing.
fn freeze(stage: &mut Stage<'_>, node: &str, seen: &Seen) -> Instant {
    stage.view.print(&format!(
        "{node} freezes: its agent and its instance are suspended, and may continue at any time"
    ));
    stage.processes.signal(node, Signal::SIGSTOP);
    if let Some(instance) = seen.instances.get(node) {
        // It may have ended already.
        let _ = kill(Pid::from_raw(instance.process), Signal::SIGSTOP);
    }
    Instant::now()
}

/// Lets an instance give wrong responses, and returns how long it took until another one runs in its place.
async fn heal_hanging(stage: &mut Stage<'_>, node: &str) -> Result<Duration, Failure> {
    let Some(sick) = stage.observer.seen().instances.get(node).cloned() else { return Ok(Duration::MAX) };
    stage.view.print(&format!("the instance on {node} hangs: its process runs, and its response is wrong"));
    super::service::hang(stage.sockets, node, sick.process).map_err(|error| broken(&error))?;
    let began = Instant::now();
    stage
        .wait(&format!("another instance on {node}"), HEAL_LIMIT * 2, |seen| {
            seen.instances.get(node).is_some_and(|one| one.process != sick.process)
        })
        .await?;
    Ok(began.elapsed())
}

/// Stops an instance by hand, and returns how long it took until it runs again.
async fn heal_stopped(stage: &mut Stage<'_>, node: &str) -> Result<Duration, Failure> {
    let Some(stopped) = stage.observer.seen().instances.get(node).cloned() else { return Ok(Duration::MAX) };
    stage.view.print(&format!("a user stops the instance on {node} by hand"));
    // It may have ended already.
    let _ = kill(Pid::from_raw(stopped.process), Signal::SIGTERM);
    let began = Instant::now();
    stage
        .wait(&format!("an instance on {node} again"), HEAL_LIMIT * 2, |seen| {
            seen.instances.get(node).is_some_and(|one| one.process != stopped.process)
        })
        .await?;
    Ok(began.elapsed())
}

/// Waits until another node runs the instance of a frozen one.
async fn take_over(
    stage: &mut Stage<'_>,
    frozen: &str,
    running: &[String],
    other: &str,
    frozen_at: Instant,
) -> Result<Result<Duration, String>, Failure> {
    stage.view.print(&format!(
        "the instance on {frozen} is not replaced before its lease of {} s is over, because it may still run",
        LEASE.as_secs()
    ));
    let limit = LEASE + MARGIN + TAKEOVER_LIMIT;
    let seen = stage
        .wait("an instance on the node that was free", limit, |seen| {
            seen.instances.keys().any(|node| node != other && !running.contains(node))
        })
        .await?;
    let node = seen.instances.keys().find(|node| *node != other && !running.contains(node));
    Ok(match node {
        Some(node) => {
            stage.view.print(&format!("{node} took over from {frozen}"));
            Ok(frozen_at.elapsed())
        }
        None => Err("no other node took over".to_owned()),
    })
}

/// Lets a frozen node continue: its agent finds that its lease is over, and ends the instance.
async fn thaw(stage: &mut Stage<'_>, node: &str, frozen_at: Instant) -> Result<Seen, Failure> {
    stage.view.print(&format!(
        "{node} continues after {} s; its agent finds that the lease has expired",
        frozen_at.elapsed().as_secs()
    ));
    stage.processes.signal(node, Signal::SIGCONT);
    let what = format!("no instance on {node}");
    stage
        .wait_until_stable(&what, DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| !seen.instances.contains_key(node))
        .await
}
