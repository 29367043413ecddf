//! A guardian with an agent at the other end that renews leases, or does not, with real processes and, where there is an engine, containers.

use std::{path::Path, time::Duration};

use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{kill::Killer, *};
use crate::{
    clock,
    deployment::Deployment,
    drivers::{
        Driver, ServiceSpec,
        docker::DockerDriver,
        process::{ProcessDriver, ProcessSettings},
    },
    tests::engine::{Engine, IMAGE},
};

const KEY: &str = "k1";

fn agent_of(directory: &Path) -> String {
    format!("guarded-{}", directory.display()).replace('/', "-")
}

/// Starts a process under the process driver of a data directory.
async fn started(directory: &Path) -> ProcessDriver {
    let settings = ProcessSettings {
        grace: Duration::from_millis(500),
        settle: Duration::from_millis(50),
        ..ProcessSettings::new(directory.join("processes"), agent_of(directory))
    };
    let driver = ProcessDriver::open(settings).unwrap();
    let text =
        r#"{"services":{"main":{"command":["/bin/sh","-c","trap '' TERM; setsid sleep 100 & sleep 100"]}}}"#;
    let task = Some("t1".to_owned());
    let deployment = Deployment::parse(text, "").unwrap();
    driver
        .start(&ServiceSpec { task, ..ServiceSpec::new(KEY.to_owned(), deployment, Vec::new()) })
        .await
        .unwrap();
    until("the service runs", || count(directory) >= 3).await;
    driver
}

/// Returns the number of processes of the service.
fn count(directory: &Path) -> usize {
    let mark = format!("EVENKEEL_PROCESS={}/{KEY}/", agent_of(directory));
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_marked = |path: PathBuf| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair.starts_with(mark.as_bytes()))
    };
    processes.filter(|entry| is_marked(entry.path())).count()
}

async fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    timeout(Duration::from_secs(20), async {
        while !is_met() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("never: {what}"));
}

async fn connected(directory: &Path) -> BufReader<UnixStream> {
    timeout(Duration::from_secs(20), async {
        loop {
            match socket::connect(directory).await {
                Ok(stream) => return BufReader::new(stream),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await
    .expect("the guardian listens")
}

fn request(directory: &Path, until_ms: u64) -> Request {
    Request {
        number: 7,
        agent: agent_of(directory),
        means: Means::Processes,
        leases: vec![Lease { task: "t1".to_owned(), keys: vec![KEY.to_owned()], lease_secs: 60, until_ms }],
        is_last: false,
    }
}

async fn ask(connection: &mut BufReader<UnixStream>, request: &Request) -> Confirmation {
    let line = format!("{}\n", serde_json::to_string(request).unwrap());
    connection.get_mut().write_all(line.as_bytes()).await.unwrap();
    let mut line = String::new();
    timeout(Duration::from_secs(20), connection.read_line(&mut line)).await.expect("a response").unwrap();
    serde_json::from_str(&line).unwrap()
}

fn guard(directory: &Path, is_of_agent: bool) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let (shutdown, directory) = (CancellationToken::new(), directory.to_owned());
    let token = shutdown.clone();
    let task = tokio::spawn(async move { serve(&directory, is_of_agent, token).await.unwrap() });
    (shutdown, task)
}

#[tokio::test]
async fn service_is_killed_when_its_lease_is_not_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let driver = started(directory.path()).await;
    let (_shutdown, _task) = guard(directory.path(), false);
    let mut agent = connected(directory.path()).await;
    let later = clock::uptime_ms() + 600_000;
    let confirmation = ask(&mut agent, &request(directory.path(), later)).await;
    assert_eq!((confirmation.number, confirmation.is_of_agent), (7, false));
    assert!(confirmation.killed.is_empty() && count(directory.path()) >= 3);
    // The agent is alive and sends nothing more.
    let over = clock::uptime_ms().saturating_sub(MARGIN_MS);
    ask(&mut agent, &request(directory.path(), over)).await;
    until("everything is killed, also what has left the group", || count(directory.path()) == 0).await;
    let confirmation = ask(&mut agent, &request(directory.path(), over)).await;
    assert_eq!(confirmation.killed, ["t1"], "an agent that comes back learns it");
    driver.stop(KEY).await.unwrap();
}

/// Starts containers of an agent, one for each key.
async fn contained(engine: &Engine, keys: &[&str]) -> DockerDriver {
    let driver = DockerDriver::new(engine.endpoint(), "agent-1".to_owned(), Duration::from_secs(1), 5);
    let text = format!(r#"{{"services":{{"web":{{"image":"{IMAGE}"}}}}}}"#);
    for key in keys {
        let deployment = Deployment::parse(&text, "").unwrap();
        let task = Some(format!("task-{key}"));
        let service = ServiceSpec { task, ..ServiceSpec::new((*key).to_owned(), deployment, Vec::new()) };
        driver.start(&service).await.unwrap();
        assert!(is_soon(&driver, key, true).await, "{key} runs");
    }
    driver
}

/// Waits until a container runs, or no longer does; `false` when that does not happen.
async fn is_soon(driver: &DockerDriver, key: &str, is_running: bool) -> bool {
    let seen = timeout(Duration::from_secs(30), async {
        while driver.observe(key).await.is_running() != is_running {
            sleep(Duration::from_millis(50)).await;
        }
    });
    seen.await.is_ok()
}

#[tokio::test]
async fn container_is_killed_by_the_engine_when_its_lease_is_not_renewed() {
    let Some(engine) = Engine::start().await else { return };
    let driver = contained(&engine, &["a1", "a2"]).await;
    let directory = tempfile::tempdir().unwrap();
    let (_shutdown, _task) = guard(directory.path(), false);
    let mut agent = connected(directory.path()).await;
    let until = |until_ms| {
        let lease =
            Lease { task: "task-a1".to_owned(), keys: vec!["a1".to_owned()], lease_secs: 60, until_ms };
        Request {
            agent: "agent-1".to_owned(),
            means: Means::Containers(engine.endpoint()),
            leases: vec![lease],
            ..request(directory.path(), until_ms)
        }
    };
    ask(&mut agent, &until(clock::uptime_ms() + 600_000)).await;
    assert!(driver.observe("a1").await.is_running());
    let over = until(clock::uptime_ms().saturating_sub(MARGIN_MS));
    ask(&mut agent, &over).await;
    assert!(is_soon(&driver, "a1", false).await, "its lease is over");
    assert!(driver.observe("a2").await.is_running(), "it has no lease");
    let killed = timeout(Duration::from_secs(20), async {
        loop {
            let confirmation = ask(&mut agent, &over).await;
            if !confirmation.killed.is_empty() {
                return confirmation.killed;
            }
        }
    });
    assert_eq!(killed.await.expect("an agent that comes back learns it"), ["task-a1"]);
}

/// Kills a container; the ids of containers may not have been listed yet.
async fn kill_soon(killer: &mut Killer, directory: &Path, endpoint: &str, key: &str) {
    let (means, keys) = (Means::Containers(endpoint.to_owned()), [key.to_owned()].into());
    let killed = timeout(Duration::from_secs(30), async {
        while killer.kill(directory, ("agent-1", &means), &keys).await == 0 {
            sleep(Duration::from_millis(50)).await;
        }
    });
    killed.await.unwrap_or_else(|_| panic!("never killed: {key}"));
}

#[tokio::test]
async fn container_is_killed_by_its_cgroup_when_the_engine_is_dead_or_does_not_respond() {
    let Some(engine) = Engine::start().await else { return };
    let driver = contained(&engine, &["a1", "a2", "a3"]).await;
    let directory = tempfile::tempdir().unwrap();
    let mut killer = Killer::new();
    let keys = ["a1".to_owned(), "a2".to_owned()].into();
    killer.prepare("agent-1", &Means::Containers(engine.endpoint()), keys);
    let dead = format!("unix://{}", directory.path().join("none.sock").display());
    kill_soon(&mut killer, directory.path(), &dead, "a1").await;
    engine.signal(Signal::SIGSTOP);
    kill_soon(&mut killer, directory.path(), &engine.endpoint(), "a2").await;
    engine.signal(Signal::SIGCONT);
    for key in ["a1", "a2"] {
        assert!(is_soon(&driver, key, false).await, "{key} is dead");
    }
    assert!(driver.observe("a3").await.is_running(), "no other container is touched");
}

#[tokio::test]
async fn next_guardian_knows_the_leases_and_kills_although_no_agent_lives() {
    let directory = tempfile::tempdir().unwrap();
    let driver = started(directory.path()).await;
    let (first, task) = guard(directory.path(), false);
    let mut agent = connected(directory.path()).await;
    let over = clock::uptime_ms() + 500;
    ask(&mut agent, &request(directory.path(), over)).await;
    drop(agent);
    first.cancel();
    task.await.unwrap();
    assert!(count(directory.path()) >= 3);
    let (_second, _task) = guard(directory.path(), false);
    until("the second guardian kills", || count(directory.path()) == 0).await;
    assert!(clock::uptime_ms() >= over + MARGIN_MS, "and not before the lease is over");
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn guardian_of_the_service_manager_waits_for_the_first_one_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let (first, task) = guard(directory.path(), false);
    drop(connected(directory.path()).await);
    // A guardian that an agent starts leaves the lock to it.
    let (_third, third) = guard(directory.path(), true);
    timeout(Duration::from_secs(20), third).await.expect("it ends").unwrap();
    let (_second, _waiting) = guard(directory.path(), false);
    first.cancel();
    task.await.unwrap();
    let mut agent = connected(directory.path()).await;
    let later = clock::uptime_ms() + 600_000;
    assert_eq!(ask(&mut agent, &request(directory.path(), later)).await.number, 7);
}

#[tokio::test]
async fn last_request_ends_only_the_guardian_that_an_agent_has_started() {
    let directory = tempfile::tempdir().unwrap();
    for is_of_agent in [true, false] {
        let (shutdown, task) = guard(directory.path(), is_of_agent);
        drop(connected(directory.path()).await);
        dismiss(directory.path(), "a", Means::Processes, Vec::new()).await;
        if is_of_agent {
            timeout(Duration::from_secs(20), task).await.expect("it ends").unwrap();
        } else {
            assert!(!task.is_finished());
            shutdown.cancel();
            task.await.unwrap();
        }
    }
}
