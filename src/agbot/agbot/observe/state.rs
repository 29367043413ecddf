//! Records the availability of nodes and the settings of organizations, no matter who set them.
//!
//! Source: orchestration B9, D5.

use std::collections::BTreeMap;

use evenkeel_agbot_store::event::{self, AVAILABILITY, SETTINGS, StateEvent};
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner_model::model::NodeCondition;
use evenkeel_planner_record::facts::Availability;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::AgbotError;
use crate::context::Context;

/// The availability of a node, as shown in events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct NodeAvailability {
    availability: Availability,
    /// True if a drain is forced.
    force: bool,
}

/// The recorded states. Nodes that are active are not listed.
#[derive(Debug, Default)]
pub(super) struct StateRecorder {
    availabilities: BTreeMap<NodeId, NodeAvailability>,
    settings: BTreeMap<OrgId, OrgSettings>,
}

impl StateRecorder {
    /// Reads what was recorded, by this agbot or another one.
    pub(super) async fn read(&mut self, context: &Context) -> Result<(), AgbotError> {
        let found =
            context.database.read(async |connection| event::list_availabilities(connection).await).await?;
        self.availabilities.clear();
        for (node, detail) in found {
            let recorded: NodeAvailability = serde_json::from_value(detail)?;
            if recorded != NodeAvailability::default() {
                self.availabilities.insert(node, recorded);
            }
        }
        Ok(())
    }

    pub(super) async fn record_availabilities(
        &mut self,
        context: &Context,
        conditions: &[NodeCondition],
    ) -> Result<(), AgbotError> {
        let usual = NodeAvailability::default();
        let changed: Vec<(&NodeCondition, NodeAvailability)> = conditions
            .iter()
            .map(|condition| (condition, availability(condition)))
            .filter(|(condition, next)| self.availabilities.get(&condition.node).unwrap_or(&usual) != next)
            .collect();
        let states = changed.iter().map(|(condition, next)| StateEvent {
            kind: AVAILABILITY,
            node: Some(condition.node.clone()),
            org: None,
            is_usual: *next == usual,
            detail: by(condition.spec_updated_by.as_deref(), context, json!(next)),
        });
        insert(context, &states.collect::<Vec<_>>()).await?;
        for (NodeCondition { node, .. }, next) in changed {
            if next == usual {
                self.availabilities.remove(node);
            } else {
                self.availabilities.insert(node.clone(), next);
            }
        }
        Ok(())
    }

    pub(super) async fn record_settings(&mut self, context: &Context) -> Result<(), AgbotError> {
        let changed: Vec<(OrgId, OrgSettings)> = {
            let model = context.model();
            let news = model.orgs_with_settings().filter(|(org, next)| self.settings.get(*org) != Some(next));
            news.map(|(org, next)| (org.clone(), next.clone())).collect()
        };
        let states = changed.iter().map(|(org, next)| {
            let settings = next.without_author().document();
            let is_usual = settings.as_object().is_none_or(serde_json::Map::is_empty);
            let detail = by(next.last_updated_by(), context, json!({"settings": settings}));
            StateEvent { kind: SETTINGS, node: None, org: Some(org.clone()), is_usual, detail }
        });
        insert(context, &states.collect::<Vec<_>>()).await?;
        self.settings.extend(changed);
        Ok(())
    }
}

/// Adds the user who made a setting to the detail, or this agbot if no user is known.
fn by(user: Option<&str>, context: &Context, mut detail: Value) -> Value {
    let actor = user.map_or_else(|| context.name(), str::to_owned);
    detail["text"] = format!("set by {actor}").into();
    detail["actor"] = actor.into();
    detail
}

fn availability(condition: &NodeCondition) -> NodeAvailability {
    NodeAvailability { availability: condition.availability, force: condition.is_drain_forced }
}

async fn insert(context: &Context, states: &[StateEvent]) -> Result<(), AgbotError> {
    if !states.is_empty() {
        let now = context.now();
        context.database.read(async |connection| event::insert_states(connection, states, now).await).await?;
    }
    Ok(())
}
