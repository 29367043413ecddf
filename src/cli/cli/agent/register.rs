//! `hzn register`: registers the node of this machine with the exchange and activates its agent (agbot 5.3).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel_client::Credentials;
use evenkeel_wire::agent::node::{CONFIGURED, PostNode, PutConfigState};
use evenkeel_wire::agent::status::Configuration;
use serde_json::{Value, json};

use super::register_steps::{AtExchange, wait_for_service};
use super::unregister::leave;
use super::{is_registered, local_node};
use crate::context::{Context, UserOptions};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_shape;
use crate::output::print_note;
use crate::server::Server;
use crate::settings::{self, with_api_path};
use crate::shape::{NodePolicyFile, read_user_input};

/// Longest wait for the agent to take a step of the registration.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Options of `register`.
#[derive(Debug, Args)]
pub struct RegisterArguments {
    /// Organization of the node [default: -o, else HZN_ORG_ID]
    node_org: Option<String>,
    /// Pattern of the node; without one it uses policies
    pattern: Option<String>,
    /// Pattern of the node, as the second argument names it
    #[arg(short = 'p', long = "pattern", value_name = "PATTERN", conflicts_with = "pattern")]
    pattern_option: Option<String>,
    #[command(flatten)]
    pub user: UserOptions,
    /// Node and token as NODE:TOKEN [default: HZN_EXCHANGE_NODE_AUTH, else the agent's id and a new token]
    #[arg(short = 'n', long = "node-id-tok", value_name = "CREDENTIALS")]
    node_id_tok: Option<String>,
    /// Human-readable name [default: the id]
    #[arg(short = 'm', long = "node-name", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    /// JSON or YAML file with values for the variables of services
    #[arg(short = 'f', long = "input-file", value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// JSON or YAML file with the policy of the node
    #[arg(long = "policy", value_name = "FILE")]
    policy: Option<PathBuf>,
    /// HA group that the node joins; created if missing
    #[arg(long = "ha-group", value_name = "GROUP")]
    ha_group: Option<String>,
    /// Service to wait for
    #[arg(short = 's', long, value_name = "SERVICE")]
    service: Option<String>,
    /// Organization of that service
    #[arg(long = "serviceorg", value_name = "ORG", default_value = "")]
    service_org: String,
    /// Longest wait for that service, in seconds
    #[arg(short = 't', long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
}

/// Identity of the node.
struct Identity {
    node: Credentials,
    name: String,
    pattern: String,
}

/// Registers the node.
///
/// # Errors
/// With status 1 for invalid arguments, 5 when the exchange or the agent refuses, 99 when the registration failed
/// halfway and was undone.
pub async fn run(arguments: &RegisterArguments, context: &Context) -> Outcome {
    let agent = context.agent()?;
    let policy = arguments.policy.as_deref().map(|file| read_shape::<NodePolicyFile>(file, context));
    let policy = policy.transpose()?;
    let input = match &arguments.input_file {
        Some(file) => read_user_input(file, context)?,
        None => json!([]),
    };
    let status = agent.call("asking the agent for its status", agent.client.local_status()).await?;
    let known = local_node(&agent).await?;
    if is_registered(&known) {
        let (state, org) = (&known.configstate.state, known.organization.unwrap_or_default());
        let why = format!("it is {state} as {org}/{}", known.id);
        return Err(CliError::new(
            Exit::Http,
            "the node was not registered",
            why,
            "unregister it first: hzn unregister",
        ));
    }
    let url = exchange_url(context, &status.configuration)?;
    let org = match &arguments.node_org {
        Some(org) => org.clone(),
        None => context.org(&arguments.user)?,
    };
    let user = UserOptions { org: Some(org.clone()), user_pw: arguments.user.user_pw.clone() };
    let node = identity(arguments, context, &agent, &known.id, &org).await?;
    let exchange = AtExchange::new(context, &url, &user, &node)?;
    let name = arguments.name.clone().unwrap_or_else(|| node.id.clone());
    exchange.ensure_node(&name, &status.configuration.architecture).await?;
    let pattern = arguments.pattern.as_ref().or(arguments.pattern_option.as_ref());
    let pattern = exchange.choose_pattern(pattern.map(String::as_str)).await?;
    if let Some(group) = &arguments.ha_group {
        exchange.join_group(group).await?;
    }
    if let Some(policy) = policy {
        exchange.put_policy(policy).await?;
    }
    let identity = Identity { node, name, pattern };
    if let Err(error) = configure(&agent, &identity, arguments.ha_group.as_deref(), &input).await {
        return Err(undo(&agent, error).await);
    }
    agent.report_done(&format!("node {} is registered", identity.node.name()));
    match &arguments.service {
        Some(service) if !context.is_dry_run => {
            let limit = Duration::from_secs(arguments.timeout);
            wait_for_service(&agent, service, &arguments.service_org, limit).await
        }
        _ => Ok(()),
    }
}

/// Returns the address of the exchange; the command line and the agent must use the same one.
fn exchange_url(context: &Context, agent: &Configuration) -> Outcome<String> {
    let of_agent = agent.exchange_api.trim_end_matches('/');
    match context.settings.find(settings::EXCHANGE_URL).map(with_api_path) {
        None if of_agent.is_empty() => context.exchange_url(),
        None => Ok(with_api_path(of_agent)),
        Some(own) if of_agent.is_empty() || own == with_api_path(of_agent) => Ok(own),
        Some(own) => Err(CliError::input(
            "the node was not registered",
            format!("the command line uses the exchange at {own}, the agent the one at {of_agent}"),
            "set HZN_EXCHANGE_URL to that of the agent, or start the agent with the other hub",
        )),
    }
}

async fn identity(
    arguments: &RegisterArguments,
    context: &Context,
    agent: &Server,
    known_id: &str,
    org: &str,
) -> Outcome<Credentials> {
    if let Some(node) = context.node_credentials(arguments.node_id_tok.as_deref(), org)? {
        return Ok(Credentials::new(org, &node.id, node.secret()));
    }
    let made = agent.call("asking the agent for a token", agent.client.random_token()).await?;
    let id = match known_id {
        "" => random_id(),
        id => id.to_owned(),
    };
    print_note(format!("the node's id is {id}; its token is new and kept by the agent"));
    Ok(Credentials::new(org, id, made.token))
}

fn random_id() -> String {
    use rand::Rng;
    use rand::distr::Alphanumeric;
    rand::rng().sample_iter(Alphanumeric).take(40).map(char::from).collect()
}

async fn configure(agent: &Server, identity: &Identity, group: Option<&str>, input: &Value) -> Outcome {
    let node = PostNode {
        id: Some(identity.node.id.clone()),
        token: Some(identity.node.secret().to_owned()),
        organization: Some(identity.node.org.clone()),
        pattern: Some(identity.pattern.clone()),
        name: Some(identity.name.clone()),
        node_type: Some("device".to_owned()),
        ha_group: Some(group.unwrap_or_default().to_owned()),
    };
    let client = &agent.client;
    agent.call("configuring the agent of the node", client.register_local_node(&node, STEP_LIMIT)).await?;
    if input.as_array().is_some_and(|entries| !entries.is_empty()) {
        let input = input.clone().into();
        agent.call("setting the node's user input", client.register_user_input(&input, STEP_LIMIT)).await?;
    }
    let configured = PutConfigState { state: CONFIGURED.to_owned() };
    agent.call("completing the registration", client.put_config_state(&configured, STEP_LIMIT)).await
}

/// After a partial failure the agent must not stay half registered.
async fn undo(agent: &Server, error: CliError) -> CliError {
    // 409: another process has registered the node in the meantime, so there is nothing to undo.
    if error.why.contains("409") {
        return error;
    }
    print_note("the registration failed and is undone");
    for attempt in 0..3 {
        let is_deep = attempt == 2;
        if local_node(agent).await.is_ok_and(|node| !is_registered(&node)) {
            break;
        }
        if leave(agent, false, is_deep, STEP_LIMIT).await.is_ok() {
            break;
        }
    }
    CliError { exit: Exit::Internal, ..error }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings::Settings;

    fn context(url: Option<&str>) -> Context {
        let variables: BTreeMap<String, String> =
            url.map(|url| (settings::EXCHANGE_URL.to_owned(), url.to_owned())).into_iter().collect();
        Context {
            settings: Settings::read(variables, std::path::Path::new("/nonexistent"), None),
            ..Context::default()
        }
    }

    #[test]
    fn agent_and_command_line_must_mean_one_exchange() {
        let status =
            Configuration { exchange_api: "http://hub:1/v1/".to_owned(), ..Configuration::default() };
        assert_eq!(exchange_url(&context(None), &status), Ok("http://hub:1/v1".to_owned()));
        assert_eq!(exchange_url(&context(Some("http://hub:1")), &status), Ok("http://hub:1/v1".to_owned()));
        let other = exchange_url(&context(Some("http://hub:2")), &status);
        assert_eq!(other.map_err(|error| error.exit), Err(Exit::Input));
        assert!(exchange_url(&context(None), &Configuration::default()).is_err());
    }

    #[test]
    fn ids_made_up_are_long_and_plain() {
        let id = random_id();
        assert!(id.len() == 40 && id.chars().all(|letter| letter.is_ascii_alphanumeric()), "{id}");
    }
}
