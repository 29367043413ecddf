//! Failures of services reported to the hub: their count and causes, kept until the services have recovered.

use evenkeel_wire::exchange::node_part::ServiceFailure as FailureDocument;
use serde::{Deserialize, Serialize};

use super::{Failures, Observation, State, WorkloadName};

/// Seconds without a further failure after which a service that runs has recovered.
const RECOVERED_SECS: u64 = 90;
/// Seconds for which the failures of a service that has ended are kept.
const KEPT_SECS: u64 = 24 * 3600;
/// Maximum number of failures kept.
const MOST_FAILURES: usize = 20;

/// The failures of one container or process of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceFailure {
    /// Key of the service: the agreement id, or that of an instance.
    pub key: String,
    /// The service.
    pub workload: WorkloadName,
    /// Name in the deployment; empty when the service as a whole could not be started.
    pub container: String,
    /// The cause.
    pub failures: Failures,
    /// When it last happened, seconds since 1970.
    pub at: u64,
}

impl ServiceFailure {
    /// Returns the human-readable failure.
    pub fn text(&self) -> String {
        self.document(true).text()
    }

    fn document(&self, is_agreement: bool) -> FailureDocument {
        let failures = &self.failures;
        FailureDocument {
            agreement_id: if is_agreement { self.key.clone() } else { String::new() },
            service_url: self.workload.url.clone(),
            orgid: self.workload.org.clone(),
            version: self.workload.version.clone(),
            arch: self.workload.arch.clone(),
            container: self.container.clone(),
            exits: i64::from(failures.exits),
            recent_exits: failures.recent.iter().filter_map(|at| i64::try_from(*at).ok()).collect(),
            exit_code: failures.code,
            signal: failures.signal.map(i64::from),
            output: failures.output.clone(),
            error: failures.error.clone(),
        }
    }
}

impl State {
    /// Records the failures that a driver observed.
    pub(super) fn record_failures(&mut self, key: &str, observation: &Observation, now: u64) {
        for container in observation.containers.iter().filter(|container| !container.failures.is_empty()) {
            self.record_failure(key, &container.name, container.failures.clone(), now);
        }
    }

    /// Records that a service could not be started or stopped.
    pub(super) fn record_error(&mut self, key: &str, error: String, now: u64) {
        let failures = Failures { error: Some(error), ..Failures::default() };
        self.record_failure(key, "", failures, now);
    }

    /// Records that the service was started: an earlier error is resolved.
    pub(super) fn forget_error(&mut self, key: &str) {
        self.failures.retain(|one| one.key != key || !one.container.is_empty());
    }

    fn record_failure(&mut self, key: &str, container: &str, failures: Failures, now: u64) {
        let workload = match (self.agreements.get(key), self.instances.get(key)) {
            (Some(agreement), _) => agreement.workload.clone(),
            (None, Some(instance)) => instance.dependency.service.clone(),
            (None, None) => return,
        };
        let is_same = |one: &ServiceFailure| one.key == key && one.container == container;
        if self.failures.iter().any(|one| is_same(one) && one.failures == failures) {
            return;
        }
        self.failures.retain(|one| !is_same(one));
        let (key, container) = (key.to_owned(), container.to_owned());
        self.failures.push(ServiceFailure { key, workload, container, failures, at: now });
        let surplus = self.failures.len().saturating_sub(MOST_FAILURES);
        self.failures.drain(..surplus);
    }

    /// Returns the services that have run without failure for a while, as `org/url`.
    pub(super) fn recovered(&self, now: u64) -> Vec<String> {
        self.live()
            .filter(|agreement| agreement.down_since.is_none())
            .filter(|agreement| {
                agreement.started_at.is_some_and(|at| now.saturating_sub(at) >= RECOVERED_SECS)
            })
            .map(|agreement| agreement.workload.qualified_url())
            .collect()
    }

    /// Drops the failures of services that have recovered, or that ended long ago.
    pub(super) fn forget_failures(&mut self, now: u64) {
        let recovered = self.recovered(now);
        self.failures.retain(|one| {
            let age = now.saturating_sub(one.at);
            let has_recovered = recovered.contains(&one.workload.qualified_url());
            age < RECOVERED_SECS || (!has_recovered && age < KEPT_SECS)
        });
    }

    /// Returns why a service failed last, in words.
    pub(super) fn failure_text(&self, key: &str) -> Option<String> {
        self.failures.iter().rev().find(|one| one.key == key).map(ServiceFailure::text)
    }

    /// Returns the failures in the form of the status document.
    pub(super) fn failure_documents(&self) -> Vec<FailureDocument> {
        let is_instance = |one: &ServiceFailure| self.instances.contains_key(&one.key);
        self.failures.iter().map(|one| one.document(!is_instance(one))).collect()
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
