//! An observer independent of the hub: it polls every instance of the service every 20 ms.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::service;

const STEP: Duration = Duration::from_millis(20);

/// The observations.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The responding version, by node.
    pub versions: BTreeMap<String, String>,
    /// Lowest number of instances that responded at the same time since counting began; `None` before the first poll.
    pub lowest: Option<usize>,
    /// Looks since counting began.
    pub observation_count: u64,
}

/// A thread that observes every 20 ms.
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    counts: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Starts polling the sockets of the nodes.
    pub fn start(sockets: PathBuf, nodes: Vec<String>) -> Observer {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let counts = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, counting, stopping) = (seen.clone(), counts.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                let began = Instant::now();
                let versions: BTreeMap<String, String> = nodes
                    .iter()
                    .filter_map(|node| Some((node.clone(), service::ask(&sockets, node)?)))
                    .collect();
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if counting.load(Ordering::Relaxed) {
                    let count = versions.len();
                    seen.lowest = Some(seen.lowest.map_or(count, |lowest| lowest.min(count)));
                    seen.observation_count += 1;
                }
                seen.versions = versions;
                drop(seen);
                std::thread::sleep(STEP.saturating_sub(began.elapsed()));
            }
        });
        Observer { seen, counts, stop, thread: Some(thread) }
    }

    /// Starts recording the lowest number of instances.
    pub fn begin_counting(&self) {
        self.counts.store(true, Ordering::Relaxed);
    }

    /// Returns the observations so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panicked observer has already reported its panic.
            let _ = thread.join();
        }
    }
}
