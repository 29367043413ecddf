//! Reported values of the node, as the exchange has recorded them.

use serde::{Deserialize, Serialize};

use super::State;

/// The value that the exchange has.
///
/// It is unknown from the moment a report of another one begins until that report has succeeded: a report whose outcome was lost may have
/// been recorded nevertheless. A value that has changed back in the meantime is therefore reported as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reported<T>(Option<T>);

impl<T: PartialEq> Reported<T> {
    /// Returns whether the exchange is known to have a value.
    pub fn is(&self, value: &T) -> bool {
        self.0.as_ref() == Some(value)
    }

    /// Records that a report has succeeded.
    pub fn succeed(&mut self, value: T) {
        self.0 = Some(value);
    }

    /// Records that a report begins.
    pub fn begin(&mut self) {
        self.0 = None;
    }

    /// Returns the value that the exchange is known to have.
    pub fn known(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T: Default> Default for Reported<T> {
    fn default() -> Self {
        Self(Some(T::default()))
    }
}

impl State {
    /// Forgets what the exchange has: another agent may have reported for the node. Everything is reported again.
    pub fn doubt_reports(&mut self) {
        self.reported_status.begin();
        self.reported_services.begin();
        self.reported_errors.begin();
        self.agreements.values_mut().for_each(|agreement| agreement.recorded.begin());
        for task in self.tasks.values_mut() {
            task.reported_health.begin();
            task.reported_broken.begin();
            task.reported_peers.begin();
            task.reported_lease.begin();
        }
    }
}
