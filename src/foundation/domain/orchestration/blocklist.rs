//! The member `blocklist` of an organization's settings: when a node gets no more starts of a service version that keeps failing on it.
//!
//! Source: orchestration 1.6, D4.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::org_settings::Setting;
use crate::object::{Members, MembersError, Object};

/// A month, in seconds.
const MONTH: i64 = 31 * 86_400;

const SETTINGS: [Setting; 6] = [
    Setting { name: "failureThreshold", range: 1..=1000, default: 5 },
    Setting { name: "windowSeconds", range: 1..=MONTH, default: 300 },
    Setting { name: "baseSeconds", range: 1..=MONTH, default: 300 },
    Setting { name: "factor", range: 1..=100, default: 2 },
    Setting { name: "maxSeconds", range: 1..=MONTH, default: 3600 },
    Setting { name: "resetAfterSeconds", range: 1..=MONTH, default: 300 },
];

const MEMBERS: Members = Members {
    known: &["failureThreshold", "windowSeconds", "baseSeconds", "factor", "maxSeconds", "resetAfterSeconds"],
    unsupported: &[],
};

/// Settings of an organization; `None` stands for the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlocklistSettings {
    values: [Option<i64>; SETTINGS.len()],
}

/// Rules in force for an organization.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlocklistRules {
    /// Failures within the window that block a node.
    pub failure_threshold: u32,
    /// The window.
    pub window_secs: u64,
    /// Longest duration of the first block; that is as long as the delay with which the service is restarted.
    pub base_secs: u64,
    /// Each block is so many times as long as the one before.
    pub factor: u64,
    /// Longest duration of a block.
    pub max_secs: u64,
    /// Time after which a running instance counts as a success and the number of blocks is reset.
    pub reset_after_secs: u64,
}

impl Default for BlocklistRules {
    fn default() -> Self {
        BlocklistSettings::default().rules()
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
    /// Takes the member out of the object around it and merges it: members that are left out stay, and `null` ends a setting.
    ///
    /// # Errors
    /// The first member that breaks a rule, with its path.
    pub(super) fn patched(mut self, around: &mut Object, patch: &Value) -> Result<Self, MembersError> {
        let patch = patch.get("blocklist");
        if patch.is_some_and(Value::is_null) {
            return Ok(Self::default());
        }
        let Some(mut given) = around.object("blocklist", &MEMBERS)? else { return Ok(self) };
        for (value, setting) in self.values.iter_mut().zip(&SETTINGS) {
            if patch.and_then(|patch| patch.get(setting.name)).is_some_and(Value::is_null) {
                *value = None;
            }
            if let Some(number) = given.integer(setting.name, setting.range.clone())? {
                *value = Some(number);
            }
        }
        Ok(self)
    }

    /// Returns the document of what is set; none when nothing is.
    pub(super) fn document(&self) -> Option<Value> {
        let set = SETTINGS.iter().zip(self.values);
        let members: Map<String, Value> =
            set.filter_map(|(one, value)| Some((one.name.to_owned(), value?.into()))).collect();
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// Returns the document of what holds, with the defaults.
    pub(super) fn with_defaults(&self) -> Value {
        let all = SETTINGS.iter().zip(self.values);
        Value::Object(
            all.map(|(one, value)| (one.name.to_owned(), value.unwrap_or(one.default).into())).collect(),
        )
    }

    /// Returns what holds.
    #[must_use]
    pub fn rules(&self) -> BlocklistRules {
        let number = |index: usize| {
            let number = self.values[index].unwrap_or(SETTINGS[index].default);
            u64::try_from(number).unwrap_or(1)
        };
        BlocklistRules {
            failure_threshold: u32::try_from(number(0)).unwrap_or(u32::MAX),
            window_secs: number(1),
            base_secs: number(2),
            factor: number(3),
            max_secs: number(4),
            reset_after_secs: number(5),
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
        assert_eq!(none.with_defaults()["blocklist"]["resetAfterSeconds"], 300);
    }

    #[test]
    fn blocks_get_longer_up_to_the_greatest_duration() {
        let rules = BlocklistRules::default();
        let durations: Vec<u64> = (1..=6).map(|count| rules.pause_secs(300, count)).collect();
        assert_eq!(durations, [300, 600, 1200, 2400, 3600, 3600]);
        assert_eq!(rules.pause_secs(300, u32::MAX), 3600);
    }
}
