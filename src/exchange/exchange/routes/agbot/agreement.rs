//! Agreements as an agbot records them, and their confirmation to those who ask.
//!
//! Source: exchange-api 4.2, 4.5.

use std::sync::Arc;

use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_api::{List, NoContent};
use evenkeel_exchange_store::agreement::{self, AgbotAgreementRow};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::node_limit::lock_agbot_parts;
use evenkeel_wire::exchange::agbot::{
    AgbotAgreement, AgbotAgreementQuery, AgbotAgreementsResponse, ConfirmAgreement, PutAgbotAgreement,
};
use evenkeel_wire::exchange::time::wire_time;

use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::agbot_change;
use crate::operation::row::{delete, get, post, put};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, PartPath, ResourcePath};
use crate::routes::node::json;
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{MAX_PART, require_length};
use crate::{ApiError, Exchange};

const TAG: &str = "agbot agreement";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/agreements";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/agreements/{agreement}";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_agbot_agreements", list_agreements)
            .doc(TAG, "Lists the agreements of an agbot")
            .success("the agreements")
            .empty("there is none"),
        get(ONE, "get_agbot_agreement", get_agreement)
            .doc(TAG, "Returns an agreement of an agbot")
            .success("the agreement")
            .empty("it is not there"),
        put(ONE, "replace_agbot_agreement", replace_agreement)
            .doc(TAG, "Records an agreement of an agbot")
            .audit(Subject::AgbotAgreement)
            .success("recorded"),
        delete(ALL, "delete_agbot_agreements", delete_agreements)
            .doc(TAG, "Removes all agreements of an agbot")
            .audit(Subject::AgbotAgreement)
            .success("removed"),
        delete(ONE, "delete_agbot_agreement", delete_agreement)
            .doc(TAG, "Removes an agreement of an agbot")
            .audit(Subject::AgbotAgreement)
            .success("removed"),
        post("/orgs/{organization}/agreements/confirm", "confirm_agreement", confirm_agreement)
            .doc(TAG, "Confirms that an agreement of the caller's agbots is active")
            .unaudited("it only reads")
            .success("it is active"),
    ]
}

async fn list_agreements(
    op: Op<ResourcePath, Paging>,
    _: Permission<right::AgbotRead>,
) -> Result<List<AgbotAgreementsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: paging,
    } = op;
    let wanted = Wanted { node: recorded_with(&caller, &org), org, id, agreement: None };
    read(exchange, wanted, paging).await
}

async fn get_agreement(
    op: Op<PartPath>,
    _: Permission<right::AgbotRead>,
) -> Result<List<AgbotAgreementsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: PartPath { org, id, part: agreement },
        ..
    } = op;
    let wanted = Wanted { node: recorded_with(&caller, &org), org, id, agreement: Some(agreement) };
    read(exchange, wanted, Paging::default()).await
}

/// Selection of agreements of an agbot.
struct Wanted {
    org: String,
    id: String,
    agreement: Option<String>,
    /// Only those that were recorded with this node.
    node: Option<String>,
}

/// Returns the node whose agreements alone the caller may read: a node of another organization, for agreements name the services of every
/// organization that the agbot serves.
fn recorded_with(caller: &Caller, org: &str) -> Option<String> {
    (caller.role == Role::Node && caller.org != org).then(|| caller.to_string())
}

async fn read(
    exchange: Exchange,
    wanted: Wanted,
    paging: Paging,
) -> Result<List<AgbotAgreementsResponse>, ApiError> {
    let shape = pages::object(r#"{"agreements":{"#, PAGE_ROWS);
    let wanted = Arc::new(wanted);
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, None), paging, load, |most| count(counted, most)).await
}

async fn count((exchange, wanted): (Exchange, Arc<Wanted>), most: i64) -> Result<i64, ApiError> {
    let Wanted { org, id, node, .. } = &*wanted;
    let count = exchange.database().read(async |connection| {
        agreement::count_of_agbot(connection, (org, id), node.as_deref(), most).await
    });
    Ok(count.await?)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let Wanted { org, id, agreement, node } = &*wanted;
    let (one, node, after) = (agreement.as_deref(), node.as_deref(), after.as_deref());
    let found = exchange
        .database()
        .read(async |connection| {
            agreement::list_of_agbot(connection, (org, id), one, node, after, rows).await
        })
        .await?;
    Ok(Page::object(found, rows, |row| row.agreement.clone(), keyed_response)?)
}

fn keyed_response(row: AgbotAgreementRow) -> (String, AgbotAgreement) {
    let response = AgbotAgreement {
        service: row.service,
        state: row.state,
        last_updated: wire_time(row.updated_at),
        data_last_received: "",
    };
    (row.agreement, response)
}

async fn replace_agreement(
    op: Op<PartPath, Query<AgbotAgreementQuery>>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PutAgbotAgreement>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: PartPath { org, id, part: agreement },
        parameters: Query(query),
    } = &op;
    let limit = exchange.settings().limits.agbot_agreements;
    let row = AgbotAgreementRow {
        agreement: agreement.clone(),
        service: json(&request.service)?,
        state: request.state,
        updated_at: exchange.now(),
        node: query.node.clone(),
    };
    let node = row.node.as_ref().map_or(0, String::len);
    require_length("service, state and node", row.service.get().len() + row.state.len() + node, MAX_PART)?;
    op.write(&permission, "agbot_agreement.replace", async |mut tx| {
        if limit > 0
            && lock_agbot_parts(&mut tx, org, id).await?
            && agreement::count_others_of_agbot(&mut tx, org, id, &row.agreement).await? >= limit
        {
            return Err(ApiError::access_denied(format!("an agbot may have {limit} agreements, no more")));
        }
        agreement::upsert_of_agbot(&mut tx, org, id, &row).await.map_err(|error| {
            ApiError::from(error).explain("agbot_agreement_agbot_fk", || {
                ApiError::not_found(format!("agbot '{org}/{id}' not found"))
            })
        })?;
        tx.finish([agbot_change(org, id, "agbotagreements", "created/modified")])
    })
    .await?;
    Ok(created("agreement added or updated"))
}

async fn delete_agreements(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let ResourcePath { org, id } = &op.path;
    remove(&op, &permission, (org, id), None).await
}

async fn delete_agreement(
    op: Op<PartPath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id, part } = &op.path;
    remove(&op, &permission, (org, id), Some(part)).await
}

async fn remove<P>(
    op: &Op<P>,
    permission: &Permission<right::AgbotWrite>,
    (org, id): (&str, &str),
    agreement: Option<&str>,
) -> Result<NoContent, ApiError> {
    op.write(permission, "agbot_agreement.delete", async |mut tx| {
        if agreement::delete_of_agbot(&mut tx, org, id, agreement).await? == 0 {
            return Err(ApiError::not_found(match agreement {
                Some(agreement) => format!("agreement '{agreement}' of agbot '{org}/{id}' not found"),
                None => format!("no agreements of agbot '{org}/{id}' found"),
            }));
        }
        tx.finish([agbot_change(org, id, "agbotagreements", "deleted")])
    })
    .await?;
    Ok(NoContent)
}

/// Confirms an agreement to its agbot, to agbots of the same owner, and to that owner.
async fn confirm_agreement(
    op: Op<OrgPath>,
    _: Permission<right::AgreementConfirm>,
    Body(request): Body<ConfirmAgreement>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let agbot = caller.role.is_agbot().then_some((caller.org.as_str(), caller.id.as_str()));
    let (agreement, owner) = (&request.agreement_id, &caller.account());
    let is_active = exchange
        .database()
        .read(async |connection| agreement::is_active(connection, agreement, agbot, owner).await)
        .await?;
    if is_active {
        Ok(created("agreement active"))
    } else {
        Err(ApiError::not_found("agreement not found or not active"))
    }
}
