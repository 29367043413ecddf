//! Records when nodes go down, are away, come back, and are drained or frozen.
//!
//! Several agbots and restarts must not record one change twice: a change is recorded only if the recorded condition differs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::node_condition::{self, ConditionChange};
use evenkeel_health::{node_reports, org_reports};
use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner_model::model::{Absence, CapacitySums, IdentityConflict, NodeCondition};
use evenkeel_planner_record::facts::AgentName;
use evenkeel_planner_record::health::Entity;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::StoreError;
use serde_json::json;

use super::state::StateRecorder;
use crate::AgbotError;
use crate::context::Context;
use crate::health::report_if_leased;

const PERIOD: Duration = Duration::from_secs(5);
/// Nodes visited at once, so that decisions need not wait for a pass over the whole fleet.
const PAGE: usize = 2_000;
/// Number of rounds between two reads of the events recorded by other agbots.
const ROUNDS: u32 = 12;

/// A condition, with the kinds of the events of its beginning and its end.
struct Condition {
    name: &'static str,
    begin: &'static str,
    /// None for one that ends together with another one.
    end: Option<&'static str>,
}

const DOWN: Condition = Condition { name: "down", begin: "node.down", end: Some("node.up") };
const DRAINED: Condition = Condition { name: "drained", begin: "node.drained", end: Some("node.active") };
const FROZEN: Condition = Condition { name: "frozen", begin: "node.frozen", end: Some("node.thawed") };
const AWAY: Condition = Condition { name: "away", begin: "node.maintenance", end: Some("node.rejoin") };
/// It ends with the absence.
const OVERDUE: Condition = Condition { name: "overdue", begin: "node.maintenance-expired", end: None };
/// Two agents have the identity of a node.
const CONFLICT: Condition =
    Condition { name: "conflict", begin: "node.identity-conflict", end: Some("node.identity-resolved") };
const CONDITIONS: [Condition; 6] = [DOWN, DRAINED, FROZEN, AWAY, OVERDUE, CONFLICT];

/// The recorded condition of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    is_down: bool,
    is_drained: bool,
    is_frozen: bool,
    is_away: bool,
    is_expired: bool,
    has_conflict: bool,
}

impl Known {
    fn of(condition: &NodeCondition) -> Self {
        Self {
            is_down: condition.down_since.is_some(),
            is_drained: condition.is_drained,
            is_frozen: condition.is_frozen,
            is_away: condition.absence.is_some(),
            is_expired: condition.absence.is_some_and(|absence| absence.is_expired),
            has_conflict: condition.conflict.is_some(),
        }
    }
}

/// The recorded conditions. Nodes with nothing unusual are not listed.
type Recorded = BTreeMap<NodeId, Known>;

/// Records the changes of node conditions and of the settings of organizations.
pub(crate) struct ConditionRecorder {
    context: Arc<Context>,
    recorded: Recorded,
    states: StateRecorder,
    round: u32,
}

impl ConditionRecorder {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, recorded: Recorded::new(), states: StateRecorder::default(), round: 0 }
    }
}

impl Worker for ConditionRecorder {
    type Error = AgbotError;
    const NAME: &'static str = "node_conditions";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        if !self.context.reading.is_loaded() {
            return Ok(());
        }
        if self.round == 0 {
            self.recorded = read(&self.context).await?;
            end_those_of_removed_nodes(&self.context, &mut self.recorded).await?;
            self.states.read(&self.context).await?;
        }
        self.round = (self.round + 1) % ROUNDS;
        record_changes(&self.context, &mut self.recorded, &mut self.states).await?;
        self.states.record_settings(&self.context).await?;
        report_orgs(&self.context).await
    }

    fn pause(&self) -> Duration {
        PERIOD
    }

    fn first_pause(&self) -> Duration {
        PERIOD
    }
}

async fn read(context: &Context) -> Result<Recorded, StoreError> {
    let conditions =
        context.database.read(async |connection| node_condition::list_conditions(connection).await).await?;
    let mut recorded = Recorded::new();
    for (node, name) in conditions {
        let entry = recorded.entry(node).or_default();
        entry.is_down |= name == DOWN.name;
        entry.is_drained |= name == DRAINED.name;
        entry.is_frozen |= name == FROZEN.name;
        entry.is_away |= name == AWAY.name || name == OVERDUE.name;
        entry.is_expired |= name == OVERDUE.name;
        entry.has_conflict |= name == CONFLICT.name;
    }
    Ok(recorded)
}

/// Ends the conditions of nodes that no longer exist. Their removal was an event of the exchange.
async fn end_those_of_removed_nodes(context: &Context, recorded: &mut Recorded) -> Result<(), StoreError> {
    let removed: Vec<NodeId> = {
        let model = context.model();
        let is_removed = |node: &&NodeId| model.node(node).is_none() && model.lease_for(node).is_some();
        recorded.keys().filter(is_removed).cloned().collect()
    };
    if removed.is_empty() {
        return Ok(());
    }
    let end = |node: &NodeId, condition: Condition| ConditionChange {
        node: node.clone(),
        condition: condition.name,
        is_end: true,
        kind: None,
        detail: json!({}),
    };
    let ends: Vec<ConditionChange> =
        removed.iter().flat_map(|node| CONDITIONS.map(|condition| end(node, condition))).collect();
    let now = context.now();
    context
        .database
        .read(async |connection| node_condition::upsert_changes(connection, &ends, now).await)
        .await?;
    for node in removed {
        recorded.remove(&node);
    }
    Ok(())
}

async fn record_changes(
    context: &Context,
    recorded: &mut Recorded,
    states: &mut StateRecorder,
) -> Result<(), AgbotError> {
    let mut after = None;
    loop {
        let now = context.now();
        let (conditions, last) = context.model().node_conditions(after.as_ref(), PAGE, now);
        let agbot = context.name();
        let changes: Vec<ConditionChange> =
            conditions.iter().flat_map(|condition| changes(condition, recorded, &agbot)).collect();
        if !changes.is_empty() {
            context
                .database
                .read(async |connection| node_condition::upsert_changes(connection, &changes, now).await)
                .await?;
        }
        states.record_availabilities(context, &conditions).await?;
        report(context, &conditions).await?;
        for condition in conditions {
            let known = Known::of(&condition);
            if known == Known::default() {
                recorded.remove(&condition.node);
            } else {
                recorded.insert(condition.node, known);
            }
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// Reports conditions of nodes, and the end of conditions.
///
/// # Source
/// Orchestration D2.
async fn report(context: &Context, conditions: &[NodeCondition]) -> Result<(), AgbotError> {
    for condition in conditions {
        let (lease, reports, ttl_secs) = {
            let model = context.model();
            let Some((lease, reports)) = node_reports(&model, condition) else { continue };
            (lease, reports, model.system_report_ttl_secs(condition.node.org()))
        };
        report_if_leased(context, lease, &Entity::Node(condition.node.clone()), &reports, ttl_secs).await?;
    }
    Ok(())
}

/// Reports whether the nodes of organizations have too little for what runs on them.
///
/// # Source
/// Orchestration D2.
async fn report_orgs(context: &Context) -> Result<(), AgbotError> {
    let (mut sums, mut after) = (CapacitySums::default(), None);
    loop {
        after = context.model().add_capacities(after.as_ref(), PAGE, context.now(), &mut sums);
        if after.is_none() {
            break;
        }
    }
    let orgs: Vec<OrgId> = context.model().orgs_with_settings().map(|(org, _)| org.clone()).collect();
    for org in orgs {
        let (lease, reports, ttl_secs) = {
            let model = context.model();
            let Some((lease, reports)) = org_reports(&model, &org, &sums) else { continue };
            (lease, reports, model.system_report_ttl_secs(org.as_str()))
        };
        report_if_leased(context, lease, &Entity::Org(org), &reports, ttl_secs).await?;
    }
    Ok(())
}

/// Returns what has changed, with who changed it: the agent, a user, or the agbot that found it.
fn changes(condition: &NodeCondition, recorded: &Recorded, agbot: &str) -> Vec<ConditionChange> {
    let (was, is) = (recorded.get(&condition.node).copied().unwrap_or_default(), Known::of(condition));
    let change = |of: Condition, has_begun: bool, detail| ConditionChange {
        node: condition.node.clone(),
        condition: of.name,
        is_end: !has_begun,
        kind: if has_begun { Some(of.begin) } else { of.end },
        detail,
    };
    let node = condition.node.as_str();
    let user = condition.spec_updated_by.as_deref().unwrap_or(agbot);
    let mut found = Vec::new();
    if is.is_away != was.is_away {
        let detail = condition.absence.map_or(
            json!({"actor": node, "text": "its agent works again"}),
            |Absence { monitor_state, since, .. }| {
                let text = format!("its agent announced {}", monitor_state.word());
                json!({"actor": node, "monitorState": monitor_state.word(), "since": since, "text": text})
            },
        );
        found.push(change(AWAY, is.is_away, detail));
    }
    if is.is_expired != was.is_expired {
        let text = "its grace period passed without a heartbeat";
        found.push(change(OVERDUE, is.is_expired, json!({"actor": agbot, "text": text})));
    }
    if is.is_down != was.is_down {
        let detail = condition.down_since.map_or(
            json!({"actor": node, "text": "it sends heartbeats again"}),
            |at| json!({"actor": agbot, "lastHeartbeat": at, "text": format!("no heartbeat since {at}")}),
        );
        found.push(change(DOWN, is.is_down, detail));
    }
    if is.is_drained != was.is_drained {
        let detail = if is.is_drained {
            json!({"actor": agbot, "text": "it is drained: no instance is left on it"})
        } else {
            json!({"actor": user, "text": "it is no longer drained"})
        };
        found.push(change(DRAINED, is.is_drained, detail));
    }
    if is.is_frozen != was.is_frozen {
        let word = if is.is_frozen { "frozen" } else { "thawed" };
        let detail = json!({"actor": user, "text": format!("{word} by {user}")});
        found.push(change(FROZEN, is.is_frozen, detail));
    }
    if is.has_conflict != was.has_conflict {
        let detail = condition.conflict.as_ref().map_or(
            json!({"actor": agbot, "text": "one agent reports for the node"}),
            |conflict| {
                let IdentityConflict { current, refused } = conflict;
                let shown = |name: &AgentName| json!({"boot": name.boot, "journal": name.journal});
                let text = conflict.to_string();
                json!({"actor": agbot, "current": shown(current), "refused": shown(refused), "text": text})
            },
        );
        found.push(change(CONFLICT, is.has_conflict, detail));
    }
    found
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_record::facts::{Availability, NodeMonitorState};
    use jiff::Timestamp;

    use super::*;

    fn condition(down: bool, is_drained: bool) -> NodeCondition {
        let down_since = down.then_some(Timestamp::UNIX_EPOCH);
        NodeCondition {
            node: NodeId::new("o", "n"),
            down_since,
            absence: None,
            availability: Availability::default(),
            is_drain_forced: false,
            is_drained,
            is_frozen: false,
            spec_updated_by: None,
            conflict: None,
        }
    }

    fn kinds(condition: &NodeCondition, known: Known) -> Vec<&'static str> {
        let recorded = Recorded::from([(condition.node.clone(), known)]);
        changes(condition, &recorded, "IBM/agbot").into_iter().filter_map(|change| change.kind).collect()
    }

    #[test]
    fn only_changes_of_the_condition_are_events() {
        let normal = Known::default();
        assert!(kinds(&condition(false, false), normal).is_empty());
        assert_eq!(kinds(&condition(true, true), normal), ["node.down", "node.drained"]);
        let both = Known { is_down: true, is_drained: true, ..normal };
        assert!(kinds(&condition(true, true), both).is_empty());
        assert_eq!(kinds(&condition(false, true), both), ["node.up"]);
        assert_eq!(kinds(&condition(true, false), both), ["node.active"]);
        let frozen = Known { is_frozen: true, ..normal };
        assert_eq!(kinds(&condition(false, false), frozen), ["node.thawed"]);
    }

    #[test]
    fn two_agents_of_a_node_are_one_event_until_one_is_left() {
        let name = |id: &str| AgentName { boot: format!("b-{id}").into(), journal: format!("j-{id}").into() };
        let conflict = IdentityConflict { current: name("new"), refused: name("old") };
        let found = NodeCondition { conflict: Some(conflict), ..condition(false, false) };
        let events = changes(&found, &Recorded::new(), "IBM/agbot");
        assert_eq!(events.len(), 1);
        let text = events[0].detail["text"].as_str().unwrap_or_default();
        assert!(text.contains("b-new") && text.contains("j-old"), "{text}");
        let known = Known { has_conflict: true, ..Known::default() };
        assert!(kinds(&found, known).is_empty());
        assert_eq!(kinds(&condition(false, false), known), ["node.identity-resolved"]);
    }

    #[test]
    fn changes_name_who_made_them() {
        let found =
            NodeCondition { is_frozen: true, spec_updated_by: Some("o/ann".into()), ..condition(true, true) };
        let actors = |condition: &NodeCondition| -> Vec<serde_json::Value> {
            let events = changes(condition, &Recorded::new(), "IBM/agbot");
            events.into_iter().map(|event| event.detail["actor"].clone()).collect()
        };
        assert_eq!(actors(&found), ["IBM/agbot", "IBM/agbot", "o/ann"]);
        assert_eq!(actors(&NodeCondition { spec_updated_by: None, ..found }), ["IBM/agbot"; 3]);
    }

    /// A10-S2.
    #[test]
    fn absence_begins_expires_and_ends_with_an_event_each() {
        let since = Timestamp::UNIX_EPOCH;
        let of = |is_expired| NodeCondition {
            absence: Some(Absence { monitor_state: NodeMonitorState::Maintenance, since, is_expired }),
            ..condition(is_expired, false)
        };
        let (normal, away) = (Known::default(), Known::of(&of(false)));
        assert_eq!(kinds(&of(false), normal), ["node.maintenance"]);
        assert!(kinds(&of(false), away).is_empty());
        assert_eq!(kinds(&of(true), away), ["node.maintenance-expired", "node.down"]);
        assert_eq!(kinds(&condition(false, false), Known::of(&of(true))), ["node.rejoin", "node.up"]);
        assert_eq!(kinds(&condition(false, false), away), ["node.rejoin"]);
    }
}
