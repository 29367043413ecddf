//! Reports upgrades of HA groups that something keeps from continuing, and members that went down during one.
//!
//! Source: orchestration D11, E6.5.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::claim::{self, WaitRow};
use evenkeel_health::{GroupFindings, group_reports, reported_groups, stale_upgrades};
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::health::Entity;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::StoreError;
use jiff::Timestamp;

use crate::AgbotError;
use crate::blocked_upgrades::{BlockedMember, GroupUpgrades};
use crate::context::{Context, EngineHandle};
use crate::health::report_if_leased;

const PERIOD: Duration = Duration::from_secs(10);
/// Members that one report names.
const EXAMPLES: usize = 10;

/// Reports blocked upgrades of groups, and what is over.
pub(crate) struct BlockedGroups(pub Arc<Context>);

impl Worker for BlockedGroups {
    type Error = AgbotError;
    const NAME: &'static str = "blocked_groups";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        if self.0.reading.is_loaded() { report(&self.0).await } else { Ok(()) }
    }

    fn pause(&self) -> Duration {
        PERIOD
    }

    fn first_pause(&self) -> Duration {
        PERIOD
    }
}

async fn report(context: &Context) -> Result<(), AgbotError> {
    let mut stale = stale_upgrades(&context.model(), context.now());
    for (group, waits) in waiting_groups(context, stale.keys().cloned().collect()).await? {
        let blocked = blocked(context, &group, waits);
        let findings = GroupFindings { blocked, stale: stale.remove(&group).unwrap_or_default() };
        let (lease, reports, ttl_secs) = {
            let model = context.model();
            let Some((lease, reports)) = group_reports(&model, &group, &findings, context.now()) else {
                continue;
            };
            (lease, reports, model.system_report_ttl_secs(group.org()))
        };
        report_if_leased(context, lease, &Entity::Group(group), &reports, ttl_secs).await?;
    }
    Ok(())
}

/// Returns the groups of this agbot in which something waits, those in which an upgrade is stale, and those of which either is reported,
/// with the members that were refused an agent upgrade.
async fn waiting_groups(
    context: &Context,
    stale: BTreeSet<GroupId>,
) -> Result<Vec<(GroupId, Vec<WaitRow>)>, StoreError> {
    let refused =
        context.database.read(async |connection| claim::list_waiting_groups(connection).await).await?;
    let nodes = context.waiting_nodes();
    let groups: BTreeSet<GroupId> = {
        let model = context.model();
        let of_nodes = nodes.iter().filter_map(|node| model.group_of(node)).map(|group| group.id.clone());
        let reported = reported_groups(&model).cloned();
        let all = refused.into_iter().chain(of_nodes).chain(stale).chain(reported);
        all.filter(|group| model.lease_for_group(group).is_some()).collect()
    };
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&GroupId> = groups.iter().collect();
    let rows = context.database.read(async |connection| claim::read_groups(connection, &names).await).await?;
    // A group that never had a claim has no row.
    let mut waits: BTreeMap<GroupId, Vec<WaitRow>> =
        rows.into_iter().map(|row| (row.ha_group, row.waits)).collect();
    Ok(groups.into_iter().map(|group| (group.clone(), waits.remove(&group).unwrap_or_default())).collect())
}

fn blocked(engine: &EngineHandle, group: &GroupId, waits: Vec<WaitRow>) -> Option<(Timestamp, String)> {
    let (members, claims) = {
        let model = engine.model();
        let claims: Vec<_> = model.claims_of(group).cloned().collect();
        (model.group(group).map(|group| group.members.clone()).unwrap_or_default(), claims)
    };
    let found = engine.blocked_members(&GroupUpgrades { group, members: &members, claims: &claims, waits });
    let since = found.iter().map(|one| one.since).min()?;
    let mut texts: Vec<(&NodeId, String)> = found.iter().map(|one| (&one.node, text(group, one))).collect();
    texts.dedup();
    let texts: Vec<String> = texts.into_iter().take(EXAMPLES).map(|(_, text)| text).collect();
    Some((since, texts.join("; ")))
}

fn text(group: &GroupId, found: &BlockedMember) -> String {
    let node = &found.node;
    let id = node.to_string();
    let name = if node.org() == group.org() { node.name() } else { &id };
    format!("{}: {}", found.blocked.upgrade_rule(), found.text(name))
}
