//! Which services a node of an organization may give values to.

use sqlx::PgConnection;

use crate::StoreError;

/// One existing version of a service that was referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownService {
    /// Organization.
    pub org: String,
    /// URL.
    pub url: String,
    /// Architecture.
    pub arch: String,
    /// Version.
    pub version: String,
}

/// Lists the versions of the given services (pairs of organization and URL) that `reader_org` may use: its own and public ones;
/// all of them when `reader_org` is `None`.
pub async fn list_known_services(
    conn: &mut PgConnection,
    references: &[(&str, &str)],
    reader_org: Option<&str>,
) -> Result<Vec<KnownService>, StoreError> {
    let orgs: Vec<&str> = references.iter().map(|reference| reference.0).collect();
    let urls: Vec<&str> = references.iter().map(|reference| reference.1).collect();
    let rows = sqlx::query_as!(
        KnownService,
        "-- node_user_input.list_known_services
        SELECT service.org, service.url, service.arch, service.version
        FROM service
        WHERE (service.org, service.url) IN (SELECT wanted.org, wanted.url FROM UNNEST($1::text[], $2::text[]) AS wanted (org, url))
          AND ($3::text IS NULL OR service.org = $3 OR service.is_public)",
        &orgs as &[&str],
        &urls as &[&str],
        reader_org,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
