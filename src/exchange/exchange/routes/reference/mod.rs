//! Checks of what bodies refer to: services that must exist, versions and ranges, types of properties.
//!
//! Source: exchange-api 4.0, 4.4, 4.6 to 4.8 (validation).

mod identity;
mod range;
mod warning;

use evenkeel_access::{Caller, Role};
use evenkeel_domain::policy::MissingService;
use evenkeel_exchange_store::referenced_service::{self, ServiceReference};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::shared::{OneProperty, PROPERTY_TYPES};
use evenkeel_wire::exchange::user_input::UserInputService;
pub use identity::{check_new_name, check_new_secret};
pub use range::{ExchangeRange, ExchangeVersion};
pub use warning::{Warned, WriteWarnings};

use crate::ApiError;

/// The id of a service: its url without the scheme, cleaned, then version and architecture.
///
/// # Source
/// Exchange-api 4.6.
#[must_use]
pub fn service_id(url: &str, version: &str, arch: &str) -> String {
    format!("{}_{version}_{arch}", service_id_base(url))
}

/// The part of a service's id that comes from its url.
#[must_use]
pub fn service_id_base(url: &str) -> String {
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(char::is_alphanumeric) => rest,
        _ => url,
    };
    rest.chars().map(|character| if "$!*,;/?@&~=%".contains(character) { '-' } else { character }).collect()
}

/// Requires a plain version: digits only, no range.
///
/// # Errors
/// 400 naming the field.
pub fn require_version(field: &str, text: &str) -> Result<(), ApiError> {
    match ExchangeVersion::parse(text) {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid_input(format!(
            "{field} '{text}' is not a version: expected n, n.n or n.n.n"
        ))),
    }
}

/// Requires that every property has a type that exists, or none.
///
/// # Errors
/// 400 naming the property.
pub fn require_property_types(properties: &[OneProperty]) -> Result<(), ApiError> {
    for property in properties {
        if let Some(kind) = property.kind.as_deref().filter(|kind| !PROPERTY_TYPES.contains(kind)) {
            return Err(ApiError::invalid_input(format!(
                "the type '{kind}' of property '{}' is none of: {}",
                property.name.as_deref().unwrap_or_default(),
                PROPERTY_TYPES.join(", ")
            )));
        }
    }
    Ok(())
}

/// Requires that every service that user input is meant for exists: organization and url, the architecture if given, the
/// version if the range holds exactly one. Other ranges may lie ahead of what is published. `seen_from`: see [`seen_from`].
///
/// # Errors
/// 400 naming the first service that does not exist.
pub async fn require_user_input(
    conn: &mut PgConnection,
    input: &[UserInputService],
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    let references: Vec<ServiceReference> = input
        .iter()
        .map(|input| ServiceReference {
            org: input.service_orgid.clone(),
            url: input.service_url.clone(),
            id_base: service_id_base(&input.service_url),
            arch: input.service_arch.clone().filter(|arch| !arch.is_empty()),
            version: input.service_version_range.as_deref().and_then(only_version),
        })
        .collect();
    require_services(conn, &references, seen_from).await
}

/// The version of a range that holds exactly one, as `[1.2.3,1.2.3]`.
#[must_use]
pub fn only_version(range: &str) -> Option<String> {
    let (first, last) = range.trim().strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
    let (first, last) = (first.trim(), last.trim());
    (ExchangeVersion::parse(first)? == ExchangeVersion::parse(last)?).then(|| first.to_owned())
}

/// Returns the organization from which a document of an organization sees the services that it names; `None` for root, who sees all.
///
/// Private services of others do not exist for it: agbots, which may read them, would pass them on to the nodes of that organization.
#[must_use]
pub fn seen_from<'a>(caller: &Caller, org: &'a str) -> Option<&'a str> {
    (caller.role != Role::Root).then_some(org)
}

/// Requires that every referenced service exists. `seen_from`: see [`seen_from`].
///
/// # Errors
/// 400 naming the first one that does not.
pub async fn require_services(
    conn: &mut PgConnection,
    references: &[ServiceReference],
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    let missing = referenced_service::find_missing(conn, references, seen_from).await?;
    let Some(missing) = missing else { return Ok(()) };
    let ServiceReference { org, url, version, arch, .. } = &references[missing];
    let missing = MissingService { org, url, version: version.as_deref(), arch: arch.as_deref() };
    Err(ApiError::invalid_input(missing.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_id_drops_the_scheme_and_cleans_the_url() {
        assert_eq!(
            service_id("https://acme.com/svc/a$b!c", "1.2.3", "amd64"),
            "acme.com-svc-a-b-c_1.2.3_amd64"
        );
        assert_eq!(service_id("a://b://c", "1.0.0", "amd64"), "b:--c_1.0.0_amd64");
        assert_eq!(service_id("://odd", "1", "x"), "odd_1_x");
        assert_eq!(service_id("hash#tag+plus", "1", "x"), "hash#tag+plus_1_x");
    }

    #[test]
    fn only_a_closed_range_of_one_version_names_it() {
        assert_eq!(only_version("[1.2.3,1.2.3]").as_deref(), Some("1.2.3"));
        for range in ["1.2.3", "[1.2.3,INFINITY)", "[1.2.3,1.2.3)", "", "x"] {
            assert_eq!(only_version(range), None, "{range}");
        }
    }
}
