//! Effects that a change of a selection would have now, as far as the API knows it.

use std::collections::BTreeMap;

use evenkeel_client::NodeChange;
use evenkeel_ids::NodeId;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::fleet::{FleetNode, FleetNodesQuery};
use evenkeel_wire::exchange::node_orchestration::Availability;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::change::ChosenChange;
use super::selection::{AT_ONCE, Selection, id_of};
use crate::failure::Failure;
use crate::layout::bare_name;
use crate::plan_token::token_of;
use crate::reads;
use crate::session::Reader;

/// HA groups whose members are compared with the selection.
const MOST_GROUPS: usize = 50;

/// A node of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlannedNode {
    pub(super) name: String,
    /// Its state, in words.
    pub(super) now: String,
    /// True if it is changed: it is not so already.
    pub(super) is_changed: bool,
    pub(super) running: u32,
}

/// A deployment policy with instances on the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlannedPolicy {
    pub(super) name: String,
    /// Instances on the nodes.
    pub(super) here: u64,
    /// All its instances.
    pub(super) all: u64,
    /// Those that stop without a replacement.
    pub(super) stopped: u64,
}

/// The effects of a change of a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct SelectionPlan {
    pub(super) nodes: Vec<PlannedNode>,
    /// Instances that run on the nodes that are changed.
    pub(super) running: u32,
    pub(super) policies: Vec<PlannedPolicy>,
    /// HA groups of which every member is selected, each with the number of members.
    pub(super) whole_groups: Vec<(String, u64)>,
}

impl SelectionPlan {
    /// Plans a change.
    ///
    /// # Errors
    /// When the reader may not read the nodes, or too many are selected.
    pub(super) async fn of(
        reader: &Reader,
        org: &str,
        selection: &Selection,
        chosen: &ChosenChange,
    ) -> Result<Self, Failure> {
        let found = selection.nodes(reader, org, false).await?;
        let policies = match chosen.tag() {
            Some(_) => policies_of(reader, org, &found).await?,
            None => BTreeMap::new(),
        };
        let nodes: Vec<PlannedNode> =
            found.iter().map(|node| planned(node, chosen, policies.get(&node.node))).collect();
        let changed: Vec<&PlannedNode> = nodes.iter().filter(|node| node.is_changed).collect();
        let running = changed.iter().map(|node| node.running).sum();
        let names: Vec<String> = changed.iter().map(|node| node.name.clone()).collect();
        let (policies, whole_groups) =
            tokio::try_join!(stops(reader, org, chosen, names), whole_groups(reader, org, chosen, &found))?;
        Ok(Self { nodes, running, policies, whole_groups })
    }

    /// Returns a text that differs when the plan, the change or the selection does.
    pub(super) fn token(&self, selection: &Selection, chosen: &ChosenChange) -> String {
        token_of(&(self, selection, chosen.change.name, &chosen.typed))
    }

    /// Returns how many nodes are changed.
    pub(super) fn changed(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_changed).count()
    }

    /// Returns how many nodes are so already.
    pub(super) fn unchanged(&self) -> usize {
        self.nodes.len() - self.changed()
    }
}

fn planned(node: &FleetNode, chosen: &ChosenChange, policy: Option<&serde_json::Value>) -> PlannedNode {
    let frozen = if node.frozen { ", frozen" } else { "" };
    let state = format!("{}, {}{frozen}", node.state, node.availability);
    let (now, is_so) = match chosen.tag() {
        Some(tag) => {
            let policy = policy.cloned().unwrap_or_default();
            let properties = policy["properties"].as_array().into_iter().flatten();
            let mut found =
                properties.filter(|one| one["name"] == tag.name.as_str()).map(|one| &one["value"]);
            let value = found
                .next_back()
                .map_or_else(|| "no such property".to_owned(), |value| format!("{} = {value}", tag.name));
            (value, tag.is_in(&policy))
        }
        None => (state, chosen.is_so(node).unwrap_or(false)),
    };
    PlannedNode { name: node.node.clone(), now, is_changed: !is_so, running: node.running }
}

/// Returns the policies of nodes by the names of these; a node without one has none.
async fn policies_of(
    reader: &Reader,
    org: &str,
    nodes: &[FleetNode],
) -> Result<BTreeMap<String, serde_json::Value>, Failure> {
    let read = |node: NodeId| async move {
        let policy = reader.client.node_policy(&node).await?;
        Ok::<_, Failure>((node.name().to_owned(), policy.map(RawJson::into_value).unwrap_or_default()))
    };
    let reads: Vec<_> = nodes.iter().map(|node| id_of(org, node)).map(read).collect();
    stream::iter(reads).buffered(AT_ONCE).try_collect().await
}

/// Returns the policies with instances on the nodes, and what stops of them.
async fn stops(
    reader: &Reader,
    org: &str,
    chosen: &ChosenChange,
    nodes: Vec<String>,
) -> Result<Vec<PlannedPolicy>, Failure> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let Some(write) = chosen.of_node.write_to_plan(nodes) else { return Ok(Vec::new()) };
    let found = reader.client.plan_stops(org, &write).await?.unwrap_or_default();
    let policies = found.policies.into_iter().map(|one| PlannedPolicy {
        name: bare_name(org, one.policy.as_str()).to_owned(),
        here: one.selected.unwrap_or_default(),
        all: one.instances,
        stopped: one.stopped,
    });
    Ok(policies.collect())
}

/// Returns the HA groups of which every member is selected, for a drain: their last running instance stays.
async fn whole_groups(
    reader: &Reader,
    org: &str,
    chosen: &ChosenChange,
    nodes: &[FleetNode],
) -> Result<Vec<(String, u64)>, Failure> {
    if chosen.of_node != NodeChange::Availability(Availability::Drain) {
        return Ok(Vec::new());
    }
    let mut selected: BTreeMap<String, u64> = BTreeMap::new();
    for group in nodes.iter().filter_map(|node| node.group.clone()) {
        *selected.entry(group).or_default() += 1;
    }
    let read = |(group, count): (String, u64)| async move {
        let query = FleetNodesQuery {
            group: Some(group.clone()),
            limit: Some(1),
            count: Some(true),
            ..FleetNodesQuery::default()
        };
        let members = reads::nodes(reader, org, &query).await?.count.unwrap_or_default();
        Ok::<_, Failure>((group, members, count))
    };
    let reads: Vec<_> = selected.into_iter().take(MOST_GROUPS).map(read).collect();
    let found: Vec<(String, u64, u64)> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    let whole = found.into_iter().filter(|(_, members, count)| count >= members);
    Ok(whole.map(|(group, members, _)| (group, members)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::form::Form;

    fn chosen(text: &str) -> ChosenChange {
        ChosenChange::read(&Form::parse(text.as_bytes())).expect("a change")
    }

    fn node(name: &str, availability: &str) -> FleetNode {
        FleetNode {
            node: name.into(),
            state: "up".into(),
            availability: availability.into(),
            running: 2,
            ..FleetNode::default()
        }
    }

    #[test]
    fn nodes_that_are_so_already_are_not_changed() {
        let drain = chosen("action=drain");
        assert!(planned(&node("a", "active"), &drain, None).is_changed);
        assert!(!planned(&node("a", "drain"), &drain, None).is_changed);
        let tag = chosen("action=tag&name=site&value=north");
        let policy = json!({"properties": [{"name": "site", "value": "north"}]});
        let one = planned(&node("a", "active"), &tag, Some(&policy));
        assert_eq!((one.now.as_str(), one.is_changed), ("site = \"north\"", false));
        let one = planned(&node("a", "active"), &tag, None);
        assert_eq!((one.now.as_str(), one.is_changed), ("no such property", true));
    }

    #[test]
    fn token_changes_with_the_plan_the_change_and_the_selection() {
        let drain = chosen("action=drain");
        let plan = |availability: &str| SelectionPlan {
            nodes: vec![planned(&node("a", availability), &drain, None)],
            ..SelectionPlan::default()
        };
        let picked = Selection::Picked(vec!["a".into()]);
        let token = plan("active").token(&picked, &drain);
        assert_eq!(token, plan("active").token(&picked, &drain));
        assert_eq!((plan("active").changed(), plan("drain").unchanged()), (1, 1));
        for other in [
            plan("pause").token(&picked, &drain),
            plan("active").token(&Selection::Picked(vec!["b".into()]), &drain),
            plan("active").token(&picked, &chosen("action=freeze")),
            plan("active").token(&picked, &chosen("action=tag&name=a&value=b")),
        ] {
            assert_ne!(token, other);
        }
    }
}
