//! Health policies of HA groups in schedules with faults: members that are reported to be in error lose their instances.
//!
//! A twelfth of the seeds have them. The others draw nothing here, so that their schedules stay as they are. Source: orchestration C1, C3, C6.

use std::sync::Arc;

use evenkeel_domain::orchestration::{HealthPolicy, health_policy::Target};
use evenkeel_ids::NodeId;
use evenkeel_planner_record::health::{Entity, HealthReport, StoredReport};
use serde_json::json;

use super::{
    chaos::pick,
    database::Row,
    workload_chaos::{choose, nodes},
    world::World,
};

/// Share of the faults that come with a report about a node.
const REPORT_SHARE: f64 = 0.2;
const SOURCE: &str = "watchdog";

/// Gives groups health policies.
pub(crate) fn build(world: &mut World) {
    if world.seed % 12 != 3 {
        return;
    }
    let groups: Vec<_> = world.exchange.groups.values().cloned().collect();
    for mut group in groups {
        let actions: &[&str] = choose(world, &[&["RECREATE"], &["REBOOT", "RECREATE"]]);
        let actions: Vec<_> = actions.iter().map(|name| json!({"name": name})).collect();
        let document = json!({
            "detection": {"type": "NODE_STATUS_POLLING", "interval": world.between(3, 10), "node_update_timeout": 5},
            "recovery": {"actions": actions},
        });
        world.trace_line(format!("group {}: {document}", group.id));
        match HealthPolicy::read("healthPolicy", document, Target::Group) {
            Ok(policy) => {
                group.health = Some(Arc::new(policy));
                world.exchange.put_group(group);
                world.has_group_health = true;
            }
            Err(error) => world.checker.broke(format!("the drawn health policy is refused: {error}")),
        }
    }
}

/// Sometimes a node is reported to be in error for a while.
pub(crate) fn strike(world: &mut World) {
    if !world.has_group_health || !world.chance(REPORT_SHARE) {
        return;
    }
    let nodes = nodes(world);
    let Some(node) = pick(world, &nodes) else { return };
    let ttl_secs = world.between(5, 40);
    report(world, &node, "Error", ttl_secs);
}

/// Restores all nodes.
pub(crate) fn repair(world: &mut World) {
    if world.has_group_health {
        for node in nodes(world) {
            report(world, &node, "Ok", 5);
        }
    }
}

fn report(world: &mut World, node: &NodeId, state: &str, ttl_secs: u64) {
    let body = json!({
        "sourceId": SOURCE, "property": "p", "healthState": state, "ttlSeconds": ttl_secs, "removeWhenExpired": true,
    });
    let now = world.now();
    let entity = Entity::Node(node.clone());
    let stored = world.database.health.entry(entity.clone()).or_default();
    let known = stored.iter().find(|one| one.source == SOURCE);
    let Ok(report) = HealthReport::read(body) else { return };
    // One that repeats the last report changes nothing.
    let Ok(Some(next)) = StoredReport::next(known, report, now) else { return };
    stored.retain(|one| one.source != SOURCE);
    stored.push(next);
    world.database.log.push(Row::Health(entity));
    world.trace_line(format!("{node} is reported as {state} for {ttl_secs} s"));
}
