//! Whether the services that user input refers to exist.
//!
//! Source: exchange contract 4.4.

use evenkeel_access::{Caller, Role};
use evenkeel_store::PgConnection;
use evenkeel_store::exchange::node_user_input::{KnownService, list_known_services};
use evenkeel_wire::exchange::user_input::UserInputService;

use crate::ApiError;
use crate::routes::reference::{ExchangeVersion, only_version};

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
        let wanted = entry.service_version_range.as_deref().and_then(only_version);
        if !known.iter().any(|service| is_meant(entry, wanted.as_deref(), service)) {
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
fn is_meant(entry: &UserInputService, wanted: Option<&str>, service: &KnownService) -> bool {
    service.org == entry.service_orgid
        && service.url == entry.service_url
        && entry.service_arch.as_deref().is_none_or(|arch| arch.is_empty() || arch == service.arch)
        && wanted
            .is_none_or(|wanted| ExchangeVersion::parse(wanted) == ExchangeVersion::parse(&service.version))
}
