//! The consumer side of a match: a deployment policy merged with the policy of one service definition.
//!
//! Prepared when the policy, the service or the service's policy changes, so that matching itself reads no text.
//! Source: agreement-protocol 3.7 (steps 2 and 3).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::{
    policy::{
        ConstraintList, ExternalPolicy, PropertyList, ServiceIdentity,
        compatibility::{ServiceDependency, deployment},
        constraint::Expression,
        service_policy::{merge_service_policy, set_privileged, with_builtin_properties},
    },
    version::{Version, VersionRange},
};
use evenkeel_ids::ServiceId;
use evenkeel_planner_record::{
    catalog::Catalog,
    facts::{DeploymentPolicyFacts, ServiceFacts},
    report::{Blocked, Side},
    stable_hash::stable_hash,
};
use serde_json::Value;

use super::{inputs::Inputs, readable};

/// A parsed constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// Its owner.
    pub side: Side,
    /// As written.
    pub text: String,
    /// Its expression.
    pub tree: Expression,
}

/// A deployment policy merged with one service definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    /// The definition.
    pub service: ServiceId,
    /// Its version.
    pub version: String,
    /// Its architecture.
    pub arch: String,
    /// Merged properties.
    pub properties: PropertyList,
    /// Merged constraints, each read.
    pub constraints: Vec<Constraint>,
    /// Digest of everything the node receives, except the version.
    pub terms_digest: u64,
    /// True when one of its containers needs privileges.
    pub needs_privileges: bool,
    /// False when the definition has no deployment for devices.
    pub fits_devices: bool,
    /// False when the definition has no deployment for clusters.
    pub fits_clusters: bool,
    pub(super) inputs: Inputs,
}

impl Consumer {
    /// Returns the conjunction of the constraints.
    pub fn tree(&self) -> Expression {
        Expression::all(self.constraints.iter().map(|constraint| constraint.tree.clone()).collect())
    }
}

/// Prepared consumer sides of one policy, by version and architecture.
pub type Consumers = BTreeMap<(String, String), Result<Consumer, Blocked>>;

/// Prepares the consumer of a policy and a service definition.
///
/// # Errors
/// [`Blocked::Unreadable`] when a constraint or the deployment cannot be read, [`Blocked::DependencyMissing`] when a
/// needed service does not exist.
pub fn prepare(
    catalog: &Catalog,
    policy: &DeploymentPolicyFacts,
    service: &ServiceFacts,
) -> Result<Consumer, Blocked> {
    let identity = ServiceIdentity {
        name: service.key.name().to_owned(),
        org: service.key.org().to_owned(),
        version: service.version.clone(),
        arch: service.arch.clone(),
    };
    let own = catalog.policy_of(&service.id);
    if let Some(error) = own.and_then(|facts| facts.unreadable.as_ref()) {
        return Err(Blocked::Unreadable { detail: format!("{}: {error}", Side::ServicePolicy) });
    }
    let mut with_builtins = with_builtin_properties(own.map(|facts| &facts.policy), &identity);
    let services = with_dependencies(catalog, service)?;
    let needs_privileges = needs_privileges(&services)?;
    set_privileged(&mut with_builtins, needs_privileges).map_err(unreadable)?;
    // Patterns have no properties and no constraints.
    let merged = if policy.pattern.is_none() {
        require_valid(Side::DeploymentPolicy, &policy.policy)?;
        own.map_or(Ok(()), |facts| require_valid(Side::ServicePolicy, &facts.policy))?;
        merge_service_policy(&policy.policy, &with_builtins)
    } else {
        ExternalPolicy::default()
    };
    Ok(Consumer {
        service: service.id.clone(),
        version: service.version.clone(),
        arch: service.arch.clone(),
        terms_digest: terms_digest(policy, &merged),
        constraints: read_constraints(&policy.policy.constraints, &merged.constraints)?,
        properties: merged.properties,
        needs_privileges,
        fits_devices: !service.deployment.is_empty(),
        fits_clusters: !service.cluster_deployment.is_empty(),
        inputs: Inputs::prepare(policy, &services)?,
    })
}

fn unreadable(error: impl std::fmt::Display) -> Blocked {
    Blocked::Unreadable { detail: error.to_string() }
}

/// Tests the constraints of one side by itself: the limits of one policy are lower than those of merged ones.
fn require_valid(side: Side, policy: &ExternalPolicy) -> Result<(), Blocked> {
    let invalid = |error| Blocked::Unreadable { detail: format!("{side}: {error}") };
    policy.constraints.validate().map_err(invalid)
}

fn read_constraints(own: &ConstraintList, merged: &ConstraintList) -> Result<Vec<Constraint>, Blocked> {
    let read = |text: &String| {
        let single: ConstraintList = [text.as_str()].into_iter().collect();
        let side = if own.contains(text) { Side::DeploymentPolicy } else { Side::ServicePolicy };
        single.parse().map(|tree| Constraint { side, text: text.clone(), tree }).map_err(|error| {
            Blocked::Unreadable { detail: format!("{side} constraint `{}`: {error}", short(text)) }
        })
    };
    // The limits on the whole list are tested before anything is read.
    merged.parse().map_err(unreadable)?;
    merged.iter().map(read).collect()
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Returns a digest of an agreement's terms without the service and its version.
fn terms_digest(policy: &DeploymentPolicyFacts, merged: &ExternalPolicy) -> u64 {
    let properties = serde_json::to_string(&merged.properties).unwrap_or_default();
    let constraints = merged.constraints.join("\u{1}");
    let input = Value::Array(policy.user_input.clone()).to_string();
    let secrets = Value::Array(policy.secret_binding.clone()).to_string();
    stable_hash(&[&properties, &constraints, &input, &secrets])
}

/// Returns a service and its direct and indirect dependencies.
fn with_dependencies<'a>(
    catalog: &'a Catalog,
    service: &'a ServiceFacts,
) -> Result<Vec<&'a ServiceFacts>, Blocked> {
    let mut seen = BTreeSet::new();
    let mut open = vec![service];
    let mut all = Vec::new();
    while let Some(service) = open.pop() {
        if seen.insert(service.id.clone()) {
            all.push(service);
            for need in readable::dependencies(service)? {
                open.push(resolve(catalog, &need, &service.arch)?);
            }
        }
    }
    Ok(all)
}

/// Returns whether one of the services runs privileged or in the host's network.
fn needs_privileges(services: &[&ServiceFacts]) -> Result<bool, Blocked> {
    for service in services {
        let deployment = Value::String(service.deployment.clone());
        if deployment::needs_privileges(service.id.as_str(), &deployment).map_err(unreadable)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Finds the highest version of a required service within its range.
fn resolve<'a>(
    catalog: &'a Catalog,
    need: &ServiceDependency,
    arch: &str,
) -> Result<&'a ServiceFacts, Blocked> {
    let (key, range) = (need.key(), need.range());
    let missing = || Blocked::DependencyMissing { service: format!("{key} {range} for {arch}") };
    let range = VersionRange::parse(range).map_err(|_| missing())?;
    catalog
        .versions_of(&key)
        .filter(|service| service.arch == arch)
        .filter_map(|service| Version::parse(&service.version).ok().map(|version| (version, service)))
        .filter(|(version, _)| range.contains(version))
        .max_by(|one, two| one.0.cmp(&two.0))
        .map(|(_, service)| service)
        .ok_or_else(missing)
}
