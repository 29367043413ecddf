//! `evenkeel bench claims`: taking and releasing upgrade claims, beside an implementation that locks the whole table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot::{AgbotError, AgentUpgradeRequest, ClaimBatches, ClaimEnd};
use evenkeel_agbot_store::claim::{self as table, ClaimEnding, ClaimRow, EndedClaim, NewClaim};
use evenkeel_agbot_store::partition;
use evenkeel_agreement::agent_upgrade::{GroupView, MemberView, decide_agent_upgrade};
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_model::model::Liveness;
use evenkeel_planner_record::claims::{Claim, ReleaseReason};
use evenkeel_planner_record::facts::HaGroupFacts;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::{Database, PgConnection, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    report::{Options, Report, Row, Target},
    stage::{Stage, refused, store_failed},
};

const CLIENTS: usize = 16;
const HELD: i32 = 2_000;
const TIMES: f64 = 10.0;
/// Scope of agent upgrades.
const SCOPE: &str = "agent";
/// Time for which the agbot of the benchmark holds its leases, in seconds.
const LEASE_SECS: f64 = 3_600.0;
/// Number of turns of each way, so that a disk that changes its speed does not favor one of them.
const TURNS: u32 = 2;

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_millis(if options.short { 800 } else { 8_000 });
    let database = stage.connect().await?;
    hold_others(&database).await?;
    let (claims, leases) = agbot(&database).await?;
    let ours = Way::Agbot { claims: Arc::new(claims), leases: leases.into() };
    let [mut as_agbot, mut with_key, mut without_key] = [0.0; 3];
    for _ in 0..TURNS {
        as_agbot += compete(&database, &ours, length / TURNS).await?;
        with_key += compete(&database, &Way::TableLock, length / TURNS).await?;
        execute(&database, "ALTER TABLE claim DROP CONSTRAINT claim_ha_group_scope_key").await?;
        without_key += compete(&database, &Way::TableLock, length / TURNS).await?;
        let restored =
            "ALTER TABLE claim ADD CONSTRAINT claim_ha_group_scope_key PRIMARY KEY (ha_group, scope)";
        execute(&database, restored).await?;
    }
    let turns = f64::from(TURNS);
    database.close().await;
    let mut report = Report::new("claims");
    let label = format!("upgrade claims taken and released, {CLIENTS} clients, {HELD} held");
    report.push(
        Row::new(label, as_agbot / turns, "/s")
            .beside("with LOCK TABLE", without_key / turns)
            .target(Target::RatioAtLeast(TIMES)),
    );
    report.push(
        Row::new("the same with a locked table that has a key", as_agbot / turns, "/s")
            .beside("with LOCK TABLE and a key", with_key / turns),
    );
    report.add_note("Each client asks for a member of a group of its own; all ways decide by the same rules, record the same events and commit durably. The held claims belong to other groups.");
    report.add_note("The reference's tables have no key (contract, agbot 3.1), so the holder of the lock reads all claims; the second row adds our keys to the locked table.");
    report.add_note(stage.version().await?);
    Ok(report)
}

/// Method by which claims are taken and released.
#[derive(Clone)]
enum Way {
    /// As the agbot does it: each group by its own revision, those that come together by one statement.
    Agbot { claims: Arc<ClaimBatches>, leases: Arc<[Lease]> },
    /// One lock for all groups.
    TableLock,
}

/// An agbot that holds leases.
async fn agbot(database: &Database) -> Result<(ClaimBatches, Vec<Lease>), Failure> {
    let instance = Uuid::new_v4();
    let mut connection = database.acquire().await.map_err(store)?;
    let count = CLIENTS as i32;
    partition::insert_partitions(&mut connection, count).await.map_err(store)?;
    let rows = partition::take_free(&mut connection, instance, LEASE_SECS, i64::from(count), None)
        .await
        .map_err(store)?;
    let leases = rows
        .iter()
        .map(|row| Lease { partition: row.partition.unsigned_abs(), fencing: row.fencing.unsigned_abs() })
        .collect();
    Ok((ClaimBatches::new(database.clone(), PlannerSettings::default(), instance), leases))
}

async fn hold_others(database: &Database) -> Result<(), Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    sqlx::query(
        r#"INSERT INTO claim (ha_group, scope, node, purpose, version, fencing, phase, since, phase_at, deadline)
           SELECT 'bench/held' || number, 'agent', 'bench/held' || number,
                  '{"purpose":"agent-upgrade","nmp":"bench/m"}', '', nextval('claim_fencing'), 'stopping', now(), now(),
                  now() + interval '1 hour'
           FROM generate_series(1, $1) AS number"#,
    )
    .bind(HELD)
    .execute(&mut *connection)
    .await
    .map_err(|error| refused(&error))?;
    let groups: Vec<GroupId> = (0..CLIENTS).map(group).collect();
    let groups: Vec<&GroupId> = groups.iter().collect();
    table::insert_groups(&mut connection, &groups).await.map_err(store)?;
    sqlx::query("ANALYZE").execute(&mut *connection).await.map(drop).map_err(|error| refused(&error))
}

async fn execute(database: &Database, statement: &'static str) -> Result<(), Failure> {
    let mut connection = database.acquire().await.map_err(store)?;
    sqlx::query(statement).execute(&mut *connection).await.map(drop).map_err(|error| refused(&error))
}

async fn compete(database: &Database, way: &Way, length: Duration) -> Result<f64, Failure> {
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    for number in 0..CLIENTS {
        let client = ClaimClient::new(database.clone(), way.clone(), number);
        tasks.spawn(async move {
            let mut taken = 0_u64;
            while begin.elapsed() < length {
                client.take_and_release().await?;
                taken += 1;
            }
            Ok::<u64, AgbotError>(taken)
        });
    }
    let mut taken = 0;
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| Failure::new(ExitStatus::Failure, error.to_string()))?;
        taken += ended.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    }
    Ok(taken as f64 / begin.elapsed().as_secs_f64())
}

fn group(client: usize) -> GroupId {
    GroupId::new("bench", &format!("group{client}"))
}

/// A member of a group of two that asks again and again.
struct ClaimClient {
    database: Database,
    way: Way,
    client: usize,
    settings: PlannerSettings,
    group: HaGroupFacts,
    members: BTreeMap<NodeId, MemberView>,
    node: NodeId,
    nmp: NmpId,
}

impl ClaimClient {
    fn new(database: Database, way: Way, client: usize) -> ClaimClient {
        let node = NodeId::new("bench", &format!("a{client}"));
        let peer = NodeId::new("bench", &format!("b{client}"));
        let alive = MemberView { liveness: Liveness::Alive, is_away: false, nmp_status: None };
        ClaimClient {
            database,
            way,
            client,
            settings: PlannerSettings::default(),
            group: HaGroupFacts::new(group(client), [node.clone(), peer.clone()]),
            members: [(node.clone(), alive.clone()), (peer, alive)].into(),
            node,
            nmp: NmpId::new("bench", "m"),
        }
    }

    async fn take_and_release(&self) -> Result<(), AgbotError> {
        match &self.way {
            Way::Agbot { claims, leases } => {
                let claim = self.grant(claims).await?;
                let lease = leases[self.client % leases.len()];
                let (claim, why) = (claim.reference(), ReleaseReason::Done);
                let end = ClaimEnd { lease, claim, why, at: Timestamp::now() };
                if !claims.release(end).await? {
                    return Err(AgbotError::Refused("the claim no longer exists".to_owned()));
                }
                Ok(())
            }
            Way::TableLock => {
                let fencing = self.take_with_table_lock().await?;
                self.release_with_table_lock(fencing).await
            }
        }
    }

    async fn grant(&self, claims: &ClaimBatches) -> Result<Claim, AgbotError> {
        let upgrade = AgentUpgradeRequest {
            group: self.group.clone(),
            members: self.members.clone(),
            node: self.node.clone(),
            nmp: self.nmp.clone(),
            drains: false,
            at: Timestamp::now(),
        };
        claims.grant(upgrade).await?.map_err(|blocked| AgbotError::Refused(blocked.to_string()))
    }

    /// Takes the claim while no other transaction may read or write a claim.
    async fn take_with_table_lock(&self) -> Result<i64, AgbotError> {
        let now = Timestamp::now();
        let mut tx = self.database.begin().await?;
        lock_table(&mut tx).await?;
        let stored = table::read_groups(&mut tx, &[&self.group.id]).await?;
        if let Some(row) = stored.iter().flat_map(|group| &group.claims).next() {
            return Err(AgbotError::Refused(format!("{} holds a claim", row.node)));
        }
        let revision = stored.first().map(|group| group.revision).unwrap_or_default();
        let view = GroupView {
            group: &self.group,
            rows: &[],
            members: &self.members,
            refusals: &[],
            released_at: None,
            drains: false,
        };
        let (_, request) = decide_agent_upgrade(view, &self.node, &self.nmp, now, &self.settings)
            .map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
        let row = ClaimRow {
            ha_group: self.group.id.clone(),
            scope: SCOPE.to_owned(),
            node: self.node.clone(),
            purpose: json!({"purpose": "agent-upgrade", "nmp": self.nmp.as_str()}),
            version: request.version,
            fencing: 0,
            phase: "stopping".to_owned(),
            since: now,
            phase_at: now,
            deadline: now.saturating_add(SignedDuration::from_hours(1)).unwrap_or(now),
        };
        let seen_running = json!(request.seen_running);
        let claim = NewClaim { row, revision, seen_running, waits_end_before: None };
        let numbers = table::insert_claims(&mut tx, &[claim]).await?;
        tx.commit().await?;
        numbers
            .first()
            .copied()
            .flatten()
            .ok_or_else(|| AgbotError::Refused("nothing was inserted".to_owned()))
    }

    async fn release_with_table_lock(&self, fencing: i64) -> Result<(), AgbotError> {
        let mut tx = self.database.begin().await?;
        lock_table(&mut tx).await?;
        let claim = EndedClaim {
            ha_group: self.group.id.clone(),
            scope: SCOPE.to_owned(),
            fencing,
            why: ReleaseReason::Done.to_string(),
            lease: None,
        };
        let endings = table::delete_claims(&mut tx, Uuid::nil(), &[claim], Timestamp::now()).await?;
        if endings != [ClaimEnding::Removed] {
            return Err(AgbotError::Refused("the claim no longer exists".to_owned()));
        }
        tx.commit().await?;
        Ok(())
    }
}

async fn lock_table(tx: &mut PgConnection) -> Result<(), AgbotError> {
    let locked = sqlx::query("LOCK TABLE claim IN ACCESS EXCLUSIVE MODE").execute(tx).await;
    locked.map(drop).map_err(|error| StoreError::from(error).into())
}

fn store(error: StoreError) -> Failure {
    store_failed(&error)
}
