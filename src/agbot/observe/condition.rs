//! Records when nodes go down, come back, and are drained or frozen.
//!
//! Several agbots and restarts must not record one change twice: a change is inserted only if the newest event of the node
//! differs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::event::{self, NodeEvent};
use evenkeel_ids::NodeId;
use evenkeel_planner::model::NodeCondition;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::StoreError;
use serde_json::json;

use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(5);
/// Nodes visited at once, so that decisions need not wait for a pass over the whole fleet.
const PAGE: usize = 2_000;
/// Number of rounds between two reads of the events recorded by other agbots.
const ROUNDS: u32 = 12;

const DOWN: (&str, &str) = ("node.down", "node.back");
const DRAINED: (&str, &str) = ("node.drained", "node.active");
const FROZEN: (&str, &str) = ("node.frozen", "node.thawed");

/// The recorded condition of a node: down, drained, frozen. Nodes that are none of them are not listed.
type Recorded = BTreeMap<NodeId, (bool, bool, bool)>;

/// Records the changes of node conditions.
pub(crate) struct ConditionRecorder {
    context: Arc<Context>,
    recorded: Recorded,
    round: u32,
}

impl ConditionRecorder {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, recorded: Recorded::new(), round: 0 }
    }
}

impl Worker for ConditionRecorder {
    type Error = StoreError;
    const NAME: &'static str = "node_conditions";

    async fn pass(&mut self) -> Result<(), StoreError> {
        if !self.context.is_loaded() {
            return Ok(());
        }
        if self.round == 0 {
            self.recorded = read(&self.context).await?;
        }
        self.round = (self.round + 1) % ROUNDS;
        record_changes(&self.context, &mut self.recorded).await
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
        context.database.read(async |connection| event::list_node_conditions(connection).await).await?;
    let mut recorded = Recorded::new();
    for (node, kind) in conditions {
        let entry = recorded.entry(node).or_default();
        entry.0 |= kind == DOWN.0;
        entry.1 |= kind == DRAINED.0;
        entry.2 |= kind == FROZEN.0;
    }
    recorded.retain(|_, condition| *condition != (false, false, false));
    Ok(recorded)
}

async fn record_changes(context: &Context, recorded: &mut Recorded) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let now = context.now();
        let (conditions, last) = context.model().node_conditions(after.as_ref(), PAGE, now);
        let changes: Vec<NodeEvent> =
            conditions.iter().flat_map(|condition| changes(condition, recorded)).collect();
        if !changes.is_empty() {
            context
                .database
                .read(async |connection| event::insert_node_events(connection, &changes, now).await)
                .await?;
        }
        for condition in conditions {
            let is_down = condition.down_since.is_some();
            match (is_down, condition.is_drained, condition.is_frozen) {
                (false, false, false) => recorded.remove(&condition.node),
                found => recorded.insert(condition.node, found),
            };
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

fn changes(condition: &NodeCondition, recorded: &Recorded) -> Vec<NodeEvent> {
    let (was_down, was_drained, was_frozen) = recorded.get(&condition.node).copied().unwrap_or_default();
    let event = |(begin, end): (&'static str, &'static str), has_begun: bool, detail| NodeEvent {
        node: condition.node.clone(),
        kind: if has_begun { begin } else { end },
        opposite: if has_begun { end } else { begin },
        is_end: !has_begun,
        detail,
    };
    let mut events = Vec::new();
    let is_down = condition.down_since.is_some();
    if is_down != was_down {
        let detail = condition.down_since.map_or(json!({}), |at| json!({"lastHeartbeat": at}));
        events.push(event(DOWN, is_down, detail));
    }
    if condition.is_drained != was_drained {
        events.push(event(DRAINED, condition.is_drained, json!({})));
    }
    if condition.is_frozen != was_frozen {
        events.push(event(FROZEN, condition.is_frozen, json!({})));
    }
    events
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn only_changes_of_the_condition_are_events() {
        let node = NodeId::new("o", "n");
        let kinds = |down: bool, is_drained: bool, recorded: &Recorded| {
            let down_since = down.then_some(Timestamp::UNIX_EPOCH);
            let condition =
                NodeCondition { node: NodeId::new("o", "n"), down_since, is_drained, is_frozen: false };
            changes(&condition, recorded).into_iter().map(|event| event.kind).collect::<Vec<_>>()
        };
        let normal = Recorded::new();
        assert!(kinds(false, false, &normal).is_empty());
        assert_eq!(kinds(true, true, &normal), ["node.down", "node.drained"]);
        let both = Recorded::from([(node.clone(), (true, true, false))]);
        assert!(kinds(true, true, &both).is_empty());
        assert_eq!(kinds(false, true, &both), ["node.back"]);
        assert_eq!(kinds(true, false, &both), ["node.active"]);
        let frozen = Recorded::from([(node, (false, false, true))]);
        assert_eq!(kinds(false, false, &frozen), ["node.thawed"]);
    }
}
