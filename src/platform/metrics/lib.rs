//! Counters, gauges and histograms, rendered in the text format that Prometheus scrapes.
//!
//! Counting is one atomic addition, observing a duration three; everything else happens at a scrape.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Upper bounds of the buckets of a [`Histogram`], in seconds; a last bucket has no bound.
const BOUNDS: [f64; 14] =
    [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Durations, counted in buckets.
#[derive(Clone, Debug, Default)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug, Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.0.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
    fn render(&self, name: &str, labels: &str, text: &mut String) {
        let inner = labels.trim_start_matches('{').trim_end_matches('}');
        let separator = if inner.is_empty() { "" } else { "," };
        let mut count = 0;
        for (index, bucket) in self.0.counts.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}_bucket{{{inner}{separator}le=\"{bound}\"}} {count}");
        }
        let sum = self.0.sum_micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
    }
}

type Reader = Box<dyn Fn() -> f64 + Send + Sync>;
/// Values by the values of the labels.
pub type Labeled = Vec<(Vec<String>, f64)>;
type GroupReader = Box<dyn Fn() -> Labeled + Send + Sync>;

enum Series {
    One(Reader),
    Histogram(Histogram),
    /// One value for each combination of the values of some labels.
    Group(&'static [&'static str], GroupReader),
}

struct Family {
    kind: &'static str,
    help: &'static str,
    // Keyed by the rendered label set, such as `{class="2xx"}` or the empty text.
    series: BTreeMap<String, Series>,
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
        self.insert(name, "counter", help, labels, Series::One(Box::new(move || read.value() as f64)));
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
        self.insert(name, "gauge", help, labels, Series::One(Box::new(read)));
    }

    /// Registers a counter that is kept elsewhere and read by calling `read`.
    pub fn counted(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        self.insert(name, "counter", help, labels, Series::One(Box::new(read)));
    }

    /// A gauge with one value for each combination of the values of `labels`, all read by one call.
    pub fn gauges(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        read: impl Fn() -> Labeled + Send + Sync + 'static,
    ) {
        self.insert(name, "gauge", help, &[], Series::Group(labels, Box::new(read)));
    }

    /// Counters that are kept elsewhere, one for each combination of the values of `labels`, all read by one call.
    pub fn counted_by(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        read: impl Fn() -> Labeled + Send + Sync + 'static,
    ) {
        self.insert(name, "counter", help, &[], Series::Group(labels, Box::new(read)));
    }

    /// A histogram that is observed elsewhere.
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        histogram: &Histogram,
    ) {
        self.insert(name, "histogram", help, labels, Series::Histogram(histogram.clone()));
    }

    fn insert(
        &self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: Series,
    ) {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(name).or_insert_with(|| Family { kind, help, series: BTreeMap::new() });
        family.series.insert(render_labels(labels), read);
    }

    /// Returns all metrics as text.
    #[must_use]
    pub fn render(&self) -> String {
        self.render_without(&[])
    }

    /// Returns all metrics as text without names that users have given: values that differ only in such a label are summed up.
    #[must_use]
    pub fn render_public(&self) -> String {
        self.render_without(&NAMING)
    }

    fn render_without(&self, hidden: &[&str]) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::with_capacity(4096);
        for (name, family) in families.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind);
            for (labels, series) in &family.series {
                match series {
                    Series::One(read) => {
                        let _ = writeln!(text, "{name}{labels} {}", read());
                    }
                    Series::Histogram(histogram) => histogram.render(name, labels, &mut text),
                    Series::Group(names, read) => {
                        for (labels, number) in sums(names, &read(), hidden) {
                            let _ = writeln!(text, "{name}{labels} {number}");
                        }
                    }
                }
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
        self.gauge("process_max_fds", "Greatest number of open file descriptors", &[], || {
            std::fs::read_to_string("/proc/self/limits").map_or(0.0, |limits| most_files(&limits))
        });
    }
}

/// Labels whose values are names that users have given.
const NAMING: [&str; 4] = ["policy", "unit", "group", "org"];

/// Returns values by their labels without the hidden ones, in the order in which they were first seen.
fn sums(names: &[&str], values: &Labeled, hidden: &[&str]) -> Vec<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::with_capacity(values.len());
    let mut positions = HashMap::new();
    for (labels, number) in values {
        let pairs = names.iter().copied().zip(labels.iter().map(String::as_str));
        let pairs: Vec<(&str, &str)> = pairs.filter(|(name, _)| !hidden.contains(name)).collect();
        let labels = render_labels(&pairs);
        let position = *positions.entry(labels.clone()).or_insert_with(|| {
            sums.push((labels, 0.0));
            sums.len() - 1
        });
        sums[position].1 += number;
    }
    sums
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

/// Returns the resident memory of this process in bytes, where the system reports it.
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

/// Returns the soft limit of open files in the text of `/proc/self/limits`; infinite when there is none.
fn most_files(limits: &str) -> f64 {
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = row.and_then(|row| row.split_whitespace().next());
    soft.and_then(|number| number.parse().ok()).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_of_open_files_is_read() {
        let text = "Limit   Soft Limit   Hard Limit   Units\nMax open files            1024                 4096                 files\n";
        assert!((most_files(text) - 1024.0).abs() < f64::EPSILON);
        assert!(most_files("Max open files  unlimited  unlimited  files").is_infinite());
    }

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
    fn histogram_counts_each_duration_in_its_bucket_and_all_above() {
        let (metrics, histogram) = (Metrics::default(), Histogram::default());
        metrics.histogram("wait_seconds", "Wait", &[("kind", "a")], &histogram);
        for millis in [1, 3, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let text = metrics.render();
        for line in [
            "# TYPE wait_seconds histogram",
            r#"wait_seconds_bucket{kind="a",le="0.0005"} 0"#,
            r#"wait_seconds_bucket{kind="a",le="0.001"} 1"#,
            r#"wait_seconds_bucket{kind="a",le="0.005"} 2"#,
            r#"wait_seconds_bucket{kind="a",le="+Inf"} 3"#,
            r#"wait_seconds_sum{kind="a"} 60.004"#,
            r#"wait_seconds_count{kind="a"} 3"#,
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn gauges_of_one_family_are_read_by_one_call() {
        let metrics = Metrics::default();
        let labels = &["org", "state"];
        let value = |state: &str, number| (vec!["o".to_owned(), state.to_owned()], number);
        metrics.gauges("nodes", "Nodes", labels, move || vec![value("up", 2.0), value("down", 1.0)]);
        let text = metrics.render();
        let lines = "nodes{org=\"o\",state=\"up\"} 2\nnodes{org=\"o\",state=\"down\"} 1\n";
        assert!(text.contains(lines), "{text}");
    }

    #[test]
    fn public_text_names_nothing_of_a_user_and_adds_values_up() {
        let metrics = Metrics::default();
        let labels = &["policy", "state"];
        let value = |policy: &str, state: &str, number| (vec![policy.to_owned(), state.to_owned()], number);
        metrics.gauges("tasks", "Tasks", labels, move || {
            vec![value("o/secret", "run", 2.0), value("o/other", "run", 1.0), value("o/secret", "fail", 1.0)]
        });
        metrics.gauges("held", "Held", &["group"], || {
            vec![(vec!["o/g".to_owned()], 1.0), (vec!["o/h".to_owned()], 1.0)]
        });
        let text = metrics.render_public();
        assert!(text.contains("tasks{state=\"run\"} 3\ntasks{state=\"fail\"} 1\n"), "{text}");
        assert!(text.contains("held 2\n") && !text.contains("o/"), "{text}");
        assert!(metrics.render().contains("tasks{policy=\"o/secret\",state=\"run\"} 2\n"));
    }

    #[test]
    fn gauge_is_read_when_asked() {
        let metrics = Metrics::default();
        let value = Counter::default();
        let read = value.clone();
        metrics.gauge("queue_length", "Length", &[], move || f64::from(u32::try_from(read.value()).unwrap()));
        value.add(3);
        assert!(metrics.render().contains("queue_length 3\n"));
        assert!(resident_bytes().unwrap() > 100_000.0);
    }
}
