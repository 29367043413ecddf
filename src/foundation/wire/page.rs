//! Pages of lists: the parameters that select one.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

/// Most entries of one page.
pub const MAX_LIMIT: u16 = 1_000;
/// Entries of a page whose request names no number.
pub const DEFAULT_LIMIT: u16 = 100;
/// Longest filter, in bytes.
pub const MAX_FILTER: usize = 4_096;

/// Selects a page of a list; without any of these parameters the list is sent whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
pub struct PageQuery {
    /// Entries of a page, 1 to 1000; 100 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Only entries after this one: the value of `next` of the page before, or any key of the list. The entry may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only entries whose members satisfy this constraint, in the language of policies, such as `owner == "acme/erin" AND arch in "arm,arm64"`. Members
    /// of objects have names with dots (`service.name`), `id` is the key of the entry, and the `properties` of an entry can be named like members. One
    /// request examines at most 2000 entries: a page may have fewer entries than its limit although `next` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// True to count the entries of all pages: at most 100000, or those among the first 2000 that satisfy the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

impl PageQuery {
    /// Returns whether a page is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
