//! Facts about a node that the check needs, from the exchange, from the agent, or from files.

use evenkeel_domain::policy::NodePolicy;
use evenkeel_domain::policy::reference_json::from_value;
use evenkeel_domain::policy::user_input::UserInput;
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::node::NodeResponse;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::node_part::NodePolicyResponse;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CheckArguments;
use crate::context::{Context, Exchange};
use crate::exchange::node::read_node;
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_shape;
use crate::server::Server;
use crate::shape::{NodePolicyFile, read_user_input};

/// A node.
#[derive(Debug, Clone, Default)]
pub struct NodeInput {
    /// `org/node`.
    pub id: String,
    /// Architecture, empty when it is not known.
    pub arch: String,
    /// `device` or `cluster`; empty means device.
    pub node_type: String,
    /// Namespace of a cluster agent.
    pub cluster_namespace: String,
    /// True if a cluster agent is confined to its namespace.
    pub is_namespace_scoped: bool,
    /// HA group that the node is in.
    pub ha_group: Option<String>,
    /// Availability of the node for placement.
    pub availability: Availability,
    /// Its record, when it was read from the exchange.
    pub record: Option<NodeResponse>,
    /// The node's policy.
    pub policy: Option<NodePolicy>,
    /// The node's values for variables.
    pub user_input: Vec<UserInput>,
}

impl NodeInput {
    /// Reads a node from the exchange.
    ///
    /// # Errors
    /// With status 8 when it does not exist, 7 when its policy cannot be understood.
    pub async fn from_exchange(exchange: &Exchange, name: &str) -> Outcome<Self> {
        let id = exchange.node_id(name);
        let node = read_node(exchange, name).await?;
        let stored = exchange.server.client.node_policy(&id);
        let stored = exchange.server.call(&format!("reading the policy of node {name}"), stored).await?;
        let input = node
            .user_input()
            .map_err(|error| not_understood(&format!("the user input of node {name}"), &error.to_string()))?;
        Ok(Self {
            id: id.to_string(),
            record: Some(node.clone()),
            availability: node.orchestration.unwrap_or_default().availability,
            arch: node.arch,
            // The hub keeps the word as it was sent; its case is ignored.
            node_type: node.node_type.to_ascii_lowercase(),
            cluster_namespace: node.cluster_namespace,
            is_namespace_scoped: node.is_namespace_scoped,
            ha_group: node.ha_group.filter(|group| !group.is_empty()),
            policy: stored.as_ref().map(|stored| stored_policy(name, stored)).transpose()?,
            user_input: understood(
                Some(&Value::Array(input).into()),
                &format!("the user input of node {name}"),
            )?,
        })
    }

    /// Reads the node of this machine from its agent.
    ///
    /// # Errors
    /// With status 5 when the agent does not respond.
    pub async fn from_agent(agent: &Server) -> Outcome<Self> {
        let node = agent.call("asking the agent for its node", agent.client.local_node()).await?;
        let status = agent.call("asking the agent for its status", agent.client.local_status()).await?;
        let policy = agent.client.local_policy();
        let policy = agent.call("asking the agent for the node's policy", policy).await?;
        let input = agent.client.local_user_input();
        let input = agent.call("asking the agent for the node's user input", input).await?;
        Ok(Self {
            id: format!("{}/{}", node.organization.unwrap_or_default(), node.id),
            arch: status.configuration.architecture,
            node_type: node.node_type.unwrap_or_default().to_ascii_lowercase(),
            ha_group: node.ha_group.filter(|group| !group.is_empty()),
            policy: Some(understood(Some(&policy), "the node's policy")?),
            user_input: understood(Some(&input), "the node's user input")?,
            ..Self::default()
        })
    }

    /// Reads a node from files.
    ///
    /// # Errors
    /// With status 4 or 3 for files that cannot be used.
    pub fn from_files(arguments: &CheckArguments, context: &Context) -> Outcome<Self> {
        let policy = arguments.node_policy.as_ref().map(|file| read_shape::<NodePolicyFile>(file, context));
        let policy = policy.transpose()?.map(RawJson::from);
        let input = arguments.node_input.as_ref().map(|file| read_user_input(file, context));
        let input = input.transpose()?.map(RawJson::from);
        Ok(Self {
            id: "files/node".to_owned(),
            arch: arguments.arch.clone().unwrap_or_default(),
            node_type: arguments.node_type.clone().unwrap_or_default().to_ascii_lowercase(),
            cluster_namespace: arguments.cluster_namespace.clone().unwrap_or_default(),
            is_namespace_scoped: arguments.is_namespace_scoped,
            ha_group: None,
            availability: Availability::Active,
            record: None,
            policy: policy.map(|policy| understood(Some(&policy), "the node's policy")).transpose()?,
            user_input: understood(input.as_ref(), "the node's user input")?,
        })
    }

    /// Returns the node, with the arguments as defaults for missing values.
    pub fn with(mut self, arguments: &CheckArguments) -> Self {
        if let (true, Some(arch)) = (self.arch.is_empty(), &arguments.arch) {
            self.arch.clone_from(arch);
        }
        self
    }
}

/// Returns a node's policy in the current format.
///
/// # Errors
/// With status 7 when it cannot be understood.
fn stored_policy(node: &str, stored: &RawJson) -> Outcome<NodePolicy> {
    let what = format!("the policy of node {node}");
    let response: NodePolicyResponse =
        stored.read().map_err(|error| not_understood(&what, &error.to_string()))?;
    let version = response.node_policy_version;
    let policy: NodePolicy = understood(Some(stored), &what)?;
    NodePolicy::from_stored(policy, &version).map_err(|error| not_understood(&what, &error.to_string()))
}

/// Reads a document; absent and null mean the empty document.
///
/// # Errors
/// With status 7 when it has another shape.
pub fn understood<T: DeserializeOwned + Default>(document: Option<&RawJson>, what: &str) -> Outcome<T> {
    match document.map(RawJson::as_value) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => from_value(value).map_err(|error| not_understood(what, &error.reason())),
    }
}

/// The failure for a document of another shape.
pub fn not_understood(what: &str, why: &str) -> CliError {
    CliError::new(
        Exit::General,
        format!("{what} cannot be understood"),
        why,
        "correct it; the commands named `new` print templates",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_policy_of_the_first_form_is_brought_into_the_present_one() {
        let flat =
            json!({"properties": [{"name": "x", "value": 1}], "constraints": ["a == b"], "lastUpdated": "t"});
        let policy = stored_policy("o/n", &flat.into()).expect("a policy");
        assert_eq!(*policy.deployment.constraints, ["a == b"]);
        let other = json!({"nodePolicyVersion": "v9"});
        assert_eq!(stored_policy("o/n", &other.into()).map_err(|error| error.exit), Err(Exit::General));
        assert_eq!(
            stored_policy("o/n", &json!({"properties": 5}).into()).map_err(|error| error.exit),
            Err(Exit::General)
        );
    }
}
