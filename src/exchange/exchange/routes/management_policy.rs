//! Management policies.
//!
//! Source: exchange-api 4.9.
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{Either, List, NoContent};
use evenkeel_domain::review;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::management_policy::{self, ManagementPolicyFilter, ManagementPolicyRow};
use evenkeel_exchange_store::node_limit::lock_owner;
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::management_policy::{
    AgentUpgradePolicy, ManagementPoliciesQuery, ManagementPoliciesResponse, ManagementPolicyResponse,
    PostManagementPolicy,
};
use evenkeel_wire::exchange::node::AttributeQuery;
use evenkeel_wire::exchange::shared::{OneProperty, filled};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use jiff::Timestamp;
use serde_json::json;

use super::page_query::Paging;
use super::pages::{self, LARGE_PAGE_ROWS, Page};
use super::reference::WriteWarnings;
use super::shape::{attribute_of, pattern_or_exact, require_below_limit, show_absent_lists};
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::operation::row::{delete, get, post, put};
use crate::operation::{Content, ExchangeRequest, Op, Operation, OrgPath, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::Warned;
use crate::routes::shape::OneOrAttribute;
use crate::{ApiError, Exchange};

const TAG: &str = "management policies";
const LIST: &str = "/orgs/{organization}/managementpolicies";
const ONE: &str = "/orgs/{organization}/managementpolicies/{policy}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get(LIST, "list_management_policies", list_management_policies)
            .doc(TAG, "Lists the management policies of an organization")
            .success("the policies")
            .empty("there is none"),
        get(ONE, "get_management_policy", get_management_policy)
            .doc(TAG, "Reads a management policy, or one attribute of it")
            .success("the policy or the attribute")
            .response_with(
                404,
                "there is none",
                Content::either::<ManagementPoliciesResponse, ApiResponse>(),
            ),
        post(ONE, "create_management_policy", create_management_policy)
            .doc(TAG, "Publishes a management policy")
            .creates()
            .audit(Subject::ManagementPolicy)
            .success("published"),
        put(ONE, "replace_management_policy", replace_management_policy)
            .doc(TAG, "Replaces a management policy; its owner stays")
            .audit(Subject::ManagementPolicy)
            .success("replaced"),
        delete(ONE, "delete_management_policy", delete_management_policy)
            .doc(TAG, "Removes a management policy with the statuses that nodes report for it")
            .audit(Subject::ManagementPolicy)
            .success("removed"),
    ]
}

async fn list_management_policies(
    op: Op<OrgPath, (Query<ManagementPoliciesQuery>, Paging)>,
    _: Permission<right::ManagementPolicyRead>,
) -> Result<List<ManagementPoliciesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: OrgPath { org },
        parameters: (Query(query), paging),
    } = op;
    let filter = ManagementPolicyFilter {
        id: query.idfilter.map(pattern_or_exact),
        owner: query.owner.map(pattern_or_exact),
        label: query.label.map(pattern_or_exact),
        description: query.description.map(pattern_or_exact),
        manifest: query.manifest.map(pattern_or_exact),
    };
    let shape = pages::object(r#"{"managementPolicy":{"#, LARGE_PAGE_ROWS);
    let wanted = Arc::new((org.clone(), filter));
    let counted = (exchange.clone(), wanted.clone());
    let load = move |after, rows| page(exchange.clone(), wanted.clone(), after, rows);
    pages::list_or_page((shape, Some(&org)), paging, load, |most| count(counted, most)).await
}

async fn count(
    (exchange, wanted): (Exchange, Arc<(String, ManagementPolicyFilter)>),
    most: i64,
) -> Result<i64, ApiError> {
    let (org, filter) = &*wanted;
    let count = exchange
        .database()
        .read(async |connection| management_policy::count(connection, org, filter, most).await)
        .await?;
    Ok(count)
}

async fn page(
    exchange: Exchange,
    wanted: Arc<(String, ManagementPolicyFilter)>,
    after: Option<String>,
    rows: i64,
) -> Result<Page<String>, ApiError> {
    let (org, filter) = &*wanted;
    let found = exchange
        .database()
        .read(async |connection| {
            management_policy::list(connection, org, filter, after.as_deref(), rows).await
        })
        .await?;
    Ok(Page::object(found, rows, |row| row.policy.clone(), keyed_response)?)
}

async fn get_management_policy(
    op: Op<ResourcePath, Query<AttributeQuery>>,
    _: Permission<right::ManagementPolicyRead>,
) -> Result<OneOrAttribute<ManagementPoliciesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, .. },
        path: ResourcePath { org, id },
        parameters: Query(query),
    } = op;
    let row = exchange
        .database()
        .read(async |connection| management_policy::find(connection, &org, &id).await)
        .await?;
    let Some(row) = row else {
        let management_policy = BTreeMap::new();
        return match query.attribute {
            Some(_) => Err(absent(&org, &id)),
            None => Ok(Either::First(List::of(
                true,
                ManagementPoliciesResponse { management_policy, ..Default::default() },
            ))),
        };
    };
    if let Some(name) = &query.attribute {
        let response = stored_response(row.clone());
        // The parts of the upgrade are attributes of their own.
        let part = attribute_of(&response.agent_upgrade_policy, name, &[]);
        if let Some(response) = part.or_else(|| attribute_of(&response, name, &[])) {
            return Ok(Either::Second(response));
        }
    }
    let (key, response) = keyed_response(row);
    let management_policy = BTreeMap::from([(key, response)]);
    Ok(Either::First(List::of(false, ManagementPoliciesResponse { management_policy, ..Default::default() })))
}

async fn create_management_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::ManagementPolicyWrite>,
    Body(request): Body<PostManagementPolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    let warnings = warnings(exchange, &request)?;
    let row = row(org, id, &caller.account(), request, exchange.now())?;
    op.write(&permission, "management_policy.create", async |mut tx| {
        lock_owner(&mut tx, &row.owner_org, &row.owner).await?;
        let owned = management_policy::count_owned(&mut tx, &row.owner_org, &row.owner).await?;
        require_below_limit("management policies", owned, exchange.settings().limits.management_policies)?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::ManagementPolicy, org, id).await?;
        management_policy::insert(&mut tx, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "created")])
    })
    .await
    .map_err(|error: ApiError| {
        let exists = || ApiError::exists_forbidden(format!("management policy '{org}/{id}' already exists"));
        error.explain("management_policy_org_policy_key", exists).explain("management_policy_org_fk", || {
            ApiError::not_found(format!("organization '{org}' not found"))
        })
    })?;
    Ok(warnings.on(created(format!("management policy '{org}/{id}' created"))))
}

fn warnings(exchange: &Exchange, request: &PostManagementPolicy) -> Result<WriteWarnings, ApiError> {
    let mut warnings = WriteWarnings::new(exchange);
    warnings.check("constraints", request.constraints.as_deref().unwrap_or_default())?;
    warnings.add(review::properties("properties", &json!({"properties": request.properties})));
    Ok(warnings)
}

async fn replace_management_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::ManagementPolicyWrite>,
    Body(request): Body<PostManagementPolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    let warnings = warnings(exchange, &request)?;
    let row = row(org, id, &caller.account(), request, exchange.now())?;
    op.write(&permission, "management_policy.replace", async |mut tx| {
        let size = SizeBefore::measure(&mut tx, CountedDocument::ManagementPolicy, org, id).await?;
        if !management_policy::update(&mut tx, &row).await? {
            return Err(absent(org, id));
        }
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "modified")])
    })
    .await?;
    Ok(warnings.on(created("management policy updated")))
}

async fn delete_management_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::ManagementPolicyWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "management_policy.delete", async |mut tx| {
        if !management_policy::delete(&mut tx, org, id).await? {
            return Err(absent(org, id));
        }
        tx.finish([change(org, id, "deleted")])
    })
    .await?;
    Ok(NoContent)
}

fn row(
    org: &str,
    id: &str,
    owner: &UserId,
    request: PostManagementPolicy,
    now: Timestamp,
) -> Result<ManagementPolicyRow, ApiError> {
    if request.constraints.is_some() && request.patterns.is_some() {
        // Scripts of clients look for exactly these words.
        return Err(ApiError::invalid_input("you can not specify both constraints and patterns"));
    }
    Ok(ManagementPolicyRow {
        org: org.to_owned(),
        policy: id.to_owned(),
        owner_org: owner.org().to_owned(),
        owner: owner.name().to_owned(),
        description: request.description.unwrap_or_else(|| request.label.clone()),
        label: request.label,
        properties: json!(request.properties),
        constraints: json!(request.constraints),
        patterns: json!(request.patterns),
        is_enabled: request.enabled,
        start: request.start.unwrap_or_else(|| "now".to_owned()),
        start_window: request.start_window.max(0),
        agent_upgrade_policy: json!(request.agent_upgrade_policy.unwrap_or_default()),
        created_at: now,
        updated_at: now,
    })
}

fn keyed_response(row: ManagementPolicyRow) -> (String, ManagementPolicyResponse) {
    let key = format!("{}/{}", row.org, row.policy);
    let mut response = stored_response(row);
    show_absent_lists([&mut response.constraints, &mut response.patterns, &mut response.properties]);
    (key, response)
}

/// The policy with what was never given as `null`.
fn stored_response(row: ManagementPolicyRow) -> ManagementPolicyResponse {
    ManagementPolicyResponse {
        agent_upgrade_policy: filled::<AgentUpgradePolicy>(row.agent_upgrade_policy),
        constraints: row.constraints,
        created: wire_time(row.created_at),
        description: row.description,
        enabled: row.is_enabled,
        label: row.label,
        last_updated: wire_time(row.updated_at),
        owner: format!("{}/{}", row.owner_org, row.owner),
        patterns: row.patterns,
        properties: filled::<Vec<OneProperty>>(row.properties),
        start: row.start,
        start_window: row.start_window,
    }
}

/// Returns the feed record of a change to a management policy.
fn change(org: &str, policy: &str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: policy.to_owned(),
        category: "mgmtpolicy",
        resource: "mgmtpolicy",
        operation,
        is_public: false,
    }
}

fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("management policy '{org}/{id}' not found"))
}
