//! Writes the changes of workload units: everything that a plan rests on is tested again in the one transaction that writes it.
//!
//! Locks are taken in this order: lease, workload, tasks, groups, nodes, blocklist. Source: engine 3 to 6; orchestration 1.10, E5.1.

use std::collections::BTreeSet;

use evenkeel_agbot_store::event::{insert_event, insert_events};
use evenkeel_agbot_store::node_lock::{NodeLock, lock_nodes};
use evenkeel_agbot_store::{agreement as agreements, claim as claims, task as tasks, workload as workloads};
use evenkeel_change::{Grant, may_take};
use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_model::event::Outcome;
use evenkeel_planner_model::plan::{Neighbors, StoredPlan, neighbors};
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_planner_record::claims::Claim;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::report::Blocked;
use evenkeel_planner_record::workload::{ActionEnd, Partner, Task, UnitId, WorkloadRecord};
use evenkeel_store::{PgConnection, retry};
use serde_json::Value;

use super::blocklist::{self, BlocklistAuthor};
use super::task_event;
use crate::AgbotError;
use crate::claim_batch::read_groups;
use crate::context::{Context, EngineHandle};
use crate::lease_check::check_lease;
use crate::outbox::{Publication, publication, publish_later, supervision};
use crate::records::{new_claim, part_text, task_row};

/// Writes a plan, or nothing of it.
pub(super) async fn apply(
    context: &Context,
    lease: Lease,
    unit_id: &UnitId,
    plan: &StoredPlan,
) -> Result<Outcome, AgbotError> {
    retry("plan.apply", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let workload = locked_workload(&mut tx, &unit_id.policy, plan).await?;
        let stored = locked_tasks(&mut tx, unit_id, plan).await?;
        let names: BTreeSet<&GroupId> = plan.claims.iter().map(|request| &request.group).collect();
        let groups = read_groups(&mut tx, &names).await?;
        let held: Vec<Claim> = groups.values().flat_map(|group| group.claims.clone()).collect();
        let neighbors = locked_neighbors(&mut tx, unit_id, plan).await?;
        plan.check(unit_id, &workload, &stored, &held, &neighbors).map_err(refused)?;
        check_agreements(&mut tx, unit_id, plan).await?;
        let mut taken = Vec::new();
        for request in &plan.claims {
            taken.extend(take_claim(context, &mut tx, request, &held).await?);
        }
        let deleted = write(context, &mut tx, unit_id, plan, &stored).await?;
        let changed = published_tasks(context, &stored, plan, &deleted);
        publish_later(context, &mut tx, lease.partition, &changed).await?;
        tx.commit().await?;
        log_versions(unit_id, plan);
        Ok(Outcome::PlanApplied { claims: taken })
    })
    .await
}

/// Logs that the agents of a workload unit have different compatibility versions, or have one again.
///
/// # Source
/// Orchestration A7.
fn log_versions(unit_id: &UnitId, plan: &StoredPlan) {
    for event in &plan.events {
        match &*event.kind {
            "compat.incompatible" => tracing::warn!(
                policy.id = %unit_id.policy,
                workload.unit = unit_id.name(),
                "cluster members run incompatible versions. disable ha orchestration"
            ),
            "compat.restored" => tracing::info!(
                policy.id = %unit_id.policy,
                workload.unit = unit_id.name(),
                "cluster members run compatible versions. enable ha orchestration"
            ),
            _ => {}
        }
    }
}

fn refused(blocked: Blocked) -> AgbotError {
    AgbotError::Refused(blocked.to_string())
}

/// Locks the workload's row: alone if the plan changes it or counts the slots in work, else together with other plans.
async fn locked_workload(
    tx: &mut PgConnection,
    policy: &PolicyId,
    plan: &StoredPlan,
) -> Result<WorkloadRecord, AgbotError> {
    let counts = plan.permits.iter().any(|permit| permit.ticket_limit.is_some());
    let stored = if plan.workload.is_some() || counts {
        workloads::lock_workload(tx, policy).await?
    } else {
        workloads::share_workload(tx, policy).await?
    };
    let stored =
        stored.ok_or_else(|| AgbotError::Refused(format!("the workload {policy} no longer exists")))?;
    let stored: WorkloadRecord = serde_json::from_value(stored)?;
    match &plan.workload {
        Some(next) if !next.may_replace(Some(&stored)) => {
            Err(AgbotError::Refused(format!("the workload {policy} was changed meanwhile")))
        }
        _ => Ok(stored),
    }
}

async fn locked_tasks(
    tx: &mut PgConnection,
    unit_id: &UnitId,
    plan: &StoredPlan,
) -> Result<Vec<Task>, AgbotError> {
    let slots: Vec<String> = plan.slots().iter().map(ToString::to_string).collect();
    let records = tasks::lock_slots(tx, &unit_id.policy, part_text(&unit_id.part), &slots).await?;
    read_tasks(records)
}

/// Returns what is on the nodes of the plan. Other plans that test the same nodes wait until this one is written, so that two workloads
/// that must not share a node never take the same one, and none takes room that another one has counted on.
async fn locked_neighbors(
    tx: &mut PgConnection,
    unit_id: &UnitId,
    plan: &StoredPlan,
) -> Result<Neighbors, AgbotError> {
    let (apart, partners) = plan.apart();
    let limited = plan.limited_nodes();
    let nodes = &apart | &limited;
    if nodes.is_empty() {
        return Ok(Neighbors::default());
    }
    let policies = partners.iter().filter_map(|partner| match partner {
        Partner::Policy(policy) => Some(policy.as_str()),
        Partner::Service(_) => None,
    });
    let (nodes, policies): (Vec<&NodeId>, Vec<&str>) = (nodes.iter().collect(), policies.collect());
    lock_nodes(tx, NodeLock::Placement, &nodes).await?;
    let beside = if limited.is_empty() {
        tasks::list_on_nodes(tx, &policies, &nodes).await?
    } else {
        tasks::list_all_on_nodes(tx, &nodes).await?
    };
    let beside = read_tasks(beside)?;
    let agreements = agreements::list_live_on_nodes(tx, &nodes).await?;
    let agreements: Vec<Agreement> =
        agreements.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    Ok(neighbors(&unit_id.policy, &beside, &agreements))
}

/// A task that never had an agreement ends at once, unless one was made for it just before it was to stop.
async fn check_agreements(
    tx: &mut PgConnection,
    unit_id: &UnitId,
    plan: &StoredPlan,
) -> Result<(), AgbotError> {
    let never_proposed = plan.tasks.iter().filter(|task| task.state.is_ended() && task.agreement.is_none());
    let pairs: Vec<_> = never_proposed.filter_map(|task| Some((&task.id, task.node.as_ref()?))).collect();
    if pairs.is_empty() {
        return Ok(());
    }
    match tasks::list_with_agreement(tx, &unit_id.policy, &pairs).await?.into_iter().next() {
        Some(task) => Err(refused(Blocked::TaskChanged { task })),
        None => Ok(()),
    }
}

async fn take_claim(
    engine: &EngineHandle,
    tx: &mut PgConnection,
    request: &evenkeel_planner_record::claims::ClaimRequest,
    held: &[Claim],
) -> Result<Option<Claim>, AgbotError> {
    let group = engine.model().group(&request.group).cloned();
    let group =
        group.ok_or_else(|| AgbotError::Refused(format!("the group {} no longer exists", request.group)))?;
    if may_take(held, request, &group).map_err(refused)? == Grant::Held {
        return Ok(held
            .iter()
            .find(|claim| claim.group == request.group && claim.scope == request.scope)
            .cloned());
    }
    // Read again: an earlier claim of this plan may have changed the group.
    let groups = read_groups(tx, &BTreeSet::from([&request.group])).await?;
    let changed = || AgbotError::Refused(format!("claims of {} were taken meanwhile", request.group));
    let revision = groups.values().next().ok_or_else(changed)?.revision;
    let now = engine.now();
    let row = new_claim(request, revision, now, None)?;
    let number = claims::insert_claims(tx, &[row]).await?.pop().flatten().ok_or_else(changed)?;
    Ok(Some(request.clone().into_claim(number.unsigned_abs(), now)))
}

/// Returns what nodes must know of a plan: what is wanted of their tasks, and which tasks are deleted.
fn published_tasks(
    engine: &EngineHandle,
    stored: &[Task],
    plan: &StoredPlan,
    deleted: &[Task],
) -> Vec<Publication> {
    let model = engine.model();
    let is_changed = |task: &&Task| {
        let before = stored.iter().find(|one| one.id == task.id);
        before.is_some_and(|before| {
            before.desired != task.desired
                || before.agreement != task.agreement
                || supervision(before) != supervision(task)
        })
    };
    let changed = plan.tasks.iter().filter(is_changed).chain(deleted);
    changed.filter_map(|task| publication(&model, task)).collect()
}

/// Writes the rows of a plan. Returns the deleted tasks.
async fn write(
    context: &Context,
    tx: &mut PgConnection,
    unit_id: &UnitId,
    plan: &StoredPlan,
    stored: &[Task],
) -> Result<Vec<Task>, AgbotError> {
    let policy = &unit_id.policy;
    if let Some(workload) = &plan.workload {
        workloads::upsert_workload(tx, policy, &serde_json::to_value(workload.without_specs())?).await?;
    }
    if !plan.tasks.is_empty() {
        let rows = plan.tasks.iter().map(task_row).collect::<Result<Vec<_>, _>>()?;
        tasks::upsert_tasks(tx, &rows).await?;
    }
    let mut deleted = Vec::new();
    if !plan.deleted.is_empty() {
        let ids: Vec<&str> = plan.deleted.iter().map(TaskId::as_str).collect();
        deleted = read_tasks(tasks::delete_tasks(tx, &ids).await?)?;
    }
    if !plan.instances.is_empty() {
        let rows = plan.instances.iter().map(|(node, row)| Ok((node.clone(), serde_json::to_value(row)?)));
        workloads::upsert_instances(tx, policy, &rows.collect::<Result<Vec<_>, AgbotError>>()?).await?;
    }
    if !plan.blocklist.is_empty() {
        let name = context.name();
        let author = BlocklistAuthor { actor: &name, at: plan.at, policy: Some(policy) };
        blocklist::write(tx, &plan.blocklist, author).await?;
    }
    let rows = task_event::events(&context.name(), unit_id, plan, stored, &deleted);
    if !rows.is_empty() {
        insert_events(tx, plan.at, &rows).await?;
    }
    Ok(deleted)
}

fn read_tasks(records: Vec<Value>) -> Result<Vec<Task>, AgbotError> {
    records.into_iter().map(|record| Ok(serde_json::from_value(record)?)).collect()
}

/// Stores a workload's row after a client wrote its policy, or after an action of a user ended, and the tasks of agreements that it has
/// already.
pub(super) async fn record_workload(
    context: &Context,
    lease: Lease,
    workload: &WorkloadRecord,
    adopted: &[Task],
    ended: Option<&ActionEnd>,
) -> Result<(), AgbotError> {
    let policy = &workload.policy;
    let record = serde_json::to_value(workload.without_specs())?;
    let specs = workload.specs.iter();
    let specs = specs.map(|(number, spec)| Ok((number.cast_signed(), serde_json::to_value(spec)?)));
    let specs: Vec<(i64, Value)> = specs.collect::<Result<_, AgbotError>>()?;
    let rows = adopted.iter().map(task_row).collect::<Result<Vec<_>, _>>()?;
    let versions = workload.versions;
    let kept = [Some(versions.current), versions.previous, versions.rolled_back_from];
    let kept: Vec<i64> = kept.into_iter().flatten().map(|version| version.number.cast_signed()).collect();
    retry("workload.record", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = workloads::lock_workload(&mut tx, policy).await?;
        let stored: Option<WorkloadRecord> = stored.map(serde_json::from_value).transpose()?;
        if !workload.may_replace(stored.as_ref()) {
            return Err(AgbotError::Refused(format!("the workload {policy} was changed meanwhile")));
        }
        workloads::upsert_workload(&mut tx, policy, &record).await?;
        workloads::insert_task_specs(&mut tx, policy, &specs).await?;
        if stored.is_none() && !rows.is_empty() {
            tasks::upsert_tasks(&mut tx, &rows).await?;
            publish_later(context, &mut tx, lease.partition, &publications(context, adopted)).await?;
        }
        workloads::delete_task_specs(&mut tx, policy, &kept).await?;
        if stored.is_none_or(|stored| stored.written_at != workload.written_at) {
            insert_event(&mut tx, &task_event::followed(&context.name(), context.now(), workload)).await?;
        }
        if let Some(ended) = ended {
            insert_event(&mut tx, &task_event::ended(context.now(), policy, ended)).await?;
        }
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Deletes the rows of a workload. Agreements of a detached one continue without tasks, which is an event.
pub(super) async fn remove_workload(
    context: &Context,
    lease: Lease,
    policy: &PolicyId,
    is_detached: bool,
) -> Result<(), AgbotError> {
    retry("workload.remove", || async {
        let mut tx = context.database.begin().await?;
        check_lease(context, &mut tx, lease).await?;
        let stored = workloads::lock_workload(&mut tx, policy).await?;
        let given_up = read_tasks(tasks::list_of_policy(&mut tx, policy).await?)?;
        workloads::delete_workload(&mut tx, policy).await?;
        if is_detached && stored.is_some() {
            insert_event(&mut tx, &task_event::detached(&context.name(), context.now(), policy, &given_up))
                .await?;
        }
        publish_later(context, &mut tx, lease.partition, &publications(context, &given_up)).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

fn publications(engine: &EngineHandle, tasks: &[Task]) -> Vec<Publication> {
    let model = engine.model();
    tasks.iter().filter_map(|task| publication(&model, task)).collect()
}

/// Holds a task until the transaction ends, and returns it; fails when it must no longer run.
pub(super) async fn check_task(
    tx: &mut PgConnection,
    task: Option<&TaskId>,
) -> Result<Option<Task>, AgbotError> {
    let Some(id) = task else { return Ok(None) };
    let stored = tasks::share_task(tx, id).await?;
    let stored: Option<Task> = stored.map(serde_json::from_value).transpose()?;
    match stored.filter(Task::is_live) {
        Some(task) => Ok(Some(task)),
        None => Err(refused(Blocked::TaskChanged { task: id.clone() })),
    }
}
