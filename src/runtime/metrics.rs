//! Counters and gauges, rendered as the plain text format that scrapers read.
//!
//! Counting is one atomic addition; everything else happens when somebody asks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The number so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

type Reader = Box<dyn Fn() -> f64 + Send + Sync>;

struct Family {
    kind: &'static str,
    help: &'static str,
    // Keyed by the rendered label set, such as `{class="2xx"}` or the empty text.
    series: BTreeMap<String, Reader>,
}

/// The metrics of a process.
#[derive(Clone)]
pub struct Metrics {
    families: Arc<Mutex<BTreeMap<&'static str, Family>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self { families: Arc::default() };
        metrics.observe_process();
        metrics
    }
}

impl Metrics {
    /// A new counter; `labels` are pairs of name and value.
    pub fn counter(&self, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Counter {
        let counter = Counter::default();
        let read = counter.clone();
        // Counts stay far below 2^53, where a double is still exact.
        #[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
        self.insert(name, "counter", help, labels, Box::new(move || read.value() as f64));
        counter
    }

    /// A gauge that is read by calling `read`.
    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        self.insert(name, "gauge", help, labels, Box::new(read));
    }

    fn insert(
        &self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: Reader,
    ) {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(name).or_insert_with(|| Family { kind, help, series: BTreeMap::new() });
        family.series.insert(render_labels(labels), read);
    }

    /// All metrics as text.
    #[must_use]
    pub fn render(&self) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::with_capacity(4096);
        for (name, family) in families.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind);
            for (labels, read) in &family.series {
                let _ = writeln!(text, "{name}{labels} {}", read());
            }
        }
        text
    }

    fn observe_process(&self) {
        let begun = Instant::now();
        self.gauge("process_uptime_seconds", "Time since the process started", &[], move || {
            begun.elapsed().as_secs_f64()
        });
        self.gauge("process_resident_memory_bytes", "Resident memory", &[], || {
            resident_bytes().unwrap_or(0.0)
        });
        self.gauge("process_open_fds", "Open file descriptors", &[], open_file_count);
    }
}

fn render_labels(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// Resident memory of this process in bytes, where the system tells it.
#[must_use]
pub fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

#[expect(clippy::cast_precision_loss, reason = "a process has far fewer than 2^53 files")]
fn open_file_count() -> f64 {
    std::fs::read_dir("/proc/self/fd").map_or(0.0, |entries| entries.count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_one_name_share_a_header_and_labels_are_escaped() {
        let metrics = Metrics::default();
        let good = metrics.counter("requests_total", "Requests", &[("class", "2xx")]);
        metrics.counter("requests_total", "Requests", &[("class", "a\"b\\c\nd")]).add(7);
        good.increment();
        let text = metrics.render();
        assert_eq!(text.matches("# TYPE requests_total counter").count(), 1);
        assert!(text.contains("requests_total{class=\"2xx\"} 1\n"), "{text}");
        assert!(text.contains(r#"requests_total{class="a\"b\\c\nd"} 7"#), "{text}");
    }

    #[test]
    fn a_gauge_is_read_when_asked() {
        let metrics = Metrics::default();
        let value = Counter::default();
        let read = value.clone();
        metrics.gauge("queue_length", "Length", &[], move || f64::from(u32::try_from(read.value()).unwrap()));
        value.add(3);
        assert!(metrics.render().contains("queue_length 3\n"));
        assert!(resident_bytes().unwrap() > 100_000.0);
    }
}
