//! The node blocklist of an organization: administrators see and clear all of it, owners of nodes what concerns their nodes.
//!
//! Source: orchestration D4, 1.8.

use std::collections::BTreeSet;

use axum::Json;
use evenkeel_agbot::{AgbotError, BlocklistAuthor, Context, EngineHandle};
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::blocklist::{BlocklistEntry, BlocklistKey};
use evenkeel_store::{PgConnection, retry};
use evenkeel_wire::agbot::blocklist::{self as wire, BlocklistQuery, BlocklistResponse};
use http::StatusCode;

use super::actions::failed;
use super::orchestration::node_of;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::SeenNodes;
use crate::shown::workload_shape::time;

impl NamedQuery for BlocklistQuery {
    const KNOWN: Members = known(&["node", "service"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self { node: parameters.text("node")?, service: parameters.text("service")? })
    }
}

/// The entries that a query is about.
struct Wanted {
    org: String,
    node: Option<NodeId>,
    service: Option<ServiceKey>,
}

impl Wanted {
    /// Reads a query about an organization.
    ///
    /// # Errors
    /// 404 when the caller may not read the node, or there is none.
    fn of(
        engine: &EngineHandle,
        org: &str,
        query: BlocklistQuery,
        seen: &SeenNodes,
    ) -> Result<Self, Refusal> {
        let node = query.node.map(|name| node_of(org, &name));
        let is_readable =
            |node: &NodeId| node.org() == org && seen.shows(node) && engine.model().node(node).is_some();
        if let Some(node) = node.as_ref().filter(|node| !is_readable(node)) {
            let text = format!("node: {node} does not exist in the organization {org}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, text));
        }
        let service = query.service.map(|service| match service.split_once('/') {
            Some(_) => ServiceKey::from_text(&service),
            None => ServiceKey::new(org, &service),
        });
        Ok(Self { org: org.to_owned(), node, service })
    }

    fn holds(&self, key: &BlocklistKey, seen: &SeenNodes) -> bool {
        key.node.org() == self.org
            && seen.shows(&key.node)
            && self.node.as_ref().is_none_or(|node| *node == key.node)
            && self.service.as_ref().is_none_or(|service| *service == key.service)
    }
}

/// Lists the nodes that are blocked.
pub(super) async fn list_blocklist(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<BlocklistQuery>,
) -> Result<Json<BlocklistResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let wanted = Wanted::of(&context, &org, query, &seen)?;
    let model = context.model();
    let rows = model.blocklist().filter(|(key, _)| wanted.holds(key, &seen));
    let entries = rows.filter_map(|(key, entry)| shape(key, entry)).collect();
    Ok(Json(BlocklistResponse { entries }))
}

/// Deletes entries, and returns those that blocked their nodes.
pub(super) async fn clear_blocklist(
    op: Op<OrgPath>,
    permission: Permission<right::NodesOperate>,
    Named(query): Named<BlocklistQuery>,
) -> Result<Json<BlocklistResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let (actor, seen) = permission.into_proof();
    let wanted = Wanted::of(&context, &org, query, &seen)?;
    let nodes: BTreeSet<NodeId> = {
        let model = context.model();
        let keys = model.blocklist().map(|(key, _)| key).filter(|key| wanted.holds(key, &seen));
        keys.map(|key| key.node.clone()).collect()
    };
    let cleared = clear(&context, &actor, &nodes, wanted.service).await;
    let cleared = cleared.map_err(|error| failed(&error))?;
    let entries = cleared.iter().filter_map(|(key, entry)| shape(key, entry)).collect();
    Ok(Json(BlocklistResponse { entries }))
}

async fn clear(
    context: &Context,
    actor: &str,
    nodes: &BTreeSet<NodeId>,
    service: Option<ServiceKey>,
) -> Result<Vec<(BlocklistKey, BlocklistEntry)>, AgbotError> {
    let services = service.map(|service| BTreeSet::from([service]));
    let cleared = retry("blocklist.clear", || async {
        let mut tx = context.database.begin().await?;
        let author = BlocklistAuthor { actor, at: context.now(), policy: None };
        let cleared = evenkeel_agbot::clear_blocklist(&mut tx, nodes, services.as_ref(), author).await?;
        tx.commit().await?;
        Ok::<_, AgbotError>(cleared)
    })
    .await?;
    context.follow_records().await;
    Ok(cleared)
}

fn shape(key: &BlocklistKey, entry: &BlocklistEntry) -> Option<wire::BlocklistEntry> {
    Some(wire::BlocklistEntry {
        node: key.node.name().to_owned(),
        service: key.service.to_string(),
        version: key.version.clone(),
        failures: u32::try_from(entry.failures.len()).unwrap_or(u32::MAX),
        blocks: entry.blocks,
        since: time(entry.since?),
        until: time(entry.until?),
        last_failure: entry.last_failure.clone(),
    })
}

/// Deletes the rows of the blocklist about the services that a workload runs, or ran before, on some of its nodes or on all.
pub(super) async fn clear_of_workload(
    engine: &EngineHandle,
    tx: &mut PgConnection,
    (policy, actor): (&PolicyId, &str),
    nodes: Option<&BTreeSet<NodeId>>,
) -> Result<(), AgbotError> {
    let (nodes, services): (BTreeSet<NodeId>, BTreeSet<ServiceKey>) = {
        let model = engine.model();
        let of_policy = model.workload_units_of(policy);
        let rows = of_policy.flat_map(|(_, unit)| unit.table.nodes().map(|row| row.id.clone()));
        let specs = model.workload(policy).into_iter().flat_map(|record| &record.specs);
        (
            nodes.cloned().unwrap_or_else(|| rows.collect()),
            specs.map(|(_, spec)| spec.service.clone()).collect(),
        )
    };
    let author = BlocklistAuthor { actor, at: engine.now(), policy: Some(policy) };
    evenkeel_agbot::clear_blocklist(tx, &nodes, Some(&services), author).await?;
    Ok(())
}
