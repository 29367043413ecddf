//! Claims that many members ask for at once, through two agbots on one database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_agbot::{AgbotError, AgentUpgradeRequest, ClaimBatches, ClaimEnd};
use evenkeel_agbot_store::event::EventFilter;
use evenkeel_agbot_store::{claim, event, partition};
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_record::claims::{Claim, ReleaseReason};
use evenkeel_planner_record::facts::HaGroupFacts;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::report::Blocked;
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_store::Database;
use jiff::Timestamp;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{TestDatabase, wait::must};

/// An agbot that holds one partition.
async fn agbot(database: &Database) -> (Arc<ClaimBatches>, Lease) {
    let instance = Uuid::new_v4();
    let mut connection = must(database.acquire().await, "a connection");
    must(partition::insert_partitions(&mut connection, 2).await, "partitions");
    let rows = must(partition::take_free(&mut connection, instance, 600.0, 1, None).await, "a lease");
    connection.release();
    let lease =
        Lease { partition: rows[0].partition.unsigned_abs(), fencing: rows[0].fencing.unsigned_abs() };
    (Arc::new(ClaimBatches::new(database.clone(), PlannerSettings::default(), instance)), lease)
}

fn group_id(number: usize) -> GroupId {
    GroupId::new("o", &format!("g{number}"))
}

fn upgrade(group: usize, member: usize) -> AgentUpgradeRequest {
    let members: Vec<NodeId> = (0..8).map(|member| NodeId::new("o", &format!("n{group}-{member}"))).collect();
    AgentUpgradeRequest {
        node: members[member].clone(),
        group: HaGroupFacts::new(group_id(group), members),
        members: BTreeMap::new(),
        nmp: NmpId::new("o", "m"),
        drains: false,
        at: Timestamp::now(),
    }
}

/// All members of all groups ask, every one twice.
async fn ask_all(
    agbots: &[Arc<ClaimBatches>],
    groups: usize,
) -> Vec<(AgentUpgradeRequest, Result<Claim, Blocked>)> {
    let mut asking = JoinSet::new();
    for round in 0..2 {
        for (group, member) in (0..groups).flat_map(|group| (0..8).map(move |member| (group, member))) {
            let agbot = agbots[(group + member + round) % agbots.len()].clone();
            asking.spawn(async move {
                let upgrade = upgrade(group, member);
                (upgrade.clone(), must(agbot.grant(upgrade).await, "a response"))
            });
        }
    }
    asking.join_all().await
}

#[tokio::test]
async fn each_group_has_one_holder_whose_claim_ends_once_and_under_its_lease_only() {
    const GROUPS: usize = 30;
    let test = TestDatabase::new().await;
    let database = test.connect().await;
    let (first, lease) = agbot(&database).await;
    let (second, other_lease) = agbot(&database).await;

    let responses = ask_all(&[first.clone(), second.clone()], GROUPS).await;
    let granted: BTreeMap<(String, String), u64> = responses
        .iter()
        .filter_map(|(upgrade, response)| Some((upgrade, response.as_ref().ok()?)))
        .map(|(upgrade, claim)| {
            assert_eq!((&claim.node, &claim.group), (&upgrade.node, &upgrade.group.id));
            ((claim.group.to_string(), claim.node.to_string()), claim.fencing)
        })
        .collect();
    assert_eq!(granted.len(), GROUPS, "one holder a group: {granted:?}");
    let numbers: BTreeSet<u64> = granted.values().copied().collect();
    assert_eq!(numbers.len(), GROUPS, "no number twice");
    for (upgrade, response) in &responses {
        let holder = granted.get(&(upgrade.group.id.to_string(), upgrade.node.to_string()));
        assert_eq!(
            response.as_ref().ok().map(|claim| claim.fencing),
            holder.copied(),
            "who asks again hears the same"
        );
    }
    let mut connection = must(database.acquire().await, "a connection");
    let rows = must(claim::list_all(&mut connection).await, "the claims");
    assert_eq!(rows.iter().map(|row| row.fencing.unsigned_abs()).collect::<BTreeSet<_>>(), numbers);
    let waits = must(claim::read_groups(&mut connection, &[&group_id(0), &group_id(1)]).await, "who waits");
    let waits: Vec<_> = waits.into_iter().flat_map(|group| group.waits).collect();
    assert_eq!(waits.len(), 2 * 7, "all others wait: {waits:?}");

    let claims: Vec<Claim> = responses.into_iter().filter_map(|(_, response)| response.ok()).collect();
    let mut ending = JoinSet::new();
    for claim in claims {
        let agbot = first.clone();
        let end =
            ClaimEnd { lease, claim: claim.reference(), why: ReleaseReason::Done, at: Timestamp::now() };
        let stolen = ClaimEnd { lease: other_lease, ..end.clone() };
        ending.spawn(async move {
            assert!(matches!(agbot.release(stolen).await, Err(AgbotError::Refused(_))));
            must(agbot.release(end).await, "the end")
        });
    }
    let ended = ending.join_all().await;
    // A member that asked twice got its claim twice.
    assert_eq!(ended.len(), 2 * GROUPS);
    assert_eq!(ended.iter().filter(|was_there| **was_there).count(), GROUPS, "each ends once");
    assert!(must(claim::list_all(&mut connection).await, "the claims").is_empty());
    let reported = must(
        event::list_newest(&mut connection, "o", None, &EventFilter::default(), 1_000).await,
        "what happened",
    );
    for kind in ["hagroup.lock-granted", "hagroup.lock-released"] {
        assert_eq!(reported.iter().filter(|event| event.kind == kind).count(), GROUPS, "{kind}");
    }
    connection.release();

    // Right after a release the member that waits longest goes first.
    let groups = must(claim::read_groups(&mut test.connection().await, &[&group_id(0)]).await, "who waits");
    let waits = &groups[0].waits;
    let responses = ask_all(&[second], 1).await;
    let next: BTreeSet<&str> = responses
        .iter()
        .filter_map(|(_, response)| response.as_ref().ok())
        .map(|claim| claim.node.as_str())
        .collect();
    assert_eq!(next, BTreeSet::from([waits[0].node.as_str()]));
}
