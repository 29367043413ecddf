//! Data verification and metering: an obsolete feature that is still compared and merged.
//!
//! Source: agreement-protocol 3.6, 3.7.

use serde::{Deserialize, Serialize};

use super::is_zero;

/// The shortest interval between two metering notifications that is chosen by default, seconds.
const DEFAULT_NOTIFICATION_SECS: i64 = 10;

/// The error of an invalid section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DataVerificationError {
    /// Tokens and time unit must come together, a notification interval needs both, and the unit must be known.
    #[error("the metering is not complete, or its unit is none of min, hour, day")]
    Metering,
    /// The wait for data is shorter than the check interval.
    #[error("the interval {interval_secs} is shorter than the check rate {check_secs}")]
    IntervalTooShort { interval_secs: i64, check_secs: i64 },
}

/// Settings of the verification of received data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataVerification {
    /// True if data verification is enabled.
    #[serde(rename = "enabled", skip_serializing_if = "std::ops::Not::not")]
    pub is_enabled: bool,
    /// The URL to check.
    #[serde(rename = "URL", skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The user of the check.
    #[serde(rename = "URLUser", skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The password of the check.
    #[serde(rename = "URLPassword", skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// The maximum wait for data, seconds.
    #[serde(rename = "interval", skip_serializing_if = "is_zero")]
    pub interval_secs: i64,
    /// The check interval, seconds.
    #[serde(rename = "check_rate", skip_serializing_if = "is_zero")]
    pub check_secs: i64,
    /// The payment.
    pub metering: Metering,
}

impl DataVerification {
    /// Tests the section by itself.
    ///
    /// # Errors
    /// [`DataVerificationError`].
    pub fn validate(&self) -> Result<(), DataVerificationError> {
        if !self.metering.is_valid() {
            return Err(DataVerificationError::Metering);
        }
        let (interval_secs, check_secs) = (self.interval_secs, self.check_secs);
        if interval_secs != 0 && check_secs != 0 && interval_secs < check_secs {
            return Err(DataVerificationError::IntervalTooShort { interval_secs, check_secs });
        }
        Ok(())
    }

    /// Returns whether two sections are equal; passwords are ignored.
    pub fn is_same(&self, other: &Self) -> bool {
        let without_password = |section: &Self| Self { password: String::new(), ..section.clone() };
        without_password(self) == without_password(other)
    }

    /// Returns whether two sections can be merged: not when both are enabled and name different URLs or users.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let differ = |left: &str, right: &str| !left.is_empty() && !right.is_empty() && left != right;
        !(self.is_enabled
            && other.is_enabled
            && (differ(&self.url, &other.url) || differ(&self.user, &other.user)))
    }

    /// Returns whether the consumer's section is compatible with this producer's.
    pub fn is_satisfied_by(&self, consumer: &Self) -> bool {
        self.agrees_with(consumer) && self.metering.is_satisfied_by(&consumer.metering)
    }

    /// Merges the consumer's section into this producer's, for terms and conditions; passwords are left out.
    ///
    /// # Units
    /// `default_interval_secs`: the wait for data where verification is enabled and neither side sets one.
    pub fn merge_consumer(&self, consumer: &Self, default_interval_secs: u64) -> Self {
        let mut merged = self.merge_settings(consumer, default_interval_secs);
        let metering =
            |section: &Self| if section.is_enabled { section.metering.clone() } else { Metering::default() };
        merged.metering = metering(self).merge_offer(&metering(consumer), merged.check_secs);
        merged
    }

    /// Merges the sections of two producers.
    pub fn merge_producer(&self, other: &Self, default_interval_secs: u64) -> Self {
        let mut merged = self.merge_settings(other, default_interval_secs);
        if let Some(section) =
            [self, other].into_iter().find(|section| section.is_enabled && !section.user.is_empty())
        {
            merged.password.clone_from(&section.password);
        }
        merged.metering = self.metering.merge_requirement(&other.metering, merged.check_secs);
        merged
    }

    fn merge_settings(&self, other: &Self, default_interval_secs: u64) -> Self {
        let enabled = || [self, other].into_iter().filter(|section| section.is_enabled);
        let first = |text: fn(&Self) -> &String| enabled().map(text).find(|text| !text.is_empty()).cloned();
        let shorter = |secs: fn(&Self) -> i64| {
            let secs = |section: &Self| if section.is_enabled { secs(section) } else { 0 };
            shorter_nonzero(secs(self), secs(other))
        };
        let is_enabled = self.is_enabled || other.is_enabled;
        let interval_secs = shorter(|section| section.interval_secs).unwrap_or_else(|| {
            // The reference converts in the same wrapping way.
            if is_enabled { default_interval_secs.cast_signed() } else { 0 }
        });
        Self {
            is_enabled,
            url: first(|section| &section.url).unwrap_or_default(),
            user: first(|section| &section.user).unwrap_or_default(),
            password: String::new(),
            interval_secs,
            check_secs: shorter(|section| section.check_secs).unwrap_or(0),
            metering: Metering::default(),
        }
    }
}

/// Returns the shorter of two spans, where 0 means unset.
///
/// # Shape
/// `None` when neither is given. A negative span beside an absent one counts as 0, as in the reference.
fn shorter_nonzero(left: i64, right: i64) -> Option<i64> {
    let (low, high) = (left.min(right), left.max(right));
    match (low, high) {
        (0, 0) => None,
        (0, given) => Some(given),
        (_, 0) => Some(0),
        _ => Some(low),
    }
}

/// The payment for data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metering {
    /// Tokens per time unit.
    #[serde(skip_serializing_if = "is_zero_unsigned")]
    pub tokens: u64,
    /// The time unit: `min`, `hour` or `day`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub per_time_unit: String,
    /// The interval between two notifications, seconds.
    #[serde(rename = "notification_interval", skip_serializing_if = "is_zero")]
    pub notification_secs: i64,
}

impl Metering {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the fields are consistent.
    pub fn is_valid(&self) -> bool {
        let has_unit = !self.per_time_unit.is_empty();
        (self.tokens != 0) == has_unit
            && (self.notification_secs == 0 || has_unit)
            && (!has_unit || units_per_day(&self.per_time_unit) != 0)
    }

    /// Returns whether an offer is as high as this requirement; an unset one on either side is always accepted.
    pub fn is_satisfied_by(&self, offer: &Self) -> bool {
        self.is_empty() || offer.is_empty() || offer.tokens_per_day() >= self.tokens_per_day()
    }

    fn merge_offer(&self, offer: &Self, check_secs: i64) -> Self {
        let tokens = if offer.is_empty() { self.tokens_per_day() } else { offer.tokens_per_day() };
        self.merge(offer, tokens, check_secs)
    }

    fn merge_requirement(&self, other: &Self, check_secs: i64) -> Self {
        self.merge(other, self.tokens_per_day().max(other.tokens_per_day()), check_secs)
    }

    fn merge(&self, other: &Self, tokens_per_day: u64, check_secs: i64) -> Self {
        if self.is_empty() && other.is_empty() {
            return Self::default();
        }
        let is_used =
            |time_unit: &&str| self.per_time_unit == *time_unit || other.per_time_unit == *time_unit;
        let time_unit = ["day", "hour"].into_iter().find(is_used).unwrap_or("min");
        let default_secs = DEFAULT_NOTIFICATION_SECS.max(check_secs);
        let notification_secs = shorter_nonzero(self.notification_secs, other.notification_secs);
        Self {
            tokens: tokens_per_day / units_per_day(time_unit),
            per_time_unit: time_unit.to_owned(),
            notification_secs: notification_secs.unwrap_or(default_secs),
        }
    }

    /// Wraps around on overflow, as in the reference.
    fn tokens_per_day(&self) -> u64 {
        self.tokens.wrapping_mul(units_per_day(&self.per_time_unit))
    }
}

/// Returns how many of a time unit make a day; 0 for an unknown one.
fn units_per_day(time_unit: &str) -> u64 {
    match time_unit {
        "min" => 1440,
        "hour" => 24,
        "day" => 1,
        _ => 0,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero_unsigned(number: &u64) -> bool {
    *number == 0
}
