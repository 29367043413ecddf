//! Revisions of the documents that persons write. [`insert_revised`](super::audit_state::insert_revised) adds them with the audit record of the
//! write; here they are read, and removed when they are old or too many.
//!
//! A revision holds the body of a write that would store the document, so that restoring it is an ordinary write.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

use super::audit_state::Subject;

/// Limits on revisions. The newest one of a document that exists always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionLimits {
    /// Revisions of one document.
    pub count: i64,
    /// Bytes of the revisions of one document.
    pub document_bytes: i64,
    /// Bytes of all revisions of one organization.
    pub org_bytes: i64,
}

/// A revision that a write adds if it changes the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRevision<'a> {
    /// The document before the write; none when there was none.
    pub before: Option<&'a str>,
    /// Reason that the author gave; empty without one.
    pub reason: &'a str,
    /// Limits on what is kept.
    pub limits: RevisionLimits,
    /// Older revisions of the document are removed.
    pub kept_since: Timestamp,
}

/// A document whose revisions are read.
#[derive(Debug, Clone, Copy)]
pub struct RevisedDocument<'a> {
    /// Its kind.
    pub kind: Subject,
    /// Organization.
    pub org: &'a str,
    /// Bare id; that of an organization for its settings.
    pub name: &'a str,
    /// Only revisions that this account, `org/name`, may see; none for all.
    pub audience: Option<&'a str>,
}

/// A revision without its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRow {
    /// Its number.
    pub revision: i64,
    /// When it was written.
    pub recorded_at: Timestamp,
    /// Login of the author, `org/id`; empty when a write found the document in this state.
    pub author: String,
    /// Reason that the author gave; empty without one.
    pub reason: String,
    /// `found`, `create`, `update` or `delete`.
    pub operation: String,
    /// The owner of the node or of the private service, or `administrators`; empty for all who may read the document. Of an HA group
    /// `administrators` see the description alone.
    pub audience: String,
    /// Bytes that count against the limits.
    pub bytes: i64,
}

/// Lists at most `limit` revisions of a document, newest first, with smaller numbers than `after`.
pub async fn list(
    conn: &mut PgConnection,
    document: RevisedDocument<'_>,
    after: Option<i64>,
    limit: i64,
) -> Result<Vec<RevisionRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- document_revision.list
        SELECT revision, recorded_at AS "recorded_at: jiff_sqlx::Timestamp", author, reason, operation, audience, bytes
        FROM document_revision
        WHERE org = $1 AND kind = $2 AND name = $3
          AND ($4::text IS NULL OR audience IN ('', $4))
          AND revision < COALESCE($5::bigint, 9223372036854775807)
        ORDER BY revision DESC
        LIMIT $6"#,
        document.org,
        document.kind.name(),
        document.name,
        document.audience,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let row = rows.into_iter().map(|row| RevisionRow {
        revision: row.revision,
        recorded_at: from_sql(row.recorded_at),
        author: row.author,
        reason: row.reason,
        operation: row.operation,
        audience: row.audience,
        bytes: row.bytes,
    });
    Ok(row.collect())
}

/// Finds a revision with its document, which is none after a removal.
pub async fn find(
    conn: &mut PgConnection,
    document: RevisedDocument<'_>,
    revision: i64,
) -> Result<Option<(RevisionRow, Option<Value>)>, StoreError> {
    let row = sqlx::query!(
        r#"-- document_revision.find
        SELECT revision, recorded_at AS "recorded_at: jiff_sqlx::Timestamp", author, reason, operation, audience, document, bytes
        FROM document_revision
        WHERE org = $1 AND kind = $2 AND name = $3 AND revision = $5
          AND ($4::text IS NULL OR audience IN ('', $4))"#,
        document.org,
        document.kind.name(),
        document.name,
        document.audience,
        revision,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let shown = RevisionRow {
            revision: row.revision,
            recorded_at: from_sql(row.recorded_at),
            author: row.author,
            reason: row.reason,
            operation: row.operation,
            audience: row.audience,
            bytes: row.bytes,
        };
        (shown, row.document)
    }))
}

/// Returns whether a document exists.
pub async fn exists(conn: &mut PgConnection, document: RevisedDocument<'_>) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- document_revision.exists
        SELECT CASE $2
            WHEN 'deployment_policy' THEN EXISTS (SELECT FROM deployment_policy WHERE org = $1 AND policy = $3)
            WHEN 'management_policy' THEN EXISTS (SELECT FROM management_policy WHERE org = $1 AND policy = $3)
            WHEN 'service' THEN EXISTS (SELECT FROM service WHERE org = $1 AND service = $3)
            WHEN 'service_policy' THEN EXISTS (SELECT FROM service_policy WHERE org = $1 AND service = $3)
            WHEN 'pattern' THEN EXISTS (SELECT FROM pattern WHERE org = $1 AND pattern = $3)
            WHEN 'ha_group' THEN EXISTS (SELECT FROM ha_group WHERE org = $1 AND ha_group.name = $3)
            WHEN 'node_policy' THEN EXISTS (SELECT FROM node_policy WHERE org = $1 AND node = $3)
            WHEN 'node_orchestration' THEN EXISTS (SELECT FROM node WHERE org = $1 AND node = $3)
            WHEN 'organization' THEN EXISTS (SELECT FROM organization WHERE org = $1)
            ELSE false
        END AS "exists!""#,
        document.org,
        document.kind.name(),
        document.name,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.exists)
}

/// Marks the newest revisions of documents that were removed together with what they belonged to, such as the policy of a removed node:
/// they are kept as long as those of other removed documents. Returns their number.
pub async fn release_removed(conn: &mut PgConnection) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- document_revision.release_removed
        UPDATE document_revision AS newest
        SET is_current = false
        WHERE is_current AND NOT CASE kind
            WHEN 'deployment_policy' THEN EXISTS (
                SELECT FROM deployment_policy AS one WHERE one.org = newest.org AND one.policy = newest.name)
            WHEN 'management_policy' THEN EXISTS (
                SELECT FROM management_policy AS one WHERE one.org = newest.org AND one.policy = newest.name)
            WHEN 'service' THEN EXISTS (SELECT FROM service AS one WHERE one.org = newest.org AND one.service = newest.name)
            WHEN 'service_policy' THEN EXISTS (
                SELECT FROM service_policy AS one WHERE one.org = newest.org AND one.service = newest.name)
            WHEN 'pattern' THEN EXISTS (SELECT FROM pattern AS one WHERE one.org = newest.org AND one.pattern = newest.name)
            WHEN 'ha_group' THEN EXISTS (SELECT FROM ha_group AS one WHERE one.org = newest.org AND one.name = newest.name)
            WHEN 'node_policy' THEN EXISTS (SELECT FROM node_policy AS one WHERE one.org = newest.org AND one.node = newest.name)
            WHEN 'node_orchestration' THEN EXISTS (SELECT FROM node AS one WHERE one.org = newest.org AND one.node = newest.name)
            ELSE true
        END",
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Removes at most `limit` revisions from before an instant, except the newest ones of documents that exist. Returns their number.
pub async fn delete_before(
    conn: &mut PgConnection,
    before: Timestamp,
    limit: i64,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- document_revision.delete_before
        WITH removed AS (
            DELETE FROM document_revision AS old
            USING (
                SELECT org, kind, name, revision
                FROM document_revision
                WHERE NOT is_current AND recorded_at < $1
                ORDER BY recorded_at
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            ) AS aged
            WHERE old.org = aged.org AND old.kind = aged.kind AND old.name = aged.name AND old.revision = aged.revision
            RETURNING old.org, old.kind, old.name, old.revision, old.bytes
        ), counted AS (
            UPDATE document_revision_usage AS usage
            SET bytes = usage.bytes - freed.bytes, forgotten = GREATEST(usage.forgotten, freed.forgotten)
            FROM (
                SELECT org, sum(bytes) AS bytes, max(revision) FILTER (WHERE NOT EXISTS (
                           SELECT FROM document_revision AS newer
                           WHERE newer.org = removed.org AND newer.kind = removed.kind AND newer.name = removed.name
                             AND newer.revision > removed.revision)) AS forgotten
                FROM removed
                GROUP BY org
            ) AS freed
            WHERE usage.org = freed.org
        )
        SELECT count(*) AS "count!" FROM removed"#,
        to_sql(before) as _,
        limit,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Lists the organizations that have more bytes of revisions than an organization may have.
pub async fn list_above(conn: &mut PgConnection, org_bytes: i64) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query_scalar!(
        "-- document_revision.list_above
        SELECT org FROM document_revision_usage WHERE bytes > $1 ORDER BY org",
        org_bytes,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Removes the oldest revisions of an organization, at most `limit`, until it has no more than `org_bytes` of them; the newest ones of
/// documents that exist stay. Returns their number.
pub async fn prune_organization(
    conn: &mut PgConnection,
    org: &str,
    org_bytes: i64,
    limit: i64,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- document_revision.prune_organization
        WITH held AS MATERIALIZED (
            SELECT bytes FROM document_revision_usage WHERE org = $1
        ), removed AS (
            DELETE FROM document_revision AS old
            USING (
                SELECT kind, name, revision
                FROM (
                    SELECT kind, name, revision, sum(bytes) OVER oldest_first - bytes AS freed
                    FROM document_revision
                    WHERE org = $1 AND NOT is_current
                    WINDOW oldest_first AS (ORDER BY recorded_at, kind, name, revision)
                    ORDER BY recorded_at, kind, name, revision
                    LIMIT $3
                ) AS oldest
                WHERE freed < (SELECT bytes FROM held) - $2
            ) AS surplus
            WHERE old.org = $1 AND old.kind = surplus.kind AND old.name = surplus.name AND old.revision = surplus.revision
            RETURNING old.kind, old.name, old.revision, old.bytes
        ), counted AS (
            UPDATE document_revision_usage AS usage
            SET bytes = usage.bytes - (SELECT COALESCE(sum(bytes), 0) FROM removed), forgotten = GREATEST(usage.forgotten, (
                    SELECT max(revision)
                    FROM removed
                    WHERE NOT EXISTS (
                        SELECT FROM document_revision AS newer
                        WHERE newer.org = $1 AND newer.kind = removed.kind AND newer.name = removed.name
                          AND newer.revision > removed.revision)))
            WHERE org = $1
        )
        SELECT count(*) AS "count!" FROM removed"#,
        org,
        org_bytes,
        limit,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

#[cfg(test)]
mod tests;
