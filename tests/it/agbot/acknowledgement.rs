//! Acknowledgements end with their problems.

use std::collections::BTreeSet;

use evenkeel_agbot_store::acknowledgement::{
    AcknowledgementRow, list_acknowledgements, upsert_acknowledgement,
};
use jiff::{SignedDuration, Timestamp};

use super::in_process::Agbots;
use crate::support::eventually;
use crate::support::wait::must;

fn row(matter: &str, age: SignedDuration) -> AcknowledgementRow {
    let now = Timestamp::now();
    AcknowledgementRow {
        org: "o".to_owned(),
        matter: matter.to_owned(),
        actor: "o/u".to_owned(),
        reason: "known".to_owned(),
        acknowledged_at: now - age,
        expires_at: now + SignedDuration::from_hours(1),
    }
}

#[tokio::test]
async fn acknowledgement_of_an_ended_problem_is_removed_unless_it_is_new() {
    let agbots = Agbots::start(1).await;
    let mut connection = agbots.database.connection().await;
    let database = agbots.database.connect().await;
    let old = SignedDuration::from_mins(5);
    for row in [row("ended", old), row("lasting", old), row("new", SignedDuration::ZERO)] {
        must(upsert_acknowledgement(&mut connection, &row).await, "an acknowledgement");
    }
    let agbot = &agbots.all[0];
    agbot.purge_acknowledgements(|_, org| (org == "o").then(|| BTreeSet::from(["lasting".to_owned()])));
    eventually("the acknowledgement of the ended problem is removed", async || {
        let now = Timestamp::now();
        let rows = database.read(async |connection| list_acknowledgements(connection, "o", now).await);
        let rows: Vec<AcknowledgementRow> = must(rows.await, "the acknowledgements");
        let left: Vec<&str> = rows.iter().map(|row| row.matter.as_str()).collect();
        (left == ["lasting", "new"]).then_some(())
    })
    .await;
}
