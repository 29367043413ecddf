//! Records what nodes and organizations are set to, whoever set it.
//!
//! Source: orchestration B9, D5, I.

use std::collections::BTreeMap;

use evenkeel_agbot_store::event::{self, AVAILABILITY, SETTINGS, StateEvent};
use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner::model::NodeCondition;
use serde_json::{Value, json};

use crate::AgbotError;
use crate::context::Context;

/// The recorded states. Nodes that are active are not listed.
#[derive(Debug, Default)]
pub(super) struct StateRecorder {
    availabilities: BTreeMap<NodeId, Value>,
    settings: BTreeMap<OrgId, Value>,
}

impl StateRecorder {
    /// Reads what was recorded, by this agbot or another one.
    pub(super) async fn read(&mut self, context: &Context) -> Result<(), AgbotError> {
        let found =
            context.database.read(async |connection| event::list_availabilities(connection).await).await?;
        let usual = usual();
        self.availabilities = found.into_iter().filter(|(_, detail)| *detail != usual).collect();
        Ok(())
    }

    pub(super) async fn record_availabilities(
        &mut self,
        context: &Context,
        conditions: &[NodeCondition],
    ) -> Result<(), AgbotError> {
        let usual = usual();
        let mut states = Vec::new();
        for condition in conditions {
            let detail = availability(condition);
            let is_usual = detail == usual;
            let known = self.availabilities.get(&condition.node);
            if known.unwrap_or(&usual) != &detail {
                let node = Some(condition.node.clone());
                states.push(StateEvent { kind: AVAILABILITY, node, org: None, is_usual, detail });
            }
        }
        insert(context, &states).await?;
        for state in states {
            let Some(node) = state.node else { continue };
            if state.is_usual {
                self.availabilities.remove(&node);
            } else {
                self.availabilities.insert(node, state.detail);
            }
        }
        Ok(())
    }

    pub(super) async fn record_settings(&mut self, context: &Context) -> Result<(), AgbotError> {
        let changed: Vec<(OrgId, Value)> = {
            let model = context.model();
            let all = model.orgs_with_settings().map(|(org, settings)| (org.clone(), settings.document()));
            all.filter(|(org, settings)| self.settings.get(org) != Some(settings)).collect()
        };
        let states = changed.iter().map(|(org, settings)| StateEvent {
            kind: SETTINGS,
            node: None,
            org: Some(org.clone()),
            is_usual: settings.as_object().is_none_or(serde_json::Map::is_empty),
            detail: json!({"settings": settings}),
        });
        insert(context, &states.collect::<Vec<_>>()).await?;
        self.settings.extend(changed);
        Ok(())
    }
}

/// What is recorded of a node that is active.
fn usual() -> Value {
    json!({"availability": "active", "force": false})
}

fn availability(condition: &NodeCondition) -> Value {
    json!({"availability": condition.availability, "force": condition.is_drain_forced})
}

async fn insert(context: &Context, states: &[StateEvent]) -> Result<(), AgbotError> {
    if !states.is_empty() {
        let now = context.now();
        context.database.read(async |connection| event::insert_states(connection, states, now).await).await?;
    }
    Ok(())
}
