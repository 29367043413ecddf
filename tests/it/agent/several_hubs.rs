//! Agents with several addresses: the next one is used when one does not respond.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use std::io::Write;

use nix::sys::signal::Signal;

use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

/// Starts a hub on a shared database, with the password that all of them have.
async fn start(scratch: &Scratch, database: &TestDatabase) -> Hub {
    let directory = scratch.join("hub");
    must(std::fs::DirBuilder::new().mode(0o700).create(&directory), "a directory");
    let mut file = std::fs::OpenOptions::new();
    let file = file.create_new(true).write(true).mode(0o600).open(directory.join("root-password"));
    must(must(file, "a file").write_all(b"password of both hubs"), "a password");
    Hub::start(scratch, &["--database-url", database.url()]).await
}

async fn runs(fleet: &Fleet, version: &str) {
    eventually(&format!("{version} runs"), || async { fleet.all_run(version).then_some(()) }).await;
}

#[tokio::test]
async fn agent_goes_on_with_the_next_hub_when_one_is_killed() {
    let database = TestDatabase::new().await;
    let (one, two) = (Scratch::new(), Scratch::new());
    let (mut first, second) = (start(&one, &database).await, start(&two, &database).await);
    let mut fleet = Fleet::start_with(&one, &first, 1, &["--hub", &second.url]).await;
    fleet.publish(&first, "1.0.0").await;
    fleet.want(&first, "1.0.0").await;
    runs(&fleet, "1.0.0").await;

    first.program.kill().await;
    fleet.publish(&second, "2.0.0").await;
    fleet.want(&second, "2.0.0").await;
    runs(&fleet, "2.0.0").await;
    let log = fleet.agent(0).errors();
    assert!(log.contains("its next address is used"), "{log}");

    // It is started while the first address of its list, separated by commas, does not respond.
    fleet.agent(0).signal(Signal::SIGTERM);
    assert_eq!(fleet.agent(0).wait().await, 0);
    let addresses = format!("http://{},{}", free_address(), second.url);
    fleet.restart_agent_at(&one, &addresses, 0);
    runs(&fleet, "2.0.0").await;
    drop(fleet);
    assert_eq!(second.stop().await, 0);
}
