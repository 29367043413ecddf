//! Runtime status and tasks of deployment policies, for accounts that may read the policy.
//!
//! Source: orchestration 1.5, A9; engine 5 (users query the agbot).

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use evenkeel_api::{Page, PageError, Refusal, WholeList};
use evenkeel_domain::orchestration::{MembersError, Orchestration};
use evenkeel_domain::review;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner::workload::{Slot, SlotTasks, Task, TaskState, UnitId};
use evenkeel_planner::{
    explain::status_of,
    status::{Window, removal_of},
};
use evenkeel_wire::agbot::orchestration::{StatusQuery, TasksQuery, TasksResponse, WorkloadStatus};
use http::StatusCode;
use serde_json::json;

use super::freshness::follow_recent_write;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::PolicyPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::context::EngineHandle;
use crate::inert::PolicyKind;
use crate::shown::SeenNodes;
use crate::shown::workload_shape::Shape;

/// Instances of a workload unit that are listed if the caller names no number.
const INSTANCES: u16 = 500;
const MOST_INSTANCES: i64 = 1000;
/// Tasks of one page of the list.
const PAGE: usize = 500;

impl NamedQuery for StatusQuery {
    const KNOWN: evenkeel_domain::object::Members = known(&["unit", "limit", "offset"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_INSTANCES)?;
        let offset = parameters.number("offset", 0..=i64::from(u32::MAX))?;
        Ok(Self {
            workload_unit: parameters.text("unit")?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
            offset: offset.and_then(|offset| u32::try_from(offset).ok()),
        })
    }
}

impl NamedQuery for TasksQuery {
    const KNOWN: evenkeel_domain::object::Members = known(&["unit", "slot", "node", "state", "history"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let slot = parameters.text("slot")?;
        if slot.as_deref().is_some_and(|slot| !is_slot(slot)) {
            return Err(parameters.broken("slot", "must be a positive number or a node"));
        }
        let state = parameters.text("state")?;
        if state.as_deref().is_some_and(|state| !TaskState::NAMES.contains(&state)) {
            let rule = format!("must be one of {}", TaskState::NAMES.join(", "));
            return Err(parameters.broken("state", &rule));
        }
        let (workload_unit, node) = (parameters.text("unit")?, parameters.text("node")?);
        Ok(Self { workload_unit, slot, node, state, history: parameters.boolean("history")? })
    }
}

fn is_slot(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    !is_number || text.parse::<u32>().is_ok_and(|number| number > 0)
}

/// Returns the organizations whose nodes a policy may concern.
pub(super) fn node_orgs(engine: &EngineHandle, org: &str, policy: &str) -> BTreeSet<String> {
    let model = engine.model();
    let facts = model.policy(&PolicyId::new(org, policy));
    let node_orgs = facts.into_iter().flat_map(|facts| &facts.node_orgs).map(ToString::to_string);
    node_orgs.chain([org.to_owned()]).collect()
}

/// Returns a node by its name in a request about a policy.
pub(super) fn node_of(org: &str, name: &str) -> NodeId {
    if name.contains('/') { NodeId::from_text(name) } else { NodeId::new(org, name) }
}

/// Returns the runtime status of a policy.
pub(super) async fn get_orchestration(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<StatusQuery>,
) -> Result<Json<WorkloadStatus>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let read = permission.into_proof();
    let policy = PolicyId::new(&org, &name);
    follow_recent_write(&context, &policy, read.policy.as_ref()).await;
    let window = Window {
        part: query.workload_unit.clone(),
        offset: query.offset.unwrap_or(0) as usize,
        limit: usize::from(query.limit.unwrap_or(INSTANCES)),
    };
    let now = context.now();
    let model = context.model();
    let status = status_of(&model, &policy, &window, now);
    let shape = Shape { policy: &policy, seen: &read.seen, now };
    // An agbot that has not read the policy yet does not take it for deleted.
    if let Some(removal) = removal_of(&model, &policy).filter(|_| read.policy.is_none()) {
        return Ok(Json(shape.removal(removal)));
    }
    let Some(status) = status else {
        let document = read.policy.and_then(|policy| policy.orchestration).unwrap_or_default();
        let document = Orchestration::of_policy(&policy, document).unwrap_or_default();
        let unserved = shape.unserved(&document);
        return Ok(Json(match unreadable(&context, &policy) {
            Some(warning) => WorkloadStatus { warnings: vec![warning], ..unserved },
            None => unserved,
        }));
    };
    match query.workload_unit {
        Some(name) if status.parts.is_empty() => Err(unknown_part(&policy, &name)),
        _ => {
            let mut shown = shape.status(&status);
            if let Some(stored) = &read.policy {
                shown.warnings.extend(unreadable(&context, &policy));
                let findings = review::deployment_policy(&policy, &json!(stored));
                shown.warnings.extend(findings.iter().map(ToString::to_string));
            }
            Ok(Json(shown))
        }
    }
}

/// Returns why the newest document of a policy has no effect, in words.
pub(super) fn unreadable(engine: &EngineHandle, policy: &PolicyId) -> Option<String> {
    let errors = engine.inert.errors_of(PolicyKind::Deployment, policy.as_str());
    (!errors.is_empty()).then(|| format!("the policy cannot be read: {}", errors.join("; ")))
}

/// Returns the refusal for a workload unit that the policy does not have.
pub(super) fn unknown_part(policy: &PolicyId, name: &str) -> Refusal {
    let message = format!("unit: the deployment policy {policy} has no unit '{name}'");
    Refusal::new(StatusCode::NOT_FOUND, message)
}

/// Lists the tasks of a policy.
pub(super) async fn list_tasks(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<TasksQuery>,
) -> Result<WholeList<TasksResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let seen = Arc::new(permission.into_proof().seen);
    let policy = PolicyId::new(&org, &name);
    let wanted = Arc::new(Wanted::of(&org, query));
    let load = move |after: Option<(UnitId, Slot)>| {
        std::future::ready(tasks_page(&context, &policy, &wanted, &seen, after))
    };
    WholeList::paged("{\"tasks\":[", "]}", load).await.map_err(|error: PageError| {
        tracing::warn!(error = &error as &dyn std::error::Error, "a list of tasks could not be written");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the list of tasks could not be written; ask again")
    })
}

/// The tasks that a query is about.
struct Wanted {
    part: Option<String>,
    slot: Option<Slot>,
    node: Option<NodeId>,
    state: Option<String>,
    has_history: bool,
}

impl Wanted {
    fn of(org: &str, query: TasksQuery) -> Self {
        let slot = query.slot.map(|slot| match slot.parse() {
            Ok(number) => Slot::Number(number),
            Err(_) => Slot::Node(node_of(org, &slot)),
        });
        Self {
            part: query.workload_unit,
            slot,
            node: query.node.map(|node| node_of(org, &node)),
            state: query.state,
            has_history: query.history.unwrap_or(false),
        }
    }

    fn names(&self, slot: &Slot, seen: &SeenNodes) -> bool {
        let is_seen = || match slot {
            Slot::Number(_) => true,
            Slot::Node(node) => seen.shows(node),
        };
        self.slot.as_ref().is_none_or(|one| one == slot && is_seen())
    }

    fn holds(&self, task: &Task, is_newest: bool, seen: &SeenNodes) -> bool {
        // A filter must not reveal where a task runs.
        let is_on = |node: &NodeId| task.bound_node() == Some(node) && seen.shows(node);
        (self.has_history || is_newest || !task.state.is_ended())
            && self.node.as_ref().is_none_or(is_on)
            && self.state.as_deref().is_none_or(|state| task.state.name() == state)
    }
}

fn tasks_page(
    engine: &EngineHandle,
    policy: &PolicyId,
    wanted: &Wanted,
    seen: &SeenNodes,
    after: Option<(UnitId, Slot)>,
) -> Result<Page<(UnitId, Slot)>, PageError> {
    let (model, now) = (engine.model(), engine.now());
    let shape = Shape { policy, seen, now };
    let record = model.workload(policy);
    let mut page = Page::new();
    let mut count = 0;
    let is_later = |id: &UnitId, slot: &Slot| after.as_ref().is_none_or(|(at, last)| (id, slot) > (at, last));
    for (id, unit) in model.workload_units_of(policy) {
        if wanted.part.as_deref().is_some_and(|name| name != id.name()) {
            continue;
        }
        let slots = unit.slots.iter().filter(|(slot, _)| is_later(id, slot));
        for (slot, tasks) in slots.filter(|(slot, _)| wanted.names(slot, seen)) {
            let shown = SlotTasks::iter(tasks).enumerate();
            for (_, task) in shown.filter(|(position, task)| wanted.holds(task, *position == 0, seen)) {
                let agreement = task.agreement.as_ref().and_then(|id| model.agreement(id));
                page.push(&shape.task(task, record, agreement))?;
                count += 1;
            }
            if count >= PAGE {
                page.follow(Some((id.clone(), slot.clone())));
                return Ok(page);
            }
        }
    }
    Ok(page)
}
