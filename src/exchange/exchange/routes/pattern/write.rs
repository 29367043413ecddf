//! Publishing, replacing and removing patterns.

use evenkeel_access::{Caller, MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::NoContent;
use evenkeel_domain::review;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::node_limit::lock_owner;
use evenkeel_exchange_store::pattern::{self, PatternRow};
use evenkeel_exchange_store::referenced_service::ServiceReference;
use evenkeel_ids::UserId;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::pattern::{PatternService, PostPattern};
use evenkeel_wire::exchange::shared::default_node_health;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{absent, change};
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{
    Warned, WriteWarnings, require_services, require_user_input, require_version, seen_from, service_id_base,
};
use crate::routes::shape::require_below_limit;
use crate::{ApiError, Exchange};

pub(super) async fn create_pattern(
    op: Op<ResourcePath>,
    permission: Permission<right::PatternCreate>,
    Body(request): Body<PostPattern>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    validate(&request)?;
    let row = row(org, id, &caller.account(), &request, exchange.now());
    let warnings = warnings(exchange, &request);
    // Access control admits unauthenticated clients here only when the id is that of a public pattern.
    let is_foreign = caller.role != Role::Root && caller.org != *org;
    op.write(&permission, "pattern.create", async |mut tx| {
        require_references(&mut tx, caller, org, &request).await?;
        if is_foreign {
            return Err(exists(org, id));
        }
        lock_owner(&mut tx, &row.owner_org, &row.owner).await?;
        let owned = pattern::count_owned(&mut tx, &row.owner_org, &row.owner).await?;
        require_below_limit("patterns", owned, exchange.settings().limits.patterns)?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::Pattern, org, id).await?;
        pattern::insert(&mut tx, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "created", row.is_public)])
    })
    .await
    .map_err(|error: ApiError| {
        error
            .explain("pattern_org_pattern_key", || exists(org, id))
            .explain("pattern_org_fk", || ApiError::not_found(format!("organization '{org}' not found")))
    })?;
    Ok(warnings.on(created(format!("pattern '{org}/{id}' created"))))
}

fn warnings(exchange: &Exchange, request: &PostPattern) -> WriteWarnings {
    let mut warnings = WriteWarnings::new(exchange);
    warnings.add(review::pattern(&json!(request)));
    warnings
}

fn exists(org: &str, id: &str) -> ApiError {
    ApiError::exists_forbidden(format!("pattern '{org}/{id}' already exists"))
}

pub(super) async fn replace_pattern(
    op: Op<ResourcePath>,
    permission: Permission<right::PatternWrite>,
    Body(request): Body<PostPattern>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    validate(&request)?;
    let row = row(org, id, &caller.account(), &request, exchange.now());
    op.write(&permission, "pattern.replace", async |mut tx| {
        require_references(&mut tx, caller, org, &request).await?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::Pattern, org, id).await?;
        if !pattern::update(&mut tx, &row).await? {
            return Err(absent(org, id));
        }
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "created/modified", row.is_public)])
    })
    .await?;
    Ok(warnings(exchange, &request).on(created("pattern updated")))
}

pub(super) async fn delete_pattern(
    op: Op<ResourcePath>,
    permission: Permission<right::PatternWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "pattern.delete", async |mut tx| {
        let is_public = pattern::delete(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        tx.finish([change(org, id, "deleted", is_public)])
    })
    .await?;
    Ok(NoContent)
}

fn row(org: &str, id: &str, owner: &UserId, request: &PostPattern, now: Timestamp) -> PatternRow {
    let mut services = request.services.clone();
    for service in &mut services {
        service.node_health.get_or_insert_with(default_node_health);
    }
    let basic = || vec![json!({"name": "Basic"})];
    PatternRow {
        org: org.to_owned(),
        pattern: id.to_owned(),
        owner_org: owner.org().to_owned(),
        owner: owner.name().to_owned(),
        label: request.label.clone(),
        description: request.description.clone().unwrap_or_else(|| request.label.clone()),
        is_public: request.public,
        services: json!(services),
        user_input: json!(request.user_input),
        secret_binding: json!(request.secret_binding),
        agreement_protocols: Value::Array(request.agreement_protocols.clone().unwrap_or_else(basic)),
        cluster_namespace: request.cluster_namespace.clone().unwrap_or_default(),
        updated_at: now,
    }
}

/// The rules that need no query of the store.
///
/// # Source
/// Exchange-api 4.7 (validation).
fn validate(request: &PostPattern) -> Result<(), ApiError> {
    if request.services.is_empty() {
        return Err(ApiError::invalid_input("services must hold at least one service"));
    }
    validate_services(&request.services)
}

/// Validates each service that a pattern names.
pub(super) fn validate_services(services: &[PatternService]) -> Result<(), ApiError> {
    for service in services {
        if service.service_versions.is_empty() {
            return Err(ApiError::invalid_input(format!(
                "no versions specified for service '{}'",
                service.service_url
            )));
        }
        for version in &service.service_versions {
            require_version("version", &version.version)?;
            let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
            if is_given(&version.deployment_overrides) && !is_given(&version.deployment_overrides_signature) {
                return Err(ApiError::invalid_input(
                    "this pattern definition is not signed: deployment_overrides needs a deployment_overrides_signature",
                ));
            }
        }
    }
    Ok(())
}

async fn require_references(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    request: &PostPattern,
) -> Result<(), ApiError> {
    if request.public {
        require_shared_type(conn, org).await?;
    }
    let seen_from = seen_from(caller, org);
    require_deployed_services(conn, &request.services, seen_from).await?;
    require_user_input(conn, request.user_input.as_deref().unwrap_or_default(), seen_from).await
}

/// Only organizations of the shared type may publish patterns for all.
pub(super) async fn require_shared_type(conn: &mut PgConnection, org: &str) -> Result<(), ApiError> {
    match pattern::find_org_type(conn, org).await? {
        None => Err(ApiError::not_found(format!("organization '{org}' not found"))),
        Some(org_type) if org_type == MULTI_TENANT_ORG => Ok(()),
        Some(_) => Err(ApiError::invalid_input("only IBM patterns can be made public")),
    }
}

/// Requires every version of every service, exactly.
pub(super) async fn require_deployed_services(
    conn: &mut PgConnection,
    services: &[PatternService],
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    let references: Vec<ServiceReference> = services
        .iter()
        .flat_map(|service| {
            service.service_versions.iter().map(|version| ServiceReference {
                org: service.service_orgid.clone(),
                url: service.service_url.clone(),
                id_base: service_id_base(&service.service_url),
                arch: Some(service.service_arch.clone()),
                version: Some(version.version.clone()),
            })
        })
        .collect();
    require_services(conn, &references, seen_from).await
}
