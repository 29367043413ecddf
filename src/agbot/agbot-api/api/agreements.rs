//! Live agreements with the nodes of an organization, page by page, and the newest ended ones.

use std::sync::Arc;

use evenkeel_agbot::Context;
use evenkeel_agbot_store::agreement::{self, LiveKey};
use evenkeel_api::{ListShape, MAX_ID, OrgPath, Page, Refusal, WholeList};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_wire::agbot::agreement::{AgreementsQuery, AgreementsResponse};
use serde_json::Value;

use super::list_page;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use super::status::{ListError, NEWEST};

/// Agreements that one statement reads.
const PAGE: i64 = 500;

impl NamedQuery for AgreementsQuery {
    const KNOWN: Members = known(&["after", "limit", "filter", "count"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self {
            // Three ids.
            after: parameters.text_of("after", 3 * MAX_ID + 2)?,
            limit: list_page::limit(parameters)?,
            filter: list_page::filter(parameters)?,
            count: parameters.boolean("count")?,
        })
    }
}

/// Agreements of an organization's nodes, live and ended; of a page, the live ones.
pub(super) async fn list_agreements(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<AgreementsQuery>,
) -> Result<WholeList<AgreementsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let from = query.after.as_deref().map(|after| live_key(&org, after)).transpose()?;
    let selection = list_page::selection(query.limit, query.filter.as_deref(), query.count)?;
    let nodes = permission.into_proof().ids().map(Arc::new);
    let read = LiveRead { context, org, nodes };
    let Some(selection) = selection else {
        let archived = if from.is_none() { read.ended().await? } else { Value::Array(Vec::new()) };
        let open = format!("{{\"agreements\":{{\"archived\":{archived},\"active\":[");
        let load = move |after: Option<LiveKey>| read.clone().page(after.or_else(|| from.clone()), PAGE);
        return WholeList::paged(open, "]}}", load).await.map_err(|error: ListError| unreadable(&error));
    };
    let open = "{\"agreements\":{\"archived\":[],\"active\":[";
    let shape = ListShape { open, close: "]}}", key: "", rows: PAGE };
    let load = |after: Option<LiveKey>, rows: i64| read.clone().page(after, rows);
    let page = WholeList::selected(shape, selection, from, load, |most| read.clone().count(most)).await;
    page.map_err(|error: ListError| unreadable(&error))
}

/// Reads the end of the page before.
fn live_key(org: &str, after: &str) -> Result<LiveKey, Refusal> {
    let mut ids = after.splitn(3, ' ');
    let key = ids.next().zip(ids.next()).zip(ids.next()).map(|((node, policy), beside)| {
        (NodeId::from_text(node), PolicyId::from_text(policy), beside.to_owned())
    });
    key.filter(|(node, ..)| node.org() == org).ok_or_else(list_page::of_other_list)
}

/// The agreements of an organization's nodes that a caller may read.
#[derive(Clone)]
struct LiveRead {
    context: Arc<Context>,
    org: String,
    /// Only of these nodes.
    nodes: Option<Arc<Vec<NodeId>>>,
}

impl LiveRead {
    fn nodes(&self) -> Option<&[NodeId]> {
        self.nodes.as_deref().map(Vec::as_slice)
    }

    /// Returns the newest ended agreements.
    async fn ended(&self) -> Result<Value, Refusal> {
        let ended = self.context.database.read(async |connection| {
            agreement::list_ended(connection, &self.org, self.nodes(), NEWEST).await
        });
        ended.await.map(Value::Array).map_err(|error| unreadable(&error))
    }

    async fn page(self, after: Option<LiveKey>, limit: i64) -> Result<Page<LiveKey>, ListError> {
        let rows = self.context.database.read(async |connection| {
            agreement::list_live_of_org(connection, &self.org, self.nodes(), after.as_ref(), limit).await
        });
        let rows = rows.await?;
        let mut page = Page::after(&rows, limit, |(key, _)| key.clone());
        for ((node, policy, beside), record) in rows {
            page.push(&record)?;
            page.set_key(format!("{node} {policy} {beside}"));
        }
        Ok(page)
    }

    async fn count(self, most: i64) -> Result<i64, ListError> {
        let count = self.context.database.read(async |connection| {
            agreement::count_live_of_org(connection, &self.org, self.nodes(), most).await
        });
        Ok(count.await?)
    }
}
