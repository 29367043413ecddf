//! `hzn rollout`: how rollouts through HA groups stand, and what administrators do about them (orchestration 2.8, B12).

use clap::{Args, Subcommand};
use evenkeel_client::Path;
use http::Method;
use serde_json::Value;

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, note};

const COLUMNS: [(&str, &str); 6] = [
    ("group", "group"),
    ("policy", "policy"),
    ("to", "target"),
    ("done", "done"),
    ("of", "total"),
    ("how it stands", "text"),
];

/// Options of `rollout`.
#[derive(Debug, Args)]
pub struct RolloutArguments {
    #[command(flatten)]
    user: UserOptions,
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Shows the rollouts of a deployment policy, or of all
    Status {
        /// Deployment policy
        policy: Option<String>,
        /// Only in this HA group
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Lets the member in work finish and touches no further one
    Pause(Wish),
    /// Goes on with a rollout that is held
    Resume(Wish),
    /// Pauses a rollout that is not meant to go on
    Abort(Wish),
    /// Takes the members that changed back to the version they had
    #[command(visible_alias = "rollback")]
    Undo(Wish),
    /// Tries a version again that failed
    ///
    /// A version that failed is not tried again by itself, not even when the policy is written again with the same
    /// version; a policy that names another version starts a new rollout without this command.
    Retry(Wish),
}

/// Which rollouts are meant.
#[derive(Debug, Args)]
struct Wish {
    /// Deployment policy
    policy: String,
    /// Only in this HA group [default: in every group]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
}

/// Runs a command for rollouts.
///
/// # Errors
/// Those of the command.
pub async fn run(arguments: RolloutArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    match arguments.command {
        RolloutCommand::Status { policy, group, watch } => {
            let look = async || status(context, &exchange, policy.as_deref(), group.as_deref()).await;
            context.show_watched(&watch, look).await
        }
        RolloutCommand::Pause(wish) => ask(context, &exchange, &wish, "pause").await,
        RolloutCommand::Resume(wish) => ask(context, &exchange, &wish, "resume").await,
        RolloutCommand::Abort(wish) => ask(context, &exchange, &wish, "abort").await,
        RolloutCommand::Undo(wish) => ask(context, &exchange, &wish, "rollback").await,
        RolloutCommand::Retry(wish) => ask(context, &exchange, &wish, "retry").await,
    }
}

async fn status(
    context: &Context,
    exchange: &Exchange,
    policy: Option<&str>,
    group: Option<&str>,
) -> Outcome<View> {
    let qualified = |name: &str| {
        let (org, id) = exchange.split(name);
        format!("{org}/{id}")
    };
    let (policy, group) = (policy.map(qualified), group.map(qualified));
    let path = Path::org(&exchange.org, &["agbot", "rollouts"]);
    let found = context.agbot(exchange)?.get("asking the agbot for its rollouts", &path).await?;
    Ok(chosen(&found, policy.as_deref(), group.as_deref()))
}

fn chosen(found: &Value, policy: Option<&str>, group: Option<&str>) -> View {
    let is = |entry: &Value, member: &str, wanted: Option<&str>| {
        wanted.is_none_or(|wanted| entry.get(member).and_then(Value::as_str) == Some(wanted))
    };
    let entries = found.get("rollouts").and_then(Value::as_array).cloned().unwrap_or_default();
    let entries: Vec<Value> = entries
        .into_iter()
        .filter(|entry| is(entry, "policy", policy) && is(entry, "group", group))
        .collect();
    let table = Table::of_list(&entries, &COLUMNS);
    View::new(Value::Array(entries), table)
}

async fn ask(context: &Context, exchange: &Exchange, wish: &Wish, word: &str) -> Outcome {
    let (org, policy) = exchange.split(&wish.policy);
    let mut path = Path::org(&org, &["agbot", "rollouts", &policy, word]);
    if let Some(group) = &wish.group {
        path = path.query("group", &exchange.split(group).1);
    }
    let agbot = context.agbot(exchange)?;
    let doing = format!("asking for {word} of the rollout of {org}/{policy}");
    let answer = agbot.attempt(&doing, Method::POST, &path, None).await?;
    match answer.status.as_u16() {
        404 => {
            Err(CliError::not_found("rollout of policy", &format!("{org}/{policy}"), "hzn rollout status"))
        }
        status if status < 300 => {
            let found: Value = answer.json().unwrap_or_default();
            let entries = found.get("rollouts").and_then(Value::as_array).cloned().unwrap_or_default();
            for refused in found.get("refused").and_then(Value::as_array).into_iter().flatten() {
                note(format!("left as it is: {}", refused.as_str().unwrap_or_default()));
            }
            let table = Table::of_list(&entries, &COLUMNS);
            context.screen.show(&View::new(Value::Array(entries), table))
        }
        _ => Err(agbot.failed(&doing, &answer.unexpected())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rollouts_are_chosen_by_policy_and_group() {
        let found = json!({"rollouts": [
            {"group": "o/g", "policy": "o/p", "text": "held: paused by o/ann"},
            {"group": "o/h", "policy": "o/p", "text": "completed"}]});
        let view = chosen(&found, Some("o/p"), Some("o/g"));
        assert_eq!(view.json, json!([found["rollouts"][0]]));
        assert_eq!(view.table.rows[0].last().map(String::as_str), Some("held: paused by o/ann"));
        assert_eq!(chosen(&found, Some("o/q"), None).json, json!([]));
        assert_eq!(chosen(&found, None, None).table.rows.len(), 2);
    }
}
