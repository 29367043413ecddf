//! An agbot that dies between the steps of a command: what was committed is carried out by the next one, and no reply of a node is lost.
//!
//! The test holds a lock in the database, so that the hub stands still exactly between two steps when it is killed.

use sqlx::{Connection, Executor, PgConnection};

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

    /// Kills the hub where it stands, so that nothing it began in the database goes on, and then lets go of `lock`.
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
    assert_eq!(fleet.versions().len(), 1, "the node was not told");
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
