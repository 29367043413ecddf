//! `evenkeel bench claims`: taking and releasing upgrade claims, beside an implementation that locks the whole table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot::{AgbotError, UpgradeQuestion, grant_on};
use evenkeel_planner::agent_upgrade::{GroupView, MemberView, decide_agent_upgrade};
use evenkeel_planner::facts::HaGroupFacts;
use evenkeel_planner::ids::{GroupId, NmpId, NodeId};
use evenkeel_planner::model::Liveness;
use evenkeel_planner::settings::PlannerSettings;
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::agbot::claim::{self as table, ClaimRow};
use evenkeel_store::agbot::event::{self as events, EventRow};
use evenkeel_store::{Database, PgConnection, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;

use super::report::{Options, Report, Row, Target};
use super::stage::{Stage, refused};
use crate::commands::hub::no_database;

const CLIENTS: usize = 16;
const HELD: i32 = 2_000;
const TIMES: f64 = 10.0;
/// Scope of agent upgrades.
const SCOPE: &str = "agent";

/// Runs the benchmark.
pub async fn run(options: Options) -> Result<Report, Failure> {
    Stage::with(async |stage| measure(options, stage).await).await
}

async fn measure(options: Options, stage: &Stage) -> Result<Report, Failure> {
    let length = Duration::from_millis(if options.short { 800 } else { 8_000 });
    let database = stage.connect().await?;
    hold_others(&database).await?;
    // Halves in turn, so that a disk that changes its speed does not favour one of them.
    let mut rates = [0.0; 2];
    for _ in 0..2 {
        for (rate, way) in rates.iter_mut().zip([Way::RowLock, Way::TableLock]) {
            *rate += compete(&database, way, length / 2).await? / 2.0;
        }
    }
    database.close().await;
    let mut report = Report::new("claims");
    report.push(
        Row::new(
            format!("upgrade claims taken and released, {CLIENTS} clients, {HELD} held"),
            rates[0],
            "/s",
        )
        .beside("with LOCK TABLE", rates[1])
        .target(Target::RatioAtLeast(TIMES)),
    );
    report.note("Each client asks for a member of a group of its own; both ways decide by the same rules, record the same event and commit durably. The held claims belong to other groups.");
    report.note(stage.version().await?);
    Ok(report)
}

#[derive(Clone, Copy)]
enum Way {
    /// As the agbot does it: the lock of the group's own row.
    RowLock,
    /// One lock for all groups.
    TableLock,
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
    sqlx::query("ANALYZE").execute(&mut *connection).await.map(drop).map_err(|error| refused(&error))
}

async fn compete(database: &Database, way: Way, length: Duration) -> Result<f64, Failure> {
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    for client in 0..CLIENTS {
        let asker = Arc::new(Asker::new(database.clone(), client));
        tasks.spawn(async move {
            let mut taken = 0_u64;
            while begin.elapsed() < length {
                let fencing = match way {
                    Way::RowLock => asker.take().await?,
                    Way::TableLock => asker.take_with_table_lock().await?,
                };
                asker.release(way, fencing).await?;
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

/// A member of a group of two that asks again and again.
struct Asker {
    database: Database,
    settings: PlannerSettings,
    group: HaGroupFacts,
    members: BTreeMap<NodeId, MemberView>,
    node: NodeId,
    nmp: NmpId,
}

impl Asker {
    fn new(database: Database, client: usize) -> Asker {
        let node = NodeId::new("bench", &format!("a{client}"));
        let peer = NodeId::new("bench", &format!("b{client}"));
        let alive = MemberView { liveness: Liveness::Alive, is_away: false, nmp_status: None };
        Asker {
            database,
            settings: PlannerSettings::default(),
            group: HaGroupFacts::new(
                GroupId::new("bench", &format!("group{client}")),
                [node.clone(), peer.clone()],
            ),
            members: [(node.clone(), alive.clone()), (peer, alive)].into(),
            node,
            nmp: NmpId::new("bench", "m"),
        }
    }

    /// Takes the claim as the agbot does; returns its number.
    async fn take(&self) -> Result<i64, AgbotError> {
        let question =
            UpgradeQuestion { group: &self.group, members: &self.members, node: &self.node, nmp: &self.nmp };
        let answer = grant_on(&self.database, &self.settings, question, Timestamp::now).await?;
        let claim = answer.map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
        Ok(claim.fencing.cast_signed())
    }

    /// Takes the claim while nobody else may read or write any claim.
    async fn take_with_table_lock(&self) -> Result<i64, AgbotError> {
        let now = Timestamp::now();
        let mut tx = self.database.begin().await?;
        lock_table(&mut tx).await?;
        let held = table::list_of_group(&mut tx, self.group.id.as_str()).await?;
        if let Some(row) = held.first() {
            return Err(AgbotError::Refused(format!("{} holds a claim", row.node)));
        }
        let view = GroupView {
            group: &self.group,
            rows: &[],
            members: &self.members,
            refusals: &[],
            released_at: None,
        };
        let (_, request) = decide_agent_upgrade(view, &self.node, &self.nmp, now, &self.settings)
            .map_err(|blocked| AgbotError::Refused(blocked.to_string()))?;
        let row = ClaimRow {
            ha_group: self.group.id.as_str().to_owned(),
            scope: SCOPE.to_owned(),
            node: self.node.as_str().to_owned(),
            purpose: json!({"purpose": "agent-upgrade", "nmp": self.nmp.as_str()}),
            version: request.version,
            fencing: 0,
            phase: "stopping".to_owned(),
            since: now,
            phase_at: now,
            deadline: now.saturating_add(SignedDuration::from_hours(1)).unwrap_or(now),
        };
        let fencing = table::insert_claim(&mut tx, &row).await?;
        events::insert_event(&mut tx, &self.event("hagroup.lock-granted", fencing)).await?;
        tx.commit().await?;
        Ok(fencing)
    }

    async fn release(&self, way: Way, fencing: i64) -> Result<(), AgbotError> {
        let mut tx = self.database.begin().await?;
        if matches!(way, Way::TableLock) {
            lock_table(&mut tx).await?;
        }
        let group = self.group.id.as_str();
        if !table::delete_claim(&mut tx, group, SCOPE, fencing).await? {
            return Err(AgbotError::Refused("the claim is gone".to_owned()));
        }
        if matches!(way, Way::RowLock) {
            table::set_released_at(&mut tx, group, Timestamp::now()).await?;
        }
        events::insert_event(&mut tx, &self.event("hagroup.lock-released", fencing)).await?;
        tx.commit().await?;
        Ok(())
    }

    fn event(&self, kind: &str, fencing: i64) -> EventRow {
        EventRow {
            happened_at: Timestamp::now(),
            kind: kind.to_owned(),
            ha_group: Some(self.group.id.as_str().to_owned()),
            node: Some(self.node.as_str().to_owned()),
            policy: None,
            detail: json!({"scope": SCOPE, "fencing": fencing}),
        }
    }
}

async fn lock_table(tx: &mut PgConnection) -> Result<(), AgbotError> {
    let locked = sqlx::query("LOCK TABLE claim IN ACCESS EXCLUSIVE MODE").execute(tx).await;
    locked.map(drop).map_err(|error| StoreError::from(error).into())
}

fn store(error: StoreError) -> Failure {
    no_database(&error)
}
