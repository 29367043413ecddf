//! Publishing, replacing and removing deployment policies.

use std::iter;

use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::deployment_policy::{self, DeploymentPolicyRow};
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::node_limit::lock_owner;
use evenkeel_exchange_store::referenced_service::ServiceReference;
use evenkeel_ids::UserId;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::deployment_policy::{DeployedService, PostDeploymentPolicy, RemovalQuery};
use evenkeel_wire::exchange::shared::default_node_health;
use jiff::Timestamp;
use serde_json::json;

use super::orchestration::{
    findings, require_agents, require_interval, require_lifecycles, require_no_cycle, require_same_form,
    stored_orchestration,
};
use super::{absent, change, extent};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::visibility::POLICY_REMOVAL;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::plan_approval::gate::{GatedRequest, GatedWrite, GivenApproval};
use crate::routes::reference::{
    Warned, WriteWarnings, require_services, require_user_input, require_version, seen_from, service_id_base,
};
use crate::routes::shape::require_below_limit;
use evenkeel_domain::orchestration::health_policy::Target;

pub(super) async fn create_deployment_policy(
    op: Op<ResourcePath, GivenApproval>,
    permission: Permission<right::DeploymentPolicyCreate>,
    Body(request): Body<PostDeploymentPolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: given,
    } = &op;
    validate_service(&request.service)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.check("constraints", request.constraints.as_deref().unwrap_or_default())?;
    let row = row(org, id, &caller.account(), &request, exchange.now())?;
    warnings.add(findings(exchange, (org, id), &json!(request)).await?);
    let short = op
        .write(&permission, "deployment_policy.create", async |mut tx| {
            let written = GatedWrite::Policy { policy: id, document: &request, before: None };
            let used = given.require(&mut tx, &GatedRequest { exchange, caller, org }, &written).await?;
            require_references(&mut tx, &request, seen_from(caller, org)).await?;
            lock_owner(&mut tx, &row.owner_org, &row.owner).await?;
            let owned = deployment_policy::count_owned(&mut tx, &row.owner_org, &row.owner).await?;
            require_below_limit(
                "deployment policies",
                owned,
                exchange.settings().limits.deployment_policies,
            )?;
            require_interval(&mut tx, org, row.orchestration.as_ref(), Target::Workload).await?;
            require_no_cycle(&mut tx, (org, id), row.orchestration.as_ref()).await?;
            let size = SizeBefore::measure(&mut tx, CountedDocument::DeploymentPolicy, org, id).await?;
            deployment_policy::insert(&mut tx, &row).await?;
            size.require_room(&mut tx, &exchange.settings(), org, id).await?;
            let short = extent::warnings(&mut tx, (org, id), row.orchestration.as_ref()).await?;
            tx.finish_with(iter::once(change(org, id, "created")).chain(used), short)
        })
        .await
        .map_err(|error: ApiError| {
            let exists =
                || ApiError::exists_forbidden(format!("business policy '{org}/{id}' already exists"));
            error
                .explain("deployment_policy_org_policy_key", exists)
                .explain("deployment_policy_org_fk", || {
                    ApiError::not_found(format!("organization '{org}' not found"))
                })
        })?;
    Ok(warnings.on_with(created(format!("business policy '{org}/{id}' created")), short))
}

pub(super) async fn replace_deployment_policy(
    op: Op<ResourcePath, GivenApproval>,
    permission: Permission<right::DeploymentPolicyWrite>,
    Body(request): Body<PostDeploymentPolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: given,
    } = &op;
    validate_service(&request.service)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.check("constraints", request.constraints.as_deref().unwrap_or_default())?;
    let row = row(org, id, &caller.account(), &request, exchange.now())?;
    warnings.add(findings(exchange, (org, id), &json!(request)).await?);
    let short = op
        .write(&permission, "deployment_policy.replace", async |mut tx| {
            require_references(&mut tx, &request, seen_from(caller, org)).await?;
            let stored = deployment_policy::lock(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
            let written =
                GatedWrite::Policy { policy: id, document: &request, before: Some(stored.updated_at) };
            let used = given.require(&mut tx, &GatedRequest { exchange, caller, org }, &written).await?;
            let (before, after) = (stored.orchestration.as_ref(), row.orchestration.as_ref());
            require_same_form(&mut tx, (org, id), before, after).await?;
            require_interval(&mut tx, org, after, Target::Workload).await?;
            require_agents(&mut tx, (org, id), after).await?;
            require_no_cycle(&mut tx, (org, id), after).await?;
            let size = SizeBefore::measure(&mut tx, CountedDocument::DeploymentPolicy, org, id).await?;
            deployment_policy::update(&mut tx, &row).await?;
            size.require_room(&mut tx, &exchange.settings(), org, id).await?;
            let short = extent::warnings(&mut tx, (org, id), after).await?;
            tx.finish_with(iter::once(change(org, id, "created/modified")).chain(used), short)
        })
        .await?;
    Ok(warnings.on_with(created("business policy updated"), short))
}

pub(super) async fn delete_deployment_policy(
    op: Op<ResourcePath, (Query<RemovalQuery>, GivenApproval)>,
    permission: Permission<right::DeploymentPolicyWrite>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: (Query(query), given),
    } = &op;
    let is_forced = query.force == Some(true);
    op.write(&permission, "deployment_policy.delete", async |mut tx| {
        let stored = deployment_policy::lock(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        let written = GatedWrite::Removal { policy: id, before: Some(stored.updated_at) };
        let used = given.require(&mut tx, &GatedRequest { exchange, caller, org }, &written).await?;
        if !deployment_policy::delete(&mut tx, org, id).await? {
            return Err(absent(org, id));
        }
        let deleted = change(org, id, "deleted");
        let forced = is_forced.then(|| Change { resource: POLICY_REMOVAL, ..deleted.clone() });
        tx.finish(iter::once(deleted).chain(forced).chain(used))
    })
    .await?;
    Ok(NoContent)
}

fn row(
    org: &str,
    id: &str,
    owner: &UserId,
    request: &PostDeploymentPolicy,
    now: Timestamp,
) -> Result<DeploymentPolicyRow, ApiError> {
    let orchestration = request.orchestration.as_ref();
    let mut service = request.service.clone();
    service.node_health.get_or_insert_with(default_node_health);
    let row = DeploymentPolicyRow {
        org: org.to_owned(),
        policy: id.to_owned(),
        owner_org: owner.org().to_owned(),
        owner: owner.name().to_owned(),
        label: request.label.clone(),
        description: request.description.clone().unwrap_or_else(|| request.label.clone()),
        service: json!(service),
        user_input: json!(request.user_input),
        secret_binding: json!(request.secret_binding),
        properties: json!(request.properties),
        constraints: json!(request.constraints),
        orchestration: orchestration.map(|document| stored_orchestration(org, id, document)).transpose()?,
        created_at: now,
        updated_at: now,
    };
    require_lifecycles(&row)?;
    Ok(row)
}

/// The rules of the deployed service that need no query of the store.
///
/// # Source
/// Exchange-api 4.8 (validation).
pub(super) fn validate_service(service: &DeployedService) -> Result<(), ApiError> {
    if service.service_versions.is_empty() {
        return Err(ApiError::invalid_input(format!("no versions specified for service '{}'", service.name)));
    }
    service.service_versions.iter().try_for_each(|version| {
        let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if is_given(&version.deployment_overrides) && !is_given(&version.deployment_overrides_signature) {
            return Err(ApiError::invalid_input(
                "the policy is not signed: deployment_overrides needs a deployment_overrides_signature",
            ));
        }
        require_version("version", &version.version)
    })
}

async fn require_references(
    conn: &mut PgConnection,
    request: &PostDeploymentPolicy,
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    require_deployed_service(conn, &request.service, seen_from).await?;
    require_user_input(conn, request.user_input.as_deref().unwrap_or_default(), seen_from).await
}

/// Requires every version of the deployed service, in any architecture when none is named.
pub(super) async fn require_deployed_service(
    conn: &mut PgConnection,
    service: &DeployedService,
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    let arch = Some(service.arch.clone()).filter(|arch| !matches!(arch.as_str(), "" | "*"));
    let references: Vec<ServiceReference> = service
        .service_versions
        .iter()
        .map(|version| ServiceReference {
            org: service.org.clone(),
            url: service.name.clone(),
            id_base: service_id_base(&service.name),
            arch: arch.clone(),
            version: Some(version.version.clone()),
        })
        .collect();
    require_services(conn, &references, seen_from).await
}
