//! One deployable version of a service inside an internal policy.

use serde::{Deserialize, Serialize};

use super::is_zero;

/// A deployable version of a service.
///
/// # Shape
/// Policies only name the service; terms and conditions carry the deployment texts and their signatures. The texts are signed
/// as they are and must not be reformatted.
/// # Source
/// Agreement-protocol 3.2 (workload element).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// The deployment on a device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment: String,
    /// The signature of `deployment`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_signature: String,
    /// Obsolete, kept when passed on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_user_info: String,
    /// The hashed password by which the service authenticates its caller.
    #[serde(rename = "workload_password", skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// The deployment on a cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_deployment: String,
    /// The signature of `cluster_deployment`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_deployment_signature: String,
    /// Its rank among the versions.
    pub priority: WorkloadPriority,
    /// The service's name.
    #[serde(rename = "workloadUrl", skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The service's organization.
    #[serde(rename = "organization", skip_serializing_if = "String::is_empty")]
    pub org: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The hardware architecture; empty or `*` for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// Environment variables that replace those of the deployment.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_overrides: String,
    /// The signature of `deployment_overrides`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_overrides_signature: String,
}

impl Workload {
    /// Returns whether two elements are equal: a named service is identified by its name, regardless of the texts; a
    /// missing architecture equals every other.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.password != other.password || self.priority != other.priority {
            return false;
        }
        if self.url.is_empty() {
            return self.deployment == other.deployment
                && self.deployment_signature == other.deployment_signature
                && self.deployment_user_info == other.deployment_user_info
                && self.cluster_deployment == other.cluster_deployment
                && self.cluster_deployment_signature == other.cluster_deployment_signature;
        }
        let arches_agree = is_any_arch(&self.arch) || is_any_arch(&other.arch) || self.arch == other.arch;
        self.url == other.url
            && self.version == other.version
            && self.org == other.org
            && arches_agree
            && self.deployment_overrides == other.deployment_overrides
            && self.deployment_overrides_signature == other.deployment_overrides_signature
    }
}

/// Returns whether an architecture matches every other.
pub(crate) fn is_any_arch(arch: &str) -> bool {
    arch.is_empty() || arch == "*"
}

/// The rank of a version in its policy.
///
/// # Shape
/// All zero when the policy has one version only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadPriority {
    /// The rank; lower ranks are tried first.
    #[serde(rename = "priority_value", skip_serializing_if = "is_zero")]
    pub value: i64,
    /// Attempts within `retry_secs` before the next version is used.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: i64,
    /// The length of the window for the attempts, seconds.
    #[serde(rename = "retry_durations", skip_serializing_if = "is_zero")]
    pub retry_secs: i64,
    /// Obsolete, seconds.
    #[serde(rename = "verified_durations", skip_serializing_if = "is_zero")]
    pub verified_secs: i64,
}

impl WorkloadPriority {
    /// Returns whether rank, tries and window are all unset.
    pub fn is_empty(&self) -> bool {
        self.value == 0 && self.retries == 0 && self.retry_secs == 0
    }

    /// Returns whether the fields are consistent: a rank needs attempts and a window, no rank allows neither.
    pub fn is_complete(&self) -> bool {
        if self.value == 0 {
            self.retries == 0 && self.retry_secs == 0 && self.verified_secs == 0
        } else {
            self.retries != 0 && self.retry_secs != 0
        }
    }
}
