//! A whole fleet in the databases of a hub: nodes that run their tasks, groups, deployment policies, a rollout, events.
//!
//! Everything is as an agbot and its agents would have left it, so that a hub that starts on it finds nothing to do.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use evenkeel_agbot::facts::deployment_policy;
use evenkeel_agbot_store::workload::{insert_task_specs, upsert_workload};
use evenkeel_client::{Client, ClientError, Credentials, HttpSettings, Transport};
use evenkeel_ids::{AgreementId, NodeId, OrgId, PolicyId, ServiceId, ServiceKey, TaskId};
use evenkeel_planner_record::agreement::{Agreement, AgreementState};
use evenkeel_planner_record::facts::{DeploymentOverrides, DeploymentPolicyFacts};
use evenkeel_planner_record::workload::{
    Cause, DesiredState, NodeRestarts, Slot, SpecVersion, Task, TaskHealth, TaskState, UnitId, WorkloadRecord,
};
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::{Database, to_sql};
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::fleet::{ORG, Scribe};
use super::stage::{Stage, refused, store_failed};

/// Nodes of a deployment policy, and its instances: one on each.
pub const PER_POLICY: usize = 100;
/// Members of an HA group.
const PER_GROUP: i64 = 10;
/// Rows of one statement.
const BATCH: usize = 5_000;
/// Silence after which a node of the fleet is down.
const DOWN_AFTER_SECS: u64 = 86_400;
/// Requests to the exchange at a time.
const REQUESTS: usize = 16;
/// Policy without tasks, with a finished rollout through every HA group.
pub const PLAIN: &str = "plain";
/// Policy whose rollout is watched.
pub const ROLLOUT: &str = "wide";
/// Versions of the service.
const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];
const SERVICE: &str = "web";
/// Password of every administrator.
pub const PASSWORD: &str = "operator-password";

/// Returns the name of a node.
pub fn node(number: usize) -> String {
    format!("n{number:06}")
}

/// Returns the name of a deployment policy.
pub fn policy(number: usize) -> String {
    format!("p{number:04}")
}

/// A fleet that is being written.
pub struct ConsoleFleet {
    database: Database,
    nodes: usize,
    operator: Client,
    now: Timestamp,
}

/// What a task of the fleet runs.
struct Placed<'a> {
    policy: &'a PolicyId,
    slot: usize,
    node: usize,
    spec: SpecVersion,
    version: &'static str,
    is_updated: bool,
}

impl ConsoleFleet {
    /// Writes nodes and their groups, and the documents of the exchange: `rollout` nodes belong to the rollout that is watched, the others
    /// to deployment policies of [`PER_POLICY`] instances.
    pub async fn write(stage: &Stage, nodes: usize, rollout: usize) -> Result<(), Failure> {
        let database = stage.connect().await?;
        let scribe = Scribe::new(stage.connect().await?).await?;
        let made = scribe.nodes("n", nodes).await?;
        scribe.groups_of(&made, PER_GROUP).await?;
        let (exchange, address) = stage.start_exchange().await?;
        let operator = client(address, "operator").map_err(called)?;
        let fleet = ConsoleFleet { database, nodes, operator, now: now() };
        fleet.describe_nodes(rollout).await?;
        for version in VERSIONS {
            fleet.operator.create_service(ORG, &service(version)).await.map_err(called)?;
        }
        // No node becomes silent while it is measured.
        let settings = json!({"nodeDownAfterSeconds": DOWN_AFTER_SECS});
        fleet.operator.patch_org_orchestration(ORG, &settings).await.map_err(called)?;
        let policies = (nodes - rollout) / PER_POLICY;
        fleet.deploy(policies, rollout).await?;
        // What the exchange has not written yet, it writes when it ends.
        drop(exchange);
        let mut connection = fleet.database.acquire().await.map_err(|error| store_failed(&error))?;
        fleet.write_finished_rollouts(&mut connection, rollout).await?;
        fleet.write_events(&mut connection).await?;
        execute(&mut connection, "ANALYZE").await
    }

    /// Writes properties, status and heartbeats.
    async fn describe_nodes(&self, rollout: usize) -> Result<(), Failure> {
        let mut connection = self.database.acquire().await.map_err(|error| store_failed(&error))?;
        execute(
            &mut connection,
            "INSERT INTO node_heartbeat (org, node, seen_at) SELECT org, node, now() FROM node
             ON CONFLICT (org, node) DO UPDATE SET seen_at = excluded.seen_at",
        )
        .await?;
        let numbers: Vec<i64> = (0..self.nodes as i64).collect();
        for numbers in numbers.chunks(BATCH) {
            let names: Vec<String> = numbers.iter().map(|number| node(*number as usize)).collect();
            let properties: Vec<Value> =
                numbers.iter().map(|number| properties(*number as usize, rollout)).collect();
            let services: Vec<Value> =
                numbers.iter().map(|number| services(*number as usize, rollout)).collect();
            for (statement, documents) in [
                (
                    "INSERT INTO node_policy (org, node, properties, constraints, deployment, management, updated_at)
                     SELECT 'bench', row.node, row.document::json, '[]', '{}', '{}', now()
                     FROM UNNEST($1::text[], $2::jsonb[]) AS row (node, document)",
                    properties,
                ),
                (
                    "INSERT INTO node_status (org, node, connectivity, services, running_services, updated_at)
                     SELECT 'bench', row.node, '{}', row.document::json, '|bench/web|', now()
                     FROM UNNEST($1::text[], $2::jsonb[]) AS row (node, document)",
                    services,
                ),
            ] {
                let written = sqlx::query(statement).bind(&names).bind(&documents).execute(&mut *connection);
                written.await.map_err(|error| refused(&error))?;
            }
        }
        Ok(())
    }

    /// Creates the deployment policies at the exchange, and what the agbot has recorded of them.
    async fn deploy(&self, policies: usize, rollout: usize) -> Result<(), Failure> {
        let create = async |(name, document): (String, Value)| {
            self.operator.create_deployment_policy(ORG, &name, &document).await.map(drop)
        };
        let mut documents: Vec<(String, Value)> =
            (0..policies).map(|number| (policy(number), small_document(number))).collect();
        documents.push((PLAIN.to_owned(), plain_document()));
        let created = stream::iter(documents).map(create).buffer_unordered(REQUESTS);
        created.try_collect::<Vec<()>>().await.map_err(called)?;
        for number in 0..policies {
            let id = PolicyId::new(ORG, &policy(number));
            let record = WorkloadRecord::new(&self.facts(&id).await?);
            let first = rollout + number * PER_POLICY;
            let spec = record.versions.current;
            let placed = (0..PER_POLICY).map(|slot| Placed {
                policy: &id,
                slot: slot + 1,
                node: first + slot,
                spec,
                version: VERSIONS[0],
                is_updated: false,
            });
            self.record(&record, &placed.collect::<Vec<_>>()).await?;
        }
        if rollout > 0 { self.begin_rollout(rollout).await } else { Ok(()) }
    }

    /// A rollout that is half done: its policy is frozen, so that it stays so.
    async fn begin_rollout(&self, instances: usize) -> Result<(), Failure> {
        let id = PolicyId::new(ORG, ROLLOUT);
        let [first, second] = VERSIONS.map(|version| wide_document(version, instances));
        self.operator.create_deployment_policy(ORG, ROLLOUT, &first).await.map_err(called)?;
        let before = WorkloadRecord::new(&self.facts(&id).await?);
        self.operator.put_deployment_policy(ORG, ROLLOUT, &second).await.map_err(called)?;
        let record = before.written(&self.facts(&id).await?, self.now);
        let record = record.ok_or_else(|| Failure::new(ExitStatus::Failure, "no rollout begins"))?;
        let record = WorkloadRecord { is_frozen: true, ..record };
        let placed = (0..instances).map(|slot| {
            let is_updated = slot < instances / 2;
            Placed {
                policy: &id,
                slot: slot + 1,
                node: slot,
                spec: if is_updated { record.versions.current } else { before.versions.current },
                version: VERSIONS[usize::from(is_updated)],
                is_updated,
            }
        });
        self.record(&record, &placed.collect::<Vec<_>>()).await
    }

    /// Reads a deployment policy as the agbot does.
    async fn facts(&self, id: &PolicyId) -> Result<DeploymentPolicyFacts, Failure> {
        let found = self.operator.deployment_policy(ORG, id.name()).await.map_err(called)?;
        let wrong = |why: String| Failure::new(ExitStatus::Failure, format!("the policy {id}: {why}"));
        let found = found.ok_or_else(|| wrong("does not exist".to_owned()))?;
        let org: OrgId = ORG.parse().map_err(|_| wrong("has no organization".to_owned()))?;
        deployment_policy(id, &found, BTreeSet::from([org])).map_err(wrong)
    }

    /// Writes the rows of a workload, its tasks and their agreements.
    async fn record(&self, record: &WorkloadRecord, placed: &[Placed<'_>]) -> Result<(), Failure> {
        let mut tx = self.database.begin().await.map_err(|error| store_failed(&error))?;
        let specs = record.specs.iter().map(|(number, spec)| (number.cast_signed(), json!(spec)));
        let specs: Vec<(i64, Value)> = specs.collect();
        let row = json!(record.without_specs());
        upsert_workload(&mut tx, &record.policy, &row).await.map_err(|error| store_failed(&error))?;
        insert_task_specs(&mut tx, &record.policy, &specs).await.map_err(|error| store_failed(&error))?;
        for placed in placed.chunks(BATCH) {
            let tasks: Vec<Task> = placed.iter().map(|one| self.task(one)).collect();
            let agreements: Vec<Agreement> = placed.iter().map(|one| self.agreement(one)).collect();
            sqlx::query(
                "INSERT INTO task (task, policy, part, slot, spec_number, changed_at, record)
                 SELECT record ->> 'id', $1, 'all', record ->> 'slot', (record -> 'spec' ->> 'number')::bigint, $3, record
                 FROM UNNEST($2::jsonb[]) AS row (record)",
            )
            .bind(record.policy.as_str())
            .bind(tasks.iter().map(|task| json!(task)).collect::<Vec<Value>>())
            .bind(to_sql(self.now))
            .execute(&mut *tx)
            .await
            .map_err(|error| refused(&error))?;
            sqlx::query(
                "INSERT INTO agreement (agreement, node, policy, record, created_at)
                 SELECT record ->> 'id', record ->> 'node', $1, record, $3 FROM UNNEST($2::jsonb[]) AS row (record)",
            )
            .bind(record.policy.as_str())
            .bind(agreements.iter().map(|agreement| json!(agreement)).collect::<Vec<Value>>())
            .bind(to_sql(self.now))
            .execute(&mut *tx)
            .await
            .map_err(|error| refused(&error))?;
        }
        tx.commit().await.map_err(|error| store_failed(&error))
    }

    fn ago(&self, secs: i64) -> Timestamp {
        self.now.checked_sub(SignedDuration::from_secs(secs)).unwrap_or(Timestamp::MIN)
    }

    fn task(&self, placed: &Placed<'_>) -> Task {
        let (created, running) = (self.ago(600), self.ago(560));
        Task {
            id: TaskId::from_text(&format!("{:032x}", placed.node)),
            unit_id: UnitId::all(placed.policy.clone()),
            slot: Slot::Number(placed.slot as u32),
            generation: 1,
            spec: placed.spec,
            node: Some(NodeId::new(ORG, &node(placed.node))),
            agreement: Some(agreement_id(placed.node)),
            desired: DesiredState::Running,
            state: TaskState::RUNNING,
            seq: 3,
            cause: if placed.is_updated { Cause::Update } else { Cause::Scale },
            origin: None,
            created_at: created,
            start_at: created,
            desired_at: Some(created),
            state_at: running,
            running_at: Some(running),
            ended_at: None,
            health: TaskHealth::default(),
            is_end_requested: None,
            restarts: NodeRestarts::default(),
        }
    }

    fn agreement(&self, placed: &Placed<'_>) -> Agreement {
        Agreement {
            id: agreement_id(placed.node),
            node: NodeId::new(ORG, &node(placed.node)),
            policy: placed.policy.clone(),
            service: ServiceId::new(ORG, &format!("{SERVICE}_{}_amd64", placed.version)),
            service_key: ServiceKey::new(ORG, SERVICE),
            version: placed.version.into(),
            priority: 0,
            best_version: placed.version.into(),
            terms_digest: 0,
            overrides: DeploymentOverrides::default(),
            pending_update: None,
            ha_group: None,
            created_at: self.ago(600),
            reply_by: self.ago(590),
            verified_at: None,
            task: Some(TaskId::from_text(&format!("{:032x}", placed.node))),
            is_side_by_side: false,
            is_single: false,
            awaits_stop: false,
            state: AgreementState::Finalized { at: self.ago(595) },
        }
    }

    /// Finished rollouts of the policy without tasks through every group without tasks of the watched rollout.
    async fn write_finished_rollouts(
        &self,
        connection: &mut PgConnection,
        rollout: usize,
    ) -> Result<(), Failure> {
        let groups: Vec<String> = (rollout as i64 / PER_GROUP..self.nodes as i64 / PER_GROUP)
            .map(|group| format!("{ORG}/g{group}"))
            .collect();
        let plain = PolicyId::new(ORG, PLAIN);
        let record = json!({
            "policy": plain, "target": format!("{ORG}/{SERVICE} {}", VERSIONS[0]), "target_digest": 1, "started_at": self.ago(900),
            "total": PER_GROUP, "done": PER_GROUP, "failed": [], "last_step_at": self.ago(800), "state": "completed", "at": self.ago(800),
            "revision": 2,
        });
        let statement = "INSERT INTO rollout (ha_group, policy, record)
                         SELECT ha_group, $2, $3 || jsonb_build_object('group', ha_group) FROM UNNEST($1::text[]) AS ha_group";
        let written = sqlx::query(statement).bind(&groups).bind(plain.as_str()).bind(record);
        written.execute(connection).await.map(drop).map_err(|error| refused(&error))
    }

    /// An event of each node, and what it was at another time.
    async fn write_events(&self, connection: &mut PgConnection) -> Result<(), Failure> {
        for statement in [
            "INSERT INTO agbot_event (happened_at, kind, node, policy, ha_group, detail)
             SELECT now() - interval '10 minutes', 'task.running', node, policy, NULL,
                    jsonb_build_object('slot', slot, 'text', 'its node reported that it runs')
             FROM task",
            "INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
             SELECT history_segment.segment, 'task', task.org, task.policy, task.part, task.slot, task.task, task.node, 'starting',
                    '{\"desired\": \"running\", \"specVersion\": 1, \"cause\": \"scale\", \"next\": \"running\"}',
                    now() - interval '20 minutes', now() - interval '10 minutes'
             FROM task, history_segment WHERE history_segment.completed_at IS NULL",
        ] {
            execute(connection, statement).await?;
        }
        Ok(())
    }
}

/// The API as an administrator of the organization.
pub fn client(address: SocketAddr, user: &str) -> Result<Client, ClientError> {
    let transport = Transport::http(HttpSettings::new(format!("http://{address}")))?;
    Client::new(transport, "/v1", Credentials::new(ORG, user, PASSWORD))
}

/// A call that failed.
pub fn called(error: ClientError) -> Failure {
    Failure::from_error(ExitStatus::Failure, &error)
}

async fn execute(connection: &mut PgConnection, statement: &'static str) -> Result<(), Failure> {
    sqlx::query(statement).execute(connection).await.map(drop).map_err(|error| refused(&error))
}

/// The time with the precision of the database.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

fn agreement_id(node: usize) -> AgreementId {
    AgreementId::from_text(&format!("{node:064x}"))
}

/// Nodes of the rollout have a cell of their own, the others one for each policy.
fn cell(node: usize, rollout: usize) -> String {
    match node.checked_sub(rollout) {
        None => ROLLOUT.to_owned(),
        Some(other) => format!("cell-{}", other / PER_POLICY),
    }
}

fn properties(node: usize, rollout: usize) -> Value {
    json!([
        {"name": "cell", "value": cell(node, rollout)},
        {"name": "site", "value": format!("site-{}", node % 97)},
        {"name": "tier", "value": if node.is_multiple_of(10) { "core" } else { "edge" }},
        {"name": "memory", "value": 1_024 + node % 7},
    ])
}

/// The service that a node reports.
fn services(node: usize, rollout: usize) -> Value {
    let version = VERSIONS[usize::from(node < rollout / 2)];
    json!([{
        "agreementId": format!("{node:064x}"), "serviceUrl": SERVICE, "orgid": ORG, "version": version, "arch": "amd64",
        "containerStatus": [{"name": format!("/{node:064x}-web"), "image": "web", "created": 0, "state": "running"}],
        "operatorStatus": {}, "configState": "active",
    }])
}

fn service(version: &str) -> Value {
    json!({
        "label": "Web", "url": SERVICE, "version": version, "arch": "amd64", "sharable": "multiple", "public": false,
        "deployment": "{\"services\":{\"web\":{\"image\":\"web\"}}}", "deploymentSignature": "unsigned",
    })
}

fn document(version: &str, constraint: &str) -> Value {
    json!({
        "label": "Web",
        "service": {"name": SERVICE, "org": ORG, "arch": "*", "serviceVersions": [{"version": version}]},
        "constraints": [constraint],
    })
}

fn small_document(number: usize) -> Value {
    let mut document = document(VERSIONS[0], &format!("cell == cell-{number}"));
    document["orchestration"] = json!({"mode": "replicated", "replicas": PER_POLICY, "maxPerNode": 1});
    document
}

/// A policy that selects no node.
fn plain_document() -> Value {
    document(VERSIONS[0], "cell == none")
}

fn wide_document(version: &str, instances: usize) -> Value {
    let mut document = document(version, &format!("cell == {ROLLOUT}"));
    document["orchestration"] = json!({
        "mode": "replicated", "replicas": instances, "maxPerNode": 1, "update": {"parallelism": 100, "monitorSeconds": 30},
    });
    document
}
