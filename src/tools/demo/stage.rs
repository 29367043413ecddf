//! The fleet of a story while it is watched.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::fleet::{Deployment, Fleet};
use super::observer::{Counted, Observer, Seen};
use super::processes::Processes;
use super::refused;
use super::start::start_agent;
use super::view::View;

pub const DEPLOY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the result must stay as it is.
pub const STABLE_PERIOD: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between two questions to the agbot how the nodes stand.
const REASONS_PERIOD: Duration = Duration::from_millis(250);

/// Result of a story: an error describes what the observer saw instead of what the story promises.
pub type Verdict = Result<(), String>;

/// The fleet and its observer.
pub struct Stage<'a> {
    pub fleet: &'a Fleet,
    pub observer: &'a Observer,
    pub view: &'a mut View,
    pub nodes: &'a [String],
    pub sockets: &'a Path,
    pub processes: &'a mut Processes,
    pub agents: AgentStart<'a>,
}

/// Arguments with which the agents of a story are started.
pub struct AgentStart<'a> {
    pub url: &'a str,
    pub environment: &'a [(&'a str, &'a str)],
    pub directory: &'a Path,
    /// Token of each node.
    pub tokens: BTreeMap<String, String>,
}

impl Stage<'_> {
    /// Publishes the service and deploys it by a policy.
    pub async fn deploy(&mut self, version: &str, deployment: &Deployment) -> Result<(), Failure> {
        self.fleet.publish_service(version, self.sockets).await.map_err(|error| refused(&error))?;
        self.fleet.create_policy(version, deployment).await.map_err(|error| refused(&error))
    }

    /// Deploys a version by a policy that wants an instance on every node, and waits until they run.
    pub async fn deploy_everywhere(&mut self, version: &str, deployment: &Deployment) -> Result<(), Failure> {
        let wanted = self.nodes.len();
        self.deploy(version, deployment).await?;
        self.view.print(&format!("published service {version} and a policy that wants {wanted} instances"));
        let what = format!("{version} on every node");
        self.wait_until_stable(&what, DEPLOY_TIMEOUT, STABLE_PERIOD, |seen| {
            seen.nodes_with(version).len() == wanted
        })
        .await
        .map(drop)
    }

    /// Waits until the observer sees what `is_reached` accepts, and shows what happens meanwhile.
    pub async fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_reached: impl FnMut(&Seen) -> bool,
    ) -> Result<Seen, Failure> {
        let fail = |text: String| Err(Failure::new(ExitStatus::Failure, text));
        let until = Instant::now() + limit;
        let mut asked_at: Option<Instant> = None;
        loop {
            let seen = self.observer.seen();
            self.view.show(&seen.versions());
            if is_reached(&seen) {
                return Ok(seen);
            }
            if let Some(name) = self.processes.find_ended() {
                return fail(format!("the process {name} has ended unexpectedly"));
            }
            if Instant::now() > until {
                return fail(format!("{what} is not reached after {} s", limit.as_secs()));
            }
            if asked_at.is_none_or(|at| at.elapsed() >= REASONS_PERIOD) {
                asked_at = Some(Instant::now());
                // A busy agbot is queried again; the shown state stays meanwhile.
                if let Ok(reasons) = self.fleet.reasons().await {
                    self.view.show_reasons(&reasons);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The same, and it must stay so for a time.
    pub async fn wait_until_stable(
        &mut self,
        what: &str,
        limit: Duration,
        period: Duration,
        mut is_reached: impl FnMut(&Seen) -> bool,
    ) -> Result<Seen, Failure> {
        let mut since: Option<Instant> = None;
        self.wait(what, limit, |seen| {
            since = is_reached(seen).then(|| since.unwrap_or_else(Instant::now));
            since.is_some_and(|since| since.elapsed() >= period)
        })
        .await
    }

    /// Starts the agent of a node again.
    pub fn start_agent(&mut self, node: &str) -> Result<(), Failure> {
        let AgentStart { url, environment, directory, tokens } = &self.agents;
        let token = tokens.get(node).map_or("", String::as_str);
        start_agent((node, token), url, environment, directory, self.processes)
    }

    /// Ends a node as a power failure would: its agent and its instance are killed and report nothing.
    pub fn power_off(&mut self, node: &str) {
        self.processes.kill(node);
        if let Some(instance) = self.observer.seen().instances.get(node) {
            // It may have ended already.
            let _ = kill(Pid::from_raw(instance.process), Signal::SIGKILL);
        }
    }
}

/// Prints a heading and the lines of a summary.
pub fn print_summary(lines: &[(&str, String)], counted: &Counted) {
    println!();
    println!("Summary");
    for (name, value) in lines {
        println!("  {name:<26} {value}");
    }
    println!(
        "  lowest number of copies    {} (seen by an observer outside the hub, {} observations, one every {} ms)",
        counted.lowest.unwrap_or_default(),
        counted.observation_count,
        POLL_INTERVAL.as_millis()
    );
}
