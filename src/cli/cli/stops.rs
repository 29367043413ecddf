//! Report of the instances that a write stops, before it is sent, with a confirmation prompt if it stops all of
//! them. The numbers are those of the agbot's plans, which are made for each deployment policy.

use clap::Args;
use evenkeel_domain::policy::property::builtin::HA_GROUP;
use evenkeel_wire::agbot::plan::{PlanResponse, PlannedAction};
use serde_json::{Value, json};

use crate::confirm::confirm_by;
use crate::context::{Context, Exchange};
use crate::exchange::deployment::{EXCHANGE_ONLY, POLICIES, without};
use crate::exchange::service::SERVICES;
use crate::exit::Outcome;
use crate::output::note;

/// Policies in one question, at most.
const MOST_NAMED: usize = 5;
/// Plans that one write waits for, at most.
const MOST_PLANNED: usize = 100;

/// Asks whether everything is to stop, where `-f` names a file.
#[derive(Debug, Args)]
pub struct ForceOfFile {
    /// Do not ask when the write stops all instances
    #[arg(long)]
    force: bool,
}

/// Asks whether everything is to stop.
#[derive(Debug, Args)]
pub struct Force {
    /// Do not ask when the write stops all instances
    #[arg(short = 'f', long)]
    force: bool,
}

/// Permission to stop all instances, with the option that gives it.
#[derive(Debug, Clone, Copy)]
pub struct Confirmation {
    option: &'static str,
    is_given: bool,
}

impl ForceOfFile {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation { option: "--force", is_given: self.force }
    }
}

impl Force {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation { option: "-f", is_given: self.force }
    }
}

/// A write after which instances of a deployment policy may be wanted no more.
#[derive(Debug, Clone)]
pub struct PolicyWrite {
    policy: String,
    /// The policy as it is then; none when nothing of it is deployed any more.
    document: Option<Value>,
    /// False if the write may stop less than the plan of the document says.
    is_exact: bool,
}

impl PolicyWrite {
    /// Writes a policy.
    pub fn document(policy: &str, document: &Value) -> Self {
        Self { policy: policy.to_owned(), document: Some(document.clone()), is_exact: true }
    }

    /// Removes a policy.
    pub fn removal(policy: &str) -> Self {
        Self { policy: policy.to_owned(), document: None, is_exact: true }
    }

    /// Name of the policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Removes a service, of which nothing is deployed then; none for a policy that does not deploy it.
    fn service_removal(policy: &str, document: &Value, service: &Value) -> Option<Self> {
        let deployed = document.get("service")?;
        let is_same = |of_policy: &str, of_service: &str| deployed.get(of_policy) == service.get(of_service);
        let arch = deployed.get("arch").and_then(Value::as_str).unwrap_or_default();
        if !is_same("name", "url") || !is_same("org", "org") {
            return None;
        }
        if !["", "*"].contains(&arch) && !is_same("arch", "arch") {
            return None;
        }
        let versions = deployed.get("serviceVersions")?.as_array()?;
        let left: Vec<&Value> =
            versions.iter().filter(|one| one.get("version") != service.get("version")).collect();
        if left.len() == versions.len() {
            return None;
        }
        let after = (!left.is_empty()).then(|| {
            let mut after = document.clone();
            without(&mut after, &EXCHANGE_ONLY);
            after["service"]["serviceVersions"] = json!(left);
            after
        });
        Some(Self { policy: policy.to_owned(), document: after, is_exact: false })
    }

    /// Takes all nodes out of an HA group, as a constraint that excludes them; none for a policy that does not name the group.
    fn emptied_group(policy: &str, document: &Value, (group, is_removed): (&str, bool)) -> Option<Self> {
        let texts = |list: Option<&Value>| -> Vec<String> {
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut constraints = texts(document.get("constraints"));
        let is_of_names = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
        let names_group = |text: &str| text.split(|letter| !is_of_names(letter)).any(|word| word == group);
        let is_about = |text: &String| text.contains(HA_GROUP) && (names_group(text) || text.contains("!="));
        let scope = texts(document.pointer("/orchestration/scope/haGroups"));
        let is_named = |name: &String| ["*", group].contains(&name.rsplit('/').next().unwrap_or_default());
        if !constraints.iter().any(is_about) && (is_removed || !scope.iter().any(is_named)) {
            return None;
        }
        constraints.push(format!("{HA_GROUP} != \"{group}\""));
        let mut after = document.clone();
        without(&mut after, &EXCHANGE_ONLY);
        after["constraints"] = json!(constraints);
        Some(Self { policy: policy.to_owned(), document: Some(after), is_exact: false })
    }
}

/// Returns the writes that the departure of all nodes from an HA group amounts to, for the policies of the caller's organization. Where
/// the group is removed, what runs for a policy whose scope names it stays.
pub async fn emptied_group(exchange: &Exchange, name: &str, is_removed: bool) -> Vec<PolicyWrite> {
    let group = exchange.split(name).1;
    let write =
        |policy: &str, document: &Value| PolicyWrite::emptied_group(policy, document, (&group, is_removed));
    writes_to_policies(exchange, write).await
}

/// Returns the writes that the removal of a service amounts to, for the policies of the caller's organization.
pub async fn service_removal(exchange: &Exchange, name: &str) -> Vec<PolicyWrite> {
    let Ok(Some((name, service))) = SERVICES.find(exchange, name).await else { return Vec::new() };
    let mut service = service.into_value();
    service["org"] = Value::from(exchange.split(&name).0);
    writes_to_policies(exchange, |policy, document| PolicyWrite::service_removal(policy, document, &service))
        .await
}

/// Returns the writes that something else amounts to for the policies of the caller's organization.
///
/// Policies that cannot be read do not prevent it.
async fn writes_to_policies(
    exchange: &Exchange,
    write: impl Fn(&str, &Value) -> Option<PolicyWrite>,
) -> Vec<PolicyWrite> {
    match POLICIES.read(exchange, None).await {
        Ok(policies) => {
            let policies = policies.into_iter();
            policies.filter_map(|(policy, document)| write(&policy, document.as_value())).collect()
        }
        Err(error) => {
            note(format!("the instances that this stops are not counted: {error}"));
            Vec::new()
        }
    }
}

/// Shows how many instances of each policy the writes stop, and returns the policies of which they stop all.
///
/// An agbot that cannot plan does not prevent a write.
pub async fn show_stops(context: &Context, exchange: &Exchange, writes: &[PolicyWrite]) -> Vec<String> {
    let mut ended = Vec::new();
    if writes.is_empty() {
        return ended;
    }
    let Ok(agbot) = context.agbot(exchange) else { return ended };
    if let Some(others) = writes.len().checked_sub(MOST_PLANNED).filter(|others| *others > 0) {
        note(format!("{others} more deployment policies may be affected: their instances are not counted"));
    }
    for write in writes.iter().take(MOST_PLANNED) {
        let (org, id) = exchange.split(&write.policy);
        let planned = agbot.client.plan_deployment_policy(&org, &id, write.document.as_ref()).await;
        let Ok(Some(plan)) = planned else { continue };
        let (stopped, instances) = counts(&plan, write);
        if stopped == 0 {
            continue;
        }
        let most = if write.is_exact { "" } else { "at most " };
        note(format!(
            "this write stops {most}{stopped} of {instances} instances of deployment policy {org}/{id}"
        ));
        if stopped >= instances {
            ended.push(format!("{org}/{id}"));
        }
    }
    ended
}

/// Shows how many instances writes stop, and asks for confirmation when these are all of a policy; false when it
/// is denied.
///
/// # Errors
/// With status 1 when there is no terminal to confirm on.
pub async fn confirm_stops(
    context: &Context,
    exchange: &Exchange,
    writes: &[PolicyWrite],
    confirmation: Confirmation,
) -> Outcome<bool> {
    let ended = show_stops(context, exchange, writes).await;
    if ended.is_empty() {
        return Ok(true);
    }
    let question = format!("Stop all instances of {}?", listed(&ended));
    let is_confirmed =
        confirm_by(confirmation.option, &question, confirmation.is_given || exchange.server.is_dry_run)?;
    if !is_confirmed {
        note("nothing was written");
    }
    Ok(is_confirmed)
}

/// Lists the first names and the number of the others.
fn listed(policies: &[String]) -> String {
    let named = policies.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match policies.len().saturating_sub(MOST_NAMED) {
        0 => named,
        others => format!("{named} and {others} more policies"),
    }
}

/// Returns the number of instances that stop without a replacement, and of all.
fn counts(plan: &PlanResponse, write: &PolicyWrite) -> (u64, u64) {
    let instances = plan.workload_units.iter().map(|unit| unit.instances).sum();
    if write.document.is_none() {
        return (instances, instances);
    }
    let changes = plan.workload_units.iter().flat_map(|unit| &unit.changes);
    let stopped = changes.filter(|change| change.action == PlannedAction::Stop).count();
    // The gates that hold up the rest may be those of the group that loses its nodes.
    let held = plan.workload_units.iter().map(|unit| unit.blocked.len()).sum::<usize>();
    let most = if write.is_exact { stopped } else { stopped + held };
    ((most as u64).min(instances), instances)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(arch: &str, versions: &[&str]) -> Value {
        let versions: Vec<Value> = versions.iter().map(|version| json!({"version": version})).collect();
        json!({"owner": "o/u", "label": "p", "service": {"name": "s", "org": "o", "arch": arch, "serviceVersions": versions}})
    }

    #[test]
    fn removal_of_a_service_concerns_the_policies_that_deploy_it() {
        let service = json!({"url": "s", "org": "o", "version": "1.0.0", "arch": "amd64"});
        let after = |document: &Value| {
            PolicyWrite::service_removal("o/p", document, &service).map(|write| write.document)
        };
        assert_eq!(after(&policy("*", &["1.0.0"])), Some(None), "nothing is left to deploy");
        assert_eq!(after(&policy("amd64", &["1.0.0"])), Some(None));
        let left = after(&policy("", &["1.0.0", "2.0.0"])).flatten().expect("a version is left");
        assert_eq!(left["service"]["serviceVersions"], json!([{"version": "2.0.0"}]));
        assert_eq!(left.get("owner"), None, "only the exchange sets it");
        assert_eq!(after(&policy("arm64", &["1.0.0"])), None);
        assert_eq!(after(&policy("*", &["2.0.0"])), None);
        let other = json!({"service": {"name": "s", "org": "p", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]}});
        assert_eq!(after(&other), None);
    }

    #[test]
    fn emptied_group_concerns_the_policies_that_name_it() {
        let after = |document: Value, is_removed: bool| {
            let write = PolicyWrite::emptied_group("o/p", &document, ("g", is_removed))?;
            Some(write.document.expect("the policy is still there")["constraints"].clone())
        };
        let excluded = "openhorizon.hagroup != \"g\"";
        for (constraint, is_about) in [
            ("openhorizon.hagroup == g", true),
            ("openhorizon.hagroup != none", true),
            ("openhorizon.hagroup == line", false),
            ("site == g", false),
        ] {
            let expected = is_about.then(|| json!([constraint, excluded]));
            assert_eq!(after(json!({"constraints": [constraint]}), true), expected, "{constraint}");
        }
        for name in ["g", "o/g", "*"] {
            let scoped = json!({"orchestration": {"scope": {"type": "hagroups", "haGroups": [name]}}});
            assert_eq!(after(scoped.clone(), false), Some(json!([excluded])), "{name}");
            assert_eq!(after(scoped, true), None, "what runs stays when the group is removed");
        }
    }

    #[test]
    fn question_names_some_policies_and_counts_the_others() {
        let names: Vec<String> = (1..=7).map(|number| format!("o/p{number}")).collect();
        assert_eq!(listed(&names[..1]), "o/p1");
        assert_eq!(listed(&names), "o/p1, o/p2, o/p3, o/p4, o/p5 and 2 more policies");
    }

    #[test]
    fn only_instances_without_a_replacement_are_counted() {
        let change = |action: &str, slot: u32| json!({"action": action, "slot": slot, "reason": "r"});
        let plan = json!({
            "policy": "o/p", "token": "t", "complete": true,
            "units": [
                {"name": "a", "instances": 2, "blocked": [], "changes": [change("stop", 1), change("move", 2)]},
                {"name": "b", "instances": 1, "blocked": [{"slot": 1, "reason": "r"}], "changes": [change("stop", 1)]},
            ],
        });
        let plan = serde_json::from_value(plan).expect("a plan");
        assert_eq!(counts(&plan, &PolicyWrite::document("o/p", &json!({}))), (2, 3));
        assert_eq!(counts(&plan, &PolicyWrite::removal("o/p")), (3, 3));
        let mut emptied = PolicyWrite::document("o/p", &json!({}));
        emptied.is_exact = false;
        assert_eq!(counts(&plan, &emptied), (3, 3), "a gate holds up one");
    }
}
