//! The members `nodeBufferPercentage` and `bufferUse` of an organization's settings: the part of the capacities of nodes that is kept free.
//!
//! Source: orchestration 1.6, D7.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::capacity::{Amounts, entries};
use crate::document::error_inside;
use crate::object::MembersError;

/// Purposes for which the buffer may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferUse {
    /// Moves that an upgrade needs.
    #[default]
    Upgrade,
    /// Also instances that replace others whose node is lost.
    UpgradeAndFailure,
}

/// Share of the capacities of nodes that is kept free, and its permitted use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapacityBuffer<'s> {
    pub(super) shares: Option<&'s Amounts>,
    pub(super) usage: BufferUse,
}

impl CapacityBuffer<'_> {
    /// Returns the share of a capacity that is kept free, from 0 to 1.
    #[must_use]
    pub fn share(&self, metric: &str) -> f64 {
        self.shares.and_then(|shares| shares.get(metric)).copied().unwrap_or(0.0)
    }

    /// Returns its permitted use.
    #[must_use]
    pub fn usage(&self) -> BufferUse {
        self.usage
    }
}

/// Reads shares of capacities, each from 0 to 1. An entry that is `null` is left out.
///
/// # Errors
/// The first name or share that breaks a rule, with its path.
pub(super) fn shares<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Amounts>, D::Error> {
    let value = Value::deserialize(input)?;
    if value.is_null() {
        return Ok(None);
    }
    let given = entries(value).map_err(error_inside)?.into_iter().filter(|(_, share)| !share.is_null());
    let read = given.map(|(name, share)| match share.as_f64().filter(|share| (0.0..=1.0).contains(share)) {
        Some(share) => Ok((name, share)),
        None => Err(MembersError { path: name, rule: "must be a number from 0 to 1".to_owned() }),
    });
    read.collect::<Result<_, _>>().map(Some).map_err(error_inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::org_settings::OrgSettings;
    use super::*;

    #[test]
    fn refusal_names_the_member_with_its_path() {
        for (document, expected) in [
            (json!({"nodeBufferPercentage": 5}), "nodeBufferPercentage must be an object"),
            (
                json!({"nodeBufferPercentage": {"memoryMb": 15}}),
                "nodeBufferPercentage.memoryMb must be a number from 0 to 1",
            ),
            (
                json!({"nodeBufferPercentage": {"memory mb": 0.1}}),
                "nodeBufferPercentage.memory mb must be a name of 1 to 64 letters, digits and _",
            ),
            (json!({"bufferUse": "never"}), "bufferUse must be upgrade or upgrade-and-failure"),
        ] {
            assert_eq!(OrgSettings::read(document.clone()).unwrap_err().to_string(), expected, "{document}");
        }
    }

    #[test]
    fn patch_merges_the_shares_and_null_ends_one_or_all() {
        let set = json!({"nodeBufferPercentage": {"memoryMb": 0.2, "cpuMilli": 0.1}, "bufferUse": "upgrade-and-failure"});
        let first = OrgSettings::read(set.clone()).unwrap();
        assert_eq!(first.document(), set);
        assert_eq!(first.capacity_buffer().usage(), BufferUse::UpgradeAndFailure);
        let second =
            first.patched(json!({"nodeBufferPercentage": {"cpuMilli": null}, "bufferUse": null})).unwrap();
        assert_eq!(second.document(), json!({"nodeBufferPercentage": {"memoryMb": 0.2}}));
        let buffer = second.capacity_buffer();
        assert_eq!(
            (buffer.share("memoryMb"), buffer.share("cpuMilli"), buffer.usage()),
            (0.2, 0.0, BufferUse::Upgrade)
        );
        let none = second.patched(json!({"nodeBufferPercentage": null})).unwrap();
        assert_eq!((none.document(), none.capacity_buffer().usage()), (json!({}), BufferUse::Upgrade));
    }
}
