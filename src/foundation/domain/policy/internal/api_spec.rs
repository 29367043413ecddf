//! Requirements and offers of dependencies, used by patterns.

use serde::{Deserialize, Serialize};

use crate::version::{Version, VersionRange};

/// A dependency that a consumer needs or a producer offers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiSpec {
    /// The service's name.
    #[serde(rename = "specRef")]
    pub url: String,
    /// Its organization.
    #[serde(rename = "organization")]
    pub org: String,
    /// The needed range or the offered version.
    pub version: String,
    /// True if a separate instance is needed.
    #[serde(rename = "exclusiveAccess")]
    pub is_exclusive: bool,
    /// The hardware architecture.
    pub arch: String,
}

/// Returns whether offered dependencies fulfil the required ones.
///
/// # Errors
/// The first offer that no requirement matches (the reference tests in this direction), or `None` when there are fewer
/// offers than requirements.
/// # Source
/// Agreement-protocol 3.7 (pattern case).
pub fn support_required_specs<'a>(
    offered: &'a [ApiSpec],
    required: &[ApiSpec],
) -> Result<(), Option<&'a ApiSpec>> {
    if required.is_empty() {
        return Ok(());
    }
    if offered.len() < required.len() {
        return Err(None);
    }
    match offered.iter().find(|offer| !required.iter().any(|need| is_supported(offer, need))) {
        Some(unused) => Err(Some(unused)),
        None => Ok(()),
    }
}

fn is_supported(offer: &ApiSpec, need: &ApiSpec) -> bool {
    let names_agree = offer.url == need.url && offer.org == need.org && offer.arch == need.arch;
    names_agree
        && match (VersionRange::parse(&need.version), Version::parse(&offer.version)) {
            (Ok(range), Ok(version)) => range.contains(&version),
            _ => false,
        }
}

/// Returns the union of two lists, in the first one's order.
pub(crate) fn merge_api_specs(left: &[ApiSpec], right: &[ApiSpec]) -> Vec<ApiSpec> {
    let mut merged = left.to_vec();
    if left.is_empty() {
        return right.to_vec();
    }
    merged.extend(right.iter().filter(|spec| !left.contains(spec)).cloned());
    merged
}
