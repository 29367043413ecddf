//! Users, their passwords and API keys.
//!
//! Source: exchange-api 4.3.

mod api_key;
mod password;
mod read;
mod write;

use evenkeel_access::{AccountFacts, AccountRows, AssignedRole, Caller, sees_account};
use evenkeel_exchange_store::account::{self, AccountRow};
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_wire::exchange::user::UsersResponse;
use evenkeel_wire::exchange::utility::ApiResponse;

use crate::operation::Operation;
use crate::operation::row::{delete, get, patch, post, put};
use crate::{ApiError, Exchange};

const TAG: &str = "users";
const ONE: &str = "/orgs/{organization}/users/{username}";
const OWN: &str = "/orgs/{organization}/users/apikey";
const KEYS: &str = "/orgs/{organization}/users/{username}/apikeys";
const KEY: &str = "/orgs/{organization}/users/{username}/apikeys/{keyid}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut all = user_operations();
    all.extend(secret_operations());
    all
}

fn user_operations() -> Vec<Operation> {
    vec![
        get("/orgs/{organization}/users", "list_users", read::list_users)
            .doc(TAG, "Lists the users of an organization")
            .success("the users")
            .empty("none"),
        get(OWN, "get_own_user", read::get_own_user)
            .alias("/orgs/{organization}/users/iamapikey")
            .doc(TAG, "Returns the user that calls, for instance the owner of an API key")
            .success("the user")
            .never_empty()
            .served_elsewhere(),
        get(ONE, "get_user", read::get_user)
            .doc(TAG, "Returns one user")
            .success("the user")
            .response_either::<UsersResponse, ApiResponse>(404, "there is none"),
        post(ONE, "create_user", write::create_user)
            .doc(TAG, "Creates a user")
            .creates()
            .audit(Subject::Account)
            .success("created")
            .response::<ApiResponse>(409, "a node or an agbot has this id"),
        put(ONE, "replace_user", write::replace_user)
            .doc(TAG, "Replaces or creates a user")
            .audit(Subject::Account)
            .success("replaced or created")
            .response::<ApiResponse>(409, "a node or an agbot has this id"),
        patch(ONE, "patch_user", write::patch_user)
            .doc(TAG, "Changes one attribute of a user")
            .audit(Subject::Account)
            .success("changed"),
        delete(ONE, "delete_user", write::delete_user)
            .doc(TAG, "Deletes a user with everything it owns")
            .audit(Subject::Account)
            .success("deleted"),
    ]
}

fn secret_operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/users/{username}/changepw", "change_password", password::change_password)
            .doc(TAG, "Changes the password of a user")
            .audit(Subject::Account)
            .success("changed"),
        post("/orgs/{organization}/users/{username}/confirm", "confirm_user", password::confirm_user)
            .doc(TAG, "Confirms that a user exists and the credentials of the caller are valid")
            .unaudited("it only reads")
            .success("confirmed"),
        post(KEYS, "create_api_key", api_key::create_api_key)
            .doc(TAG, "Creates an API key; only this response contains its value")
            .audit(Subject::ApiKey)
            .success("the key with its value"),
        get(KEY, "get_api_key", api_key::get_api_key)
            .doc(TAG, "Returns one API key without its value")
            .success("the key"),
        delete(KEY, "delete_api_key", api_key::delete_api_key)
            .doc(TAG, "Deletes an API key")
            .audit(Subject::ApiKey)
            .success("deleted"),
    ]
}

fn facts(account: &AccountRow) -> AccountFacts<'_> {
    AccountFacts {
        org: &account.org,
        name: &account.name,
        is_admin: account.is_admin,
        is_hub_admin: account.is_hub_admin,
    }
}

/// Reads the role in a request; none inside for that of an ordinary user, none at all when the request names none.
///
/// # Errors
/// 400 naming the member and the rule.
#[expect(clippy::option_option, reason = "no role in the request, and the word for no role, differ")]
fn read_role(
    name: Option<&str>,
    policies: Option<&[String]>,
) -> Result<Option<Option<AssignedRole>>, ApiError> {
    match (name, policies) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(ApiError::invalid_input("policies: can only be given with role")),
        (Some(name), policies) => {
            let role = AssignedRole::read(name, policies.unwrap_or_default());
            role.map(Some).map_err(|error| ApiError::invalid_input(error.to_string()))
        }
    }
}

/// Returns the name of a role as a response shows it.
fn shown_role(role: Option<&AssignedRole>) -> Option<String> {
    role.map(|role| role.name().to_owned())
}

/// Returns the policies of a role as a response shows them.
fn shown_policies(role: Option<&AssignedRole>) -> Option<Vec<String>> {
    role.map(AssignedRole::policies).filter(|policies| !policies.is_empty())
}

/// Finds an account as far as the caller sees it.
async fn find_visible(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    name: &str,
) -> Result<Option<AccountRow>, ApiError> {
    Ok(find(exchange, org, name).await?.filter(|found| sees_account(caller, facts(found))))
}

/// Finds an account, regardless of the caller.
async fn find(exchange: &Exchange, org: &str, name: &str) -> Result<Option<AccountRow>, ApiError> {
    Ok(exchange
        .database()
        .read(async |connection| {
            let all = AccountRows::default();
            account::list_accounts(connection, (org, all), Some(name), None, 1).await
        })
        .await?
        .into_iter()
        .next())
}

fn absent(org: &str, name: &str) -> ApiError {
    ApiError::not_found(format!("user '{org}/{name}' not found"))
}
