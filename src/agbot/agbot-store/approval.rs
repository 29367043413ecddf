//! Events about requests that a second person approves a plan.
//!
//! The exchange keeps the requests. Each step of one is recorded once, whichever agbot of the database reads it first, and also after its
//! events were removed.

use evenkeel_ids::{OrgId, PolicyId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// An event about a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalEvent {
    /// Time of the event.
    pub happened_at: Timestamp,
    /// Kind, for instance `approval.approved`.
    pub kind: &'static str,
    /// Organization of the request.
    pub org: OrgId,
    /// The deployment policy, if the request is about one.
    pub policy: Option<PolicyId>,
    /// The step and who took it.
    pub detail: Value,
}

/// Appends an event.
pub async fn insert_event(conn: &mut PgConnection, event: &ApprovalEvent) -> Result<(), StoreError> {
    sqlx::query!(
        "-- approval.insert_event
        INSERT INTO agbot_event (happened_at, kind, policy, subject_org, detail) VALUES ($1, $2, $3, $4, $5)",
        to_sql(event.happened_at) as _,
        event.kind,
        event.policy.as_ref().map(PolicyId::as_str),
        event.policy.is_none().then(|| event.org.as_str()),
        event.detail,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Keeps others from recording steps of a request until the end of the transaction, and returns the state up to which they are recorded; none
/// before the first one.
pub async fn lock(
    tx: &mut PgConnection,
    org: &str,
    approval: &str,
    expires_at: Timestamp,
) -> Result<Option<String>, StoreError> {
    let state = sqlx::query_scalar!(
        "-- approval.lock
        INSERT INTO recorded_approval (org, approval, expires_at) VALUES ($1, $2, $3)
        ON CONFLICT (org, approval) DO UPDATE SET expires_at = excluded.expires_at
        RETURNING state",
        org,
        approval,
        to_sql(expires_at) as _,
    )
    .fetch_one(tx)
    .await?;
    Ok(state)
}

/// Notes the state up to which the steps of a request are recorded.
pub async fn set_state(
    conn: &mut PgConnection,
    org: &str,
    approval: &str,
    state: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- approval.set_state
        UPDATE recorded_approval SET state = $3 WHERE org = $1 AND approval = $2",
        org,
        approval,
        state,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the states up to which the steps of the requests of an organization are recorded, by request.
pub async fn list_states(conn: &mut PgConnection, org: &str) -> Result<Vec<(String, String)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- approval.list_states
        SELECT approval, state AS "state!" FROM recorded_approval WHERE org = $1 AND state IS NOT NULL"#,
        org,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.approval, row.state)).collect())
}

/// Lists at most `limit` open requests whose time is over, as organization and id.
pub async fn list_due(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(String, String)>, StoreError> {
    let rows = sqlx::query!(
        "-- approval.list_due
        SELECT org, approval
        FROM recorded_approval
        WHERE expires_at <= $1 AND state IN ('pending', 'approved')
        ORDER BY expires_at
        LIMIT $2",
        to_sql(now) as _,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, row.approval)).collect())
}

/// Forgets requests that expired before an instant.
pub async fn delete_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- approval.delete_before
        DELETE FROM recorded_approval WHERE expires_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{PolicyEventFilter, list_of_org};
    use crate::tests::{at, shared};

    #[tokio::test]
    async fn state_of_a_request_is_kept_until_it_expired_long_ago() {
        let mut connection = shared().await.connection().await;
        let org = "approvals";
        assert_eq!(lock(&mut connection, org, "1", at(10)).await.unwrap(), None);
        assert_eq!(lock(&mut connection, org, "1", at(10)).await.unwrap(), None, "nothing is recorded yet");
        set_state(&mut connection, org, "1", "pending").await.unwrap();
        assert_eq!(lock(&mut connection, org, "1", at(10)).await.unwrap().as_deref(), Some("pending"));
        lock(&mut connection, org, "2", at(5)).await.unwrap();
        let states = list_states(&mut connection, org).await.unwrap();
        assert_eq!(states, [("1".to_owned(), "pending".to_owned())]);

        let due = async |connection: &mut PgConnection, second| {
            let due = list_due(connection, at(second), 10).await.unwrap();
            due.into_iter().filter(|(one, _)| one == org).map(|(_, id)| id).collect::<Vec<_>>()
        };
        assert_eq!(due(&mut connection, 9).await, Vec::<String>::new());
        assert_eq!(due(&mut connection, 10).await, ["1"]);
        set_state(&mut connection, org, "1", "expired").await.unwrap();
        assert_eq!(due(&mut connection, 10).await, Vec::<String>::new());
        assert_eq!(delete_before(&mut connection, at(10)).await.unwrap(), 1);
        assert_eq!(
            list_states(&mut connection, org).await.unwrap(),
            [("1".to_owned(), "expired".to_owned())]
        );
    }

    #[tokio::test]
    async fn events_belong_to_the_policy_or_to_the_organization() {
        let mut connection = shared().await.connection().await;
        let org: OrgId = "approval-events".parse().unwrap();
        for policy in [Some(PolicyId::new(org.as_str(), "p")), None] {
            let event = ApprovalEvent {
                happened_at: at(0),
                kind: "approval.requested",
                org: org.clone(),
                policy,
                detail: json!({"approvalId": "1"}),
            };
            insert_event(&mut connection, &event).await.unwrap();
        }
        let filter = PolicyEventFilter { limit: 10, ..PolicyEventFilter::default() };
        let found = list_of_org(&mut connection, org.as_str(), (None, None), &filter).await.unwrap();
        let policies: Vec<_> =
            found.iter().map(|one| one.event.policy.as_ref().map(PolicyId::name)).collect();
        assert_eq!(policies, [Some("p"), None]);
    }
}
