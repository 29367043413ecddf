//! Bounds how many lists of nodes the agbot reads for one caller at a time.
//!
//! Every request of a plain user begins with such a list, and the rates of callers do not limit what runs at the same time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http::{HeaderMap, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lists that one caller reads at a time; further requests wait.
const LISTS_PER_CALLER: usize = 4;

/// The callers that read lists now.
pub(super) static READS: ListReads = ListReads(Mutex::new(BTreeMap::new()));

/// Semaphores by caller; those that nobody holds or waits for are removed with the next read.
pub(super) struct ListReads(Mutex<BTreeMap<u64, Weak<Semaphore>>>);

impl ListReads {
    /// Waits until the caller may read another list; the list has been read when the permit is dropped.
    pub(super) async fn permit(&self, headers: &HeaderMap) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        self.semaphore(caller(headers)).acquire_owned().await.ok()
    }

    fn semaphore(&self, caller: u64) -> Arc<Semaphore> {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, semaphore| semaphore.strong_count() > 0);
        if let Some(semaphore) = callers.get(&caller).and_then(Weak::upgrade) {
            return semaphore;
        }
        let semaphore = Arc::new(Semaphore::new(LISTS_PER_CALLER));
        callers.insert(caller, Arc::downgrade(&semaphore));
        semaphore
    }
}

/// A caller by its credentials, which are not kept.
fn caller(headers: &HeaderMap) -> u64 {
    let mut hasher = DefaultHasher::new();
    headers.get(header::AUTHORIZATION).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(authorization))])
    }

    #[tokio::test]
    async fn caller_with_all_its_reads_in_progress_waits_and_others_do_not() {
        let reads = ListReads(Mutex::new(BTreeMap::new()));
        let (one, other) = (headers("Basic one"), headers("Basic other"));
        let mut held = Vec::new();
        for _ in 0..LISTS_PER_CALLER {
            held.push(reads.permit(&one).await.unwrap());
        }
        assert_eq!(reads.semaphore(caller(&one)).available_permits(), 0);
        assert!(reads.permit(&other).await.is_some());
        held.pop();
        assert!(reads.permit(&one).await.is_some());
        drop(held);
        drop(reads.permit(&other).await);
        assert_eq!(reads.0.lock().unwrap().len(), 1, "idle callers are forgotten");
    }
}
