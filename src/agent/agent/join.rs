//! Reconciles the hub's record of this node with the machine, and reads the facts that the hub has about it
//! (agreement protocol 5.1, 5.2). Runs at the start and whenever the record changes.

use evenkeel_client::ClientError;
use evenkeel_domain::policy::reference_json::from_value;
use evenkeel_domain::policy::{NodePolicy, PropertyList};
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::node::{AgentState, NodeResponse, PatchNode, RegisteredService};
use evenkeel_wire::exchange::node_task::TASKS_SOFTWARE;
use serde_json::{Value, json};

use crate::{
    hub::Hub,
    machine::Machine,
    offered::offered,
    step::{NodeFacts, merge_builtin},
};

/// The wanted record of the node.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Version of the agent's software.
    pub software_version: &'a str,
    /// Pattern requested at registration, or empty.
    pub pattern: &'a str,
}

/// Updates and reads the record.
///
/// # Errors
/// [`ClientError`] of the first call that fails; 401 means that the hub does not know the node or its token.
pub async fn join(hub: &Hub, wanted: &Wanted<'_>) -> Result<NodeFacts, ClientError> {
    let node = hub.exchange.node(&hub.node).await?.ok_or_else(|| ClientError::Status {
        status: 401,
        code: "not-found".to_owned(),
        msg: "the node does not exist".to_owned(),
        retry_after: None,
    })?;
    let policy = join_policy(hub, wanted).await?;
    if node.arch != wanted.machine.arch {
        let arch = Some(wanted.machine.arch.to_owned());
        patch(hub, PatchNode { arch, ..PatchNode::default() }).await?;
    }
    if node.agent_state == Some(AgentState::Stopped) {
        patch(hub, PatchNode { agent_state: Some(AgentState::Running), ..PatchNode::default() }).await?;
    }
    let mut versions = node.software_versions()?;
    let own = [("horizon", wanted.software_version), TASKS_SOFTWARE];
    if own.iter().any(|(name, version)| versions.get(*name).map(String::as_str) != Some(*version)) {
        versions.extend(own.map(|(name, version)| (name.to_owned(), version.to_owned())));
        let versions = versions.into_iter().map(|(name, version)| (name, Value::from(version))).collect();
        patch(hub, PatchNode { software_versions: Some(versions), ..PatchNode::default() }).await?;
    }
    let mut pattern = node.pattern.clone();
    if pattern.is_empty() && !wanted.pattern.is_empty() {
        pattern = wanted.pattern.to_owned();
        patch(hub, PatchNode { pattern: Some(pattern.clone()), ..PatchNode::default() }).await?;
    }
    let registered = join_offer(hub, wanted, &pattern, &node).await?;
    join_key(hub, &node).await?;
    let max_heartbeat_secs = max_heartbeat_secs(hub, &node).await?;
    Ok(NodeFacts {
        policy,
        ha_group: node.ha_group.filter(|group| !group.is_empty()),
        pattern,
        registered,
        max_heartbeat_secs,
    })
}

/// Records the offer of a pattern node. The services that a policy node uses are recorded with its agreements.
async fn join_offer(
    hub: &Hub,
    wanted: &Wanted<'_>,
    pattern: &str,
    node: &NodeResponse,
) -> Result<Vec<RegisteredService>, ClientError> {
    let mut recorded = node.registered_services()?;
    // An absent policy is sent back as an empty one.
    for service in &mut recorded {
        service.policy.get_or_insert_default();
    }
    if pattern.is_empty() {
        return Ok(recorded);
    }
    let offered = offered(&hub.exchange, pattern, wanted.machine.arch, &recorded).await?;
    if offered != recorded {
        let registered_services = Some(offered.clone());
        patch(hub, PatchNode { registered_services, ..PatchNode::default() }).await?;
    }
    Ok(offered)
}

/// Written last, because the key makes the node visible to searches. A different recorded key belongs to a lost data directory.
async fn join_key(hub: &Hub, node: &NodeResponse) -> Result<(), ClientError> {
    let public = hub.key.public_key().map_err(|error| ClientError::Request(error.to_string()))?.to_base64();
    if node.public_key == public {
        return Ok(());
    }
    if !node.public_key.is_empty() {
        patch(hub, PatchNode { public_key: Some(String::new()), ..PatchNode::default() }).await?;
    }
    patch(hub, PatchNode { public_key: Some(public), ..PatchNode::default() }).await
}

async fn patch(hub: &Hub, change: PatchNode) -> Result<(), ClientError> {
    hub.exchange.patch_node(&hub.node, &change).await.map(drop)
}

async fn max_heartbeat_secs(hub: &Hub, node: &NodeResponse) -> Result<u64, ClientError> {
    let positive = |secs: i64| u64::try_from(secs).ok().filter(|secs| *secs > 0);
    if let Some(secs) = positive(node.heartbeat_intervals()?.max_interval) {
        return Ok(secs);
    }
    let org = hub.exchange.org(hub.node.org()).await?;
    Ok(org.and_then(|org| positive(org.heartbeat_intervals.max_interval)).unwrap_or_default())
}

async fn join_policy(hub: &Hub, wanted: &Wanted<'_>) -> Result<NodePolicy, ClientError> {
    let stored = hub.exchange.node_policy(&hub.node).await?;
    let (document, is_changed) = with_builtin(stored.map(RawJson::into_value), &wanted.machine.properties());
    if is_changed {
        hub.exchange.put_node_policy(&hub.node, &document).await?;
    }
    from_value(&document)
        .map_err(|error| ClientError::Decode(format!("the node's policy: {}", error.reason())))
}

/// Overlays the built-in properties on the stored policy; returns whether that changed anything.
fn with_builtin(stored: Option<Value>, builtin: &PropertyList) -> (Value, bool) {
    let is_new = stored.is_none();
    let mut document = stored.unwrap_or_else(|| {
        json!({"properties": [], "constraints": [], "deployment": {"properties": [], "constraints": []},
               "management": {"properties": [], "constraints": []}})
    });
    let before: PropertyList = from_value(&document["properties"]).unwrap_or_default();
    let mut after = before.clone();
    merge_builtin(&mut after, builtin);
    let is_changed = is_new || !before.is_same(&after);
    if let Some(members) = document.as_object_mut() {
        members.remove("lastUpdated");
        if is_changed {
            members.insert("properties".to_owned(), json!(after));
            members.insert("nodePolicyVersion".to_owned(), json!("v2"));
        }
    }
    (document, is_changed)
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::Property;

    use super::*;

    #[test]
    fn read_only_properties_are_corrected_and_writable_ones_kept() {
        let builtin: PropertyList = vec![
            Property::new("openhorizon.arch", "amd64"),
            Property::new("openhorizon.allowPrivileged", false),
        ]
        .into();
        let stored = json!({"properties": [{"name": "openhorizon.arch", "value": "arm"},
            {"name": "openhorizon.allowPrivileged", "value": true}, {"name": "site", "value": "north"}],
            "constraints": ["a == b"], "lastUpdated": "x"});
        let (document, is_changed) = with_builtin(Some(stored), &builtin);
        assert!(is_changed);
        assert_eq!(document["properties"][0]["value"], "amd64");
        assert_eq!(document["properties"][1]["value"], true);
        assert_eq!(document["constraints"], json!(["a == b"]));
        assert!(document.get("lastUpdated").is_none());
        let (_, is_changed) = with_builtin(Some(document), &builtin);
        assert!(!is_changed, "a second read changes nothing");
    }
}
