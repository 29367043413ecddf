//! One version: its syntax, its normal form and its order.
//!
//! Source: agreement-protocol 3.5.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::VersionError;

/// The spelling of the version above all others.
pub const INFINITY: &str = "INFINITY";

/// A version such as `2.1.0` or `2.1.0-rc1`, or the version above all others.
///
/// # Shape
/// The text is kept in normal form: always three groups of digits (leading zeros kept), then the pre-release if there is one.
/// Equality and order use the *value*: `1.02.3` equals `1.2.3`, though the texts differ; see [`Version::as_str`].
/// # Source
/// Agreement-protocol 3.5.
#[derive(Debug, Clone)]
pub struct Version {
    text: String,
    /// `None` is the version above all others.
    groups: Option<[i64; 3]>,
    /// Start of the pre-release in `text`; its length when there is none.
    prerelease_at: usize,
}

impl Version {
    /// Parses a version.
    ///
    /// # Errors
    /// [`VersionError::NotAVersion`] unless [`is_version`] accepts the text.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text == INFINITY {
            return Ok(Self::infinity());
        }
        if !is_version(text) {
            return Err(VersionError::NotAVersion { text: text.to_owned() });
        }
        let (numbers, prerelease) = text.split_once('-').unwrap_or((text, ""));
        let mut groups = [0; 3];
        for (group, digits) in groups.iter_mut().zip(numbers.split('.')) {
            *group = clamped_number(digits);
        }
        let mut normal = numbers.to_owned();
        for _ in numbers.split('.').count()..3 {
            normal.push_str(".0");
        }
        let mut prerelease_at = normal.len();
        if !prerelease.is_empty() {
            normal.push('-');
            prerelease_at += 1;
            normal.push_str(prerelease);
        }
        Ok(Self { text: normal, groups: Some(groups), prerelease_at })
    }

    /// Returns the version above all others.
    pub fn infinity() -> Self {
        Self { text: INFINITY.to_owned(), groups: None, prerelease_at: INFINITY.len() }
    }

    /// Returns whether this is the version above all others.
    pub fn is_infinity(&self) -> bool {
        self.groups.is_none()
    }

    /// Returns the normal form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the pre-release part, empty for a release.
    pub fn prerelease(&self) -> &str {
        &self.text[self.prerelease_at..]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.groups, other.groups) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(left), Some(right)) => {
                left.cmp(&right).then_with(|| compare_prereleases(self.prerelease(), other.prerelease()))
            }
        }
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Returns whether a text is a version: one to three dot-separated groups of digits with an optional pre-release, or `INFINITY`.
pub fn is_version(text: &str) -> bool {
    if text == INFINITY {
        return true;
    }
    let (numbers, prerelease) = text.split_once('-').unwrap_or((text, ""));
    let mut groups = numbers.split('.');
    groups.by_ref().take(3).all(is_digits)
        && groups.next().is_none()
        && prerelease.chars().all(is_prerelease_char)
}

/// Returns whether a text may be the value of a property of type `version`: no pre-release and no leading zeros.
///
/// # Source
/// Agreement-protocol 3.3.
pub fn is_property_version(text: &str) -> bool {
    if text == INFINITY {
        return true;
    }
    let mut groups = text.split('.');
    groups.by_ref().take(3).all(|group| is_digits(group) && (group.len() == 1 || !group.starts_with('0')))
        && groups.next().is_none()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The reference lower-cases each character before it classifies it, which turns two characters outside ASCII into ASCII letters:
/// the Kelvin sign and the capital dotted I.
fn is_prerelease_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '\u{212A}' | '\u{130}')
}

/// Parses digits; a number too large for 64 bits becomes the largest one.
fn clamped_number(digits: &str) -> i64 {
    digits.parse().unwrap_or(i64::MAX)
}

fn compare_prereleases(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (Some(_), None) => return Ordering::Greater,
            (None, Some(_)) => return Ordering::Less,
            (Some(left), Some(right)) => match compare_identifiers(left, right) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

/// Compares two fields of a pre-release: numbers by value and below all texts, texts by their bytes.
///
/// A field such as `-5` is a (negative) number, and one that does not fit 64 bits is a text, as in the reference.
fn compare_identifiers(left: &str, right: &str) -> Ordering {
    match (left.parse::<i64>(), right.parse::<i64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}
