//! `hzn agbot`: agreements, rollouts, reasons and events of the hub's agbot (agbot 4.1).

use clap::{Args, Subcommand};
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::agreement::AgreementRecord;
use evenkeel_wire::agbot::event::EventsQuery;
use serde_json::{Value, json};

use crate::attention::{self, AttentionCommand};
use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::reasons::reasons;
use crate::resource::kinds::{NODES, POLICIES};
use crate::resource::require_if_empty;
use crate::rollout;

/// Options of `agbot`.
#[derive(Debug, Args)]
pub struct AgbotArguments {
    #[command(flatten)]
    user: UserOptions,
    #[command(subcommand)]
    command: AgbotCommand,
}

#[derive(Debug, Subcommand)]
enum AgbotCommand {
    /// Agreements of the organization's nodes
    #[command(subcommand)]
    Agreement(AgreementCommand),
    /// Shows for each node and deployment policy the running instance, or the reason why there is none
    Reasons {
        /// Only this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Only this deployment policy
        #[arg(long = "policy", value_name = "POLICY")]
        policy: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows rollouts through HA groups
    Rollouts {
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the events of the agbot, newest first
    Events {
        /// Only events of this HA group
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        /// Only events of this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Only events of this deployment policy
        #[arg(long = "policy", value_name = "POLICY")]
        policy: Option<String>,
        /// Maximum number of events, up to 500
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: Option<u16>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Problems that a person has to resolve
    #[command(subcommand)]
    Attention(AttentionCommand),
    /// Shows the state of the agbot
    Status,
}

#[derive(Debug, Subcommand)]
enum AgreementCommand {
    /// Shows agreements
    List {
        /// Only agreements of this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Show agreements that ended
        #[arg(short = 'r', long = "archivedAgreements", visible_alias = "archived")]
        archived: bool,
        /// Show the agbot's raw records
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Confirms that the instance of an ended agreement no longer runs
    ///
    /// In an HA group that is to have one instance, the next instance starts only after the node of the previous one
    /// has confirmed that it stopped. Use this command only after you have verified that: otherwise two instances may
    /// run.
    Confirmstop {
        /// Id of the agreement
        agreement: String,
    },
}

/// Runs a command for the hub's agbot.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(arguments: AgbotArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    match arguments.command {
        AgbotCommand::Agreement(AgreementCommand::List { node, archived, long, watch }) => {
            let list = async || {
                let agbot = context.agbot(&exchange)?;
                let doing = "asking the agbot for its agreements";
                let found = agbot.call(doing, agbot.client.agbot_agreements(&exchange.org)).await?;
                let wanted = node.as_deref().map(|node| qualified(&exchange, node));
                let records = if archived { found.archived } else { found.active };
                let view = agreements(agbot.read_all(doing, records)?, wanted.as_deref(), long);
                require_if_empty(view, &exchange, &[(&NODES, node.as_deref())]).await
            };
            context.show_watched(&watch, list).await
        }
        AgbotCommand::Agreement(AgreementCommand::Confirmstop { agreement }) => {
            let agbot = context.agbot(&exchange)?;
            agbot.client.confirm_stop(&exchange.org, &agreement).await.map_err(|error| {
                if error.is_not_found() {
                    let list = "hzn agbot agreement list --archived";
                    return CliError::not_found("agreement", &agreement, list);
                }
                agbot.failed(&format!("confirming the stop of agreement {agreement}"), &error)
            })?;
            print_note(format!("the instance of agreement {agreement} counts as stopped"));
            Ok(())
        }
        AgbotCommand::Reasons { node, policy, watch } => {
            let list = async || {
                let of_org = |name: &Option<String>| name.as_deref().map(|name| qualified(&exchange, name));
                let (of_node, of_policy) = (of_org(&node), of_org(&policy));
                let names = (of_node.as_deref(), of_policy.as_deref());
                let view = reasons(context, &exchange, &exchange.org, names).await?;
                let selectors = [(&NODES, node.as_deref()), (&POLICIES, policy.as_deref())];
                require_if_empty(view, &exchange, &selectors).await
            };
            context.show_watched(&watch, list).await
        }
        AgbotCommand::Rollouts { watch } => {
            let list = async || rollout::status(context, &exchange, None, None).await;
            context.show_watched(&watch, list).await
        }
        AgbotCommand::Events { group, node, policy, limit, watch } => {
            let of_org = |name: Option<String>| name.map(|name| qualified(&exchange, &name));
            let query = EventsQuery {
                group: of_org(group),
                node: of_org(node),
                policy: of_org(policy),
                limit: limit.map(i64::from),
            };
            let columns = [
                ("time", "at"),
                ("kind", "kind"),
                ("group", "haGroup"),
                ("node", "node"),
                ("policy", "policy"),
                ("detail", "detail"),
            ];
            let agbot = context.agbot(&exchange)?;
            let list = async || {
                let found = agbot.client.event_records(&exchange.org, &query);
                let found = agbot.call("asking the agbot for its events", found).await?;
                require_if_empty(listed(found, &columns), &exchange, &[]).await
            };
            context.show_watched(&watch, list).await
        }
        AgbotCommand::Attention(command) => attention::run(command, context, &exchange).await,
        AgbotCommand::Status => {
            let agbot = context.agbot(&exchange)?;
            let found = agbot.client.agbot_status_record();
            let found = agbot.call("asking the agbot for its status", found).await?;
            context.screen.show(&View::of(found.into_value()))
        }
    }
}

fn qualified(exchange: &Exchange, name: &str) -> String {
    let (org, id) = exchange.split(name);
    format!("{org}/{id}")
}

fn listed(records: Vec<RawJson>, columns: &[(&str, &str)]) -> View {
    let entries: Vec<Value> = records.into_iter().map(RawJson::into_value).collect();
    let table = Table::of_list(&entries, columns).keeping(&["policy", "kind"]);
    View::new(Value::Array(entries), table)
}

fn agreements(found: Vec<(AgreementRecord, RawJson)>, node: Option<&str>, is_long: bool) -> View {
    let is_wanted = |record: &AgreementRecord| node.is_none_or(|node| record.node == node);
    let mut table = Table::new(&["node", "policy", "service", "version", "state", "made", "agreement"])
        .keeping(&["policy", "state"]);
    let mut json = Vec::new();
    for (record, document) in found.into_iter().filter(|(record, _)| is_wanted(record)) {
        let cells = [
            &record.node,
            &record.policy,
            &record.service,
            &record.version,
            &record.state,
            &record.created_at,
            &record.id,
        ];
        table.push(cells.map(String::clone));
        json.push(if is_long { document.into_value() } else { short(&record) });
    }
    View::new(Value::Array(json), table)
}

/// The format of the existing tool; members that this agbot does not store are empty.
fn short(record: &AgreementRecord) -> Value {
    let finalized_at = record.at.as_deref().filter(|_| record.state == "finalized").unwrap_or_default();
    let mut shown = json!({
        "current_agreement_id": record.id,
        "org": record.policy.split('/').next().unwrap_or_default(),
        "edge_node_id": record.node,
        "agreement_protocol": "Basic",
        "agreement_inception_time": local(&record.created_at),
        "agreement_creation_time": local(&record.created_at),
        "agreement_finalized_time": local(finalized_at),
        "data_verification_time": local(record.verified_at.as_deref().unwrap_or_default()),
        "data_notification_sent": "",
        "policy_name": record.policy,
        "pattern": "",
        "service": record.service,
        "version": record.version,
        "state": record.state,
    });
    if let Some(reason) = &record.reason {
        shown["terminated_reason"] = reason.clone();
    }
    shown
}

fn local(instant: &str) -> String {
    crate::time::local_text(Some(&json!(crate::time::seconds_of(instant))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreements_are_chosen_by_node_and_shown_in_the_form_of_the_contract() {
        let records = || {
            let documents = [
                json!({"id": "a1", "node": "o/n1", "policy": "o/p", "service": "o/cam_1.0.0_amd64",
                       "version": "1.0.0", "created_at": "2024-05-01T10:00:00Z", "state": "proposed"}),
                json!({"id": "a2", "node": "o/n2", "policy": "o/p"}),
            ];
            documents.map(RawJson::from).map(|one| (one.read().expect("a record"), one)).into()
        };
        let view = agreements(records(), Some("o/n1"), false);
        assert_eq!(view.json.as_array().map(Vec::len), Some(1));
        assert_eq!((&view.json[0]["edge_node_id"], &view.json[0]["org"]), (&json!("o/n1"), &json!("o")));
        assert_eq!(view.json[0]["agreement_finalized_time"], json!(""));
        assert_eq!(
            agreements(records(), None, true).json[1],
            json!({"id": "a2", "node": "o/n2", "policy": "o/p"})
        );
    }
}
