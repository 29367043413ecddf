//! The deployment policy of a check, and the services, dependencies and service policies that it refers to.

use std::collections::BTreeSet;

use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_domain::policy::compatibility::resolve::MAX_DEPENDENCIES;
use evenkeel_domain::policy::compatibility::{ServiceCatalog, ServiceDefinition, ServiceDependency};
use evenkeel_domain::policy::{DeploymentPolicy, ExternalPolicy};
use evenkeel_ids::{PolicyId, ServiceKey};
use evenkeel_planner_record::facts::PolicyScope;
use evenkeel_wire::RawJson;

use super::CheckArguments;
use super::node_input::{not_understood, understood};
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_shape;
use crate::resource::kinds::POLICIES;
use crate::shape::{DeploymentPolicyFile, ServiceFile, ServicePolicyFile};
use crate::signer::normalize_overrides;

/// The deployment policy.
#[derive(Debug, Clone, Default)]
pub struct PolicyInput {
    /// `org/policy`.
    pub id: String,
    /// The policy; its service always names an organization.
    pub policy: DeploymentPolicy,
    /// Nodes on which it may run, besides properties and constraints.
    pub scope: PolicyScope,
}

impl PolicyInput {
    /// Reads the policy that the arguments name.
    ///
    /// # Errors
    /// With status 8 when it does not exist, 3 or 4 for a file that cannot be used.
    pub async fn read(arguments: &CheckArguments, context: &Context, exchange: &Exchange) -> Outcome<Self> {
        match (&arguments.policy_id, &arguments.policy_file) {
            (Some(name), _) => Self::from_exchange(exchange, name).await,
            (None, Some(file)) => {
                let mut document = read_shape::<DeploymentPolicyFile>(file, context)?;
                normalize_overrides(&mut document);
                Self::of(format!("{}/file", exchange.org), &document.into())
            }
            (None, None) => Ok(Self::default()),
        }
    }

    /// Reads a policy of the exchange.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn from_exchange(exchange: &Exchange, name: &str) -> Outcome<Self> {
        let (org, id) = exchange.split(name);
        Self::of(format!("{org}/{id}"), &POLICIES.read_one(exchange, name).await?)
    }

    fn of(id: String, document: &RawJson) -> Outcome<Self> {
        let mut policy: DeploymentPolicy = understood(Some(document), &format!("deployment policy {id}"))?;
        if policy.service.org.is_empty() {
            policy.service.org = crate::context::split_name(&id, "").0;
        }
        let (org, name) = crate::context::split_name(&id, "");
        let policy_id = PolicyId::new(&org, &name);
        let orchestration = document.as_value().get("orchestration").filter(|document| !document.is_null());
        let scope = match orchestration {
            None => PolicyScope::Eligible,
            Some(document) => {
                let read = supported_orchestration(&policy_id, document.clone());
                let read = read.map_err(|error| {
                    not_understood(&format!("deployment policy {id}"), &error.to_string())
                })?;
                PolicyScope::of(&policy_id, &read.scope)
            }
        };
        Ok(Self { id, policy, scope })
    }
}

/// Everything that the policy leads to.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// Services and policies of the exchange; those from files take precedence.
    pub catalog: ServiceCatalog,
    /// Services from files.
    pub given: Vec<ServiceDefinition>,
    /// One policy for all versions, from a file.
    pub service_policy: Option<ExternalPolicy>,
}

impl Definitions {
    /// Reads them.
    ///
    /// # Errors
    /// With status 3, 4 or 7 for documents that cannot be used, 5 when the exchange does not respond.
    pub async fn read(
        arguments: &CheckArguments,
        context: &Context,
        exchange: &Exchange,
        policy: &DeploymentPolicy,
    ) -> Outcome<Self> {
        let mut definitions = Self::of_exchange(exchange, policy).await?;
        for file in &arguments.services {
            let document = read_shape::<ServiceFile>(file, context)?;
            let mut service: ServiceDefinition =
                understood(Some(&document.into()), &format!("the service in {}", file.display()))?;
            if service.org.is_empty() {
                service.org.clone_from(&policy.service.org);
            }
            definitions.add_dependencies(exchange, vec![&service]).await?;
            definitions.catalog.insert(service.clone());
            definitions.given.push(service);
        }
        if let Some(file) = &arguments.service_policy {
            let document = read_shape::<ServicePolicyFile>(file, context)?;
            definitions.service_policy =
                Some(understood(Some(&document.into()), &format!("the policy in {}", file.display()))?);
        }
        Ok(definitions)
    }

    /// Reads what the exchange has.
    ///
    /// # Errors
    /// With status 7 for documents that cannot be parsed, 5 when the exchange does not respond.
    pub async fn of_exchange(exchange: &Exchange, policy: &DeploymentPolicy) -> Outcome<Self> {
        let mut found = Self::default();
        let versions: BTreeSet<&str> =
            policy.service.versions.iter().map(|one| one.version.as_str()).collect();
        let services = services_named(exchange, &policy.service.org, &policy.service.name).await?;
        let wanted: Vec<&ServiceDefinition> =
            services.iter().filter(|service| versions.contains(service.version.as_str())).collect();
        for service in &wanted {
            if let Some(policy) = policy_of(exchange, service).await? {
                found.catalog.insert_policy(service.id(), policy);
            }
        }
        found.add_dependencies(exchange, wanted).await?;
        services.into_iter().for_each(|service| found.catalog.insert(service));
        Ok(found)
    }

    async fn add_dependencies(&mut self, exchange: &Exchange, of: Vec<&ServiceDefinition>) -> Outcome {
        let mut seen = BTreeSet::new();
        let named = |service: &ServiceDefinition| -> Vec<ServiceKey> {
            service.required_services.iter().map(ServiceDependency::key).collect()
        };
        let mut open: Vec<ServiceKey> = of.into_iter().flat_map(named).collect();
        while let Some(needed) = open.pop() {
            if !seen.insert(needed.clone()) {
                continue;
            }
            if seen.len() > MAX_DEPENDENCIES {
                return Err(CliError::new(
                    Exit::General,
                    "the services cannot be checked",
                    format!("there are more than {MAX_DEPENDENCIES} dependencies"),
                    "let services depend on fewer others",
                ));
            }
            for service in services_named(exchange, needed.org(), needed.name()).await? {
                open.extend(named(&service));
                self.catalog.insert(service);
            }
        }
        Ok(())
    }
}

async fn services_named(exchange: &Exchange, org: &str, url: &str) -> Outcome<Vec<ServiceDefinition>> {
    // A percent sign is a wildcard in this search: it finds too many services at most, and they are compared afterwards.
    let found = exchange.server.client.service_records(org, url);
    let found = exchange.server.call(&format!("reading service {org}/{url}"), found).await?;
    let read = |(id, document): (String, RawJson)| {
        let mut service: ServiceDefinition = understood(Some(&document), &format!("service {id}"))?;
        service.org = org.to_owned();
        Ok(service)
    };
    found.into_iter().map(read).collect()
}

async fn policy_of(exchange: &Exchange, service: &ServiceDefinition) -> Outcome<Option<ExternalPolicy>> {
    let id = service.id();
    let (org, name) = exchange.split(id.as_str());
    let found = exchange.server.client.service_policy(&org, &name);
    let found = exchange.server.call(&format!("reading the policy of service {id}"), found).await?;
    found.map(|found| understood(Some(&found), &format!("the policy of service {id}"))).transpose()
}
