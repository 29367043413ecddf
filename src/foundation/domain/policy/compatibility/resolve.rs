//! Resolves a service and all its dependencies to their definitions.
//!
//! Source: agreement-protocol 3.7 (a dependency is the highest version in its range).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{ServiceId, ServiceKey};

use super::service::{ServiceDefinition, ServiceDependency, ServiceSource};
use crate::version::{Version, VersionError, VersionRange, is_range_expression, is_version};

/// Maximum number of direct and indirect dependencies of a service.
pub const MAX_DEPENDENCIES: usize = 1_000;

/// The reason why a service and its dependencies cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is no such service.
    #[error("there is no service {service} of version {version} for architecture \"{arch}\"")]
    NotFound { service: ServiceKey, version: String, arch: String },
    /// The requested version, or an existing one, is invalid.
    #[error("the versions of service {service} cannot be compared: {reason}")]
    Version { service: ServiceKey, reason: VersionError },
    /// A dependency is for another architecture than the service that needs it.
    #[error("{service} needs {needed} for architecture \"{arch}\", which is not its own")]
    OtherArchitecture { service: ServiceId, needed: ServiceKey, arch: String },
    /// A service depends on itself, directly or through others.
    #[error("{service} depends on itself")]
    Cycle { service: ServiceId },
    /// There are too many dependencies.
    #[error("{service} has more than {limit} dependencies")]
    TooMany { service: ServiceId, limit: usize },
}

/// A service with all its dependencies.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedService<'a> {
    /// The id.
    pub id: ServiceId,
    /// The organization, even if the definition does not name it.
    pub org: String,
    /// The definition.
    pub definition: &'a ServiceDefinition,
    /// The direct and indirect dependencies by their ids.
    pub dependencies: BTreeMap<ServiceId, &'a ServiceDefinition>,
}

/// Finds a service: of a version exactly that one, of a range (or an empty one) the highest.
///
/// # Errors
/// [`ResolveError::NotFound`] or [`ResolveError::Version`].
pub fn find_service<'a>(
    source: &'a impl ServiceSource,
    service: &ServiceKey,
    version: &str,
    arch: &str,
) -> Result<&'a ServiceDefinition, ResolveError> {
    let not_found = || ResolveError::NotFound {
        service: service.clone(),
        version: version.to_owned(),
        arch: arch.to_owned(),
    };
    let unreadable = |reason| ResolveError::Version { service: service.clone(), reason };
    let mut candidates = source.definitions(service).into_iter().filter(|definition| definition.arch == arch);
    if !version.is_empty() && !is_range_expression(version) {
        if !is_version(version) {
            return Err(unreadable(VersionError::NotAVersion { text: version.to_owned() }));
        }
        return candidates.find(|definition| definition.version == version).ok_or_else(not_found);
    }
    let range =
        VersionRange::parse(if version.is_empty() { "0.0.0" } else { version }).map_err(unreadable)?;
    let mut highest: Option<(Version, &ServiceDefinition)> = None;
    for candidate in candidates {
        let version = Version::parse(&candidate.version).map_err(unreadable)?;
        if range.contains(&version) && highest.as_ref().is_none_or(|(highest, _)| *highest < version) {
            highest = Some((version, candidate));
        }
    }
    highest.map(|(_, service)| service).ok_or_else(not_found)
}

/// Finds a service with all its dependencies.
///
/// # Errors
/// [`ResolveError`] for the first missing or invalid service.
pub fn resolve_service<'a>(
    source: &'a impl ServiceSource,
    service: &ServiceKey,
    version: &str,
    arch: &str,
) -> Result<ResolvedService<'a>, ResolveError> {
    let definition = find_service(source, service, version, arch)?;
    let id = definition.id();
    let dependencies = Walk::new(source).run(&id, definition)?;
    Ok(ResolvedService { id, org: service.org().to_owned(), definition, dependencies })
}

/// Finds the dependencies of a definition from a user's file; the architecture of its direct dependencies is not compared with
/// its own, as in the reference.
///
/// # Errors
/// See [`resolve_service`].
pub fn resolve_dependencies<'a>(
    source: &'a impl ServiceSource,
    definition: &ServiceDefinition,
) -> Result<BTreeMap<ServiceId, &'a ServiceDefinition>, ResolveError> {
    let mut found = BTreeMap::new();
    for dependency in &definition.required_services {
        let direct = find_dependency(source, dependency)?;
        let id = direct.id();
        let indirect = Walk::new(source).run(&id, direct)?;
        found.insert(id, direct);
        found.extend(indirect);
        if found.len() > MAX_DEPENDENCIES {
            return Err(ResolveError::TooMany { service: definition.id(), limit: MAX_DEPENDENCIES });
        }
    }
    Ok(found)
}

fn find_dependency<'a>(
    source: &'a impl ServiceSource,
    dependency: &ServiceDependency,
) -> Result<&'a ServiceDefinition, ResolveError> {
    let service = dependency.key();
    let unreadable = |reason| ResolveError::Version { service: service.clone(), reason };
    let range = VersionRange::parse(dependency.range()).map_err(unreadable)?;
    find_service(source, &service, &range.to_string(), &dependency.arch)
}

/// A depth-first walk through the dependencies, with its own stack so that no definition can overflow the program's.
struct Walk<'a, S> {
    source: &'a S,
    found: BTreeMap<ServiceId, &'a ServiceDefinition>,
    open: BTreeSet<ServiceId>,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    Enter(ServiceId, &'a ServiceDefinition),
    Leave(ServiceId),
}

impl<'a, S: ServiceSource> Walk<'a, S> {
    fn new(source: &'a S) -> Self {
        Self { source, found: BTreeMap::new(), open: BTreeSet::new(), steps: Vec::new() }
    }

    fn run(
        mut self,
        id: &ServiceId,
        definition: &'a ServiceDefinition,
    ) -> Result<BTreeMap<ServiceId, &'a ServiceDefinition>, ResolveError> {
        self.enter(id.clone(), definition)?;
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Leave(service) => {
                    self.open.remove(&service);
                }
                Step::Enter(service, _) if self.open.contains(&service) => {
                    return Err(ResolveError::Cycle { service });
                }
                Step::Enter(service, _) if self.found.contains_key(&service) => {}
                Step::Enter(service, definition) => {
                    self.found.insert(service.clone(), definition);
                    if self.found.len() > MAX_DEPENDENCIES {
                        return Err(ResolveError::TooMany { service: id.clone(), limit: MAX_DEPENDENCIES });
                    }
                    self.enter(service, definition)?;
                }
            }
        }
        Ok(self.found)
    }

    fn enter(&mut self, id: ServiceId, definition: &'a ServiceDefinition) -> Result<(), ResolveError> {
        self.open.insert(id.clone());
        self.steps.push(Step::Leave(id.clone()));
        // Reversed, so that the first dependency is the next step.
        for dependency in definition.required_services.iter().rev() {
            if dependency.arch != definition.arch {
                return Err(ResolveError::OtherArchitecture {
                    service: id,
                    needed: dependency.key(),
                    arch: dependency.arch.clone(),
                });
            }
            let found = find_dependency(self.source, dependency)?;
            self.steps.push(Step::Enter(found.id(), found));
        }
        Ok(())
    }
}
