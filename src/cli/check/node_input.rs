//! What the check needs to know of a node, from the exchange, from the agent, or from files.

use evenkeel_client::Path;
use evenkeel_domain::policy::NodePolicy;
use evenkeel_domain::policy::reference_json::from_value;
use evenkeel_domain::policy::user_input::UserInput;
use evenkeel_wire::exchange::node_orchestration::{Availability, NodeOrchestration};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CheckArguments;
use crate::agent;
use crate::api::Api;
use crate::context::{Context, Exchange};
use crate::exchange::node::NODES;
use crate::exchange::node_state::NodeHealth;
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_json;

/// A node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeInput {
    /// `org/node`.
    pub id: String,
    /// Architecture, empty when it is not known.
    pub arch: String,
    /// `device` or `cluster`; empty means device.
    pub node_type: String,
    /// Namespace of a cluster agent.
    pub cluster_namespace: String,
    /// Whether a cluster agent is confined to it.
    pub is_namespace_scoped: bool,
    /// HA group that the node is in.
    pub ha_group: Option<String>,
    /// Whether services are placed on it.
    pub availability: Availability,
    /// State and age of the last heartbeat; only of a node at the exchange.
    pub health: Option<NodeHealth>,
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
        let record = NODES.read_one(exchange, name).await?;
        let (org, id) = exchange.split(name);
        let path = NODES.path_of(&org, Some(&id)).push("policy");
        let stored = exchange.api.find(&format!("reading the policy of node {name}"), &path).await?;
        let text = |member: &str| agent::text(&record, member).to_owned();
        Ok(Self {
            id: format!("{org}/{id}"),
            arch: text("arch"),
            // The hub keeps the word as it was sent; case does not count.
            node_type: text("nodeType").to_ascii_lowercase(),
            cluster_namespace: text("clusterNamespace"),
            is_namespace_scoped: record.get("isNamespaceScoped") == Some(&Value::Bool(true)),
            ha_group: Some(text("ha_group")).filter(|group| !group.is_empty()),
            availability: asked_of(&record).availability,
            health: Some(NodeHealth::of(&record, jiff::Timestamp::now())),
            policy: stored.as_ref().map(|stored| stored_policy(name, stored)).transpose()?,
            user_input: understood(record.get("userInput"), &format!("the user input of node {name}"))?,
        })
    }

    /// Reads the node of this machine from its agent.
    ///
    /// # Errors
    /// With status 5 when the agent does not answer.
    pub async fn from_agent(api: &Api) -> Outcome<Self> {
        let device = agent::device(api).await?;
        let status = api.get("asking the agent for its status", &Path::new(&["status"])).await?;
        let policy =
            api.get("asking the agent for the node's policy", &Path::new(&["node", "policy"])).await?;
        let input =
            api.get("asking the agent for the node's user input", &Path::new(&["node", "userinput"])).await?;
        let arch = status.pointer("/configuration/architecture").and_then(Value::as_str).unwrap_or_default();
        let group = agent::text(&device, "ha_group");
        Ok(Self {
            id: format!("{}/{}", agent::text(&device, "organization"), agent::text(&device, "id")),
            arch: arch.to_owned(),
            node_type: agent::text(&device, "nodeType").to_owned(),
            ha_group: Some(group.to_owned()).filter(|group| !group.is_empty()),
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
        let read = |file: &std::path::PathBuf| read_json(file, &context.settings);
        let policy = arguments.node_policy.as_ref().map(read).transpose()?;
        let input = arguments.node_input.as_ref().map(read).transpose()?;
        Ok(Self {
            id: "files/node".to_owned(),
            arch: arguments.arch.clone().unwrap_or_default(),
            node_type: arguments.node_type.clone().unwrap_or_default(),
            cluster_namespace: arguments.cluster_namespace.clone().unwrap_or_default(),
            is_namespace_scoped: arguments.is_namespace_scoped,
            ha_group: None,
            availability: Availability::Active,
            health: None,
            policy: policy.map(|policy| understood(Some(&policy), "the node's policy")).transpose()?,
            user_input: understood(input.as_ref(), "the node's user input")?,
        })
    }

    /// The node with what the arguments say where it says nothing.
    pub fn with(mut self, arguments: &CheckArguments) -> Self {
        if let (true, Some(arch)) = (self.arch.is_empty(), &arguments.arch) {
            self.arch.clone_from(arch);
        }
        self
    }
}

/// What the operator of a node asks for; nothing for an exchange that knows of no such thing.
fn asked_of(record: &Value) -> NodeOrchestration {
    record.get("orchestration").and_then(|asked| from_value(asked).ok()).unwrap_or_default()
}

/// A node's policy in the present form.
///
/// # Errors
/// With status 7 when it cannot be understood.
fn stored_policy(node: &str, stored: &Value) -> Outcome<NodePolicy> {
    let what = format!("the policy of node {node}");
    let version = agent::text(stored, "nodePolicyVersion").to_owned();
    let policy: NodePolicy = understood(Some(stored), &what)?;
    NodePolicy::from_stored(policy, &version).map_err(|error| not_understood(&what, &error.to_string()))
}

/// Reads a document; nothing and null are the empty one.
///
/// # Errors
/// With status 7 when it is of another shape.
pub fn understood<T: DeserializeOwned + Default>(value: Option<&Value>, what: &str) -> Outcome<T> {
    match value {
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
        let policy = stored_policy("o/n", &flat).expect("a policy");
        assert_eq!(*policy.deployment.constraints, ["a == b"]);
        let other = json!({"nodePolicyVersion": "v9"});
        assert_eq!(stored_policy("o/n", &other).map_err(|error| error.exit), Err(Exit::General));
        assert_eq!(
            stored_policy("o/n", &json!({"properties": 5})).map_err(|error| error.exit),
            Err(Exit::General)
        );
    }
}
