//! `hzn exchange …`: the resources of the exchange, by its public API (agbot 5.2; exchange API 4 and 6).

pub mod agbot;
mod agbot_approval;
pub mod audit;
pub mod blocklist;
pub mod deployment;
pub mod ha_group;
pub mod ha_group_edit;
mod ha_group_recover;
pub mod health;
pub mod nmp;
pub mod nmp_match;
pub mod node;
pub mod node_common;
pub mod node_each;
mod node_orch;
pub mod node_part;
mod node_removal;
pub mod node_state;
pub mod orch;
pub mod orch_settings;
pub mod org;
pub mod pattern;
pub mod publish;
pub mod revision;
pub mod service;
mod service_removal;
pub mod user;
pub mod view;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::context::{Context, ReasonOption, UserOptions};
use crate::exit::Outcome;
use crate::output::View;

/// Options of `exchange`.
#[derive(Debug, Args)]
pub struct ExchangeArguments {
    #[command(flatten)]
    user: UserOptions,
    /// Node and token, as [ORG/]NODE:TOKEN, instead of a user [default: HZN_EXCHANGE_NODE_AUTH]
    #[arg(
        short = 'n',
        long = "node-id-tok",
        aliases = ["id-token", "service-id-tok"],
        global = true,
        value_name = "CREDENTIALS"
    )]
    node_id_tok: Option<String>,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(subcommand)]
    command: ExchangeCommand,
}

#[derive(Debug, Subcommand)]
enum ExchangeCommand {
    /// Organizations
    #[command(subcommand)]
    Org(org::OrgCommand),
    /// Users
    #[command(subcommand)]
    User(user::UserCommand),
    /// Nodes, their policies and their reports
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Agbots and the entries that they serve
    #[command(subcommand)]
    Agbot(agbot::AgbotCommand),
    /// Services, their keys and policies
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// Patterns
    #[command(subcommand)]
    Pattern(pattern::PatternCommand),
    /// Deployment policies: services and the nodes on which they run
    #[command(subcommand, visible_alias = "business")]
    Deployment(deployment::DeploymentCommand),
    /// Settings and blocklist for all workloads of the organization
    #[command(subcommand, name = "orchestration", alias = "orch")]
    Orch(orch_settings::OrgOrchCommand),
    /// Nodes on which a service is blocked because it keeps failing there
    #[command(subcommand)]
    Blocklist(blocklist::BlocklistCommand),
    /// Saved views: selections of nodes under a name
    #[command(subcommand)]
    View(view::ViewCommand),
    /// HA groups: nodes that stand in for each other
    #[command(subcommand)]
    Hagroup(ha_group::HaGroupCommand),
    /// Health: reports of users, nodes and the hub, and their evaluation
    #[command(subcommand)]
    Health(health::HealthCommand),
    /// Management policies: agent software for nodes
    #[command(subcommand)]
    Nmp(nmp::NmpCommand),
    /// Audit records of the organization
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Number of objects at the exchange
    Status,
    /// Version of the exchange
    Version,
}

/// Runs a command of the exchange.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(mut arguments: ExchangeArguments, context: &Context) -> Outcome {
    if let ExchangeCommand::Deployment(deployment::DeploymentCommand::Orch(command)) = &mut arguments.command
    {
        command.take_part(&mut arguments.user);
    }
    let command = match arguments.command {
        ExchangeCommand::Version => return version(context).await,
        // Templates need neither address nor credentials.
        ExchangeCommand::Hagroup(command) if command.is_template() => {
            return ha_group::HaGroupCommand::show_template(context);
        }
        ExchangeCommand::Nmp(nmp::NmpCommand::New) => return nmp::show_template(context),
        ExchangeCommand::Deployment(deployment::DeploymentCommand::New) => {
            return deployment::show_template(context);
        }
        ExchangeCommand::Service(service::ServiceCommand::New) => return service::show_template(context),
        ExchangeCommand::Service(service::ServiceCommand::Newpolicy) => {
            return service::show_policy_template(context);
        }
        command => command,
    };
    let exchange = context.exchange(&arguments.user, arguments.node_id_tok.as_deref())?;
    let exchange = exchange.with_reason(&arguments.reason)?;
    match command {
        ExchangeCommand::Org(command) => org::run(command, context, &exchange).await,
        ExchangeCommand::User(command) => user::run(command, context, &exchange).await,
        ExchangeCommand::Node(command) => {
            node::run(command, context, &exchange, arguments.node_id_tok.as_deref()).await
        }
        ExchangeCommand::Agbot(command) => agbot::run(command, context, &exchange).await,
        ExchangeCommand::Service(command) => service::run(command, context, &exchange).await,
        ExchangeCommand::Pattern(command) => pattern::run(command, context, &exchange).await,
        ExchangeCommand::Deployment(command) => deployment::run(command, context, &exchange).await,
        ExchangeCommand::Orch(command) => orch_settings::run(command, context, &exchange).await,
        ExchangeCommand::Blocklist(command) => blocklist::run(command, context, &exchange).await,
        ExchangeCommand::View(command) => view::run(command, context, &exchange).await,
        ExchangeCommand::Hagroup(command) => ha_group::run(command, context, &exchange).await,
        ExchangeCommand::Health(command) => health::run(command, context, &exchange).await,
        ExchangeCommand::Nmp(command) => nmp::run(command, context, &exchange).await,
        ExchangeCommand::Audit(command) => audit::run(command, context, &exchange).await,
        ExchangeCommand::Status => {
            let status = exchange.server.client.exchange_status_record();
            let status = exchange.server.call("reading the status of the exchange", status).await?;
            context.screen.show(&View::of(status.into_value()))
        }
        ExchangeCommand::Version => version(context).await,
    }
}

async fn version(context: &Context) -> Outcome {
    let server = context.public_exchange()?;
    let version = server.client.exchange_version();
    let version = server.call("reading the version of the exchange", version).await?;
    context.screen.show(&View::plain(version.clone(), Value::String(version)))
}
