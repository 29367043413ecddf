//! The one check of writes that need the approval of a second person.

use evenkeel_access::{Caller, Role};
use evenkeel_api::{Parameters, Refusal};
use evenkeel_domain::orchestration::org_settings::ApprovalRule;
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::permitted::{Permitted, UsesPlanApprovals};
use evenkeel_exchange_store::plan_approval::{self, PlanApprovalRow};
use evenkeel_exchange_store::{deployment_policy, organization};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::deployment_policy::PostDeploymentPolicy;
use evenkeel_wire::exchange::plan_approval::{APPROVAL, ApprovalWrite, needs_approval};
use evenkeel_wire::exchange::time::wire_time;
use http::request::Parts;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{absent, change, read_id, rights, state_at, write_of};
use crate::auth::ActingAgbot;
use crate::org_settings::stored_settings;
use crate::{ApiError, Exchange};

/// Operations of the agbot whose actions may need an approval.
const GATED_OPERATIONS: [&str; 2] = ["act_on_policy", "act_on_rollouts"];

/// The approval that a request names, and the agbot that makes the request for its caller.
pub(in crate::routes) struct GivenApproval {
    id: Option<String>,
    agbot: Option<ActingAgbot>,
}

impl Parameters for GivenApproval {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let id = request.headers.get(APPROVAL).map(|id| id.to_str().unwrap_or_default().to_owned());
        Ok(GivenApproval { id, agbot: request.extensions.get::<ActingAgbot>().cloned() })
    }
}

/// A write that is checked.
pub(in crate::routes) enum GatedWrite<'w> {
    /// Creates or replaces a deployment policy.
    Policy { policy: &'w str, document: &'w PostDeploymentPolicy, before: Option<Timestamp> },
    /// Removes a deployment policy.
    Removal { policy: &'w str, before: Option<Timestamp> },
    /// Changes settings by a merge patch.
    Settings { patch: &'w Value },
    /// Carries out an action for which the plan was made again.
    Action { token: &'w str },
    /// A form of a write that no approval is about.
    Other,
}

/// A write with its caller.
pub(in crate::routes) struct GatedRequest<'r> {
    pub(in crate::routes) exchange: &'r Exchange,
    pub(in crate::routes) caller: &'r Caller,
    pub(in crate::routes) org: &'r str,
}

impl GivenApproval {
    /// Requires that an agbot of the organization, or of the hub, makes the request for the caller.
    ///
    /// # Errors
    /// 403 otherwise.
    pub(super) fn require_agbot(&self, org: &str) -> Result<(), ApiError> {
        if self.agbot.as_ref().is_some_and(|agbot| agbot.is_of(org)) {
            return Ok(());
        }
        Err(ApiError::access_denied(format!(
            "approvals of organization '{org}' are requested and applied through an approved agbot of it or of the hub, which makes the plan: \
             use hzn approval request and hzn approval apply"
        )))
    }

    /// Returns the approval that a path names, in a request of the same agbot.
    pub(super) fn named(&self, id: &str) -> GivenApproval {
        GivenApproval { id: Some(id.to_owned()), agbot: self.agbot.clone() }
    }

    /// Uses up the approval that the request names; without one, refuses a write of an organization that requires one. Root writes without.
    /// Returns the change that an approval is used, for the feed.
    ///
    /// What the write is about is locked before.
    ///
    /// # Errors
    /// 403 `approval-required` without an approval, and when the caller may not use it; 404 when there is none; 409 when it is not approved, is
    /// about another write, or what the write is about has changed.
    pub(in crate::routes) async fn require<R: UsesPlanApprovals>(
        &self,
        tx: &mut Permitted<R>,
        request: &GatedRequest<'_>,
        write: &GatedWrite<'_>,
    ) -> Result<Option<Change>, ApiError> {
        let GatedRequest { exchange, caller, org } = *request;
        let Some(id) = self.id.as_deref() else {
            require_none(tx, caller, org).await?;
            return Ok(None);
        };
        self.require_agbot(org)?;
        rights::require_member(caller, org)?;
        let uuid = read_id(org, id)?;
        let stored = plan_approval::lock(tx, org, uuid).await?.ok_or_else(|| absent(org, id))?;
        let (row, now) = (stored.row, exchange.now());
        require_usable(&row, now)?;
        let approver = row.decided_by.as_deref().unwrap_or_default();
        if ![row.requester.as_str(), approver].contains(&caller.id.as_str()) {
            return Err(ApiError::access_denied(format!(
                "approval {id} is applied by its requester or by the user who approved it: '{caller}' is neither"
            )));
        }
        let approved = write_of(stored.request)?;
        require_same_write(&row, &approved, write)?;
        if !rights::approver_may_still(tx, (org, approver), &approved).await? {
            return Err(ApiError::state_conflict(format!(
                "approval {id} is void: '{org}/{approver}', who approved it, may no longer {} itself; request another one",
                approved.title()
            )));
        }
        plan_approval::mark_used(tx, org, uuid, &caller.id, now).await?;
        Ok(Some(change(org, uuid, "modified")))
    }
}

/// Refuses a write of an organization that requires an approval for it. Root writes without.
///
/// # Errors
/// 403 `approval-required`.
async fn require_none(conn: &mut PgConnection, caller: &Caller, org: &str) -> Result<(), ApiError> {
    if caller.role == Role::Root || !is_required(conn, org).await? {
        return Ok(());
    }
    Err(ApiError::approval_required(format!(
        "organization '{org}' requires that a second person approves this write: request it with hzn approval request, and apply it with hzn \
         approval apply when another user has approved it"
    )))
}

/// Returns whether an organization requires approvals.
async fn is_required(conn: &mut PgConnection, org: &str) -> Result<bool, ApiError> {
    let stored = organization::find_settings(conn, org).await?.flatten();
    Ok(stored_settings(org, stored)?.approval() == ApprovalRule::Changes)
}

/// Refuses an action that an agbot is about to carry out for a caller, where an approval is needed for it; one with an approval is another
/// operation.
///
/// # Errors
/// 403 `approval-required`.
pub(in crate::routes) async fn check_action(
    conn: &mut PgConnection,
    (caller, org): (&Caller, &str),
    (operation, resource): (&str, &str),
) -> Result<(), ApiError> {
    if !is_gated(operation, resource) {
        return Ok(());
    }
    require_none(conn, caller, org).await
}

fn is_gated(operation: &str, resource: &str) -> bool {
    let action = resource.rsplit('/').next().unwrap_or_default();
    // The path is as the caller sent it, percent-encoded.
    let action = percent_decode_str(action).decode_utf8_lossy();
    GATED_OPERATIONS.contains(&operation) && needs_approval(&action)
}

/// Refuses the removal of a user who owns deployment policies of an organization that requires approvals: they would go with the user.
///
/// # Errors
/// 403 `approval-required`.
pub(in crate::routes) async fn check_removal_of_owner(
    conn: &mut PgConnection,
    (caller, org): (&Caller, &str),
    name: &str,
) -> Result<(), ApiError> {
    if caller.role == Role::Root || !is_required(conn, org).await? {
        return Ok(());
    }
    let owned = deployment_policy::count_owned(conn, org, name).await?;
    if owned == 0 {
        return Ok(());
    }
    Err(ApiError::approval_required(format!(
        "user '{org}/{name}' owns {owned} deployment policies, which would be removed with the user, and organization '{org}' requires that a \
         second person approves that: remove them first, with hzn approval request removal"
    )))
}

fn require_usable(row: &PlanApprovalRow, now: Timestamp) -> Result<(), ApiError> {
    match state_at(row, now) {
        "approved" => Ok(()),
        state => {
            Err(ApiError::state_conflict(format!("approval {} cannot be applied: it is {state}", row.id)))
        }
    }
}

/// Requires that a write is the approved one, of an object that is still the one that was planned.
fn require_same_write(
    row: &PlanApprovalRow,
    approved: &ApprovalWrite,
    write: &GatedWrite<'_>,
) -> Result<(), ApiError> {
    let (is_same, before) = match (approved, write) {
        (
            ApprovalWrite::DeploymentPolicy { policy, document },
            GatedWrite::Policy { policy: named, document: written, before },
        ) => {
            let approved: Option<PostDeploymentPolicy> =
                serde_json::from_value(Value::Object(document.clone())).ok();
            (policy == named && approved.is_some_and(|approved| json!(approved) == json!(written)), *before)
        }
        (
            ApprovalWrite::DeploymentPolicyRemoval { policy },
            GatedWrite::Removal { policy: named, before },
        ) => (policy == named, *before),
        (ApprovalWrite::Settings { settings }, GatedWrite::Settings { patch }) => {
            (patch.as_object() == Some(settings), None)
        }
        (
            ApprovalWrite::PolicyAction { .. } | ApprovalWrite::RolloutAction { .. },
            GatedWrite::Action { token },
        ) => {
            if *token != row.token {
                return Err(ApiError::state_conflict(format!(
                    "the plan of approval {} no longer holds: plan again",
                    row.id
                )));
            }
            return Ok(());
        }
        _ => (false, None),
    };
    if !is_same {
        return Err(ApiError::state_conflict(format!(
            "approval {} is about another write: {}",
            row.id,
            approved.title()
        )));
    }
    if before.map(wire_time) != row.basis && approved.policy().is_some() {
        return Err(ApiError::state_conflict(format!(
            "the deployment policy of approval {} was written since the plan was made: plan again",
            row.id
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_gated_by_their_names_however_they_are_encoded() {
        let of = |operation: &str, action: &str| {
            is_gated(operation, &format!("/orgs/o/business/policies/p/actions/{action}"))
        };
        for action in ["restart", "%72estart", "stop", "thaw", "resume", "none"] {
            assert!(of("act_on_policy", action), "{action}");
            assert!(of("act_on_rollouts", action), "{action}");
        }
        for action in ["freeze", "%66reeze", "pause", "abort"] {
            assert!(!of("act_on_policy", action), "{action}");
        }
        assert!(!of("free_claims", "restart"));
    }
}
