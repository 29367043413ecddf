//! Policies as they are in force: after a rollback the document that worked last, as a whole, and not the one that was written.
//!
//! All decisions read the policy in force. The policy as a client wrote it is kept next to it, for the row of
//! the workload that follows it.
//! Source: orchestration B11.7.

use evenkeel_ids::PolicyId;
use evenkeel_planner_record::facts::DeploymentPolicyFacts;

use super::Model;

impl Model {
    /// Returns a policy as a client wrote it last.
    pub fn written_policy(&self, policy: &PolicyId) -> Option<&DeploymentPolicyFacts> {
        self.written.get(policy).or_else(|| self.policies.get(policy))
    }

    /// Takes over a policy that was written.
    pub(super) fn put_written_policy(&mut self, written: &DeploymentPolicyFacts) {
        let in_force = self.workload(&written.id).and_then(|record| record.in_force(written));
        self.written.remove(&written.id);
        if let Some(in_force) = in_force {
            self.put_policy(&in_force);
            self.written.insert(written.id.clone(), written.clone());
        } else {
            self.put_policy(written);
        }
    }

    /// Takes over what is in force of a policy after the row of its workload changed.
    pub(super) fn follow_rollback(&mut self, policy: &PolicyId) {
        let Some(written) = self.written_policy(policy).cloned() else { return };
        let in_force = self.workload(policy).and_then(|record| record.in_force(&written));
        if self.policies.get(policy) != Some(in_force.as_ref().unwrap_or(&written)) {
            self.put_written_policy(&written);
        }
    }
}
