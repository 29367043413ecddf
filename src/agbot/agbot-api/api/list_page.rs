//! The page of a list that a query selects: `limit`, `after`, `filter` and `count`, as of the exchange's lists.

use evenkeel_api::{ElementFilter, PageSelection, Refusal};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_domain::policy::ListFilter;
use evenkeel_wire::page::{DEFAULT_LIMIT, MAX_FILTER, MAX_LIMIT};

use super::parameters::Parameters;

/// Takes the number of entries of a page.
///
/// # Errors
/// When it breaks its rule.
pub(super) fn limit(parameters: &mut Parameters) -> Result<Option<u16>, MembersError> {
    let limit = parameters.number("limit", 1..=i64::from(MAX_LIMIT))?;
    Ok(limit.and_then(|limit| u16::try_from(limit).ok()))
}

/// Takes the text of a filter, which [`parsed`] reads.
///
/// # Errors
/// When it breaks its rule.
pub(super) fn filter(parameters: &mut Parameters) -> Result<Option<String>, MembersError> {
    parameters.text_of("filter", MAX_FILTER)
}

/// Parses a filter.
///
/// # Errors
/// 400 for a text that is no constraint, with the position.
pub(super) fn parsed(filter: &str) -> Result<ListFilter, Refusal> {
    ListFilter::parse(filter).map_err(|error| Refusal::invalid_input(format!("filter: {error}")))
}

/// The selection of a page; none when the list is wanted whole.
///
/// # Errors
/// 400 for a filter that is no constraint.
pub(super) fn selection(
    limit: Option<u16>,
    filter: Option<&str>,
    count: Option<bool>,
) -> Result<Option<PageSelection>, Refusal> {
    let is_counted = count == Some(true);
    if limit.is_none() && filter.is_none() && !is_counted {
        return Ok(None);
    }
    let filter = filter.map(parsed).transpose()?;
    let filter =
        filter.map(|filter| -> ElementFilter { Box::new(move |key, entry| filter.selects(key, entry)) });
    Ok(Some(PageSelection { limit: usize::from(limit.unwrap_or(DEFAULT_LIMIT)), filter, is_counted }))
}

/// The refusal of a key that is none of this list.
pub(super) fn of_other_list() -> Refusal {
    Refusal::invalid_input("after: belongs to another list; must be the value of next of the page before")
}
