//! The pattern: the services that all nodes of the pattern run.
//!
//! Source: agreement-protocol 3.1 (pattern).

use serde::{Deserialize, Serialize};

use super::deployment_policy::{MAX_ENTRIES, push_new};
use super::internal::{
    AgreementProtocol, BASIC_PROTOCOL, DataVerification, InternalPolicy, Metering, NodeHealth, Workload,
    WorkloadPriority, is_zero,
};
use super::secret_binding::SecretBinding;
use super::user_input::UserInput;

/// The reason why a pattern cannot be converted into the internal form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A service lacks its name, organization or architecture.
    #[error("a service of pattern \"{pattern}\" lacks its url, organization or architecture")]
    IncompleteService { pattern: String },
    /// A service has no versions.
    #[error("service \"{service}\" of pattern \"{pattern}\" has no versions")]
    NoVersions { pattern: String, service: String },
    /// A version has no text.
    #[error("a version of service \"{service}\" in pattern \"{pattern}\" is empty")]
    EmptyVersion { pattern: String, service: String },
    /// There are too many services, or versions of one.
    #[error(
        "pattern \"{pattern}\" has {count} services or versions of a service, more than the {MAX_ENTRIES} allowed"
    )]
    TooMany { pattern: String, count: usize },
}

/// A pattern as the exchange stores it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pattern {
    /// The user that created it.
    pub owner: String,
    /// A short display name.
    pub label: String,
    /// A human-readable description.
    pub description: String,
    /// True if other organizations may use the pattern.
    #[serde(rename = "public")]
    pub is_public: bool,
    /// The services.
    pub services: Vec<PatternService>,
    /// The cluster namespace of the services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_namespace: String,
    /// The acceptable agreement protocols; none means the basic one.
    pub agreement_protocols: Vec<AgreementProtocol>,
    /// Values for the variables of services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_input: Vec<UserInput>,
    /// The stored secrets bound to secrets of a service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_binding: Vec<SecretBinding>,
}

/// A service of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PatternService {
    /// Its name.
    pub service_url: String,
    /// Its organization.
    pub service_orgid: String,
    /// The architecture, `*` for any.
    pub service_arch: String,
    /// The versions, with their ranks.
    #[serde(rename = "serviceVersions")]
    pub versions: Vec<PatternServiceVersion>,
    /// Settings of data verification (obsolete).
    #[serde(rename = "dataVerification")]
    pub data_verification: PatternDataVerification,
    /// The condition under which a node counts as lost.
    pub node_health: NodeHealth,
    /// True if the node starts the service without an agreement.
    #[serde(rename = "agreementLess")]
    pub is_agreementless: bool,
}

/// A version of a service of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PatternServiceVersion {
    /// The version.
    pub version: String,
    /// Its rank.
    pub priority: WorkloadPriority,
    /// Environment variables that replace those of the deployment.
    pub deployment_overrides: String,
    /// The signature of `deployment_overrides`.
    pub deployment_overrides_signature: String,
}

/// Settings of data verification, with the member names of patterns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PatternDataVerification {
    /// True if data verification is enabled.
    #[serde(rename = "enabled", skip_serializing_if = "std::ops::Not::not")]
    pub is_enabled: bool,
    /// The URL to check.
    #[serde(rename = "URL", skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The user of the check.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The password of the check.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// The maximum wait for data, seconds.
    #[serde(rename = "interval", skip_serializing_if = "is_zero")]
    pub interval_secs: i64,
    /// The check interval, seconds.
    #[serde(rename = "check_rate", skip_serializing_if = "is_zero")]
    pub check_secs: i64,
    /// The payment.
    pub metering: Metering,
}

impl PatternDataVerification {
    fn to_internal(&self) -> DataVerification {
        if !self.is_enabled {
            return DataVerification::default();
        }
        DataVerification {
            is_enabled: true,
            url: self.url.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            interval_secs: self.interval_secs,
            check_secs: self.check_secs,
            metering: self.metering.clone(),
        }
    }
}

impl Pattern {
    /// Creates one internal policy per service that needs an agreement.
    ///
    /// # Shape
    /// In the order of the services. `id` is the pattern's qualified id.
    /// # Errors
    /// [`PatternError`] for the first invalid service.
    pub fn to_internal(&self, id: &str) -> Result<Vec<InternalPolicy>, PatternError> {
        let versions = self.services.iter().map(|service| service.versions.len()).max().unwrap_or(0);
        let count = versions.max(self.services.len()).max(self.agreement_protocols.len());
        if count > MAX_ENTRIES {
            return Err(PatternError::TooMany { pattern: id.to_owned(), count });
        }
        let services = self.services.iter().filter(|service| !service.is_agreementless);
        services.map(|service| self.service_to_internal(id, service)).collect()
    }

    fn service_to_internal(
        &self,
        id: &str,
        service: &PatternService,
    ) -> Result<InternalPolicy, PatternError> {
        let pattern = id.split_once('/').map_or(id, |(_, name)| name);
        let mut internal = InternalPolicy::named(policy_name(pattern, service));
        internal.workloads = service.workloads(pattern)?;
        internal.pattern_id = id.to_owned();
        internal.data_verification = service.data_verification.to_internal();
        internal.node_health = service.node_health;
        internal.agreement_protocols = self.internal_protocols();
        internal.user_input.clone_from(&self.user_input);
        internal.secret_binding.clone_from(&self.secret_binding);
        internal.cluster_namespace.clone_from(&self.cluster_namespace);
        Ok(internal)
    }

    /// Versions are dropped; of two entries of one name the first counts.
    fn internal_protocols(&self) -> Vec<AgreementProtocol> {
        if self.agreement_protocols.is_empty() {
            return vec![AgreementProtocol::named(BASIC_PROTOCOL)];
        }
        let mut protocols: Vec<AgreementProtocol> = Vec::new();
        for given in &self.agreement_protocols {
            let mut protocol = AgreementProtocol::named(&given.name);
            for ledger in &given.blockchains {
                if !protocol.blockchains.contains(ledger) {
                    protocol.blockchains.push(ledger.clone());
                }
            }
            if !protocols.iter().any(|existing| existing.name == protocol.name) {
                protocols.push(protocol);
            }
        }
        protocols
    }
}

impl PatternService {
    fn workloads(&self, pattern: &str) -> Result<Vec<Workload>, PatternError> {
        let (pattern, service) = (pattern.to_owned(), self.service_url.clone());
        if service.is_empty() || self.service_orgid.is_empty() || self.service_arch.is_empty() {
            return Err(PatternError::IncompleteService { pattern });
        }
        if self.versions.is_empty() {
            return Err(PatternError::NoVersions { pattern, service });
        }
        let mut workloads = Vec::new();
        for version in &self.versions {
            if version.version.is_empty() {
                return Err(PatternError::EmptyVersion { pattern, service });
            }
            let workload = Workload {
                url: service.clone(),
                org: self.service_orgid.clone(),
                version: version.version.clone(),
                arch: self.service_arch.clone(),
                priority: version.priority,
                deployment_overrides: version.deployment_overrides.clone(),
                deployment_overrides_signature: version.deployment_overrides_signature.clone(),
                ..Workload::default()
            };
            push_new(&mut workloads, workload);
        }
        Ok(workloads)
    }
}

/// Returns the name: pattern, service, organization and architecture; of a service's url the part after the second slash, if there is one.
fn policy_name(pattern: &str, service: &PatternService) -> String {
    let url = service.service_url.as_str();
    let tail = url.splitn(3, '/').nth(2).map(|tail| tail.strip_suffix('/').unwrap_or(tail));
    let url = tail.unwrap_or(url).replace('/', "-");
    format!("{pattern}_{url}_{}_{}", service.service_orgid, service.service_arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_holds_what_follows_the_second_slash_of_the_url() {
        let name = |url: &str| {
            let service = PatternService {
                service_url: url.into(),
                service_orgid: "o".into(),
                service_arch: "*".into(),
                ..PatternService::default()
            };
            policy_name("p", &service)
        };
        assert_eq!(name("cam"), "p_cam_o_*");
        assert_eq!(name("https://a.example/b/c/"), "p_a.example-b-c_o_*");
        assert_eq!(name("a/b"), "p_a-b_o_*");
    }
}
