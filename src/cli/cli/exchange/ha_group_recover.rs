//! `hzn exchange hagroup recover`: recovers members of an HA group by its health policy (orchestration C7).

use clap::Args;
use evenkeel_wire::agbot::action::{ActionRequest, ActionState};
use serde_json::json;

use super::orch::action::done_text;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::View;
use crate::resource::ha_group::members;
use crate::resource::kinds::{GROUPS, NODES};
use crate::resource::require_selectors;
use crate::wait::{Progress, Wait};

/// The recovery of members of an HA group.
#[derive(Debug, Args)]
pub struct RecoverMembers {
    /// Name of the group
    name: String,
    /// Only this member
    #[arg(long = "nodeId", visible_alias = "node-id", alias = "node", short = 'm', value_name = "NODE")]
    node: Option<String>,
    /// Examines the members by the health policy; without it only those that are down are recovered
    #[arg(long)]
    check: bool,
    /// The action to take instead of those of the health policy: RECREATE or REBOOT
    #[arg(long, value_name = "ACTION")]
    operation: Option<String>,
    /// Type of the operation REBOOT: SOFT or HARD
    #[arg(long = "type", value_name = "TYPE", requires = "operation")]
    reboot: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

/// Recovers members of an HA group.
///
/// # Errors
/// With status 8 when the group or the node does not exist, 5 when the agbot refuses the action or does not respond.
pub async fn recover(context: &Context, exchange: &Exchange, wanted: &RecoverMembers) -> Outcome {
    let (org, name) = exchange.split(&wanted.name);
    let agbot = context.agbot(exchange)?;
    let request = ActionRequest {
        node: wanted.node.clone(),
        check: wanted.check.then_some(true),
        operation: wanted.operation.clone(),
        operation_params: wanted.reboot.as_ref().map(|text| json!({"type": text})),
        ..ActionRequest::default()
    };
    let doing = format!("recover of {org}/{name}");
    let found = agbot.call(&doing, agbot.client.recover_ha_group(&org, &name, &request)).await?;
    let Some(accepted) = found else {
        require_selectors(exchange, &[(&NODES, wanted.node.as_deref())]).await?;
        members(exchange, &wanted.name).await?;
        let (node, list) = (wanted.node.as_deref().unwrap_or_default(), "hzn exchange hagroup list");
        let member = format!("{node} of HA group {}", wanted.name);
        return Err(CliError::not_found("member", &member, &format!("{list} {}", wanted.name)));
    };
    let id = accepted.action_id;
    agbot.report_done(&format!("action {id} accepted: recover of {org}/{name}"));
    let progress = async || {
        let found = read_action(context, exchange, &wanted.name, &id).await?;
        Ok(match found.state.as_str() {
            "done" => Progress::Done(done_text(&doing, &found)),
            "running" => Progress::Pending(format!("recover of {org}/{name} is in progress")),
            _ => Progress::Failed(found.message),
        })
    };
    let outcome = wanted.wait.follow(context, &doing, progress).await;
    if context.screen.format.is_some() && !exchange.server.is_dry_run {
        let found = read_action(context, exchange, &wanted.name, &id).await?;
        context.screen.show(&View::of(serde_json::to_value(&found).unwrap_or_default()))?;
    }
    outcome
}

async fn read_action(context: &Context, exchange: &Exchange, group: &str, id: &str) -> Outcome<ActionState> {
    let (org, name) = exchange.split(group);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading action {id} of {org}/{name}");
    let found = agbot.call(&doing, agbot.client.ha_group_action(&org, &name, id)).await?;
    found.ok_or_else(|| GROUPS.missing(group))
}
