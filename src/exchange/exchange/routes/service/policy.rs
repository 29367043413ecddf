//! The policy of a service.
use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_domain::review;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::service::lock_visibility;
use evenkeel_exchange_store::service_part::{self, ServicePolicyRow};
use evenkeel_wire::exchange::service::{PutServicePolicy, ServicePolicyResponse};
use evenkeel_wire::exchange::shared::{OneProperty, filled};
use evenkeel_wire::exchange::time::wire_time;
use serde_json::json;

use super::change;
use super::get::absent;
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{Warned, WriteWarnings, require_property_types};

pub(super) async fn get_service_policy(
    op: Op<ResourcePath>,
    _: Permission<right::ServiceRead>,
) -> Result<Json<ServicePolicyResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let row = exchange
        .database()
        .read(async |connection| service_part::find_policy(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(Json(ServicePolicyResponse {
        label: row.label,
        description: row.description,
        properties: filled::<Vec<OneProperty>>(row.properties),
        constraints: row.constraints,
        last_updated: wire_time(row.updated_at),
    }))
}

pub(super) async fn replace_service_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
    Body(request): Body<PutServicePolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    require_property_types(&request.properties)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.check("constraints", &request.constraints)?;
    warnings.add(review::node_policy(&json!({"properties": request.properties})));
    let label = request.label.unwrap_or_default();
    let row = ServicePolicyRow {
        description: request.description.unwrap_or_else(|| label.clone()),
        label,
        properties: json!(request.properties),
        constraints: json!(request.constraints),
        updated_at: exchange.now(),
    };
    op.write(&permission, "service_policy.replace", async |mut tx| {
        let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        let size = SizeBefore::measure(&mut tx, CountedDocument::Service, org, id).await?;
        service_part::upsert_policy(&mut tx, org, id, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "servicepolicies", "created/modified", is_public)])
    })
    .await?;
    Ok(warnings.on(created("policy added or updated")))
}

pub(super) async fn delete_service_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "service_policy.delete", async |mut tx| {
        let is_public = lock_visibility(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        if !service_part::delete_policy(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("policy of service '{org}/{id}' not found")));
        }
        tx.finish([change(org, id, "servicepolicies", "deleted", is_public)])
    })
    .await?;
    Ok(NoContent)
}
