//! The availability of nodes.

use serde::{Deserialize, Serialize};

/// The availability of a node, set by its operator.
///
/// # Source
/// Orchestration B9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// Services are placed and updated.
    #[default]
    Active,
    /// Running services continue; nothing is placed or updated.
    Pause,
    /// Running services leave, members of an HA group one at a time; nothing is placed.
    Drain,
}

impl Availability {
    /// The words that the API shows.
    pub const NAMES: [&'static str; 3] = ["active", "pause", "drain"];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the one with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Pause, Self::Drain].into_iter().find(|one| one.word() == word)
    }
}
