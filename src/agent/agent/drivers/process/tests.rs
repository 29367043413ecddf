//! The process driver with real processes, including an agent killed at any point.

use std::{path::Path, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{deployment::Deployment, step::RunState};

const KEY: &str = "a1b2";
const HELPER: &str = "EVENKEEL_TEST_HELPER_DIRECTORY";

fn settings(directory: &Path) -> ProcessSettings {
    ProcessSettings {
        grace: Duration::from_millis(500),
        settle: Duration::from_millis(50),
        first_pause: Duration::from_millis(30),
        longest_pause: Duration::from_millis(200),
        ..ProcessSettings::new(
            directory.to_owned(),
            format!("test-{}", directory.display()).replace('/', "-"),
        )
    }
}

fn service(script: &str) -> ServiceSpec {
    let text = serde_json::json!({"services": {"main": {"command": ["/bin/sh", "-c", script]}}}).to_string();
    let environment = vec![("HZN_AGREEMENTID".to_owned(), KEY.to_owned())];
    ServiceSpec::new(KEY.to_owned(), Deployment::parse(&text, "").unwrap(), environment)
}

async fn until(driver: &ProcessDriver, wanted: RunState) -> ContainerState {
    timeout(Duration::from_secs(10), async {
        loop {
            let seen = driver.observe(KEY).await;
            if let Some(container) = seen.containers.first().filter(|container| container.state == wanted) {
                return container.clone();
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("the process never was {wanted:?}"))
}

fn pids(driver: &ProcessDriver) -> Vec<i32> {
    table::find_marked(&driver.shared.settings.agent).iter().map(|process| process.pid).collect()
}

fn leader(driver: &ProcessDriver) -> i32 {
    lock(&driver.shared.records).all().first().expect("a record").pid
}

#[tokio::test]
async fn stopping_ends_the_whole_group_even_those_that_do_not_listen() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    driver
        .start(&service("trap '' TERM; (trap '' TERM; sleep 100) & setsid sleep 100 & wait"))
        .await
        .unwrap();
    until(&driver, RunState::Running).await;
    timeout(Duration::from_secs(5), async {
        while pids(&driver).len() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the script starts all of its processes");
    driver.stop(KEY).await.unwrap();
    assert_eq!(pids(&driver), Vec::<i32>::new());
    assert!(driver.observe(KEY).await.containers.is_empty());
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn exit_is_seen_with_its_code_and_its_last_output() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    driver.start(&service("echo starting; echo broken >&2; exit 3")).await.unwrap();
    let failures = until(&driver, RunState::Restarting).await.failures;
    assert_eq!((failures.code, failures.signal), (Some(3), None));
    assert_eq!(failures.output, ["starting", "broken"]);
    timeout(Duration::from_secs(10), async {
        while until(&driver, RunState::Restarting).await.failures.exits < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("every exit is counted");
    driver.stop(KEY).await.unwrap();

    driver.start(&service("kill -9 $$")).await.unwrap();
    let failures = until(&driver, RunState::Restarting).await.failures;
    assert_eq!((failures.code, failures.signal), (None, Some(9)));
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn process_that_ends_is_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    let script = format!(
        "echo run >> {0}/count; [ $(wc -l < {0}/count) -ge 3 ] && exec sleep 100",
        directory.path().display()
    );
    driver.start(&service(&script)).await.unwrap();
    until(&driver, RunState::Restarting).await;
    let count = || std::fs::read_to_string(directory.path().join("count")).unwrap().lines().count();
    timeout(Duration::from_secs(10), async {
        while count() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is started twice again");
    until(&driver, RunState::Running).await;
    assert_eq!(count(), 3);
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn process_of_a_task_stays_down_after_its_exit() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    let task = ServiceSpec { task: Some("t1".to_owned()), ..service("echo $EVENKEEL_TASK; exit 3") };
    driver.prepare(&task).await.unwrap();
    assert!(driver.is_gone(KEY).await, "it is prepared and not started");
    driver.start(&task).await.unwrap();
    let failures = until(&driver, RunState::Exited).await.failures;
    assert_eq!((failures.code, failures.exits), (Some(3), 1));
    assert_eq!(failures.output, ["t1"]);
    driver.start(&task).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(until(&driver, RunState::Exited).await.failures.exits, 1, "it is not started again");
    assert!(!driver.is_gone(KEY).await);
    driver.stop(KEY).await.unwrap();
    assert!(driver.is_gone(KEY).await);

    // A service that already runs is assigned to a task.
    driver.start(&service("exec sleep 100")).await.unwrap();
    until(&driver, RunState::Running).await;
    driver.set_restarts(KEY, false).await.unwrap();
    nix::sys::signal::kill(Pid::from_raw(leader(&driver)), Signal::SIGKILL).unwrap();
    assert_eq!(until(&driver, RunState::Exited).await.failures.signal, Some(9));
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_never_counts_as_running() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    let text = r#"{"services":{"main":{"command":["/does/not/exist"]}}}"#;
    let missing = ServiceSpec { deployment: Deployment::parse(text, "").unwrap(), ..service("") };
    driver.start(&missing).await.unwrap();
    until(&driver, RunState::Restarting).await;
    driver.stop(KEY).await.unwrap();
    let text = r#"{"services":{"main":{"image":"x"}}}"#;
    let image = ServiceSpec { deployment: Deployment::parse(text, "").unwrap(), ..service("") };
    assert!(matches!(driver.start(&image).await, Err(DriverError::Unsuitable(_))));
}

#[tokio::test]
async fn output_goes_to_the_log_and_the_environment_is_the_contracts() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    driver.start(&service("env; exec sleep 100")).await.unwrap();
    until(&driver, RunState::Running).await;
    let log = std::fs::read_to_string(log_file::path(directory.path(), KEY, "main")).unwrap();
    assert!(log.contains("HZN_AGREEMENTID=a1b2"), "{log}");
    assert!(!log.contains("CARGO_"), "{log}");
    driver.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn output_is_read_in_parts_by_position() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "echo one; echo two; while [ ! -e {0} ]; do sleep 0.02; done; echo three; exec sleep 100",
        go.display()
    );
    driver.start(&service(&script)).await.unwrap();
    until(&driver, RunState::Running).await;
    let first = driver.read_log(KEY, "main", LogStart::Last(1)).await.unwrap();
    assert_eq!(first.text, "two\n");
    std::fs::write(go, "").unwrap();
    let next = timeout(Duration::from_secs(10), async {
        loop {
            let start = LogStart::After(first.position.clone());
            let next = driver.read_log(KEY, "main", start).await.unwrap();
            if !next.text.is_empty() {
                return next;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the rest is written");
    assert_eq!(next.text, "three\n");
    assert!(driver.read_log(KEY, "main", LogStart::After("x".to_owned())).await.is_err());
    driver.stop(KEY).await.unwrap();
    assert_eq!(driver.read_log(KEY, "other", LogStart::Last(9)).await.unwrap().text, "");
}

#[tokio::test]
async fn processes_of_an_agent_that_was_killed_are_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let mut helper = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "drivers::process::tests::helper_agent", "--nocapture"])
        .env(HELPER, directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    timeout(Duration::from_secs(20), async {
        while !directory.path().join("ready").exists() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the helper starts its process");
    let pid = Pid::from_raw(i32::try_from(helper.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    helper.wait().await.unwrap();

    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    let before = leader(&driver);
    driver.adopt(&[service("exec sleep 100")]).await.unwrap();
    until(&driver, RunState::Running).await;
    assert_eq!(leader(&driver), before, "the process continues under its new agent");
    assert_eq!(pids(&driver), [before]);

    // An adopted process is not a child, and is still restarted when it ends.
    nix::sys::signal::kill(Pid::from_raw(before), Signal::SIGKILL).unwrap();
    timeout(Duration::from_secs(10), async {
        while leader(&driver) == before {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("a new process takes its place");
    driver.stop(KEY).await.unwrap();
    assert!(pids(&driver).is_empty());
}

#[test]
fn helper_agent() {
    let Some(directory) = std::env::var_os(HELPER) else { return };
    let directory = PathBuf::from(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let driver = ProcessDriver::open(settings(&directory)).unwrap();
        driver.start(&service("exec sleep 100")).await.unwrap();
        until(&driver, RunState::Running).await;
        std::fs::write(directory.join("ready"), "").unwrap();
        sleep(Duration::from_secs(60)).await;
    });
}

#[tokio::test]
async fn without_its_record_a_process_is_found_by_its_mark() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    driver.start(&service("exec sleep 100")).await.unwrap();
    until(&driver, RunState::Running).await;
    let before = pids(&driver);
    std::fs::write(directory.path().join("processes.json"), "damaged").unwrap();

    let next = ProcessDriver::open(settings(directory.path())).unwrap();
    next.adopt(&[service("exec sleep 100")]).await.unwrap();
    until(&next, RunState::Running).await;
    assert_eq!(pids(&next), before);
    driver.stop(KEY).await.unwrap();
    next.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn processes_without_agreement_are_ended_and_foreign_ones_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let first = ProcessDriver::open(settings(directory.path())).unwrap();
    let second = ProcessDriver::open(settings(other.path())).unwrap();
    first.start(&service("exec sleep 100")).await.unwrap();
    second.start(&service("exec sleep 100")).await.unwrap();
    until(&first, RunState::Running).await;
    until(&second, RunState::Running).await;

    // A record with the id of a living process that is not the recorded one must not harm it.
    let unrelated = leader(&second);
    let record =
        ProcessRecord { pid: unrelated, start_ticks: 1, ..lock(&first.shared.records).all()[0].clone() };
    let next = ProcessDriver::open(settings(directory.path())).unwrap();
    lock(&next.shared.records).insert(ProcessRecord { name: "old".to_owned(), ..record }).unwrap();
    first.running.lock().unwrap().values().for_each(|running| running.stop.cancel());
    next.adopt(&[]).await.unwrap();
    assert!(pids(&next).is_empty());
    assert_eq!(pids(&second), [unrelated]);
    second.stop(KEY).await.unwrap();
}

#[tokio::test]
async fn suspended_process_is_seen_and_continues_as_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    driver.start(&service("sleep 100")).await.unwrap();
    until(&driver, RunState::Running).await;
    let before = pids(&driver);
    let suspend = || killpg(Pid::from_raw(leader(&driver)), Signal::SIGSTOP).unwrap();
    suspend();
    until(&driver, RunState::Paused).await;
    driver.unpause(KEY).await.unwrap();
    until(&driver, RunState::Running).await;
    assert_eq!(pids(&driver), before);

    suspend();
    until(&driver, RunState::Paused).await;
    timeout(Duration::from_secs(2), driver.stop(KEY)).await.expect("it sees the signal").unwrap();
    assert_eq!(pids(&driver), Vec::<i32>::new());
}

#[tokio::test]
async fn driver_without_its_directory_can_start_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let driver = ProcessDriver::open(settings(directory.path())).unwrap();
    assert!(driver.is_engine_up().await);
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert!(!driver.is_engine_up().await);
}

#[tokio::test]
async fn processes_of_an_agent_that_lost_its_directory_are_ended_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("processes");
    let lost = ProcessSettings { agent: "lost-agent".to_owned(), ..settings(&path) };
    let first = ProcessDriver::open(lost).unwrap();
    first.start(&service("exec sleep 100")).await.unwrap();
    until(&first, RunState::Running).await;
    assert_eq!(pids(&first).len(), 1);
    first.release().await;
    std::fs::remove_dir_all(&path).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    ProcessDriver::open(settings(elsewhere.path())).unwrap().adopt(&[]).await.unwrap();
    assert_eq!(pids(&first).len(), 1, "another directory is another agent");
    let next = ProcessDriver::open(settings(&path)).unwrap();
    next.adopt(&[]).await.unwrap();
    assert!(pids(&first).is_empty());
}
