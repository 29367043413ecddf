//! Requests that a second person approves the plan of a write.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::permitted::{Permitted, UsesPlanApprovals};

/// A request that is added.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlanApproval {
    /// Its organization.
    pub org: String,
    /// Its id; later ones are greater.
    pub id: Uuid,
    /// The account of the organization that requests it.
    pub requester: String,
    /// Kind of the write.
    pub kind: String,
    /// The deployment policy that the write is about.
    pub policy: Option<String>,
    /// The write in words.
    pub title: String,
    /// The write.
    pub request: Value,
    /// The plan.
    pub plan: Value,
    /// Digest of the plan.
    pub token: String,
    /// When the object of the write was written last.
    pub basis: Option<String>,
    /// Reason for the write.
    pub reason: String,
    /// When it is requested.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A request without its write and its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanApprovalRow {
    /// Its id.
    pub id: Uuid,
    /// The account of the organization that requested it.
    pub requester: String,
    /// Kind of the write.
    pub kind: String,
    /// The deployment policy that the write is about.
    pub policy: Option<String>,
    /// The write in words.
    pub title: String,
    /// Digest of the plan.
    pub token: String,
    /// When the object of the write was written last.
    pub basis: Option<String>,
    /// Reason for the write.
    pub reason: String,
    /// `pending`, `approved`, `rejected`, `canceled` or `used`, whatever its age.
    pub state: String,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// The account that decided about it.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// Reason for the decision.
    pub decision: Option<String>,
    /// The account that used it.
    pub used_by: Option<String>,
    /// When.
    pub used_at: Option<Timestamp>,
}

/// A request with its write and its plan.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlanApproval {
    /// The request.
    pub row: PlanApprovalRow,
    /// The write.
    pub request: Value,
    /// The plan.
    pub plan: Value,
}

/// Requests that wait for a decision or for their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCounts {
    /// Of the organization.
    pub of_org: i64,
    /// Of one requester.
    pub of_requester: i64,
}

/// Counts the requests of an organization that are open at an instant, and keeps others from adding some until the end of the transaction.
pub async fn lock_open_counts(
    tx: &mut Permitted<right::PlanApprovalWrite>,
    org: &str,
    requester: &str,
    now: Timestamp,
) -> Result<OpenCounts, StoreError> {
    // The counts decide about an insertion, which no row lock delays.
    sqlx::query!(
        r#"-- plan_approval.lock_org
        SELECT pg_advisory_xact_lock(hashtextextended('plan_approval/' || $1, 0))::text AS "nothing?""#,
        org,
    )
    .fetch_one(&mut **tx)
    .await?;
    let counts = sqlx::query!(
        r#"-- plan_approval.count_open
        SELECT count(*) AS "of_org!", count(*) FILTER (WHERE requester = $2) AS "of_requester!"
        FROM plan_approval
        WHERE org = $1 AND state IN ('pending', 'approved') AND expires_at > $3"#,
        org,
        requester,
        to_sql(now) as _,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(OpenCounts { of_org: counts.of_org, of_requester: counts.of_requester })
}

/// Adds a request.
pub async fn insert(
    tx: &mut Permitted<right::PlanApprovalWrite>,
    new: &NewPlanApproval,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- plan_approval.insert
        INSERT INTO plan_approval
            (org, id, requester, kind, policy, title, request, plan, token, basis, reason, state, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending', $12, $13)",
        new.org,
        new.id,
        new.requester,
        new.kind,
        new.policy,
        new.title,
        new.request,
        new.plan,
        new.token,
        new.basis,
        new.reason,
        to_sql(new.created_at) as _,
        to_sql(new.expires_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes the oldest requests of an organization that are over at an instant, so that at most `kept` of these stay.
pub async fn delete_surplus(
    tx: &mut Permitted<right::PlanApprovalWrite>,
    org: &str,
    now: Timestamp,
    kept: i64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- plan_approval.delete_surplus
        DELETE FROM plan_approval
        WHERE org = $1 AND id IN (
            SELECT id FROM plan_approval
            WHERE org = $1 AND (state NOT IN ('pending', 'approved') OR expires_at <= $2)
            ORDER BY id DESC
            OFFSET $3)",
        org,
        to_sql(now) as _,
        kept,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes at most `limit` requests of any organization that expired before an instant; returns their number.
pub async fn prune(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- plan_approval.prune
        DELETE FROM plan_approval
        WHERE (org, id) IN (SELECT org, id FROM plan_approval WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)",
        to_sql(before) as _,
        limit,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

struct Raw {
    id: Uuid,
    requester: String,
    kind: String,
    policy: Option<String>,
    title: String,
    token: String,
    basis: Option<String>,
    reason: String,
    state: String,
    created_at: jiff_sqlx::Timestamp,
    expires_at: jiff_sqlx::Timestamp,
    decided_by: Option<String>,
    decided_at: Option<jiff_sqlx::Timestamp>,
    decision: Option<String>,
    used_by: Option<String>,
    used_at: Option<jiff_sqlx::Timestamp>,
}

impl From<Raw> for PlanApprovalRow {
    fn from(row: Raw) -> PlanApprovalRow {
        PlanApprovalRow {
            id: row.id,
            requester: row.requester,
            kind: row.kind,
            policy: row.policy,
            title: row.title,
            token: row.token,
            basis: row.basis,
            reason: row.reason,
            state: row.state,
            created_at: from_sql(row.created_at),
            expires_at: from_sql(row.expires_at),
            decided_by: row.decided_by,
            decided_at: row.decided_at.map(from_sql),
            decision: row.decision,
            used_by: row.used_by,
            used_at: row.used_at.map(from_sql),
        }
    }
}

/// Selection of requests to list.
#[derive(Debug, Clone, Copy)]
pub struct PlanApprovalFilter<'a> {
    /// Organization.
    pub org: &'a str,
    /// Only this state, `expired` for open ones whose time is over.
    pub state: Option<&'a str>,
    /// Only requests of this account.
    pub requester: Option<&'a str>,
    /// Only requests older than this one.
    pub after: Option<Uuid>,
    /// The time.
    pub now: Timestamp,
    /// Requests at most.
    pub limit: i64,
}

/// Lists requests of an organization, newest first.
pub async fn list(
    conn: &mut PgConnection,
    filter: PlanApprovalFilter<'_>,
) -> Result<Vec<PlanApprovalRow>, StoreError> {
    let rows = sqlx::query_as!(
        Raw,
        r#"-- plan_approval.list
        SELECT id, requester, kind, policy, title, token, basis, reason, state,
               created_at AS "created_at: jiff_sqlx::Timestamp", expires_at AS "expires_at: jiff_sqlx::Timestamp",
               decided_by, decided_at AS "decided_at: jiff_sqlx::Timestamp", decision,
               used_by, used_at AS "used_at: jiff_sqlx::Timestamp"
        FROM plan_approval
        WHERE org = $1
          AND id < COALESCE($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
          AND ($3::text IS NULL OR requester = $3)
          AND ($4::text IS NULL
               OR $4 = CASE WHEN state IN ('pending', 'approved') AND expires_at <= $5 THEN 'expired' ELSE state END)
        ORDER BY id DESC
        LIMIT $6"#,
        filter.org,
        filter.after,
        filter.requester,
        filter.state,
        to_sql(filter.now) as _,
        filter.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(PlanApprovalRow::from).collect())
}

/// Reads a request by a query that ends with `$tail`.
macro_rules! select_one {
    ($conn:ident, $org:ident, $id:ident, $name:literal, $tail:literal) => {{
        let row = sqlx::query!(
            "-- plan_approval." + $name + r#"
            SELECT id, requester, kind, policy, title, token, basis, reason, state,
                   created_at AS "created_at: jiff_sqlx::Timestamp", expires_at AS "expires_at: jiff_sqlx::Timestamp",
                   decided_by, decided_at AS "decided_at: jiff_sqlx::Timestamp", decision,
                   used_by, used_at AS "used_at: jiff_sqlx::Timestamp", request, plan
            FROM plan_approval
            WHERE org = $1 AND id = $2 "# + $tail,
            $org,
            $id,
        )
        .fetch_optional($conn)
        .await?;
        row.map(|row| StoredPlanApproval {
            request: row.request,
            plan: row.plan,
            row: Raw {
                id: row.id,
                requester: row.requester,
                kind: row.kind,
                policy: row.policy,
                title: row.title,
                token: row.token,
                basis: row.basis,
                reason: row.reason,
                state: row.state,
                created_at: row.created_at,
                expires_at: row.expires_at,
                decided_by: row.decided_by,
                decided_at: row.decided_at,
                decision: row.decision,
                used_by: row.used_by,
                used_at: row.used_at,
            }
            .into(),
        })
    }};
}

/// Finds a request.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    id: Uuid,
) -> Result<Option<StoredPlanApproval>, StoreError> {
    Ok(select_one!(conn, org, id, "find", ""))
}

/// Finds a request and keeps it as it is until the end of the transaction. What the write is about is locked before.
pub async fn lock(
    conn: &mut PgConnection,
    org: &str,
    id: Uuid,
) -> Result<Option<StoredPlanApproval>, StoreError> {
    Ok(select_one!(conn, org, id, "lock", "FOR UPDATE"))
}

/// A decision about a request.
#[derive(Debug, Clone, Copy)]
pub struct PlanDecision<'a> {
    /// `approved`, `rejected` or `canceled`.
    pub state: &'a str,
    /// The account that decides.
    pub by: &'a str,
    /// Reason for it.
    pub reason: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Records a decision about a request that is [locked](lock).
pub async fn decide(
    tx: &mut Permitted<right::PlanApprovalWrite>,
    org: &str,
    id: Uuid,
    decision: PlanDecision<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- plan_approval.decide
        UPDATE plan_approval SET state = $3, decided_by = $4, decided_at = $5, decision = $6 WHERE org = $1 AND id = $2",
        org,
        id,
        decision.state,
        decision.by,
        to_sql(decision.at) as _,
        decision.reason,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Uses a request up that is [locked](lock) and approved.
pub async fn mark_used<R: UsesPlanApprovals>(
    tx: &mut Permitted<R>,
    org: &str,
    id: Uuid,
    by: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- plan_approval.mark_used
        UPDATE plan_approval SET state = 'used', used_by = $3, used_at = $4 WHERE org = $1 AND id = $2 AND state = 'approved'",
        org,
        id,
        by,
        to_sql(at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::tests::{Org, commit};

    fn request(org: &str, number: u128, at: Timestamp) -> NewPlanApproval {
        NewPlanApproval {
            org: org.to_owned(),
            id: Uuid::from_u128(number),
            requester: format!("user-{}", number % 2),
            kind: "settings".to_owned(),
            policy: None,
            title: "change settings of the organization".to_owned(),
            request: serde_json::json!({"kind": "settings", "settings": {}}),
            plan: serde_json::json!({"token": "t"}),
            token: "t".to_owned(),
            basis: None,
            reason: "r".to_owned(),
            created_at: at,
            expires_at: at + SignedDuration::from_hours(24),
        }
    }

    #[tokio::test]
    async fn requests_are_decided_used_once_and_removed_when_they_are_over() {
        let org = Org::new("plan-approval").await;
        let now: Timestamp = "2026-03-01T08:00:00Z".parse().unwrap();
        let mut tx = org.begin::<right::PlanApprovalWrite>().await;
        for number in 1..=20 {
            insert(&mut tx, &request(&org, number, now)).await.unwrap();
        }
        let open = lock_open_counts(&mut tx, &org, "user-1", now).await.unwrap();
        assert_eq!(open, OpenCounts { of_org: 20, of_requester: 10 });
        for number in 1..=12 {
            let decision = PlanDecision { state: "approved", by: "bob", reason: "seen", at: now };
            decide(&mut tx, &org, Uuid::from_u128(number), decision).await.unwrap();
            mark_used(&mut tx, &org, Uuid::from_u128(number), "ann", now).await.unwrap();
        }
        // One that is not approved stays as it is.
        mark_used(&mut tx, &org, Uuid::from_u128(20), "ann", now).await.unwrap();
        delete_surplus(&mut tx, &org, now, 5).await.unwrap();
        commit(tx).await;
        let mut conn = org.connection().await;
        let filter =
            PlanApprovalFilter { org: &org, state: None, requester: None, after: None, now, limit: 100 };
        let ids = |rows: Vec<PlanApprovalRow>| rows.iter().map(|row| row.id.as_u128()).collect::<Vec<_>>();
        assert_eq!(ids(list(&mut conn, filter).await.unwrap()), (8..=20).rev().collect::<Vec<_>>());
        let page =
            PlanApprovalFilter { state: Some("used"), after: Some(Uuid::from_u128(11)), limit: 2, ..filter };
        assert_eq!(ids(list(&mut conn, page).await.unwrap()), [10, 9]);
        let own = PlanApprovalFilter { state: Some("pending"), requester: Some("user-1"), ..filter };
        assert_eq!(ids(list(&mut conn, own).await.unwrap()), [19, 17, 15, 13]);
        let later = now + SignedDuration::from_hours(25);
        let expired = PlanApprovalFilter { state: Some("expired"), now: later, limit: 3, ..filter };
        assert_eq!(ids(list(&mut conn, expired).await.unwrap()), [20, 19, 18]);
        let used = find(&mut conn, &org, Uuid::from_u128(12)).await.unwrap().expect("a request");
        assert_eq!((used.row.state.as_str(), used.row.used_by.as_deref()), ("used", Some("ann")));
        assert_eq!((used.row.decision.as_deref(), used.plan["token"].as_str()), (Some("seen"), Some("t")));
        let mut tx = org.begin::<right::PlanApprovalWrite>().await;
        let open = lock_open_counts(&mut tx, &org, "user-1", later).await.unwrap();
        assert_eq!(open, OpenCounts { of_org: 0, of_requester: 0 }, "expired ones take no room");
        drop(tx);
        while prune(&mut conn, later, 5).await.unwrap() > 0 {}
        assert_eq!(ids(list(&mut conn, filter).await.unwrap()), Vec::<u128>::new());
    }
}
