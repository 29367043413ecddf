//! A disk without free space: the advice names it, no acknowledged write is lost, and work continues when there is space again.

use rand::Rng;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};

use super::Hzn;
use crate::support::disk::Disk;
use crate::support::{Hub, Scratch, eventually};

/// Size of what each write adds, and the most writes: far more than the free space of the pages and of the log.
const WRITE_BYTES: usize = 30_000;
const MOST_WRITES: usize = 4_000;

/// Writes organizations until one is refused, and returns how many were acknowledged, and the refusal.
async fn write_until_refused(hub: &Hub) -> (usize, Value) {
    for number in 0..MOST_WRITES {
        // Random letters can hardly be compressed.
        let text: String = rand::rng().sample_iter(Alphanumeric).take(WRITE_BYTES).map(char::from).collect();
        let body = json!({"label": "x", "description": text});
        let (status, response) = hub.call("POST", &format!("/orgs/org-{number}"), Some(body)).await;
        if status != 201 {
            assert_eq!(status, 503, "{response}");
            return (number, response);
        }
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn full_disk_of_the_hub_is_named_and_costs_no_acknowledged_write() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::mount(scratch.join("hub"), 256) else { return };
    let hub = Hub::start(&scratch, &[]).await;
    let hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    disk.fill();
    let (acknowledged, refusal) = write_until_refused(&hub).await;
    assert_eq!(refusal["code"], "disk-full", "{refusal}");
    let why = eventually("the command line names the cure", || async {
        let tried = hzn.run("exchange org create another -d plant");
        (tried.status != 0 && tried.errors.contains("free space on the disk")).then_some(tried.errors)
    })
    .await;
    assert!(why.contains("disk"), "{why}");
    disk.free();
    eventually("writes are accepted again", || async {
        (hzn.run("exchange org create later -d plant").status == 0).then_some(())
    })
    .await;
    for number in 0..acknowledged {
        let (status, _) = hub.call("GET", &format!("/orgs/org-{number}"), None).await;
        assert_eq!(status, 200, "org-{number} was acknowledged");
    }
    assert_eq!(hub.stop().await, 0);
    drop(disk);
}

#[tokio::test]
async fn full_disk_of_the_command_line_is_named() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::mount(scratch.join("home"), 1) else { return };
    let hub = Hub::start(&scratch, &[]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.home = disk.path().to_owned();
    disk.fill();
    let why = hzn.refused(4, "key create -l 2048");
    assert!(why.contains("free space on the disk, then try again"), "{why}");
    disk.free();
    assert_eq!(hzn.run("key create -l 2048").status, 0, "nothing half-written is in the way");
    let key = disk.path().join(".hzn/keys/service.private.key");
    let before = std::fs::read(&key).expect("a key");
    disk.fill();
    hzn.refused(4, "key create -l 2048 -f");
    assert_eq!(std::fs::read(&key).expect("a key"), before, "the key stays that it was to replace");
    disk.free();
    assert_eq!(hub.stop().await, 0);
}
