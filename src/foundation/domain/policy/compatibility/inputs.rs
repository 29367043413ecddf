//! Checks that the variables and secrets of a service and its dependencies can be filled.
//!
//! Source: agreement-protocol 4.5, 4.6.

use super::deployment::declared_secrets;
use super::report::Incompatibility;
use super::resolve::ResolvedService;
use super::service::ServiceDefinition;
use crate::policy::internal::InternalPolicy;
use crate::policy::secret_binding::needed_secrets;
use crate::policy::user_input::{ServiceVersion, UserInput, check_variables};

/// Returns every variable and secret that prevents a service from running on a device: at most one obstacle of each kind per
/// service, the top-level service first.
pub fn input_obstacles(
    resolved: &ResolvedService<'_>,
    consumer: &InternalPolicy,
    node_input: &[UserInput],
) -> Vec<Incompatibility> {
    let mut obstacles = Vec::new();
    let top = (resolved.id.as_str(), resolved.org.as_str(), resolved.definition);
    let dependencies =
        resolved.dependencies.iter().map(|(id, service)| (id.as_str(), service.org.as_str(), *service));
    for (id, org, service) in std::iter::once(top).chain(dependencies) {
        let key = key_of(org, service);
        let variables = check_variables(key, &service.variables, &consumer.user_input, node_input);
        obstacles.extend(variables.err().map(Incompatibility::from));
        obstacles.extend(secret_obstacle(id, key, service, consumer));
    }
    obstacles
}

fn secret_obstacle(
    id: &str,
    key: ServiceVersion<'_>,
    service: &ServiceDefinition,
    consumer: &InternalPolicy,
) -> Option<Incompatibility> {
    match declared_secrets(id, &service.deployment) {
        Err(unreadable) => Some(unreadable.into()),
        Ok(declared) => {
            needed_secrets(key, &declared, &consumer.secret_binding).err().map(Incompatibility::from)
        }
    }
}

fn key_of<'a>(org: &'a str, service: &'a ServiceDefinition) -> ServiceVersion<'a> {
    ServiceVersion { org, url: &service.url, version: &service.version, arch: &service.arch }
}
