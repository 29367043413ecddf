//! The availability of a workload unit, and whether its instances are where they belong.
//!
//! Source: orchestration A9.1, A9.3, A6; engine 6 (availability comes from observation alone).

use serde::{Deserialize, Serialize};

use super::{Count, Goal};

/// Availability of an instance, a workload unit or a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Avail {
    /// It runs as wanted.
    #[serde(rename = "up")]
    Up,
    /// It runs in part, or too often.
    #[serde(rename = "warn")]
    Warn,
    /// It does not run.
    #[serde(rename = "down")]
    Down,
    /// There is nothing to run.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// Its node does not report.
    #[serde(rename = "unknown")]
    Unknown,
}

impl Avail {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Warn => "warn",
            Self::Down => "down",
            Self::NotApplicable => "n/a",
            Self::Unknown => "unknown",
        }
    }
}

/// One instance, for the questions of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceState {
    /// Its availability.
    pub avail: Avail,
    /// True if the node of the instance is a leader.
    pub is_leader: bool,
    /// True if the instance is frozen.
    pub is_frozen: bool,
}

/// Returns the availability of a workload unit.
///
/// # Shape
/// `instances`: one for each instance row; `selected`: nodes that should run an instance if there is one on each. A surplus during
/// an update that starts first is tolerated with `is_updating`.
pub fn avail_of(goal: &Goal, instances: &[InstanceState], selected: u32, is_updating: bool) -> Avail {
    let count = |avail| instances.iter().filter(|one| one.avail == avail).count() as u32;
    let is_for_none = goal.leader_count() == Some(0);
    let is_nowhere =
        |one: &InstanceState| one.avail == Avail::NotApplicable || is_for_none && one.avail == Avail::Down;
    if instances.iter().all(is_nowhere) {
        return Avail::NotApplicable;
    }
    let (min, max) = match goal.count {
        Count::PerNode => (selected, None),
        Count::Exactly(count) => (count, Some(count)),
        Count::Between { min, max, .. } => (min, max),
    };
    match count(Avail::Up) {
        0 if count(Avail::Warn) > 0 => Avail::Warn,
        0 => Avail::Down,
        up if up < min || max.is_some_and(|max| up > max && !is_updating) => Avail::Warn,
        _ => Avail::Up,
    }
}

/// Returns the availability of a workload from that of its workload units.
pub fn workload_avail(parts: &[Avail]) -> Avail {
    let mut known = parts.iter().filter(|avail| **avail != Avail::NotApplicable);
    match known.next() {
        None => Avail::NotApplicable,
        Some(first) if known.all(|avail| avail == first) => *first,
        Some(_) => Avail::Warn,
    }
}

/// Placement of the running instances relative to the leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlacementState {
    /// Every running instance is on a leader, and every leader runs one.
    #[serde(rename = "optimal")]
    Optimal,
    /// Some are not.
    #[serde(rename = "non-optimal")]
    NonOptimal,
    /// The question does not apply.
    #[serde(rename = "n/a")]
    NotApplicable,
}

impl PlacementState {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::NonOptimal => "non-optimal",
            Self::NotApplicable => "n/a",
        }
    }
}

/// Returns whether the running instances of a workload unit are on leaders; `has_ranking`: whether its policy ranks nodes at all.
pub fn placement_state(goal: &Goal, instances: &[InstanceState], has_ranking: bool) -> PlacementState {
    let may_be_empty = matches!(goal.count, Count::Between { min: 0, .. });
    let is_up = |one: &InstanceState| one.avail == Avail::Up;
    if !has_ranking || may_be_empty || !instances.iter().any(is_up) {
        return PlacementState::NotApplicable;
    }
    let thawed: Vec<&InstanceState> = instances.iter().filter(|one| !one.is_frozen).collect();
    if thawed.len() < 2 || thawed.iter().all(|one| is_up(one) == one.is_leader) {
        PlacementState::Optimal
    } else {
        PlacementState::NonOptimal
    }
}
