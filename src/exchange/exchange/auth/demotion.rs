//! Rights that an account loses along with those of an administrator.

use evenkeel_exchange_store::agbot_approval;
use evenkeel_exchange_store::change::Change;
use evenkeel_store::PgConnection;

use crate::ApiError;
use crate::feed::visibility::AGBOT_APPROVAL;
use crate::notice::forget_login;
use crate::routes::agbot::agbot_change;

/// Withdraws what an account gave as an administrator, unless it is one: the approvals of its own agbots, which have no right that their owner
/// lacks, and the confirmations of their entries.
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
    Ok(logins.chain(seen).collect())
}
