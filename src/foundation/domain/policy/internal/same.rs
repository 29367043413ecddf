//! The comparison by which a stored agreement's policy still counts as current.

use std::collections::BTreeSet;

use super::{AgreementProtocol, InternalPolicy, Workload};
use crate::policy::constraint::ConstraintList;
use crate::policy::secret_binding::is_same_list as is_same_secret_bindings;
use crate::policy::user_input::is_same_list as is_same_user_input;

/// The first part in which two policies differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyDifference {
    /// Name or schema version.
    #[error("the header differs")]
    Header,
    /// Dependencies.
    #[error("the required dependencies differ")]
    ApiSpecs,
    /// Agreement protocols.
    #[error("the agreement protocols differ")]
    AgreementProtocols,
    /// The versions of the service.
    #[error("the service versions differ")]
    Workloads,
    /// Data verification.
    #[error("the data verification differs")]
    DataVerification,
    /// Properties.
    #[error("the properties differ")]
    Properties,
    /// Constraints.
    #[error("the constraints differ")]
    Constraints,
    /// The legacy field of that name.
    #[error("the required workload differs")]
    RequiredWorkload,
    /// The number of agreements.
    #[error("the maximum number of agreements differs")]
    MaxAgreements,
    /// Values for variables.
    #[error("the user input differs")]
    UserInput,
    /// Bound secrets.
    #[error("the secret binding differs")]
    SecretBinding,
}

impl InternalPolicy {
    /// Returns the first difference from another policy, `None` when both are equal.
    ///
    /// Node health, cluster namespace and pattern id are ignored. The direction matters: user input and ledgers of *this* policy are
    /// searched in the other.
    /// # Source
    /// Agreement-protocol 3.7 (the same policy).
    pub fn difference_from(&self, other: &Self) -> Option<PolicyDifference> {
        use PolicyDifference as D;
        let names_no_service = other.workloads.first().is_none_or(|workload| workload.url.is_empty());
        let tests = [
            (D::Header, self.header == other.header),
            (D::ApiSpecs, !names_no_service || is_same_set(&self.api_specs, &other.api_specs, |a, b| a == b)),
            (
                D::AgreementProtocols,
                is_same_set(
                    &self.agreement_protocols,
                    &other.agreement_protocols,
                    AgreementProtocol::is_same,
                ),
            ),
            (D::Workloads, is_same_set(&self.workloads, &other.workloads, Workload::is_same)),
            (D::DataVerification, self.data_verification.is_same(&other.data_verification)),
            (D::Properties, self.properties.is_same(&other.properties)),
            (D::Constraints, is_same_texts(&self.constraints, &other.constraints)),
            (D::RequiredWorkload, self.required_workload == other.required_workload),
            (D::MaxAgreements, self.max_agreements == other.max_agreements),
            (D::UserInput, is_same_user_input(&self.user_input, &other.user_input)),
            (D::SecretBinding, is_same_secret_bindings(&self.secret_binding, &other.secret_binding)),
        ];
        tests.into_iter().find(|(_, is_same)| !is_same).map(|(difference, _)| difference)
    }

    /// Returns whether two policies are equal, see [`InternalPolicy::difference_from`].
    pub fn is_same(&self, other: &Self) -> bool {
        self.difference_from(other).is_none()
    }
}

/// A repeated constraint has no effect, so the lengths may differ.
fn is_same_texts(left: &ConstraintList, right: &ConstraintList) -> bool {
    let texts = |list: &ConstraintList| list.iter().cloned().collect::<BTreeSet<_>>();
    texts(left) == texts(right)
}

/// Returns whether two lists are of one length and each element of the first has an equal in the second.
pub(crate) fn is_same_set<T>(left: &[T], right: &[T], is_same: impl Fn(&T, &T) -> bool) -> bool {
    left.len() == right.len() && left.iter().all(|one| right.iter().any(|two| is_same(one, two)))
}
