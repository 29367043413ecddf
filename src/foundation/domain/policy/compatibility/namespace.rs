//! The cluster namespace of a service, and whether the agent may use it.
//!
//! Source: agreement-protocol 3.8.

use serde_json::Value;

use super::report::Incompatibility;
use crate::policy::constraint::{ConstraintError, Expression};
use crate::policy::deployment_policy::DeploymentPolicy;
use crate::policy::property::{Property, PropertyList, builtin};

/// The namespace of a cluster agent that names none.
pub const DEFAULT_NAMESPACE: &str = "openhorizon-agent";

/// The reason why a service has no namespace.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NamespaceError {
    /// The service cannot run on the cluster.
    #[error(transparent)]
    Incompatible(#[from] Incompatibility),
    /// The service names a namespace that is not text.
    #[error("the namespace in the metadata of the service's cluster deployment is not text")]
    NotText,
}

/// The inputs that determine the namespace, apart from the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamespaceChoice<'a> {
    /// The namespace of the agent; empty for [`DEFAULT_NAMESPACE`].
    pub agent: &'a str,
    /// True if the agent is confined to its namespace.
    pub is_scoped: bool,
    /// The namespace that the deployment policy or pattern names; empty for none.
    pub deployer: &'a str,
    /// The pattern's qualified id; empty for a deployment policy.
    pub pattern_id: &'a str,
}

impl NamespaceChoice<'_> {
    /// Returns the namespace of a service.
    ///
    /// # Shape
    /// `cluster_deployment` is the text or the object.
    /// # Errors
    /// [`NamespaceError::Incompatible`] with the obstacle, or [`NamespaceError::NotText`].
    pub fn resolve(&self, cluster_deployment: &Value) -> Result<String, NamespaceError> {
        let agent = if self.agent.is_empty() { DEFAULT_NAMESPACE } else { self.agent };
        if !self.pattern_id.is_empty() {
            self.check_pattern(agent)?;
        }
        if !self.deployer.is_empty() {
            if self.is_scoped && self.deployer != agent {
                let (policy, agent) = (self.deployer.to_owned(), agent.to_owned());
                return Err(Incompatibility::PolicyNamespace { policy, agent }.into());
            }
            return Ok(self.deployer.to_owned());
        }
        let service = service_namespace(cluster_deployment)?;
        match service {
            None => Ok(agent.to_owned()),
            Some(service) if self.is_scoped && service != agent => {
                Err(Incompatibility::ServiceNamespace { service, agent: agent.to_owned() }.into())
            }
            Some(service) => Ok(service),
        }
    }

    /// A confined agent accepts patterns of its own namespace only, any other one patterns without namespace only.
    fn check_pattern(&self, agent: &str) -> Result<(), Incompatibility> {
        let wanted = if self.is_scoped { agent } else { "" };
        if self.deployer == wanted {
            return Ok(());
        }
        Err(Incompatibility::PatternNamespace {
            pattern: self.deployer.to_owned(),
            wanted: wanted.to_owned(),
        })
    }
}

/// Reads the namespace that a service's cluster deployment names; `None` when it names none.
fn service_namespace(cluster_deployment: &Value) -> Result<Option<String>, NamespaceError> {
    let unreadable =
        |reason: &str| Incompatibility::ClusterDeploymentUnreadable { reason: reason.to_owned() };
    let parsed;
    let deployment = match cluster_deployment {
        Value::Null => return Ok(None),
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => {
            parsed = serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))?;
            &parsed
        }
        object => object,
    };
    let Value::Object(members) = deployment else {
        return Err(unreadable("it is not an object").into());
    };
    let named = match members.get("metadata") {
        None => None,
        Some(Value::Object(metadata)) => metadata.get("namespace"),
        Some(_) => return Err(unreadable("its metadata is not an object").into()),
    };
    let namespace = match named {
        Some(Value::String(namespace)) => namespace.clone(),
        Some(_) => return Err(NamespaceError::NotText),
        None => match members.get("operatorYamlArchive") {
            Some(Value::String(archive)) => {
                super::operator::namespace(archive).map_err(|error| unreadable(&error.to_string()))?
            }
            _ => String::new(),
        },
    };
    Ok((!namespace.is_empty()).then_some(namespace))
}

/// Returns whether a deployment policy that names a namespace requires, in its own constraints, agents of another one: then
/// no agent that is confined to a namespace can accept it.
///
/// # Shape
/// `true` means that they contradict each other. Only comparisons of the agent's namespace count, all others are assumed
/// satisfied.
/// # Errors
/// [`ConstraintError`] when the constraints cannot be read.
pub fn contradicts_own_namespace(policy: &DeploymentPolicy) -> Result<bool, ConstraintError> {
    let namespace = policy.service.cluster_namespace.as_str();
    if namespace.is_empty() || policy.has_no_constraints() {
        return Ok(false);
    }
    let about_namespace = only_about(&policy.constraints.parse()?, builtin::KUBERNETES_NAMESPACE);
    let properties = PropertyList::from(vec![Property::new(builtin::KUBERNETES_NAMESPACE, namespace)]);
    Ok(!about_namespace.is_satisfied_by(&properties))
}

/// Replaces the comparisons of every other property by one that is always satisfied.
fn only_about(expression: &Expression, property: &str) -> Expression {
    let inside = |parts: &[Expression]| parts.iter().map(|part| only_about(part, property)).collect();
    match expression {
        Expression::All(parts) => Expression::all(inside(parts)),
        Expression::Any(parts) => Expression::any(inside(parts)),
        Expression::Predicate(predicate) if predicate.property() == property => expression.clone(),
        Expression::Predicate(_) => Expression::all(Vec::new()),
    }
}
