//! Approvals of agbots: an agbot has the rights of agbots after an administrator approved it, and those of its owner before.

use std::collections::BTreeSet;
use std::fmt::Display;

use evenkeel_access::right;
use evenkeel_ids::{AgbotId, NodeId};
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::agbot::AgbotRow;
use super::permitted::{ApprovesAgbots, Permitted};

/// An agbot with its approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// Bare id of the agbot.
    pub agbot: String,
    /// Its owner, as `org/user`.
    pub owner: String,
    /// The administrator who approved it, as `org/user`, and when.
    pub approved: Option<(String, Timestamp)>,
}

/// Approves an agbot. An approval that exists keeps its administrator. False when there is no such agbot.
pub async fn approve<R: ApprovesAgbots>(
    tx: &mut Permitted<R>,
    org: &str,
    agbot: &str,
    by: &impl Display,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- agbot_approval.approve
        UPDATE agbot SET approved_by = COALESCE(approved_by, $3), approved_at = COALESCE(approved_at, $4)
        WHERE org = $1 AND agbot = $2",
        org,
        agbot,
        by.to_string(),
        to_sql(at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Withdraws the approval of an agbot; false when there is no such agbot.
pub async fn withdraw(
    tx: &mut Permitted<right::AgbotApprove>,
    org: &str,
    agbot: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- agbot_approval.withdraw
        UPDATE agbot SET approved_by = NULL, approved_at = NULL WHERE org = $1 AND agbot = $2",
        org,
        agbot,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Withdraws the approval of an agbot that is about to get another owner or token; false when it stays or there is none.
pub async fn withdraw_if_replaced(
    tx: &mut Permitted<right::AgbotWrite>,
    row: &AgbotRow,
    token_hash: Option<&str>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- agbot_approval.withdraw_if_replaced
        UPDATE agbot SET approved_by = NULL, approved_at = NULL
        WHERE org = $1 AND agbot = $2 AND approved_by IS NOT NULL
          AND ((owner_org, owner) <> ($3, $4) OR token_hash IS DISTINCT FROM COALESCE($5, token_hash))",
        row.org,
        row.agbot,
        row.owner_org,
        row.owner,
        token_hash,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Agbots that changed because their owner is no longer an administrator, each once and in order.
#[derive(Debug, Default)]
pub struct Withdrawn {
    /// Those that are no longer approved.
    pub approvals: BTreeSet<AgbotId>,
    /// Those with an entry that is no longer confirmed.
    pub confirmations: BTreeSet<AgbotId>,
}

/// Withdraws the approvals of its own agbots, and the confirmations of their entries, by an account that is
/// no longer an administrator.
///
/// Its approvals of other agbots stay: they give it no rights, and those agbots keep running.
pub async fn withdraw_own(tx: &mut PgConnection, org: &str, name: &str) -> Result<Withdrawn, StoreError> {
    let account = format!("{org}/{name}");
    let confirmations = withdraw_own_entries(tx, org, name, &account).await?;
    let rows = sqlx::query!(
        "-- agbot_approval.withdraw_own
        UPDATE agbot SET approved_by = NULL, approved_at = NULL
        WHERE owner_org = $1 AND owner = $2 AND approved_by = $3
        RETURNING org, agbot",
        org,
        name,
        account,
    )
    .fetch_all(tx)
    .await?;
    let approvals = rows.into_iter().map(|row| AgbotId::new(&row.org, &row.agbot)).collect();
    Ok(Withdrawn { approvals, confirmations })
}

/// Withdraws the confirmations, and returns the agbots that serve the entries.
async fn withdraw_own_entries(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
    account: &str,
) -> Result<BTreeSet<AgbotId>, StoreError> {
    let patterns = sqlx::query!(
        "-- agbot_approval.withdraw_own_patterns
        UPDATE agbot_pattern SET confirmed_by = NULL, confirmed_at = NULL
        FROM agbot
        WHERE agbot.owner_org = $1 AND agbot.owner = $2
          AND agbot_pattern.org = agbot.org AND agbot_pattern.agbot = agbot.agbot AND agbot_pattern.confirmed_by = $3
        RETURNING agbot.org, agbot.agbot",
        org,
        name,
        account,
    )
    .fetch_all(&mut *tx)
    .await?;
    let policies = sqlx::query!(
        "-- agbot_approval.withdraw_own_policies
        UPDATE agbot_policy SET confirmed_by = NULL, confirmed_at = NULL
        FROM agbot
        WHERE agbot.owner_org = $1 AND agbot.owner = $2
          AND agbot_policy.org = agbot.org AND agbot_policy.agbot = agbot.agbot AND agbot_policy.confirmed_by = $3
        RETURNING agbot.org, agbot.agbot",
        org,
        name,
        account,
    )
    .fetch_all(tx)
    .await?;
    let patterns = patterns.into_iter().map(|row| AgbotId::new(&row.org, &row.agbot));
    let policies = policies.into_iter().map(|row| AgbotId::new(&row.org, &row.agbot));
    Ok(patterns.chain(policies).collect())
}

struct Raw {
    agbot: String,
    owner_org: String,
    owner: String,
    approved_by: Option<String>,
    approved_at: Option<jiff_sqlx::Timestamp>,
}

impl From<Raw> for ApprovalRow {
    fn from(row: Raw) -> ApprovalRow {
        ApprovalRow {
            agbot: row.agbot,
            owner: format!("{}/{}", row.owner_org, row.owner),
            approved: row.approved_by.zip(row.approved_at.map(from_sql)),
        }
    }
}

/// Finds the approval of an agbot; `None` when there is no such agbot.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    agbot: &str,
) -> Result<Option<ApprovalRow>, StoreError> {
    let row = sqlx::query_as!(
        Raw,
        r#"-- agbot_approval.find
        SELECT agbot, owner_org, owner, approved_by, approved_at AS "approved_at: jiff_sqlx::Timestamp"
        FROM agbot
        WHERE org = $1 AND agbot = $2"#,
        org,
        agbot,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(ApprovalRow::from))
}

/// Lists the agbots of an organization by id, those after the given one, at most `limit`.
pub async fn list_of_org(
    conn: &mut PgConnection,
    org: &str,
    after: &str,
    limit: i64,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let rows = sqlx::query_as!(
        Raw,
        r#"-- agbot_approval.list_of_org
        SELECT agbot, owner_org, owner, approved_by, approved_at AS "approved_at: jiff_sqlx::Timestamp"
        FROM agbot
        WHERE org = $1 AND agbot > $2
        ORDER BY agbot
        LIMIT $3"#,
        org,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(ApprovalRow::from).collect())
}

/// Lists, in all organizations, the agbots without an approval, at most `limit`.
pub async fn list_unapproved(conn: &mut PgConnection, limit: i64) -> Result<Vec<AgbotId>, StoreError> {
    let rows = sqlx::query!(
        "-- agbot_approval.list_unapproved
        SELECT org, agbot FROM agbot WHERE approved_by IS NULL ORDER BY org, agbot LIMIT $1",
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| AgbotId::new(&row.org, &row.agbot)).collect())
}

/// Lists the agbots that may make agreements with a node, by id, at most `limit`: approved ones of its organization and of the shared
/// one, approved ones of other organizations with a confirmed entry for its organization, and those of its owner.
pub async fn list_for_node(
    conn: &mut PgConnection,
    node: &NodeId,
    shared_org: &str,
    limit: i64,
) -> Result<Vec<AgbotId>, StoreError> {
    let rows = sqlx::query!(
        "-- agbot_approval.list_for_node
        SELECT agbot.org, agbot.agbot
        FROM agbot
        WHERE (agbot.approved_by IS NOT NULL AND agbot.org IN ($1, $3))
           OR (agbot.approved_by IS NOT NULL AND (agbot.org, agbot.agbot) IN (
                  SELECT org, agbot FROM agbot_pattern WHERE node_org = $1 AND confirmed_by IS NOT NULL
                  UNION
                  SELECT org, agbot FROM agbot_policy WHERE node_org = $1 AND confirmed_by IS NOT NULL))
           OR (agbot.org = $1 AND (agbot.owner_org, agbot.owner) IN (
                  SELECT owner_org, owner FROM node WHERE node.org = $1 AND node.node = $2))
        ORDER BY agbot.org, agbot.agbot
        LIMIT $4",
        node.org(),
        node.name(),
        shared_org,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| AgbotId::new(&row.org, &row.agbot)).collect())
}
