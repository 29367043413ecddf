//! The patterns and deployment policies that an agbot serves.

use evenkeel_access::right;
use evenkeel_ids::AgbotId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// An entry: a pattern or policy of one organization is served to the nodes of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRow {
    /// Key of the entry.
    pub entry: String,
    /// Organization of the pattern or policy.
    pub subject_org: String,
    /// Pattern or policy; `*` is every one.
    pub subject: String,
    /// Organization of the nodes.
    pub node_org: String,
    /// When it was added.
    pub updated_at: Timestamp,
    /// The administrator of the nodes, or of the hub, who wrote or confirmed it, as `org/user`; other agbots yield to it only then.
    pub confirmed_by: Option<String>,
}

/// The filter of a list of entries: patterns with `%` and `_`.
#[derive(Debug, Clone, Default)]
pub struct ServedFilter {
    /// Exact key.
    pub entry: Option<String>,
    /// Pattern of the subject.
    pub subject: Option<String>,
    /// Pattern of the subject's organization.
    pub subject_org: Option<String>,
    /// Pattern of the nodes' organization.
    pub node_org: Option<String>,
    /// Only entries that other agbots yield to: confirmed ones of approved agbots.
    pub is_confirmed: bool,
}

/// The kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Patterns.
    Pattern,
    /// Deployment policies.
    Policy,
}

/// Lists the entries of an agbot (organization and id): by key, after the given one, at most `limit`.
pub async fn list(
    conn: &mut PgConnection,
    subject: Subject,
    agbot: (&str, &str),
    filter: &ServedFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ServedRow>, StoreError> {
    match subject {
        Subject::Pattern => list_patterns(conn, agbot, filter, after, limit).await,
        Subject::Policy => list_policies(conn, agbot, filter, after, limit).await,
    }
}

/// Counts the entries of an agbot that a filter selects by other members than the key, up to a number.
pub async fn count(
    conn: &mut PgConnection,
    subject: Subject,
    agbot: (&str, &str),
    filter: &ServedFilter,
    most: i64,
) -> Result<i64, StoreError> {
    match subject {
        Subject::Pattern => count_patterns(conn, agbot, filter, most).await,
        Subject::Policy => count_policies(conn, agbot, filter, most).await,
    }
}

/// Adds an entry.
///
/// # Errors
/// [`StoreError::Conflict`] when it exists, [`StoreError::ParentMissing`] when the agbot does not.
pub async fn insert(
    tx: &mut Permitted<right::AgbotWrite>,
    subject: Subject,
    org: &str,
    agbot: &str,
    row: &ServedRow,
) -> Result<(), StoreError> {
    match subject {
        Subject::Pattern => insert_pattern(tx, org, agbot, row).await,
        Subject::Policy => insert_policy(tx, org, agbot, row).await,
    }
}

/// Removes one entry, or all; returns their number.
pub async fn delete(
    tx: &mut Permitted<right::AgbotWrite>,
    subject: Subject,
    org: &str,
    agbot: &str,
    entry: Option<&str>,
) -> Result<u64, StoreError> {
    match subject {
        Subject::Pattern => delete_patterns(tx, org, agbot, entry).await,
        Subject::Policy => delete_policies(tx, org, agbot, entry).await,
    }
}

/// Counts the entries of an agbot, of both kinds.
pub async fn count_of_agbot(conn: &mut PgConnection, org: &str, agbot: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- served_entry.count_of_agbot
        SELECT (SELECT count(*) FROM agbot_pattern WHERE org = $1 AND agbot = $2)
             + (SELECT count(*) FROM agbot_policy WHERE org = $1 AND agbot = $2) AS "count!""#,
        org,
        agbot,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// An entry of any agbot for the nodes of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedTo {
    /// The agbot.
    pub agbot: AgbotId,
    /// The kind of entry.
    pub subject: Subject,
    /// The entry.
    pub row: ServedRow,
}

/// A place in the list of what any agbot serves: behind this entry of an agbot. The default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedPlace {
    /// Organization of the agbot.
    pub org: String,
    /// Its id.
    pub agbot: String,
    /// True for a deployment policy, false for a pattern.
    pub is_policy: bool,
    /// Key of the entry.
    pub entry: String,
}

/// Lists what any agbot serves to the nodes of an organization: by agbot, kind and key, those behind a place, at most `limit`.
pub async fn list_served_to(
    conn: &mut PgConnection,
    node_org: &str,
    after: &ServedPlace,
    limit: i64,
) -> Result<Vec<ServedTo>, StoreError> {
    let rows = sqlx::query!(
        r#"-- served_entry.list_served_to
        (SELECT org AS "org!", agbot AS "agbot!", false AS "is_policy!", entry AS "entry!", pattern_org AS "subject_org!",
                pattern AS "subject!", updated_at AS "updated_at!: jiff_sqlx::Timestamp", confirmed_by
         FROM agbot_pattern WHERE node_org = $1 AND (org, agbot, false, entry) > ($3, $4, $5::boolean, $6)
         ORDER BY 1, 2, 4 LIMIT $2)
        UNION ALL
        (SELECT org, agbot, true, entry, policy_org, policy, updated_at, confirmed_by
         FROM agbot_policy WHERE node_org = $1 AND (org, agbot, true, entry) > ($3, $4, $5::boolean, $6)
         ORDER BY 1, 2, 4 LIMIT $2)
        ORDER BY 1, 2, 3, 4
        LIMIT $2"#,
        node_org,
        limit,
        after.org,
        after.agbot,
        after.is_policy,
        after.entry,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ServedTo {
            agbot: AgbotId::new(&row.org, &row.agbot),
            subject: if row.is_policy { Subject::Policy } else { Subject::Pattern },
            row: ServedRow {
                entry: row.entry,
                subject_org: row.subject_org,
                subject: row.subject,
                node_org: node_org.to_owned(),
                updated_at: from_sql(row.updated_at),
                confirmed_by: row.confirmed_by,
            },
        })
        .collect())
}

/// Confirms an entry of an agbot for the nodes of an organization, or withdraws that when `by` is `None`; false when there is no such
/// entry.
pub async fn confirm(
    tx: &mut Permitted<right::AgbotApprove>,
    (subject, agbot): (Subject, &AgbotId),
    entry: &str,
    node_org: &str,
    by: Option<&str>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let (org, agbot) = (agbot.org(), agbot.name());
    let at = by.map(|_| to_sql(at));
    let done = match subject {
        Subject::Pattern => sqlx::query!(
            "-- served_entry.confirm_pattern
            UPDATE agbot_pattern SET confirmed_by = $5, confirmed_at = $6
            WHERE org = $1 AND agbot = $2 AND entry = $3 AND node_org = $4",
            org,
            agbot,
            entry,
            node_org,
            by,
            at as _,
        ),
        Subject::Policy => sqlx::query!(
            "-- served_entry.confirm_policy
            UPDATE agbot_policy SET confirmed_by = $5, confirmed_at = $6
            WHERE org = $1 AND agbot = $2 AND entry = $3 AND node_org = $4",
            org,
            agbot,
            entry,
            node_org,
            by,
            at as _,
        ),
    };
    Ok(done.execute(&mut **tx).await?.rows_affected() > 0)
}

async fn list_patterns(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    filter: &ServedFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ServedRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- served_entry.list_patterns
        SELECT entry, pattern_org, pattern, node_org, updated_at AS "updated_at: jiff_sqlx::Timestamp", confirmed_by
        FROM agbot_pattern
        WHERE org = $1 AND agbot = $2
          AND ($3::text IS NULL OR entry = $3)
          AND ($4::text IS NULL OR pattern LIKE $4)
          AND ($5::text IS NULL OR pattern_org LIKE $5)
          AND ($6::text IS NULL OR node_org LIKE $6)
          AND entry > COALESCE($7::text, '')
          AND (NOT $9 OR (confirmed_by IS NOT NULL AND EXISTS (
              SELECT FROM agbot WHERE agbot.org = $1 AND agbot.agbot = $2 AND agbot.approved_by IS NOT NULL)))
        ORDER BY entry
        LIMIT $8"#,
        org,
        agbot,
        filter.entry.as_deref(),
        filter.subject.as_deref(),
        filter.subject_org.as_deref(),
        filter.node_org.as_deref(),
        after,
        limit,
        filter.is_confirmed,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ServedRow {
            entry: row.entry,
            subject_org: row.pattern_org,
            subject: row.pattern,
            node_org: row.node_org,
            updated_at: from_sql(row.updated_at),
            confirmed_by: row.confirmed_by,
        })
        .collect())
}

async fn list_policies(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    filter: &ServedFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ServedRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- served_entry.list_policies
        SELECT entry, policy_org, policy, node_org, updated_at AS "updated_at: jiff_sqlx::Timestamp", confirmed_by
        FROM agbot_policy
        WHERE org = $1 AND agbot = $2
          AND ($3::text IS NULL OR entry = $3)
          AND ($4::text IS NULL OR policy LIKE $4)
          AND ($5::text IS NULL OR policy_org LIKE $5)
          AND ($6::text IS NULL OR node_org LIKE $6)
          AND entry > COALESCE($7::text, '')
          AND (NOT $9 OR (confirmed_by IS NOT NULL AND EXISTS (
              SELECT FROM agbot WHERE agbot.org = $1 AND agbot.agbot = $2 AND agbot.approved_by IS NOT NULL)))
        ORDER BY entry
        LIMIT $8"#,
        org,
        agbot,
        filter.entry.as_deref(),
        filter.subject.as_deref(),
        filter.subject_org.as_deref(),
        filter.node_org.as_deref(),
        after,
        limit,
        filter.is_confirmed,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ServedRow {
            entry: row.entry,
            subject_org: row.policy_org,
            subject: row.policy,
            node_org: row.node_org,
            updated_at: from_sql(row.updated_at),
            confirmed_by: row.confirmed_by,
        })
        .collect())
}

async fn count_patterns(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    filter: &ServedFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- served_entry.count_patterns
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM agbot_pattern
            WHERE org = $1 AND agbot = $2
              AND ($3::text IS NULL OR pattern LIKE $3)
              AND ($4::text IS NULL OR pattern_org LIKE $4)
              AND ($5::text IS NULL OR node_org LIKE $5)
              AND (NOT $6 OR (confirmed_by IS NOT NULL AND EXISTS (
                  SELECT FROM agbot WHERE agbot.org = $1 AND agbot.agbot = $2 AND agbot.approved_by IS NOT NULL)))
            LIMIT $7
        ) AS selected"#,
        org,
        agbot,
        filter.subject.as_deref(),
        filter.subject_org.as_deref(),
        filter.node_org.as_deref(),
        filter.is_confirmed,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

async fn count_policies(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    filter: &ServedFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- served_entry.count_policies
        SELECT count(*) AS "count!"
        FROM (
            SELECT 1
            FROM agbot_policy
            WHERE org = $1 AND agbot = $2
              AND ($3::text IS NULL OR policy LIKE $3)
              AND ($4::text IS NULL OR policy_org LIKE $4)
              AND ($5::text IS NULL OR node_org LIKE $5)
              AND (NOT $6 OR (confirmed_by IS NOT NULL AND EXISTS (
                  SELECT FROM agbot WHERE agbot.org = $1 AND agbot.agbot = $2 AND agbot.approved_by IS NOT NULL)))
            LIMIT $7
        ) AS selected"#,
        org,
        agbot,
        filter.subject.as_deref(),
        filter.subject_org.as_deref(),
        filter.node_org.as_deref(),
        filter.is_confirmed,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Adds a served pattern.
///
/// # Errors
/// See [`insert`].
async fn insert_pattern(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
    row: &ServedRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- served_entry.insert_pattern
        INSERT INTO agbot_pattern (org, agbot, entry, pattern_org, pattern, node_org, updated_at, confirmed_by, confirmed_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7::timestamptz, $8, CASE WHEN $8::text IS NOT NULL THEN $7::timestamptz END)",
        org,
        agbot,
        row.entry,
        row.subject_org,
        row.subject,
        row.node_org,
        to_sql(row.updated_at) as _,
        row.confirmed_by,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Adds a served deployment policy.
///
/// # Errors
/// See [`insert`].
async fn insert_policy(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
    row: &ServedRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- served_entry.insert_policy
        INSERT INTO agbot_policy (org, agbot, entry, policy_org, policy, node_org, updated_at, confirmed_by, confirmed_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7::timestamptz, $8, CASE WHEN $8::text IS NOT NULL THEN $7::timestamptz END)",
        org,
        agbot,
        row.entry,
        row.subject_org,
        row.subject,
        row.node_org,
        to_sql(row.updated_at) as _,
        row.confirmed_by,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn delete_patterns(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
    entry: Option<&str>,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- served_entry.delete_patterns
        DELETE FROM agbot_pattern WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR entry = $3)",
        org,
        agbot,
        entry,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

async fn delete_policies(
    tx: &mut PgConnection,
    org: &str,
    agbot: &str,
    entry: Option<&str>,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- served_entry.delete_policies
        DELETE FROM agbot_policy WHERE org = $1 AND agbot = $2 AND ($3::text IS NULL OR entry = $3)",
        org,
        agbot,
        entry,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Org, at};

    async fn add(org: &Org, subject: Subject, agbot: &str, entry: &str, node_org: &str) {
        let row = ServedRow {
            entry: entry.to_owned(),
            subject_org: org.to_string(),
            subject: "*".to_owned(),
            node_org: node_org.to_owned(),
            updated_at: at(0),
            confirmed_by: None,
        };
        org.write(async |tx| insert(tx, subject, org, agbot, &row).await).await;
    }

    #[tokio::test]
    async fn pages_of_what_is_served_to_nodes_go_through_agbots_and_kinds() {
        let org = Org::new("served-pages").await;
        for agbot in ["a", "b"] {
            org.add_agbot(agbot, "u").await;
            for (subject, entry, node_org) in [
                (Subject::Policy, "1", "served-nodes"),
                (Subject::Policy, "3", "served-nodes"),
                (Subject::Pattern, "2", "served-nodes"),
                (Subject::Pattern, "1", "served-others"),
            ] {
                add(&org, subject, agbot, entry, node_org).await;
            }
        }
        let mut connection = org.connection().await;
        for limit in [1, 2, 4, 10] {
            let (mut place, mut found) = (ServedPlace::default(), Vec::new());
            loop {
                let page = list_served_to(&mut connection, "served-nodes", &place, limit).await.unwrap();
                let Some(last) = page.last() else { break };
                place = ServedPlace {
                    org: last.agbot.org().to_owned(),
                    agbot: last.agbot.name().to_owned(),
                    is_policy: last.subject == Subject::Policy,
                    entry: last.row.entry.clone(),
                };
                found.extend(page.into_iter().map(|row| format!("{} {}", row.agbot.name(), row.row.entry)));
            }
            assert_eq!(found, ["a 2", "a 1", "a 3", "b 2", "b 1", "b 3"], "{limit}");
        }
        assert_eq!(count_of_agbot(&mut connection, &org, "a").await.unwrap(), 4);
    }

    #[tokio::test]
    async fn entry_is_confirmed_for_its_nodes_and_counts_once_the_agbot_is_approved() {
        let org = Org::new("served-confirm").await;
        org.add_agbot("a", "u").await;
        add(&org, Subject::Policy, "a", "1", "served-confirm").await;
        add(&org, Subject::Policy, "a", "2", "served-confirm").await;
        add(&org, Subject::Pattern, "a", "1", "served-confirm").await;
        let agbot = AgbotId::new(&org, "a");
        let confirm = async |node_org: &str, by: Option<&str>| {
            org.write(async |tx| confirm(tx, (Subject::Policy, &agbot), "1", node_org, by, at(1)).await).await
        };
        let confirmed = async |subject: Subject| {
            let filter = ServedFilter { is_confirmed: true, ..ServedFilter::default() };
            let mut connection = org.connection().await;
            let found = list(&mut connection, subject, (&org, "a"), &filter, None, 10).await.unwrap();
            found.into_iter().map(|row| row.entry).collect::<Vec<_>>()
        };
        assert!(!confirm("other", Some("other/admin")).await, "the nodes are of another organization");
        assert!(confirm("served-confirm", Some("served-confirm/u")).await);
        assert_eq!(confirmed(Subject::Policy).await, [""; 0], "nobody approved the agbot");
        let approve = "UPDATE agbot SET approved_by = 'served-confirm/u', approved_at = now() WHERE org = 'served-confirm'";
        sqlx::query(approve).execute(&mut *org.connection().await).await.unwrap();
        assert_eq!(confirmed(Subject::Policy).await, ["1"]);
        assert_eq!(confirmed(Subject::Pattern).await, [""; 0]);
        assert!(confirm("served-confirm", None).await);
        assert_eq!(confirmed(Subject::Policy).await, [""; 0]);
    }
}
