//! Durations of requests, by the kind of resource that they name.
//!
//! Requests of the fast path (change polls and heartbeats) are not timed: a parked poll takes as long as it
//! was asked to, and a clock read would cost an idle poll more than it is worth.

use std::time::Instant;

use evenkeel_metrics::{Histogram, Metrics};

/// Kinds of resources: the label, and the path segment after the organization.
const ROUTES: [(&str, &str); 11] = [
    ("nodes", "nodes"),
    ("agbots", "agbots"),
    ("services", "services"),
    ("patterns", "patterns"),
    ("deployment-policies", "business"),
    ("management-policies", "managementpolicies"),
    ("ha-groups", "hagroups"),
    ("users", "users"),
    ("changes", "changes"),
    ("search", "search"),
    ("audit", "audit"),
];
/// Everything else: organizations, status, documents.
const OTHER: &str = "other";

/// One histogram for each kind of resource.
#[derive(Debug, Default)]
pub struct RequestTimes {
    routes: [Histogram; ROUTES.len()],
    other: Histogram,
}

impl RequestTimes {
    /// Registers the histograms.
    pub(crate) fn register(&self, metrics: &Metrics) {
        let labels = ROUTES.iter().map(|(label, _)| *label).zip(&self.routes);
        for (label, histogram) in labels.chain([(OTHER, &self.other)]) {
            metrics.histogram(
                "http_request_duration_seconds",
                "Time from the complete head of a request to its response, without change polls and heartbeats",
                &[("route", label)],
                histogram,
            );
        }
    }

    /// The histogram of a path below the base of the API.
    pub(crate) fn of(&self, path: &str) -> &Histogram {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let kind = match segments.next() {
            // `/orgs/{org}/kind`, or `/org/{org}/kind` of the document forms.
            Some("orgs" | "org") => segments.nth(1),
            first => first,
        };
        let index = kind.and_then(|kind| ROUTES.iter().position(|(_, segment)| *segment == kind));
        index.map_or(&self.other, |index| &self.routes[index])
    }
}

/// Observes the time from its making to its end.
pub(crate) struct Timer {
    histogram: Histogram,
    begun: Instant,
}

impl Timer {
    pub(crate) fn start(histogram: &Histogram) -> Self {
        Self { histogram: histogram.clone(), begun: Instant::now() }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_counted_by_the_kind_of_its_resource() {
        let times = RequestTimes::default();
        drop(Timer::start(times.of("/orgs/o/nodes/n/policy")));
        drop(Timer::start(times.of("/orgs/o")));
        drop(Timer::start(times.of("/changes/maxchangeid")));
        let metrics = Metrics::default();
        times.register(&metrics);
        let text = metrics.render();
        for (route, count) in [("nodes", 1), ("other", 1), ("changes", 1), ("services", 0)] {
            let line = format!("http_request_duration_seconds_count{{route=\"{route}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
