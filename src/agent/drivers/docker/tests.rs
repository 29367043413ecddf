//! The container driver with a real engine, which the test starts when it runs as root and one is installed.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tokio::time::{sleep, timeout};

use super::*;
use crate::deployment::Deployment;

const IMAGE: &str = "evenkeel-test:1";

/// A separate engine that ends with the test. It has its own network namespace, so that the bridges of networks that a test
/// does not remove end with it too: left on the machine, each would take one of the engine's few address ranges, until a
/// later run finds none.
struct Engine {
    daemon: Child,
    directory: tempfile::TempDir,
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.daemon.id()) {
            // It may have ended already.
            let _ended =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _status = self.daemon.wait();
    }
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Engine {
    fn endpoint(&self) -> String {
        format!("unix://{}", self.directory.path().join("engine.sock").display())
    }

    /// `None` where no engine can be started: without root, without the program, or inside a narrow sandbox.
    async fn start() -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            return None;
        }
        let program =
            ["/usr/bin/dockerd", "/usr/sbin/dockerd"].into_iter().find(|path| Path::new(path).exists())?;
        let directory = tempfile::Builder::new().prefix("ek-engine").tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let daemon = quiet("unshare")
            .args(["--net", program])
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--data-root",
                &at("data"),
                "--exec-root",
                &at("exec"),
            ])
            .args(["--pidfile", &at("pid"), "-H", &format!("unix://{}", at("engine.sock"))])
            .spawn()
            .ok()?;
        let engine = Self { daemon, directory };
        for _ in 0..600 {
            if let Ok(docker) = connect(&engine.endpoint())
                && docker.ping().await.is_ok()
            {
                engine.make_image();
                return Some(engine);
            }
            sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Creates an image with one static program that waits forever.
    fn make_image(&self) {
        let directory = self.directory.path();
        std::fs::write(directory.join("wait.c"), "#include <unistd.h>\nint main(void){for(;;)pause();}\n")
            .unwrap();
        let run = |command: &mut Command| assert!(command.current_dir(directory).status().unwrap().success());
        run(Command::new("cc").args(["-static", "-O1", "-o", "wait", "wait.c"]));
        run(Command::new("tar").args(["cf", "image.tar", "wait"]));
        let entry = r#"ENTRYPOINT ["/wait"]"#;
        run(Command::new("docker").args(["-H", &self.endpoint(), "import", "-c", entry, "image.tar", IMAGE]));
    }
}

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
    let Some(engine) = Engine::start().await else {
        println!("no container engine can be started here: nothing was tested");
        return;
    };
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
    let Some(engine) = Engine::start().await else {
        println!("no container engine can be started here: nothing was tested");
        return;
    };
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
async fn engine_that_does_not_respond_is_a_temporary_failure() {
    let directory = tempfile::tempdir().unwrap();
    let socket: PathBuf = directory.path().join("none.sock");
    let endpoint = format!("unix://{}", socket.display());
    let driver = DockerDriver::new(endpoint, "a".to_owned(), Duration::from_secs(1), 5);
    let outcome = driver.start(&service("a1")).await;
    assert!(matches!(outcome, Err(DriverError::Transient(_))), "{outcome:?}");
}
