//! `hzn approval request`: plans a write and requests its approval.

use std::time::Duration;

use clap::{Args, Subcommand};
use evenkeel_wire::exchange::plan_approval::{ApprovalWrite, PlanApproval, RequestPlanApproval};
use serde_json::{Map, Value, json};

use super::{follow, show};
use crate::context::{Context, Exchange};
use crate::exchange::orch_settings::merged;
use crate::exit::{CliError, Outcome};
use crate::output::print_note;
use crate::plan::PlannedDocument;
use crate::wait::{Wait, duration};

/// Reason and end of a request.
#[derive(Debug, Args)]
pub(super) struct ApprovalTerms {
    /// Reason for the write, which the second person reads
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Time after which the request expires, such as 90m or 48h, at most 168h [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,
    #[command(flatten)]
    wait: Wait,
}

/// Writes that may be requested.
#[derive(Debug, Subcommand)]
pub(super) enum RequestCommand {
    /// Creation or replacement of a deployment policy
    Policy {
        #[command(flatten)]
        document: PlannedDocument,
        #[command(flatten)]
        asked: ApprovalTerms,
    },
    /// Removal of a deployment policy
    Removal {
        /// Deployment policy
        policy: String,
        #[command(flatten)]
        asked: ApprovalTerms,
    },
    /// Action on a deployment policy: start, stop, restart, takeover, switch, giveback, recover, thaw, clear, resume or rollback
    Action {
        /// Deployment policy
        policy: String,
        /// Name of the action
        action: String,
        /// Only this part: all, or the name of an HA group
        #[arg(long = "unit", value_name = "UNIT")]
        workload_unit: Option<String>,
        /// Only this node, or the node to move to
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        /// The nodes to move to
        #[arg(long = "to", value_name = "NODE", value_delimiter = ',')]
        to: Vec<String>,
        /// Lifts the rules that a user may lift: the minimum available, claims, a confirmed stop
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        asked: ApprovalTerms,
    },
    /// Action on the rollouts of a deployment policy: resume, rollback or retry
    Rollout {
        /// Deployment policy
        policy: String,
        /// Name of the action
        action: String,
        /// Only in this HA group
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        asked: ApprovalTerms,
    },
    /// Change of settings of the organization
    Settings {
        /// Changes as KEY=VALUE, for instance nodeDownAfterSeconds=60; KEY=null restores the default
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
        #[command(flatten)]
        asked: ApprovalTerms,
    },
}

/// Requests an approval.
///
/// # Errors
/// With status 1 for a write that cannot be read, 5 when the agbot does not plan it.
pub(super) async fn run(command: RequestCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let (write, asked) = match command {
        RequestCommand::Policy { document, asked } => {
            let (policy, body) = document.read(context, exchange).await?;
            let Some(Value::Object(document)) = body else {
                return Err(CliError::input(
                    "nothing was requested",
                    "a request is about a document, and none was given",
                    "name the file with -f",
                ));
            };
            (ApprovalWrite::DeploymentPolicy { policy: own_name(exchange, &policy)?, document }, asked)
        }
        RequestCommand::Removal { policy, asked } => {
            (ApprovalWrite::DeploymentPolicyRemoval { policy: own_name(exchange, &policy)? }, asked)
        }
        RequestCommand::Action { policy, action, workload_unit, node, to, force, asked } => {
            let mut request = Map::new();
            let given = [("unit", workload_unit.map(Value::from)), ("node", node.map(Value::from))];
            request.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            if !to.is_empty() {
                request.insert("destination".to_owned(), json!(to));
            }
            if force {
                request.insert("force".to_owned(), Value::Bool(true));
            }
            (ApprovalWrite::PolicyAction { policy: own_name(exchange, &policy)?, action, request }, asked)
        }
        RequestCommand::Rollout { policy, action, group, asked } => {
            (ApprovalWrite::RolloutAction { policy: own_name(exchange, &policy)?, action, group }, asked)
        }
        RequestCommand::Settings { changes, asked } => {
            (ApprovalWrite::Settings { settings: merged(&changes)? }, asked)
        }
    };
    request(context, exchange, write, asked).await
}

async fn request(
    context: &Context,
    exchange: &Exchange,
    write: ApprovalWrite,
    asked: ApprovalTerms,
) -> Outcome {
    let terms = (asked.reason, asked.expires);
    let Some(found) = send_request(context, exchange, write, terms).await? else { return Ok(()) };
    show(context, &found)?;
    print_note(format!("another user who may do that approves it with: hzn approval approve {}", found.id));
    follow(&asked.wait, context, exchange, &found.id).await
}

/// Has the agbot plan a write and request its approval; none in a dry run. The terms are the reason and the time after which the request expires.
///
/// # Errors
/// With status 5 when the agbot does not plan it.
pub(crate) async fn send_request(
    context: &Context,
    exchange: &Exchange,
    write: ApprovalWrite,
    (reason, expires): (String, Option<Duration>),
) -> Outcome<Option<PlanApproval>> {
    let title = write.title();
    let expires_seconds = expires.map(|time| time.as_secs());
    let body = RequestPlanApproval { write, reason, expires_seconds };
    let agbot = context.agbot(exchange)?;
    let call = agbot.client.request_plan_approval(&exchange.org, &body);
    let found = agbot.call(&format!("requesting the approval to {title}"), call).await?;
    Ok((!context.is_dry_run).then_some(found))
}

/// Returns the bare name of a policy of the organization whose users approve it.
pub(crate) fn own_name(exchange: &Exchange, policy: &str) -> Outcome<String> {
    let (org, name) = exchange.split(policy);
    if org == exchange.org {
        return Ok(name);
    }
    Err(CliError::input(
        "nothing was requested",
        format!("{policy} belongs to another organization than {}", exchange.org),
        format!("name the organization with: -o {org}"),
    ))
}
