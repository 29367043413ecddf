//! An agbot that dies or is suspended between the steps of a command: what was committed is carried out by
//! the next one, no reply of a node is lost, and nothing is written under a lease that another one holds.
//!
//! The test holds a lock in the database, so that the hub is suspended exactly between two steps when it is
//! killed.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, Executor, PgConnection};

use super::workload::{replicated, runs, want};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

/// A hub that can be killed and started again at the same address.
struct Lab {
    scratch: Scratch,
    database: TestDatabase,
    address: String,
}

impl Lab {
    async fn new() -> Self {
        Self { scratch: Scratch::new(), database: TestDatabase::new().await, address: free_address() }
    }

    async fn start(&self) -> Hub {
        let options = ["--database-url", self.database.url(), "--listen", &self.address];
        Hub::start(&self.scratch, &options).await
    }

    /// Kills the hub where it stands, so that nothing it began in the database continues, and then lets go of
    /// `lock`.
    async fn kill(&self, mut hub: Hub, mut lock: PgConnection) {
        hub.program.kill().await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'evenkeel'";
        must(lock.execute(end).await, "ending what the hub began");
        must(lock.execute("ALTER TABLE agreement DISABLE TRIGGER USER").await, "no further stop");
        must(lock.close().await, "letting go of the lock");
    }

    async fn count(&self, query: &'static str) -> i64 {
        let mut connection = self.database.connection().await;
        must(sqlx::query_scalar(query).fetch_one(&mut connection).await, "a count")
    }

    async fn becomes(&self, what: &str, query: &'static str, wanted: i64) {
        eventually(what, || async { (self.count(query).await == wanted).then_some(()) }).await;
    }
}

#[tokio::test]
async fn message_of_a_command_that_committed_is_sent_by_the_next_agbot() {
    let lab = Lab::new().await;
    let hub = lab.start().await;
    let fleet = Fleet::start(&lab.scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("the instance runs", || async { fleet.all_run("1.0.0").then_some(()) }).await;

    let mut lock = lab.database.connection().await;
    must(lock.execute("BEGIN; LOCK TABLE node_message IN SHARE ROW EXCLUSIVE MODE").await, "the lock");
    assert_eq!(hub.call("DELETE", "/orgs/o/business/policies/everywhere", None).await.0, 204);
    lab.becomes("the end is committed", "SELECT count(*) FROM agreement WHERE ended_at IS NULL", 0).await;
    lab.kill(hub, lock).await;
    assert_eq!(fleet.versions().len(), 1, "the node was not notified");
    let cancels = "SELECT count(*) FROM agbot_outbox WHERE effect ->> 'text' LIKE '%\"cancel\"%'";
    assert_eq!(lab.count(cancels).await, 1);

    let hub = lab.start().await;
    eventually("the instance ends", || async { fleet.versions().is_empty().then_some(()) }).await;
    lab.becomes("the outbox is empty", "SELECT count(*) FROM agbot_outbox", 0).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn reply_stays_in_the_mailbox_until_its_command_has_committed() {
    let lab = Lab::new().await;
    let hub = lab.start().await;
    let fleet = Fleet::start(&lab.scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;

    let mut lock = lab.database.connection().await;
    let trigger = "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
        CREATE TRIGGER stand_still BEFORE UPDATE ON agreement FOR EACH ROW EXECUTE FUNCTION stand_still();
        SELECT pg_advisory_lock(42)";
    must(lock.execute(trigger).await, "the lock");
    fleet.want(&hub, "1.0.0").await;
    let waiting = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
    lab.becomes("the reply is being handled", waiting, 1).await;
    lab.kill(hub, lock).await;
    assert_eq!(lab.count("SELECT count(*) FROM agbot_message").await, 1, "the reply is still there");

    let hub = lab.start().await;
    eventually("the instance runs", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    lab.becomes("the mailbox is empty", "SELECT count(*) FROM agbot_message", 0).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// 2-S2: an agbot that is suspended between its decision and the transaction, and loses its partitions
/// meanwhile, creates no task.
#[tokio::test]
async fn plan_of_an_agbot_that_lost_its_lease_meanwhile_is_not_written() {
    let lab = Lab::new().await;
    let hub = lab.start().await;
    let fleet = Fleet::start(&lab.scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", replicated(1)).await;
    runs(&fleet, "1.0.0", 1).await;
    let running = "SELECT count(*) FROM task WHERE record ->> 'state' LIKE '%running%'";
    lab.becomes("the hub knows that it runs", running, 1).await;

    let mut lock = lab.database.connection().await;
    must(lock.execute("BEGIN; LOCK TABLE work_partition IN ACCESS EXCLUSIVE MODE").await, "the lock");
    let process = fleet.processes().into_values().next().expect("an instance runs");
    must(kill(Pid::from_raw(process), Signal::SIGKILL), "a signal");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '-- partition.lock_lease%'";
    eventually("a command waits", || async { (lab.count(waiting).await > 0).then_some(()) }).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // From now on another agbot has all partitions.
    let take_over = "UPDATE work_partition SET owner = gen_random_uuid(), fencing = fencing + 1,
            expires_at = now() + interval '20 seconds'; COMMIT";
    must(lock.execute(take_over).await, "the take-over");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let created = "SELECT count(*) FROM agbot_event WHERE kind = 'task.created'";
    assert_eq!((lab.count("SELECT count(*) FROM task").await, lab.count(created).await), (1, 1));

    let end = "UPDATE work_partition SET owner = NULL, expires_at = NULL";
    must(lock.execute(end).await, "the end of the other agbot");
    runs(&fleet, "1.0.0", 1).await;
    assert_eq!(lab.count(created).await, 2);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
