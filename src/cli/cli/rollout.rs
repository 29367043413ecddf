//! `hzn rollout`: the state of rollouts through HA groups, and actions of administrators on them
//! (orchestration 2.8, B12).

use clap::{Args, Subcommand};
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::orchestration::UpdateBlocked;
use evenkeel_wire::agbot::rollout::{Rollout, WorkloadUpdate};
use serde::Deserialize as _;
use serde_json::Value;

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::resource::kinds::{GROUPS, POLICIES};
use crate::resource::{require_if_empty, require_selectors};
use crate::rollout_detail;
use crate::update_text::blocked_text;
use crate::wait::Wait;
use crate::wait::rollout::{Followed, Goal};
use crate::wait::update::RollbackReasons;

const COLUMNS: [(&str, &str); 6] = [
    ("policy", "policy"),
    ("group", "group"),
    ("version", "version"),
    ("done", "done"),
    ("state", "state"),
    ("message", "text"),
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
    /// Shows the rollout of a deployment policy in detail: time left, waves, steps, and what failing nodes have in common
    Show {
        /// Deployment policy
        policy: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Pauses a rollout: the current member finishes, and no other one is stopped
    Pause(Chosen),
    /// Resumes a rollout that is paused
    Resume(Chosen),
    /// Pauses a rollout that is not meant to continue
    Abort(Chosen),
    /// Rolls the changed members back to their previous version
    #[command(visible_alias = "rollback")]
    Undo(Chosen),
    /// Retries a failed version
    ///
    /// A version that failed is not tried again automatically, even if the policy is written again with the same
    /// version. A policy that names another version starts a new rollout without this command.
    Retry(Chosen),
}

/// Selection of rollouts.
#[derive(Debug, Args)]
struct Chosen {
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
/// Returns the error of the command.
pub async fn run(arguments: RolloutArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    match arguments.command {
        RolloutCommand::Status { policy, group, watch, wait } => {
            let read = async || status(context, &exchange, policy.as_deref(), group.as_deref()).await;
            read().await?;
            if let Some(policy) = &policy {
                rollout_detail::note_time_left(context, &exchange, policy).await;
            }
            let names = (policy.as_deref(), group.as_deref());
            let outcome = follow(context, &exchange, names, (&wait, Goal::Completed)).await;
            context.show_watched(&watch, read).await?;
            outcome
        }
        RolloutCommand::Show { policy, watch } => {
            let read = async || rollout_detail::view(context, &exchange, &policy).await;
            context.show_watched(&watch, read).await
        }
        RolloutCommand::Pause(chosen) => act(context, &exchange, &chosen, ("pause", Goal::Held)).await,
        RolloutCommand::Resume(chosen) => act(context, &exchange, &chosen, ("resume", Goal::Completed)).await,
        RolloutCommand::Abort(chosen) => act(context, &exchange, &chosen, ("abort", Goal::Held)).await,
        RolloutCommand::Undo(chosen) => {
            act(context, &exchange, &chosen, ("rollback", Goal::RolledBack)).await
        }
        RolloutCommand::Retry(chosen) => act(context, &exchange, &chosen, ("retry", Goal::Completed)).await,
    }
}

/// Returns the rollouts through HA groups and the updates of policies with `orchestration` in one list.
///
/// # Errors
/// With status 5 when the agbot does not respond, 8 when the policy or the group does not exist.
pub async fn status(
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
    let agbot = context.agbot(exchange)?;
    let doing = "asking the agbot for its rollouts";
    let found = agbot.call(doing, agbot.client.rollout_records(&exchange.org)).await?;
    let mut chosen = Vec::new();
    for record in found.rollouts {
        let rollout: Rollout = agbot.read(doing, &record)?;
        if is_chosen(&rollout, policy.as_deref(), group.as_deref()) {
            chosen.push(record);
        }
    }
    for record in found.workloads {
        let update: WorkloadUpdate = agbot.read(doing, &record)?;
        if group.is_none() && policy.as_deref().is_none_or(|policy| update.policy.as_str() == policy) {
            chosen.push(record);
        }
    }
    require_if_empty(view(chosen), exchange, &selectors).await
}

fn is_chosen(rollout: &Rollout, policy: Option<&str>, group: Option<&str>) -> bool {
    policy.is_none_or(|policy| rollout.policy.as_str() == policy)
        && group.is_none_or(|group| rollout.group.as_str() == group)
}

fn view(records: Vec<RawJson>) -> View {
    let entries: Vec<Value> = records.into_iter().map(RawJson::into_value).collect();
    let rows: Vec<Value> = entries.iter().map(row).collect();
    let table = Table::of_list(&rows, &COLUMNS).keeping(&["group", "version", "done", "message"]);
    View::new(Value::Array(entries), table)
}

/// Returns an entry with the texts of its columns: the version, the progress, and one word for its state.
fn row(entry: &Value) -> Value {
    let mut row = with_blocked(entry);
    // The group belongs to the organization of the nodes, usually that of the policy, which is named only once.
    let org = |name: &str| entry[name].as_str().and_then(|id| id.split_once('/'));
    if let (Some((policy_org, _)), Some((group_org, group))) = (org("policy"), org("group"))
        && policy_org == group_org
    {
        row["group"] = Value::from(group);
    }
    let version = entry["target"].as_str().and_then(|target| target.rsplit(' ').next()).unwrap_or_default();
    row["version"] = Value::from(version);
    // Numbers are left out for callers who may not read every member.
    row["done"] = match (entry["done"].as_u64(), entry["total"].as_u64()) {
        (Some(done), Some(total)) => Value::from(format!("{done}/{total}")),
        _ => Value::Null,
    };
    let state = match (entry["state"].as_str().unwrap_or_default(), entry["rollback"].is_object()) {
        ("updating", true) => "rollback-started",
        ("paused" | "held", true) => "rollback-paused",
        ("completed", true) => "rollback-completed",
        // An older agbot's word.
        ("held", false) => "paused",
        (state, _) => state,
    };
    row["state"] = Value::from(state);
    row
}

/// Adds the reason for which an update is blocked to its text.
fn with_blocked(entry: &Value) -> Value {
    let blocked = entry.get("blocked").and_then(|blocked| UpdateBlocked::deserialize(blocked).ok());
    let mut row = entry.clone();
    if let (Some(blocked), Some(policy), Some(text)) =
        (blocked, entry["policy"].as_str(), entry["text"].as_str())
    {
        row["text"] = Value::from(format!("{text}, {}", blocked_text(&blocked, policy)));
    }
    row
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
    let reasons = RollbackReasons::default();
    wait.follow(context, &what, async || followed.progress(context, exchange, &reasons).await).await
}

async fn act(
    context: &Context,
    exchange: &Exchange,
    chosen: &Chosen,
    (action, goal): (&str, Goal),
) -> Outcome {
    let (org, policy) = exchange.split(&chosen.policy);
    let group = chosen.group.as_deref().map(|group| exchange.split(group).1);
    let agbot = context.agbot(exchange)?;
    let doing = format!("asking for {action} of the rollout of {org}/{policy}");
    let acted = agbot.client.act_on_rollouts(&org, &policy, action, group.as_deref());
    let acted = acted.await.map_err(|error| {
        let failed = agbot.failed(&doing, &error);
        if error.status() != Some(409) {
            return failed;
        }
        failed.with_advice(format!(
            "see the state that the reason is about with: hzn rollout status {org}/{policy}"
        ))
    })?;
    let Some(found) = acted else {
        let selectors = [(&POLICIES, Some(chosen.policy.as_str())), (&GROUPS, chosen.group.as_deref())];
        require_selectors(exchange, &selectors).await?;
        return Err(CliError::not_found(
            "rollout of policy",
            &format!("{org}/{policy}"),
            "hzn rollout status",
        ));
    };
    for refused in &found.refused {
        print_note(format!("not changed: {refused}"));
    }
    if chosen.wait.limit.is_none() {
        return context.screen.show(&view([found.rollouts, found.workloads].concat()));
    }
    let names = (Some(chosen.policy.as_str()), chosen.group.as_deref());
    let outcome = follow(context, exchange, names, (&chosen.wait, goal)).await;
    context.screen.show(&status(context, exchange, names.0, names.1).await?)?;
    outcome
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wait::rollout::tests::rollout;

    #[test]
    fn rollouts_are_chosen_by_policy_and_group() {
        let held = rollout("o/g", json!({"state": "paused", "hold": {}, "since": "t"}), "paused by o/ann");
        assert!(is_chosen(&held, Some("o/p"), Some("o/g")) && is_chosen(&held, None, None));
        assert!(!is_chosen(&held, Some("o/q"), None) && !is_chosen(&held, None, Some("o/h")));
        let document = json!({"group": "o/g", "policy": "o/p", "text": "paused by o/ann", "more": 1});
        let view = view(vec![document.clone().into()]);
        assert_eq!(view.json, json!([document]));
        assert_eq!(view.table.rows[0].last().map(String::as_str), Some("paused by o/ann"));
    }

    #[test]
    fn rollouts_and_updates_have_the_same_words_and_fit_on_80_columns() {
        let of_group = json!({
            "group": "plant7/press-line-a", "policy": "plant7/camera-watch", "target": "plant7/camera 10.20.30", "state": "paused",
            "hold": {}, "since": "t", "rollback": {"version": "10.20.30"}, "done": 1, "total": 12,
            "text": "paused: 10.20.30 failed on plant7/press-a-7: image not found",
        });
        let of_tasks = json!({
            "policy": "plant7/gauge-reader", "target": "plant7/gauge 2.0.0", "state": "paused", "done": 2, "total": 3,
            "text": "paused, 2 of 3 done, 1 failed",
        });
        let table = view(vec![of_group.into(), of_tasks.into()]).table;
        let states: Vec<&str> = table.rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(states, ["rollback-paused", "paused"]);
        let text = table.render(Some(80));
        let escapes = "\u{1b}[1m\u{1b}[0m".len();
        assert!(text.lines().all(|line| line.chars().count() <= 80 + escapes), "{text}");
        let line =
            |policy: &str| text.lines().find(|line| line.starts_with(policy)).unwrap_or_default().to_owned();
        let (camera, gauge) = (line("plant7/camera-watch"), line("plant7/gauge-reader"));
        assert!(
            camera.contains("press-line-a") && camera.contains("10.20.30") && camera.contains("1/12"),
            "{text}"
        );
        assert!(gauge.contains("2.0.0") && gauge.contains("2/3") && gauge.contains("paused"), "{text}");
    }

    #[test]
    fn blocked_update_is_explained_in_the_table() {
        let blocked = json!({"since": "t", "rules": ["HALock"], "hint": "wait", "slots": [
            {"slot": 1, "node": "n1", "reason": "HALock", "detail": "node n2 holds the claim"},
        ]});
        let document = json!({"policy": "o/p", "text": "updating, 0 of 3 done", "blocked": blocked});
        let view = view(vec![document.clone().into()]);
        assert_eq!(view.json, json!([document]));
        let text = "updating, 0 of 3 done, blocked: HALock: node n2 holds the claim (wait)";
        assert_eq!(view.table.rows[0].last().map(String::as_str), Some(text));
    }
}
