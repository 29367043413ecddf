//! Publishing, replacing and removing services.

use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_domain::review;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::node_limit::lock_owner;
use evenkeel_exchange_store::referenced_service::{self, ServiceReference};
use evenkeel_exchange_store::service::{self, ServiceRow};
use evenkeel_ids::UserId;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::service::{PostService, RequiredService};
use jiff::Timestamp;
use serde_json::json;

use super::change;
use super::get::absent;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{
    ExchangeRange, ExchangeVersion, Warned, WriteWarnings, require_version, service_id, service_id_base,
};
use crate::routes::shape::require_below_limit;
use crate::{ApiError, Exchange};

const SHARABLE: &[&str] = &["exclusive", "single", "singleton", "multiple"];
/// Schemes of an address of a page.
const SCHEMES: &[&str] = &["http", "https", "ftp", "file", "jar", "mailto"];

pub(super) async fn create_service(
    op: Op<OrgPath>,
    permission: Permission<right::ServiceCreate>,
    Body(request): Body<PostService>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = &op;
    validate(&request)?;
    let row = row(org, &caller.account(), &request, exchange.now());
    let id = format!("{org}/{}", row.service);
    op.write(&permission, "service.create", async |mut tx| {
        tx.set_subject(Subject::Service.of(org, &row.service)).await?;
        require_required_services(&mut tx, request.required_services.as_deref().unwrap_or_default()).await?;
        lock_owner(&mut tx, &row.owner_org, &row.owner).await?;
        let owned = service::count_owned(&mut tx, &row.owner_org, &row.owner).await?;
        require_below_limit("services", owned, exchange.settings().limits.services)?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::Service, org, &row.service).await?;
        service::insert(&mut tx, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, &row.service).await?;
        tx.finish([change(org, &row.service, "service", "created", row.is_public)])
    })
    .await
    .map_err(|error| explain(error, org, &id))?;
    Ok(warnings(exchange, &request).on(created(format!("service '{id}' created"))))
}

fn warnings(exchange: &Exchange, request: &PostService) -> WriteWarnings {
    let mut warnings = WriteWarnings::new(exchange);
    warnings.add(review::service(&json!(request)));
    warnings
}

fn explain(error: ApiError, org: &str, id: &str) -> ApiError {
    error
        .explain("service_org_service_key", || {
            ApiError::exists_forbidden(format!("service '{id}' already exists"))
        })
        .explain("service_org_fk", || ApiError::not_found(format!("organization '{org}' not found")))
}

pub(super) async fn replace_service(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
    Body(request): Body<PostService>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    validate(&request)?;
    let row = row(org, &caller.account(), &request, exchange.now());
    if row.service != *id {
        return Err(ApiError::invalid_input(format!(
            "the id '{id}' in the path is not the one that url, version and arch make: '{}'",
            row.service
        )));
    }
    op.write(&permission, "service.replace", async |mut tx| {
        require_required_services(&mut tx, request.required_services.as_deref().unwrap_or_default()).await?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::Service, org, id).await?;
        if !service::update(&mut tx, &row).await? {
            return Err(absent(org, id));
        }
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "service", "created/modified", row.is_public)])
    })
    .await?;
    Ok(warnings(exchange, &request).on(created("service updated")))
}

pub(super) async fn delete_service(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "service.delete", async |mut tx| {
        let is_public = service::delete(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        tx.finish([change(org, id, "service", "deleted", is_public)])
    })
    .await?;
    Ok(NoContent)
}

fn row(org: &str, owner: &UserId, request: &PostService, now: Timestamp) -> ServiceRow {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ServiceRow {
        org: org.to_owned(),
        service: service_id(&request.url, &request.version, &request.arch),
        owner_org: owner.org().to_owned(),
        owner: owner.name().to_owned(),
        label: request.label.clone(),
        description: request.description.clone().unwrap_or_else(|| request.label.clone()),
        is_public: request.public,
        documentation: text(&request.documentation),
        url: request.url.clone(),
        version: request.version.clone(),
        arch: request.arch.clone(),
        sharable: request.sharable.clone(),
        match_hardware: json!(request.match_hardware),
        required_services: json!(request.required_services),
        user_input: json!(request.user_input),
        deployment: text(&request.deployment),
        deployment_signature: text(&request.deployment_signature),
        cluster_deployment: text(&request.cluster_deployment),
        cluster_deployment_signature: text(&request.cluster_deployment_signature),
        image_store: json!(request.image_store),
        updated_at: now,
    }
}

/// The rules that need no query of the store.
///
/// # Source
/// Exchange-api 4.6 (validation), 11.2 (an empty url is refused).
fn validate(request: &PostService) -> Result<(), ApiError> {
    if request.url.is_empty() {
        return Err(ApiError::invalid_input("url must not be empty"));
    }
    require_version("version", &request.version)?;
    if request.arch.is_empty() {
        return Err(ApiError::invalid_input("arch must not be empty"));
    }
    require_sharable(&request.sharable)?;
    if let Some(address) = request.documentation.as_deref().filter(|address| !address.is_empty()) {
        let is_address = address
            .split_once(':')
            .is_some_and(|(scheme, _)| SCHEMES.contains(&scheme.to_lowercase().as_str()));
        if !is_address {
            return Err(ApiError::invalid_input(format!("documentation '{address}' is not a URL")));
        }
    }
    require_signature("deployment", request.deployment.as_ref(), request.deployment_signature.as_ref())?;
    require_signature(
        "clusterDeployment",
        request.cluster_deployment.as_ref(),
        request.cluster_deployment_signature.as_ref(),
    )?;
    for required in request.required_services.iter().flatten() {
        if required.arch != request.arch {
            return Err(ApiError::invalid_input(format!(
                "required service '{}' has arch '{}', but this service has arch '{}'",
                required.url, required.arch, request.arch
            )));
        }
    }
    Ok(())
}

pub(super) fn require_sharable(sharable: &str) -> Result<(), ApiError> {
    if SHARABLE.contains(&sharable) {
        return Ok(());
    }
    Err(ApiError::invalid_input(format!("sharable '{sharable}' is none of: {}", SHARABLE.join(", "))))
}

fn require_signature(
    name: &str,
    content: Option<&String>,
    signature: Option<&String>,
) -> Result<(), ApiError> {
    let is_given = |text: Option<&String>| text.is_some_and(|text| !text.is_empty());
    if is_given(content) && !is_given(signature) {
        return Err(ApiError::invalid_input(format!(
            "this service definition is not signed: {name} needs a {name}Signature"
        )));
    }
    Ok(())
}

/// Requires that each required service exists with a version in its range.
pub(super) async fn require_required_services(
    conn: &mut PgConnection,
    required: &[RequiredService],
) -> Result<(), ApiError> {
    if required.is_empty() {
        return Ok(());
    }
    let references: Vec<ServiceReference> = required
        .iter()
        .map(|required| ServiceReference {
            org: required.org.clone(),
            url: required.url.clone(),
            id_base: service_id_base(&required.url),
            arch: Some(required.arch.clone()),
            version: None,
        })
        .collect();
    let mut is_found = vec![false; required.len()];
    for (position, version) in referenced_service::list_versions(conn, &references).await? {
        let range = range_text(&required[position]).and_then(ExchangeRange::parse);
        let version = ExchangeVersion::parse(&version);
        is_found[position] |= range.zip(version).is_some_and(|(range, version)| range.contains(version));
    }
    match is_found.iter().position(|is_found| !is_found) {
        None => Ok(()),
        Some(position) => Err(not_found(&required[position])),
    }
}

fn range_text(required: &RequiredService) -> Option<&str> {
    required.version_range.as_deref().or(required.version.as_deref())
}

fn not_found(required: &RequiredService) -> ApiError {
    let Some(range) = range_text(required) else {
        return ApiError::invalid_input(format!("required service '{}' needs a versionRange", required.url));
    };
    ApiError::invalid_input(format!(
        "the required service org={}, url={}, arch={} does not exist with a version in '{range}'",
        required.org, required.url, required.arch
    ))
}
