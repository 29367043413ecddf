//! Agreements whose records are requested.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use evenkeel_ids::AgreementId;
use tokio::sync::Notify;

/// Agreements to be read.
#[derive(Default)]
pub(crate) struct Lookup {
    wanted: Mutex<BTreeSet<AgreementId>>,
    wake: Notify,
}

impl Lookup {
    /// Requests the records of agreements.
    pub(crate) fn want(&self, ids: impl IntoIterator<Item = AgreementId>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.extend(ids);
        if !wanted.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Returns the agreements that were requested since the last call.
    pub(crate) fn take_wanted(&self) -> BTreeSet<AgreementId> {
        std::mem::take(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a request.
    pub(crate) async fn wanted(&self) {
        self.wake.notified().await;
    }
}
