//! Actions on the instances of a deployment policy, and on its update (orchestration 2.8, A6, A11, A12, B12).

use clap::{Args, Subcommand};
use evenkeel_client::ClientError;
use evenkeel_wire::agbot::action::{ActionRequest, ActionState};
use evenkeel_wire::agbot::orchestration::{StatusQuery, UpdateProgress, WorkloadStatus};
use serde_json::json;

use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{Table, View};
use crate::resource::kinds::POLICIES;
use crate::update_text::hint_for;
use crate::wait::update::RollbackReasons;
use crate::wait::{Progress, Wait};

/// Target of an action.
#[derive(Debug, Args)]
pub struct Chosen {
    /// Deployment policy
    policy: String,
    /// Only this part: all, or the name of an HA group
    #[arg(long = "unit", value_name = "UNIT")]
    workload_unit: Option<String>,
    /// Only this node
    #[arg(long = "node", value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

/// Target of an action that may lift rules.
#[derive(Debug, Args)]
pub struct Forceable {
    #[command(flatten)]
    chosen: Chosen,
    /// Lifts the rules that a user may lift: the minimum available, claims, a confirmed stop
    #[arg(long)]
    force: bool,
}

/// The move of an instance to a node.
#[derive(Debug, Args)]
pub struct Takeover {
    /// Deployment policy
    policy: String,
    /// The node to move to
    #[arg(long = "node", value_name = "NODE")]
    node: String,
    #[command(flatten)]
    how: Move,
}

/// The move of instances to other nodes.
#[derive(Debug, Args)]
pub struct Switch {
    /// Deployment policy
    policy: String,
    /// The nodes to move to; without it the best other node, with the mode failover only
    #[arg(long = "to", visible_alias = "destination", value_name = "NODE", value_delimiter = ',')]
    to: Vec<String>,
    #[command(flatten)]
    how: Move,
}

/// The return of instances.
#[derive(Debug, Args)]
pub struct Giveback {
    /// Deployment policy
    policy: String,
    #[command(flatten)]
    how: Move,
}

/// The recovery of instances.
#[derive(Debug, Args)]
pub struct Recover {
    #[command(flatten)]
    chosen: Chosen,
    /// Also examine running instances by the health policy; without it only instances that do not run are
    /// recovered
    #[arg(long)]
    check: bool,
    /// Create missing instances and remove surplus ones afterwards
    #[arg(long)]
    check_capacity: bool,
    /// The action to take instead of those of the health policy, for instance REBOOT
    #[arg(long, value_name = "ACTION")]
    operation: Option<String>,
    /// Type of the operation REBOOT: SOFT or HARD
    #[arg(long = "type", value_name = "TYPE", requires = "operation")]
    reboot: Option<String>,
}

/// Options of the commands that move instances.
#[derive(Debug, Args)]
struct Move {
    /// Only this part: all, or the name of an HA group
    #[arg(long = "unit", value_name = "UNIT")]
    workload_unit: Option<String>,
    /// Lifts the rules that a user may lift: the minimum available, claims, a confirmed stop, an update in progress
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: Wait,
}

/// Commands for the update of a deployment policy.
#[derive(Debug, Subcommand)]
pub enum UpdateCommand {
    /// Shows the progress of the update
    Status {
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        wait: Wait,
    },
    /// Pauses the update: slots in progress finish, and no further one starts
    Pause,
    /// Continues an update that is paused, or with --force one that is blocked
    Resume {
        /// Ignore the minimum available and the claims of HA groups until the update has ended
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Rolls all slots back to their previous version
    Rollback {
        #[command(flatten)]
        wait: Wait,
    },
}

/// Carries out an action.
///
/// # Errors
/// With status 8 when the policy, the unit or the node does not exist, 5 when the agbot refuses the action or does not respond.
pub async fn run(context: &Context, exchange: &Exchange, action: &str, chosen: &Chosen) -> Outcome {
    let id = act(context, exchange, &chosen.policy, action, &chosen.request()).await?;
    follow_action(context, exchange, (&chosen.policy, action, &id), &chosen.wait).await
}

/// Carries out an action that may ignore rules.
///
/// # Errors
/// See [`run`].
pub async fn run_forced(context: &Context, exchange: &Exchange, action: &str, wanted: &Forceable) -> Outcome {
    let Forceable { chosen, force } = wanted;
    let request = ActionRequest { force: force.then_some(true), ..chosen.request() };
    let id = act(context, exchange, &chosen.policy, action, &request).await?;
    follow_action(context, exchange, (&chosen.policy, action, &id), &chosen.wait).await
}

/// Moves an instance to a node.
///
/// # Errors
/// See [`run`].
pub async fn take_over(context: &Context, exchange: &Exchange, wanted: &Takeover) -> Outcome {
    let request = ActionRequest { node: Some(wanted.node.clone()), ..wanted.how.request() };
    move_instances(context, exchange, (&wanted.policy, "takeover"), request, &wanted.how.wait).await
}

/// Moves instances to other nodes.
///
/// # Errors
/// See [`run`].
pub async fn switch(context: &Context, exchange: &Exchange, wanted: &Switch) -> Outcome {
    let destination = (!wanted.to.is_empty()).then(|| wanted.to.clone());
    let request = ActionRequest { destination, ..wanted.how.request() };
    move_instances(context, exchange, (&wanted.policy, "switch"), request, &wanted.how.wait).await
}

/// Moves instances to the nodes on which they belong.
///
/// # Errors
/// See [`run`].
pub async fn give_back(context: &Context, exchange: &Exchange, wanted: &Giveback) -> Outcome {
    let named = (wanted.policy.as_str(), "giveback");
    move_instances(context, exchange, named, wanted.how.request(), &wanted.how.wait).await
}

/// Recovers instances that have failed.
///
/// # Errors
/// See [`run`].
pub async fn recover(context: &Context, exchange: &Exchange, wanted: &Recover) -> Outcome {
    let request = ActionRequest {
        check: wanted.check.then_some(true),
        check_capacity: wanted.check_capacity.then_some(true),
        operation: wanted.operation.clone(),
        operation_params: wanted.reboot.as_ref().map(|text| json!({"type": text})),
        ..wanted.chosen.request()
    };
    let named = (wanted.chosen.policy.as_str(), "recover");
    move_instances(context, exchange, named, request, &wanted.chosen.wait).await
}

/// Aborts the action in progress.
///
/// # Errors
/// See [`run`].
pub async fn abort(context: &Context, exchange: &Exchange, policy: &str) -> Outcome {
    let id = act(context, exchange, policy, "abort", &ActionRequest::default()).await?;
    show(context, exchange, policy, &id).await
}

async fn move_instances(
    context: &Context,
    exchange: &Exchange,
    (policy, action): (&str, &str),
    request: ActionRequest,
    wait: &Wait,
) -> Outcome {
    let id = act(context, exchange, policy, action, &request).await?;
    follow_action(context, exchange, (policy, action, &id), wait).await
}

impl Chosen {
    fn request(&self) -> ActionRequest {
        ActionRequest {
            workload_unit: self.workload_unit.clone(),
            node: self.node.clone(),
            ..ActionRequest::default()
        }
    }
}

impl Move {
    fn request(&self) -> ActionRequest {
        ActionRequest {
            workload_unit: self.workload_unit.clone(),
            force: self.force.then_some(true),
            ..ActionRequest::default()
        }
    }
}

fn in_progress(action: &str, org: &str, name: &str, message: &str) -> String {
    let text = format!("{action} of {org}/{name} is in progress");
    if message.is_empty() { text } else { format!("{text}: {message}") }
}

/// Returns the outcome of a completed action; that of a recovery states whether there was anything to do.
pub fn done_text(action: &str, found: &ActionState) -> String {
    let is_idle = found.members.as_ref().is_some_and(Vec::is_empty);
    let more = if is_idle { ": nothing had to be recovered" } else { "" };
    format!("{action} is done{more}")
}

/// Waits until an action has ended, if the user requests that.
async fn follow_action(
    context: &Context,
    exchange: &Exchange,
    (policy, action, id): (&str, &str, &str),
    wait: &Wait,
) -> Outcome {
    let (org, name) = exchange.split(policy);
    let progress = async || {
        let found = read_action(context, exchange, policy, id).await?;
        Ok(match found.state.as_str() {
            "done" => Progress::Done(done_text(&format!("{action} of {org}/{name}"), &found)),
            "running" | "pending" => Progress::Pending(in_progress(action, &org, &name, &found.message)),
            _ => Progress::Failed(found.message),
        })
    };
    let outcome = wait.follow(context, &format!("{action} of {org}/{name}"), progress).await;
    show(context, exchange, policy, id).await?;
    outcome.map_err(|error| with_events(error, &format!("{org}/{name}")))
}

/// Returns the failure of an action with the command that shows what happened.
fn with_events(error: CliError, policy: &str) -> CliError {
    match error.exit {
        Exit::WaitFailed => error.with_advice(format!(
            "see what happened with: hzn exchange deployment orchestration events {policy}"
        )),
        _ => error,
    }
}

/// Shows the progress of an action, if an output format was chosen.
async fn show(context: &Context, exchange: &Exchange, policy: &str, id: &str) -> Outcome {
    if context.screen.format.is_none() || exchange.server.is_dry_run {
        return Ok(());
    }
    let found = read_action(context, exchange, policy, id).await?;
    context.screen.show(&View::of(serde_json::to_value(&found).unwrap_or_default()))
}

async fn read_action(context: &Context, exchange: &Exchange, policy: &str, id: &str) -> Outcome<ActionState> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading action {id} of {org}/{name}");
    let found = agbot.call(&doing, agbot.client.policy_action(&org, &name, id)).await?;
    found.ok_or_else(|| POLICIES.missing(policy))
}

/// Requests an action; returns its id.
async fn act(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    action: &str,
    request: &ActionRequest,
) -> Outcome<String> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("{action} of {org}/{name}");
    let accepted = match agbot.client.act_on_policy(&org, &name, action, request).await {
        Ok(accepted) => accepted,
        Err(ClientError::Status { status: 404, msg, .. }) => {
            let destination = request.destination.iter().flatten().next().map(String::as_str);
            let part = request.node.as_deref().or(destination).or(request.workload_unit.as_deref());
            let missing = super::missing_part(context, exchange, policy, part).await;
            return Err(if missing.exit == Exit::NotFound { missing.with_reason(msg) } else { missing });
        }
        Err(error) if error.status() == Some(409) => {
            return Err(agbot.failed(&doing, &error).with_advice(format!(
                "see the state that the reason is about with: hzn exchange deployment orchestration status {org}/{name}"
            )));
        }
        Err(error) => return Err(agbot.failed(&doing, &error)),
    };
    agbot.report_done(&format!("action {} accepted: {action} of {org}/{name}", accepted.action_id));
    Ok(accepted.action_id)
}

/// Shows or controls the update of a policy.
///
/// # Errors
/// See [`run`].
pub async fn run_update(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    command: &UpdateCommand,
) -> Outcome {
    let (action, wait) = match command {
        UpdateCommand::Status { watch, wait } => {
            let read = async || Ok(view(&read(context, exchange, policy).await?));
            context.show_watched(watch, read).await?;
            return follow(context, exchange, policy, wait, false).await;
        }
        UpdateCommand::Pause => ("pause", &Wait::default()),
        UpdateCommand::Resume { wait, .. } => ("resume", wait),
        UpdateCommand::Rollback { wait } => ("rollback", wait),
    };
    let is_forced = matches!(command, UpdateCommand::Resume { force: true, .. });
    let request = ActionRequest { force: is_forced.then_some(true), ..ActionRequest::default() };
    act(context, exchange, policy, action, &request).await?;
    follow(context, exchange, policy, wait, action == "rollback").await
}

async fn follow(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    wait: &Wait,
    wants_rollback: bool,
) -> Outcome {
    let reasons = RollbackReasons::default();
    let (org, name) = exchange.split(policy);
    let (id, agbot) = (format!("{org}/{name}"), context.agbot(exchange)?);
    let progress = async || {
        let update = read(context, exchange, policy).await?.update;
        reasons.find(&agbot, &id, &update).await;
        Ok(reasons.progress(&id, &update, wants_rollback))
    };
    wait.follow(context, &format!("the update of {policy}"), progress).await
}

async fn read(context: &Context, exchange: &Exchange, policy: &str) -> Outcome<WorkloadStatus> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the update of {org}/{name}");
    let query = StatusQuery { limit: Some(1), ..StatusQuery::default() };
    let found = agbot.call(&doing, agbot.client.orchestration_record(&org, &name, &query)).await?;
    agbot.read(&doing, &found.ok_or_else(|| POLICIES.missing(policy))?)
}

fn view(status: &WorkloadStatus) -> View {
    let UpdateProgress { state, started_at, completed_at, message, total, done, failed, set_aside, blocked } =
        &status.update;
    let mut table = Table::new(&["name", "value"]).keeping(&["value"]);
    let mut push = |name: &str, value: String| {
        if !value.is_empty() {
            table.push([name.to_owned(), value]);
        }
    };
    push("policy", status.policy.clone());
    push("version", status.version.clone().unwrap_or_default());
    push("state", state.clone());
    push("slots", format!("{done}/{total}"));
    push("without a node", if *set_aside > 0 { set_aside.to_string() } else { String::new() });
    push("failed", if *failed > 0 { failed.to_string() } else { String::new() });
    push("message", message.clone());
    push("started", started_at.clone().unwrap_or_default());
    push("completed", completed_at.clone().unwrap_or_default());
    for slot in blocked.iter().flat_map(|blocked| &blocked.slots) {
        push("blocked", format!("{}: {}", slot.reason, slot.detail));
    }
    push("hint", hint(status));
    View::new(serde_json::to_value(&status.update).unwrap_or_default(), table)
}

fn hint(status: &WorkloadStatus) -> String {
    match (&status.update.blocked, status.update.state.as_str()) {
        (Some(blocked), _) => hint_for(blocked, &status.policy),
        (None, "rollback-completed") => format!(
            "the version that was rolled back is not deployed until another one is written, or until: hzn rollout retry {}",
            status.policy
        ),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_action_is_explained_by_the_events_of_its_policy() {
        let failed = |exit| CliError::new(exit, "start of o/p has failed", "why", "advice");
        let found = with_events(failed(Exit::WaitFailed), "o/p");
        assert_eq!(found.advice, "see what happened with: hzn exchange deployment orchestration events o/p");
        assert_eq!(with_events(failed(Exit::WaitTimeout), "o/p").advice, "advice");
    }
}
