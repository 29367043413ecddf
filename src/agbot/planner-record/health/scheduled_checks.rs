//! The checks that are scheduled, by time and by entity.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Entity;

/// The checks that are scheduled.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    at: BTreeSet<(Timestamp, Entity)>,
    of: BTreeMap<Entity, Timestamp>,
}

impl Checks {
    /// Schedules a check, unless it is scheduled earlier.
    pub fn add(&mut self, entity: &Entity, at: Timestamp) {
        match self.of.get(entity) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => {
                self.at.remove(&(*later, entity.clone()));
            }
            None => {}
        }
        self.at.insert((at, entity.clone()));
        self.of.insert(entity.clone(), at);
    }

    /// Forgets checks that are due.
    pub fn remove_due(&mut self, now: Timestamp) {
        while let Some((_, entity)) = self.at.first().filter(|(at, _)| *at <= now).cloned() {
            self.at.pop_first();
            self.of.remove(&entity);
        }
    }

    /// Returns the checks that are due, the earliest first.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &Entity> {
        self.at.iter().take_while(move |(at, _)| *at <= now).map(|(_, entity)| entity)
    }

    /// Marks every check as due.
    pub fn set_back(&mut self, now: Timestamp) {
        self.at =
            std::mem::take(&mut self.at).into_iter().map(|(at, entity)| (now.min(at), entity)).collect();
        self.of.values_mut().for_each(|at| *at = now.min(*at));
    }

    /// Returns when the next check is due.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.at.first().map(|(at, _)| *at)
    }
}
