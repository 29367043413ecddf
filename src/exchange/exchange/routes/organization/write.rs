//! Writes of organizations.

use evenkeel_access::{MULTI_TENANT_ORG, Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::organization::{self, Organization};
use evenkeel_wire::exchange::organization::{OrganizationLimits, PatchOrganization, PutOrganization};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Created, created};
use crate::extract::Body;
use crate::notice::forget_login;
use crate::operation::authorize::authorized;
use crate::operation::{ExchangeRequest, Op, OrgPath};
use crate::routes::reference::check_new_name;
use crate::{ApiError, Exchange};

pub async fn create_organization(
    op: Op<OrgPath>,
    permission: Permission<right::OrgCreate>,
    Body(request): Body<PutOrganization>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = &op;
    check_new_name(exchange, "org id", org)?;
    check(&op, request.org_type.as_deref(), request.limits).await?;
    let organization = stored(exchange, org, request);
    op.write(&permission, "organization.create", async |mut tx| {
        organization::insert_organization(&mut tx, &organization).await.map_err(|error| {
            ApiError::from(error).explain("organization_org_key", || {
                ApiError::conflict(format!("organization '{org}' already exists"))
            })
        })?;
        tx.finish([change(org, "created")])
    })
    .await?;
    Ok(created(format!("org '{org}' created")))
}

pub async fn replace_organization(
    op: Op<OrgPath>,
    permission: Permission<right::OrgChange>,
    Body(request): Body<PutOrganization>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = &op;
    check(&op, request.org_type.as_deref(), request.limits).await?;
    let organization = stored(exchange, org, request);
    op.write(&permission, "organization.replace", async |mut tx| {
        if !organization::update_organization(&mut tx, &organization).await? {
            return Err(absent(org));
        }
        tx.finish([change(org, "created/modified")])
    })
    .await?;
    Ok(created("org updated"))
}

pub async fn patch_organization(
    op: Op<OrgPath>,
    permission: Permission<right::OrgChange>,
    Body(request): Body<PatchOrganization>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = &op;
    check(&op, request.org_type.as_deref(), request.limits).await?;
    let name = attribute_to_change(&request)
        .ok_or_else(|| ApiError::invalid_input("no attribute of an organization is given"))?;
    op.write(&permission, "organization.patch", async |mut tx| {
        let mut stored = organization::lock_organization(&mut tx, org).await?.ok_or_else(|| absent(org))?;
        apply(&mut stored, name, request.clone());
        stored.updated_at = exchange.now();
        organization::update_organization(&mut tx, &stored).await?;
        tx.finish([change(org, "modified")])
    })
    .await?;
    Ok(created(format!("attribute '{name}' of org '{org}' updated")))
}

pub async fn delete_organization(
    op: Op<OrgPath>,
    permission: Permission<right::OrgDelete>,
) -> Result<NoContent, ApiError> {
    let Op { path: OrgPath { org }, .. } = &op;
    op.write(&permission, "organization.delete", async |mut tx| {
        if !organization::delete_organization(&mut tx, org).await? {
            return Err(absent(org));
        }
        tx.finish([change(org, "deleted"), forget_login(org, "*")])
    })
    .await?;
    Ok(NoContent)
}

/// Checks the type and the limits of an organization against the contract.
async fn check(
    op: &Op<OrgPath>,
    org_type: Option<&str>,
    limits: Option<OrganizationLimits>,
) -> Result<(), ApiError> {
    if org_type == Some(MULTI_TENANT_ORG) {
        let _: Permission<right::OrgSetSharedType> = authorized(op).await?;
    }
    let most = op.exchange.settings().limits.nodes;
    match limits {
        Some(limits) if limits.max_nodes > most => Err(ApiError::invalid_input(format!(
            "limits.maxNodes: {} is more than this exchange allows, {most}",
            limits.max_nodes
        ))),
        _ => Ok(()),
    }
}

fn stored(exchange: &Exchange, org: &str, request: PutOrganization) -> Organization {
    Organization {
        org: org.to_owned(),
        org_type: request.org_type.unwrap_or_default(),
        label: request.label,
        description: request.description,
        tags: request.tags.map(Value::Object),
        limits: request.limits.map(json),
        heartbeat_intervals: request.heartbeat_intervals.map(json),
        updated_at: exchange.now(),
    }
}

/// Name of the first attribute given, in the order of the contract.
fn attribute_to_change(request: &PatchOrganization) -> Option<&'static str> {
    let given = [
        ("orgType", request.org_type.is_some()),
        ("label", request.label.is_some()),
        ("description", request.description.is_some()),
        ("heartbeatIntervals", request.heartbeat_intervals.is_some()),
        ("tags", request.tags.is_some()),
        ("limits", request.limits.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}

fn apply(stored: &mut Organization, name: &str, request: PatchOrganization) {
    match name {
        "orgType" => stored.org_type = request.org_type.unwrap_or_default(),
        "label" => stored.label = request.label.unwrap_or_default(),
        "description" => stored.description = request.description.unwrap_or_default(),
        "heartbeatIntervals" => stored.heartbeat_intervals = request.heartbeat_intervals.map(json),
        "tags" => stored.tags = request.tags.map(Value::Object),
        _ => stored.limits = request.limits.map(json),
    }
}

fn json<T: Serialize>(part: T) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

pub(super) fn absent(org: &str) -> ApiError {
    ApiError::not_found(format!("organization '{org}' not found"))
}

fn change(org: &str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: org.to_owned(),
        category: "org",
        resource: "org",
        operation,
        is_public: false,
    }
}
