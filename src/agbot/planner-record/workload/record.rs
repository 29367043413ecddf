//! The stored form of a workload: its versions, what each of them runs, and the status of its update.
//!
//! Source: orchestration 1.10; engine 5, 6.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::{Orchestration, capacity::Amounts};
use evenkeel_ids::{PolicyId, ServiceKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Dependency, HubDefaults, Part, UpdateEvent, UpdateState, UpdateStatus, UserAction, Versions, Workload,
};
use crate::{
    facts::{DeploymentPolicyFacts, PolicyOrchestration, VersionChoice},
    report::HoldReason,
    stable_hash::stable_hash,
    usage::best_version,
};

/// Specification of the tasks of one version: a copy of the policy as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The service.
    pub service: ServiceKey,
    /// Architecture; empty or `*` means the node's.
    pub arch: String,
    /// Versions in the order of the document.
    pub versions: Vec<VersionChoice>,
    /// `userInput`, as in the exchange.
    pub user_input: Vec<Value>,
    /// `secretBinding`, as in the exchange.
    pub secret_binding: Vec<Value>,
    /// Capacities of its node that one instance uses, by name; `null` when there are none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub loads: Value,
    /// The rest of the policy as it was written last with this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Box<RestOfPolicy>>,
}

impl TaskSpec {
    /// Returns the task specification of the current policy.
    pub fn of(policy: &DeploymentPolicyFacts) -> Self {
        let loads = policy.orchestration.document.as_ref().filter(|document| !document.loads.is_empty());
        Self {
            service: policy.service.clone(),
            arch: policy.arch.clone(),
            versions: policy.versions.clone(),
            user_input: policy.user_input.clone(),
            secret_binding: policy.secret_binding.clone(),
            loads: loads.map_or(Value::Null, |document| json!(document.loads)),
            document: RestOfPolicy::of(policy).map(Box::new),
        }
    }

    /// Returns what one instance uses of its node.
    fn loads(&self) -> Amounts {
        Amounts::deserialize(&self.loads).unwrap_or_default()
    }

    /// Returns a digest of what runs; a signature is not part of it.
    pub fn digest(&self) -> u64 {
        let text = |entry: &VersionChoice| {
            format!("{} {} {}", entry.version, entry.priority, stable_hash(&[&entry.overrides.text]))
        };
        let versions: Vec<String> = self.versions.iter().map(text).collect();
        let json = |values: &[Value]| Value::Array(values.to_vec()).to_string();
        let loads = self.loads.to_string();
        let parts: [&str; 6] = [
            self.service.as_str(),
            &self.arch,
            &versions.join(","),
            &json(&self.user_input),
            &json(&self.secret_binding),
            &loads,
        ];
        // Without loads the digest is that of a record from before they were part of it.
        stable_hash(if self.loads.is_null() { &parts[..5] } else { &parts })
    }

    /// Returns the policy with the service of this version.
    pub fn of_policy(&self, policy: &DeploymentPolicyFacts) -> DeploymentPolicyFacts {
        DeploymentPolicyFacts {
            service: self.service.clone(),
            arch: self.arch.clone(),
            versions: self.versions.clone(),
            user_input: self.user_input.clone(),
            secret_binding: self.secret_binding.clone(),
            ..policy.clone()
        }
    }
}

/// The part of a policy outside of the task specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestOfPolicy {
    /// `orchestration`, as in the exchange.
    pub orchestration: Value,
    /// Properties and constraints.
    pub policy: Value,
}

impl RestOfPolicy {
    /// Returns the rest of the current policy; none without `orchestration`.
    fn of(policy: &DeploymentPolicyFacts) -> Option<Self> {
        let document = policy.orchestration.document.as_ref()?;
        Some(Self { orchestration: json!(document), policy: json!(policy.policy) })
    }

    /// Returns a policy with these members.
    fn of_policy(self, policy: DeploymentPolicyFacts) -> DeploymentPolicyFacts {
        // A document that was read once can be read again.
        let Ok(document) = Orchestration::of_policy(&policy.id, self.orchestration) else { return policy };
        let Ok(rest) = serde_json::from_value(self.policy) else { return policy };
        let orchestration = PolicyOrchestration::of(&policy.id, &document);
        DeploymentPolicyFacts { orchestration, policy: rest, ..policy }
    }
}

/// The row of a workload.
///
/// # Shape
/// `revision` grows by one with every write; a write that is not based on the newest one is refused. `specs`: by number, of every
/// version that the workload or one of its tasks names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// The policy.
    pub policy: PolicyId,
    /// The versions of its task spec.
    pub versions: Versions,
    /// The status of its update.
    pub update: UpdateStatus,
    /// True if a user froze the workload.
    #[serde(default)]
    pub is_frozen: bool,
    /// True if a user stopped the workload: nothing runs until a user starts it.
    #[serde(default)]
    pub is_stopped: bool,
    /// The action of a user that is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<UserAction>,
    /// Workloads that must be down before an instance is stopped, also after the policy was deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Dependency>,
    /// When the exchange stored the policy that was taken over last.
    pub written_at: Option<Timestamp>,
    /// Number of writes of the row.
    pub revision: u64,
    /// The workload unit whose plan wrote the row last. Two units with the same result write different rows,
    /// so that only one of them reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_by: Option<Part>,
    /// Task specifications by version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specs: Vec<(u64, TaskSpec)>,
}

impl WorkloadRecord {
    /// Creates the row of a policy that had none.
    pub fn new(policy: &DeploymentPolicyFacts) -> Self {
        let spec = TaskSpec::of(policy);
        let versions = Versions::new(spec.digest());
        Self {
            policy: policy.id.clone(),
            versions,
            update: UpdateStatus::default(),
            is_frozen: false,
            is_stopped: false,
            action: None,
            children: children(policy),
            written_at: policy.last_updated,
            revision: 1,
            written_by: None,
            specs: vec![(versions.current.number, spec)],
        }
    }

    /// Returns a new row of a policy whose version was rolled back before it had tasks: it stays so.
    pub fn rolled_back(self, to: VersionChoice, why: &HoldReason, since: Timestamp) -> Self {
        let Some(written) = self.spec(self.versions.current.number) else { return self };
        let earlier = TaskSpec { versions: vec![to], ..written.clone() };
        let versions = Versions::new(earlier.digest()).write(written.digest());
        let Some(versions) = versions.roll_back() else { return self };
        let specs = vec![(versions.current.number, earlier), (versions.current.number + 1, written.clone())];
        let update = UpdateStatus {
            state: UpdateState::RollbackCompleted,
            message: format!("rollback completed: {why}"),
            started_at: Some(since),
            completed_at: Some(since),
            target: Some(versions.current),
            ..UpdateStatus::default()
        };
        Self { versions, update, specs, ..self }
    }

    /// Returns the row after a client wrote the policy; none when it was taken over already.
    pub fn written(&self, policy: &DeploymentPolicyFacts, now: Timestamp) -> Option<Self> {
        let spec = TaskSpec::of(policy);
        let versions = self.versions.write(spec.digest());
        if self.written_at == policy.last_updated && versions == self.versions {
            return None;
        }
        let (written_at, revision) = (policy.last_updated, self.revision + 1);
        let mut next = Self { versions, children: children(policy), written_at, revision, ..self.clone() };
        let event = if versions == self.versions {
            // A failed version may succeed with other settings. A user's pause ends when a user ends it, or
            // wants another version (P0).
            let is_resumed = self.update.is_paused() && !self.update.is_paused_by_user;
            is_resumed.then_some(UpdateEvent::Resume)
        } else {
            Some(UpdateEvent::Written)
        };
        if let Some(event) = event {
            let message = match event {
                UpdateEvent::Resume => "resumed: the policy was written again",
                _ => "",
            };
            // Both are possible in these states.
            let _ = next.update.request(event, message, now);
        }
        // The policy written after a rollback is in force, with the service of the previous version.
        if next.restores(policy).is_none() {
            next.keep_document(spec);
        }
        Some(next)
    }

    /// Stores the rest of a policy with the current version, and the version itself if it is new.
    fn keep_document(&mut self, written: TaskSpec) {
        let number = self.versions.current.number;
        match self.specs.iter_mut().find(|(one, _)| *one == number) {
            Some((_, spec)) => spec.document = written.document,
            None => self.specs.push((number, written)),
        }
    }

    /// Returns what a rollback restores of a policy that was not written since, apart from what the version runs.
    fn restores(&self, written: &DeploymentPolicyFacts) -> Option<&RestOfPolicy> {
        let given_up = self.spec(self.versions.rolled_back_from?.number)?.document.as_deref();
        let rest = RestOfPolicy::of(written)?;
        let restored = self.spec(self.versions.current.number)?.document.as_deref();
        restored.filter(|_| given_up == Some(&rest))
    }

    /// Returns a policy as it is in force after a rollback: with the document that worked last, as a whole. None while the written one is.
    ///
    /// # Source
    /// Orchestration B11.7.
    pub fn in_force(&self, written: &DeploymentPolicyFacts) -> Option<DeploymentPolicyFacts> {
        self.versions.rolled_back_from?;
        written.orchestration.document.as_ref()?;
        let policy = self.spec(self.versions.current.number)?.of_policy(written);
        Some(match self.restores(written) {
            Some(rest) => rest.clone().of_policy(policy),
            None => policy,
        })
    }

    /// Returns the row of a deleted policy whose children are not waited for.
    pub fn without_children(&self) -> Self {
        Self { children: Vec::new(), revision: self.revision + 1, ..self.clone() }
    }

    /// Returns what a version runs.
    pub fn spec(&self, number: u64) -> Option<&TaskSpec> {
        self.specs.iter().find(|(one, _)| *one == number).map(|(_, spec)| spec)
    }

    /// Returns the workload of the policy, if the policy has tasks.
    pub fn workload(&self, policy: &DeploymentPolicyFacts, hub: &HubDefaults) -> Option<Workload> {
        let document = policy.orchestration.document.as_deref()?;
        let mut workload = Workload::of_document(&self.policy, document, self.versions, hub);
        if self.is_stopped {
            workload.goal = workload.goal.stopped();
        }
        // Tasks that a rollback brings back do not wait.
        let is_written = self.versions.rolled_back_from.is_none();
        let keeps_running =
            is_written && best_version(&policy.versions).is_some_and(|version| version.keeps_running);
        let (is_frozen, action) = (self.is_frozen, self.action.clone());
        let mut spec_loads: BTreeMap<u64, Amounts> =
            self.specs.iter().map(|(number, spec)| (*number, spec.loads())).collect();
        // A rollback brings back what the version before used.
        let current = spec_loads.get(&self.versions.current.number).cloned();
        let loads = current.unwrap_or_else(|| workload.loads.clone());
        if spec_loads.values().all(Amounts::is_empty) {
            spec_loads.clear();
        }
        Some(Workload { loads, spec_loads, keeps_running, is_frozen, action, ..workload })
    }

    /// Returns whether a write may replace the stored row: it is based on that row, or was carried out before.
    pub fn may_replace(&self, stored: Option<&Self>) -> bool {
        match stored {
            None => self.revision == 1,
            Some(stored) => {
                stored.revision + 1 == self.revision || stored.without_specs() == self.without_specs()
            }
        }
    }

    /// Returns the row alone: what the versions run is stored beside it.
    pub fn without_specs(&self) -> Self {
        Self { specs: Vec::new(), ..self.clone() }
    }
}

fn children(policy: &DeploymentPolicyFacts) -> Vec<Dependency> {
    let document = policy.orchestration.document.as_ref();
    document.map_or_else(Vec::new, |document| Dependency::list(&policy.id, &document.children))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixture::{at, deployment_policy},
        workload::Slot,
    };

    #[test]
    fn write_of_another_task_spec_is_another_version_and_starts_the_update_again() {
        let mut policy = deployment_policy();
        let mut first = WorkloadRecord::new(&policy);
        first.update.state = UpdateState::Paused;
        assert_eq!(first.written(&policy, at(1)), None);
        policy.last_updated = Some(at(2));
        let again = first.written(&policy, at(2)).unwrap();
        assert_eq!((again.versions, again.update.state), (first.versions, UpdateState::Updating));
        policy.versions[0].version = "2.0.0".into();
        let second = again.written(&policy, at(3)).unwrap();
        assert_eq!((second.versions.current.number, second.specs.len(), second.revision), (2, 2, 3));
        assert_eq!(second.update.state, UpdateState::None);
        assert_eq!(second.spec(1).unwrap().versions[0].version, "1.0.0");
        assert!(second.may_replace(Some(&again)) && !second.may_replace(Some(&first)));
    }

    #[test]
    fn row_is_written_and_read_without_loss() {
        let mut record = WorkloadRecord::new(&deployment_policy());
        let ticket = crate::workload::Ticket::new(at(1), None);
        for slot in [Slot::Number(3), Slot::from_text("o/n")] {
            record.update.part_mut(&Part::All).tickets.insert(slot, ticket.clone());
        }
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<WorkloadRecord>(&text).unwrap(), record);
    }
}
