//! Ranges of versions: syntax, membership, intersection, and a change of the upper end.
//!
//! Source: agreement-protocol 3.5.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::VersionError;
use super::single::{Version, is_version};

/// A range of versions such as `[1.0.0,2.0.0)`.
///
/// The start may be above the end; such a range is valid and empty.
///
/// # Source
/// Agreement-protocol 3.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    start: Version,
    start_inclusive: bool,
    end: Version,
    end_inclusive: bool,
}

impl VersionRange {
    /// Parses a range; a single version `v` means `[v,INFINITY)`.
    ///
    /// # Errors
    /// [`VersionError::NotARange`] when the brackets, the comma or one of the two versions is wrong, or a space occurs.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let refuse = |reason| VersionError::NotARange { text: text.to_owned(), reason };
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        if text.contains(' ') {
            return Err(refuse("it holds a space"));
        }
        if !text.starts_with(['(', '[']) && !text.contains(',') && !text.ends_with([')', ']']) {
            let start =
                Version::parse(text).map_err(|_| refuse("it is neither a version nor a bracketed pair"))?;
            return Ok(Self { start, start_inclusive: true, end: Version::infinity(), end_inclusive: false });
        }
        let (start_inclusive, inner) = match text.strip_prefix('[') {
            Some(inner) => (true, inner),
            None => (false, text.strip_prefix('(').ok_or_else(|| refuse("it does not begin with [ or ("))?),
        };
        let (end_inclusive, inner) = match inner.strip_suffix(']') {
            Some(inner) => (true, inner),
            None => (false, inner.strip_suffix(')').ok_or_else(|| refuse("it does not end with ] or )"))?),
        };
        let (start, end) = inner.split_once(',').ok_or_else(|| refuse("it does not hold two versions"))?;
        let start = Version::parse(start).map_err(|_| refuse("its start is not a version"))?;
        let end = Version::parse(end).map_err(|_| refuse("its end is not a version"))?;
        Ok(Self { start, start_inclusive, end, end_inclusive })
    }

    /// Returns the lower end.
    pub fn start(&self) -> &Version {
        &self.start
    }

    /// Returns the upper end.
    pub fn end(&self) -> &Version {
        &self.end
    }

    /// Returns whether a version is in the range.
    ///
    /// A version written exactly like an end (in normal form) is decided by that end's bracket. One that is only equal in value
    /// (`1.02.0` and `1.2.0`) is inside even where the bracket excludes it: a quirk of the reference, kept.
    pub fn contains(&self, version: &Version) -> bool {
        let is_start = version.as_str() == self.start.as_str();
        let is_end = version.as_str() == self.end.as_str();
        if (is_start && self.start_inclusive) || (is_end && self.end_inclusive) {
            return true;
        }
        !is_start && !is_end && self.start <= *version && *version <= self.end
    }

    /// Returns the intersection of both ranges: the higher start, the lower end; where both name the same end it is part of
    /// the result only if it is part of both.
    ///
    /// # Shape
    /// `None` when the intersection is empty. `[1.0.0,1.0.0)` does not count as empty, as in the reference.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let (start, start_inclusive) = match self.start.cmp(&other.start) {
            Ordering::Equal => (&self.start, self.start_inclusive && other.start_inclusive),
            Ordering::Less => (&other.start, other.start_inclusive),
            Ordering::Greater => (&self.start, self.start_inclusive),
        };
        let (end, end_inclusive) = match self.end.cmp(&other.end) {
            Ordering::Equal => (&self.end, self.end_inclusive && other.end_inclusive),
            Ordering::Less => (&self.end, self.end_inclusive),
            Ordering::Greater => (&other.end, other.end_inclusive),
        };
        let is_empty = !end.is_infinity()
            && match start.cmp(end) {
                Ordering::Less => false,
                Ordering::Equal => !start_inclusive && !end_inclusive,
                Ordering::Greater => true,
            };
        (!is_empty).then(|| Self { start: start.clone(), start_inclusive, end: end.clone(), end_inclusive })
    }

    /// Returns the range with another upper end; an end at infinity is never part of the range.
    ///
    /// # Errors
    /// [`VersionError::NotAVersion`] when `ceiling` is invalid; [`VersionError::CeilingBelowStart`] when it is below the start,
    /// or equal to it while one of the two is not part of the range.
    pub fn with_ceiling(&self, ceiling: &str, inclusive: bool) -> Result<Self, VersionError> {
        let end = Version::parse(ceiling)?;
        let end_inclusive = inclusive && !end.is_infinity();
        let is_too_low = match end.cmp(&self.start) {
            Ordering::Less => true,
            Ordering::Equal => !(end.is_infinity() || inclusive && self.start_inclusive),
            Ordering::Greater => false,
        };
        if is_too_low {
            return Err(VersionError::CeilingBelowStart {
                ceiling: end.to_string(),
                start: self.start.to_string(),
            });
        }
        Ok(Self { start: self.start.clone(), start_inclusive: self.start_inclusive, end, end_inclusive })
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = if self.start_inclusive { '[' } else { '(' };
        let right = if self.end_inclusive { ']' } else { ')' };
        write!(formatter, "{left}{},{}{right}", self.start, self.end)
    }
}

impl FromStr for VersionRange {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Only the number of bytes of the brackets matters: the constraint operator `in` treats a text as a range when one of its
/// ends has a bracket and the text between the first and the last byte is two versions.
///
/// A text accepted here is therefore not always a range that parses.
pub fn is_range_expression(text: &str) -> bool {
    if !text.starts_with(['(', '[']) && !text.ends_with([')', ']']) {
        return false;
    }
    let mut versions = text.split(',');
    let (Some(start), Some(end), None) = (versions.next(), versions.next(), versions.next()) else {
        return false;
    };
    // `get` returns `None` on an empty text and inside a character; in both cases there is no version.
    let start = start.get(1..);
    let end = end.len().checked_sub(1).and_then(|last| end.get(..last));
    start.is_some_and(is_version) && end.is_some_and(is_version)
}
