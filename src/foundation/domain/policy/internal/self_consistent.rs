//! The check that a policy does not contradict itself.

use std::collections::BTreeSet;

use super::{DataVerificationError, InternalPolicy, Workload};

/// The contradiction inside a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelfConsistencyError {
    /// The data verification section is not valid.
    #[error("the data verification is not valid")]
    DataVerification(#[from] DataVerificationError),
    /// A protocol is unknown or needs a ledger.
    #[error("the agreement protocol \"{name}\" is not supported")]
    UnsupportedProtocol { name: String },
    /// One of several versions has no rank.
    #[error("version \"{version}\" has no priority although there are several versions")]
    MissingPriority { version: String },
    /// Two versions share a rank.
    #[error("the priority {value} is given to more than one version")]
    DuplicatePriority { value: i64 },
    /// Some elements name a service, others carry a deployment, or name and organization are not both given.
    #[error("the service versions mix named services with embedded deployments")]
    MixedForms,
    /// The versions belong to different organizations.
    #[error("the service versions belong to the organizations \"{first}\" and \"{second}\"")]
    MixedOrganizations { first: String, second: String },
}

impl InternalPolicy {
    /// Checks that the policy does not contradict itself; signatures are not verified.
    ///
    /// # Errors
    /// [`SelfConsistencyError`] for the first contradiction.
    /// # Source
    /// Agreement-protocol 3.1 (priorities), 2.6 (step 8).
    pub fn check_self_consistent(&self) -> Result<(), SelfConsistencyError> {
        self.data_verification.validate()?;
        if let Some(protocol) = self.agreement_protocols.iter().find(|protocol| !protocol.is_supported()) {
            return Err(SelfConsistencyError::UnsupportedProtocol { name: protocol.name.clone() });
        }
        let Some(first) = self.workloads.first() else {
            return Ok(());
        };
        let mut ranks = BTreeSet::new();
        for workload in &self.workloads {
            if self.workloads.len() > 1 {
                check_rank(workload, &mut ranks)?;
            }
            if first.url.is_empty() != workload.url.is_empty()
                || workload.org.is_empty() != workload.url.is_empty()
            {
                return Err(SelfConsistencyError::MixedForms);
            }
            if first.org != workload.org {
                let (first, second) = (first.org.clone(), workload.org.clone());
                return Err(SelfConsistencyError::MixedOrganizations { first, second });
            }
        }
        Ok(())
    }
}

fn check_rank(workload: &Workload, ranks: &mut BTreeSet<i64>) -> Result<(), SelfConsistencyError> {
    let value = workload.priority.value;
    if value == 0 {
        return Err(SelfConsistencyError::MissingPriority { version: workload.version.clone() });
    }
    if !ranks.insert(value) {
        return Err(SelfConsistencyError::DuplicatePriority { value });
    }
    Ok(())
}
