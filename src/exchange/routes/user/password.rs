//! Changing a password, confirming credentials.

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::{Access, Role, is_root, sees_account};
use evenkeel_exchange_store::account;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_wire::exchange::user::ChangePassword;

use super::{absent, facts, find};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::notice::forget_login;
use crate::{ApiError, Exchange};

pub async fn change_password(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
    request: Body<ChangePassword>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::UserWrite, FactKind::User, &org, Some(&name)).await?;
    let request = request.read()?;
    if request.new_password.is_empty() {
        return Err(ApiError::invalid_input("newPassword: must not be empty"));
    }
    if is_root(&org, &name) && caller.role != Role::Root {
        return Err(absent(&org, &name));
    }
    let hash = exchange.credentials().hasher().hash(&request.new_password).await?;
    exchange
        .write("user.change_password", async |mut tx| {
            let stored = account::lock_account(&mut tx, &org, &name).await?;
            let mut stored = stored
                .filter(|stored| sees_account(&caller, facts(stored)))
                .ok_or_else(|| absent(&org, &name))?;
            stored.password_hash = Some(hash.clone());
            stored.updated_at = exchange.now();
            stored.updated_by = caller.to_string();
            account::update_account(&mut tx, &stored).await?;
            tx.finish([forget_login(&org, &name)])
        })
        .await?;
    Ok(created("password updated successfully"))
}

pub async fn confirm_user(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::UserRead, FactKind::User, &org, Some(&name)).await?;
    // Whoever may read the user may confirm it, hub admins also plain users, whom lists do not show them.
    find(&exchange, &org, &name).await?.ok_or_else(|| absent(&org, &name))?;
    Ok(created("confirmation successful"))
}
