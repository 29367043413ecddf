//! Changing a password, confirming credentials.

use evenkeel_access::{Permission, Role, is_root, right, sees_account};
use evenkeel_exchange_store::account;
use evenkeel_wire::exchange::user::ChangePassword;

use super::{absent, facts, find};
use crate::ApiError;
use crate::auth::demotion::end_sessions;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::notice::forget_login;
use crate::operation::{ExchangeRequest, Op, ResourcePath};

pub async fn change_password(
    op: Op<ResourcePath>,
    permission: Permission<right::PasswordWrite>,
    Body(request): Body<ChangePassword>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    if request.new_password.is_empty() {
        return Err(ApiError::invalid_input("newPassword: must not be empty"));
    }
    if is_root(org, name) && caller.role != Role::Root {
        return Err(absent(org, name));
    }
    let hash = exchange.credentials().hasher().hash(&request.new_password).await?;
    op.write(&permission, "user.change_password", async |mut tx| {
        let stored = account::lock_account(&mut tx, org, name).await?;
        let mut stored =
            stored.filter(|stored| sees_account(caller, facts(stored))).ok_or_else(|| absent(org, name))?;
        stored.password_hash = Some(hash.clone());
        stored.updated_at = exchange.now();
        stored.updated_by = caller.to_string();
        account::update_account(&mut tx, &stored).await?;
        let mut changes = vec![forget_login(org, name)];
        changes.extend(end_sessions(&mut tx, (org, name)).await?);
        tx.finish(changes)
    })
    .await?;
    Ok(created("password updated successfully"))
}

pub async fn confirm_user(op: Op<ResourcePath>, _: Permission<right::UserRead>) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id: name }, .. } = op;
    // Callers that may read the user may confirm it; hub admins may also confirm plain users, who are hidden
    // from them in lists.
    find(&exchange, &org, &name).await?.ok_or_else(|| absent(&org, &name))?;
    Ok(created("confirmation successful"))
}
