//! Creating, replacing, patching and deleting users.

use evenkeel_access::{
    Caller, FlagsRefused, LoginKind, Permission, Role, check_flags, check_role, is_reserved_name, is_root,
    may_assign_role, may_change_admin_flag, may_change_hub_admin_flag, right, sees_account,
};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::departure::{self, Remainder};
use evenkeel_exchange_store::identity::{self, IdentityKind};
use evenkeel_exchange_store::permitted::CreatesAccounts;
use evenkeel_wire::exchange::user::{PatchUser, PutUser};
use uuid::Uuid;

use super::{absent, facts, read_role};
use crate::auth::demotion::{delete_keys_for_others, end_sessions, withdraw_rights};
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::{agbot_change, node_change};
use crate::notice::forget_login;
use crate::operation::authorize::authorized;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::plan_approval::gate::check_removal_of_owner;
use crate::routes::reference::{check_new_name, check_new_secret};
use crate::transaction::WriteTx;
use crate::{ApiError, Exchange};

const SECRET_MISSING: &str = "the password must be non-blank when creating a user";

pub async fn create_user(
    op: Op<ResourcePath>,
    permission: Permission<right::UserCreate>,
    Body(request): Body<PutUser>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    check_name(exchange, name)?;
    let account = checked(exchange, caller, org, name, request).await?;
    op.write(&permission, "user.create", async |mut tx| {
        insert(&mut tx, &account).await?;
        tx.finish([forget_login(org, name)])
    })
    .await?;
    Ok(created(added(&account)))
}

pub async fn replace_user(
    op: Op<ResourcePath>,
    permission: Permission<right::UserWrite>,
    Body(request): Body<PutUser>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    let keeps_role = request.role.is_none();
    let verified = match request.password.as_deref() {
        Some(password) => stored_hash_of(exchange, (org, name), password).await?,
        None => None,
    };
    let account = checked(exchange, caller, org, name, request).await?;
    if account.email.is_empty() {
        return Err(ApiError::invalid_input("email: must not be empty"));
    }
    let is_new = op
        .write(&permission, "user.replace", async |mut tx| {
            let stored = account::lock_account(&mut tx, org, name).await?;
            let is_new = stored.is_none();
            let mut changes = vec![forget_login(org, name)];
            match stored {
                Some(stored) if sees_account(caller, facts(&stored)) => {
                    // Clients that do not know roles must not lift a limit.
                    let role = if keeps_role { stored.role } else { account.role.clone() };
                    let account = AccountRow { role, ..account.clone() };
                    require_no_role_of_administrator(&account)?;
                    account::update_account(&mut tx, &account).await?;
                    if verified.is_none() || verified != stored.password_hash {
                        changes.extend(end_sessions(&mut tx, (org, name)).await?);
                    }
                    changes.extend(withdraw_rights(&mut tx, (org, name), is_administrator(&account)).await?);
                }
                Some(_) => return Err(not_added(org, name)),
                None => {
                    check_name(exchange, name)?;
                    insert(&mut tx, &account).await?;
                }
            }
            tx.finish_with(changes, is_new)
        })
        .await?;
    Ok(created(if is_new { added(&account) } else { "user updated successfully".to_owned() }))
}

pub async fn patch_user(
    op: Op<ResourcePath>,
    permission: Permission<right::PasswordWrite>,
    Body(request): Body<PatchUser>,
) -> Result<Created, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    let attribute = attribute_to_change(&request).ok_or_else(|| {
        ApiError::invalid_input("exactly one of password, email, admin, hubAdmin, role must be given")
    })?;
    if attribute != "password" {
        let _: Permission<right::UserWrite> = authorized(&op).await?;
    }
    let role = read_role(request.role.as_deref(), request.policies.as_deref())?;
    check_patch(caller, org, name, &request)?;
    check_new_secret(
        exchange,
        "password",
        request.password.as_deref().filter(|password| !password.is_empty()),
    )?;
    let password_hash = match request.password.as_deref() {
        Some("") | None => None,
        Some(password) => Some(exchange.credentials().hasher().hash(password).await?),
    };
    op.write(&permission, "user.patch", async |mut tx| {
        let stored = account::lock_account(&mut tx, org, name).await?;
        let mut stored =
            stored.filter(|stored| may_patch(caller, stored, attribute)).ok_or_else(|| absent(org, name))?;
        match attribute {
            "password" => stored.password_hash.clone_from(&password_hash),
            "email" => stored.email = request.email.clone().unwrap_or_default(),
            "admin" => stored.is_admin = request.admin.unwrap_or_default(),
            "role" => stored.role = role.clone().flatten(),
            _ => stored.is_hub_admin = request.hub_admin.unwrap_or_default(),
        }
        require_no_role_of_administrator(&stored)?;
        stored.updated_at = exchange.now();
        stored.updated_by = caller.to_string();
        account::update_account(&mut tx, &stored).await?;
        let mut changes = vec![forget_login(org, name)];
        if attribute == "password" {
            changes.extend(end_sessions(&mut tx, (org, name)).await?);
        }
        changes.extend(withdraw_rights(&mut tx, (org, name), is_administrator(&stored)).await?);
        tx.finish(changes)
    })
    .await?;
    Ok(created(format!("attribute '{attribute}' of user '{org}/{name}' updated")))
}

pub async fn delete_user(
    op: Op<ResourcePath>,
    permission: Permission<right::UserWrite>,
) -> Result<NoContent, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: name }, ..
    } = &op;
    if is_root(org, name) {
        let reason = "the root user cannot be deleted";
        return Err(if caller.role == Role::Root {
            ApiError::invalid_input(reason)
        } else {
            ApiError::access_denied(reason)
        });
    }
    op.write(&permission, "user.delete", async |mut tx| {
        let stored = account::lock_account(&mut tx, org, name).await?;
        if !stored.is_some_and(|stored| sees_account(caller, facts(&stored))) {
            return Err(absent(org, name));
        }
        check_removal_of_owner(&mut tx, (caller, org), name).await?;
        let mut changes: Vec<Change> = vec![forget_login(org, name)];
        let owned = account::list_owned_logins(&mut tx, org, name).await?;
        // The nodes go with their owner, and their agents do not know that yet.
        departure::insert(&mut tx, &owned.nodes, Remainder::AsRecorded, exchange.now()).await?;
        changes.extend(owned.nodes.iter().map(|node| node_change(&node.org, &node.id, "node", "deleted")));
        let logins = owned.nodes.iter().chain(&owned.agbots);
        changes.extend(logins.map(|login| forget_login(&login.org, &login.id)));
        changes
            .extend(owned.agbots.iter().map(|agbot| agbot_change(&agbot.org, &agbot.id, "agbot", "deleted")));
        changes.extend(delete_keys_for_others(&mut tx, (org, name)).await?);
        account::delete_account(&mut tx, org, name).await?;
        tx.finish(changes)
    })
    .await?;
    Ok(NoContent)
}

/// Returns the stored hash of an account's password if it is that of a password; slow, so that it is done before the row is locked.
async fn stored_hash_of(
    exchange: &Exchange,
    (org, name): (&str, &str),
    password: &str,
) -> Result<Option<String>, ApiError> {
    let stored =
        exchange.database().read(async |connection| account::find_password_hash(connection, org, name).await);
    let Some(hash) = stored.await? else { return Ok(None) };
    Ok(exchange.credentials().hasher().verify(password, &hash).await?.then_some(hash))
}

fn is_administrator(account: &AccountRow) -> bool {
    account.is_admin || account.is_hub_admin
}

/// Refuses an administrator with a role, whichever of the two it had before.
fn require_no_role_of_administrator(account: &AccountRow) -> Result<(), ApiError> {
    if account.role.is_some() && is_administrator(account) {
        return Err(refused(FlagsRefused::RoleOfAdministrator));
    }
    Ok(())
}

fn check_name(exchange: &Exchange, name: &str) -> Result<(), ApiError> {
    if is_reserved_name(LoginKind::Account, name) {
        return Err(ApiError::invalid_input(format!("username: '{name}' is reserved")));
    }
    check_new_name(exchange, "username", name)
}

/// Checks a whole user and makes the row to store.
async fn checked(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    name: &str,
    request: PutUser,
) -> Result<AccountRow, ApiError> {
    let (Some(password), Some(email)) = (request.password, request.email) else {
        return Err(ApiError::invalid_input(SECRET_MISSING));
    };
    if password.trim().is_empty() {
        return Err(ApiError::invalid_input(SECRET_MISSING));
    }
    check_new_secret(exchange, "password", Some(&password))?;
    if is_root(org, name) {
        return Err(refused(FlagsRefused::AdminByNonAdmin));
    }
    check_flags(caller, org, request.admin, request.hub_admin).map_err(refused)?;
    let role = read_role(request.role.as_deref(), request.policies.as_deref())?;
    if role.is_some() {
        let is_administrator = role != Some(None) && (request.admin || request.hub_admin);
        check_role(caller, org, is_administrator).map_err(refused)?;
    }
    Ok(AccountRow {
        org: org.to_owned(),
        name: name.to_owned(),
        id: Uuid::new_v4(),
        password_hash: Some(exchange.credentials().hasher().hash(&password).await?),
        email,
        is_admin: request.admin,
        is_hub_admin: request.hub_admin,
        role: role.flatten(),
        updated_at: exchange.now(),
        updated_by: caller.to_string(),
    })
}

fn refused(reason: FlagsRefused) -> ApiError {
    let text = match reason {
        FlagsRefused::AdminByNonAdmin => "a user without admin privilege can not give admin privilege",
        FlagsRefused::PlainInRootOrg => "Only the root user and hub admins can exist in the root org",
        FlagsRefused::HubAdminByOther => "This user does not have permissions to make Hub Admins",
        FlagsRefused::HubAdminOutsideRootOrg => "Hub Admin users must be created in the root org",
        FlagsRefused::PlainByHubAdmin => "Hub Admins create and change administrators only",
        FlagsRefused::RoleOfAdministrator => {
            "role: an administrator has no role: set admin to false before role, or role to user before admin"
        }
        FlagsRefused::RoleByOther => {
            return ApiError::access_denied(
                "role: only administrators of the organization give roles to its users",
            );
        }
    };
    ApiError::invalid_input(text)
}

/// Inserts an account whose name is not used by another login.
async fn insert<R: CreatesAccounts>(tx: &mut WriteTx<R>, account: &AccountRow) -> Result<(), ApiError> {
    let (org, name) = (&account.org, &account.name);
    identity::lock_name(tx, org, name).await?;
    match identity::find_identity(tx, org, name).await?.map(|identity| identity.kind) {
        None => {}
        Some(IdentityKind::Account) => return Err(not_added(org, name)),
        Some(IdentityKind::Node | IdentityKind::Agbot) => {
            return Err(ApiError::conflict(format!(
                "username: '{org}/{name}' is the id of a node or an agbot"
            )));
        }
    }
    account::insert_account(tx, account).await.map_err(|error| {
        ApiError::from(error)
            .explain("account_org_name_key", || not_added(org, name))
            .explain("account_org_fk", || ApiError::not_found(format!("organization '{org}' not found")))
    })
}

fn attribute_to_change(request: &PatchUser) -> Option<&'static str> {
    let mut given = [
        ("admin", request.admin.is_some()),
        ("email", request.email.is_some()),
        ("hubAdmin", request.hub_admin.is_some()),
        ("password", request.password.is_some()),
        ("role", request.role.is_some() || request.policies.is_some()),
    ]
    .into_iter()
    .filter(|(_, is_given)| *is_given);
    let first = given.next();
    if given.next().is_some() { None } else { first.map(|(name, _)| name) }
}

/// Rejects patches that are invalid regardless of the stored account.
fn check_patch(caller: &Caller, org: &str, name: &str, request: &PatchUser) -> Result<(), ApiError> {
    let changes_flags = request.admin.is_some() || request.hub_admin.is_some();
    if is_root(org, name) && (changes_flags || caller.role != Role::Root) {
        return Err(ApiError::invalid_input(format!("user '{name}' not updated")));
    }
    if request.admin == Some(true) && !caller.is_admin_of(org) {
        return Err(refused(FlagsRefused::AdminByNonAdmin));
    }
    if request.role.is_some() {
        check_role(caller, org, false).map_err(refused)?;
    }
    if request.email.as_deref() == Some("") {
        return Err(ApiError::invalid_input("email: must not be empty"));
    }
    if request.hub_admin == Some(true) {
        check_flags(caller, org, false, true).map_err(refused)?;
    }
    Ok(())
}

fn may_patch(caller: &Caller, stored: &AccountRow, attribute: &str) -> bool {
    match attribute {
        "admin" => may_change_admin_flag(caller, facts(stored)),
        "hubAdmin" => may_change_hub_admin_flag(caller, facts(stored)),
        "role" => may_assign_role(caller, facts(stored)),
        _ => sees_account(caller, facts(stored)),
    }
}

fn not_added(org: &str, name: &str) -> ApiError {
    ApiError::invalid_input(format!("user not added or updated: {org}/{name}"))
}

fn added(account: &AccountRow) -> String {
    format!("{}/{}(Resource:{}) user added successfully", account.org, account.name, account.id)
}
