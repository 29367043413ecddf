//! The compatibility check.

use evenkeel_ids::{ServiceId, ServiceKey};
use serde_json::Value;

use super::deployment::{self, UnreadableDeployment};
use super::inputs::input_obstacles;
use super::namespace::{NamespaceChoice, NamespaceError, contradicts_own_namespace};
use super::report::{CheckError, CompatibilityReport, Incompatibility, ServiceVerdict};
use super::resolve::{ResolveError, ResolvedService, find_service, resolve_dependencies, resolve_service};
use super::service::{ServiceDefinition, ServiceSource, service_id};
use crate::policy::deployment_policy::DeploymentPolicy;
use crate::policy::external::ExternalPolicy;
use crate::policy::internal::{InternalPolicy, Workload, is_any_arch};
use crate::policy::node_policy::NodePolicy;
use crate::policy::service_policy::{ServiceIdentity, set_privileged, with_builtin_properties};
use crate::policy::terms::all_mismatches;
use crate::policy::user_input::UserInput;
use crate::version::{VersionError, is_version};

/// The two kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeType {
    /// Runs containers or processes.
    #[default]
    Device,
    /// Runs operators on a cluster.
    Cluster,
}

impl NodeType {
    /// Parses a type in small letters, as the contract's rule of compatibility reads it; an empty one means device. Stored types are
    /// read without regard to case before.
    ///
    /// # Errors
    /// [`CheckError::NodeType`] for every other value.
    pub fn parse(word: &str) -> Result<Self, CheckError> {
        match word {
            "" | "device" => Ok(Self::Device),
            "cluster" => Ok(Self::Cluster),
            other => Err(CheckError::NodeType { given: other.to_owned() }),
        }
    }
}

/// The facts of the node besides its policy, from the exchange or from the command line.
///
/// # Shape
/// Empty texts mean "not known": any architecture, the type device, the default namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeFacts<'a> {
    /// The qualified id.
    pub id: &'a str,
    /// The hardware architecture.
    pub arch: &'a str,
    /// `device` or `cluster`.
    pub node_type: &'a str,
    /// The namespace of a cluster agent.
    pub cluster_namespace: &'a str,
    /// True if a cluster agent is confined to its namespace.
    pub is_namespace_scoped: bool,
    /// The HA group, as the hub knows it; the node's policy cannot set it.
    pub ha_group: Option<&'a str>,
}

/// The input of the check: a node and a deployment policy.
#[derive(Debug)]
pub struct PolicyCheck<'a, S> {
    /// The node.
    pub node: NodeFacts<'a>,
    /// The node's policy; without one the check is refused.
    pub node_policy: Option<&'a NodePolicy>,
    /// The qualified id of the deployment policy; any name for one from a file.
    pub deployment_policy_id: &'a str,
    /// The deployment policy.
    pub deployment_policy: &'a DeploymentPolicy,
    /// One policy for all versions, from a file; `None` uses each service's own.
    pub service_policy: Option<&'a ExternalPolicy>,
    /// Definitions from files, searched before `source` for the top-level service; only used with `service_policy`.
    pub given_services: &'a [ServiceDefinition],
    /// The source of services and policies.
    pub source: &'a S,
    /// The node's values for variables: if given, variables and secrets are tested too (on devices); `None` skips them.
    pub node_user_input: Option<&'a [UserInput]>,
}

// A derived implementation would require `S: Clone`, although only a reference is held.
impl<S> Clone for PolicyCheck<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for PolicyCheck<'_, S> {}

impl<S: ServiceSource> PolicyCheck<'_, S> {
    /// Checks every version of the policy.
    ///
    /// # Errors
    /// [`CheckError`] when something is not valid, or missing in the exchange; with `service_policy` given, a missing or
    /// unreadable service is an obstacle of that version only.
    /// # Source
    /// Agreement-protocol 3.7; agbot 5.5.
    pub fn run(&self) -> Result<CompatibilityReport, CheckError> {
        let node_type = NodeType::parse(self.node.node_type)?;
        let mut node_policy = self.node_policy.ok_or(CheckError::NoNodePolicy)?.clone();
        node_policy.validate_and_normalize().map_err(CheckError::NodePolicy)?;
        let mut producer =
            InternalPolicy::from_node(self.node.id, &node_policy).map_err(CheckError::NodeConversion)?;
        producer.properties.set_ha_group(self.node.ha_group);
        let consumer = self
            .deployment_policy
            .to_internal(self.deployment_policy_id)
            .map_err(CheckError::DeploymentPolicy)?;
        if node_type == NodeType::Cluster
            && self.node.is_namespace_scoped
            && contradicts_own_namespace(self.deployment_policy).map_err(CheckError::NamespaceConstraint)?
        {
            let namespace = consumer.cluster_namespace;
            return Ok(CompatibilityReport::of_general(Incompatibility::NamespaceConstraint { namespace }));
        }
        Run { check: self, node_type, producer: &producer, consumer: &consumer }.all_versions()
    }
}

/// A check with validated input.
struct Run<'a, S> {
    check: &'a PolicyCheck<'a, S>,
    node_type: NodeType,
    producer: &'a InternalPolicy,
    consumer: &'a InternalPolicy,
}

impl<S: ServiceSource> Run<'_, S> {
    fn all_versions(&self) -> Result<CompatibilityReport, CheckError> {
        let mut report = CompatibilityReport { is_compatible: false, services: Vec::new(), general: None };
        let node_arch = self.check.node.arch;
        for workload in &self.consumer.workloads {
            let wants_any = is_any_arch(&workload.arch);
            if !wants_any && !node_arch.is_empty() && workload.arch != node_arch {
                let obstacle = Incompatibility::Architecture {
                    policy: workload.arch.clone(),
                    node: node_arch.to_owned(),
                };
                report.push(ServiceVerdict {
                    service_id: id_of(workload, &workload.arch),
                    obstacles: vec![obstacle],
                });
                continue;
            }
            let arch = if wants_any { node_arch } else { workload.arch.as_str() };
            match self.check.service_policy {
                Some(policy) => report.push(self.version_with_given_policy(workload, arch, policy)?),
                None if arch.is_empty() => self.every_arch(workload, &mut report)?,
                None => report.push(self.version_of_exchange(workload, arch)?),
            }
        }
        if report.services.is_empty() {
            report.general = Some(if node_arch.is_empty() {
                Incompatibility::NoServices
            } else {
                Incompatibility::NoServiceForArchitecture { arch: node_arch.to_owned() }
            });
        }
        Ok(report)
    }

    /// Neither policy nor node names an architecture: every one that the exchange has of this version is checked.
    fn every_arch(&self, workload: &Workload, report: &mut CompatibilityReport) -> Result<(), CheckError> {
        require_version(workload)?;
        let mut arches: Vec<&str> = Vec::new();
        for service in self.check.source.definitions(&key_of(workload)) {
            if service.version == workload.version && !arches.contains(&service.arch.as_str()) {
                arches.push(&service.arch);
            }
        }
        for arch in arches {
            report.push(self.version_of_exchange(workload, arch)?);
        }
        Ok(())
    }

    fn version_of_exchange(&self, workload: &Workload, arch: &str) -> Result<ServiceVerdict, CheckError> {
        let source = self.check.source;
        require_version(workload)?;
        let (service, version) = (key_of(workload), &workload.version);
        let id = find_service(source, &service, version, arch).map_err(CheckError::Service)?.id();
        let policy = self.exchange_policy(&id)?;
        let resolved = resolve_service(source, &service, version, arch).map_err(CheckError::Service)?;
        let policy = full_service_policy(policy.as_ref(), workload, arch, &resolved)
            .map_err(CheckError::Deployment)?;
        Ok(ServiceVerdict { obstacles: self.obstacles(&policy, &resolved)?, service_id: id })
    }

    fn exchange_policy(&self, id: &ServiceId) -> Result<Option<ExternalPolicy>, CheckError> {
        let mut policy = self.check.source.policy(id).cloned();
        if let Some(policy) = &mut policy {
            let refuse = |reason| CheckError::ServicePolicy { service: id.clone(), reason };
            policy.validate_and_normalize().map_err(refuse)?;
        }
        Ok(policy)
    }

    fn version_with_given_policy(
        &self,
        workload: &Workload,
        arch: &str,
        policy: &ExternalPolicy,
    ) -> Result<ServiceVerdict, CheckError> {
        let mut policy = policy.clone();
        let refuse = |reason| CheckError::ServicePolicy { service: id_of(workload, arch), reason };
        policy.validate_and_normalize().map_err(refuse)?;
        let failed =
            |obstacle| ServiceVerdict { service_id: id_of(workload, arch), obstacles: vec![obstacle] };
        let resolved = match self.given_or_found(workload, arch) {
            Ok(resolved) => resolved,
            Err(error) => return Ok(failed(error.into())),
        };
        Ok(match full_service_policy(Some(&policy), workload, arch, &resolved) {
            Err(error) => failed(error.into()),
            Ok(policy) => {
                ServiceVerdict { obstacles: self.obstacles(&policy, &resolved)?, service_id: resolved.id }
            }
        })
    }

    fn given_or_found(&self, workload: &Workload, arch: &str) -> Result<ResolvedService<'_>, ResolveError> {
        let Workload { org, url, version, .. } = workload;
        let is_wanted = |service: &&ServiceDefinition| {
            service.url == *url
                && service.version == *version
                && (is_any_arch(arch) || service.arch == arch)
                && (service.org.is_empty() || service.org == *org)
        };
        match self.check.given_services.iter().find(is_wanted) {
            None => resolve_service(self.check.source, &key_of(workload), version, arch),
            Some(definition) => Ok(ResolvedService {
                id: id_of(workload, arch),
                org: org.clone(),
                definition,
                dependencies: resolve_dependencies(self.check.source, definition)?,
            }),
        }
    }

    /// Returns every obstacle, in the order of the contract: type, namespace, policies, variables, secrets.
    fn obstacles(
        &self,
        service_policy: &ExternalPolicy,
        resolved: &ResolvedService<'_>,
    ) -> Result<Vec<Incompatibility>, CheckError> {
        let service = resolved.definition;
        let mut obstacles = Vec::new();
        obstacles
            .extend(check_node_type(self.node_type, &service.deployment, &service.cluster_deployment).err());
        if self.node_type == NodeType::Cluster && obstacles.is_empty() {
            match self.namespace_choice().resolve(&service.cluster_deployment) {
                Ok(_) => {}
                Err(NamespaceError::Incompatible(obstacle)) => obstacles.push(obstacle),
                Err(NamespaceError::NotText) => {
                    return Err(CheckError::NamespaceNotText { service: resolved.id.clone() });
                }
            }
        }
        let consumer = self.consumer.merge_external(service_policy);
        obstacles.extend(all_mismatches(self.producer, &consumer).into_iter().map(Incompatibility::from));
        if let Some(node_input) = self.check.node_user_input
            && self.node_type == NodeType::Device
        {
            obstacles.extend(input_obstacles(resolved, self.consumer, node_input));
        }
        Ok(obstacles)
    }

    fn namespace_choice(&self) -> NamespaceChoice<'_> {
        let known = self.check.node.cluster_namespace;
        NamespaceChoice {
            agent: if known.is_empty() { &self.producer.cluster_namespace } else { known },
            is_scoped: self.check.node.is_namespace_scoped,
            deployer: &self.consumer.cluster_namespace,
            pattern_id: "",
        }
    }
}

/// The exchange has policies of single versions only, so a range is meaningless there.
fn require_version(workload: &Workload) -> Result<(), CheckError> {
    let version = &workload.version;
    if is_version(version) {
        return Ok(());
    }
    let reason = VersionError::NotAVersion { text: version.clone() };
    Err(CheckError::Service(ResolveError::Version { service: key_of(workload), reason }))
}

fn key_of(workload: &Workload) -> ServiceKey {
    ServiceKey::new(&workload.org, &workload.url)
}

fn id_of(workload: &Workload, arch: &str) -> ServiceId {
    service_id(&workload.org, &workload.url, &workload.version, arch)
}

/// Tests that a service has a deployment for the type of the node.
///
/// # Errors
/// [`Incompatibility::NoDeviceDeployment`] or [`Incompatibility::NoClusterDeployment`].
pub fn check_node_type(
    node_type: NodeType,
    deployment: &Value,
    cluster_deployment: &Value,
) -> Result<(), Incompatibility> {
    match node_type {
        NodeType::Device if deployment::is_empty(deployment) => Err(Incompatibility::NoDeviceDeployment),
        NodeType::Cluster if deployment::is_empty(cluster_deployment) => {
            Err(Incompatibility::NoClusterDeployment)
        }
        NodeType::Device | NodeType::Cluster => Ok(()),
    }
}

/// Returns the policy of a service with the built-in properties: those that describe it, and whether it or a dependency needs
/// privileges.
///
/// # Errors
/// [`UnreadableDeployment`] when a deployment is invalid.
/// # Source
/// Agreement-protocol 3.7 (step 2).
pub fn full_service_policy(
    policy: Option<&ExternalPolicy>,
    workload: &Workload,
    arch: &str,
    resolved: &ResolvedService<'_>,
) -> Result<ExternalPolicy, UnreadableDeployment> {
    let identity = ServiceIdentity {
        name: workload.url.clone(),
        org: workload.org.clone(),
        version: workload.version.clone(),
        arch: arch.to_owned(),
    };
    let mut full = with_builtin_properties(policy, &identity);
    let mut needs_privileges =
        deployment::needs_privileges(resolved.id.as_str(), &resolved.definition.deployment)?;
    for (id, dependency) in &resolved.dependencies {
        needs_privileges |= deployment::needs_privileges(id.as_str(), &dependency.deployment)?;
    }
    set_privileged(&mut full, needs_privileges).expect("a boolean without declared type is a valid property");
    Ok(full)
}
