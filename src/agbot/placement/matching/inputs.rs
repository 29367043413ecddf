//! Checks that the variables and secrets of a service and its dependencies can be filled.
//!
//! Conditions that depend on the policy alone are tested when the consumer is prepared; all others are tested
//! against the node's input. Source: agreement-protocol 3.7 (step 5), 4.5, 4.6.

use evenkeel_domain::policy::{
    compatibility::deployment::declared_secrets,
    secret_binding::{SecretBinding, needed_secrets},
    user_input::{self, UserInput, Variable, check_variables},
};
use evenkeel_planner_record::{
    facts::{DeploymentPolicyFacts, ServiceFacts},
    node_record::NodeRecord,
    report::Blocked,
};
use serde_json::Value;

use super::readable::{self, read};

/// The variables of one service that need a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Needed {
    org: String,
    url: String,
    version: String,
    arch: String,
    variables: Vec<Variable>,
}

/// The inputs that a consumer provides and requires.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Inputs {
    given: Vec<UserInput>,
    needed: Vec<Needed>,
}

fn key(service: &ServiceFacts) -> user_input::ServiceVersion<'_> {
    user_input::ServiceVersion {
        org: service.key.org(),
        url: service.key.name(),
        version: &service.version,
        arch: &service.arch,
    }
}

fn missing(problem: impl std::fmt::Display) -> Blocked {
    Blocked::UserInput { detail: problem.to_string() }
}

impl Inputs {
    /// Collects the required inputs of the services, and tests their secrets.
    ///
    /// # Errors
    /// [`Blocked::UserInput`] when a secret is not bound, [`Blocked::Unreadable`] when something cannot be read.
    pub fn prepare(policy: &DeploymentPolicyFacts, services: &[&ServiceFacts]) -> Result<Self, Blocked> {
        let bindings = read::<SecretBinding>("secretBinding", &policy.secret_binding)?;
        let mut needed = Vec::new();
        for service in services {
            let deployment = Value::String(service.deployment.clone());
            let secrets = declared_secrets(service.id.as_str(), &deployment).map_err(missing)?;
            needed_secrets(key(service), &secrets, &bindings).map_err(missing)?;
            let variables = readable::variables(service)?;
            if variables.iter().any(Variable::is_required) {
                needed.push(Needed {
                    org: service.key.org().to_owned(),
                    url: service.key.name().to_owned(),
                    version: service.version.clone(),
                    arch: service.arch.clone(),
                    variables,
                });
            }
        }
        Ok(Self { given: read::<UserInput>("userInput", &policy.user_input)?, needed })
    }

    /// Tests the variables against the input of policy and node.
    ///
    /// # Errors
    /// [`Blocked::UserInput`] for the first without a value, [`Blocked::Unreadable`] when the input of the node cannot be read.
    pub fn test(&self, record: &NodeRecord) -> Result<(), Blocked> {
        if self.needed.is_empty() {
            return Ok(());
        }
        let from_node = read::<UserInput>(readable::NODE_INPUT, &record.facts.user_input)?;
        for one in &self.needed {
            let key = user_input::ServiceVersion {
                org: &one.org,
                url: &one.url,
                version: &one.version,
                arch: &one.arch,
            };
            check_variables(key, &one.variables, &self.given, &from_node).map_err(missing)?;
        }
        Ok(())
    }
}
