//! The second part of `evenkeel bench console`: tabs that watch a rollout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::Database;
use evenkeel_wire::exchange::user::PutUser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::console::{Browser, get};
use super::console_fleet::{ConsoleFleet, PASSWORD, ROLLOUT, called, client};
use super::fleet::ORG;
use super::load::Connection;
use super::memory::start_ready_hub;
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, broken, refused, store_failed};

/// Tabs, and the people who have them open: each has as many streams as an account may have.
const TABS: usize = 200;
const PEOPLE: usize = 5;
/// CPU of the hub for all of them, in hundredths of a core.
const SHARE: f64 = 10.0;
/// A tab reads its page again at most this often.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two events of the rollout.
const EVENT: Duration = Duration::from_millis(200);

/// Measures what tabs cost a hub whose rollout of all nodes continues.
pub(super) async fn measure(options: Options, report: &mut Report) -> Result<(), Failure> {
    let (tabs, nodes) = if options.short { (10, 500) } else { (TABS, 10_000) };
    let length = Duration::from_secs(if options.short { 3 } else { 30 });
    Stage::with(async |stage| {
        ConsoleFleet::write(stage, nodes, nodes).await?;
        let (hub, address) = start_ready_hub(stage, &stage.directory().join("hub")).await?;
        let operator = client(address, "operator").map_err(called)?;
        for person in 0..PEOPLE {
            let user = PutUser {
                password: Some(PASSWORD.to_owned()),
                email: Some(format!("person{person}@bench.example")),
                admin: true,
                ..PutUser::default()
            };
            operator.create_user(ORG, &format!("person{person}"), &user).await.map_err(called)?;
        }
        tokio::time::sleep(if options.short { PAUSE } else { 20 * PAUSE }).await;
        let database = stage.connect().await?;
        let alone = during(&hub, &database, length).await?;
        let watched = Watched::begin(address, tabs).await?;
        // The first read of each tab is that of a page that is opened.
        tokio::time::sleep(if options.short { PAUSE } else { 5 * PAUSE }).await;
        let before = watched.reads.load(Ordering::Relaxed);
        let share = during(&hub, &database, length).await?;
        let reads = watched.reads.load(Ordering::Relaxed) - before;
        watched.check()?;
        add(report, (tabs, nodes), (share, alone), reads as f64 / length.as_secs_f64());
        Ok(Report::new("console"))
    })
    .await
    .map(drop)
}

fn add(report: &mut Report, (tabs, nodes): (usize, usize), (share, alone): (f64, f64), reads: f64) {
    report.push(
        Row::new(
            format!("CPU for {tabs} tabs that watch a rollout of {nodes} nodes"),
            share - alone,
            "% of a core",
        )
        .beside("the hub without tabs", alone)
        .target(Target::AtMost(SHARE)),
    );
    report.push(
        Row::new("pages that they read again", reads, "/s")
            .beside("one each second for each tab", tabs as f64)
            .lasting_target(Target::RatioAtMost(1.0)),
    );
}

/// Events of the rollout go on; returns the CPU of the hub, in hundredths of one core.
async fn during(hub: &Process, database: &Database, length: Duration) -> Result<f64, Failure> {
    let (begin, before) = (Instant::now(), hub.cpu_time());
    let mut connection = database.acquire().await.map_err(|error| store_failed(&error))?;
    while begin.elapsed() < length {
        sqlx::query(
            "INSERT INTO agbot_event (happened_at, kind, node, policy, detail)
             VALUES (now(), 'task.running', 'bench/n000000', $1, '{\"slot\": \"1\", \"text\": \"its node reported that it runs\"}')",
        )
        .bind(format!("{ORG}/{ROLLOUT}"))
        .execute(&mut *connection)
        .await
        .map_err(|error| refused(&error))?;
        tokio::time::sleep(EVENT).await;
    }
    Ok(hub.cpu_time().saturating_sub(before).as_secs_f64() * 100.0 / begin.elapsed().as_secs_f64())
}

/// The tabs, until they are dropped.
struct Watched {
    tabs: JoinSet<Result<(), Failure>>,
    reads: Arc<AtomicU64>,
}

impl Watched {
    async fn begin(address: SocketAddr, count: usize) -> Result<Watched, Failure> {
        let reads = Arc::new(AtomicU64::new(0));
        let mut tabs = JoinSet::new();
        let mut people = Vec::new();
        for person in 0..PEOPLE {
            people.push(Browser::log_in(address, &format!("person{person}")).await?);
        }
        for tab in 0..count {
            let cookie = people[tab % PEOPLE].cookie().to_owned();
            tabs.spawn(watch(address, cookie, reads.clone()));
        }
        Ok(Watched { tabs, reads })
    }

    /// Fails when a tab has lost its stream.
    fn check(mut self) -> Result<(), Failure> {
        match self.tabs.try_join_next() {
            None => Ok(()),
            Some(Ok(Err(failure))) => Err(failure),
            Some(_) => Err(Failure::new(ExitStatus::Failure, "a tab has lost its event stream")),
        }
    }
}

/// Reads a page whenever its stream says that something has happened, as the script of the page does.
async fn watch(address: SocketAddr, cookie: String, reads: Arc<AtomicU64>) -> Result<(), Failure> {
    let page = get(&format!("/console/orgs/{ORG}/rollouts/{ROLLOUT}"), &cookie, "");
    let mut pages = Connection::open(address).await.map_err(|error| broken(&error))?;
    let mut stream = TcpStream::connect(address).await.map_err(|error| broken(&error))?;
    let follow = get(&format!("/console/orgs/{ORG}/live"), &cookie, "");
    stream.write_all(&follow).await.map_err(|error| broken(&error))?;
    let mut due = Instant::now();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        if stream.read_buf(&mut buffer).await.map_err(|error| broken(&error))? == 0 {
            return Err(Failure::new(ExitStatus::Failure, "an event stream has ended"));
        }
        let text = String::from_utf8_lossy(&buffer);
        if text.starts_with("HTTP/1.1") && !text.starts_with("HTTP/1.1 200") {
            return Err(Failure::new(ExitStatus::Failure, format!("no event stream: {text}")));
        }
        if !text.contains("event: change") {
            continue;
        }
        tokio::time::sleep_until(due.into()).await;
        let status = pages.send(&page).await.map_err(|error| broken(&error))?;
        if status != 200 {
            let body = String::from_utf8_lossy(pages.body()).into_owned();
            return Err(Failure::new(ExitStatus::Failure, format!("a page has status {status}: {body}")));
        }
        reads.fetch_add(1, Ordering::Relaxed);
        due = Instant::now() + PAUSE;
    }
}
