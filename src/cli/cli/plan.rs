//! `hzn plan`: the effects of a write of a deployment policy, and a token to which the write can be bound (orchestration D3).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_wire::agbot::plan::{PlanResponse, PlannedWorkloadUnit};
use serde_json::{Map, Value};

use crate::context::{Context, Exchange, UserOptions};
use crate::exit::{CliError, Outcome};
use crate::input::{read_json, shaped};
use crate::orchestration::{clause_advice, removal_example};
use crate::output::{View, print_note};
use crate::resource::deployment;
use crate::resource::kinds::POLICIES;
use crate::shape::{DeploymentPolicyFile, complete_policy};
use crate::text_file::shown;

/// Options of `plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    user: UserOptions,
    #[command(flatten)]
    document: PlannedDocument,
}

/// The deployment policy that is planned.
#[derive(Debug, Args)]
pub struct PlannedDocument {
    /// Deployment policy, as [ORG/]POLICY; not needed if the file names it, or has its name as label
    #[arg(required_unless_present = "file")]
    policy: Option<String>,
    /// JSON or YAML file with the policy to be written, - for standard input [default: the stored policy]
    #[arg(short = 'f', long = "json-file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file holds the attributes to change, as for hzn exchange deployment updatepolicy; others stay
    #[arg(long, requires_all = ["file", "policy"])]
    update: bool,
}

/// Binds a write to a plan.
#[derive(Debug, Args)]
pub struct CheckToken {
    /// Write only if the plan of this write still has this token (see hzn plan)
    #[arg(long, value_name = "TOKEN")]
    check_token: Option<String>,
}

/// Shows the effects of a write.
///
/// # Errors
/// With status 8 when there is no such policy, 5 when the agbot has no plan.
pub async fn run(arguments: &PlanArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    let (name, body) = arguments.document.read(context, &exchange).await?;
    let found = plan(context, &exchange, &name, body.as_ref()).await?;
    // A plan is worth showing although the settings cannot be read.
    let requires_approval = exchange.server.client.requires_plan_approval(&exchange.org);
    // The plan stands without the advice: the write is refused with the same one.
    if arguments.document.file.is_some() && requires_approval.await.unwrap_or(false) {
        print_note(format!(
            "organization {} requires that a second person approves this write: hzn approval request policy takes the same arguments",
            exchange.org
        ));
    }
    let json = serde_json::to_value(&found).unwrap_or_default();
    let advice = match &arguments.document.file {
        Some(file) => {
            format!(
                "see which constraint a node does not satisfy with: hzn deploycheck policy -B {} -n NODE",
                shown(file)
            )
        }
        None => clause_advice(found.policy.as_str()),
    };
    context.screen.show(&View::text(&text(&found, &advice), json))
}

impl PlannedDocument {
    /// Returns the name of the policy and the document to be written; none for the stored one.
    ///
    /// # Errors
    /// With status 3 or 4 when the file cannot be read, 1 when it does not name its policy.
    pub async fn read(&self, context: &Context, exchange: &Exchange) -> Outcome<(String, Option<Value>)> {
        let Some(file) = &self.file else { return Ok((self.policy.clone().unwrap_or_default(), None)) };
        let (named, mut body) = read_planned(file, context)?;
        let name = self.policy.clone().or(named).ok_or_else(|| {
            CliError::input(
                "nothing was planned",
                format!("{} does not name its policy", file.display()),
                "name the policy before -f",
            )
        })?;
        if !self.update {
            complete_policy(&name, &mut body)?;
        }
        POLICIES.check(exchange, &name, &body)?;
        deployment::prepare(&mut body, context)?;
        if self.update {
            body = deployment::merged(exchange, &name, body.as_object()).await?;
        }
        Ok((name, Some(body)))
    }
}

impl CheckToken {
    /// Returns whether a token must be checked.
    pub fn is_given(&self) -> bool {
        self.check_token.is_some()
    }

    /// Fails if the plan of a write has another token; `command` shows that plan.
    ///
    /// # Errors
    /// With status 1 if it has, 5 if the agbot has no plan.
    pub async fn check(
        &self,
        context: &Context,
        exchange: &Exchange,
        name: &str,
        command: &str,
        body: impl AsyncFnOnce() -> Outcome<Value>,
    ) -> Outcome {
        let Some(token) = &self.check_token else { return Ok(()) };
        let found = plan(context, exchange, name, Some(&body().await?)).await?;
        if found.token == *token {
            return Ok(());
        }
        Err(CliError::input(
            format!("deployment policy {} was not written", found.policy),
            format!(
                "the document, or the state that it would act on, has changed since the plan: its token is {} now",
                found.token
            ),
            format!("see the new plan with: {command}"),
        ))
    }
}

/// Reads a document of `hzn apply`, or a policy, with its name; a plain policy has none, and its label is taken for it.
fn read_planned(file: &Path, context: &Context) -> Outcome<(Option<String>, Value)> {
    let (name, policy) = named_policy(read_json(file, context)?);
    let policy = shaped::<DeploymentPolicyFile>(&shown(file), &policy, context)?.document;
    let label = policy["label"].as_str().filter(|label| !label.is_empty()).map(str::to_owned);
    Ok((name.or(label), policy))
}

/// Returns the name and the policy of a document of `hzn apply`; a plain policy has no name.
fn named_policy(document: Value) -> (Option<String>, Value) {
    match document {
        Value::Object(members) => {
            let lower = |name: &str| name.to_ascii_lowercase();
            let is_kind = |(name, value): (&String, &Value)| {
                lower(name) == "kind" && value.as_str().is_some_and(|kind| lower(kind) == "policy")
            };
            if !members.iter().any(is_kind) {
                return (None, Value::Object(members));
            }
            let mut of_apply: Map<String, Value> =
                members.into_iter().map(|(name, value)| (lower(&name), value)).collect();
            let name = of_apply.get("name").and_then(Value::as_str).map(str::to_owned);
            (name, of_apply.shift_remove("spec").unwrap_or_default())
        }
        policy => (None, policy),
    }
}

async fn plan(
    context: &Context,
    exchange: &Exchange,
    name: &str,
    body: Option<&Value>,
) -> Outcome<PlanResponse> {
    let (org, id) = exchange.split(name);
    let agbot = context.agbot(exchange)?;
    let doing = format!("planning deployment policy {org}/{id}");
    let found = agbot.call(&doing, agbot.client.plan_deployment_policy(&org, &id, body)).await?;
    found.ok_or_else(|| POLICIES.missing(name))
}

/// Returns the plan in words; `advice`: how to find the constraint that a node does not satisfy.
fn text(plan: &PlanResponse, advice: &str) -> String {
    let mut text = format!("deployment policy {}\n", plan.policy);
    let is_alone = plan.workload_units.len() == 1;
    let mut add = |line: std::fmt::Arguments<'_>| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{line}");
    };
    for part in &plan.workload_units {
        if !is_alone {
            add(format_args!("{}", part.name));
        }
        for change in &part.changes {
            add(format_args!("  {change}"));
        }
        let removed = removed_nodes(part);
        if !removed.is_empty() {
            add(format_args!("  nodes: {removed}"));
        }
        for waiting in &part.blocked {
            add(format_args!("  {waiting}"));
        }
        if let Some(unplaced) = &part.unplaced {
            add(format_args!("  ! {unplaced}"));
        }
    }
    for warning in &plan.warnings {
        add(format_args!("  ! {warning}"));
    }
    if plan.complete && is_empty(plan) {
        add(format_args!("  there is nothing to do"));
    }
    if selects_nothing(plan) {
        add(format_args!("  no instance is there or planned; if one is expected, {advice}"));
    }
    if !plan.complete {
        add(format_args!("  and more changes of this kind"));
    }
    add(format_args!("plan: {}", plan.totals()));
    add(format_args!("token: {}", plan.token));
    text
}

/// Returns how many nodes the constraints of a workload unit remove, with examples if instances get no node; empty if
/// no node is chosen.
fn removed_nodes(part: &PlannedWorkloadUnit) -> String {
    let is_short = part.unplaced.is_some() || part.instances == 0 && part.changes.is_empty();
    if !is_short && part.changes.is_empty() {
        return String::new();
    }
    let removed = part.sequence.iter().filter(|stage| !stage.eliminated.is_empty()).map(|stage| {
        let count = stage.eliminated_count.unwrap_or(stage.eliminated.len() as u64);
        let example = removal_example(stage).filter(|_| is_short);
        let example = example.map(|example| format!(" ({example})")).unwrap_or_default();
        format!("{} removes {count}{example}", stage.constraint)
    });
    removed.collect::<Vec<_>>().join(", ")
}

/// Returns whether no workload unit has an instance or gets one.
fn selects_nothing(plan: &PlanResponse) -> bool {
    plan.complete && plan.workload_units.iter().all(|part| part.instances == 0 && part.changes.is_empty())
}

fn is_empty(plan: &PlanResponse) -> bool {
    plan.warnings.is_empty()
        && plan
            .workload_units
            .iter()
            .all(|part| part.changes.is_empty() && part.blocked.is_empty() && part.unplaced.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn document_of_apply_names_its_policy() {
        let document = json!({"kind": "policy", "name": "watch", "spec": {"label": "w"}});
        assert_eq!(named_policy(document), (Some("watch".to_owned()), json!({"label": "w"})));
        assert_eq!(named_policy(json!({"label": "w"})), (None, json!({"label": "w"})));
        assert_eq!(named_policy(json!({})), (None, json!({})));
    }

    #[test]
    fn plan_is_shown_like_a_difference() {
        let plan: PlanResponse = serde_json::from_value(json!({
            "policy": "plant/watch", "token": "0a1b", "complete": true, "units": [{
                "name": "all", "blocked": [{"slot": 4, "reason": "no node is left"}], "changes": [
                    {"action": "replace", "slot": 1, "from": "n1", "to": "n1", "reason": "another version is wanted"},
                    {"action": "move", "slot": 2, "from": "n2", "to": "other/n4", "reason": "its node is being drained"},
                    {"action": "create", "slot": 3, "to": "?", "reason": "more instances are wanted"},
                    {"action": "stop", "slot": "n5", "from": "n5", "reason": "the instance is no longer wanted"},
                ],
            }],
        }))
        .expect("a plan");
        let expected = "\
deployment policy plant/watch
  ~ replace slot 1 on n1: another version is wanted
  > move slot 2 from n2 to other/n4: its node is being drained
  + create slot 3 on ?: more instances are wanted
  - stop slot n5 on n5: the instance is no longer wanted
  ! slot 4 waits: no node is left
plan: 1 to create, 1 to replace, 1 to move, 0 to restart, 1 to stop
token: 0a1b
";
        assert_eq!(text(&plan, "advice"), expected);
    }

    #[test]
    fn plan_of_a_policy_without_a_node_names_the_constraint_and_its_reason() {
        let sequence = json!([{"constraint": "PlacementConstraint", "remaining": [], "eliminated": [
            {"node": "?", "reason": ""}, {"node": "n2", "reason": "zone == b is false"}]}]);
        let shown = |unplaced: Value| {
            let unit = json!({"name": "all", "blocked": [], "changes": [], "unplaced": unplaced,
                              "sequence": sequence});
            let plan = json!({"policy": "plant/watch", "token": "0a1b", "complete": true, "units": [unit]});
            text(&serde_json::from_value(plan).expect("a plan"), "see it")
        };
        let expected = "  nodes: PlacementConstraint removes 2 (n2: zone == b is false)\n";
        let of_every_node = shown(Value::Null);
        assert!(of_every_node.contains(expected), "{of_every_node}");
        let of_a_number = shown(json!("0 of 1 placed: PlacementConstraint removed 2"));
        assert!(of_a_number.contains(expected) && of_a_number.contains("  ! 0 of 1 placed"), "{of_a_number}");
    }

    #[test]
    fn plan_without_changes_says_so() {
        let plan: PlanResponse = serde_json::from_value(json!({
            "policy": "plant/watch", "token": "0a1b", "complete": true,
            "units": [{"name": "all", "blocked": [], "changes": []}],
        }))
        .expect("a plan");
        let shown = text(&plan, "see it");
        let expected = "deployment policy plant/watch
  there is nothing to do
  no instance is there or planned; if one is expected, see it
plan: 0 to create";
        assert!(shown.starts_with(expected), "{shown}");
    }
}
