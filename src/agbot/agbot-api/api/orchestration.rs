//! Runtime status and tasks of deployment policies, for accounts that may read the policy.
//!
//! Source: orchestration 1.5, A9; engine 5 (users query the agbot).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use axum::Json;
use evenkeel_agbot::{EngineHandle, PolicyKind};
use evenkeel_api::{ListShape, MAX_ID, Page, PageError, Refusal, WholeList};
use evenkeel_domain::orchestration::{MembersError, Orchestration};
use evenkeel_domain::review;
use evenkeel_explain::explain::status_of;
use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::workload::{Part, Slot, SlotTasks, Task, TaskState};
use evenkeel_status::status::{Window, removal_of};
use evenkeel_wire::agbot::orchestration::{StatusQuery, TasksQuery, TasksResponse, WorkloadStatus};
use http::StatusCode;
use serde_json::json;

use super::freshness::follow_recent_write;
use super::list_page;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::PolicyPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::SeenNodes;
use crate::shown::workload_shape::Shape;

/// Instances of a workload unit that are listed if the caller names no number.
const INSTANCES: u16 = 500;
const MOST_INSTANCES: i64 = 1000;
/// Tasks of one page of the list.
const PAGE: usize = 500;
/// The list of tasks around its elements.
const OPEN: &str = "{\"tasks\":[";
const CLOSE: &str = "]}";

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
    const KNOWN: evenkeel_domain::object::Members =
        known(&["unit", "slot", "node", "state", "history", "after", "limit", "filter", "count"]);

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
        Ok(Self {
            workload_unit,
            slot,
            node,
            state,
            history: parameters.boolean("history")?,
            // A group, a node, a task and a number.
            after: parameters.text_of("after", 4 * MAX_ID)?,
            limit: list_page::limit(parameters)?,
            filter: list_page::filter(parameters)?,
            count: parameters.boolean("count")?,
        })
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
    let Op { request: AgbotRequest { context, kept, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let read = permission.into_proof();
    let policy = PolicyId::new(&org, &name);
    follow_recent_write(&context, &policy, read.policy.as_ref()).await;
    let window = Window {
        part: query.workload_unit.clone(),
        offset: query.offset.unwrap_or(0) as usize,
        limit: usize::from(query.limit.unwrap_or(INSTANCES)),
    };
    let now = context.now();
    let shape = Shape { policy: &policy, seen: &read.seen, now };
    // An agbot that has not read the policy yet does not take it for deleted.
    if let Some(removal) = removal_of(&context.model(), &policy).filter(|_| read.policy.is_none()) {
        return Ok(Json(shape.removal(removal)));
    }
    let make = || {
        let status = status_of(&context.model(), &policy, &window, now).ok_or(())?;
        Ok::<_, ()>((shape.status(&status), status.parts.is_empty()))
    };
    let Ok((mut shown, has_no_part)) = kept.status.get(&read.seen, format!("{policy} {query:?}"), make)
    else {
        let document = read.policy.and_then(|policy| policy.orchestration).unwrap_or_default();
        let document = Orchestration::of_policy(&policy, document).unwrap_or_default();
        let unserved = shape.unserved(&document);
        return Ok(Json(match unreadable(&context, &policy) {
            Some(warning) => WorkloadStatus { warnings: vec![warning], ..unserved },
            None => unserved,
        }));
    };
    match query.workload_unit {
        Some(name) if has_no_part => Err(unknown_part(&policy, &name)),
        _ => {
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
    let seen = permission.into_proof().seen;
    let policy = PolicyId::new(&org, &name);
    let from =
        query.after.as_deref().map(|after| place_of(&context.model(), &policy, &seen, after)).transpose()?;
    let selection = list_page::selection(query.limit, query.filter.as_deref(), query.count)?;
    let wanted = Wanted::of(&org, query);
    let list = match selection {
        None => {
            let load = move |after: Option<Place>| {
                let after = after.or_else(|| from.clone());
                std::future::ready(tasks_page(&context, (&policy, &wanted, &seen), after.as_ref(), PAGE))
            };
            WholeList::paged(OPEN, CLOSE, load).await
        }
        Some(selection) => {
            let shape = ListShape { open: OPEN, close: CLOSE, key: "", rows: PAGE as i64 };
            let load = |after: Option<Place>, rows: i64| {
                let most = usize::try_from(rows).unwrap_or(PAGE);
                std::future::ready(tasks_page(&context, (&policy, &wanted, &seen), after.as_ref(), most))
            };
            let count =
                |most: i64| std::future::ready(Ok(count_tasks(&context, (&policy, &wanted, &seen), most)));
            WholeList::selected(shape, selection, from, load, count).await
        }
    };
    list.map_err(|error: PageError| {
        tracing::warn!(error = &error as &dyn std::error::Error, "a list of tasks could not be written");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the list of tasks could not be written; ask again")
    })
}

/// Position of a task in the list: tasks of a slot come newest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    part: Part,
    slot: Slot,
    task: Reverse<(u64, TaskId)>,
}

impl Place {
    fn of(task: &Task) -> Self {
        let (part, slot) = (task.unit_id.part.clone(), task.slot.clone());
        Self { part, slot, task: Reverse((task.generation, task.id.clone())) }
    }

    /// The text by which the next page is asked for. It names no node that the caller may not read.
    fn text(&self, seen: &SeenNodes) -> String {
        let Self { part, slot, task: Reverse((generation, id)) } = self;
        let part = match part {
            Part::All => "all".to_owned(),
            Part::Group(group) => group.to_string(),
        };
        match slot {
            Slot::Node(node) if !seen.shows(node) => id.to_string(),
            _ => format!("{generation} {id} {slot} {part}"),
        }
    }

    /// Reads a whole position.
    fn of_text(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let (generation, id) = (words.next()?.parse().ok()?, TaskId::from_text(words.next()?));
        let slot = match words.next()? {
            node if node.contains('/') => Slot::Node(NodeId::from_text(node)),
            number => Slot::Number(number.parse().ok()?),
        };
        let part = match words.next()? {
            "all" => Part::All,
            group if group.contains('/') => Part::Group(GroupId::from_text(group)),
            _ => return None,
        };
        Some(Self { part, slot, task: Reverse((generation, id)) })
    }
}

/// Reads the position at which the page before ends; that of a task whose node is not shown is known only as long as there is the task.
fn place_of(model: &Model, policy: &PolicyId, seen: &SeenNodes, text: &str) -> Result<Place, Refusal> {
    if text.contains(' ') {
        // Otherwise the tasks behind a name that was guessed would show whether it is that of a hidden node.
        let is_shown = |place: &Place| match &place.slot {
            Slot::Node(node) => seen.shows(node),
            Slot::Number(_) => true,
        };
        return Place::of_text(text).filter(is_shown).ok_or_else(list_page::of_other_list);
    }
    let all = model.workload_units_of(policy);
    let mut tasks = all.flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter));
    let found = tasks.find(|task| task.id.as_str() == text).map(Place::of);
    found.ok_or_else(|| {
        let rule = "after: the task at which the page ended no longer exists; begin with the first page";
        Refusal::invalid_input(rule)
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

/// The tasks that a query is about, and what of them is shown.
type WantedTasks<'a> = (&'a PolicyId, &'a Wanted, &'a SeenNodes);

/// Calls a function with each task in the order of the list, until it returns false.
fn each_task(
    model: &Model,
    (policy, wanted, seen): WantedTasks<'_>,
    after: Option<&Place>,
    mut visit: impl FnMut(&Task) -> Result<bool, PageError>,
) -> Result<(), PageError> {
    let from = after.map(|after| (&after.part, &after.slot));
    for (id, unit) in model.workload_units_of(policy) {
        if wanted.part.as_deref().is_some_and(|name| name != id.name()) {
            continue;
        }
        let slots = unit.slots.iter().filter(|(slot, _)| from.is_none_or(|from| (&id.part, *slot) >= from));
        for (_, tasks) in slots.filter(|(slot, _)| wanted.names(slot, seen)) {
            let shown = SlotTasks::iter(tasks).enumerate();
            let shown = shown.filter(|(position, task)| wanted.holds(task, *position == 0, seen));
            for (_, task) in shown.filter(|(_, task)| after.is_none_or(|after| Place::of(task) > *after)) {
                if !visit(task)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn tasks_page(
    engine: &EngineHandle,
    wanted: WantedTasks<'_>,
    after: Option<&Place>,
    most: usize,
) -> Result<Page<Place>, PageError> {
    let (model, now) = (engine.model(), engine.now());
    let (policy, _, seen) = wanted;
    let shape = Shape { policy, seen, now };
    let record = model.workload(policy);
    let mut page = Page::new();
    let mut count = 0;
    each_task(&model, wanted, after, |task| {
        let agreement = task.agreement.as_ref().and_then(|id| model.agreement(id));
        page.push(&shape.task(task, record, agreement))?;
        let place = Place::of(task);
        page.set_key(place.text(seen));
        count += 1;
        if count == most {
            page.follow(Some(place));
        }
        Ok(count < most)
    })?;
    Ok(page)
}

fn count_tasks(engine: &EngineHandle, wanted: WantedTasks<'_>, most: i64) -> i64 {
    let mut count = 0;
    // Nothing is written that could fail.
    let _counted = each_task(&engine.model(), wanted, None, |_| {
        count += 1;
        Ok(count < most)
    });
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_a_task_is_read_back_and_that_of_another_list_is_refused() {
        let place = |part, slot, generation| Place {
            part,
            slot,
            task: Reverse((generation, TaskId::from_text("t-1"))),
        };
        let group = Part::Group(GroupId::new("o", "gate"));
        let positions = [
            place(Part::All, Slot::Number(3), 7),
            place(Part::All, Slot::Number(3), 6),
            place(Part::All, Slot::Node(NodeId::new("o", "n")), 1),
            place(group, Slot::Number(1), 1),
        ];
        assert!(positions.is_sorted());
        for position in &positions {
            assert_eq!(Place::of_text(&position.text(&SeenNodes::All)).as_ref(), Some(position));
        }
        let hidden = SeenNodes::Only(BTreeSet::new());
        assert_eq!(positions[2].text(&hidden), "t-1");
        assert_eq!(positions[0].text(&hidden), positions[0].text(&SeenNodes::All));
        for text in ["edge-1", "o/n o/p", "x t 1 all", "1 t 0x1 all", "1 t 1 gate", ""] {
            assert!(Place::of_text(text).is_none(), "{text}");
        }
    }
}
