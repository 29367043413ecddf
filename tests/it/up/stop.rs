//! A hub stops cleanly and in time, whatever it is doing, and leaves nothing running.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::process::client;
use crate::support::{Hub, Program, Scratch, eventually};

/// The longest time from the signal to the end of the process. `docs/reference/settings.md` promises it, because supervisors kill a
/// process that takes longer: these tests measure the clock on purpose.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The process id of the hub's PostgreSQL.
fn server_of(hub: &Hub) -> Pid {
    let text =
        std::fs::read_to_string(hub.directory().join("postgres/data/postmaster.pid")).expect("a lock file");
    Pid::from_raw(text.lines().next().and_then(|line| line.parse().ok()).expect("a process id"))
}

fn is_alive(process: Pid) -> bool {
    kill(process, None).is_ok()
}

#[tokio::test]
async fn signal_stops_hub_and_server() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scratch = Scratch::new();
        let mut hub = Hub::start(&scratch, &[]).await;
        let server = server_of(&hub);
        hub.program.signal(signal);
        assert_eq!(hub.program.wait().await, 0, "{}", hub.program.errors());
        assert!(!is_alive(server));
        assert!(!hub.directory().join("postgres/data/postmaster.pid").exists(), "the server stopped cleanly");
    }
}

#[tokio::test]
async fn parked_poll_does_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let mut hub = Hub::start(&scratch, &[]).await;
    let org = serde_json::json!({ "label": "x", "description": "y" });
    assert_eq!(hub.call("POST", "/orgs/parked", Some(org)).await.0, 201);
    let poll = client()
        .post(format!("{}/v1/orgs/parked/changes", hub.url))
        .basic_auth("root/root", Some(hub.root_password()))
        .header("Prefer", "wait=50")
        .json(&serde_json::json!({ "changeId": 1_000_000_000, "maxRecords": 10 }));
    let poll = tokio::spawn(async move { poll.send().await.map(|response| response.status().as_u16()) });
    let metrics = format!("{}/metrics", hub.url);
    eventually("the poll is under way", || async {
        let text = client().get(&metrics).send().await.ok()?.text().await.ok()?;
        // The poll's connection, and this one.
        text.lines()
            .find_map(|line| line.strip_prefix("http_connections ")?.parse::<u32>().ok())
            .filter(|open| *open >= 2)
    })
    .await;
    let begun = Instant::now();
    hub.program.signal(Signal::SIGTERM);
    assert_eq!(hub.program.wait().await, 0, "{}", hub.program.errors());
    assert!(begun.elapsed() < STOP_LIMIT, "{:?}", begun.elapsed());
    // Completed or cut, but no longer waiting.
    let _ = poll.await.expect("the poll ends");
}

#[tokio::test]
async fn second_signal_ends_it_at_once_and_the_server_follows() {
    let scratch = Scratch::new();
    let mut hub = Hub::start(&scratch, &[]).await;
    let server = server_of(&hub);
    // The server cannot stop while it is frozen, so the hub is still draining when the second signal comes.
    kill(server, Signal::SIGSTOP).expect("freezing the server");
    hub.program.signal(Signal::SIGTERM);
    eventually("the hub drains", || {
        let errors = hub.program.errors();
        async move { errors.contains("draining").then_some(()) }
    })
    .await;
    hub.program.signal(Signal::SIGTERM);
    let status = hub.program.wait().await;
    kill(server, Signal::SIGCONT).expect("thawing the server");
    assert_eq!(status, 9, "{}", hub.program.errors());
    eventually("the server stops by itself", || async { (!is_alive(server)).then_some(()) }).await;
}

#[tokio::test]
async fn server_that_does_not_stop_does_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let mut hub = Hub::start(&scratch, &[]).await;
    let server = server_of(&hub);
    kill(server, Signal::SIGSTOP).expect("freezing the server");
    let begun = Instant::now();
    hub.program.signal(Signal::SIGTERM);
    let status = hub.program.wait().await;
    let took = begun.elapsed();
    kill(server, Signal::SIGCONT).expect("thawing the server");
    assert!(took < STOP_LIMIT, "{took:?}");
    assert_eq!(status, 0, "{}", hub.program.errors());
    eventually("the server stops by itself", || async { (!is_alive(server)).then_some(()) }).await;
}

#[tokio::test]
async fn signal_during_the_first_start_ends_it_and_the_next_start_works() {
    let scratch = Scratch::new();
    let directory = scratch.join("hub");
    let data_dir = directory.to_string_lossy();
    let mut program =
        Program::start(&scratch, &["up", "--data-dir", &data_dir, "--listen", "127.0.0.1:0"], None);
    eventually("the database is being made", || async {
        directory.join("postgres/password").exists().then_some(())
    })
    .await;
    program.signal(Signal::SIGTERM);
    assert_eq!(program.wait().await, 0, "{}", program.errors());
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("GET", "/orgs", None).await.0, 200);
    assert_eq!(hub.stop().await, 0);
}
