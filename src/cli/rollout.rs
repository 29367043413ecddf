//! `hzn rollout`: how rollouts through HA groups stand, and what administrators do about them (orchestration 2.8, B12).

use clap::{Args, Subcommand};
use evenkeel_client::Path;
use http::Method;
use serde_json::Value;

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exchange::deployment::POLICIES;
use crate::exchange::ha_group::GROUPS;
use crate::exchange::resource::require_selectors;
use crate::exit::{CliError, Outcome};
use crate::hub::require_if_empty;
use crate::output::{Table, View, note};
use crate::wait::Wait;
use crate::wait::rollout::{Followed, Goal};

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
        #[command(flatten)]
        wait: Wait,
    },
    /// Lets the current member finish and stops no other one
    Pause(Wish),
    /// Resumes a rollout that is held
    Resume(Wish),
    /// Pauses a rollout that is not meant to continue
    Abort(Wish),
    /// Returns the changed members to the version they had
    #[command(visible_alias = "rollback")]
    Undo(Wish),
    /// Tries a failed version again
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
    #[command(flatten)]
    wait: Wait,
}

/// Runs a command for rollouts.
///
/// # Errors
/// Those of the command.
pub async fn run(arguments: RolloutArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    match arguments.command {
        RolloutCommand::Status { policy, group, watch, wait } => {
            let look = async || status(context, &exchange, policy.as_deref(), group.as_deref()).await;
            look().await?;
            let names = (policy.as_deref(), group.as_deref());
            let outcome = follow(context, &exchange, names, (&wait, Goal::Completed)).await;
            context.show_watched(&watch, look).await?;
            outcome
        }
        RolloutCommand::Pause(wish) => ask(context, &exchange, &wish, ("pause", Goal::Held)).await,
        RolloutCommand::Resume(wish) => ask(context, &exchange, &wish, ("resume", Goal::Completed)).await,
        RolloutCommand::Abort(wish) => ask(context, &exchange, &wish, ("abort", Goal::Held)).await,
        RolloutCommand::Undo(wish) => ask(context, &exchange, &wish, ("rollback", Goal::RolledBack)).await,
        RolloutCommand::Retry(wish) => ask(context, &exchange, &wish, ("retry", Goal::Completed)).await,
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
    let selectors = [(&POLICIES, policy), (&GROUPS, group)];
    let (policy, group) = (policy.map(qualified), group.map(qualified));
    let path = Path::org(&exchange.org, &["agbot", "rollouts"]);
    let found = context.agbot(exchange)?.get("asking the agbot for its rollouts", &path).await?;
    require_if_empty(chosen(&found, policy.as_deref(), group.as_deref()), exchange, &selectors).await
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
    let table = Table::of_list(&entries, &COLUMNS).keeping(&["policy", "how it stands"]);
    View::new(Value::Array(entries), table)
}

/// Follows the rollouts of a policy, of a group, or all.
async fn follow(
    context: &Context,
    exchange: &Exchange,
    (policy, group): (Option<&str>, Option<&str>),
    (wait, goal): (&Wait, Goal),
) -> Outcome {
    let qualified = |name: &str| {
        let (org, id) = exchange.split(name);
        format!("{org}/{id}")
    };
    let org = policy.map_or_else(|| exchange.org.clone(), |policy| exchange.split(policy).0);
    let followed = Followed { org, policy: policy.map(qualified), group: group.map(qualified), goal };
    let what = match &followed.policy {
        Some(policy) => format!("the rollout of {policy}"),
        None => "a rollout".to_owned(),
    };
    wait.follow(context, &what, async || followed.progress(context, exchange).await).await
}

async fn ask(context: &Context, exchange: &Exchange, wish: &Wish, (word, goal): (&str, Goal)) -> Outcome {
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
            let selectors = [(&POLICIES, Some(wish.policy.as_str())), (&GROUPS, wish.group.as_deref())];
            require_selectors(exchange, &selectors).await?;
            Err(CliError::not_found("rollout of policy", &format!("{org}/{policy}"), "hzn rollout status"))
        }
        code if code < 300 => {
            let found: Value = answer.json().unwrap_or_default();
            let entries = found.get("rollouts").and_then(Value::as_array).cloned().unwrap_or_default();
            for refused in found.get("refused").and_then(Value::as_array).into_iter().flatten() {
                note(format!("left as it is: {}", refused.as_str().unwrap_or_default()));
            }
            if wish.wait.limit.is_none() {
                let table = Table::of_list(&entries, &COLUMNS).keeping(&["policy", "how it stands"]);
                return context.screen.show(&View::new(Value::Array(entries), table));
            }
            let names = (Some(wish.policy.as_str()), wish.group.as_deref());
            let outcome = follow(context, exchange, names, (&wish.wait, goal)).await;
            context.screen.show(&status(context, exchange, names.0, names.1).await?)?;
            outcome
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
