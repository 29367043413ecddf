//! `hzn agbot`: what the hub's agbot agreed to, why it did not, and what it is doing (agbot 4.1).

use clap::{Args, Subcommand};
use evenkeel_client::Path;
use serde_json::{Map, Value, json};

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exchange::deployment::POLICIES;
use crate::exchange::node::NODES;
use crate::exchange::resource::{Selectors, require_selectors};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, cell_text, note};

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
    Agreement(HubAgreementCommand),
    /// Shows for each node and deployment policy what runs, or what it waits for
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
        /// Only those of this HA group
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        /// Only those of this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Only those of this deployment policy
        #[arg(long = "policy", value_name = "POLICY")]
        policy: Option<String>,
        /// Maximum number of events, up to 500
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: Option<u16>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the state of the agbot
    Status,
}

#[derive(Debug, Subcommand)]
enum HubAgreementCommand {
    /// Shows agreements
    List {
        /// Only those of this node
        #[arg(long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Show those that ended
        #[arg(short = 'r', long = "archivedAgreements", visible_alias = "archived")]
        archived: bool,
        /// Show the agbot's records as they are
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Confirms that the instance of an ended agreement does not run any more
    ///
    /// Where one instance is wanted in an HA group, the next one starts only when the node of the last one confirmed that it
    /// stopped. Use this only after you made sure of it yourself: otherwise two instances may run.
    Confirmstop {
        /// Id of the agreement
        agreement: String,
    },
}

/// Runs a command for the hub's agbot.
///
/// # Errors
/// Those of the command.
pub async fn run(arguments: AgbotArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    let read = async |what: &str| -> Outcome<Value> {
        let agbot = context.agbot(&exchange)?;
        let path = Path::org(&exchange.org, &["agbot", what]);
        agbot.get(&format!("asking the agbot for its {what}"), &path).await
    };
    match arguments.command {
        AgbotCommand::Agreement(HubAgreementCommand::List { node, archived, long, watch }) => {
            let look = async || {
                let wanted = node.as_deref().map(|node| qualified(&exchange, node));
                let view = agreements(&read("agreements").await?, wanted.as_deref(), archived, long);
                require_if_empty(view, &exchange, &[(&NODES, node.as_deref())]).await
            };
            context.show_watched(&watch, look).await
        }
        AgbotCommand::Agreement(HubAgreementCommand::Confirmstop { agreement }) => {
            let agbot = context.agbot(&exchange)?;
            agbot.client.confirm_stop(&exchange.org, &agreement).await.map_err(|error| {
                if error.is_not_found() {
                    let list = "hzn agbot agreement list --archived";
                    return CliError::not_found("agreement", &agreement, list);
                }
                agbot.failed(&format!("confirming the stop of agreement {agreement}"), &error)
            })?;
            note(format!("the instance of agreement {agreement} counts as stopped"));
            Ok(())
        }
        AgbotCommand::Reasons { node, policy, watch } => {
            let look = async || {
                let of_org = |name: &Option<String>| name.as_deref().map(|name| qualified(&exchange, name));
                let view =
                    reasons(&read("reasons").await?, of_org(&node).as_deref(), of_org(&policy).as_deref());
                let selectors = [(&NODES, node.as_deref()), (&POLICIES, policy.as_deref())];
                require_if_empty(view, &exchange, &selectors).await
            };
            context.show_watched(&watch, look).await
        }
        AgbotCommand::Rollouts { watch } => {
            let columns = [
                ("group", "group"),
                ("policy", "policy"),
                ("to", "target"),
                ("done", "done"),
                ("of", "total"),
                ("state", "state"),
                ("how it stands", "text"),
            ];
            let look = async || {
                require_if_empty(listed(&read("rollouts").await?, "rollouts", &columns), &exchange, &[]).await
            };
            context.show_watched(&watch, look).await
        }
        AgbotCommand::Events { group, node, policy, limit, watch } => {
            let mut path = Path::org(&exchange.org, &["agbot", "events"]);
            for (name, value) in [("group", group), ("node", node), ("policy", policy)] {
                if let Some(value) = value {
                    path = path.query(name, &qualified(&exchange, &value));
                }
            }
            if let Some(limit) = limit {
                path = path.query("limit", &limit.to_string());
            }
            let columns = [
                ("time", "at"),
                ("kind", "kind"),
                ("group", "haGroup"),
                ("node", "node"),
                ("policy", "policy"),
                ("detail", "detail"),
            ];
            let agbot = context.agbot(&exchange)?;
            let look = async || {
                let found = agbot.get("asking the agbot for its events", &path).await?;
                require_if_empty(listed(&found, "events", &columns), &exchange, &[]).await
            };
            context.show_watched(&watch, look).await
        }
        AgbotCommand::Status => {
            let agbot = context.agbot(&exchange)?;
            let found =
                agbot.get("asking the agbot for its status", &Path::new(&["agbot", "status"])).await?;
            context.screen.show(&View::of(found))
        }
    }
}

/// How a pair of node and policy stands by the agbot's own record; `None` when it has none.
///
/// # Errors
/// With status 5 when the agbot does not answer.
pub async fn reason_for(
    context: &Context,
    exchange: &Exchange,
    node: &str,
    policy: &str,
) -> Outcome<Option<Value>> {
    let agbot = context.agbot(exchange)?;
    let (org, _) = exchange.split(node);
    let path = Path::org(&org, &["agbot", "reasons"]);
    let found = agbot.find("asking the agbot for its reasons", &path).await?.unwrap_or_default();
    Ok(chosen(&found, Some(node), Some(policy)).into_iter().next())
}

/// An answer without entries is one only when everything that selected them exists.
///
/// # Errors
/// With status 8 for a name that does not exist.
pub async fn require_if_empty(view: View, exchange: &Exchange, selectors: &Selectors<'_>) -> Outcome<View> {
    if view.table.rows.is_empty() {
        require_selectors(exchange, selectors).await?;
    }
    Ok(view)
}

fn qualified(exchange: &Exchange, name: &str) -> String {
    let (org, id) = exchange.split(name);
    format!("{org}/{id}")
}

fn listed(found: &Value, member: &str, columns: &[(&str, &str)]) -> View {
    let entries = found.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let table = Table::of_list(&entries, columns).keeping(&["policy", "kind", "how it stands"]);
    View::new(Value::Array(entries), table)
}

fn chosen(found: &Value, node: Option<&str>, policy: Option<&str>) -> Vec<Value> {
    let entries = found.get("reasons").and_then(Value::as_array).cloned().unwrap_or_default();
    let is = |entry: &Value, member: &str, wanted: Option<&str>| {
        wanted.is_none_or(|wanted| entry.get(member).and_then(Value::as_str) == Some(wanted))
    };
    entries.into_iter().filter(|entry| is(entry, "node", node) && is(entry, "policy", policy)).collect()
}

/// The reasons of a node or of a policy as a table; of all without either.
pub fn reasons(found: &Value, node: Option<&str>, policy: Option<&str>) -> View {
    let mut entries = inert(found, node, policy);
    entries.extend(chosen(found, node, policy));
    let table =
        Table::of_list(&entries, &[("node", "node"), ("policy", "policy"), ("how it stands", "text")])
            .keeping(&["policy", "how it stands"]);
    View::new(Value::Array(entries), table)
}

/// Policies that select nothing, in the form of reasons: what is empty holds for every node or policy.
fn inert(found: &Value, node: Option<&str>, policy: Option<&str>) -> Vec<Value> {
    let entries = found.get("inertPolicies").and_then(Value::as_array).into_iter().flatten();
    let shown = entries.filter_map(|entry| {
        let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
        let (kind, id) = (text("kind"), text("id"));
        let is_node = kind == "node";
        let is_asked_for = match (node, policy) {
            (None, None) => true,
            (node, policy) => {
                if is_node {
                    node == Some(id)
                } else {
                    kind == "deployment" && policy == Some(id)
                }
            }
        };
        let errors = entry.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
        let why = format!("this {kind} policy selects nothing: {}", errors.join("; "));
        let (node, policy) = if is_node { (id, "") } else { ("", id) };
        is_asked_for.then(|| json!({"node": node, "policy": policy, "kind": kind, "text": why}))
    });
    shown.collect()
}

fn agreements(found: &Value, node: Option<&str>, archived: bool, is_long: bool) -> View {
    let pointer = if archived { "/agreements/archived" } else { "/agreements/active" };
    let records = found.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_wanted =
        |record: &Value| node.is_none_or(|node| record.get("node").and_then(Value::as_str) == Some(node));
    let records: Vec<Value> = records.into_iter().filter(is_wanted).collect();
    let mut table = Table::new(&["node", "policy", "service", "version", "state", "made", "agreement"])
        .keeping(&["policy", "state"]);
    for record in &records {
        let cell = |member: &str| record.get(member).map(cell_text).unwrap_or_default();
        let members = ["node", "policy", "service", "version", "state", "created_at", "id"];
        table.push(members.map(cell));
    }
    let json = if is_long { records } else { records.iter().map(short).collect() };
    View::new(Value::Array(json), table)
}

/// The form of the existing tool; what an agbot of ours does not keep is empty.
fn short(record: &Value) -> Value {
    let text = |member: &str| record.get(member).map(cell_text).unwrap_or_default();
    let policy = text("policy");
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| {
        shown.insert(name.to_owned(), value);
    };
    put("current_agreement_id", Value::from(text("id")));
    put("org", Value::from(policy.split('/').next().unwrap_or_default()));
    put("edge_node_id", Value::from(text("node")));
    put("agreement_protocol", Value::from("Basic"));
    put("agreement_inception_time", Value::from(local(&text("created_at"))));
    put("agreement_creation_time", Value::from(local(&text("created_at"))));
    let finalized = if text("state") == "finalized" { text("at") } else { String::new() };
    put("agreement_finalized_time", Value::from(local(&finalized)));
    put("data_verification_time", Value::from(local(&text("verified_at"))));
    put("data_notification_sent", Value::from(""));
    put("policy_name", Value::from(policy.clone()));
    put("pattern", Value::from(""));
    put("service", Value::from(text("service")));
    put("version", Value::from(text("version")));
    put("state", Value::from(text("state")));
    if let Some(reason) = record.get("reason") {
        put("terminated_reason", reason.clone());
    }
    Value::Object(shown)
}

fn local(instant: &str) -> String {
    crate::time::local_text(Some(&json!(crate::time::seconds_of(instant))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreements_are_chosen_by_node_and_shown_in_the_form_of_the_contract() {
        let found = json!({"agreements": {"active": [
            {"id": "a1", "node": "o/n1", "policy": "o/p", "service": "o/cam_1.0.0_amd64", "version": "1.0.0",
             "created_at": "2024-05-01T10:00:00Z", "state": "proposed"},
            {"id": "a2", "node": "o/n2", "policy": "o/p"},
        ], "archived": []}});
        let view = agreements(&found, Some("o/n1"), false, false);
        assert_eq!(view.json.as_array().map(Vec::len), Some(1));
        assert_eq!((&view.json[0]["edge_node_id"], &view.json[0]["org"]), (&json!("o/n1"), &json!("o")));
        assert_eq!(view.json[0]["agreement_finalized_time"], json!(""));
        assert_eq!(agreements(&found, None, false, true).json[1]["id"], "a2");
        assert_eq!(agreements(&found, None, true, false).json, json!([]));
    }

    #[test]
    fn reasons_are_chosen_by_node_and_policy() {
        let found = json!({"reasons": [
            {"node": "o/n1", "policy": "o/p", "text": "x"}, {"node": "o/n1", "policy": "o/q", "text": "y"}]});
        assert_eq!(reasons(&found, Some("o/n1"), Some("o/q")).json, json!([found["reasons"][1]]));
        assert_eq!(reasons(&found, None, None).table.rows.len(), 2);
        let mut found = found;
        found["inertPolicies"] = json!([
            {"kind": "management", "id": "o/m", "errors": ["constraint 0 is wrong"]},
            {"kind": "node", "id": "o/n1", "errors": ["x"]}, {"kind": "deployment", "id": "o/q", "errors": ["y"]}]);
        assert_eq!(reasons(&found, None, None).table.rows.len(), 5);
        let of_node = reasons(&found, Some("o/n1"), None).json;
        assert_eq!(of_node[0]["text"], "this node policy selects nothing: x");
        assert_eq!(reasons(&found, None, Some("o/q")).json[0]["policy"], "o/q");
    }
}
