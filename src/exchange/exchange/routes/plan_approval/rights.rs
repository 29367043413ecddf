//! Who may request, approve and use an approval: users who may do the write themselves, by the permission table.

use evenkeel_access::{Access, Caller, Decision, Role, Target, decide_with_facts};
use evenkeel_exchange_store::facts::{self, FactKind};
use evenkeel_exchange_store::identity::{self, IdentityKind};
use evenkeel_exchange_store::plan_approval::PlanApprovalRow;
use evenkeel_exchange_store::{account, api_key};
use evenkeel_ids::UserId;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::plan_approval::ApprovalWrite;
use evenkeel_wire::exchange::user::SESSION_LABEL;

use crate::ApiError;
use crate::auth::caller_of;

/// Requires a user of the organization.
///
/// # Errors
/// 403 for nodes, agbots, root, and accounts of other organizations.
pub(super) fn require_member(caller: &Caller, org: &str) -> Result<(), ApiError> {
    let is_user = caller.is_person() && !matches!(caller.role, Role::Root | Role::HubAdmin);
    if is_user && caller.org == org {
        return Ok(());
    }
    Err(ApiError::access_denied(format!(
        "approvals of organization '{org}' are requested, given and applied by its users: '{caller}' is none"
    )))
}

/// Requires the right to do a write oneself.
///
/// # Errors
/// 403 without it.
pub(super) async fn require_right(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    write: &ApprovalWrite,
) -> Result<(), ApiError> {
    if may_write(conn, caller, org, write).await? {
        return Ok(());
    }
    Err(ApiError::access_denied(format!("Access denied: '{caller}' may not {} itself", write.title())))
}

async fn may_write(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    write: &ApprovalWrite,
) -> Result<bool, ApiError> {
    let Some(policy) = write.policy() else {
        let target = Target { org, id: Some(org) };
        return Ok(decide_with_facts(caller, Access::OrgChange, target, None) == Decision::Allow);
    };
    // Rollouts belong to no user.
    if matches!(write, ApprovalWrite::RolloutAction { .. }) && caller.role == Role::User {
        return Ok(false);
    }
    let found = facts::find_facts(conn, FactKind::DeploymentPolicy, org, policy).await?;
    let access = if found.is_some() { Access::DeploymentPolicyWrite } else { Access::DeploymentPolicyCreate };
    let target = Target { org, id: Some(policy) };
    Ok(decide_with_facts(caller, access, target, found.as_ref()) == Decision::Allow)
}

/// Requires a second person: another user than the requester, who may do the write and whose login the requester did not make.
///
/// # Errors
/// 403 with the rule that is broken.
pub(super) async fn require_second_person(
    conn: &mut PgConnection,
    caller: &Caller,
    (org, row): (&str, &PlanApprovalRow),
    write: &ApprovalWrite,
) -> Result<(), ApiError> {
    require_member(caller, org)?;
    if caller.id == row.requester {
        return Err(ApiError::access_denied(format!(
            "'{caller}' requested this approval: another user has to decide about it"
        )));
    }
    require_right(conn, caller, org, write).await?;
    let requester = UserId::new(org, &row.requester);
    let author = account::find_author(conn, org, &caller.id).await?;
    if author.is_some_and(|author| author == requester.to_string()) {
        return Err(ApiError::access_denied(format!(
            "the account '{caller}' was written last by '{requester}', who requested this approval: its user has to change its password \
             before"
        )));
    }
    let key = caller.api_key.as_deref().and_then(|key| key.parse().ok());
    let origin = match key {
        Some(key) => api_key::find_origin(conn, key, SESSION_LABEL).await?,
        None => None,
    };
    if origin.and_then(|origin| origin.creator).is_some_and(|creator| creator == requester) {
        return Err(ApiError::access_denied(format!(
            "the API key was created by '{requester}', who requested this approval: use another login"
        )));
    }
    Ok(())
}

/// Returns whether the account that approved a write still has the right to do it.
pub(super) async fn approver_may_still(
    conn: &mut PgConnection,
    (org, approver): (&str, &str),
    write: &ApprovalWrite,
) -> Result<bool, ApiError> {
    let identity = identity::find_identity(conn, org, approver).await?;
    let Some(identity) = identity.filter(|identity| identity.kind == IdentityKind::Account) else {
        return Ok(false);
    };
    let approver = caller_of(org, identity);
    Ok(require_member(&approver, org).is_ok() && may_write(conn, &approver, org, write).await?)
}
