//! `evenkeel bench exchange`: CPU, memory and response times of an exchange under load, next to the
//! reference's figures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Failure;

use super::fleet::{Nodes, ORG, OWNER, Scribe};
use super::load::{Load, request};
use super::memory::median;
use super::poll::{heartbeat_requests, poll_requests};
use super::process::Process;
use super::report::{Options, Report, Row, Target, number};
use super::stage::{ROOT_PASSWORD, Stage};

const CONNECTIONS: usize = 32;
/// Share of the reference's CPU.
const SHARE: f64 = 0.1;
const REFERENCE: &str = "reference";
const RESIDENT_MIB: f64 = 80.0;
/// Memory of its own, which does not depend on the size of a build's program file.
const OWN_MIB: f64 = 40.0;
/// First contacts cost Argon2id and a little of everything else.
const BOUNDED: f64 = 1.3;
const RECORDS: usize = 300;
/// Nodes that are registered with tokens chosen by clients, and connections over which that happens.
const REGISTERED: (usize, usize) = (1_000, 64);
/// Fewer of both, so that no one waits too long for a hash in a debug build.
const REGISTERED_SHORT: (usize, usize) = (200, 16);
/// Nodes in each list, of those in the organization.
const LISTED: usize = 1_000;

/// Extent of the measurement.
struct Size {
    nodes: usize,
    fleet: usize,
    length: Duration,
    /// Runs at half load.
    runs: usize,
}

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let size = if options.short {
        Size { nodes: 100, fleet: 2_000, length: Duration::from_millis(300), runs: 1 }
    } else {
        Size { nodes: 1_000, fleet: 100_000, length: Duration::from_secs(3), runs: 5 }
    };
    let mut report = Report::new("exchange");
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", size.nodes).await?;
    scribe.groups(&nodes).await?;
    let (exchange, address) = stage.start_exchange().await?;
    let bench = Bench { exchange: &exchange, address, size: &size };
    bench.cpu_figures(&scribe, &nodes, &mut report).await?;
    bench.response_times(&nodes, &mut report).await?;
    report.push(
        Row::new("resident after all of this", exchange.resident_mib(), "MiB")
            .beside(REFERENCE, 1200.0)
            .target(Target::AtMost(RESIDENT_MIB)),
    );
    registrations(stage, if options.short { REGISTERED_SHORT } else { REGISTERED }, &mut report).await?;
    bench.first_contacts(&scribe, &mut report).await?;
    report.push(Row::new("resident with the whole fleet's logins", exchange.resident_mib(), "MiB"));
    report.add_note(format!(
        "{} nodes in groups of two, {CONNECTIONS} connections, {}; CPU is the exchange's.",
        size.nodes,
        stage.version().await?
    ));
    report.add_note("Half load is half of the requests a second that the same connections got when they sent without pause; p99 is the median of the p99 of several runs.");

    report
        .add_note("The reference's figures were measured the same way on other occasions, not in this run.");
    Ok(report)
}

struct Bench<'a> {
    exchange: &'a Process,
    address: SocketAddr,
    size: &'a Size,
}

impl Bench<'_> {
    fn load(&self, requests: Vec<Vec<u8>>) -> Load {
        Load { address: self.address, connections: CONNECTIONS, requests: Arc::new(requests) }
    }

    async fn cpu_figures(&self, scribe: &Scribe, nodes: &Nodes, report: &mut Report) -> Result<(), Failure> {
        let last = scribe.last_number().await?;
        scribe.changes(RECORDS).await?;
        let newest = scribe.last_number().await?;
        // The exchange hears of them within a second.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let figures = [
            ("a heartbeat", heartbeat_requests(nodes), 1.1),
            ("a node GET", node_requests(nodes), 9.6),
            ("an idle change poll", poll_requests(nodes, newest + 1), 5.3),
            ("a poll with 300 records", poll_requests(nodes, last + 1), 8.2),
            ("a list of all groups", vec![group_list(); CONNECTIONS], 2.4),
        ];
        for (name, requests, reference) in figures {
            let load = self.load(requests);
            load.once().await?;
            let before = self.exchange.cpu_secs();
            let outcome = load.closed(self.size.length).await?;
            let millis = (self.exchange.cpu_secs() - before) * 1000.0 / outcome.count.max(1) as f64;
            report.push(
                Row::new(format!("CPU of {name}"), millis, "ms")
                    .beside(REFERENCE, reference)
                    .target(Target::RatioAtMost(SHARE)),
            );
        }
        Ok(())
    }

    /// Response times at half of the maximum load of the exchange.
    async fn response_times(&self, nodes: &Nodes, report: &mut Report) -> Result<(), Failure> {
        let figures =
            [("node GET", node_requests(nodes), 5.0), ("durable write (node PATCH)", patches(nodes), 25.0)];
        for (name, requests, bound) in figures {
            let load = self.load(requests);
            self.at_half_load(&format!("a {name}"), &load, bound, report).await?;
        }
        Ok(())
    }

    async fn at_half_load(
        &self,
        name: &str,
        load: &Load,
        bound: f64,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let rate = load.closed(self.size.length).await?.rate() / 2.0;
        let (mut slow, mut usual) = (Vec::new(), Vec::new());
        for _ in 0..self.size.runs {
            let mut half = load.open(rate, self.size.length).await?;
            slow.push(half.quantile_millis(0.99));
            usual.push(half.quantile_millis(0.5));
        }
        let name = format!("p99 of {name} at half load ({}/s)", number(rate));
        report.push(
            Row::new(name, median(slow), "ms").beside("median", median(usual)).target(Target::AtMost(bound)),
        );
        Ok(())
    }

    /// Logins of nodes that the exchange has not seen, and lists out of a large fleet.
    async fn first_contacts(&self, scribe: &Scribe, report: &mut Report) -> Result<(), Failure> {
        let chosen = scribe.nodes_with_chosen_token("c", self.size.nodes).await?;
        let before = self.exchange.cpu_secs();
        let outcome = self.load(node_requests(&chosen)).once().await?;
        let each = (self.exchange.cpu_secs() - before) * 1000.0 / outcome.count.max(1) as f64;
        report.push(
            Row::new(format!("first contact of {} nodes, chosen tokens", outcome.count), outcome.secs, "s")
                .beside("Argon2id alone", scribe.secs_of_argon2(self.size.nodes).await?)
                .target(Target::RatioAtMost(BOUNDED)),
        );
        report.push(Row::new("the same, next to the reference", outcome.secs, "s").beside(REFERENCE, 107.0));
        report.push(Row::new("CPU of one of them (Argon2id)", each, "ms"));
        let fleet = scribe.nodes("f", self.size.fleet).await?;
        let outcome = self.load(heartbeat_requests(&fleet)).once().await?;
        report.push(
            Row::new(
                format!("first heartbeat of {} nodes, generated tokens", outcome.count),
                outcome.secs,
                "s",
            )
            .target(Target::AtMost(30.0)),
        );
        self.lists(report).await
    }

    async fn lists(&self, report: &mut Report) -> Result<(), Failure> {
        let total = self.size.fleet + 2 * self.size.nodes;
        // A thousand ids of the fleet begin with the same three digits.
        let path = format!("/v1/orgs/{ORG}/nodes?idfilter={ORG}%2Ff000%25");
        let load = self.load(vec![request("GET", &path, OWNER, None); CONNECTIONS]);
        self.at_half_load(&format!("a list of {LISTED} of {total} nodes"), &load, 100.0, report).await?;
        let root = format!("root/root:{ROOT_PASSWORD}");
        let all = Load {
            connections: 1,
            ..self.load(vec![request("GET", &format!("/v1/orgs/{ORG}/nodes"), &root, None)])
        };
        let outcome = all.once().await?;
        report.push(Row::new(format!("list of all {total} nodes"), outcome.secs, "s"));
        Ok(())
    }
}

/// Memory of an exchange of its own after nodes were registered over its API with chosen tokens and have logged in with them.
async fn registrations(
    stage: &Stage,
    (count, connections): (usize, usize),
    report: &mut Report,
) -> Result<(), Failure> {
    let (exchange, address) = stage.start_named_exchange("registrations").await?;
    let (own, resident) = (exchange.private_mib(), exchange.resident_mib());
    let path = |number| format!("/v1/orgs/{ORG}/nodes/registered-{number}");
    let token = |number| format!("chosen for {number}");
    let register = |number: usize| {
        let body = format!(
            r#"{{"token":"{}","name":"registered","pattern":"","publicKey":"key {number}"}}"#,
            token(number)
        );
        request("PUT", &path(number), OWNER, Some(&body))
    };
    let log_in = |number: usize| {
        let login = format!("{ORG}/registered-{number}:{}", token(number));
        request("GET", &path(number), &login, None)
    };
    for requests in [(0..count).map(register).collect::<Vec<_>>(), (0..count).map(log_in).collect()] {
        let load = Load { address, connections, requests: Arc::new(requests) };
        load.once().await?;
    }
    let after = format!("after {count} nodes with chosen tokens registered and logged in");
    report.push(
        Row::new(format!("its own memory {after}"), exchange.private_mib(), "MiB")
            .beside("before", own)
            .lasting_target(Target::AtMost(OWN_MIB)),
    );
    report.push(
        Row::new(format!("resident {after}"), exchange.resident_mib(), "MiB")
            .beside("before", resident)
            .target(Target::AtMost(RESIDENT_MIB)),
    );
    Ok(())
}

fn node_requests(nodes: &Nodes) -> Vec<Vec<u8>> {
    let path = |number| format!("/v1/orgs/{ORG}/nodes/{}", nodes.id(number));
    (0..nodes.count()).map(|number| request("GET", &path(number), &nodes.login(number), None)).collect()
}

/// A durable write of each node.
pub fn patches(nodes: &Nodes) -> Vec<Vec<u8>> {
    let patch = |number: usize| {
        let path = format!("/v1/orgs/{ORG}/nodes/{}", nodes.id(number));
        request("PATCH", &path, &nodes.login(number), Some(r#"{"msgEndPoint":"at the edge"}"#))
    };
    (0..nodes.count()).map(patch).collect()
}

fn group_list() -> Vec<u8> {
    request("GET", &format!("/v1/orgs/{ORG}/hagroups"), OWNER, None)
}
