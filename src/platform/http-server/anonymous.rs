//! Connections without a login, which are closed to make room for others when a listener is full.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::activity::Activity;

/// The connections of a listener, oldest first.
#[derive(Debug, Default)]
pub struct Connections(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last: u64,
    /// Those that had no login when they were last examined.
    anonymous: BTreeMap<u64, (Arc<Activity>, CancellationToken)>,
}

/// A connection while it is open.
#[derive(Debug)]
pub struct Registered {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// Adds a connection; `cut` ends it.
    pub fn register(self: &Arc<Self>, activity: Arc<Activity>, cut: CancellationToken) -> Registered {
        let mut known = self.lock();
        known.last += 1;
        let number = known.last;
        known.anonymous.insert(number, (activity, cut));
        Registered { connections: self.clone(), number }
    }

    /// Closes the oldest connection that is idle and has no login; returns false if there is none.
    pub fn evict(&self) -> bool {
        let mut known = self.lock();
        known.anonymous.retain(|_, (activity, cut)| !activity.has_login() && !cut.is_cancelled());
        let oldest = known.anonymous.values().find(|(activity, _)| activity.is_idle());
        oldest.map(|(_, cut)| cut.cancel()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.connections.lock().anonymous.remove(&self.number);
    }
}
