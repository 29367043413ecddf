//! Checks whether services that other resources reference exist.

use sqlx::PgConnection;

use evenkeel_access::MULTI_TENANT_ORG;
use evenkeel_store::StoreError;

/// A reference to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReference {
    /// Organization of the service.
    pub org: String,
    /// Url as written in the reference.
    pub url: String,
    /// The part of the service's id that is derived from the url: two urls with the same part refer to the same service.
    pub id_base: String,
    /// Architecture; `None` is any.
    pub arch: Option<String>,
    /// Version, exactly as published; `None` is any.
    pub version: Option<String>,
}

/// Finds the first reference (by position) to a service that does not exist. For a reader of one organization, given by `seen_from`, private
/// services of others do not exist, apart from the shared organization, whose services are for the nodes of all.
pub async fn find_missing(
    conn: &mut PgConnection,
    references: &[ServiceReference],
    seen_from: Option<&str>,
) -> Result<Option<usize>, StoreError> {
    if references.is_empty() {
        return Ok(None);
    }
    let orgs: Vec<&str> = references.iter().map(|reference| reference.org.as_str()).collect();
    let urls: Vec<&str> = references.iter().map(|reference| reference.url.as_str()).collect();
    let bases: Vec<&str> = references.iter().map(|reference| reference.id_base.as_str()).collect();
    let archs: Vec<Option<&str>> = references.iter().map(|reference| reference.arch.as_deref()).collect();
    let versions: Vec<Option<&str>> =
        references.iter().map(|reference| reference.version.as_deref()).collect();
    let visible = visible_orgs(seen_from);
    // The first condition uses an index; the second finds the same service under another spelling of its url.
    let row = sqlx::query!(
        r#"-- referenced_service.find_missing
        SELECT wanted.position AS "position!"
        FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
            WITH ORDINALITY AS wanted (org, url, id_base, arch, version, position)
        WHERE NOT EXISTS (
                SELECT 1 FROM service
                WHERE service.org = wanted.org AND service.url = wanted.url
                    AND (wanted.arch IS NULL OR service.arch = wanted.arch)
                    AND (wanted.version IS NULL OR service.version = wanted.version)
                    AND ($6::text[] IS NULL OR service.org = ANY ($6) OR service.is_public))
            AND NOT EXISTS (
                SELECT 1 FROM service
                WHERE service.org = wanted.org
                    AND service.service = wanted.id_base || '_' || service.version || '_' || service.arch
                    AND (wanted.arch IS NULL OR service.arch = wanted.arch)
                    AND (wanted.version IS NULL OR service.version = wanted.version)
                    AND ($6::text[] IS NULL OR service.org = ANY ($6) OR service.is_public))
        ORDER BY wanted.position
        LIMIT 1"#,
        &orgs as &[&str],
        &urls as &[&str],
        &bases as &[&str],
        &archs as &[Option<&str>],
        &versions as &[Option<&str>],
        visible.as_deref() as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.and_then(|row| usize::try_from(row.position - 1).ok()))
}

/// Returns the organizations whose private services a reader of one organization may refer to; `None` for all.
fn visible_orgs(seen_from: Option<&str>) -> Option<Vec<&str>> {
    seen_from.map(|org| vec![org, MULTI_TENANT_ORG])
}

/// Lists the versions of each referenced service: position of the reference and version, in no particular order.
pub async fn list_versions(
    conn: &mut PgConnection,
    references: &[ServiceReference],
) -> Result<Vec<(usize, String)>, StoreError> {
    let orgs: Vec<&str> = references.iter().map(|reference| reference.org.as_str()).collect();
    let urls: Vec<&str> = references.iter().map(|reference| reference.url.as_str()).collect();
    let archs: Vec<Option<&str>> = references.iter().map(|reference| reference.arch.as_deref()).collect();
    let rows = sqlx::query!(
        r#"-- referenced_service.list_versions
        SELECT DISTINCT wanted.position AS "position!", service.version
        FROM UNNEST($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (org, url, arch, position)
        JOIN service ON service.org = wanted.org AND service.url = wanted.url
            AND (wanted.arch IS NULL OR service.arch = wanted.arch)"#,
        &orgs as &[&str],
        &urls as &[&str],
        &archs as &[Option<&str>],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| Some((usize::try_from(row.position - 1).ok()?, row.version)))
        .collect())
}
