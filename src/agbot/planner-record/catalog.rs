//! The service definitions that are known, with their policies.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{ServiceId, ServiceKey};

use crate::facts::{ServiceFacts, ServicePolicyFacts};

/// Service definitions and their policies.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    services: BTreeMap<ServiceId, ServiceFacts>,
    by_key: BTreeMap<ServiceKey, BTreeSet<ServiceId>>,
    policies: BTreeMap<ServiceId, ServicePolicyFacts>,
}

impl Catalog {
    /// Returns a service definition.
    pub fn service(&self, id: &ServiceId) -> Option<&ServiceFacts> {
        self.services.get(id)
    }

    /// Returns all service definitions, by id.
    pub fn services(&self) -> impl Iterator<Item = &ServiceFacts> {
        self.services.values()
    }

    /// Returns all definitions of a service, by id.
    pub fn versions_of(&self, key: &ServiceKey) -> impl Iterator<Item = &ServiceFacts> {
        self.by_key.get(key).into_iter().flatten().filter_map(|id| self.services.get(id))
    }

    /// Returns the policy of a service definition.
    pub fn policy_of(&self, id: &ServiceId) -> Option<&ServicePolicyFacts> {
        self.policies.get(id)
    }

    /// Adds a service definition, or replaces it.
    pub fn put(&mut self, service: &ServiceFacts) {
        self.by_key.entry(service.key.clone()).or_default().insert(service.id.clone());
        self.services.insert(service.id.clone(), service.clone());
    }

    /// Removes a service definition, and returns it.
    pub fn remove(&mut self, id: &ServiceId) -> Option<ServiceFacts> {
        let old = self.services.remove(id)?;
        if let Some(ids) = self.by_key.get_mut(&old.key) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_key.remove(&old.key);
            }
        }
        Some(old)
    }

    /// Replaces the policy of a service definition; none removes it.
    pub fn set_policy(&mut self, id: &ServiceId, policy: Option<&ServicePolicyFacts>) {
        match policy {
            Some(policy) => self.policies.insert(id.clone(), policy.clone()),
            None => self.policies.remove(id),
        };
    }
}
