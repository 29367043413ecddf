//! Warnings about a policy that cannot get what it asks for: groups that do not exist, and more instances than its nodes can hold.
//!
//! Source: orchestration B2.6.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{Mode, Orchestration, Scope};
use evenkeel_exchange_store::scope;
use evenkeel_ids::{GroupId, PolicyId};
use evenkeel_store::PgConnection;
use serde_json::Value;

use crate::ApiError;

/// Returns the warnings about a document `orchestration` that is written.
pub(super) async fn warnings(
    conn: &mut PgConnection,
    (org, id): (&str, &str),
    document: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    let policy = PolicyId::new(org, id);
    let read = document.and_then(|document| Orchestration::of_policy(&policy, document.clone()).ok());
    let Some(read) = read else { return Ok(Vec::new()) };
    let (wanted, per_node) = (wanted(&read), i64::from(read.max_per_node.max(1)));
    if let Some(mut groups) = read.scope.group_ids(org) {
        // Those of other organizations are not known here, not even whether there are any.
        groups.retain(|group| group.org() == org);
        return of_groups(conn, &groups, wanted, per_node).await;
    }
    let Some(wanted) = wanted else { return Ok(Vec::new()) };
    let nodes = match &read.scope {
        Scope::Eligible => scope::count_nodes(conn, (org, id), wanted).await?,
        Scope::Nodes { nodes } => i64::try_from(nodes.len()).unwrap_or(i64::MAX),
        // Each group has a number of its own.
        Scope::HaGroups { .. } => return Ok(Vec::new()),
    };
    Ok(shortage("the fleet", wanted, nodes, per_node).into_iter().collect())
}

/// Returns the number of instances in each workload unit; none when it follows the nodes.
fn wanted(read: &Orchestration) -> Option<i64> {
    match read.mode {
        Mode::Replicated => read.replicas.map(i64::from),
        Mode::Flex => read.flex.map(|flex| i64::from(flex.target)),
        Mode::Global | Mode::Failover => None,
    }
}

async fn of_groups(
    conn: &mut PgConnection,
    groups: &[GroupId],
    wanted: Option<i64>,
    per_node: i64,
) -> Result<Vec<String>, ApiError> {
    let orgs: Vec<&str> = groups.iter().map(GroupId::org).collect();
    let names: Vec<&str> = groups.iter().map(GroupId::name).collect();
    let found: BTreeMap<String, i64> = scope::count_members(conn, &orgs, &names).await?.into_iter().collect();
    let text = |group: &GroupId| match (found.get(group.as_str()), wanted) {
        (None, _) => {
            Some(format!("orchestration.scope: HA group {group} does not exist, nothing starts there"))
        }
        (Some(members), Some(wanted)) => shortage(&format!("HA group {group}"), wanted, *members, per_node),
        (Some(_), None) => None,
    };
    Ok(groups.iter().filter_map(text).collect())
}

fn shortage(place: &str, wanted: i64, nodes: i64, per_node: i64) -> Option<String> {
    let room = nodes.saturating_mul(per_node);
    (wanted > room).then(|| {
        format!(
            "{wanted} instances are wanted and {place} can hold {room} (nodes: {nodes}, maxPerNode: {per_node}): \
             the others get no node"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_is_named_with_what_there_is() {
        assert_eq!(shortage("the fleet", 6, 3, 2), None);
        let text = shortage("the fleet", 100_000, 3, 1).expect("too few nodes");
        assert!(text.starts_with("100000 instances are wanted and the fleet can hold 3 (nodes: 3"), "{text}");
    }
}
