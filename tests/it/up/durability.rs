//! Acknowledged writes survive every kind of end of the hub.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::process::client;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn restart_loses_nothing() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let password = hub.root_password();
    let org = serde_json::json!({ "label": "x", "description": "y" });
    assert_eq!(hub.call("POST", "/orgs/kept", Some(org)).await.0, 201);
    let before = hub.call("GET", "/orgs/kept", None).await;
    assert_eq!(hub.stop().await, 0);
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.root_password(), password);
    assert_eq!(hub.call("GET", "/orgs/kept", None).await, before);
    assert_eq!(hub.stop().await, 0);
}

/// Kills the hub while it writes, three times on one directory, and looks for every write that was accepted with 201.
#[tokio::test]
async fn kill_loses_no_acknowledged_write() {
    let scratch = Scratch::new();
    let acknowledged = Arc::new(AtomicU32::new(0));
    for round in 1..=3 {
        let mut hub = Hub::start(&scratch, &[]).await;
        let goal = acknowledged.load(Ordering::SeqCst) + 25;
        let writer =
            tokio::spawn(write_until_refused(hub.url.clone(), hub.root_password(), acknowledged.clone()));
        eventually("some writes are acknowledged", || {
            let count = acknowledged.load(Ordering::SeqCst);
            async move { (count >= goal).then_some(()) }
        })
        .await;
        hub.program.kill().await;
        writer.await.expect("the writer ends when the hub does");
        let hub = Hub::start(&scratch, &[]).await;
        for number in 0..acknowledged.load(Ordering::SeqCst) {
            let (status, _) = hub.call("GET", &format!("/orgs/org-{number}"), None).await;
            assert_eq!(status, 200, "round {round} lost org-{number}");
        }
        // The write that was under way may or may not be there; the next round must not trip over it.
        let next = acknowledged.load(Ordering::SeqCst);
        let (status, _) = hub.call("DELETE", &format!("/orgs/org-{next}"), None).await;
        assert!([204, 404].contains(&status), "{status}");
        assert_eq!(hub.stop().await, 0);
    }
}

/// Makes `org-0`, `org-1`, … and counts those that were acknowledged, until the hub is gone.
async fn write_until_refused(url: String, password: String, acknowledged: Arc<AtomicU32>) {
    let client = client();
    let body = serde_json::json!({ "label": "x", "description": "y" });
    loop {
        let number = acknowledged.load(Ordering::SeqCst);
        let request =
            client.post(format!("{url}/v1/orgs/org-{number}")).basic_auth("root/root", Some(&password));
        match request.json(&body).send().await {
            Ok(response) => assert_eq!(response.status(), 201),
            Err(_) => return,
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

/// Kills the database server without warning right after a write was acknowledged, again and again.
#[tokio::test]
async fn kill_of_the_database_loses_no_acknowledged_write() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let lock_file = hub.directory().join("postgres/data/postmaster.pid");
    let body = serde_json::json!({ "label": "x", "description": "y" });
    for number in 0..5 {
        let path = format!("/orgs/org-{number}");
        eventually("a write is acknowledged", || async {
            (hub.call("POST", &path, Some(body.clone())).await.0 == 201).then_some(())
        })
        .await;
        let server = server_process(&lock_file).expect("a server that acknowledges has a lock file");
        kill(Pid::from_raw(server), Signal::SIGKILL).expect("the server runs");
        // Its children respond for a moment longer: only another process is the server that came back.
        eventually("another server is started", || async {
            server_process(&lock_file).filter(|started| *started != server)
        })
        .await;
        let found = eventually("the server is back", || async {
            let (status, _) = hub.call("GET", &path, None).await;
            (status < 500).then_some(status)
        });
        assert_eq!(found.await, 200, "an acknowledged write is gone");
    }
    assert_eq!(hub.stop().await, 0);
}

/// The process that a server's lock file names; none while the file is missing or half written.
fn server_process(lock_file: &Path) -> Option<i32> {
    std::fs::read_to_string(lock_file).ok()?.lines().next()?.parse().ok()
}
