//! The members `nodeBufferPercentage` and `bufferUse` of an organization's settings: what is kept free of the capacities of nodes.
//!
//! Source: orchestration 1.6, D7.

use serde_json::{Map, Value};

use super::capacity::{Amounts, take_entries};
use crate::object::{MembersError, Object};

/// Purposes for which the buffer may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BufferUse {
    /// Moves that an upgrade needs.
    #[default]
    Upgrade,
    /// Those, and instances that take the place of others whose node is lost.
    UpgradeAndFailure,
}

impl BufferUse {
    const WORDS: [(&'static str, Option<Self>); 2] =
        [("upgrade", Some(Self::Upgrade)), ("upgrade-and-failure", Some(Self::UpgradeAndFailure))];

    fn word(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::UpgradeAndFailure => "upgrade-and-failure",
        }
    }
}

/// Share of the capacities of nodes that is kept free, and its permitted use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CapacityBuffer {
    shares: Option<Amounts>,
    usage: Option<BufferUse>,
}

impl CapacityBuffer {
    /// The member with the share of each capacity.
    pub(super) const PERCENTAGES: &'static str = "nodeBufferPercentage";
    /// The member with what may use it.
    pub(super) const USE: &'static str = "bufferUse";

    /// Returns the share of a capacity that is kept free, from 0 to 1.
    #[must_use]
    pub fn share(&self, metric: &str) -> f64 {
        self.shares.as_ref().and_then(|shares| shares.get(metric)).copied().unwrap_or(0.0)
    }

    /// Returns what may use it.
    #[must_use]
    pub fn usage(&self) -> BufferUse {
        self.usage.unwrap_or_default()
    }

    /// Takes the members out of the object around them and merges them: shares that are left out stay, and `null` ends one or all.
    ///
    /// # Errors
    /// The first name, share or word that breaks a rule, with its path.
    pub(super) fn patched(mut self, around: &mut Object, patch: &Value) -> Result<Self, MembersError> {
        let mut shares = match (patch.get(Self::PERCENTAGES), self.shares.take()) {
            (Some(Value::Null), _) => None,
            (None, shares) => shares,
            (Some(_), shares) => Some(shares.unwrap_or_default()),
        };
        for (name, share) in take_entries(around, Self::PERCENTAGES)?.unwrap_or_default() {
            let path = format!("{}.{name}", Self::PERCENTAGES);
            let known = shares.get_or_insert_with(Amounts::new);
            match share.as_f64().filter(|share| (0.0..=1.0).contains(share)) {
                Some(share) => known.insert(name, share),
                None if share.is_null() => known.remove(&name),
                None => return Err(around.broken_at(&path, "must be a number from 0 to 1")),
            };
        }
        self.shares = shares;
        if patch.get(Self::USE).is_some_and(Value::is_null) {
            self.usage = None;
        }
        self.usage = around.word(Self::USE, &BufferUse::WORDS)?.or(self.usage);
        Ok(self)
    }

    /// Returns the members that are set.
    pub(super) fn document(&self) -> Map<String, Value> {
        let shares = self.shares.is_some().then(|| (Self::PERCENTAGES.to_owned(), self.shares()));
        let usage = self.usage.map(|usage| (Self::USE.to_owned(), usage.word().into()));
        shares.into_iter().chain(usage).collect()
    }

    /// Returns the members that hold, with the defaults.
    pub(super) fn with_defaults(&self) -> Map<String, Value> {
        let usage = self.usage().word().into();
        [(Self::PERCENTAGES.to_owned(), self.shares()), (Self::USE.to_owned(), usage)].into_iter().collect()
    }

    fn shares(&self) -> Value {
        Value::Object(
            self.shares.iter().flatten().map(|(name, share)| (name.clone(), (*share).into())).collect(),
        )
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
        assert_eq!((none.document(), &none.with_defaults()["bufferUse"]), (json!({}), &json!("upgrade")));
    }
}
