//! The member `blocklist` of an organization's settings: when a service version that keeps failing on a node is no longer started there.
//!
//! Source: orchestration 1.6, D4.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::org_settings::MONTH;
use crate::document::integer;

/// Rules by which a service version is blocked on a node on which it keeps failing.
// `None` stands for the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlocklistSettings {
    /// Failures within the window that block a node.
    #[serde(deserialize_with = "integer::<_, _, 1, 1_000>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000)]
    pub failure_threshold: Option<u32>,
    /// Time for which a failure counts.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub window_seconds: Option<u64>,
    /// Longest duration of the first block.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub base_seconds: Option<u64>,
    /// Factor by which each block is longer than the one before.
    #[serde(deserialize_with = "integer::<_, _, 1, 100>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub factor: Option<u64>,
    /// Longest duration of a block.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub max_seconds: Option<u64>,
    /// Time after which a running instance counts as a success and the number of blocks is reset.
    #[serde(deserialize_with = "integer::<_, _, 1, MONTH>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub reset_after_seconds: Option<u64>,
}

/// The rules that apply to an organization.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlocklistRules {
    /// Failures within the window that block a node.
    pub failure_threshold: u32,
    /// The window.
    pub window_secs: u64,
    /// Maximum duration of the first block, which lasts as long as the delay with which the service is restarted.
    pub base_secs: u64,
    /// Factor by which each block is longer than the one before.
    pub factor: u64,
    /// Longest duration of a block.
    pub max_secs: u64,
    /// Time after which a running instance counts as a success and the number of blocks is reset.
    pub reset_after_secs: u64,
}

impl Default for BlocklistRules {
    fn default() -> Self {
        Self {
            failure_threshold: 5,
            window_secs: 300,
            base_secs: 300,
            factor: 2,
            max_secs: 3_600,
            reset_after_secs: 300,
        }
    }
}

impl BlocklistRules {
    /// Returns the duration of a block; `first_secs`: the delay with which the service is restarted, `count`: consecutive blocks, this one
    /// included.
    #[must_use]
    pub fn pause_secs(&self, first_secs: u64, count: u32) -> u64 {
        let factor = self.factor.saturating_pow(count.saturating_sub(1));
        first_secs.clamp(1, self.base_secs.max(1)).saturating_mul(factor).min(self.max_secs)
    }
}

impl BlocklistSettings {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings that apply, with the defaults.
    pub(super) fn with_defaults(self) -> Self {
        let rules = self.rules();
        Self {
            failure_threshold: Some(rules.failure_threshold),
            window_seconds: Some(rules.window_secs),
            base_seconds: Some(rules.base_secs),
            factor: Some(rules.factor),
            max_seconds: Some(rules.max_secs),
            reset_after_seconds: Some(rules.reset_after_secs),
        }
    }

    /// Returns the rules that apply.
    #[must_use]
    pub fn rules(&self) -> BlocklistRules {
        let default = BlocklistRules::default();
        BlocklistRules {
            failure_threshold: self.failure_threshold.unwrap_or(default.failure_threshold),
            window_secs: self.window_seconds.unwrap_or(default.window_secs),
            base_secs: self.base_seconds.unwrap_or(default.base_secs),
            factor: self.factor.unwrap_or(default.factor),
            max_secs: self.max_seconds.unwrap_or(default.max_secs),
            reset_after_secs: self.reset_after_seconds.unwrap_or(default.reset_after_secs),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::org_settings::OrgSettings;
    use super::*;

    #[test]
    fn refusal_names_the_member_with_its_path() {
        for (document, expected) in [
            (json!({"blocklist": 5}), "blocklist must be an object"),
            (
                json!({"blocklist": {"failureThreshold": 0}}),
                "blocklist.failureThreshold must be an integer from 1 to 1000",
            ),
            (json!({"blocklist": {"factor": 1.5}}), "blocklist.factor must be an integer from 1 to 100"),
            (
                json!({"blocklist": {"baseSecond": 1}}),
                "blocklist.baseSecond is not known; baseSeconds was probably meant",
            ),
        ] {
            assert_eq!(OrgSettings::read(document.clone()).unwrap_err().to_string(), expected, "{document}");
        }
    }

    #[test]
    fn patch_merges_the_members_and_null_ends_all() {
        let first = OrgSettings::read(json!({"blocklist": {"baseSeconds": 5, "factor": 3}})).unwrap();
        let second = first.patched(json!({"blocklist": {"factor": null, "maxSeconds": 9}})).unwrap();
        assert_eq!(second.document(), json!({"blocklist": {"baseSeconds": 5, "maxSeconds": 9}}));
        assert_eq!((second.blocklist().base_secs, second.blocklist().factor), (5, 2));
        let none = second.patched(json!({"blocklist": null})).unwrap();
        assert_eq!((none.document(), none.blocklist()), (json!({}), BlocklistRules::default()));
        assert_eq!(none.with_defaults().document()["blocklist"]["resetAfterSeconds"], 300);
    }

    #[test]
    fn blocks_get_longer_up_to_the_greatest_duration() {
        let rules = BlocklistRules::default();
        let durations: Vec<u64> = (1..=6).map(|count| rules.pause_secs(300, count)).collect();
        assert_eq!(durations, [300, 600, 1200, 2400, 3600, 3600]);
        assert_eq!(rules.pause_secs(300, u32::MAX), 3600);
    }
}
