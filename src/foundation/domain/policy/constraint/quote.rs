//! Quotation marks around a value of the text language.

/// Removes one pair of quotation marks, then spaces; `None` for a single quotation mark, on which the reference crashes.
pub(super) fn bare(text: &str) -> Option<&str> {
    without_quotes(text).map(|text| text.trim_matches(' '))
}

/// Removes spaces, then one pair of quotation marks; `None` as in [`bare`].
pub(super) fn bare_element(text: &str) -> Option<&str> {
    without_quotes(text.trim_matches(' '))
}

fn without_quotes(text: &str) -> Option<&str> {
    match text.strip_prefix('"') {
        Some("") => None,
        Some(rest) => Some(rest.strip_suffix('"').unwrap_or(text)),
        None => Some(text),
    }
}
