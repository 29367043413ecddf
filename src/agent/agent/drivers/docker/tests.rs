//! The container driver with a real engine, which the test starts when it runs as root and one is installed.

use std::path::PathBuf;

use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    deployment::Deployment,
    tests::engine::{Engine, IMAGE},
};

fn service(key: &str) -> ServiceSpec {
    let text = format!(r#"{{"services":{{"web":{{"image":"{IMAGE}","environment":["A=b"]}}}}}}"#);
    let environment = vec![("HZN_AGREEMENTID".to_owned(), key.to_owned())];
    ServiceSpec::new(key.to_owned(), Deployment::parse(&text, "").unwrap(), environment)
}

fn driver_for(engine: &Engine, agent: &str) -> DockerDriver {
    DockerDriver::new(engine.endpoint(), agent.to_owned(), Duration::from_secs(1), 5)
}

async fn until_running(driver: &DockerDriver, key: &str) {
    timeout(Duration::from_secs(30), async {
        while !driver.observe(key).await.is_running() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the container runs");
}

async fn ids(driver: &DockerDriver, key: &str) -> Vec<Option<String>> {
    driver.containers(Some(key)).await.unwrap().into_iter().map(|container| container.id).collect()
}

#[tokio::test]
async fn containers_start_are_adopted_and_go_without_a_trace() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let other = driver_for(&engine, "agent-2");
    driver.start(&service("a1")).await.unwrap();
    driver.start(&service("a2")).await.unwrap();
    other.start(&service("b1")).await.unwrap();
    until_running(&driver, "a1").await;
    until_running(&driver, "a2").await;
    until_running(&other, "b1").await;
    let before = ids(&driver, "a1").await;
    driver.start(&service("a1")).await.unwrap();
    assert_eq!(ids(&driver, "a1").await, before, "starting again changes nothing");

    let next = driver_for(&engine, "agent-1");
    next.adopt(&[service("a1")]).await.unwrap();
    assert_eq!(ids(&next, "a1").await, before, "what runs is taken over");
    assert!(ids(&next, "a2").await.is_empty(), "what has no agreement is removed");
    assert_eq!(ids(&other, "b1").await.len(), 1, "other agents' containers are left alone");

    next.stop("a1").await.unwrap();
    next.stop("a1").await.unwrap();
    assert!(ids(&next, "a1").await.is_empty());
    let networks = next.engine().await.unwrap().list_networks(None).await.unwrap();
    let names: Vec<_> = networks.into_iter().filter_map(|network| network.name).collect();
    assert!(!names.contains(&"a1".to_owned()) && names.contains(&"b1".to_owned()), "{names:?}");

    let missing = ServiceSpec {
        deployment: Deployment::parse(r#"{"services":{"web":{"image":"127.0.0.1:1/none:1"}}}"#, "").unwrap(),
        ..service("a3")
    };
    assert!(matches!(driver.start(&missing).await, Err(DriverError::Image { .. })));
    other.stop("b1").await.unwrap();
}

#[tokio::test]
async fn service_joins_the_networks_of_what_it_needs_and_these_carry_their_labels() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let store = ServiceSpec { role: Role::Shared, ..service("store-1") };
    driver.start(&store).await.unwrap();
    until_running(&driver, "store-1").await;
    let needed = ServiceSpec { networks: vec!["store-1".to_owned()], ..service("a1") };
    driver.start(&needed).await.unwrap();
    until_running(&driver, "a1").await;
    let found = driver.containers(Some("a1")).await.unwrap().remove(0);
    let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    assert!(networks.contains_key("a1") && networks.contains_key("store-1"), "{networks:?}");
    let labels = driver.containers(Some("store-1")).await.unwrap().remove(0).labels.unwrap_or_default();
    assert_eq!(labels.get(SHARED_LABEL).map(String::as_str), Some("singleton"));
    assert!(labels.contains_key(INFRASTRUCTURE_LABEL));
    driver.stop("a1").await.unwrap();
    driver.stop("store-1").await.unwrap();
    assert!(driver.containers(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn exit_of_a_container_is_observed_with_code_restarts_and_last_output() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let text = format!(r#"{{"services":{{"web":{{"image":"{IMAGE}","command":["no such table"]}}}}}}"#);
    let crashing = ServiceSpec { deployment: Deployment::parse(&text, "").unwrap(), ..service("a1") };
    driver.start(&crashing).await.unwrap();
    let failures = timeout(Duration::from_secs(60), async {
        loop {
            driver.changed().await;
            let seen = driver.observe("a1").await.containers.remove(0).failures;
            if seen.exits >= 3 {
                return seen;
            }
        }
    })
    .await
    .expect("three exits");
    assert_eq!((failures.code, failures.signal, failures.error), (Some(7), None, None));
    assert_eq!((failures.exits, failures.recent.len()), (3, 3));
    assert_eq!(failures.output.last().map(String::as_str), Some("no such table"));
    assert!(failures.output.len() <= 5 && failures.output.contains(&"starting".to_owned()));
    driver.stop("a1").await.unwrap();
    assert!(driver.observe("a1").await.containers.is_empty());
}

#[tokio::test]
async fn container_that_somebody_stops_has_ended_by_a_signal_whatever_its_code() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let task = ServiceSpec { task: Some("t1".to_owned()), ..service("a1") };
    driver.start(&task).await.unwrap();
    until_running(&driver, "a1").await;
    let id = ids(&driver, "a1").await.remove(0).unwrap();
    let docker = driver.engine().await.unwrap();
    let options = bollard::query_parameters::StopContainerOptionsBuilder::new().t(5).build();
    docker.stop_container(&id, Some(options)).await.unwrap();
    let failures = timeout(Duration::from_secs(30), async {
        loop {
            driver.changed().await;
            let seen = driver.observe("a1").await.containers.remove(0).failures;
            if seen.exits > 0 {
                return seen;
            }
        }
    })
    .await
    .expect("it has ended");
    assert!(failures.is_stopped_from_outside(), "{failures:?}");
    driver.stop("a1").await.unwrap();
}

#[tokio::test]
async fn container_of_a_task_stays_down_and_a_later_agent_knows_its_exit() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let text = format!(r#"{{"services":{{"web":{{"image":"{IMAGE}","command":["no such table"]}}}}}}"#);
    let deployment = Deployment::parse(&text, "").unwrap();
    let task = ServiceSpec { deployment, task: Some("t1".to_owned()), ..service("a1") };
    driver.prepare(&task).await.unwrap();
    assert!(driver.is_gone("a1").await, "it is prepared and not created");
    driver.start(&task).await.unwrap();
    // This one has not seen the engine's events.
    let next = driver_for(&engine, "agent-1");
    next.adopt(std::slice::from_ref(&task)).await.unwrap();
    let failures = timeout(Duration::from_secs(30), async {
        loop {
            let seen = next.observe("a1").await.containers.remove(0);
            if seen.state == RunState::Exited && !seen.failures.is_empty() {
                return seen.failures;
            }
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("its exit");
    assert_eq!((failures.code, failures.exits), (Some(7), 1));
    assert_eq!(failures.output.last().map(String::as_str), Some("no such table"));
    next.start(&task).await.unwrap();
    let found = next.containers(Some("a1")).await.unwrap().remove(0);
    assert_eq!(found.state, Some(ContainerSummaryStateEnum::EXITED), "it is not started again");
    assert_eq!(found.labels.unwrap_or_default().get(TASK_LABEL).map(String::as_str), Some("t1"));

    // A service that already runs is assigned to a task.
    next.start(&service("a2")).await.unwrap();
    until_running(&next, "a2").await;
    next.set_restarts("a2", false).await.unwrap();
    let id = ids(&next, "a2").await.remove(0).unwrap();
    let docker = next.engine().await.unwrap();
    let found = docker.inspect_container(&id, None::<InspectContainerOptions>).await.unwrap();
    let policy = found.host_config.unwrap().restart_policy.unwrap();
    assert_eq!(policy.name, Some(RestartPolicyNameEnum::NO));
    for key in ["a1", "a2"] {
        next.stop(key).await.unwrap();
        assert!(next.is_gone(key).await);
    }
}

/// C5-S2, C6: what the engine of the hub orders about containers.
#[tokio::test]
async fn paused_container_continues_and_one_whose_image_cannot_be_fetched_is_kept() {
    let Some(engine) = Engine::start().await else { return };
    let driver = driver_for(&engine, "agent-1");
    let task = ServiceSpec { task: Some("t1".to_owned()), ..service("a1") };
    driver.prepare(&task).await.unwrap();
    driver.start(&task).await.unwrap();
    until_running(&driver, "a1").await;
    let before = ids(&driver, "a1").await;
    let id = before[0].clone().unwrap();
    driver.engine().await.unwrap().pause_container(&id).await.unwrap();
    assert_eq!(driver.observe("a1").await.containers.remove(0).state, RunState::Paused);
    driver.unpause("a1").await.unwrap();
    until_running(&driver, "a1").await;
    driver.unpause("a1").await.unwrap();
    assert_eq!(ids(&driver, "a1").await, before, "it is the same container");

    let missing = Deployment::parse(r#"{"services":{"web":{"image":"127.0.0.1:1/none:1"}}}"#, "").unwrap();
    let missing = ServiceSpec { deployment: missing, ..task.clone() };
    assert!(matches!(driver.refresh(&missing).await, Err(DriverError::Image { .. })));
    assert!(driver.observe("a1").await.is_running(), "nothing was stopped");
    // The rest of a rebuild.
    driver.stop("a1").await.unwrap();
    driver.start(&task).await.unwrap();
    until_running(&driver, "a1").await;
    assert_ne!(ids(&driver, "a1").await, before, "it was created again");
    driver.stop("a1").await.unwrap();
}

#[tokio::test]
async fn engine_that_does_not_respond_is_a_temporary_failure() {
    let directory = tempfile::tempdir().unwrap();
    let socket: PathBuf = directory.path().join("none.sock");
    let endpoint = format!("unix://{}", socket.display());
    let driver = DockerDriver::new(endpoint, "a".to_owned(), Duration::from_secs(1), 5);
    let outcome = driver.start(&service("a1")).await;
    assert!(matches!(outcome, Err(DriverError::Transient(_))), "{outcome:?}");
}
