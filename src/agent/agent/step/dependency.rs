//! Dependencies of services: their resolution, start order, and end (agreement protocol 5.7).
//!
//! An agreement names its dependencies in start order: the requirements of each come before it. Shared ones (`singleton`,
//! `exclusive`) run once on the node; all others once for each agreement.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::version::{Version, VersionRange};
use evenkeel_ids::{ServiceId, ServiceKey};
use evenkeel_wire::exchange::service::{RequiredService, ServiceResponse};
use serde::{Deserialize, Serialize};

use super::{Agreement, Command, State, WorkloadName};

/// Maximum number of direct and indirect dependencies of a service.
pub const MOST_DEPENDENCIES: usize = 50;

/// Length of the readable part of a key.
const READABLE: usize = 100;

/// A dependency of an agreement's service, as resolved when the agreement was made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// Its name.
    pub service: WorkloadName,
    /// Service id for registry logins, `org/service`.
    pub service_id: String,
    /// The deployment text exactly as signed.
    pub deployment: String,
    /// True if the dependency runs once on the node, shared by all dependents.
    pub is_shared: bool,
    /// User input as environment variables, in order.
    pub inputs: Vec<(String, String)>,
}

impl Dependency {
    /// Returns the key of its instance: valid as the name of files, containers and networks, and unique.
    pub fn key(&self, agreement: &str) -> String {
        let service = &self.service;
        let owner = if self.is_shared { "" } else { agreement };
        let exact = [&service.org, &service.url, &service.version, &service.arch].map(String::as_str);
        let digest =
            exact.iter().chain([&owner]).fold(0xcbf2_9ce4_8422_2325, |digest, part| fold(digest, part));
        let url = service.url.split_once("://").map_or(service.url.as_str(), |(_, rest)| rest);
        let readable: String = format!("{}_{url}_{}", service.org, service.version)
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || "_.-".contains(letter) { letter } else { '-' })
            .take(READABLE)
            .collect();
        // The first character must not have a special meaning for container engines and file systems.
        format!("d{digest:016x}_{readable}")
    }
}

/// FNV-1a with a mark after each part; the key persists over restarts, so it must not depend on the program's version.
fn fold(digest: u64, part: &str) -> u64 {
    let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    step(part.bytes().fold(digest, step), 0xff)
}

/// One running dependency.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// Its definition.
    pub dependency: Dependency,
    /// True if the driver was ordered to start the dependency.
    pub is_start_ordered: bool,
    /// When it was first seen running, seconds since 1970.
    pub started_at: Option<u64>,
    /// Since when it is down after it ran.
    pub down_since: Option<u64>,
}

/// Definitions by service, each with its id.
pub type Definitions = BTreeMap<ServiceKey, Vec<(ServiceId, ServiceResponse)>>;

/// Resolves the dependencies of a service in start order.
///
/// # Errors
/// A message: the service that is missing, depends on itself, or exceeds the limit.
pub fn in_order<'a>(
    needs: &[RequiredService],
    arch: &str,
    definitions: &'a Definitions,
) -> Result<Vec<&'a (ServiceId, ServiceResponse)>, String> {
    let mut order = Vec::new();
    visit(needs, arch, definitions, &mut BTreeSet::new(), &mut order)?;
    Ok(order)
}

fn visit<'a>(
    needs: &[RequiredService],
    arch: &str,
    definitions: &'a Definitions,
    above: &mut BTreeSet<ServiceId>,
    order: &mut Vec<&'a (ServiceId, ServiceResponse)>,
) -> Result<(), String> {
    for need in needs {
        let found = choose(need, arch, definitions)?;
        if order.iter().any(|(id, _)| *id == found.0) {
            continue;
        }
        // The depth is bounded, because the path above never contains a service twice.
        if above.len() + order.len() >= MOST_DEPENDENCIES {
            return Err(format!("it needs more than {MOST_DEPENDENCIES} services"));
        }
        if !above.insert(found.0.clone()) {
            return Err(format!("service {} needs itself", found.0));
        }
        let needs = found.1.required_services().map_err(|error| format!("service {}: {error}", found.0))?;
        visit(&needs, arch, definitions, above, order)?;
        above.remove(&found.0);
        order.push(found);
    }
    Ok(())
}

/// Returns the highest version in the range.
fn choose<'a>(
    need: &RequiredService,
    arch: &str,
    definitions: &'a Definitions,
) -> Result<&'a (ServiceId, ServiceResponse), String> {
    let given = [&need.version_range, &need.version].into_iter().flatten();
    let wanted = given.map(String::as_str).find(|range| !range.is_empty()).unwrap_or_default();
    let key = ServiceKey::new(&need.org, &need.url);
    let missing = || format!("it needs service {key} {wanted} for {arch}, which is not there");
    let range = if wanted.is_empty() { "0.0.0" } else { wanted };
    let range = VersionRange::parse(range).map_err(|_| missing())?;
    let candidates = definitions.get(&key).into_iter().flatten();
    candidates
        .filter(|(_, service)| service.arch == arch)
        .filter_map(|found| Version::parse(&found.1.version).ok().map(|version| (version, found)))
        .filter(|(version, _)| range.contains(version))
        .max_by(|one, two| one.0.cmp(&two.0))
        .map(|(_, found)| found)
        .ok_or_else(missing)
}

impl Agreement {
    /// Returns the keys of its dependencies, in start order.
    pub fn dependency_keys(&self) -> impl Iterator<Item = String> {
        self.dependencies.iter().map(|dependency| dependency.key(&self.id))
    }

    /// Returns whether its service and dependencies are to run or not completely stopped yet.
    fn holds_dependencies(&self) -> bool {
        self.accepted_at.is_some() && !self.is_stopped
    }
}

impl State {
    /// Adds the instances of an accepted agreement's dependencies.
    pub(super) fn record_dependencies(&mut self) {
        for agreement in self.agreements.values().filter(|one| one.is_live() && one.accepted_at.is_some()) {
            for dependency in &agreement.dependencies {
                let fresh = || Instance { dependency: dependency.clone(), ..Instance::default() };
                self.instances.entry(dependency.key(&agreement.id)).or_insert_with(fresh);
            }
        }
    }

    /// Returns the live agreements that depend on an instance.
    pub fn needing<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Agreement> {
        self.live().filter(move |agreement| agreement.dependency_keys().any(|one| one == key))
    }

    /// Returns whether an instance is still in use, possibly by a service that is being stopped.
    pub fn is_needed(&self, key: &str) -> bool {
        let holders = self.agreements.values().filter(|agreement| agreement.holds_dependencies());
        holders.into_iter().any(|agreement| agreement.dependency_keys().any(|one| one == key))
    }

    /// Returns whether all dependencies of an agreement's service were seen running.
    pub(super) fn has_dependencies(&self, agreement: &Agreement) -> bool {
        agreement.dependency_keys().all(|key| self.has_started(&key))
    }

    fn has_started(&self, key: &str) -> bool {
        self.instances.get(key).is_some_and(|instance| instance.started_at.is_some())
    }

    /// Returns the commands for the instances.
    pub(super) fn dependency_commands(&self) -> impl Iterator<Item = Command> {
        self.instances.iter().filter_map(|(key, instance)| {
            if !self.is_needed(key) {
                return Some(Command::StopDependency { key: key.clone() });
            }
            let may_start = !instance.is_start_ordered && self.may_start(key, instance);
            may_start.then(|| Command::StartDependency { key: key.clone() })
        })
    }

    /// An instance starts when a dependent may start whose earlier dependencies run, and when no other version of it is being
    /// stopped.
    fn may_start(&self, key: &str, instance: &Instance) -> bool {
        let name = instance.dependency.service.qualified_url();
        let is_other = |other: &&String| {
            *other != key && self.instances[*other].dependency.service.qualified_url() == name
        };
        if self.instances.keys().filter(is_other).any(|other| !self.is_needed(other)) {
            return false;
        }
        self.needing(key).any(|agreement| {
            agreement.accepted_at.is_some()
                && self.may_run(agreement)
                && !self.predecessor_runs(agreement)
                && agreement
                    .dependency_keys()
                    .take_while(|one| one != key)
                    .all(|earlier| self.has_started(&earlier))
        })
    }
}

#[cfg(test)]
#[path = "dependency_tests.rs"]
mod tests;
