//! Agreements as a node records them.
//!
//! Source: exchange-api 4.4.1.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{List, NoContent};
use evenkeel_exchange_store::agreement::{self, NodeAgreementRow};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node::HeartbeatQuery;
use evenkeel_wire::exchange::node_part::{NodeAgreement, NodeAgreementsResponse, PutNodeAgreement};
use evenkeel_wire::exchange::time::wire_time;

use super::{json, missing_node};
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{MAX_PART, require_length};
use crate::{ApiError, Exchange};

const TAG: &str = "node agreement";
const ALL: &str = "/orgs/{organization}/nodes/{node}/agreements";
const ONE: &str = "/orgs/{organization}/nodes/{node}/agreements/{agreement}";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_node_agreements", list_agreements)
            .doc(TAG, "Lists the agreements of a node")
            .success("the agreements")
            .empty("there is none"),
        get(ONE, "get_node_agreement", get_agreement)
            .doc(TAG, "Returns an agreement of a node")
            .success("the agreement")
            .empty("it is not there"),
        put(ONE, "replace_node_agreement", replace_agreement)
            .doc(TAG, "Records an agreement of a node")
            .audit(Subject::NodeAgreement)
            .success("recorded"),
        delete(ALL, "delete_node_agreements", delete_agreements)
            .doc(TAG, "Removes all agreements of a node")
            .audit(Subject::NodeAgreement)
            .success("removed"),
        delete(ONE, "delete_node_agreement", delete_agreement)
            .doc(TAG, "Removes an agreement of a node")
            .audit(Subject::NodeAgreement)
            .success("removed"),
    ]
}

async fn list_agreements(
    op: Op<ResourcePath, Paging>,
    _: Permission<right::NodeRead>,
) -> Result<List<NodeAgreementsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, parameters: paging } =
        op;
    read(exchange, (org, id, None), paging).await
}

async fn get_agreement(
    op: Op<PartPath>,
    _: Permission<right::NodeRead>,
) -> Result<List<NodeAgreementsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: agreement }, .. } =
        op;
    read(exchange, (org, id, Some(agreement)), Paging::default()).await
}

/// Organization and id of a node; an agreement of it, or none for all.
type Wanted = (String, String, Option<String>);

async fn read(
    exchange: Exchange,
    wanted: Wanted,
    paging: Paging,
) -> Result<List<NodeAgreementsResponse>, ApiError> {
    let shape = pages::object(r#"{"agreements":{"#, PAGE_ROWS);
    let wanted = Arc::new(wanted);
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, None), paging, load, |most| count(counted, most)).await
}

async fn count((exchange, wanted): (Exchange, Arc<Wanted>), most: i64) -> Result<i64, ApiError> {
    let (org, id, _) = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| agreement::count_of_node(connection, org, id, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let (org, id, agreement) = &*wanted;
    let (one, after) = (agreement.as_deref(), after.as_deref());
    let found = exchange
        .database()
        .read(async |connection| agreement::list_of_node(connection, org, id, one, after, rows).await)
        .await?;
    Ok(Page::object(found, rows, |row| row.agreement.clone(), keyed_response)?)
}

fn keyed_response(row: NodeAgreementRow) -> (String, NodeAgreement) {
    let response = NodeAgreement {
        services: row.services,
        agr_service: row.agreement_service,
        state: row.state,
        last_updated: wire_time(row.updated_at),
    };
    (row.agreement, response)
}

async fn replace_agreement(
    op: Op<PartPath, Query<HeartbeatQuery>>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutNodeAgreement>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: PartPath { org, id, part: agreement },
        parameters: Query(query),
    } = &op;
    if request.services.is_none() && request.agreement_service.is_none() {
        return Err(ApiError::invalid_input("services or agreementService must be given"));
    }
    let limit = exchange.settings().limits.node_agreements;
    let workload = request.agreement_service.unwrap_or_default();
    let row = NodeAgreementRow {
        agreement: agreement.clone(),
        services: json(&request.services.unwrap_or_default())?,
        agreement_service: json(&workload)?,
        service_url: workload.url,
        state: request.state,
        updated_at: exchange.now(),
    };
    let bytes = row.services.get().len() + row.agreement_service.get().len() + row.state.len();
    require_length("services, agreementService and state", bytes, MAX_PART)?;
    op.write(&permission, "node_agreement.replace", async |mut tx| {
        if !node::touch_node(&mut tx, org, id, row.updated_at).await? {
            return Err(missing_node(org, id));
        }
        if limit > 0 && agreement::count_others_of_node(&mut tx, org, id, &row.agreement).await? >= limit {
            return Err(ApiError::access_denied(format!("a node may have {limit} agreements, no more")));
        }
        agreement::upsert_of_node(&mut tx, org, id, &row).await?;
        tx.finish([node_change(org, id, "nodeagreements", "created/modified")])
    })
    .await?;
    if query.noheartbeat != Some(true) {
        exchange.heartbeats().touch_node(org, id, row.updated_at).await?;
    }
    Ok(created("agreement added or updated"))
}

async fn delete_agreements(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    remove(&op, &permission, (org, id), None).await
}

async fn delete_agreement(
    op: Op<PartPath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id, part } = &op.path;
    remove(&op, &permission, (org, id), Some(part)).await
}

async fn remove<P>(
    op: &Op<P>,
    permission: &Permission<right::NodeWrite>,
    (org, id): (&str, &str),
    agreement: Option<&str>,
) -> Result<NoContent, ApiError> {
    op.write(permission, "node_agreement.delete", async |mut tx| {
        // The node first, as every write about a node: two of them must not wait for each other.
        node::touch_node(&mut tx, org, id, op.exchange.now()).await?;
        if agreement::delete_of_node(&mut tx, org, id, agreement).await? == 0 {
            return Err(ApiError::not_found(match agreement {
                Some(agreement) => format!("agreement '{agreement}' of node '{org}/{id}' not found"),
                None => format!("no agreements of node '{org}/{id}': not found"),
            }));
        }
        tx.finish([node_change(org, id, "nodeagreements", "deleted")])
    })
    .await?;
    Ok(NoContent)
}
