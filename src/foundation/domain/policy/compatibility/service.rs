//! Service definitions for the check, and their source.

use std::collections::BTreeMap;

use evenkeel_ids::{ServiceId, ServiceKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::external::ExternalPolicy;
use crate::policy::user_input::Variable;

/// A service definition.
///
/// # Shape
/// `deployment` and `cluster_deployment`: in the exchange always text (JSON in it, or empty), in a user's file also the
/// object itself, null when absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceDefinition {
    /// The organization; if empty in a user's file, that of the policy.
    pub org: String,
    /// The name.
    pub url: String,
    /// The version.
    pub version: String,
    /// The hardware architecture.
    pub arch: String,
    /// `exclusive`, `singleton` (formerly `single`) or `multiple`.
    pub sharable: String,
    /// Its dependencies.
    pub required_services: Vec<ServiceDependency>,
    /// The variables it declares.
    #[serde(rename = "userInput")]
    pub variables: Vec<Variable>,
    /// The deployment on a device.
    pub deployment: Value,
    /// The deployment on a cluster.
    pub cluster_deployment: Value,
}

impl ServiceDefinition {
    /// Returns the qualified id that the exchange gives the service.
    pub fn id(&self) -> ServiceId {
        service_id(&self.org, &self.url, &self.version, &self.arch)
    }

    /// Converts the deployments into the exchange's form: text, empty when absent.
    pub fn into_exchange_form(mut self) -> Self {
        for deployment in [&mut self.deployment, &mut self.cluster_deployment] {
            let text = match deployment.take() {
                Value::String(text) => text,
                Value::Null => String::new(),
                object => object.to_string(),
            };
            *deployment = Value::String(text);
        }
        self
    }
}

/// A dependency of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceDependency {
    /// The name.
    pub url: String,
    /// The organization.
    pub org: String,
    /// A minimum version, in old definitions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The range of versions.
    pub version_range: String,
    /// The hardware architecture.
    pub arch: String,
}

impl ServiceDependency {
    /// Returns the key of the service, without its version.
    pub fn key(&self) -> ServiceKey {
        ServiceKey::new(&self.org, &self.url)
    }

    /// Returns the range of versions: the given one, else everything from the old minimum version on, else everything.
    pub fn range(&self) -> &str {
        let given = [self.version_range.as_str(), self.version.as_str()];
        given.into_iter().find(|text| !text.is_empty()).unwrap_or("[0.0.0,INFINITY)")
    }
}

/// Returns the qualified id that the exchange gives a service: a scheme before the name is dropped, characters that are invalid
/// in a path become dashes.
pub fn service_id(org: &str, url: &str, version: &str, arch: &str) -> ServiceId {
    let is_scheme =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'));
    let name = match url.split_once("://") {
        Some((scheme, name)) if is_scheme(scheme) => name,
        _ => url,
    };
    let name = name.replace(['$', '!', '*', ',', ';', '/', '?', '@', '&', '~', '=', '%'], "-");
    ServiceId::new(org, &format!("{name}_{version}_{arch}"))
}

/// Provides services and their policies to the check.
pub trait ServiceSource {
    /// Returns every version and architecture of a service, in any order, their deployments as text.
    fn definitions(&self, service: &ServiceKey) -> Vec<&ServiceDefinition>;

    /// Returns the policy of a service.
    fn policy(&self, service: &ServiceId) -> Option<&ExternalPolicy>;
}

/// Services and policies in memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceCatalog {
    definitions: BTreeMap<ServiceKey, BTreeMap<ServiceId, ServiceDefinition>>,
    policies: BTreeMap<ServiceId, ExternalPolicy>,
}

impl ServiceCatalog {
    /// Creates an empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a definition, replacing one with the same id.
    pub fn insert(&mut self, definition: ServiceDefinition) {
        let key = ServiceKey::new(&definition.org, &definition.url);
        let definition = definition.into_exchange_form();
        self.definitions.entry(key).or_default().insert(definition.id(), definition);
    }

    /// Inserts the policy of a service.
    pub fn insert_policy(&mut self, service: ServiceId, policy: ExternalPolicy) {
        self.policies.insert(service, policy);
    }
}

impl FromIterator<ServiceDefinition> for ServiceCatalog {
    fn from_iter<I: IntoIterator<Item = ServiceDefinition>>(definitions: I) -> Self {
        let mut catalog = Self::new();
        definitions.into_iter().for_each(|definition| catalog.insert(definition));
        catalog
    }
}

impl ServiceSource for ServiceCatalog {
    fn definitions(&self, service: &ServiceKey) -> Vec<&ServiceDefinition> {
        self.definitions.get(service).into_iter().flat_map(BTreeMap::values).collect()
    }

    fn policy(&self, service: &ServiceId) -> Option<&ExternalPolicy> {
        self.policies.get(service)
    }
}
