//! Whether the services that user input refers to exist.
//!
//! Source: exchange contract 4.4.

use evenkeel_access::{Caller, Role};
use evenkeel_domain::version::{Version, VersionRange};
use evenkeel_store::PgConnection;
use evenkeel_store::exchange::node_user_input::{KnownService, list_known_services};
use evenkeel_wire::exchange::user_input::UserInputService;

use crate::ApiError;

/// Checks every entry; root may refer to services of every organization, others to their own and public ones.
///
/// # Errors
/// 400 naming the first entry without a service.
pub(crate) async fn check_user_input(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    entries: &[UserInputService],
) -> Result<(), ApiError> {
    if entries.is_empty() {
        return Ok(());
    }
    let references: Vec<(&str, &str)> =
        entries.iter().map(|entry| (entry.service_orgid.as_str(), entry.service_url.as_str())).collect();
    let reader = (caller.role != Role::Root).then_some(org);
    let known = list_known_services(conn, &references, reader).await?;
    for entry in entries {
        let wanted = exact_version(entry)?;
        if !known.iter().any(|service| is_meant(entry, wanted.as_ref(), service)) {
            return Err(ApiError::invalid_input(format!(
                "userInput refers to a service that does not exist: {}/{} arch '{}' version '{}'",
                entry.service_orgid,
                entry.service_url,
                entry.service_arch.as_deref().unwrap_or_default(),
                entry.service_version_range.as_deref().unwrap_or_default(),
            )));
        }
    }
    Ok(())
}

/// Only a range that names a single version restricts the versions; a wider one may be filled later.
fn exact_version(entry: &UserInputService) -> Result<Option<Version>, ApiError> {
    let Some(text) = entry.service_version_range.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let range = VersionRange::parse(text)
        .map_err(|error| ApiError::invalid_input(format!("userInput: serviceVersionRange: {error}")))?;
    Ok((range.start() == range.end()).then(|| range.start().clone()))
}

fn is_meant(entry: &UserInputService, wanted: Option<&Version>, service: &KnownService) -> bool {
    service.org == entry.service_orgid
        && service.url == entry.service_url
        && entry.service_arch.as_deref().is_none_or(|arch| arch.is_empty() || arch == "*" || arch == service.arch)
        && wanted.is_none_or(|wanted| Version::parse(&service.version).is_ok_and(|version| version == *wanted))
}
