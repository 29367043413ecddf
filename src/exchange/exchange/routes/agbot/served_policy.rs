//! The deployment policies that an agbot serves.
//!
//! Source: exchange-api 4.5.

use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_api::List;
use evenkeel_exchange_store::audit_state;
use evenkeel_exchange_store::served_entry::{ServedFilter, ServedRow, Subject};
use evenkeel_wire::exchange::agbot::{
    PostServedPolicy, ServedPoliciesQuery, ServedPoliciesResponse, ServedPolicy,
};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;

use super::served_entry::{self, Kind, require_addable};
use crate::ApiError;
use crate::error::Created;
use crate::extract::{Body, Query};
use crate::operation::row::{delete, get, post};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::page_query::Paging;
use crate::routes::shape::pattern_or_exact;

const TAG: &str = "agbot policy";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/businesspols";
const ALL_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/policy";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/businesspols/{entry}";
const ONE_ALIAS: &str = "/orgs/{organization}/agbots/{agreementbot}/deployment/policy/{entry}";

/// Served deployment policies.
struct ServedPolicies;

impl Kind for ServedPolicies {
    const SUBJECT: Subject = Subject::Policy;
    const OPEN: &'static str = r#"{"businessPols":{"#;
    const WORDS: [&'static str; 2] = ["businessPol", "deployment policies"];
    const RESOURCE: &'static str = "agbotbusinesspols";
    const TRANSACTIONS: [&'static str; 2] = ["served_policy.create", "served_policy.delete"];
    const CONSTRAINTS: [&'static str; 2] = ["agbot_policy_org_agbot_entry_key", "agbot_policy_agbot_fk"];
    type List = ServedPoliciesResponse;
    type Entry = ServedPolicy;

    fn shape(row: ServedRow) -> ServedPolicy {
        ServedPolicy {
            business_pol_orgid: row.subject_org,
            business_pol: row.subject,
            last_updated: wire_time(row.updated_at),
            node_orgid: row.node_org,
        }
    }
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_served_policies", list_policies)
            .alias(ALL_ALIAS)
            .doc(TAG, "Lists the deployment policies that an agbot serves")
            .success("the deployment policies")
            .empty("there is none"),
        post(ALL, "create_served_policy", create_policy)
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve a deployment policy")
            .audit(audit_state::Subject::AgbotPolicy)
            .success("added")
            .response::<ApiResponse>(409, "it is served already"),
        delete(ALL, "delete_served_policies", served_entry::delete_entries::<ServedPolicies>)
            .alias(ALL_ALIAS)
            .doc(TAG, "Makes an agbot serve no deployment policies")
            .audit(audit_state::Subject::AgbotPolicy)
            .success("removed"),
        get(ONE, "get_served_policy", served_entry::get_entry::<ServedPolicies>)
            .alias(ONE_ALIAS)
            .doc(TAG, "Returns one of the deployment policies that an agbot serves")
            .success("the entry")
            .empty("it is not there"),
        delete(ONE, "delete_served_policy", served_entry::delete_entry::<ServedPolicies>)
            .alias(ONE_ALIAS)
            .doc(TAG, "Makes an agbot no longer serve one of the deployment policies")
            .audit(audit_state::Subject::AgbotPolicy)
            .success("removed"),
    ]
}

async fn list_policies(
    op: Op<ResourcePath, (Query<ServedPoliciesQuery>, Paging)>,
    _: Permission<right::AgbotRead>,
) -> Result<List<ServedPoliciesResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path, parameters: (Query(query), paging) } =
        op;
    let filter = ServedFilter {
        entry: None,
        subject: query.deployment_policy.map(pattern_or_exact),
        subject_org: query.deployment_policy_organization.map(pattern_or_exact),
        node_org: query.node_organization.map(pattern_or_exact),
        is_confirmed: query.confirmed == Some(true),
    };
    served_entry::read::<ServedPolicies>(exchange, &caller, path, filter, paging).await
}

async fn create_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PostServedPolicy>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, .. }, .. } = &op;
    require_addable(caller, org)?;
    check_orgs(caller, &request)?;
    let PostServedPolicy { business_pol_orgid: policy_org, business_pol: policy, node_orgid } = request;
    let key_org = node_orgid.clone().unwrap_or_else(|| policy_org.clone());
    // Without an organization of the nodes the reference shows the policy's name in its place, and so do the recorded
    // conversations; clients of the product always send it. What is confirmed is what is stored.
    let node_org = node_orgid.unwrap_or_else(|| policy.clone());
    let row = ServedRow {
        entry: format!("{policy_org}_{policy}_{key_org}"),
        confirmed_by: None,
        node_org,
        subject_org: policy_org,
        subject: policy,
        updated_at: exchange.now(),
    };
    served_entry::create::<ServedPolicies>(&op, &permission, &row, &key_org).await
}

/// Only administrators of every organization may name another one than their own.
fn check_orgs(caller: &Caller, request: &PostServedPolicy) -> Result<(), ApiError> {
    let is_everywhere = matches!(caller.role, Role::Root | Role::HubAdmin) || caller.is_multi_tenant();
    let is_own = |org: &str| org == caller.org;
    if is_everywhere
        || (is_own(&request.business_pol_orgid) && request.node_orgid.as_deref().is_none_or(is_own))
    {
        return Ok(());
    }
    Err(ApiError::access_denied(format!(
        "policies and nodes must be of your own organization '{}'",
        caller.org
    )))
}
