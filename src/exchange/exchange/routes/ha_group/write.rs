//! Writes of HA groups.

use evenkeel_access::{Caller, Permission, right};
use evenkeel_api::NoContent;
use evenkeel_wire::exchange::ha_group::{HaGroupDocument, PutHaGroup};

use super::change_group::{add_node, create, delete, remove_node, update};
use super::form::{WantedGroup, check_name};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{Op, OrgPath, PartPath, ResourcePath};
use crate::routes::reference::Warned;

pub async fn create_ha_group(
    op: Op<ResourcePath>,
    permission: Permission<right::HaGroupWrite>,
    Body(request): Body<PutHaGroup>,
) -> Result<Created, ApiError> {
    let ResourcePath { org, id: name } = op.path.clone();
    let wanted = WantedGroup {
        orchestration: request.orchestration,
        ..WantedGroup::new(&op.caller, org, name, request.description, request.members)?
    };
    create(&op, &permission, &wanted).await?;
    Ok(created_group(&wanted))
}

pub async fn create_ha_group_document(
    op: Op<OrgPath>,
    permission: Permission<right::HaGroupWrite>,
    Body(document): Body<HaGroupDocument>,
) -> Result<Created, ApiError> {
    let OrgPath { org } = op.path.clone();
    let wanted = wanted(&op.caller, org, document)?;
    create(&op, &permission, &wanted).await?;
    Ok(created_group(&wanted))
}

pub async fn update_ha_group(
    op: Op<ResourcePath>,
    permission: Permission<right::HaGroupWrite>,
    Body(request): Body<PutHaGroup>,
) -> Result<Created, ApiError> {
    let ResourcePath { org, id: name } = op.path.clone();
    let wanted = WantedGroup {
        orchestration: request.orchestration,
        ..WantedGroup::new(&op.caller, org, name, request.description, request.members)?
    };
    update(&op, &permission, &wanted).await?;
    Ok(updated_group(&wanted))
}

pub async fn replace_ha_group_document(
    op: Op<OrgPath>,
    permission: Permission<right::HaGroupWrite>,
    Body(document): Body<HaGroupDocument>,
) -> Result<Created, ApiError> {
    let OrgPath { org } = op.path.clone();
    let wanted = wanted(&op.caller, org, document)?;
    update(&op, &permission, &wanted).await?;
    Ok(updated_group(&wanted))
}

pub async fn delete_ha_group(
    op: Op<ResourcePath>,
    permission: Permission<right::HaGroupWrite>,
) -> Result<Warned<NoContent>, ApiError> {
    let ResourcePath { org, id: name } = &op.path;
    let warnings = delete(&op, &permission, org, name).await?;
    Ok(Warned::new(NoContent, &warnings))
}

pub async fn add_ha_group_node(
    op: Op<PartPath>,
    permission: Permission<right::HaGroupWrite>,
) -> Result<Created, ApiError> {
    let PartPath { org, id: name, part: node } = &op.path;
    add_node(&op, &permission, (org, name), node).await?;
    Ok(created(""))
}

pub async fn remove_ha_group_node(
    op: Op<PartPath>,
    permission: Permission<right::HaGroupWrite>,
) -> Result<NoContent, ApiError> {
    let PartPath { org, id: name, part: node } = &op.path;
    remove_node(&op, &permission, (org, name), node).await?;
    Ok(NoContent)
}

fn wanted(caller: &Caller, org: String, document: HaGroupDocument) -> Result<WantedGroup, ApiError> {
    check_name(&document.name)?;
    let wanted = WantedGroup::new(caller, org, document.name, document.description, Some(document.members))?;
    Ok(WantedGroup { allows_clusters: false, orchestration: document.orchestration, ..wanted })
}

fn created_group(wanted: &WantedGroup) -> Created {
    created(format!("high availability node group '{}/{}' created", wanted.org, wanted.name))
}

fn updated_group(wanted: &WantedGroup) -> Created {
    created(format!(
        "high availability node group '{}' in org '{}' updated successfully",
        wanted.name, wanted.org
    ))
}
