//! `evenkeel bench memory`: resident memory of an idle hub and an idle agent, and the time to the first answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use evenkeel_runtime::files::write_private_file;
use evenkeel_runtime::{ExitStatus, Failure};

use super::fleet::{ORG, Scribe};
use super::load::{Connection, request};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{ROOT_PASSWORD, Stage, broken};

const HUB_MIB: f64 = 40.0;
const AGENT_MIB: f64 = 12.0;
const FIRST_ANSWER_MS: f64 = 150.0;
const PATIENCE: Duration = Duration::from_secs(60);
const VERSION: &str = "/v1/admin/version";
const READY: &str = "/readyz";

/// Runs the benchmark.
pub async fn run(options: &Options) -> Result<Report, Failure> {
    let stage = Stage::open().await?;
    let outcome = measure(options, &stage).await;
    stage.close().await;
    outcome
}

async fn measure(options: &Options, stage: &Stage) -> Result<Report, Failure> {
    let settle = Duration::from_secs(if options.short { 2 } else { 15 });
    let starts = if options.short { 1 } else { 5 };
    let mut report = Report::new("memory");
    let hub_data = stage.folder().join("hub");
    // The first start makes keys and first rows; that is once in the life of a database.
    let first = start(stage, &hub_data).await?;
    drop(first.hub);
    let mut best: Option<Started> = None;
    let mut times = Vec::new();
    for _ in 0..starts {
        drop(best.take());
        let started = start(stage, &hub_data).await?;
        times.push((started.first_answer, started.ready));
        best = Some(started);
    }
    let hub = best.ok_or_else(|| Failure::new(ExitStatus::Failure, "no start was measured"))?;
    times.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (answer, _) = times[times.len() / 2];
    times.sort_by(|left, right| left.1.total_cmp(&right.1));
    let (_, ready) = times[times.len() / 2];
    report.push(
        Row::new("hub: start to first 200 of the API", answer, "ms")
            .beside("at the very first start", first.first_answer)
            .target(Target::AtMost(FIRST_ANSWER_MS)),
    );
    report.push(
        Row::new("hub: start to ready (agbot has read everything)", ready, "ms")
            .beside("at the very first start", first.ready),
    );
    tokio::time::sleep(settle).await;
    let hello = Process::start("hello", &["bench-hello"], stage.folder())?;
    report.push(
        Row::new("hub: resident, idle", hub.hub.resident_mib(), "MiB")
            .beside("hello world", hello.resident_mib())
            .target(Target::AtMost(HUB_MIB)),
    );
    let agent = start_agent(stage, hub.address).await?;
    tokio::time::sleep(settle).await;
    report.push(
        Row::new("agent: resident, registered and idle", agent.resident_mib(), "MiB")
            .beside("hello world", hello.resident_mib())
            .target(Target::AtMost(AGENT_MIB)),
    );
    report.note(format!(
        "Times are the median of {starts} starts, from the start of the process; the database is up and migrated."
    ));
    report.note(format!("Memory is VmRSS after {} s without requests.", settle.as_secs()));
    Ok(report)
}

struct Started {
    hub: Process,
    address: SocketAddr,
    /// Milliseconds from the start of the process.
    first_answer: f64,
    ready: f64,
}

async fn start(stage: &Stage, data: &std::path::Path) -> Result<Started, Failure> {
    let address = free_address().await?;
    let begin = Instant::now();
    let mut hub = stage.start_hub(address, data)?;
    let login = format!("root/root:{ROOT_PASSWORD}");
    let first_answer = first_200(&mut hub, address, &request("GET", VERSION, &login, None), begin).await?;
    let ready = first_200(&mut hub, address, &request("GET", READY, "", None), begin).await?;
    Ok(Started { hub, address, first_answer, ready })
}

/// An address that nobody uses now.
async fn free_address() -> Result<SocketAddr, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| broken(&error))?;
    listener.local_addr().map_err(|error| broken(&error))
}

async fn first_200(
    process: &mut Process,
    address: SocketAddr,
    request: &[u8],
    begin: Instant,
) -> Result<f64, Failure> {
    while begin.elapsed() < PATIENCE {
        if let Ok(mut connection) = Connection::open(address).await
            && let Ok(200) = connection.send(request).await
        {
            return Ok(begin.elapsed().as_secs_f64() * 1000.0);
        }
        process.check_running()?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(Failure::new(ExitStatus::Failure, format!("the hub does not answer:\n{}", process.log())))
}

/// Starts an agent and waits until its node is registered with its key.
async fn start_agent(stage: &Stage, hub: SocketAddr) -> Result<Process, Failure> {
    let scribe = Scribe::new(stage.connect().await?).await?;
    let nodes = scribe.nodes("n", 1).await?;
    let login = nodes.login(0);
    let token_file = stage.folder().join("token");
    let token = login.rsplit(':').next().unwrap_or_default();
    write_private_file(&token_file, token.as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataFolder, &error))?;
    let data = stage.folder().join("agent");
    let (url, node) = (format!("http://{hub}"), nodes.id(0));
    let (token_file, data) = (token_file.display().to_string(), data.display().to_string());
    let arguments = [
        "agent",
        "--hub",
        &url,
        "--org",
        ORG,
        "--node-id",
        &node,
        "--token-file",
        &token_file,
        "--driver",
        "process",
        "--data-dir",
        &data,
    ];
    let mut agent = Process::start("agent", &arguments, stage.folder())?;
    let read = request("GET", &format!("/v1/orgs/{ORG}/nodes/{node}/policy"), &login, None);
    // Its policy with the built-in properties is the last thing that a joining agent writes.
    first_200(&mut agent, hub, &read, Instant::now()).await?;
    Ok(agent)
}
