//! Reading patterns.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_access::{Permission, RowFilter, organization_rows, right};
use evenkeel_api::{Either, List};
use evenkeel_exchange_store::pattern::{self, PatternFilter, PatternRow};
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::pattern::{PatternResponse, PatternService, PatternsQuery, PatternsResponse};
use evenkeel_wire::exchange::shared::{CatalogQuery, OneSecretBinding, filled};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user_input::UserInputService;

use super::absent;
use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::pages::{self, LARGE_PAGE_ROWS, Page};
use crate::routes::shape::{OneOrAttribute, attribute, attribute_of, pattern_or_exact, show_absent_lists};
use crate::{ApiError, Exchange};

pub(super) async fn list_patterns(
    op: Op<OrgPath, (Query<PatternsQuery>, Paging)>,
    _: Permission<right::PatternsList>,
) -> Result<List<PatternsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let filter = PatternFilter { org: Some(org), ..filter(query) };
    list(exchange, (filter, organization_rows(&caller)), paging).await
}

/// The selection of patterns of all organizations.
type CatalogParameters = (Query<PatternsQuery>, Query<CatalogQuery>);

pub(super) async fn list_catalog_patterns(
    op: Op<(), (CatalogParameters, Paging)>,
    _: Permission<right::PatternsList>,
) -> Result<List<PatternsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        parameters: ((Query(query), Query(catalog)), paging),
        ..
    } = op;
    let filter = PatternFilter { organization: catalog.organization.map(pattern_or_exact), ..filter(query) };
    list(exchange, (filter, organization_rows(&caller)), paging).await
}

fn filter(query: PatternsQuery) -> PatternFilter {
    PatternFilter {
        org: None,
        organization: None,
        id: query.idfilter.map(pattern_or_exact),
        owner: query.owner.map(pattern_or_exact),
        is_public: query.public,
        label: query.label.map(pattern_or_exact),
        description: query.description.map(pattern_or_exact),
        cluster_namespace: query.clusternamespace.map(pattern_or_exact),
    }
}

async fn list(
    exchange: Exchange,
    wanted: (PatternFilter, RowFilter),
    paging: Paging,
) -> Result<List<PatternsResponse>, ApiError> {
    let shape = pages::object(r#"{"patterns":{"#, LARGE_PAGE_ROWS);
    let org = wanted.0.org.clone();
    let wanted = Arc::new(wanted);
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, org.as_deref()), paging, load, |most| count(counted, most)).await
}

async fn count(
    (exchange, wanted): (Exchange, Arc<(PatternFilter, RowFilter)>),
    most: i64,
) -> Result<i64, ApiError> {
    let (filter, rows) = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| pattern::count(connection, filter, rows, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(PatternFilter, RowFilter)>,
    after: Option<ResourceKey>,
    limit: i64,
) -> Result<Page<ResourceKey>, ApiError> {
    let (filter, rows) = &*wanted;
    let found = exchange
        .database()
        .read(async |connection| pattern::list(connection, filter, rows, after.as_ref(), limit).await)
        .await?;
    let key = |row: &PatternRow| ResourceKey { org: row.org.clone(), id: row.pattern.clone() };
    Ok(Page::object(found, limit, key, keyed_response)?)
}

pub(super) async fn get_pattern(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    _: Permission<right::PatternRead>,
) -> Result<OneOrAttribute<PatternsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = op;
    let row = exchange.database().read(async |connection| pattern::find(connection, &org, &id).await).await?;
    let Some(row) = row else {
        return match query.attribute {
            Some(_) => Err(absent(&org, &id)),
            None => Ok(Either::First(List::of(
                true,
                PatternsResponse { patterns: BTreeMap::new(), ..Default::default() },
            ))),
        };
    };
    if let Some(name) = &query.attribute {
        let response = stored_response(row.clone());
        // The reference knows the time of the last change only under this spelling.
        if name.eq_ignore_ascii_case("lastpdated") {
            return Ok(Either::Second(attribute(name, &response.last_updated.into())));
        }
        if let Some(response) = attribute_of(&response, name, &["agreementProtocols"]) {
            return Ok(Either::Second(response));
        }
    }
    let (key, response) = keyed_response(row);
    let patterns = BTreeMap::from([(key, response)]);
    Ok(Either::First(List::of(false, PatternsResponse { patterns, ..Default::default() })))
}

fn keyed_response(row: PatternRow) -> (String, PatternResponse) {
    let key = format!("{}/{}", row.org, row.pattern);
    let mut response = stored_response(row);
    show_absent_lists([&mut response.user_input, &mut response.secret_binding]);
    (key, response)
}

/// The pattern with what was never given as `null`.
fn stored_response(row: PatternRow) -> PatternResponse {
    PatternResponse {
        owner: format!("{}/{}", row.owner_org, row.owner),
        label: row.label,
        description: row.description,
        public: row.is_public,
        services: filled::<Vec<PatternService>>(row.services),
        user_input: filled::<Vec<UserInputService>>(row.user_input),
        secret_binding: filled::<Vec<OneSecretBinding>>(row.secret_binding),
        agreement_protocols: row.agreement_protocols,
        last_updated: wire_time(row.updated_at),
        cluster_namespace: row.cluster_namespace,
    }
}
