//! Health reports of users and nodes, and the health of the reported entities.
//!
//! Reports are rows that every agbot follows; an acknowledged report is in the model of this one. Source:
//! orchestration D1.

use std::time::Duration;

use evenkeel_agbot::records::{entity_key, health_row_of};
use evenkeel_agbot::{AgbotError, Context, EngineHandle, SHARED_ORG};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_agbot_store::health as store;
use evenkeel_api::{BodyKind, Content, Created, Input, OrgPath, Refusal};
use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_record::health::{Entity, HealthReport, MAX_EVENTS, SYSTEM, StoredReport};
use evenkeel_planner_record::workload::{Part, UnitId};
use evenkeel_store::{StoreError, retry};
use evenkeel_wire::agbot::health as wire;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;
use serde_json::json;

use super::actions::failed;
use super::done;
use super::orchestration::node_of;
use super::path::{GroupPath, InstancePath, NodePath, PolicyPath, WorkloadUnitPath};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent};

/// Time for which a request waits for the model to read what the exchange has.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const READ_PAUSE: Duration = Duration::from_millis(50);

/// The body of a report.
pub(super) struct Report(HealthReport);

impl Input<AgbotRequest> for Report {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<Report, Refusal> {
        sent.members(HealthReport::read).map(Report)
    }

    fn body() -> Content {
        Content::read::<wire::HealthReport>()
    }
}

type Reported = Result<Created<ApiResponse>, Refusal>;

/// Reports about an organization.
pub(super) async fn report_on_org(
    op: Op<OrgPath>,
    permission: Permission<right::OrgAdminister>,
    report: Report,
) -> Reported {
    let entity = org_entity(&op.context, &op.path.org).await?;
    take(&op.context, permission.actor(), &entity, report).await
}

/// Reports about a node.
pub(super) async fn report_on_node(
    op: Op<NodePath>,
    permission: Permission<right::NodeReport>,
    report: Report,
) -> Reported {
    let entity = node_entity(&op.context, &op.path).await?;
    take(&op.context, &permission.into_proof(), &entity, report).await
}

/// Reports about an HA group.
pub(super) async fn report_on_group(
    op: Op<GroupPath>,
    permission: Permission<right::OrgAdminister>,
    report: Report,
) -> Reported {
    let entity = group_entity(&op.context, &op.path).await?;
    take(&op.context, permission.actor(), &entity, report).await
}

/// Reports about a deployment policy.
pub(super) async fn report_on_policy(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyOperate>,
    report: Report,
) -> Reported {
    let policy = PolicyId::new(&op.path.org, &op.path.policy);
    let entity = known(&op.context, Entity::Workload(policy)).await?;
    take(&op.context, &permission.into_proof().0, &entity, report).await
}

/// Reports about a workload unit.
pub(super) async fn report_on_unit(
    op: Op<WorkloadUnitPath>,
    permission: Permission<right::PolicyOperate>,
    report: Report,
) -> Reported {
    let entity = unit_entity(&op.context, &op.path).await?;
    take(&op.context, &permission.into_proof().0, &entity, report).await
}

/// Reports about the instance of a deployment policy on a node.
pub(super) async fn report_on_instance(
    op: Op<InstancePath>,
    permission: Permission<right::InstanceReport>,
    report: Report,
) -> Reported {
    let entity = instance_entity(&op.context, &op.path).await?;
    take(&op.context, &permission.into_proof(), &entity, report).await
}

/// Returns the organization, if it exists.
pub(super) async fn org_entity(context: &Context, org: &str) -> Result<Entity, Refusal> {
    let missing = || Refusal::new(StatusCode::NOT_FOUND, format!("the organization {org} does not exist"));
    let id: evenkeel_ids::OrgId = org.parse().map_err(|_| missing())?;
    if context.client.org(org).await.map_err(|error| unavailable(&error))?.is_none() {
        return Err(missing());
    }
    Ok(Entity::Org(id))
}

/// Returns the node, if it exists.
pub(super) async fn node_entity(context: &Context, path: &NodePath) -> Result<Entity, Refusal> {
    let node = NodeId::new(&path.org, &path.node);
    let entity = Entity::Node(node.clone());
    let exists = context.model().has_health_entity(&entity)
        || !is_unstorable(&path.node)
            && context.client.node(&node).await.map_err(|error| unavailable(&error))?.is_some();
    if !exists {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the node {node} does not exist")));
    }
    known(context, entity).await
}

/// Returns the HA group, if it exists.
pub(super) async fn group_entity(context: &Context, path: &GroupPath) -> Result<Entity, Refusal> {
    let group = GroupId::new(&path.org, &path.hagroup);
    if !has_group(context, path).await.map_err(|error| unavailable(&error))? {
        return Err(missing_group(&group));
    }
    known(context, Entity::Group(group)).await
}

/// Returns whether an HA group exists: the agbot has read it, or the exchange has it.
///
/// # Errors
/// When the exchange does not respond, or does not show the group to the agbot.
pub(super) async fn has_group(context: &Context, path: &GroupPath) -> Result<bool, ClientError> {
    let GroupPath { org, hagroup: name } = path;
    if context.model().group(&GroupId::new(org, name)).is_some() {
        return Ok(true);
    }
    Ok(!is_unstorable(name) && context.client.ha_group(org, name).await?.is_some())
}

/// Returns the refusal for an HA group that does not exist.
pub(super) fn missing_group(group: &GroupId) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("the HA group {group} does not exist"))
}

/// Returns the workload unit, if the policy has it.
pub(super) async fn unit_entity(engine: &EngineHandle, path: &WorkloadUnitPath) -> Result<Entity, Refusal> {
    let policy = PolicyId::new(&path.org, &path.policy);
    known(engine, Entity::Workload(policy.clone())).await?;
    let found = engine.model().health_unit_named(&policy, &path.unit);
    found.map(Entity::WorkloadUnit).ok_or_else(|| super::orchestration::unknown_part(&policy, &path.unit))
}

/// Returns the instance, if the node belongs to the policy.
pub(super) async fn instance_entity(context: &Context, path: &InstancePath) -> Result<Entity, Refusal> {
    let policy = PolicyId::new(&path.org, &path.policy);
    known(context, Entity::Workload(policy.clone())).await?;
    let node = node_of(&path.org, &path.node);
    let missing = || {
        let text = format!("node: {node} does not belong to the deployment policy {policy}");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    if is_unstorable(&path.node) {
        return Err(missing());
    }
    let entity = Entity::Instance(policy.clone(), node.clone());
    // The node may be newer than what the model has read of it. Of other organizations nothing is said about nodes that are not served.
    let is_expected = [node.org(), SHARED_ORG].contains(&path.org.as_str());
    let is_new = is_expected && context.model().node(&node).is_none();
    if is_new && context.client.node(&node).await.map_err(|error| unavailable(&error))?.is_some() {
        known(context, Entity::Node(node.clone())).await?;
    }
    if context.model().has_health_entity(&entity) { Ok(entity) } else { Err(missing()) }
}

/// The database has no such character in its texts, and no name is longer.
fn is_unstorable(name: &str) -> bool {
    name.contains('\0') || name.len() > evenkeel_api::MAX_ID
}

pub(super) fn unavailable(error: &ClientError) -> Refusal {
    match error {
        // A name that the exchange does not accept is wrong here, too.
        ClientError::Status { status: 400, msg, .. } => Refusal::new(StatusCode::BAD_REQUEST, msg.clone()),
        error => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Waits until the model knows an entity that the exchange has.
async fn known(engine: &EngineHandle, entity: Entity) -> Result<Entity, Refusal> {
    let deadline = tokio::time::Instant::now() + READ_TIMEOUT;
    while !engine.model().has_health_entity(&entity) {
        if tokio::time::Instant::now() >= deadline {
            let text = format!("the agbot does not serve {entity}, or has not read it yet; ask again");
            return Err(Refusal::new(StatusCode::CONFLICT, text));
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
    Ok(entity)
}

async fn take(context: &Context, actor: &str, entity: &Entity, Report(report): Report) -> Reported {
    if report.source.starts_with(SYSTEM) {
        let text = format!("sourceId must not begin with {SYSTEM}: such reports are the hub's own");
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    match write(context, actor, entity, &report).await.map_err(|error| failed(&error))? {
        Ok(is_new) => {
            if is_new {
                context.follow_records().await;
            }
            let msg = format!("health of {entity} reported");
            Ok(Created(done(msg)))
        }
        Err(reason) => Err(Refusal::new(StatusCode::CONFLICT, reason)),
    }
}

/// Stores a report unless it repeats the last one. Returns whether it did, or why it is refused.
async fn write(
    context: &Context,
    actor: &str,
    entity: &Entity,
    report: &HealthReport,
) -> Result<Result<bool, String>, AgbotError> {
    let key = entity_key(entity);
    retry("health.report", || async {
        let now = context.now();
        let mut tx = context.database.begin().await?;
        let stored = store::lock_of_entity(&mut tx, &key).await?;
        let stored = stored.into_iter().map(serde_json::from_value::<StoredReport>);
        let stored: Vec<StoredReport> = stored.collect::<Result<_, _>>()?;
        let (gone, left): (Vec<_>, Vec<_>) = stored.into_iter().partition(|one| one.is_gone(now));
        let known = left.iter().find(|one| one.source == report.source && one.property == report.property);
        let next = match StoredReport::next(known, report.clone(), now) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(Ok(false)),
            Err(stale) => return Ok(Err(stale.to_string())),
        };
        let count = left.iter().filter(|one| !one.source.starts_with(SYSTEM)).count();
        if known.is_none() && count >= MAX_EVENTS {
            return Ok(Err(format!("{entity} has {MAX_EVENTS} health events, and cannot have more")));
        }
        let gone: Vec<_> = gone.into_iter().map(|one| (one.source, one.property)).collect();
        if !gone.is_empty() {
            store::delete_events(&mut tx, &key, &gone).await?;
        }
        if store::upsert_events(&mut tx, &key, &[health_row_of(&next)?]).await? == 0 {
            // Another first report of the property was faster.
            return Err(StoreError::Contention { name: "health.report" }.into());
        }
        let before = known.map_or(evenkeel_planner_record::health::HealthState::Ok, |known| known.state);
        if before != next.state {
            events::insert_event(&mut tx, &changed(actor, entity, before.word(), &next)).await?;
        }
        tx.commit().await?;
        Ok(Ok(true))
    })
    .await
}

/// Returns the event of a report that differs from the previous one.
fn changed(actor: &str, entity: &Entity, before: &str, report: &StoredReport) -> EventRow {
    let name = match entity {
        Entity::WorkloadUnit(unit_id) => Some(unit_id.name().to_owned()),
        _ => None,
    };
    let group = match entity {
        Entity::Group(group) => Some(group.clone()),
        Entity::WorkloadUnit(UnitId { part: Part::Group(group), .. }) => Some(group.clone()),
        _ => None,
    };
    let (source, property, after) = (&report.source, &report.property, report.state.word());
    EventRow {
        happened_at: report.received_at,
        kind: "health.changed".to_owned(),
        ha_group: group,
        node: entity.node().cloned(),
        policy: entity.policy().cloned(),
        detail: json!({
            "actor": actor, "workloadUnit": name, "entity": entity.to_string(), "sourceId": source,
            "property": property, "from": before, "to": after,
            "text": format!("{source} reports {property} of {entity}: {before} -> {after}"),
        }),
    }
}
