//! Rights that an account loses along with those of an administrator, and logins that end with its password.

use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::permitted::WritesAccounts;
use evenkeel_exchange_store::{agbot_approval, api_key};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::user::SESSION_LABEL;

use crate::ApiError;
use crate::feed::row::agbot_change;
use crate::feed::visibility::AGBOT_APPROVAL;
use crate::notice::forget_login;
use crate::transaction::WriteTx;

/// Withdraws what an account gave as an administrator, unless it is one: the approvals of its own agbots, which have no right that their owner
/// lacks, the confirmations of their entries, and the API keys that it created for others.
/// Returns the changes: every exchange reads the logins again, and agbots the approvals and entries.
///
/// # Errors
/// Those of the store.
pub(crate) async fn withdraw_rights(
    tx: &mut PgConnection,
    (org, name): (&str, &str),
    is_administrator: bool,
) -> Result<Vec<Change>, ApiError> {
    if is_administrator {
        return Ok(Vec::new());
    }
    let withdrawn = agbot_approval::withdraw_own(tx, org, name).await?;
    for agbot in &withdrawn.approvals {
        tracing::warn!(
            agbot.id = %agbot,
            user.org = org,
            user.name = name,
            "approval of an agbot withdrawn: its owner is no longer an administrator"
        );
    }
    let logins = withdrawn.approvals.iter().map(|agbot| forget_login(agbot.org(), agbot.name()));
    let changed = withdrawn.approvals.union(&withdrawn.confirmations);
    let seen = changed.map(|agbot| agbot_change(agbot.org(), agbot.name(), AGBOT_APPROVAL, "modified"));
    let mut changes: Vec<Change> = logins.chain(seen).collect();
    changes.extend(delete_keys_for_others(tx, (org, name)).await?);
    Ok(changes)
}

/// Deletes the API keys that an account created for others: they are not to outlive its right to create them. Returns the changes that make
/// every exchange read the logins again.
///
/// # Errors
/// Those of the store.
pub(crate) async fn delete_keys_for_others(
    tx: &mut PgConnection,
    (org, name): (&str, &str),
) -> Result<Vec<Change>, ApiError> {
    let accounts = api_key::delete_made_for_others(tx, org, name).await?;
    for account in &accounts {
        tracing::warn!(
            user.org = account.org(),
            user.name = account.name(),
            creator.org = org,
            creator.name = name,
            "API keys of a user deleted: the account that created them may no longer do so"
        );
    }
    Ok(accounts.iter().map(|account| forget_login(account.org(), account.name())).collect())
}

/// Ends the sessions of an account, whose password changes, and the API keys that were created by means of them: one who knew the old password must
/// not stay logged in. Returns the changes that make every exchange read the logins again.
///
/// # Errors
/// Those of the store.
pub(crate) async fn end_sessions<R: WritesAccounts>(
    tx: &mut WriteTx<R>,
    (org, name): (&str, &str),
) -> Result<Vec<Change>, ApiError> {
    let accounts = api_key::delete_sessions(tx, org, name, SESSION_LABEL).await?;
    Ok(accounts.iter().map(|account| forget_login(account.org(), account.name())).collect())
}
