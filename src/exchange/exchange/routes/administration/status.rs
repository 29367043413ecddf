//! Status pages.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Caller, MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::WholeList;
use evenkeel_exchange_store::organization;
use evenkeel_exchange_store::status::{self, Counts, Scope};
use evenkeel_wire::exchange::administration::{
    AdminStatus, OrganizationStatus, OrganizationsStatus, StatusCounts,
};

use crate::operation::{ExchangeRequest, Op, OrgPath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

const HEALTHY: &str = "Exchange server operating normally";
/// Schema level of the exchange that we are compatible with.
const SCHEMA_LEVEL: i64 = 62;
const HIDDEN: i64 = -1;

pub async fn get_status(op: Op, _: Permission<right::AdminStatus>) -> Result<Json<AdminStatus>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let account = caller.account();
    let mut shared = vec![caller.org.clone(), MULTI_TENANT_ORG.to_owned()];
    shared.dedup();
    let scope = match caller.role {
        Role::Root => Scope::default(),
        Role::HubAdmin => Scope { only_admins: true, ..Scope::default() },
        Role::OrgAdmin | Role::Viewer | Role::Deployer => Scope {
            node_org: Some(&caller.org),
            agbot_orgs: Some(&shared),
            orgs: Some(&shared),
            account_org: Some(&caller.org),
            ..Scope::default()
        },
        _ => Scope {
            node_owner: Some(&account),
            agbot_orgs: Some(&shared),
            orgs: Some(&shared),
            account_org: Some(&caller.org),
            ..Scope::default()
        },
    };
    let counts = exchange.database().read(async |connection| status::count(connection, &scope).await).await?;
    Ok(Json(AdminStatus { db_schema_version: schema_level(&caller), counts: shown(&caller, counts) }))
}

pub async fn get_organization_status(
    op: Op<OrgPath>,
    _: Permission<right::OrgRead>,
) -> Result<Json<OrganizationStatus>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    let database = exchange.database();
    let found_org =
        database.read(async |connection| organization::find_organization(connection, &org).await).await?;
    if found_org.is_none() {
        return Err(ApiError::not_found(format!("organization '{org}' not found")));
    }
    let owner = caller.visible_owner();
    let only = [org.clone()];
    let scope = Scope {
        node_org: Some(&org),
        node_owner: owner.as_ref(),
        node: (caller.role == Role::Node).then_some(caller.id.as_str()),
        agbot_orgs: Some(&only),
        orgs: Some(&only),
        account_org: Some(&org),
        only_admins: caller.role == Role::HubAdmin,
    };
    let counts = database.read(async |connection| status::count(connection, &scope).await).await?;
    Ok(Json(OrganizationStatus { counts: shown(&caller, counts), schema_version: schema_level(&caller) }))
}

pub async fn get_organizations_status(
    op: Op,
    _: Permission<right::AdminOrgStatus>,
) -> Result<WholeList<OrganizationsStatus>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, .. } = op;
    let shared = [caller.org.clone(), MULTI_TENANT_ORG.to_owned()];
    let is_of_org = matches!(caller.role, Role::OrgAdmin | Role::Viewer | Role::Deployer);
    let only = is_of_org.then(|| Arc::new(shared));
    let is_hidden = caller.role == Role::HubAdmin;
    let open = r#"{"msg":"Exchange server operating normally","nodes":{"#;
    pages::list(open, "}}", move |after: Option<String>| {
        count_page(exchange.clone(), only.clone(), is_hidden, after)
    })
    .await
}

async fn count_page(
    exchange: Exchange,
    only: Option<Arc<[String; 2]>>,
    is_hidden: bool,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let (only, after) = (only.as_deref().map(<[String; 2]>::as_slice), after.as_deref());
    let counts = exchange
        .database()
        .read(async |connection| status::count_nodes_by_org(connection, only, after, PAGE_ROWS).await)
        .await?;
    let shown = |(org, nodes)| (org, if is_hidden { HIDDEN } else { nodes });
    Ok(Page::object(counts, PAGE_ROWS, |(org, _): &(String, _)| org.clone(), shown)?)
}

fn schema_level(caller: &Caller) -> i64 {
    if matches!(caller.role, Role::Root | Role::HubAdmin) { SCHEMA_LEVEL } else { HIDDEN }
}

/// Counts with those hidden that the caller may not know.
///
/// # Source
/// Exchange-api 4.1 (table of scopes).
fn shown(caller: &Caller, counts: Counts) -> StatusCounts {
    let sees_nodes = caller.role != Role::HubAdmin;
    let of_nodes = |count: i64| if sees_nodes { count } else { HIDDEN };
    StatusCounts {
        msg: HEALTHY.to_owned(),
        number_of_agbot_agreements: counts.agbot_agreements,
        number_of_agbot_msgs: counts.agbot_messages,
        number_of_agbots: counts.agbots,
        number_of_node_agreements: of_nodes(counts.node_agreements),
        number_of_node_msgs: of_nodes(counts.node_messages),
        number_of_nodes: of_nodes(counts.nodes),
        number_of_organizations: counts.organizations,
        number_of_registered_nodes: sees_nodes.then_some(counts.registered_nodes),
        number_of_unregistered_nodes: sees_nodes.then_some(counts.nodes - counts.registered_nodes),
        number_of_users: match caller.role {
            Role::User => 1,
            Role::Node | Role::Agbot | Role::UnapprovedAgbot => HIDDEN,
            _ => counts.accounts,
        },
    }
}
