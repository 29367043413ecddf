//! Rights that an account loses along with those of an administrator.

use evenkeel_exchange_store::agbot_approval;
use evenkeel_exchange_store::change::Change;
use evenkeel_store::PgConnection;

use crate::ApiError;
use crate::notice::forget_login;

/// Withdraws the approvals that an account gave its own agbots, unless it is an administrator: an agbot has no right that its owner lacks.
/// Returns the changes that make every exchange read the logins of these agbots again.
///
/// # Errors
/// Those of the store.
pub(crate) async fn withdraw_approvals(
    tx: &mut PgConnection,
    (org, name): (&str, &str),
    is_administrator: bool,
) -> Result<Vec<Change>, ApiError> {
    if is_administrator {
        return Ok(Vec::new());
    }
    let agbots = agbot_approval::withdraw_own(tx, org, name).await?;
    for agbot in &agbots {
        tracing::warn!(
            agbot.id = %agbot,
            user.org = org,
            user.name = name,
            "approval of an agbot withdrawn: its owner is no longer an administrator"
        );
    }
    Ok(agbots.iter().map(|agbot| forget_login(agbot.org(), agbot.name())).collect())
}
