//! `evenkeel bench console`: what the pages of the console cost on a hub with a hundred thousand nodes, and tabs that watch a rollout.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};

use super::console_fleet::{ConsoleFleet, PASSWORD, node, policy};
use super::console_tabs;
use super::fleet::ORG;
use super::load::Connection;
use super::memory::{median, start_ready_hub};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, broken};

/// CPU time of a page.
const PAGE_MILLIS: f64 = 20.0;
/// Size of a page.
const PAGE_KIB: f64 = 100.0;
/// What a page may cost more with a hundred times as many nodes.
const GROWTH: f64 = 1.5;
/// Times below this one, in milliseconds, count as this one when they are compared.
const LEAST_MILLIS: f64 = 1.0;
/// Time in which a hub settles before it is measured.
const SETTLE: Duration = Duration::from_secs(20);

/// Every page, by its route and an address of it. `{}` is the base of the organization.
fn pages(nodes: usize) -> Vec<(&'static str, String)> {
    let (policy, node) = (policy(nodes / 200), node(nodes / 2));
    let group = nodes / 20;
    let pages = [
        ("/console", "/console".to_owned()),
        ("/console/login", "/console/login".to_owned()),
        ("/console/account", "/console/account".to_owned()),
        ("/console/orgs", "/console/orgs".to_owned()),
        ("/console/orgs/{org}", "{}".to_owned()),
        ("/console/orgs/{org}/now", "{}/now".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes?state=up".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes?state=down".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes?filter=tier%20%3D%3D%20core".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes?common=yes&filter=tier%20%3D%3D%20core".to_owned()),
        ("/console/orgs/{org}/nodes", "{}/nodes?common=yes&state=down".to_owned()),
        ("/console/orgs/{org}/nodes/{node}", format!("{{}}/nodes/{node}")),
        ("/console/orgs/{org}/groups", "{}/groups".to_owned()),
        ("/console/orgs/{org}/groups/{group}", format!("{{}}/groups/g{group}")),
        ("/console/orgs/{org}/policies", "{}/policies".to_owned()),
        ("/console/orgs/{org}/policies/{policy}", format!("{{}}/policies/{policy}")),
        ("/console/orgs/{org}/policies/{policy}/why", format!("{{}}/policies/{policy}/why")),
        ("/console/orgs/{org}/policies/{policy}/why", format!("{{}}/policies/{policy}/why?node={node}")),
        ("/console/orgs/{org}/rollouts", "{}/rollouts".to_owned()),
        ("/console/orgs/{org}/rollouts/{policy}", "{}/rollouts/plain".to_owned()),
        ("/console/orgs/{org}/events", "{}/events".to_owned()),
        ("/console/orgs/{org}/approvals", "{}/approvals".to_owned()),
        ("/console/orgs/{org}/health", "{}/health".to_owned()),
        ("/console/orgs/{org}/health", format!("{{}}/health?node={node}")),
        ("/console/orgs/{org}/audit", "{}/audit".to_owned()),
        ("/console/orgs/{org}/audit/verify", "{}/audit/verify".to_owned()),
        ("/console/orgs/{org}/users", "{}/users".to_owned()),
        ("/console/orgs/{org}/users/{user}", "{}/users/operator".to_owned()),
        ("/console/orgs/{org}/settings", "{}/settings".to_owned()),
        ("/console/orgs/{org}/change/{change}", "{}/change/user-create".to_owned()),
        ("/console/orgs/{org}/documents", "{}/documents".to_owned()),
        ("/console/orgs/{org}/documents/{kind}", "{}/documents/policies".to_owned()),
        ("/console/orgs/{org}/documents/{kind}/{name}", format!("{{}}/documents/policies/{policy}")),
        ("/console/orgs/{org}/history", "{}/history?kind=task".to_owned()),
        ("/console/orgs/{org}/do/{action}", format!("{{}}/do/node-drain?node={node}")),
        ("/console/orgs/{org}/do/{action}", format!("{{}}/do/policy-freeze?policy={policy}")),
        ("/console/orgs/{org}/do/{action}/done", format!("{{}}/do/node-drain/done?node={node}")),
    ];
    let base = format!("/console/orgs/{ORG}");
    pages.into_iter().map(|(route, path)| (route, path.replace("{}", &base))).collect()
}

/// A browser: one connection with the cookie of a session.
pub(super) struct Browser {
    connection: Connection,
    cookie: String,
}

impl Browser {
    /// Logs in to the console.
    pub(super) async fn log_in(address: SocketAddr, user: &str) -> Result<Browser, Failure> {
        let mut connection = Connection::open(address).await.map_err(|error| broken(&error))?;
        let body = format!("org={ORG}&user={user}&secret={PASSWORD}&next=%2Fconsole");
        let request = format!(
            "POST /console/login HTTP/1.1\r\nhost: bench\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let status = connection.send(request.as_bytes()).await.map_err(|error| broken(&error))?;
        let cookie = connection.header("set-cookie").unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        match cookie.is_empty() {
            false => Ok(Browser { connection, cookie }),
            true => Err(Failure::new(ExitStatus::Failure, format!("the login has status {status}"))),
        }
    }

    /// The cookie, for further connections of the same browser.
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Reads a page; returns its size.
    async fn read(&mut self, path: &str) -> Result<usize, Failure> {
        let request = get(path, &self.cookie, "");
        let status = self.connection.send(&request).await.map_err(|error| broken(&error))?;
        match status {
            200 | 303 => Ok(self.connection.body().len()),
            _ => {
                let body = String::from_utf8_lossy(self.connection.body()).into_owned();
                let text = format!("the page {path} has status {status}: {body}");
                Err(Failure::new(ExitStatus::Failure, text))
            }
        }
    }
}

/// A request of a browser.
pub(super) fn get(path: &str, cookie: &str, further: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\naccept: text/html\r\ncookie: {cookie}\r\n{further}\r\n")
        .into_bytes()
}

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    let (few, many) = if options.short { (200, 1_000) } else { (1_000, 100_000) };
    let mut report = Report::new("console");
    let small = measured(options, few).await?;
    let large = measured(options, many).await?;
    add_pages(&mut report, &small, &large, (few, many));
    console_tabs::measure(options, &mut report).await?;
    report.add_note(format!(
        "{many} nodes in groups of 10, one task on each, 100 of a deployment policy; a finished rollout through each group, an event and an earlier state of each task."
    ));
    report.add_note("CPU is that of the whole hub, exchange and agbot, from its process's clock: the median of requests one after the other.");
    Ok(report)
}

/// What a page cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_millis: f64,
    millis: f64,
    bytes: usize,
    compressed: usize,
}

/// Measures every page on a fleet of its own.
async fn measured(options: Options, nodes: usize) -> Result<Vec<(String, Cost)>, Failure> {
    let begin = Instant::now();
    let mut costs = Vec::new();
    Stage::with(async |stage| {
        ConsoleFleet::write(stage, nodes, 0).await?;
        eprintln!("  {nodes} nodes written after {} s", begin.elapsed().as_secs());
        let (hub, address) = start_ready_hub(stage, &stage.directory().join("hub")).await?;
        eprintln!("  its hub is ready after {} s", begin.elapsed().as_secs());
        let settle = if options.short { SETTLE / 20 } else { SETTLE };
        tokio::time::sleep(settle).await;
        // What the hub does besides is part of every measure: it should be next to nothing.
        let before = hub.cpu_time();
        tokio::time::sleep(settle / 4).await;
        let share = hub.cpu_time().saturating_sub(before).as_secs_f64() * 400.0 / settle.as_secs_f64();
        eprintln!("  the hub uses {share:.1} % of a core at rest");
        let mut browser = Browser::log_in(address, "operator").await?;
        let rounds = if options.short { 3 } else { 15 };
        for (_, path) in pages(nodes) {
            let cost = cost(&hub, &mut browser, &path, rounds).await?;
            eprintln!("  {nodes} nodes, {path}: {cost:?}");
            costs.push((path, cost));
        }
        Ok(Report::new("console"))
    })
    .await?;
    Ok(costs)
}

async fn cost(hub: &Process, browser: &mut Browser, path: &str, rounds: usize) -> Result<Cost, Failure> {
    let bytes = browser.read(path).await?;
    let (mut cpu, mut times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (begin, before) = (Instant::now(), hub.cpu_time());
        browser.read(path).await?;
        times.push(begin.elapsed().as_secs_f64() * 1_000.0);
        cpu.push(hub.cpu_time().saturating_sub(before).as_secs_f64() * 1_000.0);
    }
    let compressed = evenkeel_pages::compress(browser.connection.body()).len();
    Ok(Cost { cpu_millis: median(cpu), millis: median(times), bytes, compressed })
}

fn add_pages(
    report: &mut Report,
    small: &[(String, Cost)],
    large: &[(String, Cost)],
    (few, many): (usize, usize),
) {
    let base = format!("/console/orgs/{ORG}");
    let kib = |bytes: usize| bytes as f64 / 1_024.0;
    for ((_, before), (path, cost)) in small.iter().zip(large) {
        let name = path.strip_prefix(&base).unwrap_or(path);
        let name = if name.is_empty() { "/" } else { name };
        report.push(
            Row::new(format!("CPU of {name}, {many} nodes"), cost.cpu_millis.max(LEAST_MILLIS), "ms")
                .beside(format!("with {few}"), before.cpu_millis.max(LEAST_MILLIS))
                .target(Target::RatioAtMost(GROWTH)),
        );
    }
    let most = |of: fn(&Cost) -> f64| {
        large.iter().map(|(path, cost)| (of(cost), path)).max_by(|one, other| one.0.total_cmp(&other.0))
    };
    let of = |path: &str| path.strip_prefix(&base).unwrap_or(path).to_owned();
    if let Some((value, path)) = most(|cost| cost.cpu_millis) {
        report.push(
            Row::new(format!("most CPU of a page, {}", of(path)), value, "ms")
                .target(Target::AtMost(PAGE_MILLIS)),
        );
    }
    if let Some((value, path)) = most(|cost| cost.millis) {
        report.push(Row::new(format!("longest time of a page, {}", of(path)), value, "ms"));
    }
    if let Some((value, path)) = most(|cost| cost.bytes as f64 / 1_024.0) {
        let compressed = large.iter().find(|(one, _)| one == path).map_or(0, |(_, cost)| cost.compressed);
        report.push(
            Row::new(format!("largest page, {}", of(path)), value, "KiB")
                .beside("compressed", kib(compressed))
                .lasting_target(Target::AtMost(PAGE_KIB)),
        );
    }
    let sizes = large
        .iter()
        .map(|(path, cost)| format!("{} {:.0} ({:.1})", of(path), kib(cost.bytes), kib(cost.compressed)));
    let sizes: Vec<String> = sizes.collect();
    report.add_note(format!("Sizes in KiB, compressed in parentheses: {}.", sizes.join(", ")));
    report.add_note(format!("Times of less than {LEAST_MILLIS} ms count as {LEAST_MILLIS} ms."));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_of_the_console_is_measured() {
        let routes = include_str!("../../console/console/lib.rs");
        let measured: BTreeSet<&str> = pages(1_000).into_iter().map(|(route, _)| route).collect();
        // Files, the event stream, what is no page, and pages about revisions and changes, of which the fleet has none.
        let others = [
            "/console/assets/{name}",
            "/console/orgs/{org}/live",
            "/console/orgs/{org}/audit/export",
            "/console/login/oidc",
            "/console/login/oidc/callback",
            "/console/orgs/{org}/change/{change}/done",
            "/console/orgs/{org}/documents/{kind}/{name}/compare",
            "/console/orgs/{org}/documents/{kind}/{name}/change/done",
        ];
        for line in routes.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
            let (route, handler) = line.split_once("\", ").unwrap();
            if handler.contains("get(") && !others.contains(&route) {
                assert!(measured.contains(route), "{route} is not measured by bench console");
            }
        }
        assert!(measured.contains("/console/orgs/{org}/now"));
    }
}
