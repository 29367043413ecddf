//! `evenkeel bench memory`: resident memory of an idle hub and of an agent, and the time to the first
//! response.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_client::ClientError;
use evenkeel_runtime::files::write_private_file;
use evenkeel_runtime::{ExitStatus, Failure};

use super::load::{Connection, request};
use super::process::Process;
use super::report::{Options, Report, Row, Target};
use super::stage::{ROOT_PASSWORD, Stage, broken};
use evenkeel_demo::fleet::{Deployment, Fleet, ORG, root_client};
use evenkeel_demo::{arch, service};

const HUB_MIB: f64 = 40.0;
const AGENT_MIB: f64 = 12.0;
/// What the pages of the hub, the manual, the console and the history may add to a hub at rest.
const GROWTH_MIB: f64 = 6.0;
const MANUAL: &str = "/manual";
const FIRST_RESPONSE_MS: f64 = 150.0;
/// The reference's time to its first response, in milliseconds.
const REFERENCE_MS: f64 = 8_000.0;
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// Longest time until a hub has read its whole fleet.
const READY_LIMIT: Duration = Duration::from_secs(600);
const VERSION: &str = "/v1/admin/version";
const READY: &str = "/readyz";
/// The agent as a program of its own; it takes the arguments of this program.
const AGENT: &str = "evenkeel-agent";
const NODE: &str = "edge-1";
const SERVICE_VERSION: &str = "1.0.0";

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    #[command(flatten)]
    pub options: Options,
    /// Measure the idle hub beside that of another build of this program, of an earlier version for example
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

impl MemoryArguments {
    /// Without another build.
    pub fn usual(options: Options) -> MemoryArguments {
        MemoryArguments { options, beside: None }
    }
}

/// Runs the benchmark.
pub async fn run(arguments: &MemoryArguments) -> Result<Report, Failure> {
    let mut report = Stage::with(async |stage| measure(arguments.options, stage).await).await?;
    if let Some(program) = &arguments.beside {
        measure_growth(arguments.options, program, &mut report).await?;
    }
    Ok(report)
}

/// Measures idle hubs of this program and of another build, and hubs whose manual and console have been read.
async fn measure_growth(options: Options, program: &Path, report: &mut Report) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(|error| broken(&error))?;
    let [before, now] = [idle_hub(options, program).await?, idle_hub(options, &own).await?];
    for (what, of) in [
        ("hub: its own memory, idle", (|one: &Idle| one.private) as fn(&Idle) -> f64),
        ("hub: resident, idle", |one| one.resident),
    ] {
        report.push(Row::new(what, of(&now), "MiB").beside("the other build", of(&before)));
    }
    report.push(
        Row::new("growth of its own memory", now.private - before.private, "MiB")
            .target(Target::AtMost(GROWTH_MIB)),
    );
    report.push(
        Row::new("the same after each page of the manual was read", now.read - before.private, "MiB")
            .target(Target::AtMost(GROWTH_MIB)),
    );
    Ok(())
}

/// Memory of a hub without a node, in MiB.
struct Idle {
    private: f64,
    resident: f64,
    /// Its own after the start page and each page of the manual was read, if it has one.
    read: f64,
}

/// Starts a hub of a program on a database of its own, and waits as the rest of the benchmark does.
async fn idle_hub(options: Options, program: &Path) -> Result<Idle, Failure> {
    let mut found = None;
    Stage::with(async |stage| {
        let address = free_address().await?;
        // An earlier version does not start on the schema of this one.
        let database = stage.empty_database("idle").await?;
        let data = stage.directory().join("hub");
        let mut hub = stage.start_hub_of(program, address, &data, Some(&database))?;
        first_200(&mut hub, address, &request("GET", READY, "", None), (Instant::now(), READY_LIMIT)).await?;
        tokio::time::sleep(settle_time(options)).await;
        let (private, resident) = (hub.private_mib(), hub.resident_mib());
        read_manual(address).await?;
        tokio::time::sleep(settle_time(options)).await;
        found = Some(Idle { private, resident, read: hub.private_mib() });
        Ok(Report::new("memory"))
    })
    .await?;
    found.ok_or_else(|| Failure::new(ExitStatus::Failure, "the idle hub was not measured"))
}

/// Reads the start page, the login of the console, and each page of the manual to which another one leads.
async fn read_manual(address: SocketAddr) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await.map_err(|error| broken(&error))?;
    let mut known = vec!["/".to_owned(), "/console/login".to_owned(), MANUAL.to_owned()];
    let mut next = 0;
    while let Some(page) = known.get(next).cloned() {
        next += 1;
        let request = format!("GET {page} HTTP/1.1\r\nhost: bench\r\naccept: text/html\r\n\r\n");
        connection.send(request.as_bytes()).await.map_err(|error| broken(&error))?;
        let body = String::from_utf8_lossy(connection.body()).into_owned();
        for link in body.split("href=\"").skip(1).filter_map(|rest| rest.split(['"', '#', '?']).next()) {
            if link.starts_with(MANUAL) && !known.iter().any(|one| one == link) {
                known.push(link.to_owned());
            }
        }
    }
    Ok(())
}

/// Time of rest before memory is measured.
fn settle_time(options: Options) -> Duration {
    Duration::from_secs(if options.short { 2 } else { 20 })
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let settle = settle_time(options);
    let starts = if options.short { 1 } else { 7 };
    let mut report = Report::new("memory");
    let (hub, address) = measure_starts(stage, starts, &mut report).await?;

    tokio::time::sleep(settle).await;
    let hello = Process::start("hello", &["bench-hello"], stage.directory())?;
    let (idle, idle_private) = (hub.resident_mib(), hub.private_mib());
    let (agent, service) = start_agent(stage, address).await?;
    tokio::time::sleep(settle).await;
    let least = hello.resident_mib();
    report.push(
        Row::new("hub: resident, idle", idle, "MiB")
            .beside("hello world", least)
            .target(Target::AtMost(HUB_MIB)),
    );
    report.push(
        Row::new("agent: resident, one service running", agent.resident_mib(), "MiB")
            .beside("hello world", least)
            .target(Target::AtMost(AGENT_MIB)),
    );
    report.push(Row::new("hub: of that its own", idle_private, "MiB"));
    report.push(Row::new("agent: of that its own", agent.private_mib(), "MiB"));
    service.check()?;
    report.add_note("Its own: RssAnon. The rest are pages of the program's file, which all processes of the program share and the system takes back when it needs them.");
    report.add_note(format!(
        "Memory is VmRSS after {} s of rest; the agent uses the process driver, and its service responds at the end.",
        settle.as_secs()
    ));
    Ok(report)
}

/// Starts hubs in the three situations of a database; returns the last one on the usual database.
async fn measure_starts(
    stage: &Stage,
    starts: usize,
    report: &mut Report,
) -> Result<(Process, SocketAddr), Failure> {
    let (mut empty, mut first, mut usual) = (Vec::new(), Vec::new(), Vec::new());
    let data = stage.directory().join("hub");
    // The first start makes keys and first rows; that is once in the life of a database.
    let mut hub = start(stage, &data, None).await?;
    for number in 0..starts {
        drop(hub);
        let database = stage.empty_database(&format!("empty{number}")).await?;
        let started =
            start(stage, &stage.directory().join(format!("empty{number}")), Some(&database)).await?;
        empty.push(started.first_response);
        drop(started);
        let database = stage.empty_database(&format!("migrated{number}")).await?;
        migrate(stage, &database)?;
        let started =
            start(stage, &stage.directory().join(format!("migrated{number}")), Some(&database)).await?;
        first.push(started.first_response);
        drop(started);
        hub = start(stage, &data, None).await?;
        usual.push((hub.first_response, hub.ready));
    }
    let (responses, ready): (Vec<f64>, Vec<f64>) = usual.into_iter().unzip();
    for (situation, times) in
        [("a migrated database", responses), ("a migrated database, at its very first start", first)]
    {
        report.push(
            Row::new(format!("hub: start to first 200 on {situation}"), median(times), "ms")
                .beside("reference", REFERENCE_MS)
                .target(Target::AtMost(FIRST_RESPONSE_MS)),
        );
    }
    report.push(Row::new("hub: the same on an empty database, which it migrates", median(empty), "ms"));
    report.push(Row::new("hub: start to ready (agbot has read everything)", median(ready), "ms"));
    report.add_note(format!(
        "Times are the median of {starts} starts, from the start of the process to the response of {VERSION}; PostgreSQL is up."
    ));
    Ok((hub.hub, hub.address))
}

/// The middle one of some measured numbers.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Brings the schema of a database to its version, in a process of its own.
fn migrate(stage: &Stage, database: &Path) -> Result<(), Failure> {
    let database = database.display().to_string();
    let process =
        Process::start("migrate", &["migrate", "--database-url-file", &database], stage.directory())?;
    process.finish()
}

struct Started {
    hub: Process,
    address: SocketAddr,
    /// Milliseconds from the start of the process.
    first_response: f64,
    ready: f64,
}

async fn start(stage: &Stage, data: &Path, database: Option<&Path>) -> Result<Started, Failure> {
    let address = free_address().await?;
    let begin = Instant::now();
    let mut hub = stage.start_hub(address, data, database)?;
    let login = format!("root/root:{ROOT_PASSWORD}");
    let first_response =
        first_200(&mut hub, address, &request("GET", VERSION, &login, None), (begin, RETRY_LIMIT)).await?;
    let ready = first_200(&mut hub, address, &request("GET", READY, "", None), (begin, READY_LIMIT)).await?;
    Ok(Started { hub, address, first_response, ready })
}

/// Starts a hub on the stage's database and waits until it is ready.
pub async fn start_ready_hub(stage: &Stage, data: &Path) -> Result<(Process, SocketAddr), Failure> {
    let started = start(stage, data, None).await?;
    Ok((started.hub, started.address))
}

/// An unused address.
async fn free_address() -> Result<SocketAddr, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| broken(&error))?;
    listener.local_addr().map_err(|error| broken(&error))
}

async fn first_200(
    process: &mut Process,
    address: SocketAddr,
    request: &[u8],
    (begin, limit): (Instant, Duration),
) -> Result<f64, Failure> {
    while begin.elapsed() < limit {
        if let Ok(mut connection) = Connection::open(address).await
            && let Ok(200) = connection.send(request).await
        {
            return Ok(begin.elapsed().as_secs_f64() * 1000.0);
        }
        process.check_running()?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(Failure::new(ExitStatus::Failure, format!("the hub does not respond:\n{}", process.log())))
}

/// The copy of the service that the agent runs.
struct Service {
    sockets: PathBuf,
}

impl Service {
    fn responds(&self) -> bool {
        service::ask(&self.sockets, NODE).is_some_and(|instance| instance.version == SERVICE_VERSION)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.responds() {
            Ok(())
        } else {
            Err(Failure::new(ExitStatus::Failure, "the service does not respond"))
        }
    }
}

/// Starts an agent and waits until a service that was deployed to it by policy responds.
async fn start_agent(stage: &Stage, hub: SocketAddr) -> Result<(Process, Service), Failure> {
    let url = format!("http://{hub}");
    let service = Service { sockets: stage.directory().join("sockets") };
    std::fs::create_dir_all(&service.sockets).map_err(|error| broken(&error))?;
    let token = deploy(&url, &service.sockets)
        .await
        .map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    let token_file = stage.directory().join("token");
    write_private_file(&token_file, token.as_bytes())
        .map_err(|error| Failure::from_error(ExitStatus::DataDirectory, &error))?;
    let data = stage.directory().join("agent");
    let (token_file, data) = (token_file.display().to_string(), data.display().to_string());
    let arguments = [
        "agent",
        "--hub",
        &url,
        "--org",
        ORG,
        "--node-id",
        NODE,
        "--token-file",
        &token_file,
        "--driver",
        "process",
        "--data-dir",
        &data,
        "--stop-services",
        "--api-listen",
        "off",
    ];
    let mut agent = Process::start_program(&agent_program()?, "agent", &arguments, stage.directory())?;
    let until = Instant::now() + RETRY_LIMIT;
    while !service.responds() {
        agent.check_running()?;
        if Instant::now() > until {
            return Err(Failure::new(
                ExitStatus::Failure,
                format!("the agent does not run its service:\n{}", agent.log()),
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok((agent, service))
}

/// Returns the program `evenkeel-agent` beside this one; without it, this one, whose agent is larger.
fn agent_program() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| broken(&error))?;
    Ok(Some(own.with_file_name(AGENT)).filter(|agent| agent.exists()).unwrap_or(own))
}

/// Makes organization, node, group, service and policy; returns the node's token.
async fn deploy(url: &str, sockets: &Path) -> Result<String, ClientError> {
    let root = root_client(url, ROOT_PASSWORD)?;
    let fleet = Fleet::create(&root, arch()).await?;
    let token = fleet.create_node(NODE).await?;
    fleet.create_group(&[NODE.to_owned()]).await?;
    fleet.publish_service(SERVICE_VERSION, sockets).await?;
    fleet.create_policy(SERVICE_VERSION, &Deployment::group()).await?;
    Ok(token)
}
