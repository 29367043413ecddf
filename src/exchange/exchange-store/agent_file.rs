//! Versions of the files that agents upgrade to.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// Versions as stored, in the order they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// Versions of the agent.
    pub software: Vec<String>,
    /// Versions of its configuration.
    pub config: Vec<String>,
    /// Versions of its certificate.
    pub cert: Vec<String>,
}

/// Finds the versions of an organization and when they were written; none when they were never written.
pub async fn find_versions(
    conn: &mut PgConnection,
    org: &str,
) -> Result<Option<(AgentFiles, Timestamp)>, StoreError> {
    let row = sqlx::query!(
        r#"-- agent_file.find_versions
        SELECT software_versions, config_versions, cert_versions, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM agent_file_version
        WHERE org = $1"#,
        org,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let files = AgentFiles {
            software: row.software_versions,
            config: row.config_versions,
            cert: row.cert_versions,
        };
        (files, from_sql(row.updated_at))
    }))
}

/// Replaces all versions of an organization at once.
pub async fn upsert_versions(
    tx: &mut Permitted<right::AgentFilesWrite>,
    org: &str,
    files: &AgentFiles,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agent_file.upsert_versions
        INSERT INTO agent_file_version (org, software_versions, config_versions, cert_versions, updated_at)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org) DO UPDATE
        SET software_versions = excluded.software_versions, config_versions = excluded.config_versions,
            cert_versions = excluded.cert_versions, updated_at = excluded.updated_at",
        org,
        &files.software,
        &files.config,
        &files.cert,
        to_sql(at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes all versions; the time of the last write is kept.
pub async fn clear_versions(tx: &mut Permitted<right::AgentFilesWrite>, org: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agent_file.clear_versions
        UPDATE agent_file_version
        SET software_versions = '{}', config_versions = '{}', cert_versions = '{}'
        WHERE org = $1",
        org,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
