//! An observer independent of the hub: it polls every instance of the service every 20 ms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::service::{self, Instance};

const STEP: Duration = Duration::from_millis(20);

/// The observations.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The responding instance, by node.
    pub instances: BTreeMap<String, Instance>,
    /// Observations since counting began.
    pub counted: Counted,
}

/// The observations since counting began.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Lowest number of instances that responded at the same time; `None` before the first poll.
    pub lowest: Option<usize>,
    /// Highest number of instances that responded at the same time.
    pub highest: usize,
    /// Nodes on which each version responded at some time.
    pub nodes_by_version: BTreeMap<String, BTreeSet<String>>,
    /// Number of polls.
    pub observation_count: u64,
}

impl Counted {
    fn count(&mut self, instances: &BTreeMap<String, Instance>) {
        let count = instances.len();
        self.lowest = Some(self.lowest.map_or(count, |lowest| lowest.min(count)));
        self.highest = self.highest.max(count);
        for (node, instance) in instances {
            self.nodes_by_version.entry(instance.version.clone()).or_default().insert(node.clone());
        }
        self.observation_count += 1;
    }
}

impl Seen {
    /// Returns the responding version, by node.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.instances.iter().map(|(node, instance)| (node.clone(), instance.version.clone())).collect()
    }

    /// Returns the nodes on which this version responds.
    pub fn nodes_with(&self, version: &str) -> BTreeSet<String> {
        let matching = self.instances.iter().filter(|(_, instance)| instance.version == version);
        matching.map(|(node, _)| node.clone()).collect()
    }
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
                let instances: BTreeMap<String, Instance> = nodes
                    .iter()
                    .filter_map(|node| Some((node.clone(), service::ask(&sockets, node)?)))
                    .collect();
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if counting.load(Ordering::Relaxed) {
                    seen.counted.count(&instances);
                }
                seen.instances = instances;
                drop(seen);
                std::thread::sleep(STEP.saturating_sub(began.elapsed()));
            }
        });
        Observer { seen, counts, stop, thread: Some(thread) }
    }

    /// Starts recording the observations in [`Seen::counted`].
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
