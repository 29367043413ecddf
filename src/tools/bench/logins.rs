//! `evenkeel bench logins`: what a flood of bad logins does to the polls of nodes that are logged in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};
use tokio::task::JoinSet;

use super::fleet::{Nodes, ORG, Scribe};
use super::load::{Connection, Load, Outcome, request};
use super::poll::poll_requests;
use super::report::{Options, Report, Row, Target};
use super::stage::Stage;

const POLL_CONNECTIONS: usize = 32;
/// Polls a second while it is measured: a busy exchange that is not at its end.
const POLL_RATE: f64 = 500.0;
const ATTACK_CONNECTIONS: usize = 256;
const ATTACK_RATE: f64 = 1_000.0;
/// Origin of bad logins.
const ORIGINS: [Origin; 2] = [Origin::OneAddress, Origin::ManyAddresses];
/// The times of polls with the flood divided by those without.
const RATIO: f64 = 2.0;
const UNAUTHORIZED: u16 = 401;
const TOO_MANY: u16 = 429;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_secs(if options.short { 2 } else { 10 });
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", if options.short { 200 } else { 1_000 }).await?;
    let victims = scribe.nodes_with_chosen_token("v", 50).await?;
    let (_exchange, address) = stage.start_exchange().await?;
    let last = scribe.last_number().await?;
    let polls = Arc::new(poll_requests(&nodes, last + 1));
    let load = Load { address, connections: POLL_CONNECTIONS, requests: polls };
    load.once().await?;
    load.open(POLL_RATE, length / 4).await?;

    // Half before and half after the flood, so that a machine that changes its speed does not favour one of them.
    let before = load.open(POLL_RATE, length / 2).await?;
    let mut floods = Vec::new();
    for origin in ORIGINS {
        floods.push((origin, flood(address, &victims, &load, length, origin).await?));
    }
    let after = load.open(POLL_RATE, length / 2).await?;
    let mut quiet = before.and(after);

    let mut report = Report::new("logins");
    for (origin, (flooded, attack)) in &mut floods {
        add_rows(&mut report, *origin, flooded, *attack, &mut quiet, length);
    }
    report.add_note(format!(
        "{POLL_RATE:.0} polls/s of {} nodes over {POLL_CONNECTIONS} connections; bad logins over {ATTACK_CONNECTIONS} connections, each with \
         another password, half of them as {} nodes whose tokens are kept as Argon2id, half under names that nobody has.",
        nodes.count(),
        victims.count()
    ));
    Ok(report)
}

fn add_rows(
    report: &mut Report,
    origin: Origin,
    flooded: &mut Outcome,
    attack: Responses,
    quiet: &mut Outcome,
    length: Duration,
) {
    let from = origin.words();
    for (name, share, target) in [("p99", 0.99, Some(Target::RatioAtMost(RATIO))), ("median", 0.5, None)] {
        let measure = format!("{name} of an idle poll under {ATTACK_RATE:.0} bad logins/s from {from}");
        let row = Row::new(measure, flooded.quantile_millis(share), "ms");
        let row = row.beside("without", quiet.quantile_millis(share));
        report.push(match target {
            Some(target) => row.target(target),
            None => row,
        });
    }
    let secs = length.as_secs_f64();
    for (what, count) in [
        ("responses to bad logins", attack.count()),
        ("of them checked (401)", attack.checked),
        ("of them turned away (429)", attack.turned_away),
    ] {
        report.push(Row::new(format!("{what}, from {from}"), count as f64 / secs, "/s"));
    }
}

/// Origin of bad logins.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// All from the same address, which is stopped soon.
    OneAddress,
    /// Each connection from an address of its own, none often enough to be stopped.
    ManyAddresses,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Origin::OneAddress => "one address",
            Origin::ManyAddresses => "many addresses",
        }
    }

    /// The address of a connection. The whole network 127.0.0.0/8 is this machine.
    fn address(self, connection: usize) -> IpAddr {
        match self {
            Origin::OneAddress => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Origin::ManyAddresses => {
                let [.., high, low] = connection.to_be_bytes();
                IpAddr::V4(Ipv4Addr::new(127, 1, high, low))
            }
        }
    }
}

/// Responses to bad logins.
#[derive(Debug, Default, Clone, Copy)]
struct Responses {
    checked: u64,
    turned_away: u64,
}

impl Responses {
    fn count(self) -> u64 {
        self.checked + self.turned_away
    }
}

/// Polls while bad logins come.
async fn flood(
    address: SocketAddr,
    victims: &Nodes,
    polls: &Load,
    length: Duration,
    origin: Origin,
) -> Result<(Outcome, Responses), Failure> {
    let turn = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut attackers = JoinSet::new();
    for connection in 0..ATTACK_CONNECTIONS {
        let names: Vec<String> = (0..victims.count()).map(|number| victims.id(number)).collect();
        let source = origin.address(connection);
        attackers.spawn(attack((source, address), names, turn.clone(), begin, length));
    }
    let polled = polls.open(POLL_RATE, length).await?;
    let mut responses = Responses::default();
    while let Some(ended) = attackers.join_next().await {
        let ended = ended.map_err(|error| Failure::new(ExitStatus::Failure, error.to_string()))?;
        let one = ended.map_err(|error| {
            Failure::new(ExitStatus::Failure, format!("no response to a bad login: {error}"))
        })?;
        responses.checked += one.checked;
        responses.turned_away += one.turned_away;
    }
    Ok((polled, responses))
}

async fn attack(
    (source, address): (IpAddr, SocketAddr),
    names: Vec<String>,
    turn: Arc<AtomicU64>,
    begin: Instant,
    length: Duration,
) -> std::io::Result<Responses> {
    let mut connection = Connection::open_from(source, address).await?;
    let mut responses = Responses::default();
    loop {
        let number = turn.fetch_add(1, Ordering::Relaxed);
        let after = Duration::from_secs_f64(number as f64 / ATTACK_RATE);
        if after >= length || begin.elapsed() >= length {
            return Ok(responses);
        }
        tokio::time::sleep_until((begin + after).into()).await;
        let name = &names[number as usize % names.len()];
        let login = match number % 2 {
            0 => format!("{ORG}/{name}:guess-{number}"),
            _ => format!("{ORG}/nobody-{number}:guess"),
        };
        match connection.send(&request("GET", &format!("/v1/orgs/{ORG}"), &login, None)).await? {
            UNAUTHORIZED => responses.checked += 1,
            TOO_MANY => responses.turned_away += 1,
            other => {
                return Err(std::io::Error::other(format!("the response to a bad login has status {other}")));
            }
        }
    }
}
