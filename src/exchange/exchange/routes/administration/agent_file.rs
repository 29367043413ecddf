//! Versions of the files that agents upgrade to; there is one set, in the multi-tenant organization.
use std::collections::BTreeSet;

use axum::Json;
use evenkeel_access::{MULTI_TENANT_ORG, Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::agent_file::{self, AgentFiles};
use evenkeel_exchange_store::change::Change;
use evenkeel_wire::exchange::administration::{AgentFileVersions, PutAgentFileVersions};
use evenkeel_wire::exchange::time::wire_time;

use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, OrgPath};

pub async fn get_agent_files(
    op: Op<OrgPath>,
    _: Permission<right::AgentFilesRead>,
) -> Result<Json<AgentFileVersions>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = op;
    require_shared_org(&org)?;
    let (files, updated_at) = exchange
        .database()
        .read(async |connection| agent_file::find_versions(connection, MULTI_TENANT_ORG).await)
        .await?
        .ok_or_else(|| ApiError::not_found(format!("org '{MULTI_TENANT_ORG}' not found")))?;
    Ok(Json(AgentFileVersions {
        agent_cert_versions: files.cert,
        agent_config_versions: files.config,
        agent_software_versions: files.software,
        last_updated: wire_time(updated_at),
    }))
}

pub async fn replace_agent_files(
    op: Op<OrgPath>,
    permission: Permission<right::AgentFilesWrite>,
    Body(request): Body<PutAgentFileVersions>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, .. } = &op;
    require_shared_org(org)?;
    check_unique("agentSoftwareVersions", &request.agent_software_versions)?;
    check_unique("agentConfigVersions", &request.agent_config_versions)?;
    check_unique("agentCertVersions", &request.agent_cert_versions)?;
    let files = AgentFiles {
        software: request.agent_software_versions,
        config: request.agent_config_versions,
        cert: request.agent_cert_versions,
    };
    op.write(&permission, "agent_file.replace", async |mut tx| {
        agent_file::upsert_versions(&mut tx, MULTI_TENANT_ORG, &files, exchange.now()).await?;
        tx.finish([change()])
    })
    .await?;
    Ok(created(format!("attribute 'AgentFileVersion' of org '{MULTI_TENANT_ORG}' updated")))
}

pub async fn delete_agent_files(
    op: Op<OrgPath>,
    permission: Permission<right::AgentFilesWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: OrgPath { org }, .. } = &op;
    require_shared_org(org)?;
    op.write(&permission, "agent_file.delete", async |mut tx| {
        agent_file::clear_versions(&mut tx, MULTI_TENANT_ORG).await?;
        tx.finish([change()])
    })
    .await?;
    Ok(NoContent)
}

/// Requires the path to name the multi-tenant organization: the right is for that one, whatever the path names.
fn require_shared_org(org: &str) -> Result<(), ApiError> {
    if org != MULTI_TENANT_ORG {
        return Err(ApiError::invalid_input(format!(
            "organization: agent files belong to '{MULTI_TENANT_ORG}' only"
        )));
    }
    Ok(())
}

fn check_unique(field: &str, versions: &[String]) -> Result<(), ApiError> {
    let mut seen = BTreeSet::new();
    match versions.iter().find(|version| !seen.insert(version.as_str())) {
        Some(version) => {
            Err(ApiError::invalid_input(format!("{field}: '{version}' is given more than once")))
        }
        None => Ok(()),
    }
}

fn change() -> Change {
    Change {
        org: MULTI_TENANT_ORG.to_owned(),
        id: MULTI_TENANT_ORG.to_owned(),
        category: "org",
        resource: "agentfileversion",
        operation: "modified",
        is_public: true,
    }
}
