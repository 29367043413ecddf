//! Settings of an organization for its workloads and nodes.
//!
//! Source: orchestration 1.6.

use std::iter;

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::organization;
use evenkeel_wire::exchange::org_orchestration::{OrgOrchestrationQuery, WriteOrgOrchestration};
use serde_json::Value;

use super::write::absent;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::visibility::ORG_SETTINGS;
use crate::operation::row::{get, patch, put};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath};
use crate::org_settings::stored_settings;
use crate::routes::plan_approval::gate::{GatedRequest, GatedWrite, GivenApproval};
use crate::{ApiError, ExchangeSettings};

const TAG: &str = "organizations";
const PATH: &str = "/orgs/{organization}/orchestration";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(PATH, "get_org_orchestration", get_settings)
            .doc(
                TAG,
                "Returns the settings of an organization for its workloads and nodes, with the defaults",
            )
            .success("the settings"),
        put(PATH, "replace_org_orchestration", replace_settings)
            .doc(TAG, "Replaces the settings of an organization for its workloads and nodes")
            .audit(Subject::Organization)
            .success("replaced"),
        patch(PATH, "patch_org_orchestration", patch_settings)
            .doc(TAG, "Changes settings of an organization for its workloads and nodes; null ends one")
            .audit(Subject::Organization)
            .success("changed"),
    ]
}

async fn get_settings(
    op: Op<OrgPath, Query<OrgOrchestrationQuery>>,
    _: Permission<right::OrgRead>,
) -> Result<Json<OrgSettings>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: OrgPath { org }, parameters: Query(query) } =
        op;
    let stored = exchange
        .database()
        .read(async |connection| organization::find_settings(connection, &org).await)
        .await?
        .ok_or_else(|| absent(&org))?;
    let settings = stored_settings(&org, stored)?;
    Ok(Json(match query.given {
        Some(true) => settings,
        _ => with_defaults(&settings, &exchange.settings()),
    }))
}

/// Returns the settings with the defaults, of which this hub has two of its own.
fn with_defaults(settings: &OrgSettings, hub: &ExchangeSettings) -> OrgSettings {
    settings.or_of_hub(hub.node_down_after_secs, hub.rejoin_grace_secs).with_defaults()
}

type Write = Permission<right::OrgChange>;

async fn replace_settings(
    op: Op<OrgPath, GivenApproval>,
    permission: Write,
    Body(WriteOrgOrchestration(document)): Body<WriteOrgOrchestration>,
) -> Result<Created, ApiError> {
    // The plan of an approval is that of a patch.
    let before = |_| Ok(OrgSettings::default());
    write(&op, permission, before, (&document, GatedWrite::Other)).await
}

async fn patch_settings(
    op: Op<OrgPath, GivenApproval>,
    permission: Write,
    Body(WriteOrgOrchestration(document)): Body<WriteOrgOrchestration>,
) -> Result<Created, ApiError> {
    let org = op.path.org.clone();
    let gated = GatedWrite::Settings { patch: &document };
    write(&op, permission, |stored| stored_settings(&org, stored), (&document, gated)).await
}

/// Writes what a document makes of the settings before it.
async fn write(
    op: &Op<OrgPath, GivenApproval>,
    permission: Write,
    before: impl Fn(Option<Value>) -> Result<OrgSettings, ApiError>,
    (document, gated): (&Value, GatedWrite<'_>),
) -> Result<Created, ApiError> {
    let (org, given) = (&op.path.org, &op.parameters);
    let request = GatedRequest { exchange: &op.exchange, caller: &op.caller, org };
    op.write(&permission, "organization.set_orchestration", async |mut tx| {
        let stored = organization::lock_settings(&mut tx, org).await?.ok_or_else(|| absent(org))?;
        let used = given.require(&mut tx, &request, &gated).await?;
        let settings = before(stored)?.patched(document.clone());
        let settings = settings.map_err(|error| ApiError::invalid_input(error.to_string()))?;
        let settings = settings.updated_by(&op.caller.to_string());
        organization::set_settings(&mut tx, org, &settings.document()).await?;
        let changed = Change {
            org: org.clone(),
            id: org.clone(),
            category: "org",
            resource: ORG_SETTINGS,
            operation: "modified",
            is_public: false,
        };
        tx.finish(iter::once(changed).chain(used))
    })
    .await?;
    Ok(created(format!("orchestration of org '{org}' updated")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_hub_hold_unless_the_organization_sets_others() {
        let hub =
            ExchangeSettings { node_down_after_secs: 8, rejoin_grace_secs: 9, ..ExchangeSettings::default() };
        let shown = |document| {
            let settings = OrgSettings::read(document).expect("valid settings");
            let shown = with_defaults(&settings, &hub);
            [shown.node_down_after_secs(), shown.rejoin_grace_secs()]
        };
        assert_eq!(shown(json!({})), [Some(8), Some(9)]);
        assert_eq!(
            shown(json!({"nodeDownAfterSeconds": 60, "rejoinGracePeriodSeconds": 0})),
            [Some(60), Some(0)]
        );
    }
}
